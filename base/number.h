/*
 * number.h - a number that a user typed: decimal, and within a range that the refusal names.
 */
#ifndef MW_BASE_NUMBER_H
#define MW_BASE_NUMBER_H

#include <glib.h>
#include <stdbool.h>

struct mw_number {
    const char *name; /* name of the setting */
    double min, max;
    bool whole;
    bool joined;       /* its value follows "=" */
    bool plain;        /* likewise, and the name is no setting: a column of a file */
    bool counts;       /* the suffix k, M, B or T may follow, as in printed counts; in either
                        * case */
    const char *unit;  /* unit that may follow; NULL: none */
    const char *noun;  /* what the number must be; NULL: "number", or "whole number" */
    const char *or_as; /* follows the range in a refusal: ", or auto"; NULL: nothing */
};

/* Returns the text after the number that `text` begins with, or NULL if it does not begin with one.
 * strtod also accepts blanks, 0x10, nan, and numbers that no double holds. */
const char *mw_number_scan(const char *text, double *value);

/* Returns false with a line that names setting, text and range. */
bool mw_number_read(const struct mw_number *number, const char *text, double *value,
                    GError **error);

#endif
