/* Merging rising and falling runs of `length` keys compares keys at distances that halve; one block
 * takes all steps below TILE, in shared memory. */
#include "exec/device/cuda/sort.cuh"

#include "exec/device/cuda/device.h"

#define THREADS 1024
#define TILE (2 * THREADS)

namespace
{

/* Pair `i` of all whose places are `distance` apart; in a run of `length` that begins at an odd
 * multiple of it, the larger key comes first.  Both are powers of two. */
MW_DEVICE void
compare(uint64_t *key, int64_t first_key, int64_t i, int64_t distance, int64_t length)
{
    int64_t low = 2 * i - (i & (distance - 1)), high = low + distance;
    bool falling = ((first_key + low) & length) != 0;

    if ((key[low] > key[high]) != falling) {
        uint64_t swapped = key[low];
        key[low] = key[high];
        key[high] = swapped;
    }
}

/* Merges runs of lengths from `shortest` to `longest`, distances below TILE. */
__global__ void
__launch_bounds__(THREADS) merge_tile(uint64_t *key, int64_t shortest, int64_t longest)
{
    MW_SHARED(uint64_t, tile, [TILE]);
    int64_t first = (int64_t)blockIdx.x * TILE;

    for (int i = threadIdx.x; i < TILE; i += THREADS)
        tile[i] = key[first + i];
    for (int64_t length = shortest; length <= longest; length *= 2) {
        for (int64_t distance = length < TILE ? length / 2 : TILE / 2; distance > 0;
             distance /= 2) {
            __syncthreads();
            compare(tile, first, threadIdx.x, distance, length);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TILE; i += THREADS)
        key[first + i] = tile[i];
}

__global__ void
__launch_bounds__(THREADS) merge_step(uint64_t *key, int64_t distance, int64_t length)
{
    compare(key, 0, (int64_t)blockIdx.x * THREADS + threadIdx.x, distance, length);
}

void
merge(void *stream, uint64_t *key, int64_t size, int64_t length)
{
    unsigned blocks = (unsigned)(size / TILE);

    for (int64_t distance = length / 2; distance >= TILE; distance /= 2)
        MW_LAUNCH(merge_step, blocks, THREADS, 0, stream, key, distance, length);
    MW_LAUNCH(merge_tile, blocks, THREADS, 0, stream, key, length, length);
}

} // namespace

int64_t
mw_cuda_sort_size(int64_t n)
{
    int64_t size = TILE;

    while (size < n)
        size *= 2;
    return size;
}

void
mw_cuda_sort(void *stream, uint64_t *key, int64_t size)
{
    MW_LAUNCH(merge_tile, (unsigned)(size / TILE), THREADS, 0, stream, key, 2, TILE);
    for (int64_t length = 2 * TILE; length <= size; length *= 2)
        merge(stream, key, size, length);
}
