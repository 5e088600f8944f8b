/* evaluate.h - one sizing, one machine: plan, costs, engine, closed forms. */
#ifndef MW_STUDY_EVALUATE_H
#define MW_STUDY_EVALUATE_H

#include "planner/planner.h"
#include "sim/closed_form.h"
#include "sim/engine.h"

/* Runs the engine on a checked plan.  It refuses, with `result` empty, a plan that would take the
 * machine decades, or that needs something the machine lacks. */
bool mw_evaluate_plan(const struct mw_plan *plan, const struct mw_hardware *hardware,
                      bool keep_timeline, struct mw_engine_result *result, GError **error);
/* The step of a pipeline with many micro-batches, to the ns, by a plan with fewer and the time of
 * those that it lacks, which are alike; 0 if that cannot be said exactly. */
double mw_step_by_few_s(const struct mw_sizing *sizing);
/* Steady step time in seconds, INFINITY if the engine refuses; `uncontended` removes the limits of
 * all channels (the longest path). */
double mw_step_s(const struct mw_plan *plan, const struct mw_hardware *hardware, bool uncontended);

/* Steps that were simulated, by plan and costs: machines that cost a plan the same are simulated
 * once.  It borrows the plans.  As an argument of the functions below NULL is allowed: nothing is
 * known, or kept. */
struct mw_known_steps;
struct mw_known_steps *mw_known_steps_new(void);
void mw_known_steps_free(struct mw_known_steps *known); /* NULL is allowed */
/* As mw_evaluate_plan. */
bool mw_known_evaluate(struct mw_known_steps *known, const struct mw_plan *plan,
                       const struct mw_hardware *hardware, bool keep_timeline,
                       struct mw_engine_result *result, GError **error);
double mw_known_step_s(struct mw_known_steps *known, const struct mw_plan *plan,
                       const struct mw_hardware *hardware, bool uncontended);
/* The mean over the cycle of variants that goes on for ever. */
double mw_cycle_s(struct mw_known_steps *known, const struct mw_variants *variants,
                  const struct mw_hardware *hardware, bool uncontended);

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
