/*
 * wrap.h - lines of prose that keep within a terminal's columns.
 *
 * What goes to a file or a pipe stays whole, for grep.
 */
#ifndef MW_REPORT_WRAP_H
#define MW_REPORT_WRAP_H

#include <glib.h>
#include <stdio.h>

/* How many columns a line of `out` may have: those of the terminal, which $COLUMNS may set; 0: it
 * is none, and a line may have any. */
int mw_wrap_columns(FILE *out);

/* Writes the rest of a line that has `at` columns by now, and ends it.  What is beyond `columns`
 * (0: nothing is) goes to further lines, behind `indent` spaces; breaks are between words, of which
 * one that is longer stays whole.  Spaces within stay. */
void mw_wrap_text(FILE *out, const char *text, int at, int indent, int columns);

/* Writes a row of a list and, two columns behind it, what is said of it: below, where the two have
 * too many columns for `out`. */
void mw_wrap_row(FILE *out, const char *row, const char *text);

/* Writes a whole line, within the columns of `out`. */
void mw_wrap_line(FILE *out, int indent, const char *format, ...) G_GNUC_PRINTF(3, 4);

#endif
