/* cublasLt by the products of the cpu backend: its arguments count by columns, theirs by rows.
 */
#include <cublasLt.h>
#include <glib.h>
#include <pthread.h>
#include <string.h>

#include "exec/data/convert.h"
#include "exec/device/cpu/matmul.h"
#include "tests/cuda/fake.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#define ANY_SUMS 7 /* in place, in fp32, in the result's type */

struct cublasLtMatmulDescOpaque {
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    int32_t bias_type;
};

struct cublasLtMatrixLayoutOpaque {
    cudaDataType_t type;
    int64_t rows, columns, ld; /* column-major */
};

struct cublasLtMatmulPreferenceOpaque {
    size_t workspace_bytes;
    uint32_t alignment[4]; /* of A, B, C, D */
    uint32_t sums;         /* of parts that are added up: any of these ways, as bits */
};

static struct {
    pthread_mutex_t mutex;
    struct mw_cpu_matmul *bf16, *fp16;
    int users;
} products = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* --- life ------------------------------------------------------------------------------------ */

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *handle)
{
    pthread_mutex_lock(&products.mutex);
    if (!products.users++) {
        products.bf16 = mw_cpu_matmul_create(MW_DTYPE_BF16);
        products.fp16 = mw_cpu_matmul_create(MW_DTYPE_FP16);
    }
    pthread_mutex_unlock(&products.mutex);
    *handle = (cublasLtHandle_t)&products;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtDestroy(cublasLtHandle_t handle)
{
    (void)handle;
    pthread_mutex_lock(&products.mutex);
    if (!--products.users) {
        mw_cpu_matmul_destroy(products.bf16);
        mw_cpu_matmul_destroy(products.fp16);
    }
    pthread_mutex_unlock(&products.mutex);
    return CUBLAS_STATUS_SUCCESS;
}

const char *
cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                 : "CUBLAS_STATUS_INVALID_VALUE";
}

/* --- descriptions ---------------------------------------------------------------------------- */

cublasStatus_t
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                         cudaDataType_t scale)
{
    *desc = g_new0(struct cublasLtMatmulDescOpaque, 1);
    (*desc)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS
                                                                : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    g_free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                               const void *value, size_t bytes)
{
    void *to = what == CUBLASLT_MATMUL_DESC_TRANSA         ? (void *)&desc->a
               : what == CUBLASLT_MATMUL_DESC_TRANSB       ? (void *)&desc->b
               : what == CUBLASLT_MATMUL_DESC_EPILOGUE     ? (void *)&desc->epilogue
               : what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? (void *)&desc->bias
                                                           : (void *)&desc->bias_type;

    if (bytes != (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof(void *) : sizeof(int32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = g_new0(struct cublasLtMatmulPreferenceOpaque, 1);
    (*preference)->sums = ANY_SUMS;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    g_free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                     size_t bytes)
{
    bool workspace = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    void *to = workspace ? (void *)&preference->workspace_bytes
               : what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
                   ? &preference->sums
                   : &preference->alignment[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];

    if (bytes != (workspace ? sizeof(size_t) : sizeof(uint32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
                           uint64_t columns, int64_t ld)
{
    *layout = g_new(struct cublasLtMatrixLayoutOpaque, 1);
    **layout = (struct cublasLtMatrixLayoutOpaque){type, (int64_t)rows, (int64_t)columns, ld};
    return ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    g_free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- products -------------------------------------------------------------------------------- */

/* D [n, m] = op(A) [n, k] op(B) [k, m], as columns.  False: shapes that do not fit together. */
static bool
product_of(const struct cublasLtMatmulDescOpaque *desc, const struct cublasLtMatrixLayoutOpaque *a,
           const struct cublasLtMatrixLayoutOpaque *b, const struct cublasLtMatrixLayoutOpaque *d,
           struct mw_product *out)
{
    bool at = desc->a == CUBLAS_OP_T, bt = desc->b == CUBLAS_OP_T;

    *out = (struct mw_product){
        .m = d->columns,
        .n = d->rows,
        .k = at ? a->rows : a->columns,
        .ld_a = b->ld,
        .ld_b = a->ld,
        .ld_c = d->ld,
        .a_transposed = bt,
        .b_transposed = at,
        .bias = desc->epilogue == CUBLASLT_EPILOGUE_BIAS,
        .c_fp32 = d->type == CUDA_R_32F,
    };
    return (a->type == CUDA_R_16BF || a->type == CUDA_R_16F) && b->type == a->type &&
           (d->type == CUDA_R_32F || d->type == a->type) && (at ? a->columns : a->rows) == out->n &&
           (bt ? b->columns : b->rows) == out->k && (bt ? b->rows : b->columns) == out->m &&
           (!out->bias || desc->bias_type == (int32_t)a->type);
}

/* What is chosen is kept in the algorithm, which must be used for the same: a bias is as aligned as
 * the one that it was chosen with. */
cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int wanted,
                               cublasLtMatmulHeuristicResult_t results[], int *found)
{
    struct mw_product product;

    (void)handle;
    if (preference->sums != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        g_error("parts of sums may be rounded to 16 bits");
    if (wanted < 1 || c != d || !product_of(desc, a, b, d, &product) ||
        (product.bias && !desc->bias))
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasLtMatmulHeuristicResult_t good = {.state = CUBLAS_STATUS_SUCCESS};
    for (int i = 0; i < 4; i++)
        good.algo.data[i] = preference->alignment[i];
    good.algo.data[4] = (uint64_t)(product.m * 31 + product.n) * 31 + (uint64_t)product.k;
    if (product.bias)
        good.algo.data[5] = (uintptr_t)desc->bias & -(uintptr_t)desc->bias;
    for (*found = 0; *found < wanted && *found <= fake_machine.bad_algorithms; ++*found)
        results[*found] =
            *found < fake_machine.bad_algorithms
                ? (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_NOT_SUPPORTED}
                : good;
    return CUBLAS_STATUS_SUCCESS;
}

struct call {
    struct mw_product product;
    void *c;
    const uint16_t *a, *b, *bias;
    bool fp16;
};

static void
multiply(const struct call *call, const struct mw_product *product, void *c)
{
    struct mw_cpu_matmul *matmul = call->fp16 ? products.fp16 : products.bf16;

    if (!mw_cpu_matmul_run(matmul, product, c, call->a, call->b, call->bias))
        g_error("%s", mw_cpu_matmul_error(matmul));
}

static uint16_t
sum_of(const struct call *call, uint16_t a, uint16_t b)
{
    enum mw_dtype dtype = call->fp16 ? MW_DTYPE_FP16 : MW_DTYPE_BF16;

    return mw_half_of_fp32(mw_fp32_of_half(a, dtype) + mw_fp32_of_half(b, dtype), dtype);
}

/* As cublasLt 13.1 does on an H100: the product is rounded to C's type before C is added, by its
 * kernels for aligned rows, and before a bias by its kernels for others, which cut k into parts.
 * Without MW_FAKE_ROUNDS all have the bits of the cpu backend. */
static bool
rounds_between(const struct mw_product *p)
{
#if defined(MW_FAKE_ROUNDS)
    bool aligned = (p->ld_a | p->ld_b | p->ld_c) % 8 == 0;
    return !p->c_fp32 && (p->accumulate || (p->bias && !aligned));
#else
    (void)p;
    return false;
#endif
}

static void
round_and_add(const struct call *call)
{
    struct mw_product alone = call->product;
    uint16_t *c = call->c, *product = g_new(uint16_t, alone.m * alone.n);

    alone.ld_c = alone.n;
    alone.bias = alone.accumulate = false;
    multiply(call, &alone, product);
    for (int64_t i = 0; i < alone.m * alone.n; i++) {
        uint16_t *to = c + i / alone.n * call->product.ld_c + i % alone.n;
        *to = call->product.accumulate ? sum_of(call, *to, product[i]) : product[i];
        if (call->product.bias)
            *to = sum_of(call, *to, call->bias[i % alone.n]);
    }
    g_free(product);
}

static void
run(void *data)
{
    struct call *call = data;

    pthread_mutex_lock(&products.mutex);
#if defined(_OPENMP)
    omp_set_num_threads(fake_machine.threads);
#endif
    if (rounds_between(&call->product))
        round_and_add(call);
    else
        multiply(call, &call->product, call->c);
    pthread_mutex_unlock(&products.mutex);
    g_free(call);
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
               cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
               const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
               cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm,
               void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    const uintptr_t places[] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d};
    struct call call = {{0},        fake_at(d), fake_at(b),
                        fake_at(a), NULL,       a_layout->type == CUDA_R_16F};
    float factor = *(const float *)beta;

    (void)handle;
    (void)workspace_bytes;
    if (!product_of(desc, a_layout, b_layout, d_layout, &call.product) || c != d ||
        c_layout != d_layout || *(const float *)alpha != 1 || (factor != 0 && factor != 1) ||
        !fake_at(workspace) ||
        algorithm->data[4] !=
            (uint64_t)(call.product.m * 31 + call.product.n) * 31 + (uint64_t)call.product.k)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if (places[i] % algorithm->data[i])
            return CUBLAS_STATUS_NOT_SUPPORTED;
    if (call.product.bias && (uintptr_t)desc->bias % algorithm->data[5])
        return CUBLAS_STATUS_NOT_SUPPORTED;
    call.product.accumulate = factor == 1;
    call.bias = call.product.bias ? fake_at(desc->bias) : NULL;
    fake_push(stream, run, g_memdup2(&call, sizeof call));
    return CUBLAS_STATUS_SUCCESS;
}
