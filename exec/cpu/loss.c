/* Softmax and cross-entropy over rows of logits, with the gradient in the same pass. */
#include "exec/cpu/isa.h"
#include "exec/cpu/vector.h"
#include "exec/cpu/vector_math.h"

#include <math.h>

/* Logits [i, i + 16) of a row, -infinity beyond its end. */
MW_INLINE mw_f32x16
logit_lanes(const void *row, bool fp32, int64_t i, int64_t vocab)
{
    if (i + MW_LANES <= vocab)
        return fp32 ? mw_load((const float *)row + i) : mw_load_half((const uint16_t *)row + i);
    mw_f32x16 v = fp32 ? mw_load_some((const float *)row + i, vocab - i)
                       : mw_load_half_some((const uint16_t *)row + i, vocab - i);
    for (int64_t lane = vocab - i; lane < MW_LANES; lane++)
        v[lane] = -INFINITY;
    return v;
}

static float
row_max(const void *row, bool fp32, int64_t vocab)
{
    mw_f32x16 max = mw_splat(-INFINITY);
    for (int64_t i = 0; i < vocab; i += MW_LANES)
        max = mw_max(logit_lanes(row, fp32, i, vocab), max);
    return mw_max_lane(max);
}

/* Sum of exp(x - max): fp32 over a few thousand, fp64 beyond. */
static double
row_sum(const void *row, bool fp32, int64_t vocab, float max)
{
    double total = 0.0;
    for (int64_t i = 0; i < vocab;) {
        mw_f32x16 sum = {0};
        for (int64_t end = i + 4096; i < vocab && i < end; i += MW_LANES)
            sum += mw_exp(logit_lanes(row, fp32, i, vocab) - max);
        total += (double)mw_sum(sum);
    }
    return total;
}

/* From the front: where logits are fp32 in the same memory, lanes are read before they are
 * overwritten. */
static void
put_gradient(uint16_t *d, const void *row, bool fp32, int64_t vocab, float max, float factor)
{
    int64_t i = 0;
    for (; i + MW_LANES <= vocab; i += MW_LANES)
        mw_store_half(d + i, factor * mw_exp(logit_lanes(row, fp32, i, vocab) - max));
    if (i < vocab)
        mw_store_half_some(d + i, factor * mw_exp(logit_lanes(row, fp32, i, vocab) - max),
                           vocab - i);
}

static void
put_target(uint16_t *d, float probability, float scale)
{
    mw_f32x16 v = mw_splat(scale * (probability - 1.0f));
    mw_store_half_some(d, v, 1);
}

static float
logit(const void *row, bool fp32, int64_t i)
{
    return fp32 ? ((const float *)row)[i] : mw_load_half_some((const uint16_t *)row + i, 1)[0];
}

static double
row_entropy(uint16_t *d, const void *row, bool fp32, int32_t target, int64_t vocab, float scale)
{
    float max = row_max(row, fp32, vocab);
    double sum = row_sum(row, fp32, vocab, max);
    float at_target = logit(row, fp32, target);
    if (d != NULL) {
        float probability = (float)(exp((double)at_target - (double)max) / sum);
        put_gradient(d, row, fp32, vocab, max, (float)(scale / sum));
        put_target(d + target, probability, scale);
    }
    return log(sum) + (double)max - (double)at_target;
}

double
MW_CPU(cross_entropy)(uint16_t *dlogits, int64_t ld_dlogits, double *row_loss, const void *logits,
                      bool logits_fp32, int64_t ld_logits, const int32_t *targets, int64_t rows,
                      int64_t vocab, float scale)
{
    int64_t row_bytes = ld_logits * (int64_t)(logits_fp32 ? sizeof(float) : sizeof(uint16_t));
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        uint16_t *d = dlogits != NULL ? dlogits + r * ld_dlogits : NULL;
        const void *row = (const char *)logits + r * row_bytes;
        bool counts = targets[r] != -1;
        row_loss[r] = counts ? row_entropy(d, row, logits_fp32, targets[r], vocab, scale) : 0.0;
        if (d == NULL)
            continue;
        int64_t from = counts ? vocab : 0;
        memset(d + from, 0, (size_t)(ld_dlogits - from) * sizeof *d);
    }
    double total = 0.0;
    for (int64_t r = 0; r < rows; r++)
        total += row_loss[r];
    return total;
}
