/*
 * study.h - a question and its answer.
 *
 * The question: a model, a machine, what is asked of the plan.  The answer: of one strategy, or of
 * all with MW_STRATEGY_AUTO, the best plan that the planner can build, how fast the simulator says
 * it is, what limits it and what would lift that.
 */
#ifndef MW_STUDY_STUDY_H
#define MW_STUDY_STUDY_H

#include <glib.h>
#include <stdbool.h>

#include "hardware/hwprofile.h"
#include "model/model.h"
#include "planner/deepspeed/deepspeed.h"
#include "planner/planner.h"
#include "study/result.h"

/* Of a plan that what-if tables are asked of: they run the engine some hundred times. */
#define MW_WHAT_IF_OPS_MAX (MW_OPS_MAX / 2)

struct mw_question {
    struct mw_model model;
    struct mw_hwprofile *profile;                  /* borrowed */
    struct mw_hardware hardware[MW_OUTLOOK_COUNT]; /* of the profile */
    enum mw_outlook outlook;                       /* that the typical one was read at */
    bool modified; /* keys were set: it is no machine that another one could replace */
    struct mw_settings settings;
    enum mw_strategy strategies[MW_STRATEGY_COUNT]; /* to compare; one at least */
    int strategy_count;
    struct mw_deepspeed_said deepspeed; /* of a file that the settings are from; or empty */
    bool writes_deepspeed;              /* a file for the plan is wanted: notes say what it lacks */
    bool ends; /* the ends of every range are wanted of each strategy that is compared */
};

/* One strategy's answer: the best of its candidates.  `plan` and timeline live in the answer. */
struct mw_answer {
    struct mw_result *result;
    struct mw_plan *plan; /* NULL when it does not fit */
    struct mw_timeline timeline;
    struct mw_sizing *sizing; /* NULL of a plan that was read */
};

enum mw_depth {
    MW_DEPTH_PLAN,    /* sizes and placement of the best candidate */
    MW_DEPTH_ROW,     /* and its step time: a row of a comparison */
    MW_DEPTH_VERDICT, /* and outlooks, closed forms, the single change that gains most */
    MW_DEPTH_FULL     /* and the what-if tables */
};

/* Of MW_STRATEGY_AUTO the fastest strategy; if none fits, the one that lacks least.  It may take
 * seconds: base/progress.h tells how far it is. */
struct mw_answer *mw_answer_new(const struct mw_question *question, enum mw_strategy strategy,
                                enum mw_depth depth, bool keep_timeline, GError **error);

/* The answer to a checked plan, which it takes, on the question's machine; `name` is what messages
 * call the plan.  Nothing is said of tokens, FLOP/s or closed forms: a plan does not hold its
 * model.  What does not fit there is not timed. */
struct mw_answer *mw_answer_of_plan(const struct mw_question *question, const char *name,
                                    struct mw_plan *plan, GError **error);
/* Of such an answer, a line for whoever does not know that the plan was made for another machine
 * than the question's; NULL: it was made for this one.  g_free it. */
char *mw_answer_other_machine(const struct mw_question *question, const char *name,
                              const struct mw_answer *answer);

void mw_answer_free(struct mw_answer *answer);

#endif
