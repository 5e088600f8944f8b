#include "exec/convert.h"
#include "exec/ranks_internal.h"

/* Sums of a few cache lines stay in the first-level cache from the first rank to the last. */
#define TILE 1024

static inline __attribute__((always_inline)) void
load(float *restrict sum, const void *source, bool fp32, int64_t at, int n)
{
    if (fp32) {
        const float *x = (const float *)source + at;
        for (int i = 0; i < n; i++)
            sum[i] = x[i];
    } else {
        const uint16_t *x = (const uint16_t *)source + at;
        for (int i = 0; i < n; i++)
            sum[i] = mw_fp32_of_bf16(x[i]);
    }
}

static inline __attribute__((always_inline)) void
add(float *restrict sum, const void *source, bool fp32, int64_t at, int n)
{
    if (fp32) {
        const float *x = (const float *)source + at;
        for (int i = 0; i < n; i++)
            sum[i] += x[i];
    } else {
        const uint16_t *x = (const uint16_t *)source + at;
        for (int i = 0; i < n; i++)
            sum[i] += mw_fp32_of_bf16(x[i]);
    }
}

static inline __attribute__((always_inline)) void
scale(float *restrict value, float factor, int n)
{
    for (int i = 0; i < n; i++)
        value[i] *= factor;
}

static inline __attribute__((always_inline)) void
round_to_bf16(float *restrict value, int n)
{
    for (int i = 0; i < n; i++)
        value[i] = mw_fp32_of_bf16(mw_bf16_of_fp32(value[i]));
}

static inline __attribute__((always_inline)) void
store(void *shard, bool fp32, int64_t at, const float *restrict value, int n)
{
    if (fp32) {
        float *y = (float *)shard + at;
        for (int i = 0; i < n; i++)
            y[i] = value[i];
    } else {
        uint16_t *y = (uint16_t *)shard + at;
        for (int i = 0; i < n; i++)
            y[i] = mw_bf16_of_fp32(value[i]);
    }
}

static inline __attribute__((always_inline)) void
sum_tiles(void *shard, const void *const *sources, int count, int64_t elements,
          struct mw_ranks_sum sum)
{
    float value[TILE];

    for (int64_t at = 0; at < elements; at += TILE) {
        int n = (int)MIN(TILE, elements - at);

        load(value, sources[0], sum.whole_fp32, at, n);
        for (int rank = 1; rank < count; rank++)
            add(value, sources[rank], sum.whole_fp32, at, n);
        scale(value, sum.scale, n);
        /* What is stored as bf16 is rounded there. */
        if (!sum.whole_fp32 && (sum.adds || sum.shard_fp32))
            round_to_bf16(value, n);
        if (sum.adds)
            add(value, shard, sum.shard_fp32, at, n);
        store(shard, sum.shard_fp32, at, value, n);
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
