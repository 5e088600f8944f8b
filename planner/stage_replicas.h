/*
 * stage_replicas.h - stages of a pipeline that have unlike numbers of replicas: PipeDream's planner
 * (Narayanan et al., SOSP 2019, Sec. 3.1).  Replicas of a stage take micro-batches in turn
 * (round robin, Sec. 3.2) and sum up their gradients.  A closed form, without what ranks wait for
 * each other; plans have stages of given replicas.
 */
#ifndef MW_PLANNER_STAGE_REPLICAS_H
#define MW_PLANNER_STAGE_REPLICAS_H

#include "hardware/hwprofile.h"
#include "model/model.h"
#include "planner/settings/settings.h"

struct mw_stage_costs {
    int64_t layers;
    double *layer_s;                /* [layers]: of a micro-batch forward and back */
    int64_t *layer_bytes;           /* [layers]: gradients */
    double head_s, tail_s;          /* what the first stage has beside layers, and the last one */
    int64_t head_bytes, tail_bytes; /* gradients of these */
    double hop_s;                   /* what a micro-batch takes between two stages, both ways */
    double bytes_per_s;             /* at which gradients pass around the replicas of a stage */
};

struct mw_replicated_stages {
    int count;
    int64_t begins[MW_REPLICATED_STAGES_MAX], replicas[MW_REPLICATED_STAGES_MAX];
    double micro_batch_s; /* of the slowest stage or hop: the steady state's */
};

/* What layers [begin, end) take for each micro-batch on so many replicas: the longer of the work of
 * one of m micro-batches, and the sum of m gradients of w bytes, 2 (m - 1) / m w / B, a ring's part
 * of the paper's 2 (m - 1) w / B; both by m. */
double mw_stage_replicated_s(const struct mw_stage_costs *costs, int64_t begin, int64_t end,
                             int64_t replicas);

/* The fastest division over at most so many GPUs, or sets of slices.  1 <= gpus. */
void mw_stage_replicas_find(const struct mw_stage_costs *costs, int64_t gpus,
                            struct mw_replicated_stages *out);

/* Where stages of given replicas begin so that the slowest of them takes the least time; returns
 * that.  Sets begins[1] to begins[stages - 1].  As many layers as stages, or more. */
double mw_stage_replicas_split(const struct mw_stage_costs *costs,
                               const struct mw_stage_replicas *replicas, int64_t *begins);
/* The same of a model, if its stages have replicas that take turns and the settings leave it to the
 * planner. */
void mw_stage_replicas_choose(const struct mw_model *model, const struct mw_hardware *hardware,
                              struct mw_settings *settings);

/* Finds the fastest division of a model over all GPUs, or sets of slices; returns the share that it
 * takes of the time of a micro-batch with the settings' own stages of one stretch. */
double mw_stage_replicas_gain(const struct mw_model *model, const struct mw_hardware *hardware,
                              const struct mw_settings *settings, struct mw_replicated_stages *out);

#endif
