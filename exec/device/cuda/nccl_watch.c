/* The thread that watches the communicators: a rank that is gone never joins a collective that
 * others wait in on their GPUs, and no call reports that. */
#include <cuda_runtime_api.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "exec/device/cuda/nccl.h"
#include "exec/host/thread.h"

#define LOOK_NS 100000000
/* How many looks aborted work is given to end.  It may never end, and the process has to. */
#define PATIENT_LOOKS 30

/* --- failure --------------------------------------------------------------------------------- */

/* Those that wait get the reason before anything is aborted. */
void
mw_cuda_peers_fail(struct mw_cuda_peers *peers, const char *call, const char *reason)
{
    if (peers->why)
        return;
    if (!call)
        call = mw_cuda_queues_awaited(peers->queues);
    if (!call)
        call = peers->waits ? peers->waits : "NCCL";
    peers->why =
        g_strdup_printf("GPU %d (%s): %s: %s", peers->gpu->ordinal, peers->gpu->name, call, reason);
    mw_cuda_queues_fail(peers->queues, peers->why);
    pthread_cond_broadcast(&peers->changed);
}

void
mw_cuda_peers_fail_by(struct mw_cuda_peers *peers, int stream, ncclResult_t status,
                      const char *call)
{
    const char *more =
        peers->comms[stream] ? peers->nccl.ncclGetLastError(peers->comms[stream]) : NULL;
    g_autofree char *reason = g_strconcat(peers->nccl.ncclGetErrorString(status),
                                          more && *more ? ": " : NULL, more, NULL);

    mw_cuda_peers_fail(peers, call, g_strstrip(g_strdelimit(reason, "\n", ' ')));
}

/* --- looking --------------------------------------------------------------------------------- */

static void
look(struct mw_cuda_peers *peers)
{
    g_autoptr(GError) error = NULL;

    if (mw_ranks_lost(peers->ranks, &error))
        mw_cuda_peers_fail(peers, NULL, error->message);
    for (int stream = 0; stream < MW_COLLECTIVE_STREAMS_MAX; stream++) {
        ncclResult_t state = ncclSuccess;
        if (peers->comms[stream])
            peers->nccl.ncclCommGetAsyncError(peers->comms[stream], &state);
        if (state != ncclSuccess && state != ncclInProgress)
            mw_cuda_peers_fail_by(peers, stream, state, NULL);
    }
}

static void
rest(struct mw_cuda_peers *peers)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&peers->changed, &peers->mutex, &until);
}

/* --- the end --------------------------------------------------------------------------------- */

struct abortion {
    const struct mw_cuda_peers *peers;
    ncclComm_t comm;
    GThread *thread;
};

static gpointer
abort_one(gpointer data)
{
    const struct abortion *it = data;

    cudaSetDevice(it->peers->gpu->ordinal);
    it->peers->nccl.ncclCommAbort(it->comm);
    return NULL;
}

/* All at once: ncclCommAbort waits for work on the GPU that may wait for another communicator. */
static void
abort_all(const struct mw_cuda_peers *peers, ncclComm_t comms[])
{
    struct abortion all[MW_COLLECTIVE_STREAMS_MAX] = {{0}};

    for (int stream = 0; stream < MW_COLLECTIVE_STREAMS_MAX; stream++) {
        all[stream] = (struct abortion){peers, comms[stream], NULL};
        if (!comms[stream])
            continue;
        all[stream].thread = g_thread_try_new("nccl", abort_one, &all[stream], NULL);
        if (!all[stream].thread)
            abort_one(&all[stream]);
    }
    for (int stream = 0; stream < MW_COLLECTIVE_STREAMS_MAX; stream++)
        if (all[stream].thread)
            g_thread_join(all[stream].thread);
}

/* Call it with the mutex, which it releases in between: after that no thread finds a communicator,
 * and each call reports why. */
static void
break_off(struct mw_cuda_peers *peers)
{
    ncclComm_t comms[MW_COLLECTIVE_STREAMS_MAX];

    memcpy(comms, peers->comms, sizeof comms);
    memset(peers->comms, 0, sizeof peers->comms);
    pthread_mutex_unlock(&peers->mutex);
    abort_all(peers, comms);
    pthread_mutex_lock(&peers->mutex);
}

/* --- the thread ------------------------------------------------------------------------------ */

static gpointer
watch(gpointer data)
{
    struct mw_cuda_peers *peers = data;

    cudaSetDevice(peers->gpu->ordinal);
    pthread_mutex_lock(&peers->mutex);
    while (!peers->over && !peers->why) {
        look(peers);
        if (!peers->why)
            rest(peers);
    }
    if (peers->why)
        break_off(peers);
    peers->ended = true;
    pthread_cond_broadcast(&peers->changed);
    pthread_mutex_unlock(&peers->mutex);
    return NULL;
}

bool
mw_cuda_peers_watch(struct mw_cuda_peers *peers, GError **error)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&peers->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&peers->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    peers->watcher = mw_thread_start("nccl", watch, peers, error);
    return peers->watcher != NULL;
}

static bool
is_awaited(const struct mw_cuda_peers *peers, int looks)
{
    return peers->watcher && !peers->ended && !(peers->why && looks > PATIENT_LOOKS);
}

bool
mw_cuda_peers_unwatch(struct mw_cuda_peers *peers)
{
    pthread_mutex_lock(&peers->mutex);
    peers->over = true;
    pthread_cond_broadcast(&peers->changed);
    for (int looks = 0; is_awaited(peers, looks); looks++)
        rest(peers);
    bool ended = peers->ended || !peers->watcher;
    pthread_mutex_unlock(&peers->mutex);
    if (!ended)
        return false;
    if (peers->watcher)
        g_thread_join(peers->watcher);
    pthread_cond_destroy(&peers->changed);
    pthread_mutex_destroy(&peers->mutex);
    return true;
}
