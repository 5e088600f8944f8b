/*
 * space.h - many questions: a base question, and axes that set some of its names.
 *
 * An axis is one name with its values, or rows of several names that go together.  The points are
 * all combinations of the axes' rows, in an order that never changes: the last axis goes fastest.
 * A space is filled by one thread; then several may ask it.
 */
#ifndef MW_LIB_SPACE_H
#define MW_LIB_SPACE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/memwall.h"

struct mw_space;

struct mw_space *mw_space_new(void);
void mw_space_free(struct mw_space *space); /* NULL is allowed */

/* Adds an axis: "NAME=V1,V2", with ranges of numbers "LO..HI", "LO..HI:STEP" and "LO..HI:xFACTOR"
 * among the values; semicolons go between values that have commas; "all" is every preset, profile
 * or strategy there is.  Each value is checked as far as it can be alone. */
bool mw_space_add(struct mw_space *space, const char *text, GError **error);
/* Adds an axis from a CSV file: its first line has names, each other line a row of values.  An
 * empty value leaves the name as the question has it. */
bool mw_space_add_file(struct mw_space *space, const char *path, GError **error);

int64_t mw_space_points(const struct mw_space *space);
size_t mw_space_columns(const struct mw_space *space);
const char *mw_space_name(const struct mw_space *space, size_t column);
/* "": the point leaves the name as the question has it. */
const char *mw_space_value(const struct mw_space *space, int64_t point, size_t column);
/* The value of a name at the first point; NULL: no axis has it. */
const char *mw_space_first(const struct mw_space *space, const char *name);

/* Sets a point's values in `question`, a copy of `base`.  False with *error: one is refused. */
bool mw_space_set(const struct mw_space *space, int64_t point, const struct memwall_question *base,
                  struct memwall_question *question, struct memwall_error **error);

/* A text that differs wherever the answers may: by this program's version, the names and values of
 * base and axes, and the contents of files that they name.  g_free it. */
char *mw_space_digest(const struct mw_space *space, const struct memwall_question *base);

#endif
