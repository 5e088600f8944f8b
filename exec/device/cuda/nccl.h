/*
 * nccl.h - what the files of the collectives by NCCL share; not for others.
 *
 * NCCL is loaded when several ranks run.  There is a communicator for each stream of collectives.
 * None of them blocks (ncclConfig_t.blocking): no call waits inside of NCCL for another rank, which
 * may be gone.  The caller polls until the call has gone through or everything has failed.  A mutex
 * is held during each call, and no longer: one thread at a time uses a communicator, and none does
 * when it is aborted.
 */
#ifndef MW_EXEC_DEVICE_CUDA_NCCL_H
#define MW_EXEC_DEVICE_CUDA_NCCL_H

#include <nccl.h>
#include <pthread.h>

#include "exec/device/cuda/collectives.h"

#define MW_CUDA_NCCL_CALLS(X)                                                                      \
    X(ncclAllGather)                                                                               \
    X(ncclAllReduce)                                                                               \
    X(ncclBroadcast)                                                                               \
    X(ncclCommAbort)                                                                               \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclGetUniqueId)                                                                             \
    X(ncclGetVersion)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclGroupStart)                                                                              \
    X(ncclRecv)                                                                                    \
    X(ncclReduce)                                                                                  \
    X(ncclReduceScatter)                                                                           \
    X(ncclSend)

/* The first version with communicators that are split off others, of headers and of the library. */
#define MW_CUDA_NCCL_SPLITS 21801

struct mw_cuda_nccl {
    int version; /* of the library */
#define X(name) __typeof__(name) *name;
    MW_CUDA_NCCL_CALLS(X)
#if NCCL_VERSION_CODE >= MW_CUDA_NCCL_SPLITS
    X(ncclCommSplit) /* NULL: the library is older */
#endif
#undef X
};

struct mw_cuda_peers {
    const struct mw_cuda_gpu *gpu;
    struct mw_cuda_queues *queues;
    struct mw_ranks *ranks;
    struct mw_cuda_nccl nccl;
    /* A cudaStream_t each, for threads that are in no op: NCCL launches from a thread of its own,
     * in which cudaStreamPerThread means another stream than in the caller's thread. */
    void *streams[MW_COLLECTIVE_STREAMS_MAX];

    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    ncclComm_t comms[MW_COLLECTIVE_STREAMS_MAX]; /* NULL: none */
    ncclComm_t split;  /* that is being split off: NCCL writes it, from a thread of its own */
    const char *waits; /* for this call, outside of the GPU's queues; NULL */
    char *why;         /* why everything has failed; NULL: it has not */
    bool over, ended;  /* the watcher is to end; it has */
    GThread *watcher;
};

/* Before a call of NCCL: takes the mutex; false with *error if everything has failed. */
bool mw_cuda_peers_enter(struct mw_cuda_peers *peers, GError **error);
/* After the call: gives the mutex back.  A status that is neither success nor in progress is a
 * failure, and then everything has failed. */
bool mw_cuda_peers_exit(struct mw_cuda_peers *peers, int stream, ncclResult_t status,
                        const char *call, GError **error);
#define MW_CUDA_PEERS_CALL(peers, stream, error, name, arguments)                                  \
    (mw_cuda_peers_enter(peers, error) &&                                                          \
     mw_cuda_peers_exit(peers, stream, (peers)->nccl.name arguments, #name, error))

/* Waits until `call` is no longer in progress on the stream's communicator. */
bool mw_cuda_peers_wait(struct mw_cuda_peers *peers, int stream, const char *call, GError **error);

/* --- nccl_watch.c: who looks after the communicators --- */
/* Starts to watch.  False with *error: nothing watches; unwatch must still be called. */
bool mw_cuda_peers_watch(struct mw_cuda_peers *peers, GError **error);
/* False: aborted work does not end, and still uses all of this. */
bool mw_cuda_peers_unwatch(struct mw_cuda_peers *peers);
/* With the mutex: everything has failed, for this reason in this call (NULL: the call that is
 * waited for). */
void mw_cuda_peers_fail(struct mw_cuda_peers *peers, const char *call, const char *reason);
void mw_cuda_peers_fail_by(struct mw_cuda_peers *peers, int stream, ncclResult_t status,
                           const char *call);

/* --- nccl_seats.c: who sits where --- */
/* Checks that each rank has a GPU that no other rank has. */
bool mw_cuda_peers_check_seats(const struct mw_cuda_peers *peers, GError **error);

#endif
