/*
 * plot_script.h - the gnuplot script of a plot: two panels over one time axis.
 */
#ifndef MW_REPORT_PLOT_SCRIPT_H
#define MW_REPORT_PLOT_SCRIPT_H

#include <glib.h>

#include "report/plot_data.h"
#include "report/result.h"

/* The script writes a picture to `output`, an SVG or a PNG.  g_free it. */
char *mw_plot_script(const struct mw_result *result, const struct mw_plot_data *data,
                     const char *output, bool svg);

#endif
