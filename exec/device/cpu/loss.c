/* Softmax and cross-entropy over rows of logits, with the gradient in the same pass. */
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/lanes.h"
#include "exec/device/cpu/vector_math.h"

#include <float.h>
#include <math.h>

/* Elements of one sum in fp32. */
#define SPAN 4096

/* Logits [i, i + 16) of a row. */
MW_INLINE struct mw_lanes
logit_lanes(const void *row, bool fp32, int64_t i)
{
    return fp32 ? mw_lanes_load((const float *)row + i)
                : mw_lanes_load_half((const mw_element *)row + i);
}

/* Logits [i, i + n), n < 16, and -infinity beyond them. */
MW_INLINE struct mw_lanes
last_logits(const void *row, bool fp32, int64_t i, int64_t n)
{
    return mw_lanes_first(fp32 ? mw_lanes_load_some((const float *)row + i, n)
                               : mw_lanes_load_half_some((const mw_element *)row + i, n),
                          n, -INFINITY);
}

MW_INLINE struct mw_lanes
larger(struct mw_lanes a, struct mw_lanes b)
{
    MW_EACH_PART (p)
        a.part[p] = mw_native_max(a.part[p], b.part[p]);
    return a;
}

MW_INLINE float
row_max(const void *row, bool fp32, int64_t vocab)
{
    struct mw_lanes max = mw_lanes_splat(-INFINITY);
    int64_t i = 0;
    for (; i + MW_LANES <= vocab; i += MW_LANES)
        max = larger(logit_lanes(row, fp32, i), max);
    if (i < vocab)
        max = larger(last_logits(row, fp32, i, vocab - i), max);
    return mw_lanes_max(max);
}

/* exp(x - max) */
MW_INLINE struct mw_lanes
powers(struct mw_lanes x, float max)
{
    MW_EACH_PART (p)
        x.part[p] = mw_exp(x.part[p] - max);
    return x;
}

/* Sum of exp(x - max): fp32 over SPAN, fp64 beyond. */
MW_INLINE double
row_sum(const void *row, bool fp32, int64_t vocab, float max)
{
    double total = 0.0;
    for (int64_t first = 0; first < vocab; first += SPAN) {
        int64_t i = first, end = vocab - first < SPAN ? vocab : first + SPAN;
        struct mw_lanes sum = mw_lanes_splat(0.0f);
        for (; i + MW_LANES <= end; i += MW_LANES)
            sum = mw_lanes_add(sum, powers(logit_lanes(row, fp32, i), max));
        if (i < end)
            sum = mw_lanes_add(sum, powers(last_logits(row, fp32, i, end - i), max));
        total += (double)mw_lanes_sum(sum);
    }
    return total;
}

MW_INLINE struct mw_lanes
times(float factor, struct mw_lanes x)
{
    MW_EACH_PART (p)
        x.part[p] = factor * x.part[p];
    return x;
}

/* Goes from front to back: where logits are fp32 in the same memory, lanes are read before they are
 * overwritten. */
MW_INLINE void
put_gradient(mw_element *d, const void *row, bool fp32, int64_t vocab, float max, float factor)
{
    int64_t i = 0;
    for (; i + MW_LANES <= vocab; i += MW_LANES)
        mw_lanes_store_half(d + i, times(factor, powers(logit_lanes(row, fp32, i), max)));
    if (i < vocab)
        mw_lanes_store_half_some(
            d + i, times(factor, powers(last_logits(row, fp32, i, vocab - i), max)), vocab - i);
}

static void
put_target(mw_element *d, float probability, float scale)
{
    mw_lanes_store_half_some(d, mw_lanes_splat(scale * (probability - 1.0f)), 1);
}

MW_INLINE float
logit(const void *row, bool fp32, int64_t i)
{
    return fp32 ? ((const float *)row)[i]
                : mw_lanes_load_half_some((const mw_element *)row + i, 1).part[0][0];
}

MW_INLINE double
row_entropy(mw_element *d, const void *row, bool fp32, int32_t target, int64_t vocab, float scale)
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

static double
add_rows(const double *row_loss, int64_t rows)
{
    double total = 0.0;
    for (int64_t r = 0; r < rows; r++)
        total += row_loss[r];
    return total;
}

void
MW_CPU(cross_entropy)(double *loss, double *row_loss, mw_element *dlogits, int64_t ld_dlogits,
                      const void *logits, bool logits_fp32, int64_t ld_logits,
                      const int32_t *targets, int64_t rows, int64_t vocab, float scale)
{
    int64_t row_bytes = ld_logits * (int64_t)(logits_fp32 ? sizeof(float) : sizeof(mw_element));
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        mw_element *d = dlogits != NULL ? dlogits + r * ld_dlogits : NULL;
        const void *row = (const char *)logits + r * row_bytes;
        bool counts = targets[r] != -1;
        if (!counts)
            row_loss[r] = 0.0;
        else if (logits_fp32)
            row_loss[r] = row_entropy(d, row, true, targets[r], vocab, scale);
        else
            row_loss[r] = row_entropy(d, row, false, targets[r], vocab, scale);
        if (d == NULL)
            continue;
        int64_t from = counts ? vocab : 0;
        memset(d + from, 0, (size_t)(ld_dlogits - from) * sizeof *d);
    }
    *loss += add_rows(row_loss, rows);
}

/* --- slices of the vocabulary ---------------------------------------------------------------- */

/* Of one row, in one slice or in all. */
struct row_sums {
    double max, sum, at_target;
};

static void
see_slice(float *sums, const mw_element *row, int64_t at_target, int64_t vocab)
{
    float max = vocab ? row_max(row, false, vocab) : -FLT_MAX;
    bool has = at_target >= 0 && at_target < vocab;

    sums[0] = max;
    sums[1] = vocab ? (float)row_sum(row, false, vocab, max) : 0.0f;
    sums[2] = has ? logit(row, false, at_target) : 0.0f;
}

void
MW_CPU(slice_entropy_sums)(float *sums, const mw_element *logits, int64_t ld_logits,
                           const int32_t *targets, int64_t rows, int64_t vocab, int32_t first)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        see_slice(sums + 3 * r, logits + r * ld_logits, (int64_t)targets[r] - first, vocab);
}

/* In the order of slices, on all of them alike. */
static struct row_sums
join_slices(const float *sums, int64_t slices, int64_t stride)
{
    struct row_sums all = {.max = -FLT_MAX};
    for (int64_t s = 0; s < slices; s++)
        all.max = fmax(all.max, sums[s * stride]);
    for (int64_t s = 0; s < slices; s++) {
        const float *one = sums + s * stride;
        all.sum += one[1] * exp((double)one[0] - all.max);
        all.at_target += one[2];
    }
    return all;
}

static void
put_slice(mw_element *row, struct row_sums all, int64_t at_target, int64_t vocab, float scale)
{
    put_gradient(row, row, false, vocab, (float)all.max, (float)(scale / all.sum));
    if (at_target >= 0 && at_target < vocab)
        put_target(row + at_target, (float)(exp(all.at_target - all.max) / all.sum), scale);
}

void
MW_CPU(slice_entropy)(double *loss, double *row_loss, mw_element *logits, int64_t ld_logits,
                      const float *sums, int64_t slices, const int32_t *targets, int64_t rows,
                      int64_t vocab, int32_t first, float scale)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        struct row_sums all = join_slices(sums + 3 * r, slices, 3 * rows);
        mw_element *row = logits + r * ld_logits;
        bool counts = targets[r] != -1;
        int64_t from = counts ? vocab : 0;
        row_loss[r] = counts ? log(all.sum) + all.max - all.at_target : 0.0;
        if (counts)
            put_slice(row, all, (int64_t)targets[r] - first, vocab, scale);
        memset(row + from, 0, (size_t)(ld_logits - from) * sizeof *row);
    }
    if (loss)
        *loss += add_rows(row_loss, rows);
}
