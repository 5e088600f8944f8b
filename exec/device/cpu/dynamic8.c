/* Moments in 8 bits (exec/operators/dynamic8.h): narrowed sixteen at a time. */
#include "exec/operators/dynamic8.h"
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/lanes.h"

#define BLOCK MW_DYNAMIC8_BLOCK

/* Blocks that are worth more than one thread. */
#define SEVERAL 8

MW_INLINE int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

MW_INLINE mw_native_i32
select_i32(mw_native_i32 mask, mw_native_i32 yes, mw_native_i32 no)
{
    return (mask & yes) | (~mask & no);
}

/* --- narrowing ------------------------------------------------------------------------------- */

MW_INLINE mw_native_i32
size_at(const float *x)
{
    return (mw_native_i32)mw_native_load(x) & 0x7fffffff;
}

/* The bits of the largest magnitude; any NaN is above infinity. */
MW_INLINE int32_t
largest_of(const float *x)
{
    mw_native_i32 most[4] = {{0}};
    int32_t largest = 0;

    for (int i = 0; i < BLOCK; i += 4 * MW_WIDTH)
        for (int k = 0; k < 4; k++) {
            mw_native_i32 size = size_at(x + i + k * MW_WIDTH);
            most[k] = select_i32(size > most[k], size, most[k]);
        }
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < MW_WIDTH; i++)
            largest = most[k][i] > largest ? most[k][i] : largest;
    return largest;
}

/* The element of largest magnitude, the first of several. */
MW_INLINE float
scale_of(const float *x)
{
    int32_t largest = largest_of(x);

    for (int i = 0; i < BLOCK; i += MW_LANES) {
        mw_native_i32 found = {0};
        MW_EACH_PART (p)
            found |= size_at(x + i + p * MW_WIDTH) == largest;
        int32_t any = 0;
        for (int k = 0; k < MW_WIDTH; k++)
            any |= found[k];
        for (int k = 0; any && k < MW_LANES; k++) {
            int32_t bits;
            memcpy(&bits, &x[i + k], sizeof bits);
            if ((bits & 0x7fffffff) == largest)
                return x[i + k];
        }
    }
    return x[0];
}

/* The nearest values' codes, the smaller of two; magnitudes are at most 1. */
MW_INLINE mw_native_i32
codes_of(const struct mw_dynamic8 *of, mw_native x)
{
    mw_native_i32 bits = (mw_native_i32)x, size = bits & 0x7fffffff, negative = bits >> 31;
    mw_native_i32 bucket = (size >> MW_DYNAMIC8_SHIFT) - MW_DYNAMIC8_BEFORE;
    mw_native_i32 none = {0}, lowest = none + of->codes.least;
    mw_native_i32 last = none + (of->codes.largest - 1);

    bucket &= bucket > 0;
    mw_native_i32 code = mw_native_gather_i32(of->below, bucket);
    code -= (mw_native)size > mw_native_gather(of->middle, bucket); /* a mask is -1 */
    code = select_i32(code < lowest, lowest, code) & (size != 0);
    return select_i32(negative, -select_i32(code > last, last, code), code);
}

/* The lowest byte of each. */
MW_INLINE void
store_bytes(uint8_t *to, const mw_native_i32 from[MW_PARTS])
{
#if MW_WIDTH == 16
    _mm_storeu_si128((__m128i_u *)(void *)to, _mm512_cvtepi32_epi8((__m512i)from[0]));
#elif MW_WIDTH == 8
    __m256i low = (__m256i)(from[0] & 0xff), high = (__m256i)(from[1] & 0xff);
    __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
    _mm_storeu_si128((__m128i_u *)(void *)to, _mm_packus_epi16(_mm256_castsi256_si128(words),
                                                               _mm256_extracti128_si256(words, 1)));
#else
    for (int i = 0; i < MW_LANES; i++)
        to[i] = (uint8_t)from[i / MW_WIDTH][i % MW_WIDTH];
#endif
}

MW_INLINE void
narrow_block(uint8_t *block, const float *x, const struct mw_dynamic8 *of)
{
    float scale = scale_of(x), inverse = 1 / scale;
    mw_native by = mw_native_splat(inverse);

    if (__builtin_isfinite(scale) && !__builtin_isfinite(inverse)) /* too small to divide by */
        scale = 0;
    memcpy(block + BLOCK, &scale, sizeof scale);
    if (!__builtin_isnormal(scale)) {
        memset(block, 0, BLOCK);
        return;
    }
    for (int i = 0; i < BLOCK; i += MW_LANES) {
        mw_native_i32 codes[MW_PARTS];
        MW_EACH_PART (p)
            codes[p] = codes_of(of, mw_native_load(x + i + p * MW_WIDTH) * by);
        store_bytes(block + i, codes);
    }
}

void
MW_CPU(narrow_dynamic8)(void *blocks, const float *x, const struct mw_dynamic8 *of, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > SEVERAL * BLOCK)
    for (int64_t i = 0; i < n; i += BLOCK) {
        uint8_t *block = (uint8_t *)blocks + i / BLOCK * MW_DYNAMIC8_BYTES;
        if (n - i >= BLOCK) {
            narrow_block(block, x + i, of);
            continue;
        }
        float last[BLOCK] = {0};
        memcpy(last, x + i, (size_t)(n - i) * sizeof *last);
        narrow_block(block, last, of);
    }
}

/* --- widening -------------------------------------------------------------------------------- */

/* One by one: a vector's gather takes no fewer accesses, and was slower. */
MW_INLINE void
widen_some(float *out, const uint8_t *codes, const float *values, float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = values[codes[i]] * scale;
}

void
MW_CPU(widen_dynamic8)(float *out, const void *blocks, const struct mw_dynamic8 *of, int64_t first,
                       int64_t n)
{
#pragma omp parallel for schedule(static) if (n > SEVERAL * BLOCK)
    for (int64_t b = first / BLOCK; b < (first + n + BLOCK - 1) / BLOCK; b++) {
        const uint8_t *block = (const uint8_t *)blocks + b * MW_DYNAMIC8_BYTES;
        int64_t begin = b * BLOCK < first ? first : b * BLOCK;
        int64_t end = least((b + 1) * BLOCK, first + n);
        float scale;
        memcpy(&scale, block + BLOCK, sizeof scale);
        widen_some(out + begin - first, block + begin - b * BLOCK, of->codes.values, scale,
                   end - begin);
    }
}
