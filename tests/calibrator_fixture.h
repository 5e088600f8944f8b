/*
 * calibrator_fixture.h - a calibrator by a clock that goes on only as works say, and whole
 * calibrations of cores.
 */
#ifndef MW_TESTS_CALIBRATOR_FIXTURE_H
#define MW_TESTS_CALIBRATOR_FIXTURE_H

#include "exec/calibrate_internal.h"

/* What the clock says of a calibrator that is open; works add to it what they take. */
extern double calibrator_clock_s;

/* One at a time, with a budget of so many seconds. */
void calibrator_open(struct mw_calibrator *c, double budget_s);
void calibrator_close(struct mw_calibrator *c);

/* Calibrates by the clock clock_s, with these options and a folder of its own for the drive.  What
 * fails ends the test. */
void calibrator_calibrate(const struct mw_calibration_options *options, double (*clock_s)(void),
                          struct mw_calibration *out);

#endif
