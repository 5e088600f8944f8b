/*
 * A device that computes nothing.  Its memory is an arena and copies are made, so that everything
 * travels as in any run; an operator only checks that it is handed its own parameters.  They never
 * change, since the update leaves the state as it is.  So a step takes the time to order ops and to
 * move bytes, and an op that runs too early is found out.
 */
#include <omp.h>
#include <string.h>

#include "base/error.h"
#include "exec/device/backend.h"
#include "exec/device/cpu/kernels.h"
#include "exec/memory/memory.h"

#define SAMPLES 32

struct null {
    struct mw_arena arena;
    int threads;
    enum mw_dtype dtype;
    GHashTable *seen; /* const struct mw_part * -> uint64_t *, of its first use */
};

static void
close_null(void *backend)
{
    struct null *null = backend;

    mw_arena_release(&null->arena);
    g_hash_table_unref(null->seen);
    g_free(null);
}

static void *
open_null(const struct mw_backend_options *options, int64_t bytes, void **memory, GError **error)
{
    struct null *null = g_new0(struct null, 1);

    null->threads = options->threads ? options->threads : omp_get_num_procs();
    null->dtype = options->dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : options->dtype;
    null->seen = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    if (!mw_arena_reserve(&null->arena, "device memory", bytes, error)) {
        close_null(null);
        return NULL;
    }
    *memory = null->arena.base;
    return null;
}

/* --- parameters ------------------------------------------------------------------------------ */

/* Of pairs of bytes spread over the part (FNV-1a). */
static uint64_t
digest(const uint16_t *params, int64_t bytes)
{
    int64_t pairs = bytes / (int64_t)sizeof *params, samples = MIN(pairs, SAMPLES);
    uint64_t digest = 0xcbf29ce484222325;

    for (int64_t i = 0; i < samples; i++)
        digest = (digest ^ params[(pairs - 1) * i / MAX(samples - 1, 1)]) * 0x100000001b3;
    return digest;
}

/* A part may be another one's where the plan has changed. */
static bool
prepare(void *backend, const struct mw_compute *compute, GError **error)
{
    (void)error;
    g_hash_table_remove(((struct null *)backend)->seen, compute->part);
    return true;
}

static bool
compute(void *backend, const struct mw_compute *compute, GError **error)
{
    struct null *null = backend;

    if (!compute->params)
        return true;
    const void *handed = compute->narrow ? compute->narrow : compute->params;
    enum mw_dtype dtype = compute->narrow ? compute->narrow_dtype : null->dtype;
    uint64_t now = digest(handed, mw_dtype_bytes((int)dtype, compute->part->elements));
    const uint64_t *before = g_hash_table_lookup(null->seen, compute->part);
    if (!before)
        g_hash_table_insert(null->seen, (void *)compute->part, g_memdup2(&now, sizeof now));
    if (!before || *before == now)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "null backend: %s was handed other parameters than before: it has run before they "
                "were there, or after they were overwritten",
                mw_operator_name(compute->operator_));
    return false;
}

static bool
copy(void *backend, void *to, const void *from, int64_t bytes, GError **error)
{
    (void)backend;
    (void)error;
    memcpy(to, from, bytes);
    return true;
}

/* --- passes ---------------------------------------------------------------------------------- */

static void
nothing_widened(float *out, const void *x, int64_t n)
{
    (void)out, (void)x, (void)n;
}

static void
nothing_accumulated(float *sum, const void *x, int64_t n)
{
    (void)sum, (void)x, (void)n;
}

static void
nothing_squared(double *partial, const void *gradient, bool fp32, int64_t n)
{
    (void)partial, (void)gradient, (void)fp32, (void)n;
}

static void
nothing_summed(const struct mw_exact_sides *sides, const void *gradient, bool fp32, int64_t n)
{
    (void)sides, (void)gradient, (void)fp32, (void)n;
}

static void
no_update_squared(const struct mw_update_step *step, const struct mw_update_vectors *vectors,
                  const void *gradient, bool fp32, int64_t n, struct mw_exact_sum *sum)
{
    (void)step, (void)vectors, (void)gradient, (void)fp32, (void)n, (void)sum;
}

/* After an update the parameters are those of the state. */
#define KEEPING(name, element_type)                                                                \
    static void narrow_##name(void *out, const float *x, int64_t n)                                \
    {                                                                                              \
        mw_cpu_kernels(element_type)->narrow(out, x, n);                                           \
    }                                                                                              \
                                                                                                   \
    static void nothing_updated_##name(const struct mw_update_step *step, float *w, float *m,      \
                                       float *v, void *param, const void *gradient, bool fp32,     \
                                       int64_t n)                                                  \
    {                                                                                              \
        (void)step, (void)m, (void)v, (void)gradient, (void)fp32;                                  \
        if (param)                                                                                 \
            narrow_##name(param, w, n);                                                            \
    }                                                                                              \
                                                                                                   \
    static void nothing_updated_narrow_##name(                                                     \
        const struct mw_update_step *step, const struct mw_update_spans *decaying, float *w,       \
        const struct mw_narrow_moments *moments, void *param, const void *gradient, bool fp32,     \
        int64_t n)                                                                                 \
    {                                                                                              \
        (void)decaying, (void)moments;                                                             \
        nothing_updated_##name(step, w, NULL, NULL, param, gradient, fp32, n);                     \
    }                                                                                              \
                                                                                                   \
    static void nothing_updated_by_vectors_##name(                                                 \
        const struct mw_update_step *step, const struct mw_update_vectors *vectors, float *w,      \
        float *m, void *param, const void *gradient, bool fp32, int64_t n)                         \
    {                                                                                              \
        (void)vectors;                                                                             \
        nothing_updated_##name(step, w, m, NULL, param, gradient, fp32, n);                        \
    }                                                                                              \
                                                                                                   \
    static const struct mw_cpu_kernels host_##name = {                                             \
        .dtype = (element_type),                                                                   \
        .widen = nothing_widened,                                                                  \
        .narrow = narrow_##name,                                                                   \
        .accumulate = nothing_accumulated,                                                         \
        .update = nothing_updated_##name,                                                          \
        .update_narrow = nothing_updated_narrow_##name,                                            \
        .update_by_vectors = nothing_updated_by_vectors_##name,                                    \
        .square_sums = nothing_squared,                                                            \
        .side_sums = nothing_summed,                                                               \
        .update_squares = no_update_squared,                                                       \
    };

KEEPING(bf16, MW_DTYPE_BF16)
KEEPING(fp16, MW_DTYPE_FP16)
KEEPING(fp32, MW_DTYPE_FP32)

static const struct mw_cpu_kernels *
host(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP32 ? &host_fp32 : dtype == MW_DTYPE_FP16 ? &host_fp16 : &host_bf16;
}

static bool
accumulate(void *backend, float *sum, const void *x, int64_t n, bool first, GError **error)
{
    (void)backend, (void)sum, (void)x, (void)n, (void)first, (void)error;
    return true;
}

static bool
square_sums(void *backend, double *partial, const void *gradient, bool fp32, int64_t n,
            GError **error)
{
    (void)backend, (void)partial, (void)gradient, (void)fp32, (void)n, (void)error;
    return true;
}

static bool
narrow(void *backend, void *out, const float *x, int64_t n, GError **error)
{
    const struct null *null = backend;

    (void)error;
    omp_set_num_threads(null->threads);
    mw_cpu_kernels(null->dtype)->narrow(out, x, n);
    return true;
}

static bool
update(void *backend, const struct mw_update_step *step, float *w, float *m, float *v, void *param,
       const void *gradient, bool fp32, int64_t n, GError **error)
{
    (void)step, (void)m, (void)v, (void)gradient, (void)fp32;
    return narrow(backend, param, w, n, error);
}

static bool
update_narrow(void *backend, const struct mw_update_step *step,
              const struct mw_update_spans *decaying, float *w,
              const struct mw_narrow_moments *moments, void *param, const void *gradient, bool fp32,
              int64_t n, GError **error)
{
    (void)step, (void)decaying, (void)moments, (void)gradient, (void)fp32;
    return narrow(backend, param, w, n, error);
}

static bool
update_by_vectors(void *backend, const struct mw_update_step *step,
                  const struct mw_update_vectors *vectors, float *w, float *m, void *param,
                  const void *gradient, bool fp32, int64_t n, GError **error)
{
    (void)step, (void)vectors, (void)m, (void)gradient, (void)fp32;
    return narrow(backend, param, w, n, error);
}

static bool
encode(void *backend, void *coded, const void *x, int64_t n, GError **error)
{
    (void)backend, (void)coded, (void)x, (void)n, (void)error;
    return true;
}

static bool
decode(void *backend, void *x, const void *coded, int64_t n, GError **error)
{
    (void)backend, (void)x, (void)coded, (void)n, (void)error;
    return true;
}

const struct mw_backend mw_backend_null = {
    .name = "null",
    .dtypes = 1 << MW_DTYPE_BF16 | 1 << MW_DTYPE_FP16 | 1 << MW_DTYPE_FP32,
    .host = host,
    .open = open_null,
    .close = close_null,
    .prepare = prepare,
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
};
