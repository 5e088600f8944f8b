/* Softmax and cross-entropy: a block takes a row of logits, which it reads twice: for the maximum
 * and the sum of exponentials at once, and to write the gradient. */
#include <float.h>

#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/reduce.cuh"

#define ROW_THREADS 512
#define SUM_THREADS 1024

namespace
{

struct loss {
    uint16_t *dlogits;
    int64_t ld_dlogits;
    double *row_loss;
    const void *logits;
    bool fp32;
    int64_t ld;
    const int32_t *targets;
    int64_t vocab;
    float scale;
    bool wide;
};

/* sum exp(x - max) of the values so far.  -FLT_MAX stands for no value yet: an infinity would give
 * NaNs where logits are -infinity. */
struct online {
    float max, sum;
};

MW_DEVICE void
see(struct online *seen, const float (&v)[MW_GROUP], int64_t n)
{
    float max = seen->max;

    for (int k = 0; k < MW_GROUP; k++)
        max = k < n ? fmaxf(max, v[k]) : max;
    seen->sum *= __expf(seen->max - max);
    seen->max = max;
    for (int k = 0; k < MW_GROUP; k++)
        seen->sum += k < n ? __expf(v[k] - max) : 0.0f;
}

/* Of the whole row, the same in all threads. */
MW_DEVICE struct online
see_row(const struct loss &s, int64_t row)
{
    struct online seen = {-FLT_MAX, 0.0f};

    for (int64_t i = MW_GROUP * threadIdx.x; i < s.vocab; i += MW_GROUP * blockDim.x) {
        float v[MW_GROUP];
        mw_load_either(v, s.logits, s.fp32, row * s.ld + i, s.vocab - i, s.wide);
        see(&seen, v, s.vocab - i);
    }
    float max = mw_block_max(seen.max);
    float sum = mw_block_sum(seen.sum * __expf(seen.max - max));
    return {max, sum};
}

/* The row's gradient, and 0 after it.  The block works from the front, and if logits are fp32 in
 * the same memory, all threads have read before one writes. */
MW_DEVICE void
put_gradient(const struct loss &s, int64_t row, struct online seen, float at_target,
             int32_t target)
{
    float factor = s.scale / seen.sum, probability = __expf(at_target - seen.max) / seen.sum;

    for (int64_t first = 0; first < s.ld_dlogits; first += MW_GROUP * blockDim.x) {
        int64_t i = first + MW_GROUP * threadIdx.x;
        float v[MW_GROUP];
        mw_load_either(v, s.logits, s.fp32, row * s.ld + i, s.vocab - i, s.wide);
        if (s.fp32)
            __syncthreads();
        for (int k = 0; k < MW_GROUP; k++) {
            v[k] = i + k < s.vocab ? factor * __expf(v[k] - seen.max) : 0.0f;
            if (i + k == target)
                v[k] = s.scale * (probability - 1.0f);
        }
        mw_store(s.dlogits + row * s.ld_dlogits + i, v, s.ld_dlogits - i, s.wide);
    }
}

MW_DEVICE void
clear_gradient(const struct loss &s, int64_t row)
{
    const float zero[MW_GROUP] = {0.0f};

    for (int64_t i = MW_GROUP * threadIdx.x; i < s.ld_dlogits; i += MW_GROUP * blockDim.x)
        mw_store(s.dlogits + row * s.ld_dlogits + i, zero, s.ld_dlogits - i, s.wide);
}

__global__ void
__launch_bounds__(ROW_THREADS) row_losses(struct loss s)
{
    int64_t row = blockIdx.x;
    float at_target[1];

    if (s.targets[row] == -1) {
        if (threadIdx.x == 0)
            s.row_loss[row] = 0.0;
        if (s.dlogits)
            clear_gradient(s, row);
        return;
    }
    mw_load_either(at_target, s.logits, s.fp32, row * s.ld + s.targets[row], 1, true);
    struct online seen = see_row(s, row); /* all threads have read before one writes */
    if (threadIdx.x == 0)
        s.row_loss[row] = log((double)seen.sum) + (double)seen.max - (double)at_target[0];
    if (s.dlogits)
        put_gradient(s, row, seen, at_target[0], s.targets[row]);
}

__global__ void
__launch_bounds__(SUM_THREADS) add_losses(double *loss, const double *row_loss, int64_t rows)
{
    double sum = 0.0;

    for (int64_t r = threadIdx.x; r < rows; r += blockDim.x)
        sum += row_loss[r];
    sum = mw_block_sum(sum);
    if (threadIdx.x == 0)
        *loss += sum;
}

/* --- slices of the vocabulary ---------------------------------------------------------------- */

__global__ void
__launch_bounds__(ROW_THREADS) slice_sums(struct loss s, float *sums, int32_t first)
{
    int64_t row = blockIdx.x, at = (int64_t)s.targets[row] - first;
    struct online seen = see_row(s, row);
    float at_target[1] = {0.0f};

    if (threadIdx.x)
        return;
    if (at >= 0 && at < s.vocab)
        mw_load_either(at_target, s.logits, s.fp32, row * s.ld + at, 1, true);
    sums[3 * row] = seen.max;
    sums[3 * row + 1] = seen.sum;
    sums[3 * row + 2] = at_target[0];
}

/* What all slices have seen of a row, in their order; the target's logit in `at_target`. */
MW_DEVICE struct online
join_slices(const float *sums, int64_t slices, int64_t stride, float *at_target)
{
    struct online all = {-FLT_MAX, 0.0f};

    *at_target = 0.0f;
    for (int64_t i = 0; i < slices; i++)
        all.max = fmaxf(all.max, sums[i * stride]);
    for (int64_t i = 0; i < slices; i++) {
        all.sum += sums[i * stride + 1] * __expf(sums[i * stride] - all.max);
        *at_target += sums[i * stride + 2];
    }
    return all;
}

__global__ void
__launch_bounds__(ROW_THREADS)
    slice_losses(struct loss s, const float *sums, int64_t slices, int64_t rows, int32_t first)
{
    int64_t row = blockIdx.x;
    float at_target;

    if (s.targets[row] == -1) {
        if (threadIdx.x == 0)
            s.row_loss[row] = 0.0;
        clear_gradient(s, row);
        return;
    }
    struct online all = join_slices(sums + 3 * row, slices, 3 * rows, &at_target);
    if (threadIdx.x == 0)
        s.row_loss[row] = log((double)all.sum) + (double)all.max - (double)at_target;
    int64_t target = (int64_t)s.targets[row] - first;
    bool has = target >= 0 && target < s.vocab;
    put_gradient(s, row, all, at_target, has ? (int32_t)target : -1);
}

} // namespace

int
MW_CUDA(slice_entropy_sums)(void *stream, float *sums, const uint16_t *logits, int64_t ld_logits,
                            const int32_t *targets, int64_t rows, int64_t vocab, int32_t first)
{
    bool wide = mw_aligned(16, logits) && ld_logits % MW_GROUP == 0;
    struct loss s = {NULL, 0, NULL, logits, false, ld_logits, targets, vocab, 0.0f, wide};

    if (!rows)
        return 0;
    MW_LAUNCH(slice_sums, (unsigned)rows, ROW_THREADS, 0, stream, s, sums, first);
    return cudaGetLastError();
}

int
MW_CUDA(slice_entropy)(void *stream, double *loss, double *row_loss, uint16_t *logits,
                       int64_t ld_logits, const float *sums, int64_t slices,
                       const int32_t *targets, int64_t rows, int64_t vocab, int32_t first,
                       float scale)
{
    bool wide = mw_aligned(16, logits) && ld_logits % MW_GROUP == 0;
    struct loss s = {logits,    ld_logits, row_loss, logits, false,
                     ld_logits, targets,   vocab,    scale,  wide};

    if (!rows)
        return 0;
    MW_LAUNCH(slice_losses, (unsigned)rows, ROW_THREADS, 0, stream, s, sums, slices, rows, first);
    if (loss)
        MW_LAUNCH(add_losses, 1, SUM_THREADS, 0, stream, loss, row_loss, rows);
    return cudaGetLastError();
}

int
MW_CUDA(cross_entropy)(void *stream, double *loss, double *row_loss, uint16_t *dlogits,
                       int64_t ld_dlogits, const void *logits, bool logits_fp32, int64_t ld_logits,
                       const int32_t *targets, int64_t rows, int64_t vocab, float scale)
{
    bool wide = mw_aligned(16, dlogits, logits) && ld_logits % MW_GROUP == 0 &&
                (!dlogits || ld_dlogits % MW_GROUP == 0);
    struct loss s = {dlogits,   ld_dlogits, row_loss, logits, logits_fp32,
                     ld_logits, targets,    vocab,    scale,  wide};

    if (!rows)
        return 0;
    MW_LAUNCH(row_losses, (unsigned)rows, ROW_THREADS, 0, stream, s);
    MW_LAUNCH(add_losses, 1, SUM_THREADS, 0, stream, loss, row_loss, rows);
    return cudaGetLastError();
}
