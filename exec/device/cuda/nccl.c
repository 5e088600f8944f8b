/* Communicators of NCCL: the library, their life, calls that do not block. */
#include "exec/device/cuda/nccl.h"

#include <cuda_runtime_api.h>
#include <sched.h>
#include <time.h>

#include "base/error.h"
#include "exec/device/cuda/library.h"

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
#define LIBRARY "libnccl.so." STRING(NCCL_MAJOR)

/* The first version with communicators that do not block. */
#define OLDEST_VERSION 21400
/* The first version whose number of blocks can be bounded; an older library ignores that part of a
 * configuration. */
#define CONFIGURES_BLOCKS 21700

/* A call goes through in some microseconds; a connection takes longer. */
#define QUICK_LOOKS 200
#define SLEEP_NS 50000

/* --- the library ----------------------------------------------------------------------------- */

/* 1000 * major + 100 * minor + patch until 2.8, 10000 * major + ... since. */
static bool
check_version(struct mw_cuda_nccl *nccl, GError **error)
{
    int version = 0, unit;
    bool known = nccl->ncclGetVersion(&version) == ncclSuccess;

    nccl->version = version;
    if (known && version >= OLDEST_VERSION)
        return true;
    unit = version < 10000 ? 1000 : 10000;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "GPUs: NCCL, which several ranks need, is %d.%d.%d, the oldest that will do is "
                "%d.%d",
                version / unit, version % unit / 100, version % 100, OLDEST_VERSION / 10000,
                OLDEST_VERSION / 100 % 100);
    return false;
}

/* Loads the library, which must not be too old.  Connections are made when ranks join: so the first
 * step takes no longer than the others, and nothing is allocated while one communicator waits for
 * another. */
static bool
load(struct mw_cuda_nccl *nccl, GError **error)
{
    g_setenv("NCCL_RUNTIME_CONNECT", "0", FALSE);
    void *library = mw_cuda_library_open(LIBRARY, error);
    bool good =
        library && mw_cuda_library_find(library, "ncclGetVersion", &nccl->ncclGetVersion, error);

    /* An old library lacks some of the calls, too. */
    if (good && !check_version(nccl, error))
        return false;
#define X(name) good = good && mw_cuda_library_find(library, #name, &nccl->name, error);
    MW_CUDA_NCCL_CALLS(X)
#if NCCL_VERSION_CODE >= MW_CUDA_NCCL_SPLITS
    nccl->ncclCommSplit = NULL;
    if (good && nccl->version >= MW_CUDA_NCCL_SPLITS)
        X(ncclCommSplit)
#endif
#undef X
    if (!good)
        g_prefix_error(error, "several ranks on GPUs need NCCL: ");
    return good;
}

bool
mw_cuda_peers_possible(GError **error)
{
    struct mw_cuda_nccl nccl;

    return load(&nccl, error);
}

/* --- calls ----------------------------------------------------------------------------------- */

static void
set_error(const struct mw_cuda_peers *peers, GError **error)
{
    g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE, peers->why);
}

bool
mw_cuda_peers_enter(struct mw_cuda_peers *peers, GError **error)
{
    pthread_mutex_lock(&peers->mutex);
    if (!peers->why)
        return true;
    set_error(peers, error);
    pthread_mutex_unlock(&peers->mutex);
    return false;
}

bool
mw_cuda_peers_exit(struct mw_cuda_peers *peers, int stream, ncclResult_t status, const char *call,
                   GError **error)
{
    bool good = status == ncclSuccess || status == ncclInProgress;

    if (!good) {
        mw_cuda_peers_fail_by(peers, stream, status, call);
        set_error(peers, error);
    }
    if (status == ncclInProgress)
        peers->waits = call; /* the watcher may see it fail before anyone waits for it */
    pthread_mutex_unlock(&peers->mutex);
    return good;
}

static void
pause_for(int looks)
{
    if (looks > QUICK_LOOKS)
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    else
        sched_yield();
}

/* One look. */
static bool
look(struct mw_cuda_peers *peers, int stream, const char *call, bool *goes_on, GError **error)
{
    ncclResult_t state = ncclSuccess, status;

    if (!mw_cuda_peers_enter(peers, error))
        return false;
    status = peers->nccl.ncclCommGetAsyncError(peers->comms[stream], &state);
    if (status == ncclSuccess)
        status = state;
    *goes_on = status == ncclInProgress;
    peers->waits = *goes_on ? call : NULL;
    return mw_cuda_peers_exit(peers, stream, status, call, error);
}

bool
mw_cuda_peers_wait(struct mw_cuda_peers *peers, int stream, const char *call, GError **error)
{
    bool goes_on;

    for (int looks = 0; look(peers, stream, call, &goes_on, error); looks++) {
        if (!goes_on)
            return true;
        pause_for(looks);
    }
    return false;
}

/* --- life ------------------------------------------------------------------------------------ */

/* Communicators that work at the same time must all fit on the GPU.  One that waits for room after
 * another would keep its ranks waiting, and the other one may be waiting for those.  So all of them
 * together take at most half of the multiprocessors. */
static ncclConfig_t
configure(const struct mw_cuda_peers *peers, uint32_t streams)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 0;
#if NCCL_VERSION_CODE >= CONFIGURES_BLOCKS
    int count = __builtin_popcount(streams);
    if (count > 1)
        config.maxCTAs = MAX(1, peers->gpu->multiprocessors / 2 / count);
#endif
    return config;
}

/* A stream whose communicator has all ranks and is there; -1: none, or nothing can be split off. */
static int
whole_stream(const struct mw_cuda_peers *peers)
{
#if NCCL_VERSION_CODE >= MW_CUDA_NCCL_SPLITS
    for (int stream = 0; peers->nccl.ncclCommSplit && stream < MW_COLLECTIVE_STREAMS_MAX; stream++)
        if (peers->comms[stream] &&
            mw_ranks_lane_count(peers->ranks, stream) == mw_ranks_count(peers->ranks))
            return stream;
#else
    (void)peers;
#endif
    return -1;
}

/* All ranks come here for the same stream, each with the members of its own group there: they meet
 * in connections that are there already, and need no id.  Nothing else is shared (splitShare), as
 * both communicators work at the same time.  It is there when the whole one is through, whose state
 * says so. */
static bool
split_stream(struct mw_cuda_peers *peers, int whole, int stream, ncclConfig_t config,
             GError **error)
{
#if NCCL_VERSION_CODE >= MW_CUDA_NCCL_SPLITS
    int rank = mw_ranks_lane_index(peers->ranks, stream);
    int first = mw_ranks_index(peers->ranks);

    if (!mw_ranks_broadcast(peers->ranks, stream, &first, sizeof first, 0, error) ||
        !MW_CUDA_PEERS_CALL(peers, whole, error, ncclCommSplit,
                            (peers->comms[whole], first, rank, &peers->split, &config)) ||
        !mw_cuda_peers_wait(peers, whole, "ncclCommSplit", error) ||
        !mw_cuda_peers_enter(peers, error))
        return false;
    peers->comms[stream] = peers->split;
    peers->split = NULL;
    return mw_cuda_peers_exit(peers, stream, ncclSuccess, "ncclCommSplit", error) &&
           mw_cuda_peers_wait(peers, stream, "ncclCommSplit", error);
#else
    (void)peers, (void)whole, (void)stream, (void)config;
    return mw_fail(error, MW_ERROR_DEVICE, "GPUs: NCCL's header has no ncclCommSplit");
#endif
}

/* The first rank of the stream sends the communicator's id to all of it, unless it is split off
 * another. */
static bool
connect_stream(struct mw_cuda_peers *peers, int stream, ncclConfig_t config, GError **error)
{
    int rank = mw_ranks_lane_index(peers->ranks, stream);
    int count = mw_ranks_lane_count(peers->ranks, stream);
    int whole = whole_stream(peers);
    ncclUniqueId id = {0};

    /* Behind blocks of long products a collective would keep all its ranks waiting. */
    if (!mw_cuda_stream_create(peers->gpu, true, &peers->streams[stream], error))
        return false;
    if (whole >= 0)
        return split_stream(peers, whole, stream, config, error);
    if (rank == 0 && !MW_CUDA_PEERS_CALL(peers, stream, error, ncclGetUniqueId, (&id)))
        return false;
    return mw_ranks_broadcast(peers->ranks, stream, &id, sizeof id, 0, error) &&
           MW_CUDA_PEERS_CALL(peers, stream, error, ncclCommInitRankConfig,
                              (&peers->comms[stream], count, id, rank, &config)) &&
           mw_cuda_peers_wait(peers, stream, "ncclCommInitRankConfig", error);
}

/* The other ranks may not get any further. */
static void
give_up(struct mw_cuda_peers *peers)
{
    pthread_mutex_lock(&peers->mutex);
    mw_cuda_peers_fail(peers, "NCCL", "given up");
    pthread_mutex_unlock(&peers->mutex);
}

struct mw_cuda_peers *
mw_cuda_peers_create(const struct mw_cuda_gpu *gpu, struct mw_cuda_queues *queues,
                     struct mw_ranks *ranks, uint32_t streams, GError **error)
{
    struct mw_cuda_peers *peers = g_new0(struct mw_cuda_peers, 1);
    bool good;

    peers->gpu = gpu;
    peers->queues = queues;
    peers->ranks = ranks;
    good = mw_cuda_peers_watch(peers, error) && load(&peers->nccl, error) &&
           mw_cuda_peers_check_seats(peers, error);
    for (int stream = 0; good && stream < MW_COLLECTIVE_STREAMS_MAX; stream++)
        if (streams >> stream & 1)
            good = connect_stream(peers, stream, configure(peers, streams), error);
    if (good)
        return peers;
    give_up(peers);
    mw_cuda_peers_destroy(peers);
    return NULL;
}

/* All ranks come here, unless one is gone: then this waits no longer than for anything else. */
static void
close_stream(struct mw_cuda_peers *peers, int stream)
{
    if (!mw_cuda_peers_enter(peers, NULL))
        return;
    bool open = peers->comms[stream] != NULL;
    ncclResult_t status = open ? peers->nccl.ncclCommFinalize(peers->comms[stream]) : ncclSuccess;
    if (mw_cuda_peers_exit(peers, stream, status, "ncclCommFinalize", NULL) && open)
        mw_cuda_peers_wait(peers, stream, "ncclCommFinalize", NULL);
}

void
mw_cuda_peers_destroy(struct mw_cuda_peers *peers)
{
    if (!peers)
        return;
    for (int stream = 0; stream < MW_COLLECTIVE_STREAMS_MAX; stream++)
        close_stream(peers, stream);
    if (!mw_cuda_peers_unwatch(peers))
        return;
    for (int stream = 0; stream < MW_COLLECTIVE_STREAMS_MAX; stream++)
        if (peers->comms[stream])
            peers->nccl.ncclCommDestroy(peers->comms[stream]);
    for (int stream = 0; stream < MW_COLLECTIVE_STREAMS_MAX; stream++)
        if (peers->streams[stream])
            cudaStreamDestroy(peers->streams[stream]);
    g_free(peers->why);
    g_free(peers);
}
