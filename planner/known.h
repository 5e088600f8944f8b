/*
 * known.h - what the thread has found out of settings on a machine, for when it is asked again: a
 * search meets the same placements with every strategy that divides states alike, and an answer
 * searches several times.
 */
#ifndef MW_PLANNER_KNOWN_H
#define MW_PLANNER_KNOWN_H

#include "planner/planner.h"

enum mw_known_verdict { MW_KNOWN_NOT, MW_KNOWN_FITS, MW_KNOWN_DOES_NOT_FIT };

struct mw_known {
    enum mw_known_verdict in_some_parts; /* mw_fits_in_some_parts */
    struct mw_settings *placed; /* of mw_planner_size_placement, which fits; NULL: not known */
    /* Of the step, by a plan that says once what repeats (0: nothing does, or not exactly), and by
     * one that says all; less than 0: not known. */
    double folded_step_s, flat_step_s;
};

/* What is known of these settings: all that decides is compared, but for the strategy what its row
 * partitions.  Nothing, if they are new, or were forgotten for others.  It is there until the
 * thread asks for others. */
struct mw_known *mw_known_of(const struct mw_model *model, const struct mw_hardware *hardware,
                             const struct mw_settings *settings);
void mw_known_keep_placed(struct mw_known *known, const struct mw_sizing *sizing);

#endif
