/*
 * backend.h - what a device does for a run: its memory, copies to and from it, and the arithmetic
 * of the compute lane.  Above this table nothing knows which device it is.
 *
 * Addresses called `device` are of the device's memory, which the backend gave; all others are of
 * host memory.  Ops of different lanes call at once.  A function returns when its work is done.
 */
#ifndef MW_EXEC_BACKEND_H
#define MW_EXEC_BACKEND_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/compute.h"
#include "exec/kernel_types.h"

struct mw_backend_options {
    const struct mw_decoder *decoder;
    int64_t sequences, seq; /* of a micro-batch */
    int threads;            /* of the compute lane; 0: all cores */
};

struct mw_cpu_kernels; /* exec/cpu/kernels.h */

struct mw_backend {
    const char *name;
    const struct mw_cpu_kernels *host; /* passes of the host's lanes; NULL: the cores' own */

    /* NULL with an error.  `bytes`: the device memory of the plan, zeroed, at *memory. */
    void *(*open)(const struct mw_backend_options *options, int64_t bytes, void **memory,
                  GError **error);
    void (*close)(void *backend);

    /* Makes what `compute` will need, so that the first step costs no more than the others; reads
     * no operand.  NULL: there is nothing to make. */
    bool (*prepare)(void *backend, const struct mw_compute *compute, GError **error);
    bool (*compute)(void *backend, const struct mw_compute *compute, GError **error);
    /* Between two places, one of them or both on the device. */
    bool (*copy)(void *backend, void *to, const void *from, int64_t bytes, GError **error);

    /* On the compute lane, all operands on the device but `partial`; as exec/cpu/kernels.h says.
     * accumulate: sum (+)= x, the first time without the plus. */
    bool (*accumulate)(void *backend, float *sum, const uint16_t *x, int64_t n, bool first,
                       GError **error);
    bool (*square_sums)(void *backend, double *partial, const void *gradient, bool fp32, int64_t n,
                        GError **error);
    bool (*adamw)(void *backend, const struct mw_adamw *step, float *w, float *m, float *v,
                  uint16_t *param, const void *gradient, bool fp32, int64_t n, GError **error);
    bool (*to_bf16)(void *backend, uint16_t *out, const float *x, int64_t n, GError **error);
};

extern const struct mw_backend mw_backend_cpu;
extern const struct mw_backend mw_backend_null; /* computes nothing; nothing is trained */

#endif
