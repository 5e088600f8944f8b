/* Updates in one pass, and the parts of the gradient norm: the IEEE operations of
 * exec/device/cpu/optimizer.c in their order, none contracted. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"

#define TAKEN 4 /* elements of a thread: 16 bytes of fp32 */

namespace
{

struct state {
    float *w, *m, *v;
    uint16_t *param;
    const void *grad;
    bool fp32;
    int64_t n;
    bool wide;
};

/* 1, -1, or 0 where x is 0, or NaN. */
MW_DEVICE float
sign(float x)
{
    return (float)(x > 0.0f) - (float)(x < 0.0f);
}

MW_DEVICE void
adamw(const struct mw_update_step &s, float *w, float *m, float *v, float g)
{
    *m = __fadd_rn(__fmul_rn(s.beta1, *m), __fmul_rn(s.one_minus_beta1, g));
    *v = __fadd_rn(__fmul_rn(s.beta2, *v), __fmul_rn(s.one_minus_beta2, __fmul_rn(g, g)));
    float root = __fadd_rn(__fmul_rn(__fsqrt_rn(*v), s.v_scale), s.eps);
    float step = __fmul_rn(s.lr, __fdiv_rn(*m, root));
    *w = __fsub_rn(__fmul_rn(*w, s.decay), step);
}

MW_DEVICE void
sgd(const struct mw_update_step &s, float *w, float *m, float g)
{
    g = __fadd_rn(g, __fmul_rn(s.weight_decay, *w));
    if (s.rule == MW_UPDATE_MOMENTUM)
        g = *m = __fadd_rn(__fmul_rn(s.beta1, *m), g);
    *w = __fsub_rn(*w, __fmul_rn(s.lr, g));
}

MW_DEVICE void
lion(const struct mw_update_step &s, float *w, float *m, float g)
{
    float c = __fadd_rn(__fmul_rn(s.beta1, *m), __fmul_rn(s.one_minus_beta1, g));

    *m = __fadd_rn(__fmul_rn(s.beta2, *m), __fmul_rn(s.one_minus_beta2, g));
    *w = __fsub_rn(__fmul_rn(*w, s.decay), __fmul_rn(s.lr, sign(c)));
}

MW_DEVICE void
update_one(const struct mw_update_step &s, float *w, float *m, float *v, float grad)
{
    float g = __fmul_rn(grad, s.grad_scale);

    if (s.rule == MW_UPDATE_ADAMW)
        adamw(s, w, m, v, g);
    else if (s.rule == MW_UPDATE_LION)
        lion(s, w, m, g);
    else
        sgd(s, w, m, g);
}

/* m and v only where the rule has them. */
__global__ void
update(struct mw_update_step step, struct state s)
{
    int64_t i = mw_first_element<TAKEN>(), n = s.n - i;
    float w[TAKEN], m[TAKEN] = {0}, v[TAKEN] = {0}, grad[TAKEN];

    mw_load(w, s.w + i, n, s.wide);
    if (s.m)
        mw_load(m, s.m + i, n, s.wide);
    if (s.v)
        mw_load(v, s.v + i, n, s.wide);
    mw_load_either(grad, s.grad, s.fp32, i, n, s.wide);
    for (int k = 0; k < TAKEN; k++)
        update_one(step, &w[k], &m[k], &v[k], grad[k]);
    mw_store(s.w + i, w, n, s.wide);
    if (s.m)
        mw_store(s.m + i, m, n, s.wide);
    if (s.v)
        mw_store(s.v + i, v, n, s.wide);
    if (s.param)
        mw_store(s.param + i, w, n, s.wide);
}

/* --- norm ------------------------------------------------------------------------------------ */

#define LANES MW_NORM_LANES
#define SPANS (MW_NORM_BLOCK / MW_NORM_SPAN)

/* A lane's elements of a span, in order.  Squares of fp32 are exact in fp64: that they are not
 * rounded before they are added changes nothing. */
template <typename T>
MW_DEVICE double
lane_squares(const T *grad, int64_t first, int64_t end)
{
    double sum = 0.0;

#pragma unroll 16 /* loads in flight at once */
    for (int64_t i = first; i < end; i += LANES) {
        double x = (double)mw_value(grad[i]);
        sum = __fma_rn(x, x, sum);
    }
    return sum;
}

/* The sums of a span's lanes: i and i + 8 first. */
MW_DEVICE double
span_squares(const double *lane)
{
    double sum = 0.0;

    for (int i = 0; i < LANES / 2; i++)
        sum += lane[i] + lane[i + LANES / 2];
    return sum;
}

/* A block takes a block of the norm, a thread a lane of a span. */
template <typename T>
__global__ void
square_sums(double *partial, const T *grad, int64_t n)
{
    MW_SHARED(double, lane, [SPANS * LANES]);
    MW_SHARED(double, span, [SPANS]);
    int thread = (int)threadIdx.x;
    int64_t first = (int64_t)blockIdx.x * MW_NORM_BLOCK + (int64_t)(thread / LANES) * MW_NORM_SPAN;
    int64_t end = first + MW_NORM_SPAN < n ? first + MW_NORM_SPAN : n;

    lane[thread] = lane_squares(grad, first + thread % LANES, end);
    __syncthreads();
    if (thread < SPANS)
        span[thread] = span_squares(lane + thread * LANES);
    __syncthreads();
    if (thread > 0)
        return;
    double sum = 0.0;
    for (int i = 0; i < SPANS; i++)
        sum += span[i];
    partial[blockIdx.x] = sum;
}

} // namespace

int
MW_CUDA(update)(void *stream, const struct mw_update_step *step, float *w, float *m, float *v,
               uint16_t *param, const void *grad, bool grad_fp32, int64_t n)
{
    bool wide =
        mw_aligned(16, w, m, v) && mw_aligned(8, param) && mw_aligned(grad_fp32 ? 16 : 8, grad);
    float *moment = step->rule == MW_UPDATE_SGD ? NULL : m;
    float *variance = step->rule == MW_UPDATE_ADAMW ? v : NULL;
    struct state s = {w, moment, variance, param, grad, grad_fp32, n, wide};

    MW_LAUNCH(update, mw_blocks(n, TAKEN), MW_THREADS, 0, stream, *step, s);
    return cudaGetLastError();
}

int
MW_CUDA(square_sums)(void *stream, double *partial, const void *grad, bool grad_fp32, int64_t n)
{
    unsigned blocks = (unsigned)mw_norm_blocks(n), threads = SPANS * LANES;

    if (!blocks)
        return 0;
    if (grad_fp32)
        MW_LAUNCH(square_sums<float>, blocks, threads, 0, stream, partial, (const float *)grad, n);
    else
        MW_LAUNCH(square_sums<uint16_t>, blocks, threads, 0, stream, partial,
                  (const uint16_t *)grad, n);
    return cudaGetLastError();
}
