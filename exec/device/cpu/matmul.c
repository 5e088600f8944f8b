/* Matrix products by oneDNN: descriptors from shapes and strides, primitives kept by shape. */
#include "exec/device/cpu/matmul_internal.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

enum operand {
    OPERAND_A,
    OPERAND_B,
    OPERAND_C,
    OPERAND_BIAS,
    OPERAND_SCRATCH,
    OPERANDS,
};

static const int operand_args[OPERANDS] = {
    DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS, DNNL_ARG_SCRATCHPAD,
};

struct entry {
    struct mw_product product;
    int threads;
    int64_t blocks; /* more than 1: computed so, by their own primitives; this has none */
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[OPERANDS]; /* bias: NULL where there is none */
    struct entry *next;
};

struct mw_cpu_matmul {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct entry *entries; /* the last one used first */
    void *scratch;
    int64_t scratch_bytes;
    enum mw_dtype dtype;
    bool by_library;
    char error[160];
};

static int
team_size(void)
{
#if defined(_OPENMP)
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static bool
fail(struct mw_cpu_matmul *matmul, const struct mw_product *p, const char *what)
{
    snprintf(matmul->error, sizeof matmul->error, "product of [%lld, %lld] and [%lld, %lld]: %s",
             (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n, what);
    return false;
}

static dnnl_status_t
describe(dnnl_memory_desc_t *desc, dnnl_data_type_t type, int64_t rows, int64_t columns, int64_t ld,
         bool transposed)
{
    int64_t distance = ld != 0 ? ld : transposed ? rows : columns;
    dnnl_dims_t dims = {rows, columns};
    dnnl_dims_t strides = {transposed ? 1 : distance, transposed ? distance : 1};
    return dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides);
}

static dnnl_status_t
describe_product(dnnl_matmul_desc_t *desc, enum mw_dtype dtype, const struct mw_product *p)
{
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_data_type_t element = dtype == MW_DTYPE_FP32   ? dnnl_f32
                               : dtype == MW_DTYPE_FP16 ? dnnl_f16
                                                        : dnnl_bf16;
    if (describe(&a, element, p->m, p->k, p->ld_a, p->a_transposed) != dnnl_success ||
        describe(&b, element, p->k, p->n, p->ld_b, p->b_transposed) != dnnl_success ||
        describe(&c, p->c_fp32 ? dnnl_f32 : element, p->m, p->n, p->ld_c, false) != dnnl_success ||
        describe(&bias, element, 1, p->n, p->n, false) != dnnl_success)
        return dnnl_invalid_arguments;
    return dnnl_matmul_desc_init(desc, &a, &b, p->bias ? &bias : NULL, &c);
}

static dnnl_status_t
describe_sum(dnnl_primitive_attr_t attr, bool accumulate)
{
    dnnl_post_ops_t ops;
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || !accumulate)
        return status;
    status = dnnl_post_ops_create(&ops);
    if (status != dnnl_success)
        return status;
    status = dnnl_post_ops_append_sum(ops, 1.0f);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t
create_description(struct mw_cpu_matmul *matmul, const struct mw_product *product,
                   dnnl_primitive_desc_t *pd)
{
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr;
    dnnl_status_t status = describe_product(&desc, matmul->dtype, product);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_create(&attr);
    if (status != dnnl_success)
        return status;
    status = describe_sum(attr, product->accumulate);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(pd, &desc, attr, matmul->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

static void
destroy_entry(struct entry *entry)
{
    for (int i = 0; i < OPERANDS; i++)
        dnnl_memory_destroy(entry->memory[i]);
    dnnl_primitive_destroy(entry->primitive);
    free(entry);
}

static bool
reserve(struct mw_cpu_matmul *matmul, int64_t bytes)
{
    if (bytes <= matmul->scratch_bytes)
        return true;
    size_t rounded = ((size_t)bytes + 63) / 64 * 64;
    void *scratch = aligned_alloc(64, rounded);
    if (scratch == NULL)
        return false;
    free(matmul->scratch);
    matmul->scratch = scratch;
    matmul->scratch_bytes = (int64_t)rounded;
    return true;
}

static dnnl_status_t
create_memory(struct mw_cpu_matmul *matmul, struct entry *entry, dnnl_primitive_desc_t pd)
{
    static const dnnl_query_t query[OPERANDS] = {
        dnnl_query_src_md,     dnnl_query_weights_md,    dnnl_query_dst_md,
        dnnl_query_weights_md, dnnl_query_scratchpad_md,
    };
    for (int i = 0; i < OPERANDS; i++) {
        if (i == OPERAND_BIAS && !entry->product.bias)
            continue;
        const dnnl_memory_desc_t *desc =
            dnnl_primitive_desc_query_md(pd, query[i], i == OPERAND_BIAS ? 1 : 0);
        dnnl_status_t status =
            dnnl_memory_create(&entry->memory[i], desc, matmul->engine, DNNL_MEMORY_NONE);
        if (status != dnnl_success)
            return status;
        if (i == OPERAND_SCRATCH && !reserve(matmul, (int64_t)dnnl_memory_desc_get_size(desc)))
            return dnnl_out_of_memory;
    }
    return dnnl_success;
}

/* The number of blocks, computed one after the other, that keeps the scratch small while each block
 * has at least MW_CPU_MATMUL_BLOCK rows or columns. */
static int64_t
count_blocks(const struct mw_product *product, dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *desc = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    int64_t bytes = (int64_t)dnnl_memory_desc_get_size(desc);
    int64_t longer = product->m > product->n ? product->m : product->n;
    int64_t wanted = (bytes + MW_CPU_MATMUL_SCRATCH_MAX - 1) / MW_CPU_MATMUL_SCRATCH_MAX;
    int64_t most = (longer + MW_CPU_MATMUL_BLOCK - 1) / MW_CPU_MATMUL_BLOCK;

    return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

/* Takes ownership of pd. */
static struct entry *
create_entry(struct mw_cpu_matmul *matmul, const struct mw_product *product,
             dnnl_primitive_desc_t pd)
{
    struct entry *entry = calloc(1, sizeof *entry);
    dnnl_status_t status = entry != NULL ? dnnl_success : dnnl_out_of_memory;
    if (status == dnnl_success) {
        entry->product = *product;
        entry->threads = team_size();
        entry->blocks = count_blocks(product, pd);
        if (entry->blocks == 1)
            status = dnnl_primitive_create(&entry->primitive, pd);
    }
    if (status == dnnl_success && entry->blocks == 1)
        status = create_memory(matmul, entry, pd);
    dnnl_primitive_desc_destroy(pd);
    if (status == dnnl_success)
        return entry;
    if (entry != NULL)
        destroy_entry(entry);
    return NULL;
}

/* The entry, moved to the front; or NULL. */
static struct entry *
find(struct mw_cpu_matmul *matmul, const struct mw_product *product)
{
    int threads = team_size();
    for (struct entry **at = &matmul->entries; *at != NULL; at = &(*at)->next) {
        struct entry *entry = *at;
        if (entry->threads != threads || !mw_product_same(&entry->product, product))
            continue;
        *at = entry->next;
        entry->next = matmul->entries;
        matmul->entries = entry;
        return entry;
    }
    return NULL;
}

static struct entry *
find_or_create(struct mw_cpu_matmul *matmul, const struct mw_product *product)
{
    struct entry *entry = find(matmul, product);
    if (entry != NULL)
        return entry;
    dnnl_primitive_desc_t pd;
    if (create_description(matmul, product, &pd) != dnnl_success) {
        fail(matmul, product, "oneDNN has no such product");
        return NULL;
    }
    entry = create_entry(matmul, product, pd);
    if (entry == NULL) {
        fail(matmul, product, "oneDNN could not make its primitive");
        return NULL;
    }
    entry->next = matmul->entries;
    matmul->entries = entry;
    return entry;
}

/* Whether the library multiplies this type here: bf16 with AVX-512, fp16 with instructions of its
 * own. */
static bool
multiplies(struct mw_cpu_matmul *matmul)
{
    const struct mw_product product = {.m = 16, .n = 16, .k = 16};
    dnnl_primitive_desc_t pd;
    if (create_description(matmul, &product, &pd) != dnnl_success)
        return false;
    dnnl_primitive_desc_destroy(pd);
    return true;
}

/* Which of the two multiplies is a rule and never a timing, since their bits differ.  With AVX-512
 * alone the library would emulate bf16, at half the speed of our own products
 * (docs/PERFORMANCE.md). */
static bool
emulates(enum mw_dtype dtype)
{
#if defined(__x86_64__)
    return dtype == MW_DTYPE_BF16 && mw_cpu_isa_used(NULL) < MW_CPU_ISA_AVX512_BF16;
#else
    (void)dtype;
    return false;
#endif
}

int64_t
mw_cpu_matmul_element_bytes(const struct mw_cpu_matmul *matmul)
{
    return mw_dtype_element_bytes((int)matmul->dtype);
}

struct mw_cpu_matmul *
mw_cpu_matmul_create(enum mw_dtype dtype)
{
    struct mw_cpu_matmul *matmul = calloc(1, sizeof *matmul);
    if (matmul == NULL)
        return NULL;
    mw_cpu_isa_used(NULL); /* limits the library to that set, before its first use */
    if (dnnl_engine_create(&matmul->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&matmul->stream, matmul->engine, dnnl_stream_default_flags) !=
            dnnl_success) {
        mw_cpu_matmul_destroy(matmul);
        return NULL;
    }
    matmul->dtype = dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : dtype;
    matmul->by_library = !emulates(dtype) && multiplies(matmul);
    return matmul;
}

void
mw_cpu_matmul_destroy(struct mw_cpu_matmul *matmul)
{
    if (matmul == NULL)
        return;
    while (matmul->entries != NULL) {
        struct entry *entry = matmul->entries;
        matmul->entries = entry->next;
        destroy_entry(entry);
    }
    dnnl_stream_destroy(matmul->stream);
    dnnl_engine_destroy(matmul->engine);
    free(matmul->scratch);
    free(matmul);
}

static bool
reserve_gemm(struct mw_cpu_matmul *matmul, const struct mw_product *product)
{
    int64_t bytes = mw_cpu_kernels(matmul->dtype)->gemm_scratch_bytes(product, team_size());
    return reserve(matmul, bytes) || fail(matmul, product, "no memory for its scratch");
}

static bool
execute(struct mw_cpu_matmul *matmul, const struct entry *entry, void *const data[OPERANDS])
{
    dnnl_exec_arg_t args[OPERANDS];
    int n = 0;
    for (int i = 0; i < OPERANDS; i++) {
        if (entry->memory[i] == NULL)
            continue;
        if (dnnl_memory_set_data_handle(entry->memory[i], data[i]) != dnnl_success)
            return false;
        args[n++] = (dnnl_exec_arg_t){operand_args[i], entry->memory[i]};
    }
    return dnnl_primitive_execute(entry->primitive, matmul->stream, n, args) == dnnl_success &&
           dnnl_stream_wait(matmul->stream) == dnnl_success;
}

int64_t
mw_cpu_matmul_blocks(struct mw_cpu_matmul *matmul, const struct mw_product *product)
{
    if (!matmul->by_library)
        return reserve_gemm(matmul, product);
    const struct entry *entry = find_or_create(matmul, product);
    return entry != NULL ? entry->blocks : 0;
}

bool
mw_cpu_matmul_run_whole(struct mw_cpu_matmul *matmul, const struct mw_cpu_call *call)
{
    if (!matmul->by_library) {
        mw_cpu_kernels(matmul->dtype)
            ->gemm(&call->product, call->c, call->a, call->b, call->bias, matmul->scratch);
        return true;
    }
    /* The library's handles are not const; it only reads these. */
    void *const data[OPERANDS] = {(void *)(uintptr_t)call->a, (void *)(uintptr_t)call->b, call->c,
                                  (void *)(uintptr_t)call->bias, matmul->scratch};
    return execute(matmul, find(matmul, &call->product), data) ||
           fail(matmul, &call->product, "oneDNN could not compute it");
}

int64_t
mw_cpu_matmul_scratch_bytes(const struct mw_cpu_matmul *matmul)
{
    return matmul->scratch_bytes;
}

const char *
mw_cpu_matmul_error(const struct mw_cpu_matmul *matmul)
{
    return matmul->error;
}

bool
mw_cpu_matmul_by_library(const struct mw_cpu_matmul *matmul)
{
    return matmul->by_library;
}
