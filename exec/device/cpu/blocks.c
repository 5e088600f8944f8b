/* Elements in few bits, by blocks (exec/data/blocks.h): widened, and narrowed to mxfp8. */
#include "exec/data/blocks.h"
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/lanes.h"

/* Elements that one thread takes at a time: whole blocks, but of nf4-double a part of one. */
#define CHUNK 4096

/* Sixteen bytes as numbers. */
struct numbers {
    mw_native_u32 part[MW_PARTS];
};

MW_INLINE struct numbers
load_numbers(const uint8_t *bytes)
{
    struct numbers numbers;
    MW_EACH_PART (p)
        numbers.part[p] = mw_native_load_bytes(bytes + p * MW_WIDTH);
    return numbers;
}

MW_INLINE void
store(mw_element *out, struct mw_lanes v, int64_t n)
{
    if (n >= MW_LANES)
        mw_lanes_store_half(out, v);
    else if (n > 0)
        mw_lanes_store_half_some(out, v, n);
}

/* --- mxfp8 ----------------------------------------------------------------------------------- */

/* `n` elements, and zeros behind them. */
MW_INLINE void
load(float x[MW_MXFP8_ELEMENTS], const mw_element *from, int64_t n)
{
    for (int64_t i = 0; i < MW_MXFP8_ELEMENTS; i += MW_LANES)
        mw_lanes_store(x + i, i + MW_LANES <= n ? mw_lanes_load_half(from + i)
                              : i < n           ? mw_lanes_load_half_some(from + i, n - i)
                                                : mw_lanes_splat(0));
}

static void
narrow_mxfp8_chunk(uint8_t *blocks, const mw_element *x, int64_t first, int64_t n)
{
    uint8_t *block = blocks + first / MW_MXFP8_ELEMENTS * MW_MXFP8_BYTES;

    for (int64_t i = 0; i < n; i += MW_MXFP8_ELEMENTS, block += MW_MXFP8_BYTES) {
        float wide[MW_MXFP8_ELEMENTS];
        load(wide, x + first + i, n - i);
        mw_mxfp8_encode(block, wide, mw_mxfp8_scale(mw_mxfp8_largest(wide)));
    }
}

MW_INLINE void
widen_mxfp8(mw_element *out, const uint8_t *block, int64_t n)
{
    float wide[MW_MXFP8_ELEMENTS];

    mw_mxfp8_decode(wide, block);
    for (int64_t i = 0; i < MW_MXFP8_ELEMENTS; i += MW_LANES)
        store(out + i, mw_lanes_load(wide + i), n - i);
}

/* --- nf4 ------------------------------------------------------------------------------------- */

static const float nf4_values[16] __attribute__((aligned(64))) = {MW_NF4_VALUES};

/* number < 16 */
MW_INLINE mw_native
value_of_nf4(mw_native_u32 number)
{
#if MW_WIDTH == 16
    return (mw_native)_mm512_permutexvar_ps((__m512i)number, _mm512_load_ps(nf4_values));
#elif MW_WIDTH == 8
    __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(nf4_values), (__m256i)number);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_load_ps(nf4_values + 8), (__m256i)number);
    return mw_native_select((mw_native_i32)number < 8, (mw_native)low, (mw_native)high);
#else
    mw_native v;
    for (int i = 0; i < MW_WIDTH; i++)
        v[i] = nf4_values[number[i]];
    return v;
#endif
}

MW_INLINE void
widen_pairs(mw_element *out, const uint8_t *pairs, float factor, int64_t n)
{
    mw_native scale = mw_native_splat(factor);

    for (int64_t i = 0; i < MW_NF4_PAIRS_BYTES; i += MW_LANES) {
        struct numbers bytes = load_numbers(pairs + i);
        struct mw_lanes low, high;
        MW_EACH_PART (p) {
            low.part[p] = scale * value_of_nf4(bytes.part[p] & 15);
            high.part[p] = scale * value_of_nf4(bytes.part[p] >> 4);
        }
        store(out + i, low, n - i);
        store(out + MW_NF4_PAIRS_BYTES + i, high, n - MW_NF4_PAIRS_BYTES - i);
    }
}

/* --- chunks: from the start of a block on, in both ------------------------------------------- */

static void
widen_mxfp8_chunk(mw_element *out, const uint8_t *blocks, int64_t first, int64_t n)
{
    const uint8_t *block = blocks + first / MW_MXFP8_ELEMENTS * MW_MXFP8_BYTES;

    for (int64_t i = 0; i < n; i += MW_MXFP8_ELEMENTS, block += MW_MXFP8_BYTES)
        widen_mxfp8(out + first + i, block, n - i);
}

static void
widen_nf4_chunk(mw_element *out, const uint8_t *blocks, int64_t first, int64_t n)
{
    const uint8_t *block = blocks + first / MW_NF4_ELEMENTS * MW_NF4_BYTES;

    for (int64_t i = 0; i < n; i += MW_NF4_ELEMENTS, block += MW_NF4_BYTES) {
        float scale;
        memcpy(&scale, block, sizeof scale);
        widen_pairs(out + first + i, block + MW_NF4_SCALE_BYTES, scale, n - i);
    }
}

static void
widen_nf4_double_chunk(mw_element *out, const uint8_t *blocks, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i += MW_NF4_ELEMENTS) {
        int64_t number = (first + i) / MW_NF4_ELEMENTS;
        const uint8_t *block = blocks + number / MW_NF4_DOUBLE_BLOCKS * MW_NF4_DOUBLE_BYTES;
        number %= MW_NF4_DOUBLE_BLOCKS;
        widen_pairs(out + first + i,
                    block + MW_NF4_DOUBLE_SCALE_BYTES + number * MW_NF4_PAIRS_BYTES,
                    mw_nf4_double_scale(block, number), n - i);
    }
}

void
MW_CPU(widen_blocks)(mw_element *out, const void *blocks, int dtype, int64_t n)
{
    void (*widen)(mw_element * out, const uint8_t *blocks, int64_t first, int64_t n) =
        dtype == MW_DTYPE_MXFP8 ? widen_mxfp8_chunk
        : dtype == MW_DTYPE_NF4 ? widen_nf4_chunk
                                : widen_nf4_double_chunk;

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        widen(out, blocks, i, n - i < CHUNK ? n - i : CHUNK);
}

void
MW_CPU(narrow_mxfp8)(void *blocks, const mw_element *x, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        narrow_mxfp8_chunk(blocks, x, i, n - i < CHUNK ? n - i : CHUNK);
}
