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

#endif
