/* Measured over predicted step times, each with its range, around the line where both are equal. */
#include <math.h>
#include <stdlib.h>

#include "base/format.h"
#include "report/plot_rows_data.h"
#include "report/plot_script.h"

#define BAND 0.2   /* on both sides of that line */
#define MARGIN 1.3 /* factor between the outermost figure and the border */
#define FAR 4.0    /* factor between a point and what is shown of its range at least */
#define COLOR "#0072b2"

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* |predicted - measured| / measured. */
static double
median_error(const GArray *pairs)
{
    g_autofree double *errors = g_new(double, pairs->len);

    for (guint i = 0; i < pairs->len; i++) {
        const struct mw_plot_pair *pair = &g_array_index(pairs, struct mw_plot_pair, i);
        errors[i] = fabs(pair->predicted_s / pair->measured_s - 1);
    }
    qsort(errors, pairs->len, sizeof *errors, compare);
    return (errors[(pairs->len - 1) / 2] + errors[pairs->len / 2]) / 2;
}

/* Both axes go as far, so that the line of equal times is a diagonal.  A range that goes far beyond
 * its point is cut off there. */
static void
append_range(GString *script, const GArray *pairs)
{
    double least = INFINITY, most = 0;

    for (guint i = 0; i < pairs->len; i++) {
        const struct mw_plot_pair *pair = &g_array_index(pairs, struct mw_plot_pair, i);
        double low_s = fmax(pair->predicted_low_s, pair->predicted_s / FAR);
        double high_s = fmin(pair->predicted_high_s, pair->predicted_s * FAR);
        least = fmin(least, fmin(low_s, pair->measured_low_s));
        most = fmax(most, fmax(high_s, pair->measured_high_s));
    }
    g_autofree char *low = g_strdup(mw_format_exact(least / MARGIN));
    g_autofree char *high = g_strdup(mw_format_exact(most * MARGIN));
    g_string_append_printf(script, "set logscale xy\nset xrange [%s:%s]\nset yrange [%s:%s]\n", low,
                           high, low, high);
}

static void
append_pairs(GString *script, const GArray *pairs)
{
    g_string_append(script, "$pairs << EOD\n");
    for (guint i = 0; i < pairs->len; i++) {
        const struct mw_plot_pair *pair = &g_array_index(pairs, struct mw_plot_pair, i);
        const double columns[] = {pair->predicted_s,     pair->measured_s,
                                  pair->predicted_low_s, pair->predicted_high_s,
                                  pair->measured_low_s,  pair->measured_high_s};
        for (size_t c = 0; c < G_N_ELEMENTS(columns); c++)
            g_string_append_printf(script, "%s ", mw_format_exact(columns[c]));
        g_string_append_c(script, '\n');
    }
    g_string_append(script, "EOD\n");
}

char *
mw_plot_rows_measured(const void *data, const char *output, bool svg)
{
    const GArray *pairs = ((const struct mw_plot_rows *)data)->pairs;
    g_autofree char *title =
        g_strdup_printf("step time, predicted and measured: %s apart in the median of %u",
                        mw_format_percent(median_error(pairs)), pairs->len);
    GString *script = mw_plot_rows_begin(output, svg, title);

    mw_plot_rows_label(script, "x", "predicted step time (s)");
    mw_plot_rows_label(script, "y", "measured step time (s)");
    g_string_append(script, "set grid lc rgb '#dddddd' lt 1\nset key outside right top\n");
    append_range(script, pairs);
    append_pairs(script, pairs);
    g_string_append_printf(
        script,
        "plot '+' using 1:($1*%g):($1*%g) with filledcurves fc rgb '#eeeeee' title 'within "
        "%g%%', "
        "\\\n     x with lines lw 1 lc rgb '#666666' title 'as predicted', \\\n"
        "     $pairs using 1:2:3:4:5:6 with xyerrorbars pt 7 ps 0.6 lw 1 lc rgb '" COLOR
        "' title 'points'\nunset output\n",
        1 - BAND, 1 + BAND, 100 * BAND);
    return g_string_free(script, FALSE);
}
