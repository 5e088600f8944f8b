#include "tests/cuda/ranks_table.h"

#include <cuda_runtime_api.h>
#include <string.h>

#include "base/error.h"
#include "exec/data/convert.h"
#include "exec/device/cuda/collectives.h"
#include "tests/cases.h"

#define ROUNDS MW_CASES(120)
#define ELEMENTS_MAX 20000
#define BYTES_MAX (4 * ELEMENTS_MAX)
#define STREAM 1

enum kind { ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, BROADCAST, RING, GROUP, EXCHANGE, KINDS };

/* The same for all ranks. */
struct round {
    enum kind kind;
    struct mw_ranks_part part;
    enum mw_dtype dtype;
    bool in_place;
    int root;
};

/* One of the two, and what it works on. */
struct side {
    const struct mw_collectives *table;
    void *self;
    char *whole, *shard; /* [BYTES_MAX] */
};

static struct round
draw(GRand *rand, int ranks)
{
    static const enum mw_dtype types[] = {MW_DTYPE_BF16, MW_DTYPE_FP16, MW_DTYPE_FP32};
    struct round it = {.kind = (enum kind)g_rand_int_range(rand, 0, KINDS),
                       .dtype = types[g_rand_int_range(rand, 0, G_N_ELEMENTS(types))],
                       .in_place = g_rand_boolean(rand),
                       .root = g_rand_int_range(rand, 0, ranks)};
    bool even = g_rand_boolean(rand), range = g_rand_int_range(rand, 0, 3) == 0;
    int32_t shard = g_rand_int_range(rand, 1, ELEMENTS_MAX / ranks);

    it.part.shard_elements = shard;
    it.part.elements = even ? (int64_t)shard * ranks : g_rand_int_range(rand, 1, shard * ranks + 1);
    if (range) {
        it.part.range_first = g_rand_int_range(rand, 0, shard);
        it.part.range_elements = g_rand_int_range(rand, 0, shard + 1);
    }
    return it;
}

/* Small whole numbers: sums are exact in any order. */
static void
fill(GRand *rand, char *data, enum mw_dtype dtype)
{
    for (int i = 0; i < ELEMENTS_MAX; i++) {
        float x = (float)g_rand_int_range(rand, -8, 9);
        if (dtype == MW_DTYPE_FP32)
            ((float *)(void *)data)[i] = x;
        else
            ((uint16_t *)(void *)data)[i] = mw_half_of_fp32(x, dtype);
    }
}

/* To the next rank, from the one before; the first one begins, unless all go at once. */
static bool
go_round(const struct side *side, const struct mw_ranks *ranks, int64_t bytes, GError **error)
{
    int count = mw_ranks_count(ranks), own = mw_ranks_index(ranks);
    int next = (own + 1) % count, before = (own + count - 1) % count;
    const struct mw_collectives *t = side->table;
    bool first = own == 0 || t->group_begin;

    return (!t->group_begin || t->group_begin(side->self, STREAM, error)) &&
           (!first || t->send(side->self, STREAM, side->shard, bytes, next, error)) &&
           t->receive(side->self, STREAM, side->whole, bytes, before, error) &&
           (first || t->send(side->self, STREAM, side->shard, bytes, next, error)) &&
           (!t->group_end || t->group_end(side->self, STREAM, error));
}

static bool
broadcast_two(const struct side *side, int ranks, int64_t bytes, int root, GError **error)
{
    const struct mw_collectives *t = side->table;

    return (!t->group_begin || t->group_begin(side->self, STREAM, error)) &&
           t->broadcast(side->self, STREAM, side->whole, bytes, root, error) &&
           t->broadcast(side->self, STREAM, side->shard, bytes, (root + 1) % ranks, error) &&
           (!t->group_end || t->group_end(side->self, STREAM, error));
}

enum { EXPERTS = 3, ROW_BYTES = 40 };

/* Rows to experts, as many as the round says, and back. */
static bool
exchange(const struct side *side, const struct round *it, int ranks, GError **error)
{
    const struct mw_collectives *t = side->table;
    int32_t counts[16 * 16 * EXPERTS];
    int all = ranks * EXPERTS;

    for (int i = 0; i < ranks * all; i++)
        counts[i] = (int32_t)((it->part.elements + 7 * i) % 11 % 4);
    struct mw_ranks_rows rows = {ROW_BYTES, EXPERTS, counts, false}, back = rows;
    back.back = true;
    return t->exchange_rows(side->self, STREAM, side->whole, side->shard, &rows, error) &&
           t->exchange_rows(side->self, STREAM, side->shard, side->whole, &back, error);
}

static bool
run(const struct side *side, const struct round *it, const struct mw_ranks *ranks, GError **error)
{
    int64_t bytes = it->dtype == MW_DTYPE_FP32 ? 4 : 2,
            first = mw_ranks_index(ranks) * it->part.shard_elements;
    char *shard = it->in_place ? side->whole + MIN(first, it->part.elements) * bytes : side->shard;
    const struct mw_collectives *t = side->table;

    switch (it->kind) {
    case ALL_GATHER:
        return t->all_gather(side->self, STREAM, side->whole, shard, &it->part, bytes, error);
    case REDUCE_SCATTER:
        return t->reduce_scatter(side->self, STREAM, shard, side->whole, &it->part, it->dtype,
                                 error);
    case ALL_REDUCE:
        return t->all_reduce(side->self, STREAM, side->whole, it->dtype, it->part.elements, error);
    case BROADCAST:
        return t->broadcast(side->self, STREAM, side->whole, it->part.elements * bytes, it->root,
                            error);
    case EXCHANGE:
        return exchange(side, it, mw_ranks_count(ranks), error);
    case RING:
        return go_round(side, ranks, it->part.elements * bytes, error);
    default:
        return broadcast_two(side, mw_ranks_count(ranks), it->part.elements * bytes, it->root,
                             error);
    }
}

static bool
is_same(const char *device, const char *host)
{
    g_autofree char *copy = g_malloc(BYTES_MAX);

    cudaMemcpy(copy, device, BYTES_MAX, cudaMemcpyDeviceToHost);
    return !memcmp(copy, host, BYTES_MAX);
}

static bool
compare(const struct side *host, const struct side *device, struct mw_ranks *ranks, int number,
        GError **error)
{
    GRand *common = g_rand_new_with_seed((guint32)number);
    GRand *own = g_rand_new_with_seed((guint32)(number * 100 + mw_ranks_index(ranks)));
    struct round it = draw(common, mw_ranks_count(ranks));

    fill(own, host->whole, it.dtype);
    fill(own, host->shard, it.dtype);
    g_rand_free(common);
    g_rand_free(own);
    cudaMemcpy(device->whole, host->whole, BYTES_MAX, cudaMemcpyHostToDevice);
    cudaMemcpy(device->shard, host->shard, BYTES_MAX, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize(); /* streams of collectives do not wait for the default one */
    if (!run(host, &it, ranks, error) || !run(device, &it, ranks, error))
        return false;
    if (is_same(device->whole, host->whole) && is_same(device->shard, host->shard))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "round %d, of kind %d: %d elements, shards of %d: other values", number, it.kind,
                (int)it.part.elements, (int)it.part.shard_elements);
    return false;
}

bool
ranks_table(struct mw_ranks *ranks, GError **error)
{
    struct side host = {&mw_ranks_collectives, ranks, g_malloc0(BYTES_MAX), g_malloc0(BYTES_MAX)};
    struct side device = {.table = &mw_cuda_collectives};
    struct mw_cuda_gpu gpu;
    bool good =
        mw_cuda_gpu_pick(mw_ranks_node_index(ranks), mw_ranks_node_count(ranks), &gpu, error);

    if (!good)
        return false;
    cudaSetDevice(gpu.ordinal);
    cudaMalloc((void **)&device.whole, BYTES_MAX);
    cudaMalloc((void **)&device.shard, BYTES_MAX);
    struct mw_cuda_queues *queues = mw_cuda_queues_create(&gpu, error);
    device.self = queues ? mw_cuda_peers_create(&gpu, queues, ranks, 1u << STREAM, error) : NULL;
    good = device.self != NULL;
    for (int round = 0; good && round < ROUNDS; round++)
        good = compare(&host, &device, ranks, round, error);
    if (!good)
        return false;
    mw_cuda_peers_destroy(device.self);
    mw_cuda_queues_destroy(queues);
    cudaFree(device.whole);
    cudaFree(device.shard);
    g_free(host.whole);
    g_free(host.shard);
    return true;
}
