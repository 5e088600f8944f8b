/*
 * NCCL over memory that the processes of a machine share: see fake.h.
 *
 * All is messages between two ranks, in blocks, through a channel each way for every pair.  Those
 * of a group proceed in any order that each channel keeps; sums are computed when all have arrived,
 * in the order of ranks.  Communicators do not block: a group is queued on its stream when somebody
 * has asked for the communicator's state often enough.
 */
#include <inttypes.h>
#include <nccl.h>

#include <fcntl.h>
#include <glib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec/ranks/internal.h"
#include "tests/cuda/fake.h"

#define BLOCK_BYTES 8000
/* Until it looks again, twice as long every time. */
#define REST_US 20
#define REST_US_MAX 1000
#define BLOCKS 32 /* of a communicator, unless it is told */
#define LOOKS 3   /* for its state, until a communicator is no longer in progress */

struct fake_nccl fake_nccl = {false, NCCL_VERSION_CODE, false, (size_t)8 << 20, 0, 0};

struct channel {
    atomic_bool full;
    int call; /* what the message is of: where ranks differ, they would hang */
    size_t message_bytes, length;
    char data[BLOCK_BYTES];
};

#define RANKS_MAX 64

/* What a rank says when a communicator is split for the `round`th time. */
struct split {
    atomic_int round; /* from 1 on */
    int color, key;
};

struct shared {
    atomic_int joined;
    struct split splits[RANKS_MAX][2]; /* of odd and even rounds: nobody is two behind */
    struct channel channels[];         /* [from][to] */
};

struct message {
    bool sends;
    int peer, call;
    char *data;
    size_t bytes, done;
};

struct sum {
    void *to;
    const void **terms; /* [ranks], of them `scratch` are to be freed */
    char *scratch;
    size_t count;
    enum mw_dtype dtype;
};

/* What a stream is given of one communicator. */
struct launch {
    ncclComm_t comm;
    cudaStream_t stream;
    GArray *messages, *sums;
    ncclResult_t broken; /* never ends by itself, and leaves its communicator so */
};

struct ncclComm {
    int ranks, rank;
    char name[64];
    size_t bytes;
    struct shared *shared;
    void *buffers; /* of the GPU */
    atomic_bool aborted;
    atomic_int running;
    struct launch *pending;
    int splits;                 /* rounds */
    ncclComm_t *made;           /* of a round that goes on; else NULL */
    ncclConfig_t made_by;       /* its configuration */
    int looks;                  /* left until it is no longer in progress */
    _Atomic ncclResult_t state; /* where it has failed */
};

enum call { ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, REDUCE, BROADCAST, SEND };

static _Thread_local struct {
    int depth;
    struct launch *launch;
} group;

/* --- failures -------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    const char *call;
    int count, result;
    enum fake_nccl_fate fate;
} fault = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void
fake_nccl_fail(const char *call, int count, enum fake_nccl_fate fate, int result)
{
    pthread_mutex_lock(&fault.mutex);
    fault.call = call;
    fault.count = count;
    fault.fate = fate;
    fault.result = result;
    pthread_mutex_unlock(&fault.mutex);
}

/* The result of the fate of this call, if it has one. */
static ncclResult_t
meets(const char *call, enum fake_nccl_fate fate)
{
    ncclResult_t result = ncclSuccess;

    pthread_mutex_lock(&fault.mutex);
    if (fault.call && fault.fate == fate && !strcmp(fault.call, call) && --fault.count == 0) {
        result = (ncclResult_t)fault.result;
        fault.call = NULL;
    }
    pthread_mutex_unlock(&fault.mutex);
    return result;
}

#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        if (meets(__func__, FAKE_NCCL_KILLS))                                                      \
            raise(SIGKILL);                                                                        \
        ncclResult_t failure_ = meets(__func__, FAKE_NCCL_FAILS);                                  \
        if (failure_)                                                                              \
            return failure_;                                                                       \
    } while (0)

const char *
ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSystemError   ? "unhandled system error"
           : result == ncclRemoteError ? "remote process exited or there was a network error"
                                       : "some other error";
}

const char *
ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "socket\nclosed\n";
}

/* --- messages -------------------------------------------------------------------------------- */

static struct channel *
channel_of(const struct ncclComm *comm, int from, int to)
{
    return &comm->shared->channels[from * comm->ranks + to];
}

/* One block of it, if there is room; or one, if it is there.  Whether something went. */
static bool
go_on(const struct ncclComm *comm, struct message *it)
{
    struct channel *channel =
        it->sends ? channel_of(comm, comm->rank, it->peer) : channel_of(comm, it->peer, comm->rank);
    size_t length = MIN(it->bytes - it->done, BLOCK_BYTES);

    if (atomic_load(&channel->full) == it->sends)
        return false;
    if (it->sends) {
        channel->call = it->call;
        channel->message_bytes = it->bytes;
        channel->length = length;
        memcpy(channel->data, it->data + it->done, length);
    } else {
        if (channel->call != it->call || channel->message_bytes != it->bytes ||
            channel->length != length)
            g_error("rank %d has call %d of %zu bytes, rank %d call %d of %zu", comm->rank,
                    it->call, it->bytes, it->peer, channel->call, channel->message_bytes);
        memcpy(it->data + it->done, channel->data, length);
    }
    it->done += length;
    atomic_store(&channel->full, it->sends);
    return true;
}

/* Whether all are through.  A channel is the first one's that is not. */
static bool
go_round(const struct ncclComm *comm, GArray *messages, bool *went)
{
    g_autofree bool *taken = g_new0(bool, 2 * comm->ranks);
    bool through = true;

    *went = false;
    for (guint i = 0; i < messages->len; i++) {
        struct message *it = &g_array_index(messages, struct message, i);
        bool *mine = &taken[2 * it->peer + it->sends];
        if (it->done == it->bytes || *mine)
            continue;
        *mine = true;
        *went |= go_on(comm, it);
        through = false;
    }
    return through;
}

static void
free_launch(struct launch *launch)
{
    for (guint i = 0; i < launch->sums->len; i++) {
        struct sum *sum = &g_array_index(launch->sums, struct sum, i);
        g_free(sum->terms);
        g_free(sum->scratch);
    }
    g_array_free(launch->messages, TRUE);
    g_array_free(launch->sums, TRUE);
    g_free(launch);
}

static void
add_up(const struct launch *launch)
{
    for (guint i = 0; i < launch->sums->len; i++) {
        const struct sum *it = &g_array_index(launch->sums, struct sum, i);
        mw_ranks_sum_sources(it->to, it->terms, launch->comm->ranks, (int64_t)it->count,
                             (struct mw_ranks_sum){it->dtype, it->dtype, false, 1});
    }
}

/* In the stream. */
static void
run(void *data)
{
    struct launch *launch = data;
    struct ncclComm *comm = launch->comm;
    bool went = false, through = false;
    gulong rest_us = REST_US;

    if (launch->broken)
        comm->state = launch->broken;
    while (!atomic_load(&comm->aborted) && !through) {
        through = !launch->broken && go_round(comm, launch->messages, &went);
        rest_us = went ? REST_US : MIN(2 * rest_us, REST_US_MAX);
        if (!went && !through)
            g_usleep(rest_us);
    }
    if (through)
        add_up(launch);
    free_launch(launch);
    atomic_fetch_sub(&comm->running, 1);
}

/* --- communicators --------------------------------------------------------------------------- */

ncclResult_t
ncclGetVersion(int *version)
{
    *version = fake_nccl.version;
    return ncclSuccess;
}

ncclResult_t
ncclGetUniqueId(ncclUniqueId *id)
{
    static atomic_int count;

    MAY_FAIL();
    /* A process that was killed leaves its memory behind, and another one gets its number. */
    snprintf(id->internal, sizeof id->internal, "/memwall-test-nccl-%d-%d-%" PRIx64, (int)getpid(),
             atomic_fetch_add(&count, 1), (uint64_t)g_get_real_time());
    return ncclSuccess;
}

/* New memory is zero.  NULL: the GPU has no room. */
static struct ncclComm *
create(const char *name, int ranks, int rank, const ncclConfig_t *config)
{
    void *buffers = NULL;
    if (cudaMalloc(&buffers, fake_nccl.bytes) != cudaSuccess)
        return NULL;
    struct ncclComm *comm = g_new0(struct ncclComm, 1);

    comm->buffers = buffers;
    g_assert_cmpint(config->blocking, ==, 0);
    fake_nccl.blocks += config->maxCTAs > 0 ? config->maxCTAs : BLOCKS;
    comm->ranks = ranks;
    comm->rank = rank;
    comm->looks = LOOKS;
    comm->bytes = sizeof(struct shared) + (size_t)(ranks * ranks) * sizeof(struct channel);
    g_assert_cmpint(ranks, <=, RANKS_MAX);
    g_strlcpy(comm->name, name, sizeof comm->name);
    int file = shm_open(comm->name, O_CREAT | O_RDWR, 0600);
    g_assert_cmpint(ftruncate(file, (off_t)comm->bytes), ==, 0);
    comm->shared = mmap(NULL, comm->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    g_assert_true(comm->shared != MAP_FAILED);
    close(file);
    atomic_fetch_add(&comm->shared->joined, 1);
    return comm;
}

ncclResult_t
ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    MAY_FAIL();
    struct ncclComm *comm = create(id.internal, ranks, rank, config);

    if (!comm)
        return ncclUnhandledCudaError;
    comm->state = meets(__func__, FAKE_NCCL_BREAKS);
    *out = comm;
    return ncclInProgress;
}

/* All ranks of the communicator come; no other call of it goes on. */
ncclResult_t
ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made, ncclConfig_t *config)
{
    MAY_FAIL();
    struct split *own = &comm->shared->splits[comm->rank][++comm->splits % 2];

    g_assert_true(!comm->pending && !comm->made && color >= 0);
    *made = NULL;
    comm->made = made;
    comm->made_by = *config;
    own->color = color;
    own->key = key;
    atomic_store(&own->round, comm->splits);
    comm->looks = LOOKS;
    comm->state = meets(__func__, FAKE_NCCL_BREAKS);
    fake_nccl.splits++;
    return ncclInProgress;
}

/* Once all have said theirs; whether the round is over. */
static bool
go_on_splitting(struct ncclComm *comm)
{
    const struct split *own = &comm->shared->splits[comm->rank][comm->splits % 2];
    int ranks = 0, rank = 0;

    for (int other = 0; other < comm->ranks; other++) {
        const struct split *its = &comm->shared->splits[other][comm->splits % 2];
        if (atomic_load(&its->round) != comm->splits)
            return false;
        ranks += its->color == own->color;
        rank += its->color == own->color && its->key < own->key;
    }
    g_autofree char *name = g_strdup_printf("%s-%d-%d", comm->name, comm->splits, own->color);
    *comm->made = create(name, ranks, rank, &comm->made_by);
    comm->state = *comm->made ? comm->state : ncclUnhandledCudaError;
    comm->made = NULL;
    return true;
}

static bool
is_joined(const struct ncclComm *comm)
{
    bool joined = atomic_load(&comm->shared->joined) == comm->ranks;

    if (joined && comm->rank == 0)
        shm_unlink(comm->name);
    return joined;
}

ncclResult_t
ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    MAY_FAIL();
    *state = comm->state;
    if (*state)
        return ncclSuccess;
    *state = ncclInProgress;
    if (!is_joined(comm) || comm->looks-- > 0)
        return ncclSuccess;
    if (comm->made && !go_on_splitting(comm)) {
        comm->looks = 1;
        return ncclSuccess;
    }
    comm->looks = 0;
    if (comm->pending) {
        struct launch *launch = g_steal_pointer(&comm->pending);
        fake_push(launch->stream, run, launch);
    }
    *state = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t
ncclCommFinalize(ncclComm_t comm)
{
    MAY_FAIL();
    g_assert_cmpint(atomic_load(&comm->running), ==, 0);
    comm->looks = LOOKS;
    return ncclInProgress;
}

ncclResult_t
ncclCommDestroy(ncclComm_t comm)
{
    g_assert_cmpint(atomic_load(&comm->running), ==, 0);
    munmap(comm->shared, comm->bytes);
    cudaFree(comm->buffers);
    g_free(comm);
    return ncclSuccess;
}

ncclResult_t
ncclCommAbort(ncclComm_t comm)
{
    atomic_store(&comm->aborted, true);
    while (fake_nccl.hangs)
        pause();
    if (comm->pending) {
        free_launch(comm->pending);
        atomic_fetch_sub(&comm->running, 1);
    }
    while (atomic_load(&comm->running))
        g_usleep(100);
    shm_unlink(comm->name);
    return ncclCommDestroy(comm);
}

/* --- groups ---------------------------------------------------------------------------------- */

ncclResult_t
ncclGroupStart(void)
{
    MAY_FAIL();
    group.depth++;
    return ncclSuccess;
}

ncclResult_t
ncclGroupEnd(void)
{
    MAY_FAIL();
    if (--group.depth || !group.launch)
        return ncclSuccess;
    struct launch *launch = g_steal_pointer(&group.launch);
    struct ncclComm *comm = launch->comm;
    g_assert_null(comm->pending);
    atomic_fetch_add(&comm->running, 1);
    comm->looks = LOOKS;
    comm->pending = launch;
    return ncclInProgress;
}

static struct launch *
launch_of(ncclComm_t comm, cudaStream_t stream)
{
    if (!group.launch) {
        group.launch = g_new0(struct launch, 1);
        group.launch->comm = comm;
        group.launch->stream = stream;
        group.launch->messages = g_array_new(FALSE, FALSE, sizeof(struct message));
        group.launch->sums = g_array_new(FALSE, FALSE, sizeof(struct sum));
    }
    /* NCCL would launch it from another thread. */
    g_assert_true(stream != cudaStreamPerThread);
    if (!fake_is_urgent(stream))
        g_error("a collective waits behind the kernels of products");
    g_assert_true(group.depth && group.launch->comm == comm && group.launch->stream == stream);
    return group.launch;
}

static void
add(struct launch *launch, bool sends, int peer, enum call call, const void *data, size_t bytes)
{
    struct message message = {sends, peer, (int)call, (char *)data, bytes, 0};

    if (bytes && peer != launch->comm->rank)
        g_array_append_val(launch->messages, message);
}

/* Own data, as it is in a place of the result. */
static void
place(struct launch *launch, char *to, const char *from, size_t bytes)
{
    if (to != from)
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, launch->stream);
}

static size_t
bytes_of(ncclDataType_t type)
{
    return type == ncclFloat32 ? 4 : type == ncclBfloat16 || type == ncclFloat16 ? 2 : 1;
}

/* The sum of all ranks' terms, of which the own one is at `own`. */
static void
receive_sum(struct launch *launch, void *to, const void *own, size_t count, ncclDataType_t type,
            enum call call)
{
    const struct ncclComm *comm = launch->comm;
    size_t bytes = count * bytes_of(type);
    struct sum sum = {to, g_new0(const void *, comm->ranks), g_malloc(bytes * comm->ranks + 1),
                      count,
                      type == ncclFloat32   ? MW_DTYPE_FP32
                      : type == ncclFloat16 ? MW_DTYPE_FP16
                                            : MW_DTYPE_BF16};

    for (int rank = 0; rank < comm->ranks; rank++) {
        char *scratch = sum.scratch + (size_t)rank * bytes;
        sum.terms[rank] = rank == comm->rank ? own : scratch;
        add(launch, false, rank, call, scratch, bytes);
    }
    g_array_append_val(launch->sums, sum);
}

static ncclResult_t
end_call(const char *call, struct launch *launch)
{
    ncclResult_t broken = meets(call, FAKE_NCCL_BREAKS);

    if (broken)
        launch->broken = broken;
    return ncclSuccess;
}

/* --- collectives ----------------------------------------------------------------------------- */

ncclResult_t
ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
              cudaStream_t stream)
{
    MAY_FAIL();
    struct launch *launch = launch_of(comm, stream);
    size_t bytes = count * bytes_of(type);

    place(launch, (char *)to + (size_t)comm->rank * bytes, from, bytes);
    for (int peer = 0; peer < comm->ranks; peer++) {
        add(launch, true, peer, ALL_GATHER, fake_at(from), bytes);
        add(launch, false, peer, ALL_GATHER, (char *)fake_at(to) + (size_t)peer * bytes, bytes);
    }
    return end_call(__func__, launch);
}

ncclResult_t
ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                  ncclComm_t comm, cudaStream_t stream)
{
    MAY_FAIL();
    struct launch *launch = launch_of(comm, stream);
    const char *terms = fake_at(from);
    size_t bytes = count * bytes_of(type);

    g_assert_cmpint(op, ==, ncclSum);
    for (int peer = 0; peer < comm->ranks; peer++)
        add(launch, true, peer, REDUCE_SCATTER, terms + (size_t)peer * bytes, bytes);
    receive_sum(launch, fake_at(to), terms + (size_t)comm->rank * bytes, count, type,
                REDUCE_SCATTER);
    return end_call(__func__, launch);
}

ncclResult_t
ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
              ncclComm_t comm, cudaStream_t stream)
{
    MAY_FAIL();
    struct launch *launch = launch_of(comm, stream);

    g_assert_cmpint(op, ==, ncclSum);
    for (int peer = 0; peer < comm->ranks; peer++)
        add(launch, true, peer, ALL_REDUCE, fake_at(from), count * bytes_of(type));
    receive_sum(launch, fake_at(to), fake_at(from), count, type, ALL_REDUCE);
    return end_call(__func__, launch);
}

ncclResult_t
ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
           ncclComm_t comm, cudaStream_t stream)
{
    MAY_FAIL();
    struct launch *launch = launch_of(comm, stream);

    g_assert_cmpint(op, ==, ncclSum);
    if (comm->rank == root)
        receive_sum(launch, fake_at(to), fake_at(from), count, type, REDUCE);
    else
        add(launch, true, root, REDUCE, fake_at(from), count * bytes_of(type));
    return end_call(__func__, launch);
}

ncclResult_t
ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
              ncclComm_t comm, cudaStream_t stream)
{
    MAY_FAIL();
    struct launch *launch = launch_of(comm, stream);
    size_t bytes = count * bytes_of(type);

    if (comm->rank != root) {
        add(launch, false, root, BROADCAST, fake_at(to), bytes);
        return end_call(__func__, launch);
    }
    place(launch, to, from, bytes);
    for (int peer = 0; peer < comm->ranks; peer++)
        add(launch, true, peer, BROADCAST, fake_at(from), bytes);
    return end_call(__func__, launch);
}

ncclResult_t
ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
         cudaStream_t stream)
{
    MAY_FAIL();
    struct launch *launch = launch_of(comm, stream);

    add(launch, true, peer, SEND, fake_at(from), count * bytes_of(type));
    return end_call(__func__, launch);
}

ncclResult_t
ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
         cudaStream_t stream)
{
    MAY_FAIL();
    struct launch *launch = launch_of(comm, stream);

    add(launch, false, peer, SEND, fake_at(to), count * bytes_of(type));
    return end_call(__func__, launch);
}
