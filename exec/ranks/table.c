/* The collectives of ranks as a table. */
#include "exec/ranks/collectives.h"

static bool
all_gather(void *self, int stream, void *whole, const void *shard, const struct mw_ranks_part *part,
           int64_t element_bytes, GError **error)
{
    return mw_ranks_all_gather(self, stream, whole, shard, part, element_bytes, error);
}

static bool
reduce_scatter(void *self, int stream, void *shard, const void *whole,
               const struct mw_ranks_part *part, enum mw_dtype dtype, GError **error)
{
    struct mw_ranks_sum sum = {.whole = dtype, .shard = dtype, .scale = 1};

    return mw_ranks_reduce_scatter(self, stream, shard, whole, part, sum, error);
}

static bool
all_reduce(void *self, int stream, void *data, enum mw_dtype dtype, int64_t elements,
           GError **error)
{
    return mw_ranks_all_reduce(self, stream, data, dtype, elements, 1, error);
}

static bool
exchange_rows(void *self, int stream, void *to, const void *from, const struct mw_ranks_rows *rows,
              GError **error)
{
    return mw_ranks_exchange_rows(self, stream, to, from, rows, error);
}

static bool
broadcast(void *self, int stream, void *data, int64_t bytes, int root, GError **error)
{
    return mw_ranks_broadcast(self, stream, data, bytes, root, error);
}

static bool
all_to_all(void *self, int stream, void *to, const void *from, int64_t block_bytes, GError **error)
{
    return mw_ranks_all_to_all(self, stream, to, from, block_bytes, error);
}

static bool
pass(void *self, int stream, void *to, const void *from, int64_t bytes, GError **error)
{
    return mw_ranks_pass(self, stream, to, from, bytes, error);
}

static bool
exchange_shards(void *self, int stream, void *whole, const struct mw_ranks_part *part,
                int64_t element_bytes, bool back, GError **error)
{
    return mw_ranks_exchange_shards(self, stream, whole, part, element_bytes, back, error);
}

static bool
send(void *self, int stream, const void *data, int64_t bytes, int to, GError **error)
{
    return mw_ranks_send(self, stream, data, bytes, to, error);
}

static bool
receive(void *self, int stream, void *data, int64_t bytes, int from, GError **error)
{
    return mw_ranks_receive(self, stream, data, bytes, from, error);
}

const struct mw_collectives mw_ranks_collectives = {
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .exchange_rows = exchange_rows,
    .broadcast = broadcast,
    .all_to_all = all_to_all,
    .pass = pass,
    .exchange_shards = exchange_shards,
    .send = send,
    .receive = receive,
};
