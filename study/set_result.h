/* set_result.h - sets the fields of an answer's result from a sizing, a plan and a timeline. */
#ifndef MW_STUDY_SET_RESULT_H
#define MW_STUDY_SET_RESULT_H

#include "sim/engine.h"
#include "study/evaluate.h"
#include "study/study.h"

/* Sets what the answer has of the machine's profile and of the software's. */
void mw_result_set_profiles(const struct mw_question *question, struct mw_result *r);
/* Sets identity, settings, ledger, notes and verdict; `strategy` is the requested one. */
void mw_result_set_sizing(const struct mw_question *question, enum mw_strategy strategy,
                          const struct mw_answer *answer);
/* Sets memory over the step, for an answer without speed.  Takes ownership of the engine's
 * timeline. */
void mw_result_set_layout(struct mw_answer *answer, struct mw_engine_result *engine);
/* Sets step time and all that follows from it, to the requested depth.  Takes ownership of the
 * engine's timeline. */
void mw_result_set_simulation(const struct mw_question *question, struct mw_answer *answer,
                              enum mw_depth depth, struct mw_engine_result *engine);

/* How far the figures' ranges reach together, as independent errors, of how far they reach all at
 * one end: by estimates of the step with one figure after the other at its end.  `estimate` is of
 * the question's typical machine. */
double mw_independent_part(const struct mw_question *question, const struct mw_estimate *estimate,
                           enum mw_outlook outlook);
/* The same by any time of a step, which is `typical_s` on the question's typical machine. */
double mw_independent_part_of(const struct mw_question *question, enum mw_outlook outlook,
                              double (*step_s)(const void *data,
                                               const struct mw_hardware *hardware),
                              const void *data, double typical_s);

/* Sets all notes, including those of the two functions below. */
void mw_result_set_start(const struct mw_sizing *sizing, struct mw_result_start *start);
void mw_result_set_notes(const struct mw_question *question, enum mw_strategy strategy,
                         const struct mw_answer *answer);

/* Notes on keys of the profile that were set and have no effect on this plan. */
void mw_note_keys(const struct mw_question *question, const struct mw_sizing *sizing,
                  GPtrArray *notes);

/* Notes on requested settings that have no effect on this plan, or leave out what its strategy is
 * named for. */
void mw_note_idle(const struct mw_settings *asked, const struct mw_sizing *sizing,
                  GPtrArray *notes);

/* Notes on what a DeepSpeed file, read or written, asks for and the plan does differently. */
void mw_note_deepspeed(const struct mw_question *question, enum mw_strategy asked,
                       const struct mw_sizing *sizing, GPtrArray *notes);

/* Seconds of a save (--save-every) that waits for the end of its step; 0: there is no such save. */
double mw_save_s(const struct mw_sizing *sizing);

/* --- from a plan alone ------------------------------------------------------------------------ */

/* Sets the bottleneck, and the latency of collectives. */
void mw_result_set_bottleneck(const struct mw_plan *plan, const struct mw_hardware *hw,
                              const struct mw_engine_result *engine, struct mw_result *r);
/* Sets these and the channels; also lanes and phases, if the engine kept its timeline. */
void mw_result_set_use(const struct mw_plan *plan, const struct mw_hardware *hw,
                       const struct mw_engine_result *engine, struct mw_result *r);
/* Sets drive traffic and life; saves write `saved_bytes` per step and rank.  Reads r->nodes. */
void mw_result_set_drives(const struct mw_plan *plan, const struct mw_hardware *hw,
                          int64_t saved_bytes, struct mw_result *r);
/* Sets the same for an answer, and days, cost and energy of a training (--tokens). */
void mw_result_set_costs(const struct mw_question *question, const struct mw_answer *answer);
/* Only days, cost and energy. */
void mw_result_set_training(const struct mw_question *question, const struct mw_answer *answer);
/* What the owner of the question's machine pays for electricity: as its profile says, else as is
 * usual. */
struct mw_electricity mw_electricity_of(const struct mw_question *question);
/* What a day on so many nodes costs at least, without wear: the rent, or an owner's share of the
 * price and electricity; NAN: no price is known. */
double mw_usd_per_day(const struct mw_question *question, int64_t nodes);
/* What has to be paid at least for so many days on them: the rent, or the price of all nodes and
 * electricity; NAN: no price is known. */
double mw_pay_usd(const struct mw_question *question, int64_t nodes, double days);
/* Sets the times of a cycle's steps, of which the first takes `first_s`, and returns their mean. */
double mw_result_set_cycle(const struct mw_answer *answer, const struct mw_hardware *hw,
                           double first_s);
/* Sets the time of steps before --dpu-start or --drop-layers. */
void mw_result_set_first_steps(struct mw_answer *answer, const struct mw_hardware *hardware);
/* Sets the first step's time, where the drives' cache makes it faster.  Call it after the above and
 * mw_result_set_drives. */
void mw_result_set_burst_step(struct mw_answer *answer, const struct mw_hardware *hardware);
/* Sets the step by ideal software and what each part of the software costs, where the software
 * leaves something to gain.  Call it after the step's time is set. */
void mw_result_set_ideal(const struct mw_question *question, struct mw_answer *answer);
/* Gives the answer its plans. */
void mw_answer_take(struct mw_answer *answer, struct mw_variants *variants);

#endif
