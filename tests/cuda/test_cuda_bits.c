/* Kernels of exec/device/cuda that have the bits of the cpu backend's, except that any NaN will do:
 * random shapes, whole groups of 16 bytes in half of them, random operands. */
#include <math.h>
#include <string.h>

#include "exec/device/cuda/kernels.h"
#include "exec/operators/rope.h"
#include "tests/cuda/mirrors.h"
#include "tests/kernel_helpers.h"

#define ROUNDS 20

static int64_t
random_columns(int64_t max)
{
    int64_t n = mw_random_size(max);

    return g_test_rand_bit() ? (n + 7) / 8 * 8 : n;
}

/* From one row to the next. */
static int64_t
random_stride(int64_t columns)
{
    int64_t ld = columns + (g_test_rand_bit() ? mw_random_size(40) : 0);

    return g_test_rand_bit() ? (ld + 7) / 8 * 8 : ld;
}

/* Any bits: infinities, NaNs, subnormals. */
static void *
random_bits(int64_t bytes)
{
    guint32 *x = g_new(guint32, bytes / 4 + 1);

    for (int64_t i = 0; i <= bytes / 4; i++)
        x[i] = (guint32)g_test_rand_int();
    return x;
}

static void
expect_fp32(const char *what, const float *got, const float *expected, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &expected[i], sizeof got[i]) != 0 &&
            !(isnan(got[i]) && isnan(expected[i])))
            g_error("%s[%" G_GINT64_FORMAT "] is %.9g, not %.9g", what, i, (double)got[i],
                    (double)expected[i]);
}

static void
expect_half(const char *what, const uint16_t *got, const uint16_t *expected, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (got[i] != expected[i] &&
            !(isnan(mw_half_value(got[i])) && isnan(mw_half_value(expected[i]))))
            g_error("%s[%" G_GINT64_FORMAT "] is %04x, not %04x", what, i, got[i], expected[i]);
}

/* Two gradients alike, one for each backend. */
struct gradients {
    struct mw_gradient got, expected;
    int64_t n;
};

static struct gradients
gradients_random(int64_t n)
{
    bool fp32 = g_test_rand_bit(), accumulate = g_test_rand_bit();
    gsize bytes = (gsize)n * (fp32 ? 4 : 2);
    struct mw_tensor half = mw_tensor_random(n, 2.0);
    void *data = fp32 ? (void *)mw_floats_random(n, 2.0) : g_memdup2(half.bits, bytes);
    struct gradients g = {{data, fp32, accumulate}, {g_memdup2(data, bytes), fp32, accumulate}, n};

    mw_tensor_clear(&half);
    return g;
}

static void
expect_gradients(const char *what, struct gradients *g)
{
    if (g->got.fp32)
        expect_fp32(what, g->got.data, g->expected.data, g->n);
    else
        expect_half(what, g->got.data, g->expected.data, g->n);
    g_free(g->got.data);
    g_free(g->expected.data);
}

/* --- elementwise ----------------------------------------------------------------------------- */

static void
test_conversions(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data, *cpu = mw_cpu_kernels(mw_test_dtype);

    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = random_columns(20000);
        g_autofree float *x = random_bits(4 * n), *wide = mw_floats_poisoned(n);
        g_autofree float *expected = mw_floats_poisoned(n);
        g_autofree uint16_t *half = g_new0(uint16_t, n), *expected_half = g_new0(uint16_t, n);
        k->narrow(half, x, n);
        cpu->narrow(expected_half, x, n);
        expect_half("narrow", half, expected_half, n);
        k->widen(wide, half, n);
        cpu->widen(expected, half, n);
        expect_fp32("widen", wide, expected, n);
    }
}

static void
test_mxfp8(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data, *cpu = mw_cpu_kernels(mw_test_dtype);

    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = random_columns(20000), bytes = mw_dtype_bytes(MW_DTYPE_MXFP8, n);
        g_autofree uint16_t *x = random_bits(2 * n);
        g_autofree uint16_t *back = g_new0(uint16_t, n), *expected_back = g_new0(uint16_t, n);
        g_autofree uint8_t *coded = g_malloc0((gsize)bytes), *expected = g_malloc0((gsize)bytes);
        for (int64_t i = 0; round % 2 && i < n; i++)
            x[i] &= 0xbfff; /* numbers alone: few blocks have no NaN else */
        k->narrow_mxfp8(coded, x, n);
        cpu->narrow_mxfp8(expected, x, n);
        g_assert_cmpmem(coded, (gsize)bytes, expected, (gsize)bytes);
        k->widen_blocks(back, coded, MW_DTYPE_MXFP8, n);
        cpu->widen_blocks(expected_back, coded, MW_DTYPE_MXFP8, n);
        expect_half("mxfp8", back, expected_back, n);
    }
}

static void
test_blocks(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data, *cpu = mw_cpu_kernels(mw_test_dtype);

    for (int round = 0; round < ROUNDS; round++) {
        int dtype = MW_DTYPE_MXFP8 + round % 3;
        int64_t n = random_columns(20000);
        g_autofree void *blocks = random_bits(mw_dtype_bytes(dtype, n));
        g_autofree uint16_t *half = g_new0(uint16_t, n), *expected = g_new0(uint16_t, n);
        k->widen_blocks(half, blocks, dtype, n);
        cpu->widen_blocks(expected, blocks, dtype, n);
        expect_half(mw_dtype_row(dtype)->name, half, expected, n);
    }
}

/* Moments of any size, some block's first few; NaN and infinity in a third of the rounds. */
static void
test_dynamic8(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data, *cpu = mw_cpu_kernels(mw_test_dtype);

    for (int round = 0; round < ROUNDS; round++) {
        const struct mw_dynamic8 *of = mw_dynamic8_of(round % 2);
        int64_t n = random_columns(9000), bytes = mw_dtype_bytes(MW_DTYPE_DYNAMIC8, n);
        int64_t first = g_test_rand_int_range(0, (int)n);
        g_autofree float *x = mw_floats_random(n, 1), *back = mw_floats_poisoned(n);
        g_autofree float *expected_back = mw_floats_poisoned(n);
        g_autofree uint8_t *blocks = g_malloc0((gsize)bytes), *expected = g_malloc0((gsize)bytes);
        for (int64_t i = 0; i < n; i++)
            x[i] *= powf(10, -(float)mw_random_size(round % 5 == 4 ? 45 : 10));
        if (round % 3 == 2)
            x[g_test_rand_int_range(0, (int)n)] = g_test_rand_bit() ? NAN : -INFINITY;
        k->narrow_dynamic8(blocks, x, of, n);
        cpu->narrow_dynamic8(expected, x, of, n);
        g_assert_cmpmem(blocks, (gsize)bytes, expected, (gsize)bytes);
        k->widen_dynamic8(back, blocks, of, first, n - first);
        cpu->widen_dynamic8(expected_back, blocks, of, first, n - first);
        expect_fp32("dynamic8", back, expected_back, n - first);
    }
}

static void
test_sums(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data, *cpu = mw_cpu_kernels(mw_test_dtype);

    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = random_columns(20000);
        g_autofree float *sum = random_bits(4 * n), *expected = g_memdup2(sum, (gsize)n * 4);
        g_autofree uint16_t *a = random_bits(2 * n), *b = random_bits(2 * n);
        g_autofree uint16_t *added = g_new0(uint16_t, n);
        k->accumulate(sum, a, n);
        cpu->accumulate(expected, a, n);
        expect_fp32("accumulate", sum, expected, n);
        cpu->add(added, a, b, n);
        k->add(b, a, b, n);
        expect_half("add", b, added, n);
        cpu->scale(added, 0.3f, n);
        k->scale(b, 0.3f, n);
        expect_half("scale", b, added, n);
    }
}

static void
test_relu(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data, *cpu = mw_cpu_kernels(mw_test_dtype);

    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = random_columns(20000);
        g_autofree uint16_t *x = random_bits(2 * n), *dy = random_bits(2 * n);
        g_autofree uint16_t *got = g_new0(uint16_t, n), *expected = g_new0(uint16_t, n);
        for (int64_t i = 0; i < n; i += mw_random_size(20))
            x[i] = g_test_rand_bit() ? 0x8000 : 0; /* zeros of both signs */
        k->relu_forward(got, x, n);
        cpu->relu_forward(expected, x, n);
        expect_half("y", got, expected, n);
        k->relu_backward(got, dy, x, n);
        cpu->relu_backward(expected, dy, x, n);
        expect_half("dx", got, expected, n);
    }
}

static void
test_fill(gconstpointer data)
{
    (void)data;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = mw_random_size(5000);
        g_autofree uint8_t *x = random_bits(n), *expected = g_malloc((gsize)n);
        uint8_t value = (uint8_t)g_test_rand_int();
        struct mw_mirrors m;
        memset(expected, value, (size_t)n);
        mw_mirrors_begin(&m);
        mw_mirrors_end(&m, mw_cuda_fill(NULL, mw_mirror_out(&m, x, n, 1), value, n));
        g_assert_cmpmem(x, (gsize)n, expected, (gsize)n);
    }
}

static void
test_copy_rows(gconstpointer data)
{
    (void)data;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t rows = mw_random_size(20), columns = random_columns(5000);
        int64_t ld = random_stride(columns), n = rows * ld;
        g_autofree uint16_t *from = random_bits(2 * n), *to = random_bits(2 * n);
        g_autofree uint16_t *expected = g_memdup2(to, (gsize)n * 2);
        struct mw_mirrors m;
        for (int64_t r = 0; r < rows; r++)
            memcpy(expected + r * ld, from + r * ld, (size_t)columns * 2);
        mw_mirrors_begin(&m);
        mw_mirrors_end(&m, mw_cuda_copy_rows(NULL, MW_OUT_HALF(&m, to, n), MW_IN_HALF(&m, from, n),
                                             rows, columns, ld));
        g_assert_cmpmem(to, (gsize)n * 2, expected, (gsize)n * 2);
    }
}

/* --- sums over rows -------------------------------------------------------------------------- */

static void
check_bias(const struct mw_cpu_kernels *k, int64_t rows, int64_t columns)
{
    int64_t ld = random_stride(columns);
    struct mw_tensor dy = mw_tensor_random(rows * ld, 1.0);
    struct gradients bias = gradients_random(columns);

    k->bias_gradient(bias.got, dy.bits, ld, rows, columns, NULL);
    mw_cpu_kernels(mw_test_dtype)->bias_gradient(bias.expected, dy.bits, ld, rows, columns, NULL);
    expect_gradients("dbias", &bias);
    mw_tensor_clear(&dy);
}

static void
check_weight(const struct mw_cpu_kernels *k, int64_t rows, int64_t columns)
{
    struct mw_tensor dy = mw_tensor_random(rows * columns, 1.0);
    struct mw_tensor x = mw_tensor_random(rows * columns, 3.0);
    g_autofree float *mean = mw_floats_random(rows, 1.0), *rstd = mw_floats_random(rows, 3.0);
    const float *taken_off = g_test_rand_bit() ? mean : NULL;
    struct gradients weight = gradients_random(columns);

    k->norm_weight_gradient(weight.got, dy.bits, x.bits, taken_off, rstd, rows, columns, NULL);
    mw_cpu_kernels(mw_test_dtype)
        ->norm_weight_gradient(weight.expected, dy.bits, x.bits, taken_off, rstd, rows, columns,
                               NULL);
    expect_gradients("dweight", &weight);
    mw_tensor_clear(&dy);
    mw_tensor_clear(&x);
}

static void
test_row_sums(gconstpointer data)
{
    for (int round = 0; round < ROUNDS; round++) {
        check_bias(data, mw_random_size(600), random_columns(700));
        check_weight(data, mw_random_size(600), random_columns(700));
    }
}

/* --- embeddings, positions ------------------------------------------------------------------- */

/* Many tokens, some of them often, in tables of which there is a part. */
static void
check_embedding(const struct mw_cpu_kernels *k, int64_t rows, int64_t columns, int32_t often)
{
    int32_t vocab = (int32_t)mw_random_size(3000), first = g_test_rand_int_range(0, vocab);
    int32_t count = g_test_rand_int_range(1, vocab - first + 1);
    struct mw_tensor dy = mw_tensor_random(rows * columns, 1.0);
    struct gradients weight = gradients_random(count * columns);
    g_autofree int32_t *tokens = g_new(int32_t, rows);
    g_autofree uint64_t *order = g_new(uint64_t, rows);

    for (int64_t r = 0; r < rows; r++)
        tokens[r] = g_test_rand_int_range(0, 100) < often ? first : g_test_rand_int_range(0, vocab);
    k->embedding_backward(weight.got, dy.bits, tokens, rows, columns, first, count, NULL);
    mw_cpu_kernels(mw_test_dtype)
        ->embedding_backward(weight.expected, dy.bits, tokens, rows, columns, first, count, order);
    expect_gradients("dweight", &weight);
    mw_tensor_clear(&dy);
}

/* More tokens than one block sorts: 2048. */
static void
test_embedding(gconstpointer data)
{
    const int32_t often[] = {0, 10, 50, 100};

    for (int round = 0; round < 8; round++) {
        check_embedding(data, mw_random_size(2000), random_columns(600), often[round % 4]);
        check_embedding(data, 2000 + mw_random_size(10000), random_columns(20), often[round % 4]);
    }
}

static void
test_embedding_rows(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t rows = mw_random_size(30), columns = random_columns(5000);
        g_autofree uint16_t *weight = random_bits(2 * 20 * columns);
        g_autofree uint16_t *y = random_bits(2 * rows * columns);
        g_autofree uint16_t *expected = g_memdup2(y, (gsize)(rows * columns) * 2);
        g_autofree int32_t *tokens = g_new(int32_t, rows);
        for (int64_t r = 0; r < rows; r++)
            tokens[r] = g_test_rand_int_range(0, 30);
        k->embedding_forward(y, weight, tokens, rows, columns, 5, 20);
        mw_cpu_kernels(mw_test_dtype)
            ->embedding_forward(expected, weight, tokens, rows, columns, 5, 20);
        g_assert_cmpmem(y, (gsize)(rows * columns) * 2, expected, (gsize)(rows * columns) * 2);
    }
}

static void
test_positions(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data, *cpu = mw_cpu_kernels(mw_test_dtype);

    for (int round = 0; round < ROUNDS; round++) {
        int64_t batch = mw_random_size(5), seq = mw_random_size(30);
        int64_t columns = random_columns(5000), positions = seq + mw_random_size(4) - 1;
        int64_t n = batch * seq * columns;
        struct mw_tensor y = mw_tensor_random(n, 1.0), weight = mw_tensor_random(n, 1.0);
        g_autofree uint16_t *expected = g_memdup2(y.bits, (gsize)n * 2);
        struct gradients gradient = gradients_random(positions * columns);
        k->position_backward(gradient.got, y.bits, batch, seq, columns, positions);
        cpu->position_backward(gradient.expected, y.bits, batch, seq, columns, positions);
        expect_gradients("dweight", &gradient);
        k->position_forward(y.bits, weight.bits, batch, seq, columns);
        cpu->position_forward(expected, weight.bits, batch, seq, columns);
        expect_half("y", y.bits, expected, n);
        mw_tensor_clear(&y);
        mw_tensor_clear(&weight);
    }
}

static void
test_rope(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;

    for (int round = 0; round < 2 * ROUNDS; round++) {
        int64_t batch = mw_random_size(3), seq = mw_random_size(20), heads = mw_random_size(6);
        int64_t dim = 2 * random_columns(128);
        int64_t ld = random_stride(heads * dim);
        int64_t n = batch * seq * ld;
        struct mw_tensor x = mw_tensor_random(n, 3.0);
        g_autofree uint16_t *expected = g_memdup2(x.bits, (gsize)n * 2);
        g_autofree float *table = mw_floats_poisoned(seq * dim);
        struct mw_decoder decoder = {.head_dim = dim, .rope_theta = 10000.0};
        bool inverse = g_test_rand_bit();
        mw_rope_table(&decoder, seq, table);
        k->rope(x.bits, table, batch, seq, heads, dim, ld, inverse);
        mw_cpu_kernels(mw_test_dtype)->rope(expected, table, batch, seq, heads, dim, ld, inverse);
        expect_half("turned", x.bits, expected, n);
        mw_tensor_clear(&x);
    }
}

/* --- optimizer ------------------------------------------------------------------------------- */

/* Random bits are mostly far from 1: overflow, subnormals, NaN. */
static void
check_update(const struct mw_cpu_kernels *k, int64_t n, bool any)
{
    const struct mw_update_step step =
        mw_update_step_of((enum mw_update_rule)g_test_rand_int_range(0, MW_UPDATE_LION + 1), 1e-3,
                          0.9, 0.95, 1e-8, 0.1, mw_random_size(100), 0.01);
    bool fp32 = g_test_rand_bit(), has_param = g_test_rand_bit();
    gsize bytes = (gsize)n * 4;
    g_autofree float *w = any ? random_bits(4 * n) : mw_floats_random(n, 1.0);
    g_autofree float *m = any ? random_bits(4 * n) : mw_floats_random(n, 1e-2);
    g_autofree float *v = any ? random_bits(4 * n) : mw_floats_random(n, 1e-3);
    g_autofree void *grad = any || !fp32 ? random_bits(4 * n) : (void *)mw_floats_random(n, 1.0);
    g_autofree float *w2 = g_memdup2(w, bytes), *m2 = g_memdup2(m, bytes);
    g_autofree float *v2 = g_memdup2(v, bytes);
    g_autofree uint16_t *param = g_new0(uint16_t, n), *param2 = g_new0(uint16_t, n);

    k->update(&step, w, m, v, has_param ? param : NULL, grad, fp32, n);
    mw_cpu_kernels(mw_test_dtype)
        ->update(&step, w2, m2, v2, has_param ? param2 : NULL, grad, fp32, n);
    expect_fp32("w", w, w2, n);
    expect_fp32("m", m, m2, n);
    expect_fp32("v", v, v2, n);
    expect_half("param", param, param2, n);
}

static void
test_update(gconstpointer data)
{
    for (int round = 0; round < ROUNDS; round++)
        check_update(data, random_columns(20000), round % 2 == 0);
}

static void
test_square_sums(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;

    for (int round = 0; round < 6; round++) {
        int64_t n = 1 + mw_random_size(3 * MW_NORM_BLOCK), blocks = mw_norm_blocks(n);
        bool fp32 = g_test_rand_bit();
        struct mw_tensor half = mw_tensor_random(n, 3.0);
        g_autofree float *full = mw_floats_random(n, 1e18);
        const void *grad = fp32 ? (const void *)full : (const void *)half.bits;
        g_autofree double *got = g_new0(double, blocks), *expected = g_new0(double, blocks);
        k->square_sums(got, grad, fp32, n);
        mw_cpu_kernels(mw_test_dtype)->square_sums(expected, grad, fp32, n);
        g_assert_cmpmem(got, (gsize)blocks * 8, expected, (gsize)blocks * 8);
        mw_tensor_clear(&half);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("bits/conversions", test_conversions);
    mw_add_kernel_test("bits/mxfp8", test_mxfp8);
    mw_add_kernel_test("bits/dynamic8", test_dynamic8);
    mw_add_kernel_test("bits/blocks", test_blocks);
    mw_add_kernel_test("bits/sums", test_sums);
    mw_add_kernel_test("bits/relu", test_relu);
    mw_add_kernel_test("bits/fill", test_fill);
    mw_add_kernel_test("bits/copy-rows", test_copy_rows);
    mw_add_kernel_test("bits/row-sums", test_row_sums);
    mw_add_kernel_test("bits/embedding", test_embedding);
    mw_add_kernel_test("bits/embedding-rows", test_embedding_rows);
    mw_add_kernel_test("bits/positions", test_positions);
    mw_add_kernel_test("bits/rope", test_rope);
    mw_add_kernel_test("bits/update", test_update);
    mw_add_kernel_test("bits/square-sums", test_square_sums);
    return g_test_run();
}
