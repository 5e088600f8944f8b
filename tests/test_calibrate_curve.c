/* Samples and sizes that contradict the others: measured again, else left out or of a wider range.
 */
#include <math.h>
#include <string.h>

#include "exec/calibrate_internal.h"

static double clock_s;

static double
now_s(void)
{
    return clock_s;
}

static void
open_calibrator(struct mw_calibrator *c, double seconds)
{
    static const struct mw_calibration_options options = {0};

    *c = (struct mw_calibrator){.options = &options, .backend = &mw_backend_cpu, .rounds = 9};
    g_mutex_init(&c->mutex);
    mw_calibrate_set_clock(now_s);
    mw_calibrate_budget_open(c, seconds);
}

static void
close_calibrator(struct mw_calibrator *c)
{
    mw_calibrate_set_clock(NULL);
    g_mutex_clear(&c->mutex);
    g_free(c->team);
}

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

    clock_s += 0.01;
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

    open_calibrator(&c, budget_s);
    g_assert_true(mw_calibrate_take_samples(&c, &wish, &measure, NULL));
    *again = c.disturbances.samples_again;
    close_calibrator(&c);
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
    clock_s += takes_s;
    waited_s += takes_s * wait_part;
    return 1;
}

static struct mw_measure
measure_waiting(double seconds, int cores, struct mw_calibration_disturbances *d)
{
    const struct mw_calibrate_work work = {.run = run_piece};
    struct mw_calibrator c;

    open_calibrator(&c, 60);
    c.cores = cores;
    mw_calibrate_set_waited(waits_s);
    g_assert_true(mw_calibrate_begin(&c, MW_CALIBRATE_PRODUCTS, "pieces", 1, NULL));
    c.budget.until_s = mw_calibrate_now_s() + seconds;
    struct mw_measure m = mw_calibrate_measure(&c, &work, 0);
    mw_calibrate_set_waited(NULL);
    *d = c.disturbances;
    close_calibrator(&c);
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
    double began_s = clock_s;

    wait_part = 0;
    struct mw_measure m = measure_waiting(0.015, 2, &d);
    g_assert_cmpint(m.samples, ==, 1);
    g_assert_cmpfloat_with_epsilon(clock_s - began_s, 0.01, 1e-9);
    first_takes_s = 0.2;
    began_s = clock_s;
    m = measure_waiting(0.65, 2, &d);
    g_assert_cmpint(d.samples_again, ==, 1);
    g_assert_cmpint(m.samples, >=, 9);
    g_assert_cmpfloat_with_epsilon(clock_s - began_s, 0.2 + 0.01 * m.samples, 1e-9);
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

    clock_s += PIECE_S + wait_s;
    waited_s += wait_s;
    return 1;
}

static void
test_waits_of_slices(void)
{
    int pieces = 0;
    const struct mw_calibrate_work work = {.run = run_small_piece, .state = &pieces};
    struct mw_calibrator c;

    open_calibrator(&c, 60);
    c.cores = 2;
    mw_calibrate_set_waited(waits_s);
    g_assert_true(mw_calibrate_begin(&c, MW_CALIBRATE_PRODUCTS, "pieces", 1, NULL));
    struct mw_measure m = mw_calibrate_measure(&c, &work, 4e-3);
    mw_calibrate_set_waited(NULL);
    g_assert_cmpfloat_with_epsilon(m.typical * PIECE_S, 1, 1e-6);
    g_assert_cmpfloat(m.low, <, 0.1 / PIECE_S);
    g_assert_cmpfloat(m.high, >=, m.typical);
    g_assert_cmpfloat(m.waited, >, MW_CALIBRATE_WAITED);
    close_calibrator(&c);
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
add(void *on, uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n)
{
    const double wait_s = launches++ % 10 < quiet_launches ? 0 : WAIT_S;

    clock_s += LAUNCH_S + wait_s;
    waited_s += 2 * wait_s;
}

static struct mw_measure
launch(int quiet, double seconds)
{
    const struct mw_kernels kernels = {.add = add};
    struct mw_calibrator c;

    open_calibrator(&c, 60);
    c.cores = 2;
    c.kernels = &kernels;
    c.scale = mw_calibrate_scale(false, false);
    launches = 0;
    quiet_launches = quiet;
    mw_calibrate_set_waited(waits_s);
    g_assert_true(mw_calibrate_begin(&c, MW_CALIBRATE_OPERATORS, "starts", 1, NULL));
    c.budget.until_s = mw_calibrate_now_s() + seconds;
    struct mw_measure m = mw_calibrate_launch(&c);
    mw_calibrate_set_waited(NULL);
    close_calibrator(&c);
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

/* --- sizes ----------------------------------------------------------------------------------- */

enum { POINTS = 8, FIRST = 0, LAST = POINTS - 1 };

static const double dims[POINTS] = {64, 96, 128, 192, 256, 384, 512, 768};

struct sizes {
    double (*rate)(int point);
    double slower[POINTS]; /* a point is, by so much; 0: it is not */
    int times[POINTS];     /* how often; -1: always */
    int taken;
};

/* As that of products: the larger, the less there is to lose. */
static double
rising(int point)
{
    return 1e12 * dims[point] / (dims[point] + 200);
}

/* To six tenths, behind a top: caches are full. */
static double
falling(int point)
{
    return point < 3 ? rising(point) : rising(3) * pow(0.88, point - 3);
}

static double
units(const void *state, int point)
{
    return 6 * pow(dims[point], 3);
}

static bool
measure(void *data, int point, struct mw_measure *rate, GError **error)
{
    struct sizes *sizes = data;
    double typical = sizes->rate(point);

    clock_s += 0.1;
    sizes->taken++;
    if (sizes->slower[point] > 0 && sizes->times[point] != 0) {
        typical /= sizes->slower[point];
        sizes->times[point]--;
    }
    *rate = (struct mw_measure){0.97 * typical, typical, 1.03 * typical, 9, 9, 0};
    return true;
}

struct outcome {
    struct mw_measure rates[POINTS];
    bool contradicts[POINTS];
    struct mw_calibration_disturbances d;
};

static void
take_curve(struct sizes *sizes, double budget_s, struct outcome *out)
{
    struct mw_calibrator c;
    const struct mw_calibrate_curve curve = {.points = POINTS,
                                             .dims = dims,
                                             .units = units,
                                             .measure = measure,
                                             .state = sizes,
                                             .what = "sizes",
                                             .again = MW_CALIBRATE_PRODUCTS_AGAIN,
                                             .contradicts = out->contradicts};

    memset(out, 0, sizeof *out);
    open_calibrator(&c, budget_s);
    g_assert_true(mw_calibrate_begin(&c, MW_CALIBRATE_PRODUCTS, "sizes", POINTS, NULL));
    c.budget.until_s = c.budget.end_s;
    g_assert_true(mw_calibrate_take_curve(&c, &curve, out->rates, NULL));
    g_assert_true(c.budget.begun[MW_CALIBRATE_PRODUCTS_AGAIN]); /* its time is the others' */
    out->d = c.disturbances;
    close_calibrator(&c);
}

/* Nothing is lost of what was right. */
static void
assert_right(const struct sizes *sizes, const struct outcome *out)
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
    static double (*const rates[])(int point) = {rising, falling};

    for (size_t i = 0; i < G_N_ELEMENTS(rates); i++) {
        struct sizes sizes = {.rate = rates[i]};
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
            struct sizes sizes = {.rate = rising};
            struct outcome out;
            sizes.slower[a] = sizes.slower[b] = 200;
            sizes.times[a] = sizes.times[b] = 1;
            take_curve(&sizes, 60, &out);
            assert_right(&sizes, &out);
            g_assert_cmpint(out.d.sizes_again, ==, a == b ? 1 : 2);
        }
    for (int odd = 0; odd < 2; odd++) {
        struct sizes sizes = {.rate = rising};
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
        struct sizes sizes = {.rate = rising};
        struct outcome out;
        sizes.slower[at] = 200;
        sizes.times[at] = -1;
        take_curve(&sizes, 60, &out);
        g_assert_cmpint(out.d.sizes_again, ==, 3);
        g_assert_cmpint(out.d.sizes_out, ==, at < LAST);
        g_assert_cmpint(out.rates[at].samples, ==, at < LAST ? 0 : 9);
        g_assert_true(out.contradicts[at] == (at < LAST));
        g_assert_cmpfloat(out.rates[at].high / rising(at), >, 0.4);
        if (at < LAST) {
            g_assert_cmpfloat(out.rates[at].typical / rising(at), >, 0.7);
            g_assert_cmpfloat(out.rates[at].typical / rising(at), <, 1.5);
        }
    }
}

static void
test_no_time(void)
{
    struct sizes sizes = {.rate = rising};
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
    struct sizes sizes = {.rate = rising};
    struct outcome out;

    sizes.slower[4] = 1.7;
    sizes.times[4] = -1;
    take_curve(&sizes, 60, &out);
    g_assert_cmpint(out.d.sizes_again, ==, 3);
    g_assert_cmpint(out.d.sizes_out, ==, 0);
    g_assert_cmpint(out.rates[4].samples, ==, 9);
    g_assert_cmpfloat_with_epsilon(out.rates[4].typical, rising(4) / 1.7, 1);
    g_assert_cmpfloat(out.rates[4].high, >=, 0.97 * rising(3));
}

/* No larger size tells of the largest: it is held to the one below it, measured again, and where it
 * stays as it is its range reaches there. */
static void
test_largest(void)
{
    struct sizes once = {.rate = rising}, always = {.rate = rising};
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
    g_assert_cmpfloat_with_epsilon(out.rates[LAST].typical, rising(LAST) / 1.7, 1);
    g_assert_cmpfloat_with_epsilon(out.rates[LAST].high, 0.97 * rising(LAST - 1), 1);
}

/* --- sizes that are bound by their start ----------------------------------------------------- */

#define START_S 0.1
#define PEAK 1e12

static double
starting(int point)
{
    return units(NULL, point) / (START_S + units(NULL, point) / PEAK);
}

static bool
measure_starting(void *data, int point, struct mw_measure *rate, GError **error)
{
    struct sizes *sizes = data;

    clock_s += units(NULL, point) / sizes->rate(point);
    sizes->taken++;
    *rate =
        (struct mw_measure){sizes->rate(point), sizes->rate(point), sizes->rate(point), 9, 9, 0};
    return true;
}

/* One start, and the units at the rate of the fastest: not at that of a start-bound neighbour. */
static void
test_pace(void)
{
    struct mw_calibrate_pace pace = {0};
    const struct mw_measure small = {1e6, 1e7, 1e8, 9, 9, 0}, large = {1e10, 2e10, 3e10, 9, 9, 0};
    const struct mw_measure none = {1, 1, 1, 0, 9, 0};

    g_assert_cmpfloat(mw_calibrate_pace_s(&pace, 1e9), ==, 0);
    mw_calibrate_pace_add(&pace, 1e5, &none);
    mw_calibrate_pace_add(&pace, 1e5, &small);
    mw_calibrate_pace_add(&pace, 1e9, &large);
    mw_calibrate_pace_add(&pace, 2e5, &small);
    g_assert_cmpfloat_with_epsilon(mw_calibrate_pace_s(&pace, 1e10), 0.1 + 1, 1e-9);
    g_assert_true(mw_calibrate_pace_fits(&pace, 1e9, 0.21));
    g_assert_false(mw_calibrate_pace_fits(&pace, 1.5e9, 0.21));
    /* The start takes all there is, of a smaller work too. */
    g_assert_true(mw_calibrate_pace_fits(&pace, 2e8, 0.05));
    g_assert_false(mw_calibrate_pace_fits(&pace, 3e8, 0.05));
}

/* A machine whose cores others have: small sizes are all start, and one thread tells the peak. */
static void
take_starting(double budget_s, double peak_flops, struct outcome *out, int *taken)
{
    struct mw_calibrator c;
    struct sizes sizes = {.rate = starting};
    const struct mw_calibrate_curve curve = {.points = POINTS,
                                             .dims = dims,
                                             .units = units,
                                             .measure = measure_starting,
                                             .state = &sizes,
                                             .flops = true,
                                             .what = "sizes",
                                             .again = MW_CALIBRATE_PRODUCTS_AGAIN,
                                             .contradicts = out->contradicts};

    memset(out, 0, sizeof *out);
    open_calibrator(&c, budget_s);
    c.peak_flops = peak_flops;
    c.cores_left = 1;
    g_assert_true(mw_calibrate_begin(&c, MW_CALIBRATE_PRODUCTS, "sizes", POINTS, NULL));
    c.budget.until_s = c.budget.end_s;
    g_assert_true(mw_calibrate_take_points(&c, &curve, out->rates, 0, NULL));
    *taken = sizes.taken;
    close_calibrator(&c);
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

/* The layer and the products beside other works have the size that all measured ones tell of, not
 * the one that is nearest to them and waited most. */
static void
test_chosen(void)
{
    struct mw_calibrator c;
    struct mw_calibration out = {.points = 3,
                                 .dim = {64, 768, 2048},
                                 .matmul_flops = {{1e9, 1e9, 1e9, 9, 9, 0.8},
                                                  {2e10, 2e10, 2e10, 9, 9, 0.8},
                                                  {4e11, 4e11, 4e11, 9, 9, 0.5}}};
    int64_t seq;

    open_calibrator(&c, 60);
    c.scale = mw_calibrate_scale(false, false);
    c.beside = c.scale->beside;
    c.window_wish_s = 0.3;
    c.budget.measures = 1;
    c.budget.until_s = mw_calibrate_now_s() + 1.2;
    g_assert_true(mw_calibrate_choose_layer(&c, &out, &seq, NULL));
    g_assert_cmpint(out.layer_rows, ==, c.scale->layer_rows);
    g_assert_cmpint(out.layer_columns, ==, c.scale->layer_columns);
    g_assert_true(mw_calibrate_choose_beside(&c, &out, NULL));
    g_assert_cmpint(c.beside, ==, c.scale->beside);
    out.matmul_flops[2] = out.matmul_flops[1]; /* where none is fast they are smaller */
    g_assert_true(mw_calibrate_choose_layer(&c, &out, &seq, NULL));
    g_assert_cmpint(out.layer_rows, <, c.scale->layer_rows);
    g_assert_true(mw_calibrate_choose_beside(&c, &out, NULL));
    g_assert_cmpint(c.beside, <, c.scale->beside);
    close_calibrator(&c);
}

/* Half of it where a page takes long; never so little that a cache may hold it. */
static void
test_arenas(void)
{
    const int64_t mib = 1 << 20;

    g_assert_cmpint(mw_calibrate_arena_bytes(256 * mib, 1e-9, 0.3), ==, 256 * mib);
    g_assert_cmpint(mw_calibrate_arena_bytes(256 * mib, 1e-9, 0.2), ==, 128 * mib);
    g_assert_cmpint(mw_calibrate_arena_bytes(256 * mib, 1, 0.2), ==, 128 * mib);
    g_assert_cmpint(mw_calibrate_arena_bytes(24 * mib, 1, 0), ==, 24 * mib);
}

/* --- what was not measured ------------------------------------------------------------------- */

static const struct mw_measure slow = {4e8, 5e8, 1e10, 4, 9, 0};

/* Small products waited for cores; attention did not, and tells the peak. */
static void
test_bound(void)
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
test_bound_rounded(void)
{
    for (int i = 0; i < 1000; i++) {
        const double rate = 6.5e10 + 1234567.89 * i;
        struct mw_calibration m = {.points = 2,
                                   .dim = {64, 96},
                                   .matmul_flops = {{rate, rate, rate, 9, 9, 0},
                                                    {1e8, 5e8, 1e9, 0, 0, 0}}};

        mw_calibrate_bound(&m);
        g_assert_cmpfloat(m.matmul_flops[1].typical, <=, m.matmul_flops[1].high);
    }
}

/* Ranges that are as wide as this meet; the figure is no size's all the same. */
static void
test_bound_wide(void)
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
test_bound_attention(void)
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
test_bound_one_thread(void)
{
    struct mw_calibration m = {.points = 2,
                               .dim = {64, 2048},
                               .matmul_flops = {{1e8, 5e8, 1e9, 1, 9, 0.9}, {0, 5e8, 1e9, 0, 0, 0}},
                               .layer_flops = {.wished = 9},
                               .layer_rows_wished = 1024,
                               .layer_columns_wished = 768,
                               .launch_s = {1e-6, 1e-2, 2e-2, 9, 9, 0.9},
                               .device_bytes_per_s = {1e10, 4e10, 6e10, 9, 9, 0.9},
                               .operator_bytes_per_s = {1e8, 3e8, 1e9, 9, 9, 0.9},
                               .peak_flops = 1e12};

    mw_calibrate_bound(&m);
    g_assert_cmpfloat(m.matmul_flops[1].typical, >, 4.5e11);
    g_assert_cmpfloat(m.matmul_flops[1].typical, <=, 5e11);
    g_assert_cmpfloat(m.matmul_flops[1].high, ==, 1e12);
    g_assert_cmpfloat(m.matmul_flops[0].high, ==, 1e12);
    g_assert_cmpfloat(m.layer_flops.typical, ==, 2.5e11);
    g_assert_cmpfloat(m.layer_flops.high, ==, 1e12);
    g_assert_cmpfloat(m.layer_flops.low, >, 0);
    g_assert_cmpfloat(m.operator_bytes_per_s.typical, ==, 2e10);
    g_assert_cmpfloat(m.operator_bytes_per_s.high, ==, 6e10);
    g_assert_cmpfloat(m.operator_bytes_per_s.low, ==, 1e8);
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
    g_test_add_func("/calibrate-curve/outlier", test_outlier);
    g_test_add_func("/calibrate-curve/samples", test_samples);
    g_test_add_func("/calibrate-curve/waited", test_waited);
    g_test_add_func("/calibrate-curve/waits-of-slices", test_waits_of_slices);
    g_test_add_func("/calibrate-curve/launch", test_launch);
    g_test_add_func("/calibrate-curve/waits-of-one", test_waits_of_one);
    g_test_add_func("/calibrate-curve/waits-of-long", test_waits_of_long);
    g_test_add_func("/calibrate-curve/long-first", test_long_first);
    g_test_add_func("/calibrate-curve/no-contradiction", test_no_contradiction);
    g_test_add_func("/calibrate-curve/disturbed-once", test_disturbed_once);
    g_test_add_func("/calibrate-curve/disturbed-always", test_disturbed_always);
    g_test_add_func("/calibrate-curve/no-time", test_no_time);
    g_test_add_func("/calibrate-curve/real-dent", test_real_dent);
    g_test_add_func("/calibrate-curve/largest", test_largest);
    g_test_add_func("/calibrate-curve/pace", test_pace);
    g_test_add_func("/calibrate-curve/starts", test_starts);
    g_test_add_func("/calibrate-curve/arenas", test_arenas);
    g_test_add_func("/calibrate-curve/chosen", test_chosen);
    g_test_add_func("/calibrate-curve/bound", test_bound);
    g_test_add_func("/calibrate-curve/bound-attention", test_bound_attention);
    g_test_add_func("/calibrate-curve/bound-one-thread", test_bound_one_thread);
    g_test_add_func("/calibrate-curve/bound-rounded", test_bound_rounded);
    g_test_add_func("/calibrate-curve/bound-wide", test_bound_wide);
    return g_test_run();
}
