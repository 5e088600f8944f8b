/*
 * panel.h - products of small matrices with fp32 sums: C[m, n] (+)= A[m, k] B[k, n], by tiles of C
 * that stay in registers.
 *
 * Operands are made from halves by exec/device/cpu/pack.h.  Where there are instructions for dot
 * products of bf16 pairs, A is of halves, taken in pairs along k, and a word of B holds elements
 * (2p, j) and (2p + 1, j), the first in its lower half.  Elsewhere both are widened to fp32, and k
 * is walked one by one.  MW_DEEP is how many elements of k one step takes.
 *
 * B lies in panels of MW_PANEL columns, each [steps][MW_PANEL]; n is a multiple of MW_PANEL. An
 * element's sum takes the same operations in the same order in whatever tile it lies.
 */
#ifndef MW_EXEC_DEVICE_CPU_PANEL_H
#define MW_EXEC_DEVICE_CPU_PANEL_H

#include <stdbool.h>

#include "exec/device/cpu/native.h"

#define MW_PANEL 16

/* Rows of a tile, and its vectors: the sums, a row of B and an element of A fill the registers, of
 * which there are 32, or 16. */
#define MW_TILE_ROWS 6
#if defined(__AVX512F__) || defined(__aarch64__)
#define MW_TILE_VECTORS 4
#else
#define MW_TILE_VECTORS 2
#endif

/* Types of numbers, not of structs. */
#if defined(__AVX512BF16__) && !defined(MW_HALF_FP16)
#define MW_DEEP 2
typedef uint16_t mw_left;
typedef uint32_t mw_right;
#else
#define MW_DEEP 1
typedef float mw_left;
typedef float mw_right;
#endif

/* Step s of row i of A is at i / MW_TILE_ROWS * a_tile + i % MW_TILE_ROWS * a_row + s * a_step. */
struct mw_panel {
    float *c;
    const mw_left *a;
    const mw_right *b;
    int64_t ld_c;
    int64_t a_tile, a_row, a_step;
    int64_t b_panel; /* distance between two panels */
    int64_t m, n, steps;
    bool accumulate;
};

/* a * b + c, fused where the instruction set can. */
MW_INLINE mw_native
mw_native_fma(mw_native a, mw_native b, mw_native c)
{
#if defined(__AVX512F__)
    return (mw_native)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (mw_native)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (mw_native)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* sum + the products of one step. */
MW_INLINE mw_native
mw_step(mw_native sum, const mw_left *a, mw_native b)
{
#if MW_DEEP == 2
    int pair;
    memcpy(&pair, a, sizeof pair);
    return (mw_native)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)b);
#else
    return mw_native_fma(mw_native_splat(*a), b, sum);
#endif
}

/* `rows` x `vectors` sums stay in registers along all of k. */
MW_INLINE void
mw_panel_tile(const struct mw_panel *p, int64_t row, int64_t column, int rows, int vectors)
{
    mw_native sum[MW_TILE_ROWS][MW_TILE_VECTORS];
    float *c = p->c + row * p->ld_c + column;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] =
                p->accumulate ? mw_native_load(c + i * p->ld_c + j * MW_WIDTH) : (mw_native){0};
    const mw_left *a = p->a + row / MW_TILE_ROWS * p->a_tile + row % MW_TILE_ROWS * p->a_row;
    const mw_right *b = p->b + column / MW_PANEL * p->b_panel + column % MW_PANEL;
    for (int64_t step = 0; step < p->steps; step++) {
        mw_native lanes[MW_TILE_VECTORS];
        for (int j = 0; j < vectors; j++) {
            int at = j * MW_WIDTH;
            memcpy(&lanes[j], b + at / MW_PANEL * p->b_panel + at % MW_PANEL, sizeof lanes[j]);
        }
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < vectors; j++)
                sum[i][j] = mw_step(sum[i][j], a + i * p->a_row, lanes[j]);
        a += p->a_step;
        b += MW_PANEL;
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            memcpy(c + i * p->ld_c + j * MW_WIDTH, &sum[i][j], sizeof sum[i][j]);
}

MW_INLINE void
mw_panel_rows(const struct mw_panel *p, int64_t column, int vectors)
{
    int64_t row = 0;
    for (; row + MW_TILE_ROWS <= p->m; row += MW_TILE_ROWS)
        mw_panel_tile(p, row, column, MW_TILE_ROWS, vectors);
    if (row + 4 <= p->m) {
        mw_panel_tile(p, row, column, 4, vectors);
        row += 4;
    }
    if (row + 2 <= p->m) {
        mw_panel_tile(p, row, column, 2, vectors);
        row += 2;
    }
    if (row < p->m)
        mw_panel_tile(p, row, column, 1, vectors);
}

static inline __attribute__((unused)) void
mw_panel_product(const struct mw_panel *p)
{
    int64_t column = 0;
    for (; column + MW_TILE_VECTORS * MW_WIDTH <= p->n; column += MW_TILE_VECTORS * MW_WIDTH)
        mw_panel_rows(p, column, MW_TILE_VECTORS);
#if MW_TILE_VECTORS * MW_WIDTH > 2 * MW_PANEL
    if (column + 2 * MW_WIDTH <= p->n) {
        mw_panel_rows(p, column, 2);
        column += 2 * MW_WIDTH;
    }
    if (column < p->n)
        mw_panel_rows(p, column, 1);
#endif
}

#endif
