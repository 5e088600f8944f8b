/* How many samples a measure takes, which it takes again, and what is made of those that waited for
 * cores. */
#include "tests/calibrator_fixture.h"

/* --- samples --------------------------------------------------------------------------------- */

static void
test_outlier(void)
{
    const double alike[] = {100, 101, 99, 100, 102}, one[] = {100, 101, 50, 100, 102, 99};
    const double few[] = {100, 1}, kinds[] = {100, 10, 101, 11, 99, 10, 100, 10};
    const double same[] = {7, 7, 7, 7, 6.9}, none[] = {0, 0, 0, 0};
    bool judged[8] = {false};

    g_assert_cmpint(mw_calibrate_outlier(alike, 5, 1, judged), ==, -1);
    g_assert_cmpint(mw_calibrate_outlier(one, 6, 1, judged), ==, 2);
    g_assert_cmpint(mw_calibrate_outlier(few, 2, 1, judged), ==, -1);
    g_assert_cmpint(mw_calibrate_outlier(same, 5, 1, judged), ==, -1); /* by no twentieth */
    g_assert_cmpint(mw_calibrate_outlier(none, 4, 1, judged), ==, -1);
    g_assert_cmpint(mw_calibrate_outlier(kinds, 8, 2, judged), ==, 3); /* 11 among 10, 10, 10 */
    judged[3] = true;
    g_assert_cmpint(mw_calibrate_outlier(kinds, 8, 2, judged), ==, -1);
}

struct taken {
    int samples, slow; /* the one that is; how often it is */
    int slow_times;
    int kinds;
};

static bool
take(void *data, int number, double *value, GError **error)
{
    struct taken *taken = data;

    calibrator_clock_s += 0.01;
    taken->samples++;
    *value = 100.0 / (1 + (taken->kinds ? number % taken->kinds : 0));
    if (number == taken->slow && taken->slow_times-- > 0)
        *value /= 200;
    return true;
}

static struct mw_measure
sample(struct taken *taken, double budget_s, int *again)
{
    const struct mw_calibrate_samples wish = {
        .take = take, .state = taken, .values = 1, .kinds = taken->kinds, .wished = 9};
    struct mw_calibrator c;
    struct mw_measure measure;

    calibrator_open(&c, budget_s);
    g_assert_true(mw_calibrate_take_samples(&c, &wish, &measure, NULL));
    *again = c.disturbances.samples_again;
    calibrator_close(&c);
    return measure;
}

static void
test_samples(void)
{
    struct taken once = {.slow = 4, .slow_times = 1}, always = {.slow = 4, .slow_times = 99};
    struct taken quiet = {.slow = -1}, shapes = {.slow = -1, .kinds = 3};
    struct taken late = {.slow = 0, .slow_times = 1};
    int again;
    struct mw_measure m = sample(&quiet, 60, &again);
    const int samples = quiet.samples;

    g_assert_cmpint(again, ==, 0);
    g_assert_cmpfloat(m.low, ==, 100);
    m = sample(&once, 60, &again);
    g_assert_cmpint(again, ==, 1);
    g_assert_cmpint(once.samples, ==, samples + 1);
    g_assert_cmpfloat(m.low, ==, 100);
    m = sample(&always, 60, &again); /* and the range has it */
    g_assert_cmpint(again, ==, 1);
    g_assert_cmpint(m.samples, ==, samples);
    sample(&shapes, 60, &again); /* they differ, and each is like its own */
    g_assert_cmpint(again, ==, 0);
    sample(&late, 0.05, &again); /* no time for more than there is */
    g_assert_cmpint(again, ==, 0);
}

/* --- samples that waited for cores ----------------------------------------------------------- */

static double waited_s, wait_part; /* of a piece, its threads together */
static double first_takes_s;       /* 0: as all others */

static double
waits_s(void)
{
    return waited_s;
}

static double
run_piece(void *data)
{
    const double takes_s = first_takes_s > 0 ? first_takes_s : 0.01;

    first_takes_s = 0;
    calibrator_clock_s += takes_s;
    waited_s += takes_s * wait_part;
    return 1;
}

/* A part of the calibration that has so long from now on, and whose threads wait. */
static void
open_waiting(struct mw_calibrator *c, int cores, double seconds)
{
    calibrator_open(c, 60);
    c->cores = cores;
    mw_calibrate_set_waited(waits_s);
    g_assert_true(mw_calibrate_begin(c, MW_CALIBRATE_PRODUCTS, "pieces", 1, NULL));
    c->budget.until_s = mw_calibrate_now_s() + seconds;
}

static void
close_waiting(struct mw_calibrator *c)
{
    mw_calibrate_set_waited(NULL);
    calibrator_close(c);
}

static struct mw_measure
measure_waiting(double seconds, int cores, struct mw_calibration_disturbances *d)
{
    const struct mw_calibrate_work work = {.run = run_piece};
    struct mw_calibrator c;

    open_waiting(&c, cores, seconds);
    struct mw_measure m = mw_calibrate_measure(&c, &work, 0);
    *d = c.disturbances;
    close_waiting(&c);
    return m;
}

/* Others have the cores all the while: no patience helps, samples are what there is time for, and
 * the range has what the figure may be without them, few samples or many. */
static void
test_waited(void)
{
    struct mw_calibration_disturbances d;

    wait_part = 0.2;
    struct mw_measure m = measure_waiting(0.4, 2, &d);
    g_assert_cmpint(m.samples, >=, 9);
    g_assert_cmpint(d.samples, ==, m.samples); /* what warms up is none */
    g_assert_cmpint(d.waited, ==, d.samples);
    g_assert_cmpfloat_with_epsilon(m.typical, 100, 1e-6);
    g_assert_cmpfloat_with_epsilon(m.low, 100, 1e-6);
    g_assert_cmpfloat_with_epsilon(m.high, 125, 1e-6);
    m = measure_waiting(0.022, 2, &d);
    g_assert_cmpint(m.samples, <=, 2);
    g_assert_cmpint(d.samples, ==, m.samples);
    g_assert_cmpfloat(m.high, >=, 125 * 1.1);
    wait_part = 1.8; /* of two threads: a tenth is left to each */
    m = measure_waiting(0.4, 2, &d);
    g_assert_cmpfloat_with_epsilon(m.high, 1000, 1e-6);
}

/* A first piece that is long is a sample, and says how long the next one will be.  Where others
 * contradict it, it is measured anew. */
static void
test_long_first(void)
{
    struct mw_calibration_disturbances d;
    double began_s = calibrator_clock_s;

    wait_part = 0;
    struct mw_measure m = measure_waiting(0.015, 2, &d);
    g_assert_cmpint(m.samples, ==, 1);
    g_assert_cmpfloat_with_epsilon(calibrator_clock_s - began_s, 0.01, 1e-9);
    first_takes_s = 0.2;
    began_s = calibrator_clock_s;
    m = measure_waiting(0.65, 2, &d);
    g_assert_cmpint(d.samples_again, ==, 1);
    g_assert_cmpint(m.samples, >=, 9);
    g_assert_cmpfloat_with_epsilon(calibrator_clock_s - began_s, 0.2 + 0.01 * m.samples, 1e-9);
    g_assert_cmpfloat_with_epsilon(m.low, 100, 1e-6);
}

/* Small pieces of which one in ten waits: what it does to the mean says nothing of the work. */
#define PIECE_S 1e-5
#define WAIT_S 12e-3

static double
run_small_piece(void *data)
{
    int *pieces = data;
    const double wait_s = ++*pieces % 10 ? 0 : WAIT_S;

    calibrator_clock_s += PIECE_S + wait_s;
    waited_s += wait_s;
    return 1;
}

static void
test_waits_of_slices(void)
{
    int pieces = 0;
    const struct mw_calibrate_work work = {.run = run_small_piece, .state = &pieces};
    struct mw_calibrator c;

    open_waiting(&c, 2, 3);
    struct mw_measure m = mw_calibrate_measure(&c, &work, 4e-3);
    close_waiting(&c);
    g_assert_cmpfloat_with_epsilon(m.typical * PIECE_S, 1, 1e-6);
    g_assert_cmpfloat(m.low, <, 0.1 / PIECE_S);
    g_assert_cmpfloat(m.high, >=, m.typical);
    g_assert_cmpfloat(m.waited, >, MW_CALIBRATE_WAITED);
}

/* One thread of many that waits now and then is what a machine in use is like: medians are of it.
 */
static void
test_waits_of_one(void)
{
    struct mw_calibration_disturbances d;

    wait_part = 0.3;
    struct mw_measure m = measure_waiting(0.4, 64, &d);
    wait_part = 0;
    g_assert_cmpint(d.waited, ==, d.samples);
    g_assert_cmpfloat_with_epsilon(m.typical, 100, 1e-6);
    g_assert_cmpfloat(m.high, >, 140);
}

/* Long ones never have the cores for themselves: what their threads waited for on average is not
 * theirs. */
static void
test_waits_of_long(void)
{
    struct mw_calibration_disturbances d;

    wait_part = 1.5; /* of two threads: a quarter is left to each */
    struct mw_measure m = measure_waiting(0.4, 2, &d);
    wait_part = 0;
    g_assert_cmpfloat_with_epsilon(m.typical, 400, 1e-6);
    g_assert_cmpfloat_with_epsilon(m.low, 100, 1e-6);
    g_assert_cmpfloat(m.high, >=, 400 - 1e-6);
}

/* --- the start of a kernel ------------------------------------------------------------------- */

#define LAUNCH_S 2e-6

static int launches, quiet_launches; /* of ten, the first */

static void
add(void *on, void *out, const void *a, const void *b, int64_t n)
{
    const double wait_s = launches++ % 10 < quiet_launches ? 0 : WAIT_S;

    calibrator_clock_s += LAUNCH_S + wait_s;
    waited_s += 2 * wait_s;
}

static struct mw_measure
launch(int quiet, double seconds)
{
    const struct mw_kernels kernels = {.add = add};
    struct mw_calibrator c;

    open_waiting(&c, 2, seconds);
    c.kernels = &kernels;
    c.scale = mw_calibrate_scale(false, false);
    launches = 0;
    quiet_launches = quiet;
    struct mw_measure m = mw_calibrate_launch(&c);
    close_waiting(&c);
    return m;
}

/* A scheduler's wait is no launch, where some had none; and no sample was sooner than the soonest,
 * however few they were and however long they waited. */
static void
test_launch(void)
{
    struct mw_measure m = launch(10, 3);

    g_assert_cmpfloat_with_epsilon(m.typical / LAUNCH_S, 1, 1e-6);
    m = launch(10, 0.0025);
    g_assert_cmpint(m.samples, <, m.wished);
    g_assert_cmpfloat_with_epsilon(m.typical / LAUNCH_S, 1, 1e-6);
    m = launch(5, 3); /* each sample has some of both */
    g_assert_cmpfloat_with_epsilon(m.typical / LAUNCH_S, 1, 1e-6);
    g_assert_cmpfloat(m.high, >, 1e-4);
    m = launch(0, 3);
    g_assert_cmpfloat(m.typical, >=, LAUNCH_S);
    g_assert_cmpfloat(m.low, <=, m.typical);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-samples/outlier", test_outlier);
    g_test_add_func("/calibrate-samples/samples", test_samples);
    g_test_add_func("/calibrate-samples/waited", test_waited);
    g_test_add_func("/calibrate-samples/waits-of-slices", test_waits_of_slices);
    g_test_add_func("/calibrate-samples/launch", test_launch);
    g_test_add_func("/calibrate-samples/waits-of-one", test_waits_of_one);
    g_test_add_func("/calibrate-samples/waits-of-long", test_waits_of_long);
    g_test_add_func("/calibrate-samples/long-first", test_long_first);
    return g_test_run();
}
