/*
 * bench_gpu [--smoke]: what a GPU gives without this project, beside what it gives with it.
 *
 * products  those of a layer of GPT-2 124M and 1.5B and of their logits, as a run queues them, and
 * by cublasLt alone: by the first algorithm that it proposes, and by the best of eight. h2d, d2h
 * GB/s of a plain copy of pinned memory, by itself.
 *
 * Where there is no GPU: one line, and exit status 77.
 */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "exec/device/cuda/library.h"
#include "exec/device/cuda/matmul.h"
#include "tests/cuda/device_memory.h"

#define PROPOSALS 8
#define ROUNDS 5
#define WORKSPACE_BYTES (32 << 20) /* as in exec/device/cuda/matmul.c */
#define ALIGNED_BYTES 16
#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

#define CALLS(X)                                                                                   \
    X(cublasLtCreate)                                                                              \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)

struct bare {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulHeuristicResult_t proposals[PROPOSALS];
    int count;
};

static struct {
#define X(name) __typeof__(name) *name;
    CALLS(X)
#undef X
} lt;

static struct {
    int calls;    /* of a product, between two events */
    int64_t part; /* of the sizes: one of so many */
    struct mw_cuda_gpu gpu;
    struct mw_cuda_matmul *matmul;
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t preference;
    void *workspace;
    cudaStream_t stream;
    cudaEvent_t begin, end;
} bench = {.calls = 20, .part = 1};

/* --- what must not fail ---------------------------------------------------------------------- */

static void
must(int status, const char *call)
{
    if (!status)
        return;
    fprintf(stderr, "bench_gpu: %s: status %d\n", call, status);
    exit(1);
}

static void
must_be(bool good, const GError *error)
{
    if (good)
        return;
    fprintf(stderr, "bench_gpu: %s\n", error->message);
    exit(1);
}

#define CUDA(name, ...) must((int)name(__VA_ARGS__), #name)
#define LT(name, ...) must((int)lt.name(__VA_ARGS__), #name)

/* --- life ------------------------------------------------------------------------------------ */

static void
load(void)
{
    GError *error = NULL;
    void *library = mw_cuda_library_open("libcublasLt.so." STRING(CUBLAS_VER_MAJOR), &error);

    must_be(library != NULL, error);
#define X(name) must_be(mw_cuda_library_find(library, #name, &lt.name, &error), error);
    CALLS(X)
#undef X
}

static void
prefer(cublasLtMatmulPreferenceAttributes_t what, const void *value, size_t bytes)
{
    LT(cublasLtMatmulPreferenceSetAttribute, bench.preference, what, value, bytes);
}

static void
set_up(void)
{
    GError *error = NULL;
    size_t bytes = WORKSPACE_BYTES;
    uint32_t aligned = ALIGNED_BYTES;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* as exact as a run's */

    must_be(mw_cuda_gpu_pick(0, 1, &bench.gpu, &error), error);
    CUDA(cudaSetDevice, bench.gpu.ordinal);
    CUDA(cudaStreamCreateWithFlags, &bench.stream, cudaStreamNonBlocking);
    CUDA(cudaEventCreateWithFlags, &bench.begin, cudaEventDefault);
    CUDA(cudaEventCreateWithFlags, &bench.end, cudaEventDefault);
    bench.matmul = mw_cuda_matmul_create(&bench.gpu, MW_DTYPE_BF16, &error);
    must_be(bench.matmul != NULL, error);
    load();
    CUDA(cudaMalloc, &bench.workspace, bytes);
    LT(cublasLtCreate, &bench.handle);
    LT(cublasLtMatmulPreferenceCreate, &bench.preference);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &aligned, sizeof aligned);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &aligned, sizeof aligned);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &aligned, sizeof aligned);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &aligned, sizeof aligned);
}

/* --- time ------------------------------------------------------------------------------------ */

static int
compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Of one call, in ms: the median of rounds of `calls` each, behind one that does not count. */
static double
time_ms(void (*run)(const void *data), const void *data, int calls)
{
    float rounds[ROUNDS];

    run(data);
    for (int r = 0; r < ROUNDS; r++) {
        CUDA(cudaEventRecord, bench.begin, bench.stream);
        for (int i = 0; i < calls; i++)
            run(data);
        CUDA(cudaEventRecord, bench.end, bench.stream);
        CUDA(cudaEventSynchronize, bench.end);
        CUDA(cudaEventElapsedTime, &rounds[r], bench.begin, bench.end);
    }
    qsort(rounds, ROUNDS, sizeof *rounds, compare);
    return rounds[ROUNDS / 2] / calls;
}

/* --- products -------------------------------------------------------------------------------- */

struct operands {
    struct mw_product product;
    void *a, *b, *bias, *c;
    struct bare bare;
    int proposal;
};

static void *
filled(int64_t elements)
{
    void *memory = NULL;

    CUDA(cudaMalloc, &memory, (size_t)elements * 2);
    CUDA(cudaMemset, memory, 0x3c, (size_t)elements * 2);
    return memory;
}

static void
set(struct bare *bare, cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes)
{
    LT(cublasLtMatmulDescSetAttribute, bare->desc, what, value, bytes);
}

/* Column-major: C^T = B^T A^T, as exec/device/cuda/matmul.c says. */
static void
keep_runnable(struct bare *bare)
{
    int kept = 0;

    for (int i = 0; i < bare->count; i++)
        if (bare->proposals[i].state == CUBLAS_STATUS_SUCCESS)
            bare->proposals[kept++] = bare->proposals[i];
    bare->count = kept;
}

static void
describe(struct operands *o)
{
    const struct mw_product *p = &o->product;
    struct bare *bare = &o->bare;
    cublasOperation_t a = p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    int32_t type = CUDA_R_16BF;
    int64_t rows[] = {p->a_transposed ? p->k : p->m, p->b_transposed ? p->n : p->k};
    int64_t columns[] = {p->a_transposed ? p->m : p->k, p->b_transposed ? p->k : p->n};

    LT(cublasLtMatmulDescCreate, &bare->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(bare, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
    set(bare, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
    if (p->bias) {
        set(bare, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
        set(bare, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
        set(bare, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias, sizeof o->bias);
    }
    LT(cublasLtMatrixLayoutCreate, &bare->a, CUDA_R_16BF, (uint64_t)columns[0], (uint64_t)rows[0],
       columns[0]);
    LT(cublasLtMatrixLayoutCreate, &bare->b, CUDA_R_16BF, (uint64_t)columns[1], (uint64_t)rows[1],
       columns[1]);
    LT(cublasLtMatrixLayoutCreate, &bare->c, CUDA_R_16BF, (uint64_t)p->n, (uint64_t)p->m, p->n);
    LT(cublasLtMatmulAlgoGetHeuristic, bench.handle, bare->desc, bare->b, bare->a, bare->c, bare->c,
       bench.preference, PROPOSALS, bare->proposals, &bare->count);
    keep_runnable(bare);
    must(bare->count < 1, "cublasLtMatmulAlgoGetHeuristic proposes nothing");
}

static void
run_own(const void *data)
{
    const struct operands *o = data;
    GError *error = NULL;

    must_be(mw_cuda_matmul_run(bench.matmul, bench.stream, &o->product, o->c, o->a, o->b, o->bias,
                               &error),
            error);
}

static void
run_bare(const void *data)
{
    const struct operands *o = data;
    const struct bare *bare = &o->bare;
    float alpha = 1, beta = o->product.accumulate;

    LT(cublasLtMatmul, bench.handle, bare->desc, &alpha, o->b, bare->b, o->a, bare->a, &beta, o->c,
       bare->c, o->c, bare->c, &bare->proposals[o->proposal].algo, bench.workspace, WORKSPACE_BYTES,
       bench.stream);
}

struct sums {
    double own_ms, first_ms, best_ms;
};

static void
forget(struct operands *o)
{
    cublasLtMatrixLayout_t layouts[] = {o->bare.a, o->bare.b, o->bare.c};

    for (size_t i = 0; i < G_N_ELEMENTS(layouts); i++)
        LT(cublasLtMatrixLayoutDestroy, layouts[i]);
    LT(cublasLtMatmulDescDestroy, o->bare.desc);
}

/* Adds `times` products of this shape; dense. */
static void
compare_product(struct sums *sums, struct mw_product product, int times)
{
    struct operands o = {.product = product};
    const struct mw_product *p = &o.product;
    double best_ms = 0, first_ms = 0;

    o.a = filled(p->m * p->k);
    o.b = filled(p->k * p->n);
    o.c = filled(p->m * p->n);
    o.bias = filled(p->n);
    describe(&o);
    for (o.proposal = 0; o.proposal < o.bare.count; o.proposal++) {
        double ms = time_ms(run_bare, &o, bench.calls);
        if (!o.proposal)
            first_ms = ms;
        if (!o.proposal || ms < best_ms)
            best_ms = ms;
    }
    double own_ms = time_ms(run_own, &o, bench.calls);
    printf("%6lld %6lld %6lld %s%s%s%s %9.4f ms, cublasLt %9.4f, at best %9.4f\n", (long long)p->m,
           (long long)p->n, (long long)p->k, p->a_transposed ? "At " : "",
           p->b_transposed ? "Bt " : "", p->bias ? "bias " : "", p->accumulate ? "+=" : "", own_ms,
           first_ms, best_ms);
    sums->own_ms += own_ms * times;
    sums->first_ms += first_ms * times;
    sums->best_ms += best_ms * times;
    forget(&o);
    void *memory[] = {o.a, o.b, o.c, o.bias};
    for (size_t i = 0; i < G_N_ELEMENTS(memory); i++)
        CUDA(cudaFree, memory[i]);
}

/* y = x W^T, dx = dy W, dW = dy^T x, of W [out, in]. */
static void
compare_linear(struct sums *sums, int64_t tokens, int64_t in, int64_t out, bool bias, int times)
{
    tokens /= bench.part;
    in /= bench.part;
    out /= bench.part;
    compare_product(
        sums,
        (struct mw_product){.m = tokens, .n = out, .k = in, .b_transposed = true, .bias = bias},
        times);
    compare_product(sums, (struct mw_product){.m = tokens, .n = in, .k = out}, times);
    compare_product(sums, (struct mw_product){.m = out, .n = in, .k = tokens, .a_transposed = true},
                    times);
}

static void
compare_model(struct sums *sums, int64_t tokens, int64_t hidden, int layers)
{
    compare_linear(sums, tokens, hidden, 3 * hidden, true, layers);
    compare_linear(sums, tokens, hidden, hidden, true, layers);
    compare_linear(sums, tokens, hidden, 4 * hidden, true, layers);
    compare_linear(sums, tokens, 4 * hidden, hidden, true, layers);
    compare_linear(sums, tokens, hidden, 50304, false, 1);
}

static void
compare_products(void)
{
    struct sums sums = {0};

    compare_model(&sums, 8192, 768, 12);
    compare_model(&sums, 4096, 1600, 48);
    printf("products %.4f of the best, %.4f of the first\n", sums.best_ms / sums.own_ms,
           sums.first_ms / sums.own_ms);
}

/* --- copies ---------------------------------------------------------------------------------- */

struct copy {
    void *to, *from;
    size_t bytes;
    enum cudaMemcpyKind kind;
};

static void
run_copy(const void *data)
{
    const struct copy *c = data;

    CUDA(cudaMemcpyAsync, c->to, c->from, c->bytes, c->kind, bench.stream);
}

static void
time_copies(void)
{
    size_t bytes = ((size_t)256 << 20) / (size_t)bench.part;
    void *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *device = NULL;

    must(host == MAP_FAILED, "mmap");
    memset(host, 1, bytes);
    CUDA(cudaHostRegister, host, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    CUDA(cudaMalloc, &device, bytes);
    struct copy down = {device, host, bytes, cudaMemcpyHostToDevice};
    struct copy up = {host, device, bytes, cudaMemcpyDeviceToHost};
    printf("h2d %.3f GB/s\n", (double)bytes / time_ms(run_copy, &down, 4) / 1e6);
    printf("d2h %.3f GB/s\n", (double)bytes / time_ms(run_copy, &up, 4) / 1e6);
    CUDA(cudaFree, device);
    CUDA(cudaHostUnregister, host);
    munmap(host, bytes);
}

int
main(int argc, char **argv)
{
    const char *missing = mw_test_device_missing();

    if (missing) {
        printf("bench_gpu: %s\n", missing);
        return 77;
    }
    if (argc > 1 && !strcmp(argv[1], "--smoke")) {
        bench.calls = 1;
        bench.part = 16;
    }
    set_up();
    time_copies();
    compare_products();
    mw_cuda_matmul_destroy(bench.matmul);
    return 0;
}
