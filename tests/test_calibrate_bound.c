/* What was not measured, or was measured while its threads waited for cores, is bounded by what
 * was. */
#include <math.h>

#include "calibrate/internal.h"

static const struct mw_measure slow = {4e8, 5e8, 1e10, 4, 9, 0};

/* Small products waited for cores; attention did not, and tells the peak. */
static void
test_products(void)
{
    struct mw_calibration m = {.points = 3,
                               .dim = {64, 128, 2048},
                               .matmul_flops = {slow, slow, {3e8, 5e8, 1e10, 0, 0, 0}},
                               .attention_points = 1,
                               .attention_dim = {64},
                               .attention_flops = {{1e11, 2e11, 3e11, 9, 9, 0}},
                               .layer_flops = {8e7, 1e8, 7e8, 9, 9, 0},
                               .layer_rows = 128,
                               .layer_columns = 64,
                               .layer_rows_wished = 1024,
                               .layer_columns_wished = 768};

    mw_calibrate_bound(&m);
    /* The start takes 0.995 of 128 cubed's time, and 2048 cubed has 4096 times the FLOPs. */
    double expected = 5e8 * 4096 / (0.995 + 4096 * 0.005);
    g_assert_cmpfloat_with_epsilon(m.matmul_flops[2].typical, expected, 1e-3 * expected);
    g_assert_cmpfloat(m.matmul_flops[2].low, ==, 3e8);
    g_assert_cmpfloat(m.matmul_flops[2].high, ==, 1e11);
    g_assert_cmpfloat(m.matmul_flops[1].typical, ==, 5e8); /* it was measured */
    g_assert_cmpfloat(m.layer_flops.typical, >, 4e10);
    g_assert_cmpfloat(m.layer_flops.typical, <=, 5e10);
    g_assert_cmpfloat(m.layer_flops.low, ==, 8e7);
    g_assert_cmpfloat(m.layer_flops.high, ==, 1e11);
    g_assert_cmpint(m.disturbances.sizes_out, ==, 0);
}

/* Where the fastest was the smaller one, and nothing waited, the other is as fast, in whole
 * digits. */
static void
test_rounded(void)
{
    for (int i = 0; i < 1000; i++) {
        const double rate = 6.5e10 + 1234567.89 * i;
        struct mw_calibration m = {
            .points = 2,
            .dim = {64, 96},
            .matmul_flops = {{rate, rate, rate, 9, 9, 0}, {1e8, 5e8, 1e9, 0, 0, 0}}};

        mw_calibrate_bound(&m);
        g_assert_cmpfloat(m.matmul_flops[1].typical, <=, m.matmul_flops[1].high);
    }
}

/* Ranges that are as wide as this meet; the figure is no size's all the same. */
static void
test_wide(void)
{
    struct mw_calibration m = {.points = 3,
                               .dim = {96, 128, 192},
                               .matmul_flops = {{1e9, 9e9, 2e10, 9, 9, 0},
                                                {1e8, 5e8, 2e10, 9, 9, 0},
                                                {1e9, 1e10, 2e10, 9, 9, 0}}};

    mw_calibrate_bound(&m);
    g_assert_true(m.matmul_contradicts[1]);
    g_assert_cmpint(m.matmul_flops[1].samples, ==, 0);
    g_assert_cmpint(m.disturbances.sizes_out, ==, 1);
    g_assert_cmpfloat(m.matmul_flops[1].typical, >=, 4.5e9);
    g_assert_cmpfloat(m.matmul_flops[1].low, ==, 1e8);
    g_assert_cmpfloat(m.matmul_flops[2].typical, ==, 1e10);
}

/* Attention was measured at one length, while its threads waited.  Pieces have 1024 tokens at
 * least: at 64 to 1024 of them the work grows with the length, and from there on with its square.
 */
static void
test_attention(void)
{
    struct mw_calibration m = {
        .points = 2,
        .dim = {64, 2048},
        .matmul_flops = {slow, {5e11, 6e11, 7e11, 9, 9, 0}},
        .attention_points = 3,
        .attention_tokens = 1024,
        .attention_dim = {cbrt(64.0 * 64 * 64), cbrt(1024.0 * 1024 * 64), cbrt(2048.0 * 2048 * 64)},
        .attention_flops = {
            {1e8, 3e8, 4e8, 1, 9, 0.8}, {1e8, 3e8, 4e8, 0, 0, 0}, {1e8, 3e8, 4e8, 0, 0, 0}}};
    const double works[] = {1, 16, 64};

    mw_calibrate_bound(&m);
    for (int i = 1; i < 3; i++) {
        double start = 1 - 3e8 / 3e11, at_peak = 3e8 / 3e11; /* of the least piece's time */
        double expected = 3e8 * works[i] / (start + works[i] * at_peak);
        g_assert_cmpfloat_with_epsilon(m.attention_flops[i].typical / expected, 1, 1e-6);
        g_assert_cmpfloat(m.attention_flops[i].high, ==, 1.2e12);
        g_assert_cmpfloat(m.attention_flops[i].low, ==, 1e8);
    }
    g_assert_cmpfloat(m.attention_flops[0].high, ==, 1.2e12); /* it mostly waited */
    /* On a quiet machine attention says itself how fast it gets. */
    m.attention_flops[0] = (struct mw_measure){1e8, 3e8, 4e8, 9, 9, 0};
    m.attention_flops[1] = m.attention_flops[2] = (struct mw_measure){1e8, 3e8, 4e8, 0, 0, 0};
    mw_calibrate_bound(&m);
    for (int i = 0; i < 3; i++)
        g_assert_cmpfloat(m.attention_flops[i].typical, ==, 3e8);
}

/* Nothing but small products and one thread's rate: half of it, as cores may be two threads each,
 * and the range has all of it; a layer that had no time is told by it too. */
static void
test_one_thread(void)
{
    struct mw_calibration m = {.points = 2,
                               .dim = {64, 2048},
                               .matmul_flops = {{1e8, 5e8, 1e9, 1, 9, 0.9}, {0, 5e8, 1e9, 0, 0, 0}},
                               .layer_flops = {.wished = 9},
                               .layer_rows_wished = 1024,
                               .layer_columns_wished = 768,
                               .launch_s = {1e-6, 1e-2, 2e-2, 9, 9, 0.9},
                               .device_bytes_per_s = {1e10, 4e10, 6e10, 9, 9, 0.9},
                               .pass_bytes_per_s[MW_CALIBRATION_GATED] = {1e8, 3e8, 1e9, 9, 9, 0.9},
                               .peak_flops = 1e12};

    mw_calibrate_bound(&m);
    g_assert_cmpfloat(m.matmul_flops[1].typical, >, 4.5e11);
    g_assert_cmpfloat(m.matmul_flops[1].typical, <=, 5e11);
    g_assert_cmpfloat(m.matmul_flops[1].high, ==, 1e12);
    g_assert_cmpfloat(m.matmul_flops[0].high, ==, 1e12);
    g_assert_cmpfloat(m.layer_flops.typical, ==, 2.5e11);
    g_assert_cmpfloat(m.layer_flops.high, ==, 1e12);
    g_assert_cmpfloat(m.layer_flops.low, >, 0);
    g_assert_cmpfloat(m.pass_bytes_per_s[MW_CALIBRATION_GATED].typical, ==, 2e10);
    g_assert_cmpfloat(m.pass_bytes_per_s[MW_CALIBRATION_GATED].high, ==, 6e10);
    g_assert_cmpfloat(m.pass_bytes_per_s[MW_CALIBRATION_GATED].low, ==, 1e8);
    /* A whole product takes no less than its start, and a start no more than waking the team. */
    g_assert_cmpfloat_with_epsilon(m.launch_s.typical, 2 * pow(64, 3) / 5e8, 1e-12);
    m.copy_latency_s.typical = 5e-6;
    m.cores = 2;
    mw_calibrate_bound(&m);
    g_assert_cmpfloat_with_epsilon(m.launch_s.typical, 1e-5, 1e-12);
    g_assert_cmpfloat_with_epsilon(m.launch_s.low, 5e-7, 1e-12);
    g_assert_cmpfloat(m.launch_s.high, ==, 2e-2);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-bound/products", test_products);
    g_test_add_func("/calibrate-bound/attention", test_attention);
    g_test_add_func("/calibrate-bound/one-thread", test_one_thread);
    g_test_add_func("/calibrate-bound/rounded", test_rounded);
    g_test_add_func("/calibrate-bound/wide", test_wide);
    return g_test_run();
}
