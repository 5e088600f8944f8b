/* Weights in few bits, widened: sixteen elements of a block at a time. */
#include "exec/data/blocks.h"
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/lanes.h"

/* Elements that one thread takes at a time: whole blocks of either type. */
#define CHUNK 4096

typedef uint8_t native_u8 __attribute__((vector_size(MW_WIDTH)));

/* Sixteen bytes as numbers. */
struct numbers {
    mw_native_u32 part[MW_PARTS];
};

MW_INLINE struct numbers
load_numbers(const uint8_t *bytes)
{
    struct numbers numbers;
    MW_EACH_PART (p) {
        native_u8 some;
        memcpy(&some, bytes + p * MW_WIDTH, sizeof some);
        numbers.part[p] = __builtin_convertvector(some, mw_native_u32);
    }
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

/* As mw_fp32_of_e4m3: subnormals are made of whole numbers, since fp32's own would be slow. */
MW_INLINE mw_native
value_of_e4m3(mw_native_u32 byte)
{
    mw_native_u32 sign = (byte & 0x80) << 24, rest = byte & 0x7f;
    mw_native whole = __builtin_convertvector((mw_native_i32)rest, mw_native);
    mw_native normal = (mw_native)((rest << 20) + (120u << 23));
    mw_native magnitude =
        mw_native_select((mw_native_i32)rest < 8, whole * mw_native_splat(0x1p-9f), normal);
    mw_native_u32 nan = (mw_native_u32)((mw_native_i32)rest == 0x7f) & 0x7fc00000;

    return (mw_native)((mw_native_u32)magnitude | nan | sign);
}

MW_INLINE void
widen_mxfp8(mw_element *out, const uint8_t *block, int64_t n)
{
    mw_native scale = mw_native_splat(mw_fp32_of_e8m0(block[0]));

    for (int64_t i = 0; i < MW_MXFP8_ELEMENTS; i += MW_LANES) {
        struct numbers bytes = load_numbers(block + 1 + i);
        struct mw_lanes v;
        MW_EACH_PART (p)
            v.part[p] = scale * value_of_e4m3(bytes.part[p]);
        store(out + i, v, n - i);
    }
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
widen_nf4(mw_element *out, const uint8_t *block, int64_t n)
{
    float factor;
    memcpy(&factor, block, sizeof factor);
    mw_native scale = mw_native_splat(factor);

    for (int64_t i = 0; i < MW_NF4_ELEMENTS / 2; i += MW_LANES) {
        struct numbers pairs = load_numbers(block + MW_NF4_SCALE_BYTES + i);
        struct mw_lanes low, high;
        MW_EACH_PART (p) {
            low.part[p] = scale * value_of_nf4(pairs.part[p] & 15);
            high.part[p] = scale * value_of_nf4(pairs.part[p] >> 4);
        }
        store(out + i, low, n - i);
        store(out + MW_NF4_ELEMENTS / 2 + i, high, n - MW_NF4_ELEMENTS / 2 - i);
    }
}

/* --- both ------------------------------------------------------------------------------------ */

void
MW_CPU(widen_blocks)(mw_element *out, const void *blocks, int dtype, int64_t n)
{
    bool mxfp8 = dtype == MW_DTYPE_MXFP8;
    const uint8_t *first = blocks;

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t end = n < i + CHUNK ? n : i + CHUNK;
        if (mxfp8)
            for (int64_t at = i; at < end; at += MW_MXFP8_ELEMENTS)
                widen_mxfp8(out + at, first + at / MW_MXFP8_ELEMENTS * MW_MXFP8_BYTES, end - at);
        else
            for (int64_t at = i; at < end; at += MW_NF4_ELEMENTS)
                widen_nf4(out + at, first + at / MW_NF4_ELEMENTS * MW_NF4_BYTES, end - at);
    }
}
