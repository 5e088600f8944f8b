/* Products by the library and by own code against plain sums in double. */
#include <math.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "exec/device/cpu/matmul.h"
#include "forced.h"
#include "kernel_helpers.h"
#include "product_case.h"

static void
run_gemm(const struct mw_cpu_kernels *k, struct mw_product_case *c)
{
    int threads = 1;
#if defined(_OPENMP)
    threads = omp_get_max_threads();
#endif
    gsize bytes = (gsize)k->gemm_scratch_bytes(&c->product, threads);
    void *scratch = g_aligned_alloc(1, bytes, 64);
    memset(scratch, 0xff, bytes);
    k->gemm(&c->product, c->c, c->a.bits, c->b.bits, c->bias.bits, scratch);
    g_aligned_free(scratch);
}

static void
test_gemm(gconstpointer data)
{
    for (int round = 0; round < 60; round++) {
        struct mw_product_case c;
        mw_product_case_init(&c, mw_random_size(150), mw_random_size(150), mw_random_size(100));
        run_gemm(data, &c);
        mw_product_case_check(&c, false);
        mw_product_case_clear(&c);
    }
    struct mw_product_case c;
    mw_product_case_init(&c, 5, 70, 1031);
    run_gemm(data, &c);
    mw_product_case_check(&c, false);
    mw_product_case_clear(&c);
}

static void
run_library(struct mw_cpu_matmul *matmul, struct mw_product_case *c)
{
    g_assert_true(mw_cpu_matmul_prepare(matmul, &c->product));
    int64_t bytes = mw_cpu_matmul_scratch_bytes(matmul);
    g_assert_true(mw_cpu_matmul_run(matmul, &c->product, c->c, c->a.bits, c->b.bits, c->bias.bits));
    g_assert_cmpint(mw_cpu_matmul_scratch_bytes(matmul), ==, bytes);
}

static void
test_library(void)
{
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create(MW_DTYPE_BF16);
    g_assert_nonnull(matmul);
    for (int round = 0; round < 60; round++) {
        struct mw_product_case c;
        mw_product_case_init(&c, mw_random_size(100), mw_random_size(100), mw_random_size(100));
        run_library(matmul, &c);
        mw_product_case_check(&c, false);
        mw_product_case_clear(&c);
    }
    mw_cpu_matmul_destroy(matmul);
}

/* So large that, for two threads, the library's sums of the whole result are more than the scratch
 * may be: blocks of columns, and of rows. */
static void
test_blocks(void)
{
    static const struct mw_product products[] = {
        {.m = 50, .n = 90001, .k = 2, .ld_c = 90003, .b_transposed = true, .bias = true},
        {.m = 50, .n = 90001, .k = 2, .ld_a = 5, .ld_b = 90002, .ld_c = 90005},
        {.m = 90001, .n = 50, .k = 2, .ld_a = 90004, .a_transposed = true, .bias = true},
        {.m = 90001, .n = 50, .k = 2, .ld_a = 5, .ld_c = 51, .accumulate = true},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(products); i++) {
        struct mw_cpu_matmul *matmul = mw_cpu_matmul_create(MW_DTYPE_BF16);
        struct mw_product_case c;
        mw_product_case_fill(&c, &products[i]);
        run_library(matmul, &c);
        mw_product_case_check(&c, false);
        g_assert_cmpint(mw_cpu_matmul_scratch_bytes(matmul), <=, MW_CPU_MATMUL_SCRATCH_MAX);
        mw_product_case_clear(&c);
        mw_cpu_matmul_destroy(matmul);
    }
}

/* The same shape again, after others and with other data: the kept primitive. */
static void
test_kept(void)
{
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create(MW_DTYPE_BF16);
    struct mw_product_case first, second;
    mw_product_case_init(&first, 33, 20, 47);
    mw_product_case_init(&second, 20, 33, 47);
    for (int round = 0; round < 3; round++) {
        run_library(matmul, &first);
        mw_product_case_check(&first, false);
        struct mw_product product = first.product;
        mw_product_case_clear(&first);
        mw_product_case_fill(&first, &product);
        if (round == 0)
            run_library(matmul, &second);
    }
    mw_product_case_check(&second, false);
    mw_product_case_clear(&first);
    mw_product_case_clear(&second);
    mw_cpu_matmul_destroy(matmul);
    mw_cpu_matmul_destroy(NULL);
}

static void
test_refused(void)
{
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create(MW_DTYPE_BF16);
    const struct mw_product product = {.m = -4, .n = 8, .k = 8};
    if (mw_cpu_matmul_by_library(matmul)) {
        g_assert_false(mw_cpu_matmul_prepare(matmul, &product));
        g_assert_cmpstr(mw_cpu_matmul_error(matmul), ==,
                        "product of [-4, 8] and [8, 8]: oneDNN has no such product");
    }
    mw_cpu_matmul_destroy(matmul);
}

/* bf16 is the library's where the processor has it, and a forced set holds the library too. */
static void
test_forced(void)
{
    bool forced;
    enum mw_cpu_isa used = mw_cpu_isa_used(&forced);
    struct mw_cpu_matmul *matmul = mw_cpu_matmul_create(MW_DTYPE_BF16);

    g_assert_true(mw_cpu_isa_runs(used));
    g_assert_true(mw_cpu_kernels_of(used, MW_DTYPE_BF16) == mw_cpu_kernels(MW_DTYPE_BF16));
    if (forced)
        g_assert_cmpint(mw_cpu_matmul_by_library(matmul), ==, used == MW_CPU_ISA_AVX512_BF16);
    mw_cpu_matmul_destroy(matmul);
}

int
main(int argc, char **argv)
{
    if (forced_elsewhere())
        return 0;
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("gemm", test_gemm);
    g_test_add_func("/matmul/library", test_library);
    g_test_add_func("/matmul/kept", test_kept);
    g_test_add_func("/matmul/blocks", test_blocks);
    g_test_add_func("/matmul/refused", test_refused);
    g_test_add_func("/matmul/forced", test_forced);
    return g_test_run();
}
