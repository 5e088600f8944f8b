#include "exec/data/convert.h"
#include "exec/ranks/internal.h"

/* Sums of a few cache lines stay in the first-level cache from the first rank to the last. */
#define TILE 1024

int64_t
mw_ranks_element_bytes(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP32 ? 4 : 2;
}

static inline __attribute__((always_inline)) void
load(float *restrict sum, const void *source, enum mw_dtype dtype, int64_t at, int n)
{
    if (dtype == MW_DTYPE_FP32) {
        const float *x = (const float *)source + at;
        for (int i = 0; i < n; i++)
            sum[i] = x[i];
    } else {
        const uint16_t *x = (const uint16_t *)source + at;
        for (int i = 0; i < n; i++)
            sum[i] = mw_fp32_of_half(x[i], dtype);
    }
}

static inline __attribute__((always_inline)) void
add(float *restrict sum, const void *source, enum mw_dtype dtype, int64_t at, int n)
{
    if (dtype == MW_DTYPE_FP32) {
        const float *x = (const float *)source + at;
        for (int i = 0; i < n; i++)
            sum[i] += x[i];
    } else {
        const uint16_t *x = (const uint16_t *)source + at;
        for (int i = 0; i < n; i++)
            sum[i] += mw_fp32_of_half(x[i], dtype);
    }
}

static inline __attribute__((always_inline)) void
scale(float *restrict value, float factor, int n)
{
    for (int i = 0; i < n; i++)
        value[i] *= factor;
}

static inline __attribute__((always_inline)) void
round_to_half(float *restrict value, enum mw_dtype dtype, int n)
{
    for (int i = 0; i < n; i++)
        value[i] = mw_fp32_of_half(mw_half_of_fp32(value[i], dtype), dtype);
}

static inline __attribute__((always_inline)) void
store(void *shard, enum mw_dtype dtype, int64_t at, const float *restrict value, int n)
{
    if (dtype == MW_DTYPE_FP32) {
        float *y = (float *)shard + at;
        for (int i = 0; i < n; i++)
            y[i] = value[i];
    } else {
        uint16_t *y = (uint16_t *)shard + at;
        for (int i = 0; i < n; i++)
            y[i] = mw_half_of_fp32(value[i], dtype);
    }
}

static inline __attribute__((always_inline)) void
sum_tiles(void *shard, const void *const *sources, int count, int64_t elements,
          struct mw_ranks_sum sum)
{
    float value[TILE];

    for (int64_t at = 0; at < elements; at += TILE) {
        int n = (int)MIN(TILE, elements - at);

        load(value, sources[0], sum.whole, at, n);
        for (int rank = 1; rank < count; rank++)
            add(value, sources[rank], sum.whole, at, n);
        scale(value, sum.scale, n);
        /* What is stored in the same type is rounded there. */
        if (sum.whole != MW_DTYPE_FP32 && (sum.adds || sum.shard != sum.whole))
            round_to_half(value, sum.whole, n);
        if (sum.adds)
            add(value, shard, sum.shard, at, n);
        store(shard, sum.shard, at, value, n);
    }
}

#if defined(__x86_64__)
/* The same operations on longer vectors. */
__attribute__((target("avx2"))) static void
sum_tiles_avx2(void *shard, const void *const *sources, int count, int64_t elements,
               struct mw_ranks_sum sum)
{
    sum_tiles(shard, sources, count, elements, sum);
}
#endif

void
mw_ranks_sum_sources(void *shard, const void *const *sources, int count, int64_t elements,
                     struct mw_ranks_sum sum)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        sum_tiles_avx2(shard, sources, count, elements, sum);
        return;
    }
#endif
    sum_tiles(shard, sources, count, elements, sum);
}
