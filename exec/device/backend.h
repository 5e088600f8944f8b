/*
 * backend.h - what a device does for a run: its memory, copies to and from it, and the arithmetic
 * of the compute lane.  Above this table nothing knows which device it is.
 *
 * Addresses called `device` are in the device's memory, which the backend allocated; all others are
 * in host memory.  Ops of different lanes may call at the same time.
 */
#ifndef MW_EXEC_DEVICE_BACKEND_H
#define MW_EXEC_DEVICE_BACKEND_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/operators/compute.h"
#include "exec/operators/kernels.h"
#include "exec/ranks/collectives.h"

/* A process among those of a run. */
struct mw_backend_place {
    int ranks;                 /* of the run */
    int node_rank, node_ranks; /* among the ranks of this machine; a GPU for each */
};

struct mw_backend_options {
    const struct mw_decoder *decoder; /* NULL: neither prepare nor compute will be called */
    int64_t sequences, seq;           /* of a micro-batch */
    enum mw_dtype dtype;              /* of parameters and activations, one of the backend's */
    int threads;                      /* of the compute lane; 0: all cores */
    int node_rank, node_ranks;        /* among the ranks of this machine; a GPU for each */
    /* Where the device carries out collectives (join): the ranks and streams that all ranks, which
     * then open at once, will use.  The device memory that collectives need is taken before the
     * plan's part. */
    struct mw_ranks *ranks; /* NULL: no collectives, or not known yet; borrowed until close */
    uint32_t streams;       /* bits 1 << stream */
};

struct mw_cpu_kernels; /* exec/device/cpu/kernels.h */

/* A queued op has run, from start to end of the monotonic clock; or it has failed, then without
 * times and with the error, which `done` frees.  Called in a thread of the backend. */
typedef void (*mw_backend_done)(void *data, int64_t start_ns, int64_t end_ns, GError *error);

#define MW_BACKEND_QUEUES_MAX 16

/* A device that a backend could run on. */
struct mw_backend_device {
    char name[256];
    int64_t memory_bytes;
};

struct mw_backend {
    const char *name;
    bool apart;      /* its memory is not the host's: nothing but the functions below reaches it */
    uint32_t dtypes; /* types that it computes in: bits 1 << enum mw_dtype */
    /* Passes for the host's lanes; NULL: those of the cores (mw_cpu_kernels). */
    const struct mw_cpu_kernels *(*host)(enum mw_dtype dtype);

    /* How many of its devices this machine has; -1 with an error that says why it cannot use any.
     * NULL, both functions: it has none. */
    int (*devices)(GError **error);
    bool (*describe)(int index, struct mw_backend_device *device, GError **error);
    /* Whether this machine is expected to have such devices: then users are told that it cannot use
     * any.  NULL: it is not. */
    bool (*installed)(void);

    /* Sets environment variables that its libraries read when they start: to be called before MPI
     * starts, and before there are threads.  NULL: they read none. */
    void (*environment)(void);

    /* Whether it can compute for this rank; false with an error: why not.  NULL: for any. */
    bool (*takes)(const struct mw_backend_place *place, GError **error);

    /* NULL with an error.  `bytes`: the device memory of the plan, zeroed, at *memory. */
    void *(*open)(const struct mw_backend_options *options, int64_t bytes, void **memory,
                  GError **error);
    void (*close)(void *backend);

    /* Pins host memory, in whole pages, that the device copies from and to, and that it reads and
     * writes where a function says so.  From then on it stays where it is.  NULL: nothing needs to
     * be done. */
    bool (*pin)(void *backend, void *memory, int64_t bytes, GError **error);
    void (*unpin)(void *backend, void *memory);

    /* --- queues --- */
    /* NULL: the functions below return when their work is done.  Otherwise that holds outside of
     * begin and end only; what a thread calls between the two is one op: it is queued behind the op
     * before it in the same queue and behind the ops `after`, all of which have ended or were
     * queued.  Operands must stay until `done` is called.
     * A ticket names an op.  It may name another one when the op is done and all that follow it
     * have begun.
     * end: after a failure in between `done` is NULL: what was queued is waited for, and nothing is
     * reported.  False with *error: `done` will not be called. */
    /* To be called before the queue's first op: its ops then go before others that wait for the
     * device, because other ranks wait for them.  NULL: it has no such order. */
    void (*hurry)(void *backend, int queue);
    bool (*begin)(void *backend, int queue, uint32_t ticket, const uint32_t *after, int after_count,
                  GError **error);
    bool (*end)(void *backend, mw_backend_done done, void *data, GError **error);

    /* Makes what `compute` will need, so that the first step takes no longer than the others; reads
     * no operand.  NULL: there is nothing to make. */
    bool (*prepare)(void *backend, const struct mw_compute *compute, GError **error);
    /* Host memory outside the plan's part that its kernels write when they run, once all is
     * prepared.  NULL: none. */
    int64_t (*scratch_bytes)(const void *backend);
    /* ids, targets and loss are in pinned memory. */
    bool (*compute)(void *backend, const struct mw_compute *compute, GError **error);
    /* Between two places, one of them or both on the device; in an op of a queue host memory is
     * pinned. */
    bool (*copy)(void *backend, void *to, const void *from, int64_t bytes, GError **error);

    /* On the compute lane, as exec/operators/kernel_list.h says.  All operands are on the device
     * but `partial`, which is in pinned memory.  accumulate: sum (+)= x, the first time without
     * the plus. */
    bool (*accumulate)(void *backend, float *sum, const void *x, int64_t n, bool first,
                       GError **error);
    bool (*square_sums)(void *backend, double *partial, const void *gradient, bool fp32, int64_t n,
                        GError **error);
    bool (*update)(void *backend, const struct mw_update_step *step, float *w, float *m, float *v,
                   void *param, const void *gradient, bool fp32, int64_t n, GError **error);
    /* Codes of the moments are in host memory. */
    bool (*update_narrow)(void *backend, const struct mw_update_step *step,
                          const struct mw_update_spans *decaying, float *w,
                          const struct mw_narrow_moments *moments, void *param,
                          const void *gradient, bool fp32, int64_t n, GError **error);
    /* By rows and columns (struct mw_update_vectors, whose members are in host memory).  NULL: it
     * has no such update. */
    bool (*update_by_vectors)(void *backend, const struct mw_update_step *step,
                              const struct mw_update_vectors *vectors, float *w, float *m,
                              void *param, const void *gradient, bool fp32, int64_t n,
                              GError **error);
    bool (*narrow)(void *backend, void *out, const float *x, int64_t n, GError **error);
    /* Stores n activations as mxfp8, and restores them. */
    bool (*encode)(void *backend, void *coded, const void *x, int64_t n, GError **error);
    bool (*decode)(void *backend, void *x, const void *coded, int64_t n, GError **error);

    /* --- collectives --- */
    /* Collectives of device memory.  NULL, both: device memory is host memory, and
     * mw_ranks_collectives serves.
     * join: called once, by all ranks at once, before the first collective; `streams` (bits
     * 1 << stream) are those that will be used, the same as in the options of open where those name
     * any; `ranks` is borrowed until close.  It returns the table's `self`, which the backend owns;
     * NULL with an error. */
    const struct mw_collectives *collectives;
    void *(*join)(void *backend, struct mw_ranks *ranks, uint32_t streams, GError **error);

    /* --- what its operators are made of, for who measures it; NULL: it computes nothing --- */
    /* kernels: for the device that `enter` gives; each thread that calls them enters first.  Where
     * there are queues, calls between begin and end are queued.
     * launched: false with *error if a kernel could not be started since the last call; for the
     * thread that computes.  NULL: kernels cannot fail. */
    const struct mw_kernels *kernels;
    void *(*enter)(void *backend);
    bool (*launched)(void *backend, GError **error);
    /* How much device memory is free, and how much there is; all programs that use the device share
     * it.  NULL: it is the host's. */
    bool (*memory_left)(void *backend, int64_t *free_bytes, int64_t *all_bytes, GError **error);
    /* In words, whether the device could read and write files without a detour through host memory;
     * nothing here does so.  NULL: there is no such thing. */
    const char *(*direct_storage)(void);
};

extern const struct mw_backend mw_backend_cpu;
extern const struct mw_backend mw_backend_null; /* computes nothing; nothing is trained */

/* All backends that are built in, ended by NULL; and the one with a name, or NULL. */
extern const struct mw_backend *const mw_backends[];
const struct mw_backend *mw_backend_find(const char *name);

/* Whether it can compute for this rank; false with an error: why not. */
static inline bool
mw_backend_takes(const struct mw_backend *backend, const struct mw_backend_place *place,
                 GError **error)
{
    return !backend->takes || backend->takes(place, error);
}
/* Whether it computes in a type; false with an error that names the types it computes in. */
bool mw_backend_computes(const struct mw_backend *backend, enum mw_dtype dtype, GError **error);
/* The device of a rank: the one with the rank's number on the machine, or the only one that the
 * rank sees. */
bool mw_backend_describe_own(const struct mw_backend *backend, int node_rank,
                             struct mw_backend_device *device, GError **error);
/* The best backend for this rank: a GPU before cores, which take any rank.  *why: why a device that
 * is there, or is meant to be there, cannot be used. */
const struct mw_backend *mw_backend_best(const struct mw_backend_place *place, GError **why);

extern const struct mw_backend mw_backend_cuda; /* where it is built in (MW_CUDA) */

#endif
