/* Updates in one pass, and the parts of the gradient norm: the IEEE operations of
 * exec/device/cpu/optimizer.c in their order, none contracted. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"
#include "exec/operators/dynamic8.h"

#include <string.h>

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

/* --- moments in 8 bits ----------------------------------------------------------------------- */

#define KEPT MW_DYNAMIC8_BLOCK
#define KEPT_EACH (KEPT / MW_THREADS) /* a thread's, neighbours in its block of moments */

MW_DEVICE uint32_t
bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Bits of a magnitude above those of where it is, so that of several the first is the most; the
 * sign last. */
MW_DEVICE unsigned long long
rank_of(float x, int at)
{
    uint32_t bits = bits_of(x), place = (unsigned)(KEPT - 1 - at);

    return (unsigned long long)(bits & 0x7fffffff) << 32 | place << 1 | bits >> 31;
}

MW_DEVICE float
of_rank(unsigned long long rank)
{
    return __uint_as_float((uint32_t)(rank >> 32) | (uint32_t)rank << 31);
}

/* How many middles lie below, by halves. */
MW_DEVICE int
codes_below(const float *middles, float magnitude)
{
    int code = 0;

    for (int step = MW_DYNAMIC8_CODES / 2; step > 0; step /= 2)
        code += middles[code + step - 1] < magnitude ? step : 0;
    return code;
}

MW_DEVICE uint32_t
code_of(const struct mw_dynamic8_codes &of, const float *middles, float x)
{
    uint32_t bits = bits_of(x), size = bits & 0x7fffffff;
    int code = size ? codes_below(middles, __uint_as_float(size)) : 0;

    code = size && code < of.least ? of.least : code;
    return (uint8_t)(bits >> 31 ? -min(code, of.largest - 1) : code);
}

/* What all threads of a block have the most of. */
MW_DEVICE unsigned long long
most_of_block(unsigned long long *most, unsigned long long mine)
{
    __syncthreads(); /* it may be in use */
    most[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = MW_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && most[threadIdx.x + half] > most[threadIdx.x])
            most[threadIdx.x] = most[threadIdx.x + half];
        __syncthreads();
    }
    return most[0];
}

/* The element of largest magnitude among those of all threads of a block. */
MW_DEVICE float
scale_of_block(const float (&x)[KEPT_EACH], unsigned long long *most)
{
    unsigned long long mine = 0;

    for (int k = 0; k < KEPT_EACH; k++) {
        unsigned long long rank = rank_of(x[k], KEPT_EACH * (int)threadIdx.x + k);
        mine = rank > mine ? rank : mine;
    }
    return of_rank(most_of_block(most, mine));
}

/* Each thread of a block has a code. */
MW_DEVICE void
fill_tables(float *values, float *middles, const struct mw_dynamic8_codes &of)
{
    int code = (int)threadIdx.x;

    values[code] = of.values[code];
    middles[code] = MW_DYNAMIC8_MIDDLE(of, code);
}

/* Blocks lie at multiples of 4 bytes: a thread's codes are two words. */
MW_DEVICE void
widen_block(float (&x)[KEPT_EACH], const uint8_t *block, const float *values)
{
    const uint32_t *words = (const uint32_t *)block + 2 * threadIdx.x;
    float scale = *(const float *)(block + KEPT);

    for (int k = 0; k < KEPT_EACH; k++)
        x[k] = __fmul_rn(values[words[k / 4] >> 8 * (k % 4) & 0xff], scale);
}

MW_DEVICE void
narrow_block(uint8_t *block, const float (&x)[KEPT_EACH], const struct mw_dynamic8_codes &of,
             const float *middles, unsigned long long *most)
{
    float scale = scale_of_block(x, most), inverse = __fdiv_rn(1.0f, scale);
    uint32_t size = bits_of(scale) & 0x7fffffff, words[2] = {0, 0};

    if (size < 0x7f800000 && (bits_of(inverse) & 0x7fffffff) == 0x7f800000)
        size = 0, scale = 0.0f; /* too small to divide by */
    bool normal = size >= 0x00800000 && size < 0x7f800000;
    for (int k = 0; normal && k < KEPT_EACH; k++)
        words[k / 4] |= code_of(of, middles, __fmul_rn(x[k], inverse)) << 8 * (k % 4);
    for (int k = 0; k < 2; k++)
        ((uint32_t *)block)[2 * threadIdx.x + k] = words[k];
    if (threadIdx.x == 0)
        *(float *)(block + KEPT) = scale;
}

/* A block takes a block of moments; the tables are looked up in shared memory. */
__global__ void
narrow_dynamic8(uint8_t *blocks, const float *x, struct mw_dynamic8_codes of, int64_t n, bool wide)
{
    MW_SHARED(float, values, [MW_DYNAMIC8_CODES]);
    MW_SHARED(float, middles, [MW_DYNAMIC8_CODES]);
    MW_SHARED(unsigned long long, most, [MW_THREADS]);
    int64_t first = mw_first_element<KEPT_EACH>();
    float v[KEPT_EACH];

    fill_tables(values, middles, of);
    mw_load(v, x + first, n - first, wide);
    narrow_block(blocks + (int64_t)blockIdx.x * MW_DYNAMIC8_BYTES, v, of, middles, most);
}

__global__ void
widen_dynamic8(float *out, const uint8_t *blocks, struct mw_dynamic8_codes of, int64_t first,
               int64_t n)
{
    MW_SHARED(float, values, [MW_DYNAMIC8_CODES]);
    int64_t i = mw_first_element<1>(), at = first + i;

    values[threadIdx.x] = of.values[threadIdx.x];
    __syncthreads();
    if (i >= n)
        return;
    const uint8_t *block = blocks + at / KEPT * MW_DYNAMIC8_BYTES;
    out[i] = __fmul_rn(values[block[at % KEPT]], *(const float *)(block + KEPT));
}

/* --- updates of moments in fewer bits -------------------------------------------------------- */

/* Whether an element decays. */
MW_DEVICE bool
is_in(const struct mw_update_spans &spans, int64_t i)
{
    int before = 0;

    while (before < spans.count && spans.ends[before] <= i)
        before++;
    return before % 2;
}

/* A thread's elements from i on, of which there are n. */
template <int N>
MW_DEVICE void
update_some(struct mw_update_step step, const struct mw_update_spans &decaying,
            const struct state &s, int64_t i, float (&m)[N], float (&v)[N])
{
    int64_t n = s.n - i;
    float w[N], grad[N], decay = step.decay, weight_decay = step.weight_decay;

    mw_load(w, s.w + i, n, s.wide);
    mw_load_either(grad, s.grad, s.fp32, i, n, s.wide);
    for (int k = 0; k < N; k++) {
        bool decays = is_in(decaying, i + k);
        step.decay = decays ? decay : 1.0f;
        step.weight_decay = decays ? weight_decay : 0.0f;
        update_one(step, &w[k], &m[k], &v[k], grad[k]);
    }
    mw_store(s.w + i, w, n, s.wide);
    if (s.param)
        mw_store(s.param + i, w, n, s.wide);
}

/* A moment, whatever the type of halves. */
struct bf16 {
    uint16_t bits;
};

MW_DEVICE float
mw_value(struct bf16 x)
{
    return mw_bf16_to_float(x.bits);
}

MW_DEVICE void
mw_put(struct bf16 *to, float x)
{
    to->bits = mw_float_to_bf16(x);
}

__global__ void
update_bf16(struct mw_update_step step, struct mw_update_spans decaying, struct state s,
            struct bf16 *kept_m, struct bf16 *kept_v)
{
    int64_t i = mw_first_element<TAKEN>(), n = s.n - i;
    float m[TAKEN], v[TAKEN];

    mw_load(m, kept_m + i, n, s.wide);
    mw_load(v, kept_v + i, n, s.wide);
    update_some(step, decaying, s, i, m, v);
    mw_store(kept_m + i, m, n, s.wide);
    mw_store(kept_v + i, v, n, s.wide);
}

/* A block takes a block of moments. */
__global__ void
update_dynamic8(struct mw_update_step step, struct mw_update_spans decaying, struct state s,
                uint8_t *kept_m, uint8_t *kept_v, struct mw_dynamic8_codes of_m,
                struct mw_dynamic8_codes of_v)
{
    MW_SHARED(float, values_m, [MW_DYNAMIC8_CODES]);
    MW_SHARED(float, values_v, [MW_DYNAMIC8_CODES]);
    MW_SHARED(float, middles_m, [MW_DYNAMIC8_CODES]);
    MW_SHARED(float, middles_v, [MW_DYNAMIC8_CODES]);
    MW_SHARED(unsigned long long, most, [MW_THREADS]);
    int64_t at = (int64_t)blockIdx.x * MW_DYNAMIC8_BYTES;
    float m[KEPT_EACH], v[KEPT_EACH];

    fill_tables(values_m, middles_m, of_m);
    fill_tables(values_v, middles_v, of_v);
    __syncthreads();
    widen_block(m, kept_m + at, values_m);
    widen_block(v, kept_v + at, values_v);
    int64_t i = mw_first_element<KEPT_EACH>();
    update_some(step, decaying, s, i, m, v);
    for (int k = 0; k < KEPT_EACH; k++)
        if (i + k >= s.n)
            m[k] = v[k] = 0.0f;
    narrow_block(kept_m + at, m, of_m, middles_m, most);
    narrow_block(kept_v + at, v, of_v, middles_v, most);
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
MW_CUDA(update_narrow)(void *stream, const struct mw_update_step *step,
                       const struct mw_update_spans *decaying, float *w,
                       const struct mw_narrow_moments *moments, uint16_t *param, const void *grad,
                       bool grad_fp32, int64_t n)
{
    void *m = moments->m, *v = moments->v;
    bool blocks = moments->m_codes != NULL;
    int halves = blocks ? 16 : 8; /* bytes of a thread's halves */
    bool wide = mw_aligned(16, w) && mw_aligned(halves, param) &&
                mw_aligned(grad_fp32 ? 16 : halves, grad) && (blocks || mw_aligned(8, m, v));
    struct state s = {w, NULL, NULL, param, grad, grad_fp32, n, wide};

    if (n <= 0)
        return 0;
    if (blocks)
        MW_LAUNCH(update_dynamic8, mw_blocks(n, KEPT_EACH), MW_THREADS, 0, stream, *step,
                  *decaying, s, (uint8_t *)m, (uint8_t *)v, moments->m_codes->codes,
                  moments->v_codes->codes);
    else
        MW_LAUNCH(update_bf16, mw_blocks(n, TAKEN), MW_THREADS, 0, stream, *step, *decaying, s,
                  (struct bf16 *)m, (struct bf16 *)v);
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

int
MW_CUDA(narrow_dynamic8)(void *stream, void *blocks, const float *x, const struct mw_dynamic8 *of,
                         int64_t n)
{
    if (n > 0)
        MW_LAUNCH(narrow_dynamic8, mw_blocks(n, KEPT_EACH), MW_THREADS, 0, stream,
                  (uint8_t *)blocks, x, of->codes, n, mw_aligned(16, x));
    return cudaGetLastError();
}

int
MW_CUDA(widen_dynamic8)(void *stream, float *out, const void *blocks, const struct mw_dynamic8 *of,
                        int64_t first, int64_t n)
{
    MW_LAUNCH(widen_dynamic8, mw_blocks(n, 1), MW_THREADS, 0, stream, out, (const uint8_t *)blocks,
              of->codes, first, n);
    return cudaGetLastError();
}
