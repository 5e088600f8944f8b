#include "exec/device/cuda/matmul.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "base/error.h"
#include "exec/device/cuda/library.h"

/* NVIDIA's advice for compute capability 9.0 (cuBLAS, cublasSetWorkspace); other ones need less. */
#define WORKSPACE_BYTES (32 << 20)

/* Alignment of well-placed operands: kernels for tensor cores access 16 bytes at once. */
#define ALIGNED_BYTES 16

#define ALIGNED_HALVES (ALIGNED_BYTES / 2)

/* As plan/homes.c has parts begin at multiples of 8 rows; smaller products take little time. */
#define LONG_ENOUGH 1024

/* How many algorithms are tried per product: the library's first choice may not run here. */
#define ALGORITHMS 8

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
#define LIBRARY "libcublasLt.so." STRING(CUBLAS_VER_MAJOR)

#define CALLS(X)                                                                                   \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)

struct calls {
#define X(name) __typeof__(name) *name;
    CALLS(X)
#undef X
};

/*
 * One product.  cublasLt's matrices are column-major: what is row-major here is its transpose
 * there, so it computes C^T [n, m] = B^T A^T.  Its first operand is our B, its second our A; one
 * that is transposed here is transposed there.
 */
struct choice {
    struct mw_product product;
    bool aligned;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

struct mw_cuda_matmul {
    const struct mw_cuda_gpu *gpu;
    cudaDataType_t half; /* of 16-bit elements */
    struct calls calls;
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t preference;
    void *workspace;
    GPtrArray *choices;
};

static bool
check(const struct mw_cuda_matmul *matmul, cublasStatus_t status, const char *call, GError **error)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "GPU %d (%s): %s: %s", matmul->gpu->ordinal,
                matmul->gpu->name, call, matmul->calls.cublasLtGetStatusString(status));
    return false;
}

#define CALL(matmul, error, name, ...)                                                             \
    check(matmul, (matmul)->calls.name(__VA_ARGS__), #name, error)

/* --- life ------------------------------------------------------------------------------------ */

static bool
load(struct calls *calls, GError **error)
{
    void *library = mw_cuda_library_open(LIBRARY, error);

    if (!library)
        return false;
#define X(name)                                                                                    \
    if (!mw_cuda_library_find(library, #name, &calls->name, error))                                \
        return false;
    CALLS(X)
#undef X
    return true;
}

bool
mw_cuda_matmul_possible(GError **error)
{
    struct calls calls;

    return load(&calls, error);
}

static bool
prefer(struct mw_cuda_matmul *matmul, cublasLtMatmulPreferenceAttributes_t what, const void *value,
       size_t bytes, GError **error)
{
    return CALL(matmul, error, cublasLtMatmulPreferenceSetAttribute, matmul->preference, what,
                value, bytes);
}

static bool
own(struct mw_cuda_matmul *matmul, GError **error)
{
    size_t bytes = WORKSPACE_BYTES;
    /* Otherwise parts of a sum over k could be added up in 16 bits. */
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    return mw_cuda_check(matmul->gpu, cudaMalloc(&matmul->workspace, bytes),
                         "cudaMalloc of the workspace of matrix products", error) &&
           CALL(matmul, error, cublasLtCreate, &matmul->handle) &&
           CALL(matmul, error, cublasLtMatmulPreferenceCreate, &matmul->preference) &&
           prefer(matmul, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes, error) &&
           prefer(matmul, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums, error);
}

static void
free_choice(struct mw_cuda_matmul *matmul, struct choice *choice)
{
    if (choice->desc)
        matmul->calls.cublasLtMatmulDescDestroy(choice->desc);
    if (choice->a)
        matmul->calls.cublasLtMatrixLayoutDestroy(choice->a);
    if (choice->b)
        matmul->calls.cublasLtMatrixLayoutDestroy(choice->b);
    if (choice->c)
        matmul->calls.cublasLtMatrixLayoutDestroy(choice->c);
    g_free(choice);
}

struct mw_cuda_matmul *
mw_cuda_matmul_create(const struct mw_cuda_gpu *gpu, enum mw_dtype dtype, GError **error)
{
    struct mw_cuda_matmul *matmul = g_new0(struct mw_cuda_matmul, 1);

    matmul->gpu = gpu;
    matmul->half = dtype == MW_DTYPE_FP16 ? CUDA_R_16F : CUDA_R_16BF;
    matmul->choices = g_ptr_array_new();
    if (load(&matmul->calls, error) && own(matmul, error))
        return matmul;
    mw_cuda_matmul_destroy(matmul);
    return NULL;
}

void
mw_cuda_matmul_destroy(struct mw_cuda_matmul *matmul)
{
    if (!matmul)
        return;
    for (guint i = 0; i < matmul->choices->len; i++)
        free_choice(matmul, matmul->choices->pdata[i]);
    g_ptr_array_free(matmul->choices, TRUE);
    if (matmul->preference)
        matmul->calls.cublasLtMatmulPreferenceDestroy(matmul->preference);
    if (matmul->handle)
        matmul->calls.cublasLtDestroy(matmul->handle);
    cudaFree(matmul->workspace);
    g_free(matmul);
}

/* --- choices --------------------------------------------------------------------------------- */

static bool
set(struct mw_cuda_matmul *matmul, struct choice *choice, cublasLtMatmulDescAttributes_t what,
    const void *value, size_t bytes, GError **error)
{
    return CALL(matmul, error, cublasLtMatmulDescSetAttribute, choice->desc, what, value, bytes);
}

static bool
set_bias(struct mw_cuda_matmul *matmul, struct choice *choice, const void *bias, GError **error)
{
    return set(matmul, choice, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias, error);
}

/* The algorithm is chosen for the alignment that the address has at that time. */
static const void *
aligned_as(const struct mw_cuda_matmul *matmul, const struct choice *choice)
{
    return (const char *)matmul->workspace + (choice->aligned ? ALIGNED_BYTES : sizeof(uint16_t));
}

static bool
describe_product(struct mw_cuda_matmul *matmul, struct choice *choice, GError **error)
{
    const struct mw_product *p = &choice->product;
    cublasOperation_t a = p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    int32_t bias = matmul->half;

    return CALL(matmul, error, cublasLtMatmulDescCreate, &choice->desc, CUBLAS_COMPUTE_32F,
                CUDA_R_32F) &&
           set(matmul, choice, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a, error) &&
           set(matmul, choice, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b, error) &&
           set(matmul, choice, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, error) &&
           (!p->bias ||
            (set(matmul, choice, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, sizeof bias, error) &&
             set_bias(matmul, choice, aligned_as(matmul, choice), error)));
}

/* Of a row-major matrix [rows, columns]; ld 0: dense. */
static bool
describe_matrix(struct mw_cuda_matmul *matmul, cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                int64_t rows, int64_t columns, int64_t ld, GError **error)
{
    return CALL(matmul, error, cublasLtMatrixLayoutCreate, layout, type, (uint64_t)columns,
                (uint64_t)rows, ld ? ld : columns);
}

static bool
describe(struct mw_cuda_matmul *matmul, struct choice *choice, GError **error)
{
    const struct mw_product *p = &choice->product;

    return describe_product(matmul, choice, error) &&
           describe_matrix(matmul, &choice->a, matmul->half, p->a_transposed ? p->k : p->m,
                           p->a_transposed ? p->m : p->k, p->ld_a, error) &&
           describe_matrix(matmul, &choice->b, matmul->half, p->b_transposed ? p->n : p->k,
                           p->b_transposed ? p->k : p->n, p->ld_b, error) &&
           describe_matrix(matmul, &choice->c, p->c_fp32 ? CUDA_R_32F : matmul->half, p->m, p->n,
                           p->ld_c, error);
}

/* Other operands lie at multiples of their elements. */
static bool
prefer_alignment(struct mw_cuda_matmul *matmul, const struct choice *choice, GError **error)
{
    uint32_t ab = choice->aligned ? ALIGNED_BYTES : sizeof(uint16_t);
    uint32_t c = choice->aligned          ? ALIGNED_BYTES
                 : choice->product.c_fp32 ? sizeof(float)
                                          : sizeof(uint16_t);

    return prefer(matmul, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &ab, sizeof ab, error) &&
           prefer(matmul, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &ab, sizeof ab, error) &&
           prefer(matmul, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c, error) &&
           prefer(matmul, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c, error);
}

/* The first algorithm that can run, in the library's order, which is always the same. */
static bool
choose(struct mw_cuda_matmul *matmul, struct choice *choice, GError **error)
{
    cublasLtMatmulHeuristicResult_t results[ALGORITHMS];
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    int found = 0;

    if (!describe(matmul, choice, error) || !prefer_alignment(matmul, choice, error) ||
        !CALL(matmul, error, cublasLtMatmulAlgoGetHeuristic, matmul->handle, choice->desc,
              choice->b, choice->a, choice->c, choice->c, matmul->preference, ALGORITHMS, results,
              &found))
        return false;
    for (int i = 0; i < found && status != CUBLAS_STATUS_SUCCESS; i++) {
        status = results[i].state;
        choice->algorithm = results[i].algo;
    }
    return check(matmul, status, "cublasLtMatmulAlgoGetHeuristic", error);
}

static struct choice *
find(struct mw_cuda_matmul *matmul, const struct mw_product *product, bool aligned, GError **error)
{
    for (guint i = 0; i < matmul->choices->len; i++) {
        struct choice *known = matmul->choices->pdata[i];
        if (known->aligned == aligned && mw_product_same(&known->product, product))
            return known;
    }
    struct choice *choice = g_new0(struct choice, 1);
    choice->product = *product;
    choice->aligned = aligned;
    if (choose(matmul, choice, error)) {
        g_ptr_array_add(matmul->choices, choice);
        return choice;
    }
    free_choice(matmul, choice);
    g_prefix_error(error, "product %lld x %lld x %lld: ", (long long)product->m,
                   (long long)product->n, (long long)product->k);
    return NULL;
}

/* --- odd sizes ------------------------------------------------------------------------------- */

/* Where operands begin, in elements. */
struct piece {
    struct mw_product product;
    int64_t a, b, c, bias;
};

static struct piece
whole(const struct mw_product *product)
{
    struct piece piece = {.product = *product};
    struct mw_product *p = &piece.product;

    p->ld_a = p->ld_a ? p->ld_a : p->a_transposed ? p->m : p->k;
    p->ld_b = p->ld_b ? p->ld_b : p->b_transposed ? p->k : p->n;
    p->ld_c = p->ld_c ? p->ld_c : p->n;
    return piece;
}

static bool
is_odd(int64_t size)
{
    return size >= LONG_ENOUGH && size % ALIGNED_HALVES;
}

/* cublasLt seems to have slow kernels alone for a long size that is no multiple of what tensor
 * cores load at once: on an H200 the last part of GPT-2's logits, of 2,961 columns, took 2.1 ms
 * backward, each of the others, whose columns are multiples of 8, took 0.11.  So the rest is a
 * product of its own; where k is cut it comes first, while what is rounded is small.  Returns how
 * many pieces there are. */
static int
cut(const struct mw_product *product, struct piece pieces[2])
{
    struct piece *rest = &pieces[0], *last = &pieces[1];
    struct mw_product *p = &last->product, *q = &rest->product;

    pieces[0] = pieces[1] = whole(product);
    if (is_odd(p->k)) {
        p->k -= q->k = p->k % ALIGNED_HALVES;
        rest->a = p->a_transposed ? p->k * p->ld_a : p->k;
        rest->b = p->b_transposed ? p->k : p->k * p->ld_b;
        p->accumulate = true;
        q->bias = false;
    } else if (is_odd(p->n)) {
        p->n -= q->n = p->n % ALIGNED_HALVES;
        rest->b = p->b_transposed ? p->n * p->ld_b : p->n;
        rest->c = rest->bias = p->n;
    } else if (p->a_transposed && is_odd(p->m)) {
        p->m -= q->m = p->m % ALIGNED_HALVES;
        rest->a = p->m;
        rest->c = p->m * p->ld_c;
    } else {
        pieces[0].product = *product;
        return 1;
    }
    return 2;
}

/* --- running --------------------------------------------------------------------------------- */

bool
mw_cuda_matmul_prepare(struct mw_cuda_matmul *matmul, const struct mw_product *product,
                       GError **error)
{
    struct piece pieces[2];

    for (int i = cut(product, pieces); i-- > 0;)
        if (!find(matmul, &pieces[i].product, true, error))
            return false;
    return true;
}

static bool
run(struct mw_cuda_matmul *matmul, void *stream, const struct mw_product *product, void *c,
    const uint16_t *a, const uint16_t *b, const uint16_t *bias, GError **error)
{
    uintptr_t places =
        (uintptr_t)c | (uintptr_t)a | (uintptr_t)b | (product->bias ? (uintptr_t)bias : 0);
    struct choice *choice = find(matmul, product, places % ALIGNED_BYTES == 0, error);
    float alpha = 1, beta = product->accumulate;

    if (!choice || (product->bias && !set_bias(matmul, choice, bias, error)))
        return false;
    return CALL(matmul, error, cublasLtMatmul, matmul->handle, choice->desc, &alpha, b, choice->b,
                a, choice->a, &beta, c, choice->c, c, choice->c, &choice->algorithm,
                matmul->workspace, WORKSPACE_BYTES, stream);
}

bool
mw_cuda_matmul_run(struct mw_cuda_matmul *matmul, void *stream, const struct mw_product *product,
                   void *c, const uint16_t *a, const uint16_t *b, const uint16_t *bias,
                   GError **error)
{
    struct piece pieces[2];
    int count = cut(product, pieces);

    for (int i = 0; i < count; i++) {
        const struct piece *piece = &pieces[i];
        char *to = (char *)c + piece->c * (product->c_fp32 ? 4 : 2);
        const uint16_t *added = piece->product.bias ? bias + piece->bias : NULL;
        if (!run(matmul, stream, &piece->product, to, a + piece->a, b + piece->b, added, error))
            return false;
    }
    return true;
}
