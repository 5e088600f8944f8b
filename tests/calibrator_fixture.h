/*
 * calibrator_fixture.h - a calibrator whose clock advances only as works say, and whole
 * calibrations of cores.
 */
#ifndef MW_TESTS_CALIBRATOR_FIXTURE_H
#define MW_TESTS_CALIBRATOR_FIXTURE_H

#include "calibrate/internal.h"

/* What the clock says of a calibrator that is open; works add to it what they take. */
extern double calibrator_clock_s;

/* One at a time, with a budget of so many seconds; ranks may be NULL. */
void calibrator_open_ranks(struct mw_calibrator *c, struct mw_ranks *ranks, double budget_s);
void calibrator_open(struct mw_calibrator *c, double budget_s);
void calibrator_close(struct mw_calibrator *c);

/* Sizes of products, some slower than they should be. */
enum { CALIBRATOR_POINTS = 8 };
struct calibrator_sizes {
    double (*rate)(int point);
    double slower[CALIBRATOR_POINTS]; /* a point is, by so much; 0: it is not */
    int times[CALIBRATOR_POINTS];     /* how often; -1: always */
    double takes_s;                   /* a measure */
    int taken;
};

extern const double calibrator_dims[CALIBRATOR_POINTS];
double calibrator_units(const void *state, int point);
/* The larger, the less there is to lose: as of products. */
double calibrator_rising(int point);

/* As a curve measures a point: sizes->rate, with a range of 3% to both sides. */
bool calibrator_measure(void *sizes, int point, struct mw_measure *rate, GError **error);

/* A curve of them, of which none is measured yet, in a part of c that has all the time. */
struct mw_calibrate_curve calibrator_begin_curve(struct mw_calibrator *c,
                                                 struct calibrator_sizes *sizes, bool *contradicts);

/* Calibrates by the clock clock_s, with these options and a folder of its own for the drive.  What
 * fails ends the test. */
void calibrator_calibrate(const struct mw_calibration_options *options, double (*clock_s)(void),
                          struct mw_calibration *out);

#endif
