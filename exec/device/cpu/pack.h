/*
 * pack.h - matrices of halves as operands of panel.h.  What is padded is zero.
 */
#ifndef MW_EXEC_DEVICE_CPU_PACK_H
#define MW_EXEC_DEVICE_CPU_PACK_H

#include "exec/data/convert.h"
#include "exec/device/cpu/panel.h"

MW_INLINE int64_t
mw_round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* How many steps k elements take. */
MW_INLINE int64_t
mw_steps(int64_t k)
{
    return (k + MW_DEEP - 1) / MW_DEEP;
}

/* Eight elements, and as fp32. */
typedef mw_element mw_eight __attribute__((vector_size(8 * sizeof(mw_element))));

MW_INLINE mw_eight
mw_raw(const mw_element *x)
{
    mw_eight v;
    memcpy(&v, x, sizeof v);
    return v;
}

MW_INLINE void
mw_widen_8(float *out, mw_eight half)
{
#if defined(MW_ELEMENT_FP32)
    memcpy(out, &half, sizeof half);
#elif defined(__AVX2__) && defined(MW_HALF_FP16)
    _mm256_storeu_ps(out, _mm256_cvtph_ps((__m128i)half));
#elif defined(__AVX2__)
    __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)half), 16);
    _mm256_storeu_si256((__m256i_u *)(void *)out, wide);
#elif defined(MW_HALF_FP16)
    for (int i = 0; i < 8; i++)
        out[i] = mw_fp32_of_fp16(half[i]);
#else
    const mw_eight zero = {0};
    mw_eight low = __builtin_shufflevector(zero, half, 0, 8, 1, 9, 2, 10, 3, 11);
    mw_eight high = __builtin_shufflevector(zero, half, 4, 12, 5, 13, 6, 14, 7, 15);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) {
        low = __builtin_shufflevector(half, zero, 0, 8, 1, 9, 2, 10, 3, 11);
        high = __builtin_shufflevector(half, zero, 4, 12, 5, 13, 6, 14, 7, 15);
    }
    memcpy(out, &low, sizeof low);
    memcpy(out + 4, &high, sizeof high);
#endif
}

/* The first n of eight halves. */
MW_INLINE mw_eight
mw_raw_first(const mw_element *x, int64_t n)
{
    mw_eight v = {0};
    if (n >= 8)
        return mw_raw(x);
    for (int64_t i = 0; i < n; i++)
        v[i] = x[i];
    return v;
}

/* Rows a and b to their lower halves' elements in turn, and to their upper halves'. */
MW_INLINE mw_eight
mw_zip_low(mw_eight a, mw_eight b)
{
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

MW_INLINE mw_eight
mw_zip_high(mw_eight a, mw_eight b)
{
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

/* Transposes: each of three rounds moves one bit of the row's number to the column's. */
MW_INLINE void
mw_transpose_8(mw_eight v[8])
{
    for (int round = 0; round < 3; round++) {
        mw_eight next[8];
        for (int i = 0; i < 4; i++) {
            next[2 * i] = mw_zip_low(v[i], v[i + 4]);
            next[2 * i + 1] = mw_zip_high(v[i], v[i + 4]);
        }
        memcpy(v, next, sizeof next);
    }
}

/* Of one half. */
MW_INLINE float
mw_widen_one(mw_element half)
{
#if defined(MW_ELEMENT_FP32)
    return half;
#elif defined(MW_HALF_FP16)
    return mw_fp32_of_fp16(half);
#else
    return mw_fp32_of_bf16(half);
#endif
}

/* One half as an element of A. */
MW_INLINE mw_left
mw_left_one(mw_element half)
{
#if MW_DEEP == 2
    return half;
#else
    return mw_widen_one(half);
#endif
}

/* B is zero along k from `from`, rounded up to a step, to `to`. */
MW_INLINE void
mw_clear_steps(mw_right *out, int64_t b_panel, int64_t columns, int64_t from, int64_t to)
{
    for (int64_t j = 0; j < columns; j += MW_PANEL)
        for (int64_t step = mw_steps(from); step < mw_steps(to); step++)
            memset(out + j / MW_PANEL * b_panel + step * MW_PANEL, 0, MW_PANEL * sizeof *out);
}

#if MW_DEEP == 2

/* Word lanes of two rows: elements j of even in the lower halves, of odd in the upper ones. */
MW_INLINE void
mw_interleave(uint32_t *out, mw_eight even, mw_eight odd)
{
    mw_eight low = mw_zip_low(even, odd), high = mw_zip_high(even, odd);
    memcpy(out, &low, sizeof low);
    memcpy(out + 4, &high, sizeof high);
}

/* Sixteen columns of two rows, whose words a panel has. */
MW_INLINE void
mw_interleave_panel(uint32_t *words, const mw_element *even, const mw_element *odd)
{
    mw_interleave(words, mw_raw(even), mw_raw(odd));
    mw_interleave(words + 8, mw_raw(even + 8), mw_raw(odd + 8));
}

/* As mw_interleave_panel, of the first n columns; odd: NULL if there is no such row. */
MW_INLINE void
mw_interleave_some(uint32_t *words, const mw_element *even, const mw_element *odd, int64_t n)
{
    for (int64_t j = 0; j < MW_PANEL; j += 8) {
        mw_eight low = {0}, high = {0};
        if (j < n)
            low = mw_raw_first(even + j, n - j);
        if (j < n && odd)
            high = mw_raw_first(odd + j, n - j);
        mw_interleave(words + j, low, high);
    }
}

/* B of x [k, columns]: panel by panel, so that it is written in order. */
static inline __attribute__((unused)) void
mw_pack_rows(mw_right *out, int64_t b_panel, const mw_element *x, int64_t ld_x, int64_t k,
             int64_t columns)
{
    for (int64_t j = 0; j < columns; j += MW_PANEL) {
        uint32_t *words = out + j / MW_PANEL * b_panel;
        const mw_element *row = x + j;
        int64_t r = 0;
        for (; r + 2 <= k && j + MW_PANEL <= columns; r += 2, row += 2 * ld_x, words += MW_PANEL)
            mw_interleave_panel(words, row, row + ld_x);
        for (; r < k; r += 2, row += 2 * ld_x, words += MW_PANEL)
            mw_interleave_some(words, row, r + 1 < k ? row + ld_x : NULL, columns - j);
    }
}

/* Sixteen pairs of elements. */
typedef uint32_t mw_pairs __attribute__((vector_size(MW_PANEL * sizeof(uint32_t))));

#define MW_PAIRS_ELEMENTS (2 * MW_PANEL)

/* Transposes, as mw_transpose_8 does, in four rounds. */
MW_INLINE void
mw_transpose_pairs(mw_pairs v[MW_PANEL])
{
    for (int round = 0; round < 4; round++) {
        mw_pairs next[MW_PANEL];
        for (int i = 0; i < MW_PANEL / 2; i++) {
            mw_pairs a = v[i], b = v[i + MW_PANEL / 2];
            next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                                  22, 7, 23);
            next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                      13, 29, 14, 30, 15, 31);
        }
        memcpy(v, next, sizeof next);
    }
}

/* One column of a panel, from the pair `p` on; row: NULL if there is no such column. */
MW_INLINE void
mw_pack_column(uint32_t *words, const mw_element *row, int64_t p, int64_t k)
{
    for (; p < k / 2; p++) {
        uint32_t word = 0;
        if (row)
            memcpy(&word, row + 2 * p, sizeof word);
        words[p * MW_PANEL] = word;
    }
    if (k % 2 != 0)
        words[k / 2 * MW_PANEL] = row ? row[k - 1] : 0;
}

/* B of the transpose of x [columns, k]. */
static inline __attribute__((unused)) void
mw_pack_transposed(mw_right *out, int64_t b_panel, const mw_element *x, int64_t ld_x,
                   int64_t columns, int64_t k)
{
    for (int64_t j = 0; j < columns; j += MW_PANEL) {
        uint32_t *words = out + j / MW_PANEL * b_panel;
        int64_t at = 0;
        for (; at + MW_PAIRS_ELEMENTS <= k && j + MW_PANEL <= columns; at += MW_PAIRS_ELEMENTS) {
            mw_pairs v[MW_PANEL];
            for (int64_t i = 0; i < MW_PANEL; i++)
                memcpy(&v[i], x + (j + i) * ld_x + at, sizeof v[i]);
            mw_transpose_pairs(v);
            memcpy(words + at / 2 * MW_PANEL, v, sizeof v);
        }
        for (int64_t i = 0; i < MW_PANEL; i++)
            mw_pack_column(words + i, j + i < columns ? x + (j + i) * ld_x : NULL, at / 2, k);
    }
}

/* Rows i of out: columns i of x, of as many rows as pairs have elements. */
MW_INLINE void
mw_pack_turned_pairs(mw_left *out, int64_t ld, const mw_element *x, int64_t ld_x)
{
    mw_pairs v[MW_PANEL];

    for (int64_t p = 0; p < MW_PANEL; p++) {
        const mw_element *even = x + 2 * p * ld_x;
        mw_interleave_panel((uint32_t *)(void *)&v[p], even, even + ld_x);
    }
    mw_transpose_pairs(v);
    for (int64_t i = 0; i < MW_PANEL; i++)
        memcpy(out + i * ld, &v[i], sizeof v[i]);
}

/* B of what is A elsewhere, [k, columns] in rows ld apart; columns are a multiple of MW_PANEL. */
MW_INLINE void
mw_pack_again(mw_right *out, int64_t b_panel, const mw_left *x, int64_t ld, int64_t k,
              int64_t columns)
{
    mw_pack_rows(out, b_panel, x, ld, k, columns);
}

/* A of x [rows, k], in rows ld apart. */
static inline __attribute__((unused)) void
mw_pack_left(mw_left *out, int64_t ld, const mw_element *x, int64_t ld_x, int64_t rows, int64_t k)
{
    for (int64_t i = 0; i < rows; i++) {
        memcpy(out + i * ld, x + i * ld_x, (size_t)k * sizeof *x);
        if (k % 2 != 0)
            out[i * ld + k] = 0;
    }
}

#else

/* One row of a panel, of the first n of sixteen halves. */
MW_INLINE void
mw_pack_row(float *out, const mw_element *x, int64_t n)
{
    mw_widen_8(out, mw_raw_first(x, n));
    mw_widen_8(out + 8, n > 8 ? mw_raw_first(x + 8, n - 8) : (mw_eight){0});
}

static inline __attribute__((unused)) void
mw_pack_rows(mw_right *out, int64_t b_panel, const mw_element *x, int64_t ld_x, int64_t k,
             int64_t columns)
{
    for (int64_t r = 0; r < k; r++) {
        const mw_element *row = x + r * ld_x;
        float *to = out + r * MW_PANEL;
        int64_t j = 0;
        for (; j + MW_PANEL <= columns; j += MW_PANEL, to += b_panel) {
            mw_widen_8(to, mw_raw(row + j));
            mw_widen_8(to + 8, mw_raw(row + j + 8));
        }
        if (j < columns)
            mw_pack_row(to, row + j, columns - j);
    }
}

/* Eight columns of a panel, `columns` of them real, along n <= 8 of k. */
MW_INLINE void
mw_pack_turned(float *out, const mw_element *x, int64_t ld_x, int64_t columns, int64_t n)
{
    mw_eight v[8];
    for (int64_t j = 0; j < 8; j++)
        v[j] = j < columns ? mw_raw_first(x + j * ld_x, n) : (mw_eight){0};
    mw_transpose_8(v);
    for (int64_t i = 0; i < n; i++)
        mw_widen_8(out + i * MW_PANEL, v[i]);
}

static inline __attribute__((unused)) void
mw_pack_transposed(mw_right *out, int64_t b_panel, const mw_element *x, int64_t ld_x,
                   int64_t columns, int64_t k)
{
    for (int64_t j = 0; j < mw_round_up(columns, MW_PANEL); j += 8) {
        float *to = out + j / MW_PANEL * b_panel + j % MW_PANEL;
        const mw_element *from = x + j * ld_x;
        int64_t at = 0;
        for (; at + 8 <= k && j + 8 <= columns; at += 8)
            mw_pack_turned(to + at * MW_PANEL, from + at, ld_x, 8, 8);
        for (; at < k; at += 8)
            mw_pack_turned(to + at * MW_PANEL, from + at, ld_x, columns - j,
                           k - at < 8 ? k - at : 8);
    }
}

static inline __attribute__((unused)) void
mw_pack_left(mw_left *out, int64_t ld, const mw_element *x, int64_t ld_x, int64_t rows, int64_t k)
{
    for (int64_t i = 0; i < rows; i++) {
        const mw_element *row = x + i * ld_x;
        int64_t j = 0;
        for (; j + 8 <= k; j += 8)
            mw_widen_8(out + i * ld + j, mw_raw(row + j));
        for (; j < k; j++)
            out[i * ld + j] = mw_widen_one(row[j]);
    }
}

MW_INLINE void
mw_pack_again(mw_right *out, int64_t b_panel, const mw_left *x, int64_t ld, int64_t k,
              int64_t columns)
{
    for (int64_t r = 0; r < k; r++)
        for (int64_t j = 0; j < columns; j += MW_PANEL)
            memcpy(out + j / MW_PANEL * b_panel + r * MW_PANEL, x + r * ld + j,
                   MW_PANEL * sizeof *x);
}

#endif

#endif
