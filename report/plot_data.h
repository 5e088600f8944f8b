/*
 * plot_data.h - a timeline reduced to what a picture can show, as gnuplot data blocks.
 */
#ifndef MW_REPORT_PLOT_DATA_H
#define MW_REPORT_PLOT_DATA_H

#include <glib.h>
#include <stdbool.h>

#include "plan/plan.h"

/* More boxes than this are drawn as bars instead: one bar per column of time, as high as the share
 * of it in which the lane was busy. */
#define MW_PLOT_BOXES_MAX 4000
#define MW_PLOT_COLUMNS 700

struct mw_plot_data {
    GString *boxes[MW_PHASE_COUNT]; /* rows "x y xlow xhigh ylow yhigh", x in seconds; may be "" */
    GString *lane_ticks;            /* "'name' y, ..."; the first lane on top */
    int lanes;
    bool bars;
    GString *memory[MW_TIER_COUNT]; /* rows "x percent-of-capacity"; "" for a tier not in use */
    double memory_percent_max;
    double span_s;
};

/* Rank 0 of a plan that has a timeline.  Free with mw_plot_data_clear. */
void mw_plot_data_init(struct mw_plot_data *data, const struct mw_plan *plan,
                       const struct mw_timeline *timeline);
void mw_plot_data_clear(struct mw_plot_data *data);

#endif
