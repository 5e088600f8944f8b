/*
 * rows.h - rows of many answers, as lines of CSV that a sweep wrote: as JSON, as pictures.
 */
#ifndef MW_REPORT_ROWS_H
#define MW_REPORT_ROWS_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

/* Where rows come from. */
struct mw_rows {
    const char *names; /* the line of names */
    void (*rewind)(void *data);
    char *(*next)(void *data); /* the next row, which the caller frees; NULL: there are no more */
    void *data;
    char **asked; /* "NAME=TEXT": the question that the points set their values of; NULL: unknown */
};

/* Columns that a sweep has before those of an answer. */
#define MW_ROWS_OVER "over." /* before the names of its axes */
#define MW_ROWS_ERROR "error"
#define MW_ROWS_ENGINE "engine_step_time_s" /* of a plan that was estimated */
#define MW_ROWS_MEASURED "measured_"        /* before the names of what a run measured */

/* The number in a cell, true and false being 1 and 0; NAN: it is empty, or no number. */
double mw_rows_number(const char *cell);

/* An object whose "rows" are objects: the axes' values below "over", and the other columns.  An
 * empty cell is null. */
void mw_json_rows_write(FILE *out, const struct mw_rows *rows);

#endif
