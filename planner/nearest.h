/*
 * nearest.h - of known names the one that a mistyped name most likely meant.
 */
#ifndef MW_PLANNER_NEAREST_H
#define MW_PLANNER_NEAREST_H

#include <stdbool.h>

/* How many letters to replace, insert, leave out, or swap with the next one (optimal string
 * alignment), in bytes; of longer names the first 63 bytes count. */
int mw_name_distance(const char *a, const char *b);

/* Names are near if at most a third of the longer one differs. */
bool mw_name_is_near(const char *name, const char *known);

/* The nearest of `known` (ended by NULL), the first of several; NULL if none is near. */
const char *mw_name_nearest(const char *name, const char *const *known);

#endif
