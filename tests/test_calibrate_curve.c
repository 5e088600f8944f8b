/* Sizes that contradict the others: measured again, else left out or of a wider range. */
#include <math.h>
#include <string.h>

#include "tests/calibrator_fixture.h"

enum { POINTS = CALIBRATOR_POINTS, LAST = POINTS - 1 };

static struct calibrator_sizes
sizes_of(double (*rate)(int point))
{
    return (struct calibrator_sizes){.rate = rate, .takes_s = 0.1};
}

/* To six tenths, behind a top: caches are full. */
static double
falling(int point)
{
    return point < 3 ? calibrator_rising(point) : calibrator_rising(3) * pow(0.88, point - 3);
}

struct outcome {
    struct mw_measure rates[POINTS];
    bool contradicts[POINTS];
    struct mw_calibration_disturbances d;
};

static void
take_curve(struct calibrator_sizes *sizes, double budget_s, struct outcome *out)
{
    struct mw_calibrator c;

    memset(out, 0, sizeof *out);
    calibrator_open(&c, budget_s);
    const struct mw_calibrate_curve curve = calibrator_begin_curve(&c, sizes, out->contradicts);
    g_assert_true(mw_calibrate_take_curve(&c, &curve, out->rates, NULL));
    g_assert_true(c.budget.begun[MW_CALIBRATE_PRODUCTS_AGAIN]); /* its time is the others' */
    out->d = c.disturbances;
    calibrator_close(&c);
}

/* Nothing is lost of what was right. */
static void
assert_right(const struct calibrator_sizes *sizes, const struct outcome *out)
{
    for (int i = 0; i < POINTS; i++) {
        g_assert_cmpint(out->rates[i].samples, ==, 9);
        g_assert_cmpfloat_with_epsilon(out->rates[i].typical / sizes->rate(i), 1, 1e-9);
        g_assert_false(out->contradicts[i]);
    }
    g_assert_cmpint(out->d.sizes_out, ==, 0);
}

static void
test_no_contradiction(void)
{
    static double (*const rates[])(int point) = {calibrator_rising, falling};

    for (size_t i = 0; i < G_N_ELEMENTS(rates); i++) {
        struct calibrator_sizes sizes = sizes_of(rates[i]);
        struct outcome out;
        take_curve(&sizes, 60, &out);
        assert_right(&sizes, &out);
        g_assert_cmpint(sizes.taken, ==, POINTS);
    }
}

/* Any one, any two, and all of a pass that others disturbed. */
static void
test_disturbed_once(void)
{
    for (int a = 0; a < POINTS; a++)
        for (int b = a; b < POINTS; b++) {
            struct calibrator_sizes sizes = sizes_of(calibrator_rising);
            struct outcome out;
            sizes.slower[a] = sizes.slower[b] = 200;
            sizes.times[a] = sizes.times[b] = 1;
            take_curve(&sizes, 60, &out);
            assert_right(&sizes, &out);
            g_assert_cmpint(out.d.sizes_again, ==, a == b ? 1 : 2);
        }
    for (int odd = 0; odd < 2; odd++) {
        struct calibrator_sizes sizes = sizes_of(calibrator_rising);
        struct outcome out;
        for (int i = odd; i < POINTS; i += 2) {
            sizes.slower[i] = 200;
            sizes.times[i] = 1;
        }
        take_curve(&sizes, 60, &out);
        assert_right(&sizes, &out);
    }
}

/* Left out, and told by those beside it; the last one may be what the machine does. */
static void
test_disturbed_always(void)
{
    for (int at = 0; at < POINTS; at++) {
        struct calibrator_sizes sizes = sizes_of(calibrator_rising);
        struct outcome out;
        sizes.slower[at] = 200;
        sizes.times[at] = -1;
        take_curve(&sizes, 60, &out);
        g_assert_cmpint(out.d.sizes_again, ==, 3);
        g_assert_cmpint(out.d.sizes_out, ==, at < LAST);
        g_assert_cmpint(out.rates[at].samples, ==, at < LAST ? 0 : 9);
        g_assert_true(out.contradicts[at] == (at < LAST));
        g_assert_cmpfloat(out.rates[at].high / calibrator_rising(at), >, 0.4);
        if (at < LAST) {
            g_assert_cmpfloat(out.rates[at].typical / calibrator_rising(at), >, 0.7);
            g_assert_cmpfloat(out.rates[at].typical / calibrator_rising(at), <, 1.5);
        }
    }
}

static void
test_no_time(void)
{
    struct calibrator_sizes sizes = sizes_of(calibrator_rising);
    struct outcome out;

    sizes.slower[4] = 200;
    sizes.times[4] = 1;
    take_curve(&sizes, POINTS * 0.1, &out);
    g_assert_cmpint(sizes.taken, ==, POINTS);
    g_assert_cmpint(out.rates[4].samples, ==, 0);
    g_assert_true(out.contradicts[4]);
}

/* A library's poor choice for one size: it is so each time, and its range says that others differ.
 */
static void
test_real_dent(void)
{
    struct calibrator_sizes sizes = sizes_of(calibrator_rising);
    struct outcome out;

    sizes.slower[4] = 1.7;
    sizes.times[4] = -1;
    take_curve(&sizes, 60, &out);
    g_assert_cmpint(out.d.sizes_again, ==, 3);
    g_assert_cmpint(out.d.sizes_out, ==, 0);
    g_assert_cmpint(out.rates[4].samples, ==, 9);
    g_assert_cmpfloat_with_epsilon(out.rates[4].typical, calibrator_rising(4) / 1.7, 1);
    g_assert_cmpfloat(out.rates[4].high, >=, 0.97 * calibrator_rising(3));
}

/* No larger size tells of the largest: it is held to the one below it, measured again, and where it
 * stays as it is its range reaches there. */
static void
test_largest(void)
{
    struct calibrator_sizes once = sizes_of(calibrator_rising), always = once;
    struct outcome out;

    once.slower[LAST] = always.slower[LAST] = 1.7;
    once.times[LAST] = 1;
    always.times[LAST] = -1;
    take_curve(&once, 60, &out);
    assert_right(&once, &out);
    g_assert_cmpint(out.d.sizes_again, ==, 1);
    take_curve(&always, 60, &out);
    g_assert_cmpint(out.d.sizes_again, ==, 3);
    g_assert_cmpint(out.d.sizes_out, ==, 0);
    g_assert_cmpfloat_with_epsilon(out.rates[LAST].typical, calibrator_rising(LAST) / 1.7, 1);
    g_assert_cmpfloat_with_epsilon(out.rates[LAST].high, 0.97 * calibrator_rising(LAST - 1), 1);
}

/* --- sizes that are bound by their start ----------------------------------------------------- */

#define START_S 0.1
#define PEAK 1e12

static double
starting(int point)
{
    return calibrator_units(NULL, point) / (START_S + calibrator_units(NULL, point) / PEAK);
}

static bool
measure_starting(void *data, int point, struct mw_measure *rate, GError **error)
{
    struct calibrator_sizes *sizes = data;

    calibrator_clock_s += calibrator_units(NULL, point) / sizes->rate(point);
    sizes->taken++;
    *rate =
        (struct mw_measure){sizes->rate(point), sizes->rate(point), sizes->rate(point), 9, 9, 0};
    return true;
}

/* A machine whose cores others have: small sizes are all start, and one thread tells the peak. */
static void
take_starting(double budget_s, double peak_flops, struct outcome *out, int *taken)
{
    struct mw_calibrator c;
    struct calibrator_sizes sizes = {.rate = starting};

    memset(out, 0, sizeof *out);
    calibrator_open(&c, budget_s);
    struct mw_calibrate_curve curve = calibrator_begin_curve(&c, &sizes, out->contradicts);
    curve.measure = measure_starting;
    curve.flops = true;
    c.peak_flops = peak_flops;
    c.cores_left = 1;
    g_assert_true(mw_calibrate_take_points(&c, &curve, out->rates, 0, NULL));
    *taken = sizes.taken;
    calibrator_close(&c);
}

static void
test_starts(void)
{
    struct outcome out;
    int taken;

    /* Those between are not taken for as slow as the smallest. */
    take_starting(2.2, 0, &out, &taken);
    g_assert_cmpint(out.rates[1].samples, >, 0);
    g_assert_cmpint(out.rates[3].samples, >, 0);
    /* The largest comes first where there is time for two. */
    take_starting(2.5 * START_S, 2 * PEAK, &out, &taken);
    g_assert_cmpint(out.rates[LAST].samples, >, 0);
    g_assert_cmpint(taken, ==, 2);
    take_starting(2.5 * START_S, 0, &out, &taken); /* by its neighbour it would take an hour */
    g_assert_cmpint(out.rates[LAST].samples, ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-curve/no-contradiction", test_no_contradiction);
    g_test_add_func("/calibrate-curve/disturbed-once", test_disturbed_once);
    g_test_add_func("/calibrate-curve/disturbed-always", test_disturbed_always);
    g_test_add_func("/calibrate-curve/no-time", test_no_time);
    g_test_add_func("/calibrate-curve/real-dent", test_real_dent);
    g_test_add_func("/calibrate-curve/largest", test_largest);
    g_test_add_func("/calibrate-curve/starts", test_starts);
    return g_test_run();
}
