#include "tests/calibrator_fixture.h"

#include <glib/gstdio.h>

double calibrator_clock_s;

static double
now_s(void)
{
    return calibrator_clock_s;
}

void
calibrator_open(struct mw_calibrator *c, double budget_s)
{
    static const struct mw_calibration_options options = {0};

    *c = (struct mw_calibrator){.options = &options, .backend = &mw_backend_cpu, .rounds = 9};
    g_mutex_init(&c->mutex);
    mw_calibrate_set_clock(now_s);
    mw_calibrate_budget_open(c, budget_s);
}

void
calibrator_close(struct mw_calibrator *c)
{
    mw_calibrate_set_clock(NULL);
    g_mutex_clear(&c->mutex);
    g_free(c->team);
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
