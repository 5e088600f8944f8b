/* set_result.h - sets the fields of an answer's result from a sizing, a plan and a timeline. */
#ifndef MW_STUDY_SET_RESULT_H
#define MW_STUDY_SET_RESULT_H

#include "sim/engine.h"
#include "study/study.h"

/* Identity, settings, ledger, notes, verdict; `strategy` is the one that was asked for. */
void mw_result_set_sizing(const struct mw_question *question, enum mw_strategy strategy,
                          const struct mw_answer *answer);
/* Memory over the step, where no speed was asked for.  Takes the engine's timeline. */
void mw_result_set_layout(struct mw_answer *answer, struct mw_engine_result *engine);
/* Step time and all that follows from it, as deep as asked.  Takes the engine's timeline. */
void mw_result_set_simulation(const struct mw_question *question, struct mw_answer *answer,
                              enum mw_depth depth, struct mw_engine_result *engine);

/* All notes, with those of the two functions below. */
void mw_result_set_notes(const struct mw_question *question, enum mw_strategy strategy,
                         const struct mw_answer *answer);

/* Notes on keys of the profile that were set and have no effect on this plan. */
void mw_note_keys(const struct mw_question *question, const struct mw_sizing *sizing,
                  GPtrArray *notes);

/* Notes on what a DeepSpeed file, read or written, asks and the plan does otherwise. */
void mw_note_deepspeed(const struct mw_question *question, enum mw_strategy asked,
                       const struct mw_sizing *sizing, GPtrArray *notes);

/* Seconds of a save (--save-every) that waits for the end of its step; 0: there is no such save. */
double mw_save_s(const struct mw_sizing *sizing);

/* --- from a plan alone ------------------------------------------------------------------------ */

/* The bottleneck, and the latency of collectives. */
void mw_result_set_bottleneck(const struct mw_plan *plan, const struct mw_hardware *hw,
                              const struct mw_engine_result *engine, struct mw_result *r);
/* The same and channels; also lanes and phases, where the engine kept its timeline. */
void mw_result_set_use(const struct mw_plan *plan, const struct mw_hardware *hw,
                       const struct mw_engine_result *engine, struct mw_result *r);
/* Drive traffic and life; saves write `saved_bytes` per step and rank.  Reads r->nodes. */
void mw_result_set_drives(const struct mw_plan *plan, const struct mw_hardware *hw,
                          int64_t saved_bytes, struct mw_result *r);
/* The same for an answer, and days, cost and energy of a training (--tokens). */
void mw_result_set_costs(const struct mw_question *question, const struct mw_answer *answer);
/* The first step, where the drives' cache makes it faster.  Call it after mw_result_set_drives. */
void mw_result_set_burst_step(const struct mw_plan *plan, const struct mw_hardware *hardware,
                              struct mw_result *r);

#endif
