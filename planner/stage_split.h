/*
 * stage_split.h - where the stages of a pipeline begin, if they need not have as many layers.
 *
 * The split whose slowest stage takes the least time, by dynamic programming over layers and stages
 * (PipeDream, Narayanan et al., SOSP 2019, Sec. 3.1, without replicated stages): the first and the
 * last stage have the ends of the model too, and layers may be unlike.
 */
#ifndef MW_PLANNER_STAGE_SPLIT_H
#define MW_PLANNER_STAGE_SPLIT_H

#include "hardware/hwprofile.h"
#include "model/model.h"
#include "planner/settings/settings.h"

/* The slowest of `stages` stages of neighbouring layers, of which each takes layer_s[i], the first
 * stage head_s more and the last tail_s.  Sets begins[1] to begins[stages - 1], the first layers of
 * all stages but the first.  1 <= stages <= layers. */
double mw_stage_split_find(const double *layer_s, int64_t layers, double head_s, double tail_s,
                           int64_t stages, int64_t *begins);

/* What operators take for a micro-batch, forward and back, and forward once more if `again`, by
 * FLOPs and bytes. */
double mw_stage_operators_s(const struct mw_operator_info *operators, int count, bool again,
                            const struct mw_hardware *hardware);

/* If the settings leave it to the planner, sets where stages begin: by FLOPs and bytes of each
 * layer's forward, backward and recomputation. */
void mw_stage_split_choose(const struct mw_model *model, const struct mw_hardware *hardware,
                           struct mw_settings *settings);

#endif
