/*
 * NCCL's collectives have shards of equal length, one after the other.  If the last ones are
 * shorter, or a collective covers a range of every shard, it becomes one send or receive per rank,
 * in one group.
 */
#include <cuda_runtime_api.h>

#include "exec/device/cuda/nccl.h"

/* Of the groups that this thread is in: how many, and the last call. */
static _Thread_local struct {
    int depth;
    const char *call;
} group;

#define CALL(peers, stream, error, name, arguments)                                                \
    (note(#name), MW_CUDA_PEERS_CALL(peers, stream, error, name, arguments))

static void
note(const char *call)
{
    group.call = call;
    mw_cuda_queues_name(call);
}

static bool
is_in_op(void)
{
    return mw_cuda_stream() != cudaStreamPerThread;
}

static cudaStream_t
stream_of(const struct mw_cuda_peers *peers, int stream)
{
    return is_in_op() ? mw_cuda_stream() : peers->streams[stream];
}

/* In no op: until it is done. */
static bool
wait_outside_ops(struct mw_cuda_peers *peers, int stream, GError **error)
{
    if (is_in_op())
        return true;
    return mw_cuda_check(peers->gpu, cudaStreamSynchronize(peers->streams[stream]),
                         "cudaStreamSynchronize", error) &&
           mw_cuda_peers_enter(peers, error) &&
           mw_cuda_peers_exit(peers, stream, ncclSuccess, group.call, error);
}

/* --- groups ---------------------------------------------------------------------------------- */

static bool
begin(struct mw_cuda_peers *peers, int stream, GError **error)
{
    cudaSetDevice(peers->gpu->ordinal);
    if (!MW_CUDA_PEERS_CALL(peers, stream, error, ncclGroupStart, ()))
        return false;
    group.depth++;
    return true;
}

/* The outermost group is on the GPU's stream when this returns, and is done where the thread is in
 * no op. */
static bool
end(struct mw_cuda_peers *peers, int stream, bool good, GError **error)
{
    group.depth--;
    if (!good)
        return false;
    if (!MW_CUDA_PEERS_CALL(peers, stream, error, ncclGroupEnd, ()))
        return false;
    if (group.depth)
        return true;
    return mw_cuda_peers_wait(peers, stream, group.call ? group.call : "ncclGroupEnd", error) &&
           wait_outside_ops(peers, stream, error);
}

static bool
group_begin(void *self, int stream, GError **error)
{
    group.depth = 0;
    group.call = NULL;
    return begin(self, stream, error);
}

static bool
group_end(void *self, int stream, GError **error)
{
    return end(self, stream, true, error);
}

/* --- operands -------------------------------------------------------------------------------- */

/* Whether a collective is of whole shards of one length. */
static bool
is_even(const struct mw_cuda_peers *peers, int stream, const struct mw_ranks_part *part)
{
    return !part->range_first &&
           (!part->range_elements || part->range_elements >= part->shard_elements) &&
           part->elements == part->shard_elements * mw_ranks_lane_count(peers->ranks, stream);
}

static ncclDataType_t
type_of(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP32   ? ncclFloat32
           : dtype == MW_DTYPE_FP16 ? ncclFloat16
                                    : ncclBfloat16;
}

static int64_t
bytes_of(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP32 ? 4 : 2;
}

/* --- collectives ----------------------------------------------------------------------------- */

static bool
gather_from_each(struct mw_cuda_peers *peers, int stream, char *whole, const char *shard,
                 const struct mw_ranks_part *part, int64_t element_bytes, GError **error)
{
    int own = mw_ranks_lane_index(peers->ranks, stream);

    for (int rank = 0; rank < mw_ranks_lane_count(peers->ranks, stream); rank++) {
        int64_t first, elements = mw_ranks_range(part, rank, &first);
        char *at = whole + first * element_bytes;
        const char *from = rank == own ? shard + part->range_first * element_bytes : at;
        if (elements && !CALL(peers, stream, error, ncclBroadcast,
                              (from, at, (size_t)(elements * element_bytes), ncclUint8, rank,
                               peers->comms[stream], stream_of(peers, stream))))
            return false;
    }
    return true;
}

static bool
all_gather(void *self, int stream, void *whole, const void *shard, const struct mw_ranks_part *part,
           int64_t element_bytes, GError **error)
{
    struct mw_cuda_peers *peers = self;

    if (!begin(peers, stream, error))
        return false;
    bool good = is_even(peers, stream, part)
                    ? CALL(peers, stream, error, ncclAllGather,
                           (shard, whole, (size_t)(part->shard_elements * element_bytes), ncclUint8,
                            peers->comms[stream], stream_of(peers, stream)))
                    : gather_from_each(peers, stream, whole, shard, part, element_bytes, error);
    return end(peers, stream, good, error);
}

static bool
reduce_to_each(struct mw_cuda_peers *peers, int stream, char *shard, const char *whole,
               const struct mw_ranks_part *part, enum mw_dtype dtype, GError **error)
{
    int own = mw_ranks_lane_index(peers->ranks, stream);

    for (int rank = 0; rank < mw_ranks_lane_count(peers->ranks, stream); rank++) {
        int64_t first, elements = mw_ranks_range(part, rank, &first);
        const char *from = whole + first * bytes_of(dtype);
        char *to = rank == own ? shard + part->range_first * bytes_of(dtype) : NULL;
        if (elements && !CALL(peers, stream, error, ncclReduce,
                              (from, to, (size_t)elements, type_of(dtype), ncclSum, rank,
                               peers->comms[stream], stream_of(peers, stream))))
            return false;
    }
    return true;
}

static bool
reduce_scatter(void *self, int stream, void *shard, const void *whole,
               const struct mw_ranks_part *part, enum mw_dtype dtype, GError **error)
{
    struct mw_cuda_peers *peers = self;

    if (!begin(peers, stream, error))
        return false;
    bool good = is_even(peers, stream, part)
                    ? CALL(peers, stream, error, ncclReduceScatter,
                           (whole, shard, (size_t)part->shard_elements, type_of(dtype), ncclSum,
                            peers->comms[stream], stream_of(peers, stream)))
                    : reduce_to_each(peers, stream, shard, whole, part, dtype, error);
    return end(peers, stream, good, error);
}

static bool
all_reduce(void *self, int stream, void *data, enum mw_dtype dtype, int64_t elements,
           GError **error)
{
    struct mw_cuda_peers *peers = self;

    if (!begin(peers, stream, error))
        return false;
    bool good = CALL(peers, stream, error, ncclAllReduce,
                     (data, data, (size_t)elements, type_of(dtype), ncclSum, peers->comms[stream],
                      stream_of(peers, stream)));
    return end(peers, stream, good, error);
}

/* One piece, to a rank or from it. */
static bool
send_piece(struct mw_cuda_peers *peers, int stream, const char *from, struct mw_ranks_piece piece,
           int to, GError **error)
{
    return !piece.bytes || CALL(peers, stream, error, ncclSend,
                                (from + piece.at, (size_t)piece.bytes, ncclUint8, to,
                                 peers->comms[stream], stream_of(peers, stream)));
}

static bool
receive_piece(struct mw_cuda_peers *peers, int stream, char *to, struct mw_ranks_piece piece,
              int from, GError **error)
{
    return !piece.bytes || CALL(peers, stream, error, ncclRecv,
                                (to + piece.at, (size_t)piece.bytes, ncclUint8, from,
                                 peers->comms[stream], stream_of(peers, stream)));
}

static bool
copy_piece(struct mw_cuda_peers *peers, int stream, char *to, const char *from, int64_t bytes,
           GError **error)
{
    return !bytes ||
           mw_cuda_check(peers->gpu,
                         cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice,
                                         stream_of(peers, stream)),
                         "cudaMemcpyAsync", error);
}

/* All pieces in one group; a rank's own are copied. */
static bool
exchange_pieces(struct mw_cuda_peers *peers, int stream, char *to, const char *from,
                const struct mw_ranks_rows *rows, int e, GError **error)
{
    int own = mw_ranks_lane_index(peers->ranks, stream);
    int count = mw_ranks_lane_count(peers->ranks, stream);
    bool good = true;

    for (int peer = 0; good && peer < count; peer++) {
        struct mw_ranks_piece come = mw_ranks_rows_come(rows, count, peer, own * rows->experts + e);
        struct mw_ranks_piece go = mw_ranks_rows_go(rows, count, own, peer * rows->experts + e);
        struct mw_ranks_piece in = rows->back ? go : come, out = rows->back ? come : go;
        good = peer == own ? copy_piece(peers, stream, to + in.at, from + out.at, in.bytes, error)
                           : send_piece(peers, stream, from, out, peer, error) &&
                                 receive_piece(peers, stream, to, in, peer, error);
    }
    return good;
}

static bool
exchange_rows(void *self, int stream, void *to, const void *from, const struct mw_ranks_rows *rows,
              GError **error)
{
    struct mw_cuda_peers *peers = self;
    bool good = begin(peers, stream, error);

    if (!good)
        return false;
    for (int e = 0; good && e < rows->experts; e++)
        good = exchange_pieces(peers, stream, to, from, rows, e, error);
    return end(peers, stream, good, error);
}

static bool
broadcast(void *self, int stream, void *data, int64_t bytes, int root, GError **error)
{
    struct mw_cuda_peers *peers = self;

    if (!begin(peers, stream, error))
        return false;
    bool good = !bytes || CALL(peers, stream, error, ncclBroadcast,
                               (data, data, (size_t)bytes, ncclUint8, root, peers->comms[stream],
                                stream_of(peers, stream)));
    return end(peers, stream, good, error);
}

static bool
send(void *self, int stream, const void *data, int64_t bytes, int to, GError **error)
{
    struct mw_cuda_peers *peers = self;

    if (!begin(peers, stream, error))
        return false;
    bool good = !bytes || CALL(peers, stream, error, ncclSend,
                               (data, (size_t)bytes, ncclUint8, to, peers->comms[stream],
                                stream_of(peers, stream)));
    return end(peers, stream, good, error);
}

static bool
receive(void *self, int stream, void *data, int64_t bytes, int from, GError **error)
{
    struct mw_cuda_peers *peers = self;

    if (!begin(peers, stream, error))
        return false;
    bool good = !bytes || CALL(peers, stream, error, ncclRecv,
                               (data, (size_t)bytes, ncclUint8, from, peers->comms[stream],
                                stream_of(peers, stream)));
    return end(peers, stream, good, error);
}

/* The algorithm is what NCCL reads of the environment when communicators are made. */
static void
describe(void *self, char *words, size_t words_bytes)
{
    const struct mw_cuda_peers *peers = self;
    const char *algorithm = g_getenv("NCCL_ALGO");
    int version = 0;

    peers->nccl.ncclGetVersion(&version);
    g_snprintf(words, words_bytes, "NCCL %d.%d.%d, algorithm %s", version / 10000,
               version / 100 % 100, version % 100,
               algorithm ? algorithm : "as it chooses (NCCL_ALGO)");
}

const struct mw_collectives mw_cuda_collectives = {
    .describe = describe,
    .group_begin = group_begin,
    .group_end = group_end,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .exchange_rows = exchange_rows,
    .broadcast = broadcast,
    .send = send,
    .receive = receive,
};
