/*
 * kernels.h - what a device computes so that the operators of a GPT-2 or Llama decoder
 * (exec/operators/operators.h) run on it: a table of functions, filled by each backend.
 *
 * `device` is the backend's own, one for all calls; every other pointer is an address that its
 * kernels reach: device memory, or host memory where it says so.  What a kernel computes, of what
 * shapes, and who owns the memory stands in exec/operators/kernel_list.h.  Kernels run one after
 * another, in the order of the calls: a function may return while its kernel waits or runs, and
 * what goes wrong there is the backend's to find out.
 *
 * Sums are cut by shape alone and combined in a fixed order, without atomics: the same operands
 * give the same bits.
 */
#ifndef MW_EXEC_OPERATORS_KERNELS_H
#define MW_EXEC_OPERATORS_KERNELS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/decoder.h"
#include "exec/operators/kernel_types.h"

struct mw_kernels {
    const char *device_name; /* in messages */

    /* False with an error: a decoder that these kernels do not run. */
    bool (*suits)(void *device, const struct mw_decoder *decoder, GError **error);

    /* --- memory --- */
    /* Of the device, at a multiple of 64 bytes; NULL: there is not so much.  Between steps. */
    void *(*allocate)(void *device, int64_t bytes);
    void (*release)(void *device, void *memory); /* NULL is allowed */
    /* From host memory, which may change once it returns.  Between steps. */
    bool (*upload)(void *device, void *to, const void *from, int64_t bytes, GError **error);
    void (*clear)(void *device, void *to, int64_t bytes);
    /* Of `rows` rows, ld elements apart in both, the first `columns` elements. */
    void (*copy_rows)(void *device, void *to, const void *from, int64_t rows, int64_t columns,
                      int64_t ld);

    /* --- matrix products --- */
    /* Makes what the product needs, so that running it allocates nothing. */
    bool (*prepare)(void *device, const struct mw_product *product, GError **error);
    /* bias is read only where product->bias.  m, n and k are at least 1. */
    bool (*multiply)(void *device, const struct mw_product *product, void *c, const void *a,
                     const void *b, const void *bias, GError **error);

#define MW_KERNEL(name, parameters, arguments) void (*name)(void *device, MW_BARE parameters);
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    int64_t (*name)(void *device, MW_BARE parameters);
/* NULL where the device runs no mixtures, or no rings. */
#define MW_KERNEL_EXPERTS MW_KERNEL
#define MW_KERNEL_EXPERTS_SCRATCH MW_KERNEL_SCRATCH
#define MW_KERNEL_RING MW_KERNEL
#include "exec/operators/kernel_list.h"
};

#endif
