/* choose.h - the best plan of a request: by estimate among many, by simulation among few. */
#ifndef MW_STUDY_CHOOSE_H
#define MW_STUDY_CHOOSE_H

#include "sim/engine.h"
#include "study/study.h"

/* Owns all that it holds. */
struct mw_choice {
    struct mw_sizing *sizing;
    struct mw_plan *plan;           /* NULL: does not fit */
    struct mw_engine_result engine; /* with timeline, where simulated */
    bool simulated;
    double step_s; /* INFINITY where the engine refuses */
};

/* The best plan of one strategy, or of all with MW_STRATEGY_AUTO; perhaps not yet simulated as a
 * whole.  An open batch comes to what the same micro-batch and accumulation, asked for, come to,
 * and to no less than the same global batch does.  A step of too many ops is refused with the count
 * of the plan that would be chosen. */
bool mw_choose(const struct mw_question *question, enum mw_strategy strategy,
               struct mw_choice *choice, GError **error);
/* Tokens a second; simulates where that is not done.  0 if it does not fit or the engine refuses.
 */
double mw_choice_rate(struct mw_choice *choice);
/* Tokens a second of the best candidate of `asked`, one strategy's, by estimate; 0 if none fits. */
double mw_estimated_rate(const struct mw_question *question, const struct mw_settings *asked);
/* The same of a sizing that fits. */
double mw_estimated_rate_of(const struct mw_sizing *sizing);
/* Of a sizing that was chosen with recomputation left open: whether by estimate it would keep all
 * activations, were those that eager frameworks keep beside them not counted. */
bool mw_recomputes_for_eager(const struct mw_question *question, const struct mw_sizing *sizing);
/* Whether it keeps all activations, and they fit once, but not as eager frameworks keep them. */
bool mw_keeps_too_much(const struct mw_sizing *sizing);
/* What auto would have taken, were a step of many micro-batches not too slow to plan: of all that
 * fits the best by estimate, where it has more ops than a plan may have and is so many `times` as
 * fast as what was chosen; NULL: nothing.  mw_sizing_free it. */
struct mw_sizing *mw_choice_left_out(const struct mw_question *question, enum mw_strategy strategy,
                                     const struct mw_sizing *chosen, double *times);
void mw_choice_clear(struct mw_choice *choice);

#endif
