/* evaluate.h - one sizing, one machine: plan, costs, engine, closed forms. */
#ifndef MW_STUDY_EVALUATE_H
#define MW_STUDY_EVALUATE_H

#include "planner/planner.h"
#include "sim/closed_form.h"
#include "sim/engine.h"

double mw_tokens_per_step(const struct mw_sizing *sizing); /* all GPUs */
/* FLOPs per rank and step.  Of the model: products in forward, and twice as many in backward,
 * however they are computed (PaLM, arXiv 2204.02311, App. B).  Done: recomputed layers and the
 * scores that flash attention forms again in backward count too. */
double mw_flops_of_model(const struct mw_sizing *sizing);
double mw_flops_done(const struct mw_sizing *sizing);
/* FLOP/s in the plan's data type: the datasheet's peak, to which MFU refers, and what whole layers
 * reach by the profile. */
double mw_peak_flops(const struct mw_plan *plan, const struct mw_hardware *hardware);
double mw_layers_flops(const struct mw_plan *plan, const struct mw_hardware *hardware);
/* FLOP/s of whole layers without communication, to which efficiency refers: the profile's figure,
 * or what the plan's own compute reaches if that is more (with long sequences attention's products
 * are larger than those measured for the profile).  No step is faster. */
double mw_achievable_flops(const struct mw_plan *plan, const struct mw_hardware *hardware);

void mw_closed_form_of(const struct mw_sizing *sizing, const struct mw_hardware *hardware,
                       struct mw_closed_form *out);
/* Of the stage of a pipeline whose form is the longest; `first` is the first. */
void mw_closed_form_of_slowest(const struct mw_sizing *first, const struct mw_hardware *hardware,
                               struct mw_closed_form *form);
void mw_closed_rates_of(const struct mw_sizing *sizing, const struct mw_hardware *hardware,
                        struct mw_closed_rates *out);
/* The terms of `plan` with transfers beside compute: the slowest of both passes and of the update.
 * It accounts for tiles, and ranks plans at no cost. */
double mw_estimate_s(const struct mw_sizing *sizing, const struct mw_hardware *hardware);

/* Of a closed form's terms: seconds of the slowest way by which parameters come to the GPU. */
double mw_fetch_s(const double *terms);

/* Both passes, which compute for own_s, beside activations that leave in forward and come back in
 * backward, each way in so many seconds; backward computes `again` of forward once more. */
double mw_passes_beside_leaving_s(double own_s, double again, double each_way_s);

/* What that estimate is made of, for one stage of a pipeline or a whole model, with overlap. */
struct mw_step_parts {
    double own_s;     /* operators, slicing and exchanges of experts, of all micro-batches */
    double compute_s; /* and what else the GPU computes, or lends: no less */
    double lanes_s;   /* the busiest of the other lanes, or passes beside activations that leave */
    double passes_s;  /* forward and backward: the longer of both */
    double after_s;   /* gradients that are reduced behind them */
    double update_s;
    double update_sm_s; /* of the multiprocessors, in the update; */
    double drives_s;    /* of the drives, in passes and update */
};
void mw_step_parts_of(const struct mw_sizing *sizing, const struct mw_hardware *hardware,
                      struct mw_step_parts *out);

/* The same of a sizing on a machine and on others that differ from it in a few figures, with the
 * bits of mw_estimate_s: what the figures do not enter is computed once.  It borrows the sizing. */
struct mw_estimate;
struct mw_estimate *mw_estimate_new(const struct mw_sizing *sizing,
                                    const struct mw_hardware *machine);
const struct mw_sizing *mw_estimate_sizing(const struct mw_estimate *estimate);
double mw_estimate_own_s(const struct mw_estimate *estimate); /* on that machine */
double mw_estimate_on_s(const struct mw_estimate *estimate, const struct mw_hardware *other);
void mw_estimate_free(struct mw_estimate *estimate); /* NULL is allowed */

#endif
