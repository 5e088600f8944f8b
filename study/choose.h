/* choose.h - the best plan for a question: estimates many, simulates the best few. */
#ifndef MW_STUDY_CHOOSE_H
#define MW_STUDY_CHOOSE_H

#include "sim/engine.h"
#include "study/study.h"

/* Owns everything in it. */
struct mw_choice {
    struct mw_sizing *sizing;
    struct mw_plan *plan;           /* NULL: does not fit, or was rated and not kept */
    struct mw_engine_result engine; /* if it was simulated; with a timeline if its plan is kept */
    struct mw_known_steps *known;   /* of its plan, if that is kept */
    bool keeps_plan;                /* else it serves for its rate alone */
    bool simulated;
    double step_s; /* INFINITY if the engine refuses the plan */
};

/* The best plan of one strategy, or of all with MW_STRATEGY_AUTO; it may not have been simulated as
 * a whole yet.  With an open batch, the result is that of requesting its micro-batch and
 * accumulation, and no worse than that of requesting its global batch.  A step with too many ops is
 * refused, with the number of ops of the plan that would be chosen.  `keeps_plan`: the choice has
 * its plan, if it fits; else it serves for its rate alone, which takes less memory and time. */
bool mw_choose(const struct mw_question *question, enum mw_strategy strategy, bool keeps_plan,
               struct mw_choice *choice, GError **error);
/* The best plan of the same candidates by their estimates alone: none is built. */
bool mw_choose_by_estimate(const struct mw_question *question, enum mw_strategy strategy,
                           struct mw_choice *choice, GError **error);
/* Tokens per second; simulates unless that has been done.  0 if it does not fit, or if the engine
 * refuses it. */
double mw_choice_rate(struct mw_choice *choice);
/* Estimated tokens per second of the best candidate for `asked`, with one strategy; 0 if none
 * fits. */
double mw_estimated_rate(const struct mw_question *question, const struct mw_settings *asked);
/* The same for a sizing that fits. */
double mw_estimated_rate_of(const struct mw_sizing *sizing);
/* Whether a sizing whose recomputation was open would, by estimate, keep all activations if the
 * software kept no others beside them. */
bool mw_recomputes_for_eager(const struct mw_question *question, const struct mw_sizing *sizing);
/* Whether a sizing that keeps activations and does not fit would fit if the software kept no more
 * than those counted. */
bool mw_fits_if_kept_once(const struct mw_sizing *sizing);
/* The choice that was left out because its step has more ops than a plan may have: the best by
 * estimate of all that fit, `times` as fast as the chosen one.  NULL: there is none.
 * mw_sizing_free it. */
struct mw_sizing *mw_choice_left_out(const struct mw_question *question, enum mw_strategy strategy,
                                     const struct mw_sizing *chosen, double *times);
void mw_choice_clear(struct mw_choice *choice);

#endif
