/*
 * plot_run.h - a picture from a gnuplot script, written whole or not at all.
 */
#ifndef MW_REPORT_PLOT_RUN_H
#define MW_REPORT_PLOT_RUN_H

#include <glib.h>
#include <stdbool.h>

/* A script that draws `data` into the file `output`.  g_free it. */
typedef char *(*mw_plot_script_of)(const void *data, const char *output, bool svg);

/* Whether the name of a picture ends in .svg, or else in .png; false with *error: in neither. */
bool mw_plot_format(const char *path, bool *svg, GError **error);

/* Runs gnuplot; errors name the path and the reason that it gives. */
bool mw_plot_draw(const char *path, mw_plot_script_of script_of, const void *data, GError **error);

#endif
