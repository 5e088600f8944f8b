/*
 * csv.h - lines of comma-separated values (RFC 4180), each on one line of the file.
 */
#ifndef MW_BASE_CSV_H
#define MW_BASE_CSV_H

#include <glib.h>
#include <stdio.h>

/* Writes a cell, quoted only where it must be; nothing for NULL. */
void mw_csv_cell_write(FILE *out, const char *text);

/* The cells of a line without its end; NULL where a quoted cell is not closed, or goes on behind
 * its quote.  g_strfreev it. */
char **mw_csv_split(const char *line);

#endif
