/* Figures from samples. */
#include <math.h>

#include "calibrate/internal.h"

static void
assert_near(double is, double wanted)
{
    g_assert_cmpfloat_with_epsilon(is, wanted, 1e-9 * fmax(1, fabs(wanted)));
}

static void
test_percentiles(void)
{
    double eleven[] = {10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5}, two[] = {3, 1}, one[] = {7};
    struct mw_measure m = mw_measure_of(eleven, 11);

    assert_near(m.low, 1);
    assert_near(m.typical, 5);
    assert_near(m.high, 9);
    g_assert_cmpint(m.samples, ==, 11);
    assert_near(mw_measure_spread(&m), 0.8);
    m = mw_measure_of(two, 2);
    assert_near(m.low, 1.2);
    assert_near(m.typical, 2);
    assert_near(m.high, 2.8);
    m = mw_measure_of(one, 1);
    assert_near(m.low, 7);
    assert_near(m.typical, 7);
    assert_near(m.high, 7);
    assert_near(mw_measure_spread(&m), 0);
    m = mw_measure_of(one, 0);
    assert_near(m.typical, 0);
    assert_near(mw_measure_spread(&m), 0);
}

static void
test_line(void)
{
    double x[] = {1, 2, 4, 8}, y[] = {5, 7, 11, 19}, falling[] = {9, 8, 7, 6};
    double below[] = {0.5, 2, 4.5, 9.5}, intercept, slope;

    mw_calibrate_line(x, y, 4, &intercept, &slope);
    assert_near(intercept, 3);
    assert_near(slope, 2);
    mw_calibrate_line(x, falling, 4, &intercept, &slope); /* no rate is negative */
    assert_near(slope, 0);
    g_assert_cmpfloat(intercept, >, 6);
    mw_calibrate_line(x, below, 4, &intercept, &slope); /* nor a latency */
    assert_near(intercept, 0);
    g_assert_cmpfloat(slope, >, 0.5);
    g_assert_cmpfloat(slope, <, 1.2);
    mw_calibrate_line(x, y, 1, &intercept, &slope);
    assert_near(slope, 0);
    assert_near(intercept, 5);
}

/* What the engine gives two that share: the first asks for all, the second for a share. */
static void
test_share(void)
{
    for (int i = 0; i <= 20; i++) {
        double share = i / 20.0, level = fmax(0.5, 1 - share);
        double x = level, y = share > 0 ? fmin(1, 0.5 / share) : 1;
        assert_near(mw_calibrate_share(x, y), share);
    }
    assert_near(mw_calibrate_share(0.3, 0.4), 1); /* worse than turns */
    assert_near(mw_calibrate_share(1.2, 1.1), 0);
}

static void
test_steady(void)
{
    double falling[60], flat[12];

    for (int i = 0; i < 60; i++)
        falling[i] = i < 20 ? 3000 - i : i < 40 ? 3000 - 100 * (i - 19) : 1000;
    for (int i = 0; i < 12; i++)
        flat[i] = 1000 + 10 * (i % 3);
    g_assert_cmpint(mw_calibrate_steady_from(flat, 12, 6), ==, 0);
    g_assert_cmpint(mw_calibrate_steady_from(flat, 11, 6), ==, -1);
    /* From 20 on it falls by more than a twentieth in ten windows. */
    g_assert_cmpint(mw_calibrate_steady_from(falling + 20, 10, 5), ==, -1);
    g_assert_cmpint(mw_calibrate_steady_from(falling + 20, 40, 10), ==, 14);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-figures/percentiles", test_percentiles);
    g_test_add_func("/calibrate-figures/line", test_line);
    g_test_add_func("/calibrate-figures/share", test_share);
    g_test_add_func("/calibrate-figures/steady", test_steady);
    return g_test_run();
}
