/* What ranks of a ring make of what they have computed with each block of keys. */
#include "exec/device/cpu/attention.h"
#include "exec/device/cpu/isa.h"

#include <math.h>

/* o = (a o + b of the block) / (a + b). */
static void
join_row(mw_element *o, const mw_element *block, int64_t n, float own, float others)
{
    for (int64_t c = 0; c < n; c += MW_LANES) {
        struct mw_lanes v = mw_take(o + c, n - c), w = mw_take(block + c, n - c);
        MW_EACH_PART (p)
            v.part[p] = v.part[p] * own + w.part[p] * others;
        mw_put(o + c, v, n - c);
    }
}

/* The sums of exponentials are exp(lse): their shares, and the sum's logarithm. */
static void
join_head(const struct mw_attention *s, mw_element *o, float *lse, const mw_element *block_o,
          const float *block_lse)
{
    for (int64_t i = 0; i < s->seq; i++) {
        float most = fmaxf(lse[i], block_lse[i]);
        float own = expf(lse[i] - most), others = expf(block_lse[i] - most), sum = own + others;
        join_row(o + i * s->ld_o, block_o + i * s->ld_o, s->head_dim, own / sum, others / sum);
        lse[i] = most + logf(sum);
    }
}

void
MW_CPU(join_attention)(const struct mw_attention *shape, mw_element *o, float *lse,
                       const mw_element *block_o, const float *block_lse)
{
    const struct mw_attention *s = shape;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < s->batch * s->heads; i++) {
        int64_t b = i / s->heads, h = i % s->heads, at_lse = mw_lse_at(s, b, h);
        int64_t at = b * s->seq * s->ld_o + h * s->head_dim;
        join_head(s, o + at, lse + at_lse, block_o + at, block_lse + at_lse);
    }
}

void
MW_CPU(add_rows)(mw_element *y, int64_t ld_y, const mw_element *x, int64_t ld_x, int64_t rows,
                 int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += MW_LANES) {
            struct mw_lanes v = mw_take(y + r * ld_y + c, columns - c);
            struct mw_lanes w = mw_take(x + r * ld_x + c, columns - c);
            MW_EACH_PART (p)
                v.part[p] += w.part[p];
            mw_put(y + r * ld_y + c, v, columns - c);
        }
}
