/*
 * drops.h - layers that are left out of some steps, by a schedule: a block that is left out is the
 * identity (stochastic depth, arXiv 1603.09382; progressive layer dropping, arXiv 2010.13369).
 *
 * As text: "1,3/5-7/-" are three kinds of step in turn; one leaves out layers 1 and 3, one layers 5
 * to 7, one none.  Layers count from 0.  "1,3/-@100" begins with step 100, and steps count from 0.
 */
#ifndef MW_PLANNER_SETTINGS_DROPS_H
#define MW_PLANNER_SETTINGS_DROPS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define MW_DROPS_TURNS_MAX 256

/* False with *error, which names the setting: no such schedule. */
bool mw_drops_check(const char *text, GError **error);
/* The same, of a model: each turn keeps a layer, and drops none that the model does not have. */
bool mw_drops_check_layers(const char *text, int64_t layers, GError **error);

/* Of a schedule that passed. */
uint32_t mw_drops_turns(const char *text);
int64_t mw_drops_first_step(const char *text);
/* [layers] whether a turn leaves it out; g_free it.  NULL: it leaves out none. */
bool *mw_drops_of_turn(const char *text, uint32_t turn, int64_t layers);

#endif
