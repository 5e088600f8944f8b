/*
 * nearest.h - of known names those that a mistyped name most likely meant.
 */
#ifndef MW_BASE_NEAREST_H
#define MW_BASE_NEAREST_H

#include <stdbool.h>

/* How many letters to replace, insert, leave out, or swap with the next one (optimal string
 * alignment), in bytes, whatever their case; of longer names the first 63 bytes count. */
int mw_name_distance(const char *a, const char *b);

/* Names are near if at most a third of the longer one differs. */
bool mw_name_is_near(const char *name, const char *known);

/* The nearest of `known` (ended by NULL), all of those that are equally near: "a", "a or b".  NULL
 * if none is near; g_free. */
char *mw_names_nearest(const char *name, const char *const *known);

/* The few of `known` (ended by NULL) that the name most likely meant, the likeliest first, each
 * with `before` in front: "a", "a or b", "a, b or c".  They are the nearest, all of those that are
 * equally near, and behind them those that have the name as a part or are a part of it, though no
 * nearest one that is farther away than one of these.  NULL if there are none; g_free. */
char *mw_names_like(const char *name, const char *const *known, const char *before);

#endif
