/*
 * cuts.h - ZeRO-Offload's argument (arXiv 2101.06840, Sec. 3), and the same over three tiers.
 *
 * A training step is a graph.  Four nodes compute: forward, backward, update and the cast of new
 * parameters to 16 bits.  Five hold state: parameters and gradients in 16 bits (2 bytes each),
 * parameters, momentum and variance in 32 bits (4 bytes each).  Each edge carries the bytes of the
 * state at its end, once per step.  A strategy of offloading cuts the graph in two: its edges
 * between the sides are what the link carries, its state on the one side what the GPU holds.
 *
 * Forward and backward take O(parameters x batch) operations and stay on the GPU (Sec. 3.2); of
 * what is left, every cut that frees memory carries 4 bytes per parameter or more (Sec. 3.3), and
 * one of those that carry no more leaves least on the GPU (Sec. 3.4, Table 1).  All are counted
 * here, none is left out by an argument.
 */
#ifndef MW_STUDY_CUTS_H
#define MW_STUDY_CUTS_H

#include "study/study.h"

enum mw_cut_node {
    MW_CUT_FORWARD,
    MW_CUT_BACKWARD,
    MW_CUT_UPDATE,
    MW_CUT_CAST,
    MW_CUT_P16, /* the first that holds state */
    MW_CUT_G16,
    MW_CUT_P32,
    MW_CUT_M32,
    MW_CUT_V32,
    MW_CUT_NODES
};
const char *mw_cut_node_name(enum mw_cut_node node);
int64_t mw_cut_node_bytes(enum mw_cut_node node); /* of its state, per parameter; 0: it computes */

/* One cut of the graph into GPU and host. */
struct mw_cut {
    bool on_host[MW_CUT_NODES];
    int64_t gpu_bytes, link_bytes; /* held; carried both ways together: per parameter */
};

#define MW_CUTS ((uint32_t)1 << MW_CUT_NODES)
struct mw_cut mw_cut_of(uint32_t hosted); /* bits 1 << enum mw_cut_node */

/* What the cuts of a graph with forward and backward on the GPU come to. */
struct mw_cuts {
    int all, passes_on_gpu;
    int64_t least_link_bytes; /* of those that free memory of the GPU */
    struct mw_cut least[8]; /* the whole GPU, then those that carry no more than that, by memory */
    int least_count;
    struct mw_cut front[8]; /* none other holds less without carrying more */
    int front_count;
};
struct mw_cuts mw_cuts_count(void);

/* --- the model at hand, over three tiers ----------------------------------------------------- */

enum mw_cut_lane {
    MW_CUT_LANE_GPU,
    MW_CUT_LANE_H2D,
    MW_CUT_LANE_D2H,
    MW_CUT_LANE_READ,
    MW_CUT_LANE_WRITE,
    MW_CUT_LANE_HOST, /* the update on its cores */
    MW_CUT_LANE_RANKS,
    MW_CUT_LANES
};
const char *mw_cut_lane_name(enum mw_cut_lane lane);

/* Where nodes are: those that compute on the GPU or the host, state in any tier. */
struct mw_cut_placement {
    enum mw_tier in[MW_CUT_NODES];
    double bytes[MW_TIER_COUNT]; /* of a rank: state, and the activations of the question's plan */
    bool fits;
    double passes_s[MW_CUT_LANES], update_s[MW_CUT_LANES]; /* that each lane is busy */
    double least_s; /* the busiest lane of the passes, and of the update behind them */
    enum mw_cut_lane limit;
};

struct mw_cut_placements {
    struct mw_sizing *sizing; /* whose batch and activations they have; borrowed */
    double params;            /* that are trained, of the model */
    int64_t count, fitting;
    struct mw_cut_placement *front; /* fitting ones, the fastest first: none other is as fast and
                                     * holds as little in each of GPU and host */
    int front_count;
    struct mw_cut_placement named[MW_STRATEGY_COUNT]; /* the fastest of each strategy that fits */
    int named_count;
};

/* `sizing` is that of an answer: its batch, passes and activations are those of all placements. */
struct mw_cut_placements mw_cut_placements_of(struct mw_sizing *sizing,
                                              const struct mw_hardware *hardware);
void mw_cut_placements_clear(struct mw_cut_placements *placements);
/* The strategy that places state in this way, such as "zero-offload"; NULL: none does. */
const char *mw_cut_placement_strategy(const struct mw_cut_placement *placement);

#endif
