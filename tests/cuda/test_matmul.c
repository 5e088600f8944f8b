/* Products by cublasLt against plain sums in double, operands anywhere that their elements can lie;
 * and the same again, bit by bit. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

#include "exec/device/cuda/matmul.h"
#include "tests/cuda/device_memory.h"
#include "tests/cuda/mirrors.h"
#include "tests/product_case.h"

struct fixture {
    struct mw_cuda_gpu gpu;
    struct mw_cuda_matmul *matmul;
};

static void
set_up(struct fixture *f, gconstpointer data)
{
    GError *error = NULL;

    mw_test_dtype = (enum mw_dtype)GPOINTER_TO_INT(data);
    mw_cuda_gpu_pick(0, 1, &f->gpu, &error);
    g_assert_no_error(error);
    g_assert_cmpint(cudaSetDevice(0), ==, cudaSuccess);
    f->matmul = mw_cuda_matmul_create(&f->gpu, mw_test_dtype, &error);
    g_assert_no_error(error);
}

static void
tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    mw_cuda_matmul_destroy(f->matmul);
    mw_cuda_matmul_destroy(NULL);
}

static void
run(struct fixture *f, struct mw_product_case *c, struct mw_mirrors *mirrors)
{
    int64_t c_bytes = c->product.c_fp32 ? 4 : 2;
    const uint16_t *a = MW_IN_HALF(mirrors, c->a.bits, c->a.n);
    const uint16_t *b = MW_IN_HALF(mirrors, c->b.bits, c->b.n);
    const uint16_t *bias = MW_IN_HALF(mirrors, c->bias.bits, c->bias.n);
    void *to = mw_mirror_out(mirrors, c->c, c_bytes * c->c_n, (int)c_bytes);
    GError *error = NULL;

    mw_cuda_matmul_prepare(f->matmul, &c->product, &error);
    g_assert_no_error(error);
    mw_cuda_matmul_run(f->matmul, cudaStreamPerThread, &c->product, to, a, b, bias, &error);
    g_assert_no_error(error);
    mw_mirrors_end(mirrors, 0);
}

static void
check(struct fixture *f, int64_t m, int64_t n, int64_t k)
{
    struct mw_product product;
    struct mw_product_case c;
    struct mw_mirrors mirrors;

    mw_product_case_shape(&product, m, n, k);
    product.bias &= !product.c_fp32; /* no operator has both */
    mw_product_case_fill(&c, &product);
    mw_mirrors_begin(&mirrors);
    run(f, &c, &mirrors);
    for (int64_t i = 0; k > 1024 && k % 8 && i < c.c_n; i++)
        c.rounded[i] += c.rounded[i] + fabs(c.expected[i]); /* before the second part of k, too */
    mw_product_case_check(&c, true);
    mw_product_case_clear(&c);
}

static void
test_random(struct fixture *f, gconstpointer data)
{
    (void)data;
    for (int round = 0; round < 60; round++)
        check(f, mw_random_size(150), mw_random_size(150), mw_random_size(100));
    check(f, 5, 70, 1031);
}

/* Long sizes that are no multiple of 8 are cut. */
static void
test_odd(struct fixture *f, gconstpointer data)
{
    (void)data;
    for (int round = 0; round < 12; round++) {
        int64_t odd = 1024 + mw_random_size(40), small = 8 * mw_random_size(4), other = 1025;
        check(f, odd, small, small);
        check(f, small, odd, small);
        check(f, small, small, odd);
        check(f, other, small, odd);
    }
}

/* Operands at other addresses, the kept choice. */
static void
test_again(struct fixture *f, gconstpointer data)
{
    (void)data;
    for (int round = 0; round < 20; round++) {
        struct mw_product product = {.m = 64, .n = 8 * mw_random_size(20), .k = 72};
        struct mw_product_case c;
        struct mw_mirrors mirrors;
        mw_product_case_fill(&c, &product);
        mw_mirrors_begin_aligned(&mirrors);
        run(f, &c, &mirrors);
        gsize bytes = 2 * (gsize)c.c_n;
        g_autofree void *first = g_memdup2(c.c, bytes);
        g_autofree void *between = g_malloc(1 << 20);
        mw_mirrors_begin_aligned(&mirrors);
        mw_mirror_in(&mirrors, between, 16 * mw_random_size(1000), 1);
        run(f, &c, &mirrors);
        g_assert_cmpmem(first, bytes, c.c, bytes);
        mw_product_case_clear(&c);
    }
}

static void
skip(struct fixture *f, gconstpointer data)
{
    (void)f;
    (void)data;
    g_test_skip(mw_test_device_missing());
}

static void
add_of(const char *path, const char *type, enum mw_dtype dtype,
       void (*test)(struct fixture *f, gconstpointer data))
{
    g_autofree char *name = g_strdup_printf("%s/%s", path, type);

    if (mw_test_device_missing())
        g_test_add(name, struct fixture, NULL, NULL, skip, NULL);
    else
        g_test_add(name, struct fixture, GINT_TO_POINTER(dtype), set_up, test, tear_down);
}

static void
add(const char *path, void (*test)(struct fixture *f, gconstpointer data))
{
    add_of(path, "bf16", MW_DTYPE_BF16, test);
    add_of(path, "fp16", MW_DTYPE_FP16, test);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add("/cuda-matmul/random", test_random);
    add("/cuda-matmul/odd", test_odd);
    add("/cuda-matmul/again", test_again);
    return g_test_run();
}
