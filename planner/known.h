/*
 * known.h - what the thread has found out of settings on a machine, for when it is asked again: a
 * search meets the same placements with every strategy that divides states alike, and an answer
 * searches several times.
 */
#ifndef MW_PLANNER_KNOWN_H
#define MW_PLANNER_KNOWN_H

#include "planner/planner.h"

/* All that decides of settings on a machine: models and machines by the numbers that the thread
 * gives them, and the strategy as what its row partitions.  All its bytes are set. */
struct mw_known_key {
    int64_t model, machine;
    struct mw_settings settings;
};
void mw_known_key_init(struct mw_known_key *key, const struct mw_request *request,
                       const struct mw_settings *settings);

/* mw_fits_in_some_parts; false: not known. */
bool mw_known_fits(const struct mw_known_key *key, bool *fits);
void mw_known_keep_fits(const struct mw_known_key *key, bool fits);

/* The settings of mw_planner_size_placement, which fit; false: not known. */
bool mw_known_placed(const struct mw_known_key *key, struct mw_settings *placed);
void mw_known_keep_placed(const struct mw_known_key *key, const struct mw_sizing *sizing);

#endif
