/* Time that a hypervisor took: read from files like /proc/stat, and what a calibration does about
 * it. */
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "calibrate/internal.h"
#include "exec/host/steal.h"

static char *stat_file;
static double clock_s;
static long long stolen_ticks; /* of a hundredth of a second, as sysconf says on Linux */

static void
write_stat(void)
{
    g_autofree char *text = g_strdup_printf("cpu  10 20 30 40 50 60 70 %lld 9 8\n"
                                            "cpu0 5 10 15 20 25 30 35 40 4 4\n"
                                            "cpu1 5 10 15 20 25 30 35 40 5 4\n"
                                            "intr 1 2 3\ncpu9 in another place\n",
                                            stolen_ticks);

    g_assert_true(g_file_set_contents(stat_file, text, -1, NULL));
}

static void
test_read(void)
{
    struct mw_steal before, after;

    stolen_ticks = 100;
    write_stat();
    mw_steal_read(&before);
    g_assert_true(before.told);
    g_assert_cmpint(before.cores, ==, 2);
    stolen_ticks = 150;
    write_stat();
    mw_steal_read(&after);
    g_assert_cmpfloat_with_epsilon(mw_steal_s(&before, &after), 0.5, 1e-9);
    g_assert_cmpfloat(mw_steal_s(&after, &before), ==, 0);
    g_assert_true(mw_steal_disturbs(0.5, 1, 2));
    g_assert_false(mw_steal_disturbs(0.01, 0.6, 2));
}

/* Of a kernel before 2.6.11, or of no Linux. */
static void
test_without_column(void)
{
    static const char *const texts[] = {"cpu  10 20 30 40 50 60 70\ncpu0 1 2 3 4 5 6 7\n", "",
                                        "cpu\n", "intr 1 2 3 4 5 6 7 8 9\n"};
    struct mw_steal before, after;

    write_stat();
    mw_steal_read(&before);
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_assert_true(g_file_set_contents(stat_file, texts[i], -1, NULL));
        mw_steal_read(&after);
        g_assert_false(after.told);
        g_assert_cmpfloat(mw_steal_s(&before, &after), ==, 0);
    }
    mw_steal_set_path("/nonexistent/stat");
    mw_steal_read(&after);
    g_assert_false(after.told);
    mw_steal_set_path(stat_file);
}

/* --- samples --------------------------------------------------------------------------------- */

static double
now_s(void)
{
    return clock_s;
}

/* A sample takes 62.5 ms, a series is four.  Those of the first `bad` series lose ten ticks each,
 * but of the third of them two.  Those of all but the third wait half of their time for cores. */
struct taken {
    struct mw_calibrator *c;
    int bad, samples;
};

static bool
take(void *data, int number, double *value, GError **error)
{
    struct taken *taken = data;
    int series = taken->samples++ / 4;
    int ticks = series >= taken->bad ? 0 : series == 2 ? 2 : 10;

    clock_s += 0.0625;
    stolen_ticks += ticks;
    write_stat();
    *value = 100 - ticks;
    taken->c->waited = taken->bad && series != 2 && ticks ? 0.5 : 0;
    return true;
}

static struct mw_measure
sample(int bad, struct mw_calibration_steal *steal, int *samples)
{
    static const struct mw_calibration_options options = {0};
    struct mw_calibrator c = {.options = &options, .rounds = 4};
    struct taken taken = {.c = &c, .bad = bad};
    const struct mw_calibrate_samples wish = {.take = take, .state = &taken, .values = 1};
    struct mw_measure measure;

    g_mutex_init(&c.mutex);
    mw_calibrate_set_clock(now_s);
    mw_calibrate_budget_open(&c, 60);
    g_assert_true(mw_calibrate_take_samples(&c, &wish, &measure, NULL));
    mw_calibrate_set_clock(NULL);
    g_mutex_clear(&c.mutex);
    *steal = c.steal;
    *samples = taken.samples;
    return measure;
}

static void
test_taken_again(void)
{
    struct mw_calibration_steal steal;
    int samples;
    struct mw_measure m = sample(0, &steal, &samples);

    g_assert_cmpint(samples, ==, 4);
    g_assert_cmpint(steal.again, ==, 0);
    g_assert_cmpfloat(m.low, ==, 100);
    m = sample(1, &steal, &samples);
    g_assert_cmpint(samples, ==, 8);
    g_assert_cmpint(steal.again, ==, 1);
    g_assert_cmpint(steal.kept, ==, 0);
    g_assert_cmpfloat(m.low, ==, 100);
    g_assert_cmpfloat(m.high, ==, 100);
    m = sample(9, &steal, &samples); /* four in all: the third, with two ticks a sample, is kept */
    g_assert_cmpint(samples, ==, 16);
    g_assert_cmpint(steal.again, ==, 3);
    g_assert_cmpint(steal.kept, ==, 1);
    g_assert_cmpfloat(m.typical, ==, 98);
    g_assert_cmpfloat_with_epsilon(m.high, 98 / (1 - 0.32), 1e-6); /* 8 ticks of 0.25 s, no wait */
    g_assert_cmpfloat_with_epsilon(m.low, 98 * (1 - 0.32), 1e-6);
}

static double
waits_s(void)
{
    return 0;
}

/* Two tenths of the first piece are stolen, which takes a second. */
static double
run_piece(void *data)
{
    int *pieces = data, ticks = (*pieces)++ ? 0 : 20;

    clock_s += 0.8 + 0.01 * ticks;
    stolen_ticks += ticks;
    write_stat();
    return 1;
}

/* A first piece that is long is a sample: what is stolen from it counts, and it is taken again
 * where there is time for that. */
static void
test_long_first(void)
{
    for (int again = 0; again < 2; again++) {
        static const struct mw_calibration_options options = {0};
        int pieces = 0;
        const struct mw_calibrate_work work = {.run = run_piece, .state = &pieces};
        struct mw_calibrator c = {.options = &options, .rounds = 4};

        g_mutex_init(&c.mutex);
        mw_calibrate_set_clock(now_s);
        mw_calibrate_set_waited(waits_s);
        mw_calibrate_budget_open(&c, 60);
        c.budget.until_s = clock_s + (again ? 3.2 : 1.5);
        c.budget.measures = 1;
        struct mw_measure m = mw_calibrate_measure(&c, &work, 0);
        mw_calibrate_set_waited(NULL);
        mw_calibrate_set_clock(NULL);
        g_mutex_clear(&c.mutex);
        g_assert_cmpint(c.steal.again, ==, again);
        g_assert_cmpint(c.steal.kept, ==, !again);
        g_assert_cmpint(m.samples, ==, again ? 2 : 1);
        g_assert_cmpfloat_with_epsilon(m.typical, again ? 1.25 : 1, 1e-6);
        g_assert_cmpint(pieces, ==, again ? 3 : 1);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_autofree char *folder = g_dir_make_tmp("memwall-XXXXXX", NULL);
    stat_file = g_build_filename(folder, "stat", NULL);
    mw_steal_set_path(stat_file);
    g_test_add_func("/steal/read", test_read);
    g_test_add_func("/steal/without-column", test_without_column);
    g_test_add_func("/steal/taken-again", test_taken_again);
    g_test_add_func("/steal/long-first", test_long_first);
    int status = g_test_run();
    g_unlink(stat_file);
    g_rmdir(folder);
    g_free(stat_file);
    return status;
}
