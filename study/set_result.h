/* set_result.h - what a sizing, a plan and a timeline say, filled into an answer's result. */
#ifndef MW_STUDY_SET_RESULT_H
#define MW_STUDY_SET_RESULT_H

#include "sim/engine.h"
#include "study/study.h"

/* Identity, settings, ledger, notes, verdict; `strategy` is what was asked for. */
void mw_result_set_sizing(const struct mw_question *question, enum mw_strategy strategy,
                          const struct mw_answer *answer);
/* Memory over the step, for a plan whose speed was not asked for.  Takes the timeline. */
void mw_result_set_layout(struct mw_answer *answer, struct mw_engine_result *engine);
/* Step time and everything that follows from it, as deep as asked.  Takes the timeline. */
void mw_result_set_simulation(const struct mw_question *question, struct mw_answer *answer,
                              enum mw_depth depth, struct mw_engine_result *engine);

/* All of the notes, those below among them. */
void mw_result_set_notes(const struct mw_question *question, enum mw_strategy strategy,
                         const struct mw_answer *answer);

/* Of the keys of the profile that --set changed, those that nothing of this plan follows. */
void mw_note_keys(const struct mw_question *question, const struct mw_sizing *sizing,
                  GPtrArray *notes);

/* Of a DeepSpeed file what it asks that the plan does otherwise, read or written. */
void mw_note_deepspeed(const struct mw_question *question, enum mw_strategy asked,
                       const struct mw_sizing *sizing, GPtrArray *notes);

/* What a save takes that waits for the end of its step (--save-every); 0: none does. */
double mw_save_s(const struct mw_sizing *sizing);

/* Parts of it that a plan alone gives. */

/* Bottleneck, and the latency of collectives. */
void mw_result_set_bottleneck(const struct mw_plan *plan, const struct mw_hardware *hw,
                              const struct mw_engine_result *engine, struct mw_result *r);
/* The same and channels; lanes and phases too, where the engine kept its timeline. */
void mw_result_set_use(const struct mw_plan *plan, const struct mw_hardware *hw,
                       const struct mw_engine_result *engine, struct mw_result *r);
/* Drive traffic and life; `saved_bytes` a step and rank go to saves.  Takes r->nodes. */
void mw_result_set_drives(const struct mw_plan *plan, const struct mw_hardware *hw,
                          int64_t saved_bytes, struct mw_result *r);
/* The same of an answer, and days, cost and energy of the tokens asked for. */
void mw_result_set_costs(const struct mw_question *question, const struct mw_answer *answer);
/* The first step, where the drives' cache makes it faster.  Takes what mw_result_set_drives says.
 */
void mw_result_set_burst_step(const struct mw_plan *plan, const struct mw_hardware *hardware,
                              struct mw_result *r);

#endif
