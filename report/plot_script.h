/*
 * plot_script.h - gnuplot scripts: for a step, lanes above memory over one time axis; for a run,
 * the predicted lanes above the measured ones of each rank.
 */
#ifndef MW_REPORT_PLOT_SCRIPT_H
#define MW_REPORT_PLOT_SCRIPT_H

#include <glib.h>

#include "report/plot_data.h"
#include "report/run.h"
#include "study/result.h"

#define MW_PLOT_HEIGHT 800 /* pixels, for most pictures */

/* The script writes a picture to `output`, an SVG or a PNG.  g_free it. */
char *mw_plot_script(const struct mw_result *result, const struct mw_plot_data *data,
                     const char *output, bool svg);
/* The same for the measurements of every rank. */
char *mw_plot_script_run(const struct mw_run *run, const char *output, bool svg);

/* Parts of all scripts. */
void mw_plot_append_terminal(GString *script, int height, const char *output, bool svg);
/* A text in quotes. */
void mw_plot_append_quoted(GString *script, const char *text);
void mw_plot_append_title(GString *script, const char *title);
void mw_plot_append_axis(GString *script, double span_s);
/* Lanes as data blocks, whose names begin with `prefix`; then as a panel, with a key for the phases
 * that have no key yet (bits of *keyed). */
void mw_plot_append_phases(GString *script, const struct mw_plot_data *data, const char *prefix);
void mw_plot_append_lanes(GString *script, const struct mw_plot_data *data, const char *prefix,
                          uint32_t *keyed);

#endif
