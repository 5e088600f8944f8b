/*
 * bound.h - the third closed form, `bound`: what no plan of a question can do without.
 *
 * It is computed from the model's operators and the machine's rates, without a batch, a placement
 * or a sizing, and is never above the engine's step: a search may leave out what it cannot save
 * (docs/MODEL.md 9.19).  Of a step of T tokens on G GPUs in N nodes:
 *
 *   compute   every token's products at the best rate of their kind, and its bytes of memory-bound
 *             operators at theirs, spread evenly over the GPUs; nothing recomputed, no kernel late
 *   update    every trained parameter once, on the GPUs after their compute or on the hosts beside
 *             it, in the shares that end first
 *   drives    what has no room in the memory of GPUs and hosts is read once, and written once if it
 *             is trained
 *
 * The step is at least the longest of the three.
 */
#ifndef MW_STUDY_BOUND_H
#define MW_STUDY_BOUND_H

#include "planner/planner.h"

struct mw_bound {
    double token_gpu_s;                /* of one GPU, for a token */
    double update_gpu_s;               /* of one GPU, for all trained parameters */
    double update_node_s;              /* of the cores of one node; INFINITY: it has none */
    double trained_bytes, other_bytes; /* of parameters with optimizer state, and of frozen ones;
                                        * of the model, kept once */
    double room_bytes[MW_TIER_COUNT];  /* of one GPU, and of one node */
    double read_bytes_per_s, write_bytes_per_s; /* of a node's drives; 0: it has none */
};

/* `settings` are complete (mw_settings_complete) but for their batch and placement. */
void mw_bound_of(const struct mw_request *request, const struct mw_settings *settings,
                 struct mw_bound *out);

/* Seconds of a step of so many tokens on all GPUs; INFINITY: no memory has room for the state. */
double mw_bound_step_s(const struct mw_bound *bound, double tokens, int64_t nodes,
                       int64_t gpus_per_node);
/* Bytes of state for which GPUs, hosts and drives have no room; 0: they may have. */
double mw_bound_short_bytes(const struct mw_bound *bound, int64_t nodes, int64_t gpus_per_node);

#endif
