/*
 * check_strategy.h - whether settings leave a strategy what it is named for, by the traits of its
 * row.
 */
#ifndef MW_PLANNER_CHECK_STRATEGY_H
#define MW_PLANNER_CHECK_STRATEGY_H

#include "planner/settings/settings.h"

/* Refuses what the strategy cannot have, and what contradicts its name while another strategy does
 * all that is asked: the line names it.  `s` is complete but for its placements. */
bool mw_settings_check_strategy(const struct mw_settings *s, GError **error);

/* Whether a state is placed below all that the strategy's name says. */
bool mw_settings_is_below_strategy(const struct mw_settings *s, enum mw_state state);

#endif
