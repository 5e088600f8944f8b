/* A GPU as a device: its memory is an arena, each lane that works on it a stream. */
#include <cuda_runtime_api.h>

#include "base/error.h"
#include "exec/device/backend.h"
#include "exec/device/cuda/collectives.h"
#include "exec/device/cuda/launches.h"
#include "exec/device/cuda/library.h"
#include "exec/device/cuda/pinned.h"
#include "exec/device/cuda/queue.h"
#include "exec/operators/operators.h"

struct cuda {
    struct mw_cuda_device device;
    struct mw_operators *operators;
    struct mw_cuda_queues *queues;
    struct mw_cuda_peers *peers; /* NULL: alone */
    struct mw_cuda_pinned *pinned;
    void *arena;
    int32_t *tokens; /* room on the device for the ids, or the targets, of a micro-batch */
};

/* From here on the calling thread works on the GPU. */
static struct cuda *
enter(void *backend)
{
    struct cuda *cuda = backend;

    cudaSetDevice(cuda->device.gpu.ordinal);
    return cuda;
}

static bool
check(const struct cuda *cuda, cudaError_t status, const char *call, GError **error)
{
    return mw_cuda_check(&cuda->device.gpu, status, call, error);
}

/* Of a call that takes memory. */
static bool
check_bytes(const struct cuda *cuda, cudaError_t status, const char *call, int64_t bytes,
            GError **error)
{
    g_autofree char *text = g_strdup_printf("%s of %" G_GINT64_FORMAT " bytes", call, bytes);

    return check(cuda, status, text, error);
}

/* --- what there is --------------------------------------------------------------------------- */

static bool
describe(int index, struct mw_backend_device *device, GError **error)
{
    struct mw_cuda_gpu gpu;

    if (!mw_cuda_gpu_find(index, &gpu, error))
        return false;
    *device = (struct mw_backend_device){.memory_bytes = gpu.memory_bytes};
    g_snprintf(device->name, sizeof device->name,
               "%s, compute capability %d.%d, %d multiprocessors, %s", gpu.name, gpu.major,
               gpu.minor, gpu.multiprocessors, gpu.bus);
    return true;
}

static bool
takes(const struct mw_backend_place *place, GError **error)
{
    struct mw_cuda_gpu gpu;

    return mw_cuda_gpu_pick(place->node_rank, place->node_ranks, &gpu, error) &&
           mw_cuda_matmul_possible(error) && (place->ranks == 1 || mw_cuda_peers_possible(error));
}

/* --- life ------------------------------------------------------------------------------------ */

static void
close_cuda(void *backend)
{
    struct cuda *cuda = enter(backend);

    mw_cuda_peers_destroy(cuda->peers);
    mw_cuda_queues_destroy(cuda->queues);
    mw_operators_destroy(cuda->operators);
    mw_cuda_matmul_destroy(cuda->device.matmul);
    mw_cuda_pinned_destroy(cuda->pinned);
    cudaFree(cuda->tokens);
    cudaFree(cuda->arena);
    g_free(cuda);
}

/* Threads sleep while they wait: the cores are for the host's lanes. */
static bool
start(struct cuda *cuda, GError **error)
{
    int ordinal = cuda->device.gpu.ordinal, same = 0;

    if (!check(cuda,
               cudaInitDevice(ordinal, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid),
               "cudaInitDevice", error) ||
        !check(cuda, cudaSetDevice(ordinal), "cudaSetDevice", error) ||
        !check(cuda,
               cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem, ordinal),
               "cudaDeviceGetAttribute", error))
        return false;
    if (same)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "GPU %d (%s): cannot reach host memory at the host's addresses", ordinal,
                cuda->device.gpu.name);
    return false;
}

/* What is taken, and a tenth more, since no two starts take exactly the same. */
static double
reserve_gib(size_t taken_bytes)
{
    return 1.1 * (double)taken_bytes / 0x1p30;
}

static bool
has_free_memory(const struct cuda *cuda, int64_t bytes, GError **error)
{
    size_t left = 0, all = 0;

    if (!check(cuda, cudaMemGetInfo(&left, &all), "cudaMemGetInfo", error))
        return false;
    if ((int64_t)left >= bytes)
        return true;
    return mw_fail(error, MW_ERROR_DEVICE,
                   "GPU %d (%s): out of memory: the plan needs %" G_GINT64_FORMAT
                   " bytes, %zu of %zu are free beside the driver, kernels, products' workspace%s; "
                   "{key gpu.reserve_gib=%.2f} plans for that, or close what else uses the GPU",
                   cuda->device.gpu.ordinal, cuda->device.gpu.name, bytes, left, all,
                   cuda->peers ? " and NCCL" : "", reserve_gib(all - left));
}

static bool
reserve(struct cuda *cuda, int64_t bytes, int64_t tokens, GError **error)
{
    int64_t token_bytes = tokens * (int64_t)sizeof *cuda->tokens;

    return has_free_memory(cuda, bytes + token_bytes, error) &&
           check_bytes(cuda, cudaMalloc(&cuda->arena, (size_t)bytes), "cudaMalloc", bytes, error) &&
           (!tokens || check_bytes(cuda, cudaMalloc((void **)&cuda->tokens, (size_t)token_bytes),
                                   "cudaMalloc", token_bytes, error)) &&
           check(cuda, cudaMemset(cuda->arena, 0, (size_t)bytes), "cudaMemset", error) &&
           check(cuda, cudaDeviceSynchronize(), "cudaDeviceSynchronize", error);
}

static bool
connect(struct cuda *cuda, struct mw_ranks *ranks, uint32_t streams, GError **error)
{
    if (!cuda->peers)
        cuda->peers = mw_cuda_peers_create(&cuda->device.gpu, cuda->queues, ranks, streams, error);
    return cuda->peers != NULL;
}

/* The arena comes last: its size is the plan's, and how much everything else takes, libraries above
 * all, is not known before. */
static bool
own(struct cuda *cuda, const struct mw_backend_options *o, int64_t bytes, GError **error)
{
    struct mw_cuda_device *device = &cuda->device;

    if (!start(cuda, error))
        return false;
    device->launches = o->dtype == MW_DTYPE_FP16 ? &mw_cuda_launches_fp16 : &mw_cuda_launches_bf16;
    cuda->queues = mw_cuda_queues_create(&device->gpu, error);
    device->matmul = cuda->queues ? mw_cuda_matmul_create(&device->gpu, o->dtype, error) : NULL;
    if (!device->matmul || (o->streams && !connect(cuda, o->ranks, o->streams, error)))
        return false;
    if (o->decoder)
        cuda->operators =
            mw_operators_create(&mw_cuda_kernels, device, o->decoder, o->sequences, o->seq, error);
    return (!o->decoder || cuda->operators) && reserve(cuda, bytes, o->sequences * o->seq, error);
}

static void *
open_cuda(const struct mw_backend_options *options, int64_t bytes, void **memory, GError **error)
{
    struct cuda *cuda = g_new0(struct cuda, 1);

    if (!mw_cuda_gpu_pick(options->node_rank, MAX(1, options->node_ranks), &cuda->device.gpu,
                          error)) {
        g_free(cuda);
        return NULL;
    }
    cuda->pinned = mw_cuda_pinned_create(&cuda->device.gpu);
    if (!own(cuda, options, MAX(bytes, 1), error)) {
        close_cuda(cuda);
        return NULL;
    }
    *memory = cuda->arena;
    return cuda;
}

static bool
pin(void *backend, void *memory, int64_t bytes, GError **error)
{
    return mw_cuda_pin(enter(backend)->pinned, memory, bytes, error);
}

static void
unpin(void *backend, void *memory)
{
    mw_cuda_unpin(enter(backend)->pinned, memory);
}

/* --- queues ---------------------------------------------------------------------------------- */

static bool
begin(void *backend, int queue, uint32_t ticket, const uint32_t *after, int after_count,
      GError **error)
{
    return mw_cuda_queues_begin(enter(backend)->queues, queue, ticket, after, after_count, error);
}

static bool
end(void *backend, mw_backend_done done, void *data, GError **error)
{
    return mw_cuda_queues_end(((struct cuda *)backend)->queues, done, data, error);
}

static void
hurry(void *backend, int queue)
{
    mw_cuda_queues_hurry(((struct cuda *)backend)->queues, queue);
}

/* --- ranks ----------------------------------------------------------------------------------- */

static void *
join(void *backend, struct mw_ranks *ranks, uint32_t streams, GError **error)
{
    struct cuda *cuda = enter(backend);

    return connect(cuda, ranks, streams, error) ? cuda->peers : NULL;
}

/* --- work ------------------------------------------------------------------------------------ */

static bool
prepare(void *backend, const struct mw_compute *compute, GError **error)
{
    return mw_operators_prepare(enter(backend)->operators, compute, error);
}

/* Between memory of any kind, on the thread's stream.  Memory that is pinned in several ranges is
 * copied range by range. */
static bool
copy_ranges(struct cuda *cuda, void *to, const void *from, int64_t bytes, GError **error)
{
    int64_t n;
    bool good = true;

    for (int64_t at = 0; good && at < bytes; at += n) {
        n = mw_cuda_pinned_span(cuda->pinned, (char *)to + at, bytes - at);
        n = mw_cuda_pinned_span(cuda->pinned, (const char *)from + at, n);
        good = check(cuda,
                     cudaMemcpyAsync((char *)to + at, (const char *)from + at, (size_t)n,
                                     cudaMemcpyDefault, mw_cuda_stream()),
                     "cudaMemcpyAsync", error);
    }
    return good;
}

/* Ids, or a chunk's targets, go to the device on the stream that uses them. */
static bool
bring(struct cuda *cuda, const int32_t *from, int64_t first, int64_t count, GError **error)
{
    return copy_ranges(cuda, cuda->tokens + first, from + first,
                       count * (int64_t)sizeof *cuda->tokens, error);
}

static bool
bring_tokens(struct cuda *cuda, struct mw_compute *compute, GError **error)
{
    const int32_t *from = NULL;

    if (compute->operator_ == MW_OPERATOR_EMBEDDING)
        from = compute->ids;
    else if (compute->operator_ == MW_OPERATOR_LOSS)
        from = compute->targets;
    if (!from)
        return true;
    compute->ids = compute->targets = cuda->tokens;
    return bring(cuda, from, compute->first_token, compute->tokens, error);
}

static bool
compute(void *backend, const struct mw_compute *compute, GError **error)
{
    struct cuda *cuda = enter(backend);
    struct mw_compute here = *compute;

    return bring_tokens(cuda, &here, error) && mw_operators_run(cuda->operators, &here, error) &&
           mw_cuda_launched(&cuda->device, error) && mw_cuda_wait(&cuda->device.gpu, error);
}

static bool
copy(void *backend, void *to, const void *from, int64_t bytes, GError **error)
{
    struct cuda *cuda = enter(backend);

    return copy_ranges(cuda, to, from, bytes, error) && mw_cuda_wait(&cuda->device.gpu, error);
}

/* Of one kernel. */
static bool
launched(struct cuda *cuda, int status, const char *kernel, GError **error)
{
    return check(cuda, (cudaError_t)status, kernel, error) &&
           mw_cuda_wait(&cuda->device.gpu, error);
}

static bool
accumulate(void *backend, float *sum, const void *x, int64_t n, bool first, GError **error)
{
    struct cuda *cuda = enter(backend);
    void *stream = mw_cuda_stream();
    const struct mw_cuda_launches *launches = cuda->device.launches;

    return launched(
        cuda, first ? launches->widen(stream, sum, x, n) : launches->accumulate(stream, sum, x, n),
        "kernel accumulate", error);
}

static bool
square_sums(void *backend, double *partial, const void *gradient, bool fp32, int64_t n,
            GError **error)
{
    struct cuda *cuda = enter(backend);

    return launched(
        cuda, cuda->device.launches->square_sums(mw_cuda_stream(), partial, gradient, fp32, n),
        "kernel square_sums", error);
}

static bool
update(void *backend, const struct mw_update_step *step, float *w, float *m, float *v, void *param,
       const void *gradient, bool fp32, int64_t n, GError **error)
{
    struct cuda *cuda = enter(backend);

    return launched(
        cuda,
        cuda->device.launches->update(mw_cuda_stream(), step, w, m, v, param, gradient, fp32, n),
        "kernel update", error);
}

static bool
update_narrow(void *backend, const struct mw_update_step *step,
              const struct mw_update_spans *decaying, float *w,
              const struct mw_narrow_moments *moments, void *param, const void *gradient, bool fp32,
              int64_t n, GError **error)
{
    struct cuda *cuda = enter(backend);

    return launched(cuda,
                    cuda->device.launches->update_narrow(mw_cuda_stream(), step, decaying, w,
                                                         moments, param, gradient, fp32, n),
                    "kernel update_narrow", error);
}

static bool
narrow(void *backend, void *out, const float *x, int64_t n, GError **error)
{
    struct cuda *cuda = enter(backend);

    return launched(cuda, cuda->device.launches->narrow(mw_cuda_stream(), out, x, n),
                    "kernel narrow", error);
}

static bool
encode(void *backend, void *coded, const void *x, int64_t n, GError **error)
{
    struct cuda *cuda = enter(backend);

    return launched(cuda, cuda->device.launches->narrow_mxfp8(mw_cuda_stream(), coded, x, n),
                    "kernel narrow_mxfp8", error);
}

static bool
decode(void *backend, void *x, const void *coded, int64_t n, GError **error)
{
    struct cuda *cuda = enter(backend);

    return launched(
        cuda, cuda->device.launches->widen_blocks(mw_cuda_stream(), x, coded, MW_DTYPE_MXFP8, n),
        "kernel widen_blocks", error);
}

/* --- its parts ------------------------------------------------------------------------------- */

static void *
enter_device(void *backend)
{
    return &enter(backend)->device;
}

static bool
launched_all(void *backend, GError **error)
{
    return mw_cuda_launched(&((struct cuda *)backend)->device, error);
}

static bool
memory_left(void *backend, int64_t *free_bytes, int64_t *all_bytes, GError **error)
{
    size_t left = 0, all = 0;
    bool good = check(enter(backend), cudaMemGetInfo(&left, &all), "cudaMemGetInfo", error);

    *free_bytes = (int64_t)left;
    *all_bytes = (int64_t)all;
    return good;
}

const struct mw_backend mw_backend_cuda = {
    .name = "cuda",
    .dtypes = 1 << MW_DTYPE_BF16 | 1 << MW_DTYPE_FP16,
    .apart = true,
    .devices = mw_cuda_gpu_count,
    .installed = mw_cuda_gpu_has_driver,
    .describe = describe,
    .environment = mw_cuda_gpu_environment,
    .takes = takes,
    .open = open_cuda,
    .close = close_cuda,
    .pin = pin,
    .unpin = unpin,
    .hurry = hurry,
    .begin = begin,
    .end = end,
    .prepare = prepare,
    .compute = compute,
    .copy = copy,
    .accumulate = accumulate,
    .square_sums = square_sums,
    .update = update,
    .update_narrow = update_narrow,
    .narrow = narrow,
    .encode = encode,
    .decode = decode,
    .collectives = &mw_cuda_collectives,
    .join = join,
    .kernels = &mw_cuda_kernels,
    .enter = enter_device,
    .launched = launched_all,
    .memory_left = memory_left,
    .direct_storage = mw_cuda_direct_storage,
};
