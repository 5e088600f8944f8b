/* pack.h - matrices of halves as the packed operand of panel.h, padded with zeros. */
#ifndef MW_EXEC_CPU_PACK_H
#define MW_EXEC_CPU_PACK_H

#include "exec/cpu/vector.h"

MW_INLINE int64_t
mw_round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Word lanes of two rows: elements j of even in the lower halves, of odd in the upper ones. */
MW_INLINE mw_u32x16
mw_interleave(mw_u16x16 even, mw_u16x16 odd)
{
    return __builtin_convertvector(even, mw_u32x16) | __builtin_convertvector(odd, mw_u32x16) << 16;
}

MW_INLINE mw_u16x16
mw_raw_some(const uint16_t *x, int64_t n)
{
    mw_u16x16 v = {0};
    memcpy(&v, x, (size_t)n * sizeof *x);
    return v;
}

/* out[p][j], [rows / 2 rounded up, ld], of x [rows, columns] with ld_x; columns padded to 16s. */
static inline __attribute__((unused)) void
mw_pack_rows(uint32_t *out, int64_t ld, const uint16_t *x, int64_t ld_x, int64_t rows,
             int64_t columns)
{
    for (int64_t r = 0; r < rows; r += 2) {
        uint32_t *words = out + r / 2 * ld;
        const uint16_t *even = x + r * ld_x, *odd = even + ld_x;
        for (int64_t j = 0; j < columns; j += MW_LANES) {
            int64_t n = columns - j < MW_LANES ? columns - j : MW_LANES;
            mw_u16x16 low =
                n == MW_LANES ? mw_raw_some(even + j, MW_LANES) : mw_raw_some(even + j, n);
            mw_u16x16 high = {0};
            if (r + 1 < rows)
                high = n == MW_LANES ? mw_raw_some(odd + j, MW_LANES) : mw_raw_some(odd + j, n);
            mw_u32x16 word = mw_interleave(low, high);
            memcpy(words + j, &word, sizeof word);
        }
    }
}

/* out[p][j], [columns / 2, ld], of the transpose of x [rows, columns], whose columns are even:
 * word (p, j) is the pair p of row j; rows padded to 16s. */
static inline __attribute__((unused)) void
mw_pack_transposed(uint32_t *out, int64_t ld, const uint16_t *x, int64_t ld_x, int64_t rows,
                   int64_t columns)
{
    for (int64_t j = 0; j < mw_round_up(rows, MW_LANES); j += MW_LANES) {
        for (int64_t p = 0; p < columns / 2; p++) {
            uint32_t word[MW_LANES];
            for (int64_t i = 0; i < MW_LANES; i++) {
                word[i] = 0;
                if (j + i < rows)
                    memcpy(&word[i], x + (j + i) * ld_x + 2 * p, sizeof word[i]);
            }
            memcpy(out + p * ld + j, word, sizeof word);
        }
    }
}

#endif
