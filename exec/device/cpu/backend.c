/* CPU cores as a device: its memory is an arena. */
#include <omp.h>
#include <string.h>

#include "exec/device/backend.h"
#include "exec/device/cpu/device.h"
#include "exec/device/cpu/kernels.h"
#include "exec/host/machine.h"
#include "exec/memory/memory.h"
#include "exec/operators/operators.h"

struct cpu {
    struct mw_cpu_device *device;
    struct mw_operators *operators;
    const struct mw_cpu_kernels *kernels;
    struct mw_arena arena;
    int threads;
};

static void
close_cpu(void *backend)
{
    struct cpu *cpu = backend;

    mw_operators_destroy(cpu->operators);
    mw_cpu_device_destroy(cpu->device);
    mw_arena_release(&cpu->arena);
    g_free(cpu);
}

static void *
open_cpu(const struct mw_backend_options *options, int64_t bytes, void **memory, GError **error)
{
    struct cpu *cpu = g_new0(struct cpu, 1);

    cpu->threads = options->threads ? options->threads : omp_get_num_procs();
    cpu->kernels = mw_cpu_kernels(options->dtype);
    cpu->device = mw_cpu_device_create(cpu->threads, options->dtype, error);
    if (cpu->device && options->decoder)
        cpu->operators = mw_operators_create(&mw_cpu_device_kernels, cpu->device, options->decoder,
                                             options->sequences, options->seq, error);
    if (!cpu->device || (options->decoder && !cpu->operators) ||
        !mw_arena_reserve(&cpu->arena, "device memory", bytes, error)) {
        close_cpu(cpu);
        return NULL;
    }
    *memory = cpu->arena.base;
    return cpu;
}

/* A team belongs to the thread that calls. */
static struct cpu *
enter(void *backend)
{
    struct cpu *cpu = backend;

    omp_set_num_threads(cpu->threads);
    return cpu;
}

static bool
prepare(void *backend, const struct mw_compute *compute, GError **error)
{
    return mw_operators_prepare(enter(backend)->operators, compute, error);
}

static int64_t
scratch_bytes(const void *backend)
{
    const struct cpu *cpu = backend;

    return mw_cpu_device_scratch_bytes(cpu->device) +
           (cpu->operators ? mw_operators_scratch_bytes(cpu->operators) : 0);
}

static bool
compute(void *backend, const struct mw_compute *compute, GError **error)
{
    return mw_operators_run(enter(backend)->operators, compute, error);
}

static bool
copy(void *backend, void *to, const void *from, int64_t bytes, GError **error)
{
    (void)backend;
    (void)error;
    memcpy(to, from, bytes);
    return true;
}

static bool
accumulate(void *backend, float *sum, const void *x, int64_t n, bool first, GError **error)
{
    const struct mw_cpu_kernels *kernels = enter(backend)->kernels;

    (void)error;
    if (first)
        kernels->widen(sum, x, n);
    else
        kernels->accumulate(sum, x, n);
    return true;
}

static bool
square_sums(void *backend, double *partial, const void *gradient, bool fp32, int64_t n,
            GError **error)
{
    (void)error;
    enter(backend)->kernels->square_sums(partial, gradient, fp32, n);
    return true;
}

static bool
update(void *backend, const struct mw_update_step *step, float *w, float *m, float *v, void *param,
       const void *gradient, bool fp32, int64_t n, GError **error)
{
    (void)error;
    enter(backend)->kernels->update(step, w, m, v, param, gradient, fp32, n);
    return true;
}

static bool
update_narrow(void *backend, const struct mw_update_step *step,
              const struct mw_update_spans *decaying, float *w,
              const struct mw_narrow_moments *moments, void *param, const void *gradient, bool fp32,
              int64_t n, GError **error)
{
    (void)error;
    enter(backend)->kernels->update_narrow(step, decaying, w, moments, param, gradient, fp32, n);
    return true;
}

static bool
update_by_vectors(void *backend, const struct mw_update_step *step,
                  const struct mw_update_vectors *vectors, float *w, float *m, void *param,
                  const void *gradient, bool fp32, int64_t n, GError **error)
{
    (void)error;
    enter(backend)->kernels->update_by_vectors(step, vectors, w, m, param, gradient, fp32, n);
    return true;
}

static bool
narrow(void *backend, void *out, const float *x, int64_t n, GError **error)
{
    (void)error;
    enter(backend)->kernels->narrow(out, x, n);
    return true;
}

static bool
encode(void *backend, void *coded, const void *x, int64_t n, GError **error)
{
    (void)error;
    enter(backend)->kernels->narrow_mxfp8(coded, x, n);
    return true;
}

static bool
decode(void *backend, void *x, const void *coded, int64_t n, GError **error)
{
    (void)error;
    enter(backend)->kernels->widen_blocks(x, coded, MW_DTYPE_MXFP8, n);
    return true;
}

static void *
enter_device(void *backend)
{
    return enter(backend)->device;
}

/* All cores are one device. */
static int
devices(GError **error)
{
    (void)error;
    return 1;
}

static bool
describe(int index, struct mw_backend_device *device, GError **error)
{
    g_autofree char *name = mw_machine_processor();
    struct mw_memory_available available;

    (void)index;
    (void)error;
    mw_memory_available(&available);
    *device = (struct mw_backend_device){.memory_bytes = available.bytes};
    g_strlcpy(device->name, name, sizeof device->name);
    return true;
}

const struct mw_backend mw_backend_cpu = {
    .name = "cpu",
    .dtypes = 1 << MW_DTYPE_BF16 | 1 << MW_DTYPE_FP16 | 1 << MW_DTYPE_FP32,
    .devices = devices,
    .describe = describe,
    .open = open_cpu,
    .close = close_cpu,
    .prepare = prepare,
    .scratch_bytes = scratch_bytes,
    .compute = compute,
    .copy = copy,
    .accumulate = accumulate,
    .square_sums = square_sums,
    .update = update,
    .update_narrow = update_narrow,
    .update_by_vectors = update_by_vectors,
    .narrow = narrow,
    .encode = encode,
    .decode = decode,
    .kernels = &mw_cpu_device_kernels,
    .enter = enter_device,
};
