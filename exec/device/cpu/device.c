#include "exec/device/cpu/device.h"

#include <stdlib.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "base/error.h"
#include "exec/device/cpu/kernels.h"
#include "exec/device/cpu/matmul.h"

#define ALIGNMENT 64

struct mw_cpu_device {
    const struct mw_cpu_kernels *kernels;
    struct mw_cpu_matmul *matmul;
    int threads;
};

/* --- life ------------------------------------------------------------------------------------ */

struct mw_cpu_device *
mw_cpu_device_create(int threads, enum mw_dtype dtype, GError **error)
{
    struct mw_cpu_device *device;

    if (mw_cpu_isa_refusal()) {
        g_set_error_literal(error, MW_ERROR, MW_ERROR_INVALID, mw_cpu_isa_refusal());
        return NULL;
    }
    device = g_new0(struct mw_cpu_device, 1);
    device->threads = threads;
    device->kernels = mw_cpu_kernels(dtype);
    device->matmul = mw_cpu_matmul_create(dtype);
    if (device->matmul)
        return device;
    mw_cpu_device_destroy(device);
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "cpu: no memory for matrix products");
    return NULL;
}

void
mw_cpu_device_destroy(struct mw_cpu_device *device)
{
    if (!device)
        return;
    mw_cpu_matmul_destroy(device->matmul);
    g_free(device);
}

int64_t
mw_cpu_device_scratch_bytes(const struct mw_cpu_device *device)
{
    return mw_cpu_matmul_scratch_bytes(device->matmul);
}

static bool
suits(void *device, const struct mw_decoder *decoder, GError **error)
{
    (void)device;
    if (decoder->head_dim % 2 == 0 && decoder->head_dim <= MW_CPU_HEAD_DIM_MAX)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "attention on the cpu: head_dim: value %lld: must be even and at most %d",
                (long long)decoder->head_dim, MW_CPU_HEAD_DIM_MAX);
    return false;
}

/* --- memory ---------------------------------------------------------------------------------- */

static void *
allocate(void *device, int64_t bytes)
{
    (void)device;
    return aligned_alloc(ALIGNMENT, ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static void
release(void *device, void *memory)
{
    (void)device;
    free(memory);
}

static bool
upload(void *device, void *to, const void *from, int64_t bytes, GError **error)
{
    (void)device;
    (void)error;
    memcpy(to, from, (size_t)bytes);
    return true;
}

static void
clear(void *device, void *to, int64_t bytes)
{
    (void)device;
    memset(to, 0, (size_t)bytes);
}

static void
copy_rows(void *device, void *to, const void *from, int64_t rows, int64_t columns, int64_t ld)
{
    const struct mw_cpu_device *cpu = device;
    int64_t element = mw_dtype_element_bytes((int)cpu->kernels->dtype);

#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        memcpy((char *)to + r * ld * element, (const char *)from + r * ld * element,
               (size_t)(columns * element));
}

/* --- matrix products ------------------------------------------------------------------------- */

static bool
check(const struct mw_cpu_device *device, bool good, GError **error)
{
    if (!good)
        g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE, mw_cpu_matmul_error(device->matmul));
    return good;
}

static bool
prepare(void *device, const struct mw_product *product, GError **error)
{
    struct mw_cpu_device *cpu = device;

    return check(cpu, mw_cpu_matmul_prepare(cpu->matmul, product), error);
}

static bool
multiply(void *device, const struct mw_product *product, void *c, const void *a, const void *b,
         const void *bias, GError **error)
{
    struct mw_cpu_device *cpu = device;

    return check(cpu, mw_cpu_matmul_run(cpu->matmul, product, c, a, b, bias), error);
}

/* --- kernels --------------------------------------------------------------------------------- */

/* Of a team of threads that scratch is large enough for. */
static const struct mw_cpu_kernels *
kernels_of(const struct mw_cpu_device *device)
{
#if defined(_OPENMP)
    g_assert(omp_get_max_threads() <= device->threads);
#endif
    return device->kernels;
}

#define MW_KERNEL(name, parameters, arguments)                                                     \
    static void name(void *device, MW_BARE parameters)                                             \
    {                                                                                              \
        kernels_of(device)->name arguments;                                                        \
    }
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    static int64_t name(void *device, MW_BARE parameters)                                          \
    {                                                                                              \
        const struct mw_cpu_device *cpu = device;                                                  \
                                                                                                   \
        return cpu->kernels->name(MW_BARE arguments, cpu->threads);                                \
    }
#define MW_KERNEL_EXPERTS MW_KERNEL
#define MW_KERNEL_EXPERTS_SCRATCH MW_KERNEL_SCRATCH
#define MW_KERNEL_RING MW_KERNEL
#include "exec/operators/kernel_list.h"

const struct mw_kernels mw_cpu_device_kernels = {
    .device_name = "cpu",
    .suits = suits,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .clear = clear,
    .copy_rows = copy_rows,
    .prepare = prepare,
    .multiply = multiply,
#define MW_KERNEL(name, parameters, arguments) .name = name,
#define MW_KERNEL_SCRATCH MW_KERNEL
#define MW_KERNEL_EXPERTS MW_KERNEL
#define MW_KERNEL_EXPERTS_SCRATCH MW_KERNEL_SCRATCH
#define MW_KERNEL_RING MW_KERNEL
#include "exec/operators/kernel_list.h"
};
