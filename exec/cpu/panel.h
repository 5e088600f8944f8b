/*
 * panel.h - products of small matrices of halves: C[m, n] (+)= A[m, 2 pairs] B[2 pairs, n] with
 * fp32 sums.
 *
 * A is read in pairs along a row.  B is packed: word [p][j] holds elements (2p, j) and (2p + 1, j),
 * the first in its lower half, as dot products of bf16 pairs want it.  n is a multiple of 16.
 */
#ifndef MW_EXEC_CPU_PANEL_H
#define MW_EXEC_CPU_PANEL_H

#include <stdbool.h>

#include "exec/cpu/vector.h"

struct mw_panel {
    float *c;
    const uint16_t *a;
    const uint32_t *b;
    int64_t ld_c, ld_a, ld_b;
    int64_t m, n, pairs;
    bool accumulate;
};

/* a * b + c, fused where the instruction set can. */
MW_INLINE mw_f32x16
mw_fma(mw_f32x16 a, mw_f32x16 b, mw_f32x16 c)
{
#if defined(__AVX512F__)
    return (mw_f32x16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    __m256 x[2], y[2], z[2];
    memcpy(x, &a, sizeof a);
    memcpy(y, &b, sizeof b);
    memcpy(z, &c, sizeof c);
    z[0] = _mm256_fmadd_ps(x[0], y[0], z[0]);
    z[1] = _mm256_fmadd_ps(x[1], y[1], z[1]);
    memcpy(&c, z, sizeof c);
    return c;
#else
    return a * b + c;
#endif
}

/* What the lower, and the upper, 16 bits of words say. */
MW_INLINE mw_f32x16
mw_lower(mw_u32x16 pairs)
{
#if defined(MW_HALF_FP16)
    return mw_widen(__builtin_convertvector(pairs & 0xffff, mw_u16x16));
#else
    return (mw_f32x16)(pairs << 16);
#endif
}

MW_INLINE mw_f32x16
mw_upper(mw_u32x16 pairs)
{
#if defined(MW_HALF_FP16)
    return mw_widen(__builtin_convertvector(pairs >> 16, mw_u16x16));
#else
    return (mw_f32x16)(pairs & 0xffff0000u);
#endif
}

/* sum + the lower elements' products + the upper ones' */
MW_INLINE mw_f32x16
mw_dot_pairs(mw_f32x16 sum, uint32_t a, mw_u32x16 b)
{
#if defined(__AVX512BF16__) && !defined(MW_HALF_FP16)
    return (mw_f32x16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a),
                                       (__m512bh)b);
#else
    mw_u32x16 pair = a - (mw_u32x16){0};
    sum = mw_fma(mw_lower(pair), mw_lower(b), sum);
    return mw_fma(mw_upper(pair), mw_upper(b), sum);
#endif
}

MW_INLINE uint32_t
mw_pair(const uint16_t *x)
{
    uint32_t pair;
    memcpy(&pair, x, sizeof pair);
    return pair;
}

/* `rows` x `vectors` sums stay in registers while they go along the pairs. */
MW_INLINE void
mw_panel_tile(const struct mw_panel *p, int64_t row, int64_t column, int rows, int vectors)
{
    mw_f32x16 sum[6][4];
    float *c = p->c + row * p->ld_c + column;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = p->accumulate ? mw_load(c + i * p->ld_c + j * MW_LANES) : mw_splat(0.0f);
    const uint16_t *a = p->a + row * p->ld_a;
    const uint32_t *b = p->b + column;
    for (int64_t pair = 0; pair < p->pairs; pair++) {
        mw_u32x16 lanes[4];
        for (int j = 0; j < vectors; j++)
            memcpy(&lanes[j], b + pair * p->ld_b + j * MW_LANES, sizeof lanes[j]);
        for (int i = 0; i < rows; i++) {
            uint32_t word = mw_pair(a + i * p->ld_a + 2 * pair);
            for (int j = 0; j < vectors; j++)
                sum[i][j] = mw_dot_pairs(sum[i][j], word, lanes[j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            mw_store(c + i * p->ld_c + j * MW_LANES, sum[i][j]);
}

MW_INLINE void
mw_panel_rows(const struct mw_panel *p, int64_t column, int vectors)
{
    int64_t row = 0;
    for (; row + 6 <= p->m; row += 6)
        mw_panel_tile(p, row, column, 6, vectors);
    if (row + 4 <= p->m) {
        mw_panel_tile(p, row, column, 4, vectors);
        row += 4;
    }
    for (; row + 2 <= p->m; row += 2)
        mw_panel_tile(p, row, column, 2, vectors);
    if (row < p->m)
        mw_panel_tile(p, row, column, 1, vectors);
}

static inline __attribute__((unused)) void
mw_panel_product(const struct mw_panel *p)
{
    int64_t column = 0;
    for (; column + 4 * MW_LANES <= p->n; column += 4 * MW_LANES)
        mw_panel_rows(p, column, 4);
    for (; column + 2 * MW_LANES <= p->n; column += 2 * MW_LANES)
        mw_panel_rows(p, column, 2);
    if (column < p->n)
        mw_panel_rows(p, column, 1);
}

#endif
