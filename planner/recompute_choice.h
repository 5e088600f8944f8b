/* recompute_choice.h - which layers are recomputed, where they are unlike. */
#ifndef MW_PLANNER_RECOMPUTE_CHOICE_H
#define MW_PLANNER_RECOMPUTE_CHOICE_H

#include "planner/planner.h"

/* Of a sizing that fits and recomputes all layers: the choices of layers to which none can be added
 * that keeps its activations too, those that save most by their operators alone first.  Empty where
 * layers are alike, and in pipelines.  Owns its sizings. */
GPtrArray *mw_planner_recompute_choices(const struct mw_request *request,
                                        const struct mw_settings *asked,
                                        const struct mw_sizing *all);

/* Sets beside how many layers whose activations leave so many are recomputed: evenly among them, as
 * one that is recomputed leaves the link time for its neighbours.  With all of them no checkpoint
 * is of activations; layers beyond MW_LAYER_SET_MAX are not named, but are the last ones.  False:
 * the number has no plan of these settings. */
bool mw_planner_recompute_evenly(struct mw_settings *settings, int64_t layers, int64_t again);

#endif
