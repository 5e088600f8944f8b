/*
 * plot_rows_data.h - the rows of a sweep as pictures need them, and the scripts of the pictures.
 */
#ifndef MW_REPORT_PLOT_ROWS_DATA_H
#define MW_REPORT_PLOT_ROWS_DATA_H

#include "report/front.h"

#define MW_PLOT_ROWS_AXES 2

/* A row's step time and its range, predicted; and of the steps that a run measured. */
struct mw_plot_pair {
    double predicted_s, predicted_low_s, predicted_high_s;
    double measured_s, measured_low_s, measured_high_s;
};

struct mw_plot_rows {
    char **names;
    guint axis_count;
    GPtrArray *values;           /* of char **: a row's values on the axes */
    bool *varies;                /* [axis_count] whether rows differ on it */
    GArray *rates;               /* double: its tokens/s; NAN: it has none */
    int axes[MW_PLOT_ROWS_AXES]; /* those of numbers that vary, the last one first; -1: none */
    GArray *pairs;               /* struct mw_plot_pair: of the rows that were measured */
    struct mw_front front;
};

static inline const char *
mw_plot_rows_value(const struct mw_plot_rows *table, guint row, guint axis)
{
    return ((char **)table->values->pdata[row])[axis];
}

/* Scripts for mw_plot_draw; `table` is a struct mw_plot_rows. */
char *mw_plot_rows_lines(const void *table, const char *output, bool svg);
char *mw_plot_rows_heat(const void *table, const char *output, bool svg);
char *mw_plot_rows_pareto(const void *table, const char *output, bool svg);
char *mw_plot_rows_measured(const void *table, const char *output, bool svg);

/* Begins a script: terminal, title, borders and tics. */
GString *mw_plot_rows_begin(const char *output, bool svg, const char *title);
void mw_plot_rows_label(GString *script, const char *axis, const char *text);

#endif
