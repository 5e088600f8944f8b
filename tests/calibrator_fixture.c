#include "tests/calibrator_fixture.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "exec/host/steal.h"

double calibrator_clock_s;

static double
now_s(void)
{
    return calibrator_clock_s;
}

void
calibrator_open(struct mw_calibrator *c, double budget_s)
{
    calibrator_open_ranks(c, NULL, budget_s);
}

void
calibrator_open_ranks(struct mw_calibrator *c, struct mw_ranks *ranks, double budget_s)
{
    static struct mw_calibration_options options;

    options.ranks = ranks;
    *c = (struct mw_calibrator){.options = &options, .backend = &mw_backend_cpu, .rounds = 9};
    g_mutex_init(&c->mutex);
    mw_calibrate_set_clock(now_s);
    mw_steal_set_path("/nonexistent/stat"); /* no time is taken from a clock that is made up */
    mw_calibrate_budget_open(c, budget_s);
}

void
calibrator_close(struct mw_calibrator *c)
{
    mw_calibrate_set_clock(NULL);
    mw_steal_set_path(NULL);
    g_mutex_clear(&c->mutex);
    g_free(c->team);
}

const double calibrator_dims[CALIBRATOR_POINTS] = {64, 96, 128, 192, 256, 384, 512, 768};

double
calibrator_units(const void *state, int point)
{
    return 6 * pow(calibrator_dims[point], 3);
}

double
calibrator_rising(int point)
{
    return 1e12 * calibrator_dims[point] / (calibrator_dims[point] + 200);
}

bool
calibrator_measure(void *data, int point, struct mw_measure *rate, GError **error)
{
    struct calibrator_sizes *sizes = data;
    double typical = sizes->rate(point);

    calibrator_clock_s += sizes->takes_s;
    sizes->taken++;
    if (sizes->slower[point] > 0 && sizes->times[point] != 0) {
        typical /= sizes->slower[point];
        sizes->times[point]--;
    }
    *rate = (struct mw_measure){0.97 * typical, typical, 1.03 * typical, 9, 9, 0};
    return true;
}

struct mw_calibrate_curve
calibrator_begin_curve(struct mw_calibrator *c, struct calibrator_sizes *sizes, bool *contradicts)
{
    GError *error = NULL;

    memset(contradicts, 0, CALIBRATOR_POINTS * sizeof *contradicts);
    mw_calibrate_begin(c, MW_CALIBRATE_PRODUCTS, "sizes", CALIBRATOR_POINTS, &error);
    g_assert_no_error(error);
    c->budget.until_s = c->budget.end_s;
    return (struct mw_calibrate_curve){.points = CALIBRATOR_POINTS,
                                       .dims = calibrator_dims,
                                       .units = calibrator_units,
                                       .measure = calibrator_measure,
                                       .state = sizes,
                                       .what = "sizes",
                                       .again = MW_CALIBRATE_PRODUCTS_AGAIN,
                                       .contradicts = contradicts};
}

void
calibrator_calibrate(const struct mw_calibration_options *options, double (*clock_s)(void),
                     struct mw_calibration *out)
{
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    const char *const directories[] = {directory};
    struct mw_calibration_options with_drive = *options;
    g_autoptr(GError) error = NULL;

    with_drive.directories = directories;
    with_drive.directory_count = 1;
    mw_calibrate_set_clock(clock_s);
    mw_calibrate(&with_drive, out, &error);
    mw_calibrate_set_clock(NULL);
    g_assert_no_error(error);
    g_assert_cmpint(g_rmdir(directory), ==, 0);
}
