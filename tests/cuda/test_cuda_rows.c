/* Kernels of exec/device/cuda that take rows, beyond what the cpu backend's tests ask for: rows
 * longer than a block takes at once, vocabularies of models, in place, empty. */
#include <math.h>
#include <string.h>

#include "tests/cuda/kernel_table.h"
#include "tests/kernel_helpers.h"
#include "tests/kernel_reference.h"
#include "tests/norm_case.h"

/* Of one result rounded to 16 bits after sums in fp32 over the row. */
#define RELATIVE (MW_HALF_ROUNDING * 1.01)

/* --- norms ----------------------------------------------------------------------------------- */

/* The residual path's gradient is where dx goes, as in the operators. */
static void
check_norm_backward(const struct mw_cpu_kernels *k, const struct norm_case *c)
{
    struct mw_tensor dx = mw_tensor_poisoned(c->x.n);
    g_autofree double *dweight = g_new(double, c->columns), *dbias = g_new(double, c->columns);
    uint16_t *to = c->add.bits;

    norm_case_reference(c, dx.value, dweight, dbias);
    for (int64_t i = 0; i < dx.n; i++)
        dx.value[i] += c->add.value[i];
    norm_case_backward(k, c, to, to, c->dy.bits);
    mw_expect_half("dx", to, dx.value, dx.n, RELATIVE, 1e-4);
    mw_tensor_clear(&dx);
}

static void
check_norm(const struct mw_cpu_kernels *k, int64_t rows, int64_t columns, bool centred)
{
    struct norm_case c;

    norm_case_init(&c, rows, columns, centred);
    norm_case_forward(k, &c);
    check_norm_backward(k, &c);
    norm_case_clear(&c);
}

static void
test_norms(gconstpointer data)
{
    const int64_t columns[] = {32, 256, 768, 1600, 4096, 4097, 5120, 8200, 16384};

    for (size_t i = 0; i < G_N_ELEMENTS(columns); i++) {
        check_norm(data, mw_random_size(4), columns[i], false);
        check_norm(data, mw_random_size(4), columns[i], true);
    }
}

/* --- loss ------------------------------------------------------------------------------------ */

struct loss_case {
    int64_t rows, vocab, ld;
    bool fp32;
    double *dense; /* [rows, vocab] */
    void *logits;  /* [rows, ld]; what follows the vocabulary is NaN */
    int32_t *targets;
};

/* The first `masked` ones, and others now and then; the last one never. */
static double
random_logit(int64_t i, int64_t masked, int64_t vocab)
{
    bool is_masked = i < masked || g_test_rand_int_range(0, 50) == 0;

    return is_masked && i < vocab - 1 ? -INFINITY : g_test_rand_double_range(-20.0, 20.0);
}

static uint16_t
random_half(const struct loss_case *c, int64_t i, int64_t masked)
{
    return i < c->vocab ? mw_half_nearest((float)random_logit(i, masked, c->vocab)) : 0x7fc1;
}

static void
loss_case_init(struct loss_case *c, int64_t rows, int64_t vocab, int64_t ld, bool fp32)
{
    float *full = g_new(float, rows *ld);
    uint16_t *half = g_new(uint16_t, rows * ld);
    int64_t masked = g_test_rand_int_range(0, (gint32)MIN(40, vocab));

    *c = (struct loss_case){.rows = rows, .vocab = vocab, .ld = ld, .fp32 = fp32};
    c->dense = g_new(double, rows *vocab);
    c->targets = g_new(int32_t, rows);
    for (int64_t i = 0; i < rows * ld; i++) {
        half[i] = random_half(c, i % ld, masked);
        full[i] = mw_half_value(half[i]);
        if (i % ld < vocab)
            c->dense[i / ld * vocab + i % ld] = (double)full[i];
    }
    for (int64_t r = 0; r < rows; r++) {
        c->targets[r] = g_test_rand_int_range(-1, (gint32)vocab);
        while (c->targets[r] >= 0 && isinf(c->dense[r * vocab + c->targets[r]]))
            c->targets[r] = g_test_rand_int_range(0, (gint32)vocab);
    }
    c->logits = fp32 ? (void *)full : (void *)half;
    g_free(fp32 ? (void *)half : (void *)full);
}

static void
loss_case_clear(struct loss_case *c)
{
    g_free(c->dense);
    g_free(c->logits);
    g_free(c->targets);
}

/* Adds the loss to what is there. */
static double
loss_of(const struct mw_cpu_kernels *k, const struct loss_case *c, uint16_t *dlogits,
        int64_t ld_dlogits, double *row_loss, double before)
{
    double loss = before;

    k->cross_entropy(&loss, row_loss, dlogits, ld_dlogits, c->logits, c->fp32, c->ld, c->targets,
                     c->rows, c->vocab, 0.25f);
    return loss;
}

static void
expect_gradient(const struct loss_case *c, const uint16_t *d, int64_t ld, const double *expected)
{
    for (int64_t r = 0; r < c->rows; r++) {
        mw_expect_half("dlogits", d + r * ld, expected + r * c->vocab, c->vocab, RELATIVE, 1e-7);
        for (int64_t i = c->vocab; i < ld; i++)
            g_assert_cmphex(d[r * ld + i], ==, 0);
    }
}

/* To other memory first, then over the logits themselves: the same bits. */
static void
check_loss(const struct mw_cpu_kernels *k, int64_t rows, int64_t vocab, int64_t ld, bool fp32)
{
    struct loss_case c;
    loss_case_init(&c, rows, vocab, ld, fp32);
    int64_t ld_apart = g_test_rand_bit() ? (vocab + 15) / 8 * 8 : vocab + mw_random_size(30);
    int64_t ld_over = fp32 ? 2 * ld : ld;
    g_autofree uint16_t *apart = g_new0(uint16_t, rows * ld_apart);
    g_autofree double *expected = g_new(double, rows *vocab), *row_loss = g_new(double, rows);
    double loss = mw_ref_cross_entropy(expected, c.dense, c.targets, rows, vocab, 0.25);

    double got = loss_of(k, &c, apart, ld_apart, row_loss, 3.0);
    g_assert_cmpfloat_with_epsilon(got, 3.0 + loss, 1e-5 * (1.0 + loss));
    expect_gradient(&c, apart, ld_apart, expected);
    g_assert_cmpfloat(loss_of(k, &c, c.logits, ld_over, row_loss, 3.0), ==, got);
    expect_gradient(&c, c.logits, ld_over, expected);
    for (int64_t r = 0; r < rows; r++)
        g_assert_cmpmem(apart + r * ld_apart, (gsize)vocab * 2, (uint16_t *)c.logits + r * ld_over,
                        (gsize)vocab * 2);
    loss_case_clear(&c);
}

/* GPT-2's, in rows of whole cache lines and not; Llama 3's; and a larger one. */
static void
test_vocabularies(gconstpointer data)
{
    check_loss(data, 3, 50257, 50304, false);
    check_loss(data, 2, 50257, 50257, false);
    check_loss(data, 2, 50257, 50304, true);
    check_loss(data, 2, 128256, 128256, true);
    check_loss(data, 2, 256000, 256000, false);
    check_loss(data, 2, 100, 256, true);
    for (int round = 0; round < 20; round++)
        check_loss(data, mw_random_size(6), mw_random_size(9000), 9000, round % 2 == 0);
}

/* --- nothing --------------------------------------------------------------------------------- */

/* No rows: nothing is read or written, nothing goes wrong. */
static void
test_nothing(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    struct mw_gradient dweight = {g_new0(float, 8), true, true};
    uint16_t x[8] = {0};
    double loss = 0.0;

    k->cross_entropy(&loss, NULL, x, 8, x, false, 8, NULL, 0, 8, 1.0f);
    g_assert_cmpfloat(loss, ==, 0.0);
    k->add(x, x, x, 0);
    k->layernorm_forward(x, NULL, NULL, x, x, x, 0, 8, 1e-5f);
    k->rmsnorm_backward(x, NULL, x, x, x, NULL, 0, 8);
    k->norm_weight_gradient(dweight, x, x, NULL, NULL, 0, 8, NULL);
    k->embedding_forward(x, x, NULL, 0, 8, 0, 1);
    k->embedding_backward(dweight, x, NULL, 0, 8, 0, 1, NULL);
    k->square_sums(NULL, x, false, 0);
    for (int i = 0; i < 8; i++)
        g_assert_cmpfloat(((float *)dweight.data)[i], ==, 0.0f);
    g_free(dweight.data);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("rows/norms", test_norms);
    mw_add_kernel_test("rows/vocabularies", test_vocabularies);
    mw_add_kernel_test("rows/nothing", test_nothing);
    return g_test_run();
}
