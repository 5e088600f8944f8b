/*
 * device.h - CPU cores as a device for the decoder's operators: exec/operators/kernels.h by the
 * kernels of the best instruction set and the products of exec/device/cpu/matmul.h.
 *
 * A device belongs to the thread that computes (a lane), whose OpenMP team, of at most `threads`,
 * does the work; a kernel is done when its function returns.  Results depend on the number of
 * threads only where the library's products do (exec/device/cpu/matmul.h).
 */
#ifndef MW_EXEC_DEVICE_CPU_DEVICE_H
#define MW_EXEC_DEVICE_CPU_DEVICE_H

#include "exec/operators/kernels.h"
#include "plan/dtype.h"

struct mw_cpu_device;

/* dtype: of 16-bit elements.  NULL with an error: no memory, or MEMWALL_ISA names no
 * instruction set of this machine. */
struct mw_cpu_device *mw_cpu_device_create(int threads, enum mw_dtype dtype, GError **error);
void mw_cpu_device_destroy(struct mw_cpu_device *device); /* NULL is allowed */

/* Scratch of the matrix products that were prepared so far. */
int64_t mw_cpu_device_scratch_bytes(const struct mw_cpu_device *device);

extern const struct mw_kernels mw_cpu_device_kernels;

#endif
