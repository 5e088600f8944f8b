/*
 * grid.h - text in aligned columns, two spaces between them.
 *
 * `align` has a letter per column: l left, r right.  Rows may end early; then their last cell is
 * not padded.  Widths count characters, not bytes.
 */
#ifndef MW_REPORT_GRID_H
#define MW_REPORT_GRID_H

#include <glib.h>
#include <stdio.h>

struct mw_grid;

struct mw_grid *mw_grid_new(const char *align);
/* Cells are copied; the list ends with NULL. */
void mw_grid_row(struct mw_grid *grid, ...) G_GNUC_NULL_TERMINATED;
void mw_grid_row_array(struct mw_grid *grid, const char *const *cells);
/* Writes every row after `indent` spaces, and frees the grid; only frees it if `out` is NULL. */
void mw_grid_print(struct mw_grid *grid, FILE *out, int indent);

/* "[####----]": `ratio` of `width` cells is filled; a ratio above 1 fills all. */
const char *mw_grid_bar(double ratio, int width);

#endif
