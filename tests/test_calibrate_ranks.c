/* Ranks that calibrate together go the same way, whatever each of them sees: with clocks, rates and
 * disturbances of their own they measure the same sizes equally often, and leave out the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launched.h"
#include "tests/calibrator_fixture.h"

#define RANKS 3
#define SCRATCH_BYTES 4096
#define HANGS_S 300 /* a rank that waits for what never comes ends then */

static struct mw_ranks *ranks;

static void
end_with(const char *what)
{
    fprintf(stderr, "worker: rank %d: %s\n", mw_ranks_index(ranks), what);
    mw_ranks_abort(ranks, 1);
    exit(1);
}

/* All ranks come to this with the same number, or say so. */
static void
meet(double number)
{
    double sum = number, least = number * RANKS;
    g_autoptr(GError) error = NULL;

    if (!mw_ranks_all_reduce_fp64(ranks, 0, &sum, 1, &error))
        end_with(error->message);
    if (fabs(sum - least) > 1e-9)
        end_with("another rank is elsewhere");
}

/* --- sizes ----------------------------------------------------------------------------------- */

enum { POINTS = CALIBRATOR_POINTS };

static bool
measure(void *sizes, int point, struct mw_measure *rate, GError **error)
{
    meet(point);
    return calibrator_measure(sizes, point, rate, error);
}

static void
take_curve(struct calibrator_sizes *sizes, double budget_s, bool contradicts[POINTS])
{
    struct mw_calibrator c;
    struct mw_measure rates[POINTS] = {0};
    g_autoptr(GError) error = NULL;

    sizes->rate = calibrator_rising;
    calibrator_open_ranks(&c, ranks, budget_s);
    struct mw_calibrate_curve curve = calibrator_begin_curve(&c, sizes, contradicts);
    curve.measure = measure;
    if (!mw_calibrate_take_curve(&c, &curve, rates, &error))
        end_with(error->message);
    meet(sizes->taken);
    meet(c.disturbances.sizes_out);
    for (int i = 0; i < POINTS; i++) {
        meet(contradicts[i]);
        meet(rates[i].samples);
    }
    calibrator_close(&c);
}

/* One rank alone finds a size slow, once or each time; each another one; one rank is slow at all of
 * them, or has no time. */
static void
run_curve(void)
{
    const int rank = mw_ranks_index(ranks);
    bool contradicts[POINTS];

    for (int at = 0; at < POINTS; at++)
        for (int who = 0; who < RANKS; who++)
            for (int times = -1; times <= 1; times += 2) {
                struct calibrator_sizes sizes = {.takes_s = 0.1};
                sizes.slower[at] = rank == who ? 200 : 0;
                sizes.times[at] = times;
                take_curve(&sizes, 60, contradicts);
                if (contradicts[at] != (times < 0 && at < POINTS - 1))
                    end_with("what one rank contradicts is kept, or what none does is not");
            }
    struct calibrator_sizes each = {.takes_s = 0.1};
    each.slower[2 * rank + 1] = 50;
    each.times[2 * rank + 1] = -1;
    take_curve(&each, 60, contradicts);
    for (int who = 0; who < RANKS; who++) {
        struct calibrator_sizes late = {.takes_s = rank == who ? 3 : 0.01};
        late.slower[4] = 20;
        late.times[4] = rank == who ? -1 : 1;
        take_curve(&late, 10, contradicts);
    }
}

/* --- samples --------------------------------------------------------------------------------- */

struct taken {
    double takes_s;
    int outlier; /* this rank's; -1: none */
    int count;
};

static bool
take(void *data, int number, double *value, GError **error)
{
    struct taken *taken = data;

    meet(number);
    calibrator_clock_s += taken->takes_s;
    *value = number == taken->outlier ? 1 : 100;
    taken->count++;
    return true;
}

static void
run_samples(void)
{
    const int rank = mw_ranks_index(ranks);

    for (int who = 0; who < RANKS; who++) {
        struct taken taken = {.takes_s = rank == who ? 0.9 : 0.01,
                              .outlier = rank == who ? 3 + who : -1};
        const struct mw_calibrate_samples samples = {
            .take = take, .state = &taken, .values = 1, .together = true};
        struct mw_calibrator c;
        struct mw_measure figure;
        g_autoptr(GError) error = NULL;
        calibrator_open_ranks(&c, ranks, 60);
        if (!mw_calibrate_begin(&c, MW_CALIBRATE_COLLECTIVES, "samples", 1, &error) ||
            !mw_calibrate_take_samples(&c, &samples, &figure, &error))
            end_with(error->message);
        meet(taken.count);
        meet(figure.samples);
        calibrator_close(&c);
    }
}

/* --- works that share the machine's memory ---------------------------------------------------- */

static double rank_waited_s;

static double
waits_s(void)
{
    return rank_waited_s;
}

struct shared_work {
    double takes_s, first_takes_s; /* the first once more */
    double wait_part;              /* of its time, for a core */
    int count;
};

static double
run_shared(void *data)
{
    struct shared_work *work = data;
    double takes_s = work->takes_s + (work->count ? 0 : work->first_takes_s);

    takes_s /= work->count % 5 == 4 ? 3 : 1; /* as if another had lost its core */
    meet(work->count++);
    calibrator_clock_s += takes_s;
    rank_waited_s += work->wait_part * takes_s;
    return 1;
}

/* One rank waits for a core half of its time, and takes long at first: it works as often as the
 * others, and none works alone.  Its rate is what most pieces say, and not the fastest ones. */
static void
run_together(void)
{
    const int rank = mw_ranks_index(ranks);

    mw_calibrate_set_waited(waits_s);
    for (int who = 0; who < RANKS; who++)
        for (double first_s = 0; first_s < 50; first_s += 40) {
            struct shared_work state = {.takes_s = 0.01};
            const struct mw_calibrate_work work = {.run = run_shared, .state = &state};
            struct mw_calibrator c;
            struct mw_measure figure;
            g_autoptr(GError) error = NULL;
            state.wait_part = rank == who ? 0.5 : 0;
            state.first_takes_s = rank == who ? first_s : 0;
            calibrator_open_ranks(&c, ranks, 60);
            c.cores = 1;
            if (!mw_calibrate_begin(&c, MW_CALIBRATE_UPDATE, "passes", 1, &error) ||
                !mw_calibrate_measure_together(&c, &work, &figure, &error))
                end_with(error->message);
            meet(state.count);
            meet(figure.samples);
            if (first_s <= 0 && fabs(figure.typical - (rank == who ? 200 : 100)) > 1)
                end_with("not the rate of all together");
            calibrator_close(&c);
        }
    mw_calibrate_set_waited(NULL);
}

/* The smallest amount that any rank has is what all continue with. */
static void
run_least(void)
{
    struct mw_calibrator c;
    double value = 10 + (mw_ranks_index(ranks) + 2) % RANKS;
    g_autoptr(GError) error = NULL;

    calibrator_open_ranks(&c, ranks, 60);
    if (!mw_calibrate_least(&c, &value, &error))
        end_with(error->message);
    if (fabs(value - 10) > 1e-9)
        end_with("not the least");
    calibrator_close(&c);
}

/* A work that fails on one rank ends that rank's samples at once: the others wait for it. */
static bool
take_and_fail(void *data, int number, double *value, GError **error)
{
    struct mw_calibrator *c = data;

    meet(number);
    *value = 1;
    if (number == 2 && mw_ranks_index(ranks) == RANKS - 1)
        mw_calibrate_fail(c, g_error_new_literal(1, 1, "a broken device"));
    return true;
}

static void
run_failure(void)
{
    struct mw_calibrator c;
    const struct mw_calibrate_samples samples = {
        .take = take_and_fail, .state = &c, .values = 1, .together = true};
    struct mw_measure figure;
    g_autoptr(GError) error = NULL;

    calibrator_open_ranks(&c, ranks, 60);
    if (!mw_calibrate_begin(&c, MW_CALIBRATE_COLLECTIVES, "samples", 1, &error) ||
        !mw_calibrate_take_samples(&c, &samples, &figure, &error))
        end_with(error->message);
    end_with("goes on without a device");
}

/* --- by name --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
    const char *says; /* and fails; NULL: it does not */
} cases[] = {
    {"curve", run_curve, NULL},
    {"samples", run_samples, NULL},
    {"together", run_together, NULL},
    {"least", run_least, NULL},
    {"failure", run_failure, "worker: rank 2: a broken device"},
};

static int
worker(const char *name)
{
    g_autoptr(GError) error = NULL;

    alarm(HANGS_S);
    ranks = mw_ranks_join(1, SCRATCH_BYTES, &error);
    if (!ranks) {
        fprintf(stderr, "worker: %s\n", error->message);
        return 1;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        if (!strcmp(cases[i].name, name))
            cases[i].run();
    mw_ranks_leave(ranks);
    return 0;
}

static const char *self;

static void
test_case(gconstpointer data)
{
    const size_t which = GPOINTER_TO_SIZE(data);
    g_autofree char *mpirun = launched_find(), *output = NULL;
    const char *arguments[] = {"--worker", cases[which].name, NULL};

    if (!mpirun)
        return;
    int status = launched_run(mpirun, RANKS, self, arguments, &output);
    g_test_message("status %d: %s", status, output);
    g_assert_true((status != 0) == (cases[which].says != NULL));
    g_assert_true(!cases[which].says || strstr(output, cases[which].says));
    g_assert_null(strstr(output, "goes on without"));
}

int
main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 3 && !strcmp(argv[1], "--worker"))
        return worker(argv[2]);
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strdup_printf("/calibrate-ranks/%s", cases[i].name);
        g_test_add_data_func(path, GSIZE_TO_POINTER(i), test_case);
    }
    return g_test_run();
}
