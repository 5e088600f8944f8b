/* Attention of the CUDA backend against plain loops in double. */
#include <math.h>
#include <string.h>

#include "tests/attention_case.h"
#include "tests/cases.h"
#include "tests/cuda/kernel_table.h"

static struct mw_ref_attention
random_shape(int64_t seq, int64_t head_dim, int64_t kv_heads, int64_t group)
{
    return (struct mw_ref_attention){mw_random_size(2), seq,      kv_heads * group,
                                     kv_heads,          head_dim, 1.0 / sqrt((double)head_dim)};
}

/* Of shapes in fp16, whose kernels are those of bf16 but for conversions, every third; so where few
 * do. */
#define STRIDE (mw_test_dtype == MW_DTYPE_FP16 || MW_FEW_CASES ? 3 : 1)

static void
forward(struct mw_attention_case *c)
{
    const uint16_t *q = c->fused;

    mw_test_cuda_kernels()->attention_forward(&c->shape, c->o.bits, c->lse, q,
                                              q + mw_attention_case_k(c),
                                              q + mw_attention_case_v(c), NULL);
}

static void
backward(struct mw_attention_case *c)
{
    int64_t k = mw_attention_case_k(c), v = mw_attention_case_v(c);
    const uint16_t *q = c->fused;
    uint16_t *dq = c->fused_gradient;

    mw_test_cuda_kernels()->attention_backward(&c->shape, dq, dq + k, dq + v, c->d_o.bits,
                                               c->o.bits, c->lse, q, q + k, q + v, NULL);
}

static void
check(const struct mw_ref_attention *plain, int64_t gap)
{
    struct mw_attention_case c;
    mw_attention_case_init(&c, plain, gap);
    forward(&c);
    mw_attention_case_check_forward(&c);
    backward(&c);
    mw_attention_case_check_backward(&c);
    mw_attention_case_clear(&c);
}

/* Widths that kernels are compiled for, and others; rows on 16-byte boundaries. */
static void
test_widths(gconstpointer data)
{
    const int64_t widths[] = {64, 80, 96, 128, 256, 8, 40, 72, 104, 160};
    for (gsize i = 0; i < G_N_ELEMENTS(widths); i++) {
        struct mw_ref_attention plain = random_shape(mw_random_size(150), widths[i], 1, 2);
        check(&plain, 8 * (int64_t)(i % 2));
    }
}

/* Lengths around those of tiles, in all kernels. */
static void
test_lengths(gconstpointer data)
{
    const int64_t lengths[] = {1, 2, 16, 31, 33, 63, 64, 65, 127, 128, 129, 193, 257};
    const int64_t widths[] = {64, 80, 96, 128, 256};
    for (gsize i = 0; i < G_N_ELEMENTS(lengths); i += STRIDE) {
        struct mw_ref_attention plain =
            random_shape(lengths[i], widths[i % G_N_ELEMENTS(widths)], 1, 1);
        check(&plain, 0);
    }
}

static void
test_groups(gconstpointer data)
{
    for (int64_t kv_heads = 1; kv_heads < 4; kv_heads += STRIDE) {
        for (int64_t group = 1; group < 4; group++) {
            struct mw_ref_attention plain =
                random_shape(mw_random_size(140), group == 2 ? 128 : 64, kv_heads, group);
            plain.batch = 2;
            check(&plain, 16);
        }
    }
}

/* Widths and leading dimensions that no access of 16 bytes fits. */
static void
test_unaligned(gconstpointer data)
{
    mw_test_aligned = false;
    for (int round = 0; round < 10; round += STRIDE) {
        int64_t dim = 2 * mw_random_size(round == 0 ? 128 : 60);
        struct mw_ref_attention plain =
            random_shape(mw_random_size(150), dim, 1 + round % 2, 1 + round % 3);
        check(&plain, mw_random_size(5));
    }
    struct mw_ref_attention odd[] = {random_shape(100, 64, 1, 2), random_shape(70, 128, 2, 1),
                                     random_shape(70, 254, 1, 1)};
    for (gsize i = 0; i < G_N_ELEMENTS(odd); i++)
        check(&odd[i], 1);
    mw_test_aligned = true;
}

/* The emulator takes blocks, warps and lanes in another order each time: the bits are the same. */
static void
test_same_bits(gconstpointer data)
{
    struct mw_ref_attention plain = random_shape(170, 64, 2, 2);
    struct mw_attention_case c;
    mw_attention_case_init(&c, &plain, 0);
    gsize bytes = (gsize)(c.rows * c.ld) * sizeof *c.fused, o_bytes = (gsize)c.o.n * 2;
    forward(&c);
    backward(&c);
    g_autofree uint16_t *o = g_memdup2(c.o.bits, o_bytes);
    g_autofree uint16_t *gradient = g_memdup2(c.fused_gradient, bytes);
    for (int i = 0; i < 3; i++) {
        memset(c.o.bits, 0xff, o_bytes);
        memset(c.fused_gradient, 0xff, bytes);
        forward(&c);
        backward(&c);
        g_assert_cmpmem(o, o_bytes, c.o.bits, o_bytes);
        g_assert_cmpmem(gradient, bytes, c.fused_gradient, bytes);
    }
    mw_attention_case_clear(&c);
}

/* Whether any of row `row` of o is a NaN. */
static bool
has_nan(const struct mw_attention_case *c, int64_t row)
{
    int64_t columns = c->plain.heads * c->plain.head_dim;
    for (int64_t i = 0; i < columns; i++)
        if (isnan(mw_half_value(c->o.bits[row * columns + i])))
            return true;
    return false;
}

/* A NaN or an infinity of a query stays in its row; of a key it shows in those that see it. */
static void
test_not_finite(gconstpointer data)
{
    const uint16_t values[] = {mw_half_nearest(NAN), mw_half_nearest(INFINITY)};
    for (gsize i = 0; i < 4; i++) {
        struct mw_ref_attention plain = random_shape(90, 64, 1, 1);
        struct mw_attention_case c;
        bool key = i >= 2;
        mw_attention_case_init(&c, &plain, 0);
        for (int64_t column = 0; column < 64; column++)
            c.fused[40 * c.ld + (key ? mw_attention_case_k(&c) : 0) + column] = values[i % 2];
        forward(&c);
        for (int64_t row = 0; row < 90; row++) {
            if (key)
                g_assert_true(has_nan(&c, row) || row != 40);
            g_assert_true(key ? row >= 40 || !has_nan(&c, row) : has_nan(&c, row) == (row == 40));
        }
        backward(&c);
        g_assert_true(isnan(mw_half_value(c.fused_gradient[40 * c.ld])));
        mw_attention_case_clear(&c);
    }
}

/* Scores far beyond what exp reaches. */
static void
test_large_scores(gconstpointer data)
{
    struct mw_ref_attention plain = random_shape(130, 64, 1, 1);
    plain.scale = 30.0;
    struct mw_attention_case c;
    mw_attention_case_init(&c, &plain, 0);
    forward(&c);
    for (int64_t i = 0; i < c.o.n; i++)
        g_assert_true(fabs((double)mw_half_value(c.o.bits[i])) <= 2.01);
    for (int64_t i = 0; i < plain.heads * c.rows; i++)
        g_assert_true(isfinite(c.lse[i]));
    mw_attention_case_clear(&c);
}

static void
test_refused(gconstpointer data)
{
    const struct mw_attention good = {.batch = 1,
                                      .seq = 16,
                                      .heads = 2,
                                      .kv_heads = 1,
                                      .head_dim = 64,
                                      .ld_q = 256,
                                      .ld_k = 256,
                                      .ld_v = 256,
                                      .ld_o = 128,
                                      .scale = 0.125f};
    struct mw_attention bad[] = {good, good, good, good, good, good, good, good};
    bad[0].head_dim = 258;
    bad[1].kv_heads = 3;
    bad[2].seq = 0;
    bad[3].batch = 65536;
    bad[4].heads = 0;
    bad[5].seq = INT64_C(1) << 31;
    bad[6].scale = 0.0f;
    bad[7].ld_k = 63;
    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_cmpint(mw_test_cuda_launches()->attention_forward(NULL, &bad[i], NULL, NULL, NULL,
                                                                   NULL, NULL, NULL),
                        !=, 0);
        g_assert_cmpint(mw_test_cuda_launches()->attention_backward(NULL, &bad[i], NULL, NULL, NULL,
                                                                    NULL, NULL, NULL, NULL, NULL,
                                                                    NULL, NULL),
                        !=, 0);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_test_aligned = true;
    mw_add_kernel_test("attention/widths", test_widths);
    mw_add_kernel_test("attention/lengths", test_lengths);
    mw_add_kernel_test("attention/groups", test_groups);
    mw_add_kernel_test("attention/unaligned", test_unaligned);
    mw_add_kernel_test("attention/same-bits", test_same_bits);
    mw_add_kernel_test("attention/not-finite", test_not_finite);
    mw_add_kernel_test("attention/large-scores", test_large_scores);
    mw_add_kernel_test("attention/refused", test_refused);
    return g_test_run();
}
