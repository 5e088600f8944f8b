/*
 * plot_rows.h - pictures of a sweep, made by gnuplot: lines, a heat map, the Pareto front,
 * measured over predicted step times.
 */
#ifndef MW_REPORT_PLOT_ROWS_H
#define MW_REPORT_PLOT_ROWS_H

#include "report/rows.h"

/* Whether all texts (NULL-terminated; NULL: none) are "KIND:FILE" of a known kind, with files that
 * can be written and whose names end in .png or .svg. */
bool mw_plot_rows_check(const char *const *plots, GError **error);
/* Whether a sweep with so many axes of numbers on which points differ has what the pictures need;
 * `measures`: it makes runs. */
bool mw_plot_rows_check_axes(const char *const *plots, int axes, bool measures, GError **error);
/* Whether these rows can be drawn so. */
bool mw_plot_rows_check_rows(const char *plot, const struct mw_rows *rows, GError **error);
/* Draws one of them. */
bool mw_plot_rows_write(const char *plot, const struct mw_rows *rows, GError **error);

#endif
