/* The model's ends: embeddings, positions and the loss. */
#include <math.h>
#include <string.h>

#include "exec/operators/rope.h"
#include "kernel_helpers.h"
#include "kernel_reference.h"

struct table_case {
    int64_t rows, columns;
    int32_t vocab, first, count;
    int32_t *tokens;
    struct mw_tensor weight, dy;
};

static void
table_case_init(struct table_case *c)
{
    c->rows = mw_random_size(200);
    c->columns = mw_random_size(70);
    c->vocab = (int32_t)mw_random_size(40);
    c->first = g_test_rand_int_range(0, c->vocab);
    c->count = g_test_rand_int_range(1, c->vocab - c->first + 1);
    c->tokens = g_new(int32_t, c->rows);
    for (int64_t r = 0; r < c->rows; r++)
        c->tokens[r] = g_test_rand_int_range(0, c->vocab);
    c->weight = mw_tensor_random((int64_t)c->count * c->columns, 2.0);
    c->dy = mw_tensor_random(c->rows * c->columns, 2.0);
}

static void
table_case_clear(struct table_case *c)
{
    g_free(c->tokens);
    mw_tensor_clear(&c->weight);
    mw_tensor_clear(&c->dy);
}

static void
check_embedding_forward(const struct mw_cpu_kernels *k, const struct table_case *c)
{
    struct mw_tensor y = mw_tensor_poisoned(c->rows * c->columns);
    k->embedding_forward(y.bits, c->weight.bits, c->tokens, c->rows, c->columns, c->first,
                         c->count);
    for (int64_t i = 0; i < y.n; i++) {
        int64_t id = c->tokens[i / c->columns] - c->first;
        bool there = id >= 0 && id < c->count;
        g_assert_cmphex(y.bits[i], ==,
                        there ? c->weight.bits[id * c->columns + i % c->columns] : 0x7fc1);
    }
    mw_tensor_clear(&y);
}

/* Sums in fp32 in the tokens' order, bit for bit. */
static float *
plain_sums(const struct table_case *c)
{
    float *sums = g_new0(float, c->weight.n);
    for (int64_t i = 0; i < c->dy.n; i++) {
        int64_t id = c->tokens[i / c->columns] - c->first;
        if (id >= 0 && id < c->count)
            sums[id * c->columns + i % c->columns] += mw_half_value(c->dy.bits[i]);
    }
    return sums;
}

static void
check_embedding_backward(const struct mw_cpu_kernels *k, const struct table_case *c)
{
    g_autofree float *sums = plain_sums(c), *full = mw_floats_poisoned(c->weight.n);
    g_autofree uint64_t *order = g_new(uint64_t, c->rows);
    struct mw_gradient to_full = {full, true, false};
    struct mw_gradient to_half = {c->weight.bits, false, true};
    k->embedding_backward(to_full, c->dy.bits, c->tokens, c->rows, c->columns, c->first, c->count,
                          order);
    for (int64_t i = 0; i < c->weight.n; i++)
        g_assert_cmpfloat(full[i], ==, sums[i]);
    k->embedding_backward(to_half, c->dy.bits, c->tokens, c->rows, c->columns, c->first, c->count,
                          order);
    for (int64_t i = 0; i < c->weight.n; i++)
        g_assert_cmpfloat(mw_half_value(c->weight.bits[i]), ==,
                          mw_half_value(mw_half_nearest((float)c->weight.value[i] + sums[i])));
}

static void
test_embedding(gconstpointer data)
{
    for (int round = 0; round < 40; round++) {
        struct table_case c;
        table_case_init(&c);
        check_embedding_forward(data, &c);
        check_embedding_backward(data, &c);
        table_case_clear(&c);
    }
}

static void
test_positions(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    for (int round = 0; round < 30; round++) {
        int64_t batch = mw_random_size(4), seq = mw_random_size(30), columns = mw_random_size(60);
        int64_t positions = seq + mw_random_size(5), n = batch * seq * columns;
        struct mw_tensor weight = mw_tensor_random(positions * columns, 2.0);
        struct mw_tensor y = mw_tensor_random(n, 2.0), dy = mw_tensor_random(n, 2.0);
        g_autofree double *sums = g_new0(double, positions *columns);
        g_autofree float *full = mw_floats_poisoned(positions * columns);
        for (int64_t i = 0; i < n; i++) {
            y.value[i] += weight.value[i % (seq * columns)];
            sums[i % (seq * columns)] += dy.value[i];
        }
        k->position_forward(y.bits, weight.bits, batch, seq, columns);
        mw_expect_half("y", y.bits, y.value, n, MW_HALF_ROUNDING, 0.0);
        k->position_backward((struct mw_gradient){full, true, false}, dy.bits, batch, seq, columns,
                             positions);
        mw_expect_fp32("dweight", full, sums, positions * columns, 0.0, 1e-5);
        mw_tensor_clear(&weight);
        mw_tensor_clear(&y);
        mw_tensor_clear(&dy);
    }
}

static void
test_rope(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    for (int round = 0; round < 30; round++) {
        int64_t batch = mw_random_size(3), seq = mw_random_size(60), heads = mw_random_size(5);
        int64_t dim = 2 * mw_random_size(70), n = batch * seq * heads * dim;
        struct mw_tensor x = mw_tensor_random(n, 3.0);
        g_autofree double *before = g_memdup2(x.value, (gsize)n * sizeof *x.value);
        g_autofree float *table = mw_floats_poisoned(seq * dim);
        struct mw_decoder decoder = {.head_dim = dim, .rope_theta = 10000.0};
        mw_rope_table(&decoder, seq, table);
        k->rope(x.bits, table, batch, seq, heads, dim, heads * dim, false);
        mw_ref_rope(x.value, batch, seq, heads, dim, 10000.0, false);
        mw_expect_half("turned", x.bits, x.value, n, MW_HALF_ROUNDING, 1e-5);
        k->rope(x.bits, table, batch, seq, heads, dim, heads * dim, true);
        mw_expect_half("turned back", x.bits, before, n, 0.0, 3.0 * 4.0 * MW_HALF_ROUNDING);
        mw_tensor_clear(&x);
    }
}

struct loss_case {
    int64_t rows, vocab, ld;
    bool fp32;
    double *dense; /* [rows, vocab] */
    void *logits;  /* [rows, ld], as the kernel reads them */
    int32_t *targets;
};

static void
loss_case_init(struct loss_case *c)
{
    c->rows = mw_random_size(40);
    c->vocab = mw_random_size(5000);
    c->ld = c->vocab + (g_test_rand_bit() ? mw_random_size(40) : 0);
    c->fp32 = g_test_rand_bit();
    struct mw_tensor x = mw_tensor_random(c->rows * c->ld, 30.0);
    float *full = g_new(float, x.n);
    c->dense = g_new(double, c->rows * c->vocab);
    c->targets = g_new(int32_t, c->rows);
    for (int64_t i = 0; i < x.n; i++) {
        if (i % c->ld >= c->vocab)
            x.bits[i] = 0x7fc1;
        else
            c->dense[i / c->ld * c->vocab + i % c->ld] = x.value[i];
        full[i] = mw_half_value(x.bits[i]);
    }
    for (int64_t r = 0; r < c->rows; r++)
        c->targets[r] = g_test_rand_int_range(-1, (gint32)c->vocab);
    c->logits = c->fp32 ? (void *)full : (void *)g_steal_pointer(&x.bits);
    if (!c->fp32)
        g_free(full);
    mw_tensor_clear(&x);
}

static void
loss_case_clear(struct loss_case *c)
{
    g_free(c->dense);
    g_free(c->logits);
    g_free(c->targets);
}

/* Gradients over the logits themselves. */
static void
check_loss(const struct mw_cpu_kernels *k, struct loss_case *c)
{
    double scale = 0.25;
    g_autofree double *expected = g_new(double, c->rows * c->vocab);
    g_autofree double *row_loss = g_new(double, c->rows);
    double loss = mw_ref_cross_entropy(expected, c->dense, c->targets, c->rows, c->vocab, scale);
    double alone = 0.0, got = 0.0;
    k->cross_entropy(&alone, row_loss, NULL, 0, c->logits, c->fp32, c->ld, c->targets, c->rows,
                     c->vocab, (float)scale);
    int64_t ld = c->fp32 ? 2 * c->ld : c->ld;
    uint16_t *d = c->logits;
    k->cross_entropy(&got, row_loss, d, ld, c->logits, c->fp32, c->ld, c->targets, c->rows,
                     c->vocab, (float)scale);
    g_assert_cmpfloat(got, ==, alone);
    g_assert_cmpfloat_with_epsilon(got, loss, 1e-5 * (1.0 + loss));
    for (int64_t r = 0; r < c->rows; r++) {
        mw_expect_half("dlogits", d + r * ld, expected + r * c->vocab, c->vocab,
                       MW_HALF_ROUNDING * 1.01, 1e-7);
        for (int64_t i = c->vocab; i < ld; i++)
            g_assert_cmphex(d[r * ld + i], ==, 0);
    }
}

static void
test_loss(gconstpointer data)
{
    for (int round = 0; round < 30; round++) {
        struct loss_case c;
        loss_case_init(&c);
        check_loss(data, &c);
        loss_case_clear(&c);
    }
}

/* The loss and its gradient in slices of the vocabulary, the last of which may be empty, are those
 * of the whole but for the rounding of sums to fp32. */
static void
check_slices(const struct mw_cpu_kernels *k, const struct loss_case *c, int64_t slices)
{
    int64_t width = (c->vocab + slices - 1) / slices;
    g_autofree double *expected = g_new(double, c->rows * c->vocab);
    g_autofree double *row_loss = g_new(double, c->rows);
    g_autofree float *sums = g_new(float, slices * c->rows * 3);
    g_autofree uint16_t *parts = g_new0(uint16_t, slices * c->rows * width);
    double loss = mw_ref_cross_entropy(expected, c->dense, c->targets, c->rows, c->vocab, 0.25);
    double got = 0.0;

    for (int64_t s = 0; s < slices; s++) {
        uint16_t *part = parts + s * c->rows * width;
        int64_t first = s * width, vocab = CLAMP(c->vocab - first, 0, width);
        for (int64_t r = 0; r < c->rows; r++)
            for (int64_t i = 0; i < vocab; i++)
                part[r * width + i] = ((const uint16_t *)c->logits)[r * c->ld + first + i];
        k->slice_entropy_sums(sums + 3 * s * c->rows, part, width, c->targets, c->rows, vocab,
                              (int32_t)first);
    }
    for (int64_t s = 0; s < slices; s++) {
        uint16_t *part = parts + s * c->rows * width;
        int64_t first = s * width, vocab = CLAMP(c->vocab - first, 0, width);
        k->slice_entropy(s ? NULL : &got, row_loss, part, width, sums, slices, c->targets, c->rows,
                         vocab, (int32_t)first, 0.25f);
        for (int64_t r = 0; r < c->rows; r++) {
            mw_expect_half("slice", part + r * width, expected + r * c->vocab + first, vocab,
                           MW_HALF_ROUNDING * 1.01, 1e-6);
            for (int64_t i = vocab; i < width; i++)
                g_assert_cmphex(part[r * width + i], ==, 0);
        }
    }
    g_assert_cmpfloat_with_epsilon(got, loss, 1e-5 * (1.0 + loss));
}

static void
test_slices(gconstpointer data)
{
    for (int round = 0; round < 20; round++) {
        struct loss_case c;
        do {
            loss_case_init(&c);
            if (c.fp32)
                loss_case_clear(&c);
        } while (c.fp32);
        check_slices(data, &c, 2 + round % 4);
        loss_case_clear(&c);
    }
}

/* Logits that overflowed must not look like a finite loss. */
static void
test_loss_not_finite(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    uint16_t logits[50] = {0};
    const int32_t target = 3;
    double row_loss;
    for (int bad = 0; bad < 2; bad++) {
        logits[17] = bad == 0 ? 0x7fc0 : 0x7f80;
        double loss = 0.0;
        k->cross_entropy(&loss, &row_loss, NULL, 0, logits, false, 50, &target, 1, 50, 1.0f);
        g_assert_false(isfinite(loss));
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("embedding", test_embedding);
    mw_add_kernel_test("positions", test_positions);
    mw_add_kernel_test("rope", test_rope);
    mw_add_kernel_test("loss", test_loss);
    mw_add_kernel_test("slices", test_slices);
    mw_add_kernel_test("loss-not-finite", test_loss_not_finite);
    return g_test_run();
}
