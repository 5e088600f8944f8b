/*
 * nearest.h - finds the known names that a mistyped name most likely meant.
 */
#ifndef MW_BASE_NEAREST_H
#define MW_BASE_NEAREST_H

#include <stdbool.h>

/* The number of letters to replace, insert, omit, or swap with the next one (optimal string
 * alignment), in bytes and ignoring case.  Only the first 63 bytes of longer names count. */
int mw_name_distance(const char *a, const char *b);

/* Names are near if at most a third of the longer one differs. */
bool mw_name_is_near(const char *name, const char *known);

/* The nearest of `known` (ended by NULL), or several that are equally near: "a", "a or b".  NULL if
 * none is near; g_free. */
char *mw_names_nearest(const char *name, const char *const *known);

/* The few of `known` (ended by NULL) that the name most likely meant, the likeliest first, each
 * prefixed with `before`: "a", "a or b", "a, b or c".  First come the nearest names that are
 * equally near, unless one of the following is nearer; then names that contain the name, or that it
 * contains.  NULL if there are none; g_free. */
char *mw_names_like(const char *name, const char *const *known, const char *before);

#endif
