/*
 * fits.h - whether settings of one placement fit, and the largest number of something that fits;
 * searches ask this thousands of times.
 */
#ifndef MW_PLANNER_FITS_H
#define MW_PLANNER_FITS_H

#include "planner/planner.h"

/* Whether the bytes that tiles and chunks cannot reduce already exceed the memory. */
bool mw_fits_in_no_parts(const struct mw_sizing *sizing, const struct mw_settings *asked);

/* Whether mw_planner_size_placement would find room, but faster: a committed step never needs less,
 * and most placements that lack room lack it with any number of tiles and chunks. */
bool mw_fits_in_some_parts(const struct mw_request *request, const struct mw_settings *settings);

typedef bool (*mw_fits_number)(const struct mw_request *request, const struct mw_settings *settings,
                               int64_t number);

/* The largest number up to `most` that fits, searched upwards from a guess that similar placements
 * share; 0: none fits. */
int64_t mw_fits_largest(const struct mw_request *request, const struct mw_settings *settings,
                        mw_fits_number fit, int64_t guess, int64_t most);

#endif
