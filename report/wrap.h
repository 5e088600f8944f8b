/*
 * wrap.h - lines of prose that keep within a terminal's columns.
 *
 * Lines that go to a file or a pipe stay whole, for grep.
 */
#ifndef MW_REPORT_WRAP_H
#define MW_REPORT_WRAP_H

#include <glib.h>
#include <stdio.h>

/* How many columns a line of `out` may have: those of the terminal, which $COLUMNS overrides; 0: no
 * limit, because `out` is no terminal. */
int mw_wrap_columns(FILE *out);

/* Writes the rest of a line that already has `at` columns, and ends it.  Words beyond `columns` (0:
 * no limit) go to further lines after `indent` spaces; a word that is longer than a line stays
 * whole.  Spaces between words stay as they are. */
void mw_wrap_text(FILE *out, const char *text, int at, int indent, int columns);

/* Writes a list's entry and, two columns after it, its description; below it, if both together are
 * too wide for `out`. */
void mw_wrap_row(FILE *out, const char *row, const char *text);

/* Writes a whole line, within the columns of `out`. */
void mw_wrap_line(FILE *out, int indent, const char *format, ...) G_GNUC_PRINTF(3, 4);

#endif
