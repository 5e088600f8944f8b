/*
 * stage_split.h - where the stages of a pipeline begin, if they need not have as many layers.
 *
 * The split whose slowest stage takes the least time, by dynamic programming over layers and stages
 * (PipeDream, Narayanan et al., SOSP 2019, Sec. 3.1): the first and the last stage have the ends of
 * the model too, and layers may be unlike.
 */
#ifndef MW_PLANNER_STAGE_SPLIT_H
#define MW_PLANNER_STAGE_SPLIT_H

#include "hardware/hwprofile.h"
#include "model/model.h"
#include "planner/settings/settings.h"

/* What stages of neighbouring layers take; stages >= 1, least >= 1. */
struct mw_split_costs {
    int64_t layers, stages;
    int64_t least;       /* layers that each stage has */
    const int64_t *most; /* [stages] and no more than so many, borrowed; NULL: any */
    /* A stage with these layers takes so long, longer with more of them. */
    double (*own_s)(const void *data, int64_t stage, int64_t begin, int64_t end);
    const void *data;
};
/* The slowest stage of the split where that takes the least time; INFINITY: there is none.  Sets
 * begins[1] to begins[stages - 1], the first layers of all stages but the first. */
double mw_split_find(const struct mw_split_costs *costs, int64_t *begins);

/* What operators take for a micro-batch, forward and back, and forward once more if `again`, by
 * FLOPs and bytes. */
double mw_stage_operators_s(const struct mw_operator_info *operators, int count, bool again,
                            const struct mw_hardware *hardware);

/* If the settings leave it to the planner, sets where stages begin: by FLOPs and bytes of each
 * layer's forward, backward and recomputation. */
void mw_stage_split_choose(const struct mw_model *model, const struct mw_hardware *hardware,
                           struct mw_settings *settings);
/* If the planner has chosen where stages begin, and they have no room there: takes the fastest
 * split in which all have.  Batch and placement are set.  False: it is no such choice, or none has
 * room; the settings are as they were. */
bool mw_stage_split_fit(const struct mw_model *model, const struct mw_hardware *hardware,
                        struct mw_settings *settings);

#endif
