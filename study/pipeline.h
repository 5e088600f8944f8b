/*
 * pipeline.h - the closed form of a step in pipeline stages, and what no such step can do without.
 *
 * The step is that of the slowest stage, with the passes of one micro-batch in all other stages
 * (the bubble), the ways of activations and gradients between stages, and what follows backward
 * (docs/MODEL.md 9.20).  One stage alone is the estimate of 9.17.
 */
#ifndef MW_STUDY_PIPELINE_H
#define MW_STUDY_PIPELINE_H

#include "planner/planner.h"

/* Seconds of a step; `first` has all stages of its pipeline, or those that are distinct
 * (mw_sizing_new_distinct), and overlap. */
double mw_pipeline_s(const struct mw_sizing *first, const struct mw_hardware *hardware);

/* What stages compute, wherever their states are kept: of each micro-batch so many seconds, more
 * with the share of the layers that is recomputed. */
struct mw_pipeline_compute {
    double kept_s, recomputed_s;  /* with nothing recomputed, and with all layers */
    double away_s[MW_TIER_COUNT]; /* passes, if all activations leave for this tier; 0: unknown */
    int64_t layers, stages;       /* of a stage, and so many of them are like it */
};
#define MW_PIPELINE_KINDS 4 /* the first stage, two numbers of layers, the last stage */

struct mw_pipeline_floor {
    struct mw_pipeline_compute of[MW_PIPELINE_KINDS];
    int count;
    double hop_s; /* of what stages hand on, one way */
};

/* Of `settings` it takes ranks, shape, micro-batches and schedule; with those of one stretch also
 * what activations take that leave, if `leave`.  For a model whose layers are alike; false with
 * *error: it makes no sense. */
bool mw_pipeline_floor_of(const struct mw_model *model, const struct mw_hardware *hardware,
                          const struct mw_settings *settings, bool leave,
                          struct mw_pipeline_floor *out, GError **error);
/* What a stage takes beside that, at least: of the compute lane and of the busiest other lane, all
 * micro-batches, and behind the passes. */
struct mw_pipeline_beside {
    double compute_s, lanes_s, behind_s;
};
/* The order in which micro-batches pass stages. */
struct mw_pipeline_order {
    int64_t stages, micro_batches;
    double first_share; /* of the layers, that the first stretches of all stages have */
    bool one_by_one;    /* one forward, one backward, of one stretch */
};
struct mw_pipeline_order mw_pipeline_order_of(const struct mw_settings *settings, int64_t layers,
                                              int64_t micro_batches);
/* Never above mw_pipeline_s of the same model, shape, micro-batches and schedule.  `recomputed`:
 * layers of each stage, in checkpoints of any number.  `away`: the tier of all activations, if it
 * is not the GPU.  `beside`: of each kind of stage; NULL: nothing. */
double mw_pipeline_floor_s(const struct mw_pipeline_floor *floor, struct mw_pipeline_order order,
                           int64_t recomputed, enum mw_tier away,
                           const struct mw_pipeline_beside *beside);

#endif
