/* Moments in 16 and 8 bits: nearest values, what comes back unchanged, and what is invalid. */
#include <math.h>
#include <string.h>

#include "exec/trainer/kept.h"
#include "kernel_helpers.h"

#define BLOCK MW_KEPT_BLOCK
#define SEVERAL (3 * BLOCK + 77)

/* The values by the paper's words (arXiv 2110.02861 Sec. 1.3, 2): a power of ten, and of its upper
 * nine tenths the middles of as many equal parts as the bits left have room for. */
static int
plain_values(double *values, bool squares)
{
    int count = 0;

    values[count++] = 0;
    values[count++] = 1;
    for (int zeros = 0; zeros < 7; zeros++) {
        int parts = 1 << (7 - zeros - (squares ? 0 : 1));
        for (int i = 0; i < parts; i++) {
            double low = 0.1 + 0.9 * i / parts, high = 0.1 + 0.9 * (i + 1) / parts;
            values[count++] = pow(10, -zeros) * (low + high) / 2;
            if (!squares) {
                values[count] = -values[count - 1];
                count++;
            }
        }
    }
    return count;
}

static double
nearest_distance(const double *values, int count, double x)
{
    double least = INFINITY;

    for (int i = 0; i < count; i++)
        least = fmin(least, fabs(values[i] - x));
    return least;
}

/* Magnitudes over ten powers of ten, as moments have them. */
static float *
random_moments(int64_t n, bool squares)
{
    float *values = mw_floats_random(n, 1);

    for (int64_t i = 0; i < n; i++) {
        values[i] *= powf(10, -(float)mw_random_size(10));
        if (squares)
            values[i] = fabsf(values[i]);
    }
    return values;
}

static void
test_nearest(gconstpointer data)
{
    bool squares = GPOINTER_TO_INT(data) == MW_DTYPE_DYNAMIC8_SQUARES;
    enum mw_dtype dtype = (enum mw_dtype)GPOINTER_TO_INT(data);
    double values[300];
    int count = plain_values(values, squares);
    g_autofree float *in = random_moments(SEVERAL, squares), *out = g_new(float, SEVERAL);
    g_autofree char *blocks = g_malloc0((gsize)mw_dtype_bytes(dtype, SEVERAL));

    g_assert_cmpint(count, ==, 256);
    mw_kept_narrow(dtype, in, SEVERAL, blocks);
    mw_kept_widen(dtype, blocks, 0, SEVERAL, out);
    for (int64_t b = 0; b < SEVERAL; b += BLOCK) {
        int64_t end = MIN(b + BLOCK, SEVERAL), most = b;
        for (int64_t i = b; i < end; i++)
            most = fabsf(in[i]) > fabsf(in[most]) ? i : most;
        g_assert_cmpfloat(out[most], ==, in[most]);
        for (int64_t i = b; i < end; i++) {
            double scale = in[most], x = in[i] / scale;
            /* What is no 0 becomes none: the first value is left out. */
            double bar =
                nearest_distance(values + (squares && x > 0), count - (squares && x > 0), x) +
                1e-6 * fabs(x) + 1e-12;
            g_assert_cmpfloat(fabs(out[i] / scale - x), <=, bar);
        }
    }
}

/* What was widened is narrowed to the same bytes; a part is what the whole has there. */
static void
test_again(gconstpointer data)
{
    enum mw_dtype dtype = (enum mw_dtype)GPOINTER_TO_INT(data);
    gsize bytes = (gsize)mw_dtype_bytes(dtype, SEVERAL);
    g_autofree float *values = random_moments(SEVERAL, dtype == MW_DTYPE_DYNAMIC8_SQUARES);
    g_autofree float *part = g_new(float, SEVERAL);
    g_autofree char *blocks = g_malloc0(bytes), *again = g_malloc0(bytes);

    mw_kept_narrow(dtype, values, SEVERAL, blocks);
    mw_kept_widen(dtype, blocks, 0, SEVERAL, values);
    mw_kept_narrow(dtype, values, SEVERAL, again);
    g_assert_cmpmem(blocks, bytes, again, bytes);
    for (int round = 0; round < 100; round++) {
        int64_t first = mw_random_size(SEVERAL) - 1, count = mw_random_size(SEVERAL - first);
        struct mw_kept_span span = mw_kept_span(dtype, first, count);
        g_assert_cmpint(span.at_bytes + span.bytes, <=, (int64_t)bytes);
        mw_kept_widen(dtype, blocks + span.at_bytes, span.skipped, count, part);
        g_assert_cmpmem(part, (gsize)count * sizeof *part, values + first,
                        (gsize)count * sizeof *part);
    }
}

/* Zeroed memory has zeros, and numbers too small for a scale become zeros. */
static void
test_zeros(gconstpointer data)
{
    enum mw_dtype dtype = (enum mw_dtype)GPOINTER_TO_INT(data);
    gsize bytes = (gsize)mw_dtype_bytes(dtype, BLOCK);
    g_autofree float *values = g_new(float, BLOCK);
    g_autofree char *blocks = g_malloc0(bytes), *zeros = g_malloc0(bytes);

    mw_kept_widen(dtype, blocks, 0, BLOCK, values);
    for (int64_t i = 0; i < BLOCK; i++) {
        g_assert_cmpfloat(values[i], ==, 0);
        values[i] = 1e-42f;
    }
    mw_kept_narrow(dtype, values, BLOCK, blocks);
    if (dtype != MW_DTYPE_BF16)
        g_assert_cmpmem(blocks, bytes, zeros, bytes);
}

static void
expect_invalid(enum mw_dtype dtype, float value, int64_t expected)
{
    bool squares = dtype == MW_DTYPE_DYNAMIC8_SQUARES;
    gsize bytes = (gsize)mw_dtype_bytes(dtype, SEVERAL);
    g_autofree float *values = random_moments(SEVERAL, squares);
    g_autofree char *blocks = g_malloc0(bytes);
    int64_t at = BLOCK + 5, half = mw_dtype_bytes(dtype, BLOCK);
    float found;

    values[at] = value;
    mw_kept_narrow(dtype, values, SEVERAL, blocks);
    g_assert_cmpint(mw_kept_first_invalid(dtype, squares, blocks, 0, (int64_t)bytes, &found), ==,
                    expected);
    /* What begins behind the first block finds it too, and what ends before it does not. */
    g_assert_cmpint(
        mw_kept_first_invalid(dtype, squares, blocks + half, half, (int64_t)bytes - half, &found),
        ==, expected);
    g_assert_cmpint(mw_kept_first_invalid(dtype, squares, blocks, 0, half, &found), ==, -1);
}

static void
test_invalid(gconstpointer data)
{
    enum mw_dtype dtype = (enum mw_dtype)GPOINTER_TO_INT(data);
    int64_t at = dtype == MW_DTYPE_BF16 ? BLOCK + 5 : BLOCK; /* of a block with a scale the first */

    expect_invalid(dtype, 0.5f, -1);
    expect_invalid(dtype, INFINITY, at);
    expect_invalid(dtype, -INFINITY, at);
    expect_invalid(dtype, NAN, at);
    if (dtype == MW_DTYPE_DYNAMIC8_SQUARES)
        expect_invalid(dtype, -2.0f, at);
}

int
main(int argc, char **argv)
{
    static const enum mw_dtype dtypes[] = {MW_DTYPE_BF16, MW_DTYPE_DYNAMIC8,
                                           MW_DTYPE_DYNAMIC8_SQUARES};
    static const struct {
        const char *name;
        void (*run)(gconstpointer data);
    } tests[] = {{"nearest", test_nearest},
                 {"again", test_again},
                 {"zeros", test_zeros},
                 {"invalid", test_invalid}};

    g_test_init(&argc, &argv, NULL);
    for (size_t t = 0; t < G_N_ELEMENTS(tests); t++)
        for (size_t d = t == 0; d < G_N_ELEMENTS(dtypes); d++) { /* bf16's is the kernels' */
            g_autofree char *path =
                g_strdup_printf("/kept/%s/%s", tests[t].name, mw_dtype_row(dtypes[d])->name);
            g_test_add_data_func(path, GINT_TO_POINTER(dtypes[d]), tests[t].run);
        }
    return g_test_run();
}
