/* Embeddings of tokens.  Backward sorts the tokens by their row of the table and then by their own
 * index; the first of each row's adds them all up, so that every sum is in order of tokens. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/in_order.cuh"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/sort.cuh"

#define NO_KEY UINT64_MAX /* a token that is not in the table, sorted last */
#define COLUMNS 4         /* of a thread */

namespace
{

/* Row of the table, -1: not of this part of it. */
MW_DEVICE int64_t
table_row(int32_t token, int32_t first, int32_t count)
{
    int64_t id = (int64_t)token - first;

    return id >= 0 && id < count ? id : -1;
}

__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX)
    look_up(uint16_t *y, const uint16_t *weight, const int32_t *tokens, int64_t columns,
            int32_t first, int32_t count, bool wide)
{
    int64_t id = table_row(tokens[blockIdx.x], first, count);

    if (id >= 0)
        mw_copy_row(y + blockIdx.x * columns, weight + id * columns, columns, wide);
}

__global__ void
make_keys(uint64_t *key, int64_t size, const int32_t *tokens, int64_t rows, int32_t first,
          int32_t count)
{
    int64_t i = mw_first_element<1>();
    int64_t id = i < rows ? table_row(tokens[i], first, count) : -1;

    if (i < size)
        key[i] = id < 0 ? NO_KEY : (uint64_t)id << 32 | (uint64_t)i;
}

struct gradient {
    struct mw_gradient to;
    const uint16_t *dy;
    int64_t rows, columns;
    bool wide;
};

/* How many keys from `first` on are of its row of the table, found in steps that double and then
 * halve. */
MW_DEVICE int64_t
count_keys(const uint64_t *key, int64_t first, int64_t rows)
{
    uint64_t id = key[first] >> 32;
    int64_t count = 1, step = 1;

    for (; first + count + step <= rows && key[first + count + step - 1] >> 32 == id; step *= 2)
        count += step;
    for (; step > 0; step /= 2)
        if (first + count + step <= rows && key[first + count + step - 1] >> 32 == id)
            count += step;
    return count;
}

template <bool wide>
MW_DEVICE void
add_tokens(const struct gradient &g, const uint64_t *key, int64_t count)
{
    int64_t id = (int64_t)(key[0] >> 32);

    for (int64_t c = COLUMNS * threadIdx.x; c < g.columns; c += COLUMNS * blockDim.x) {
        int64_t n = wide ? COLUMNS : g.columns - c;
        float sum[COLUMNS] = {0.0f};
        mw_sum_in_order(sum, count, [&](float(&v)[COLUMNS], int64_t i) {
            mw_load(v, g.dy + (int64_t)(key[i] & UINT32_MAX) * g.columns + c, n, wide);
        });
        mw_gradient_put(g.to, id * g.columns + c, sum, n, wide);
    }
}

/* A block takes a key; it has work where the key is the first of its row of the table. */
__global__ void
__launch_bounds__(MW_ROW_THREADS_MAX) add_up(struct gradient g, const uint64_t *key)
{
    int64_t first = blockIdx.x;

    if (key[first] == NO_KEY || (first > 0 && key[first - 1] >> 32 == key[first] >> 32))
        return;
    int64_t count = count_keys(key, first, g.rows);
    if (g.wide)
        add_tokens<true>(g, key + first, count);
    else
        add_tokens<false>(g, key + first, count);
}

} // namespace

int
MW_CUDA(embedding_forward)(void *stream, uint16_t *y, const uint16_t *weight, const int32_t *tokens,
                           int64_t rows, int64_t columns, int32_t first, int32_t count)
{
    bool wide = mw_aligned(16, y, weight) && columns % MW_GROUP == 0;

    if (!rows)
        return 0;
    MW_LAUNCH(look_up, (unsigned)rows, mw_row_threads(columns, MW_GROUP), 0, stream, y, weight,
              tokens, columns, first, count, wide);
    return cudaGetLastError();
}

int64_t
MW_CUDA(embedding_scratch_bytes)(int64_t rows)
{
    return mw_cuda_sort_size(rows) * (int64_t)sizeof(uint64_t);
}

int
MW_CUDA(embedding_backward)(void *stream, struct mw_gradient dweight, const uint16_t *dy,
                            const int32_t *tokens, int64_t rows, int64_t columns, int32_t first,
                            int32_t count, void *scratch)
{
    int64_t size = mw_cuda_sort_size(rows), element_bytes = dweight.fp32 ? 4 : 2;
    uint64_t *key = (uint64_t *)scratch;
    bool wide = mw_aligned(8, dy) && mw_gradient_aligned(dweight) && columns % COLUMNS == 0;
    struct gradient g = {dweight, dy, rows, columns, wide};
    int failed = dweight.accumulate
                     ? 0
                     : mw_cuda_fill(stream, dweight.data, 0, count * columns * element_bytes);

    if (failed || !rows)
        return failed;
    MW_LAUNCH(make_keys, mw_blocks(size, 1), MW_THREADS, 0, stream, key, size, tokens, rows, first,
              count);
    mw_cuda_sort(stream, key, size);
    MW_LAUNCH(add_up, (unsigned)rows, mw_row_threads(columns, COLUMNS), 0, stream, g, key);
    return cudaGetLastError();
}
