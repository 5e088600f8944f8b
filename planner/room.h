/*
 * room.h - whether settings of one placement have room, and the most of something that has: what
 * searches ask thousands of times.
 */
#ifndef MW_PLANNER_ROOM_H
#define MW_PLANNER_ROOM_H

#include "planner/planner.h"

/* What tiles and chunks cannot cut is more than there is. */
bool mw_room_is_hopeless(const struct mw_sizing *sizing, const struct mw_settings *asked);

/* Whether mw_planner_size finds room, at less cost: a committed step never needs less, and most
 * placements that lack room do so in any number of tiles and chunks. */
bool mw_room_fits(const struct mw_request *request, const struct mw_settings *settings);

typedef bool (*mw_room_fit)(const struct mw_request *request, const struct mw_settings *settings,
                            int64_t number);

/* The largest number up to `most` that fits, searched upwards from a guess, which placements that
 * are much alike share; 0 if none does. */
int64_t mw_room_largest(const struct mw_request *request, const struct mw_settings *settings,
                        mw_room_fit fit, int64_t guess, int64_t most);

#endif
