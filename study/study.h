/*
 * study.h - a question and its answer.
 *
 * The question: a model, a machine, and what is requested of the plan.  The answer, for one
 * strategy or for all with MW_STRATEGY_AUTO: the best plan that the planner can build, its
 * simulated speed, what limits it, and what would lift that limit.
 */
#ifndef MW_STUDY_STUDY_H
#define MW_STUDY_STUDY_H

#include <glib.h>
#include <stdbool.h>

#include "hardware/hwprofile.h"
#include "model/model.h"
#include "planner/deepspeed/deepspeed.h"
#include "planner/planner.h"
#include "software/software.h"
#include "study/result.h"

/* The most ops of a plan with what-if tables, which run the engine some hundred times. */
#define MW_WHAT_IF_OPS_MAX (MW_OPS_MAX / 2)

/* Drives differ in how often they may be written, and in their price (study/steps.h). */
enum mw_drive_kind { MW_DRIVE_CONSUMER, MW_DRIVE_DATACENTER, MW_DRIVE_KINDS };
struct mw_drive_price {
    double usd_per_byte; /* 0: not known */
    const char *from;    /* who says so; interned */
};

struct mw_question {
    struct mw_model model;
    const char *model_called;    /* the name or path by which it was loaded; NULL: model.name.
                               * Borrowed, and read only while it is asked */
    const char *hardware_called; /* likewise; NULL: mw_machine_called */
    struct mw_model_uses uses;   /* of the model, or of all models' where a plan is given */
    struct mw_profile *profile;  /* borrowed */
    struct mw_profile *software; /* borrowed; NULL: none, as ideal */
    struct mw_hardware hardware[MW_OUTLOOK_COUNT]; /* the machine at each outlook, as the software
                                                    * uses it: mw_machine_read */
    enum mw_outlook outlook; /* the one at which hardware[MW_OUTLOOK_TYPICAL] was read */
    struct mw_drive_price drives[MW_DRIVE_KINDS]; /* where the profile has no price of them */
    bool modified; /* keys were set: no other machine can be advised in its place */
    struct mw_settings settings;
    enum mw_strategy strategies[MW_STRATEGY_COUNT]; /* to compare; at least one */
    int strategy_count;
    struct mw_deepspeed_said deepspeed; /* from the file with settings; empty: there is none */
    bool writes_deepspeed; /* notes say what a DeepSpeed file for the plan cannot express */
    bool ends;             /* a comparison has the ends of every range too */
    bool figures_only;     /* no notes, remedies or advice */
};

/* The software profile of a question that names none, by its machine, strategies and slices.  A
 * comparison of strategies has one for all.  Static. */
const char *mw_default_software(const struct mw_settings *settings);
const char *mw_question_default_software(const struct mw_question *question);
/* Writes into a plan the names of machine and software that it was made for, or the paths of their
 * files, and what was set of them. */
void mw_question_sign(const struct mw_question *question, struct mw_plan *plan);
/* The name of a machine, composed of parts or not, or the path of its file where that is not what
 * the name leads to.  Borrowed. */
const char *mw_machine_called(const struct mw_profile *machine);
/* "rtx4090 set gpu.memory_gib=8"; g_free it. */
char *mw_question_machine_text(const struct mw_question *question);
/* Of what such a line says: the name, then each key that was set.  g_strfreev it. */
char **mw_plan_signed_words(const char *text);
/* That software again, with what was set; NULL: no profile has that name here, or the plan does not
 * say. */
struct mw_profile *mw_plan_software(const struct mw_plan *plan);
/* Whether a profile of that name, or if none has it some profile, takes what was set. */
bool mw_plan_check_software(const struct mw_plan *plan, GError **error);
/* Fills in what a plan says of the question that it answers: the question's own model, settings and
 * strategy if it has them (study/planned.h) and the model is known here, else what its ops and
 * names tell, and no model. */
void mw_question_of_plan(const struct mw_plan *plan, struct mw_question *question);

/* One strategy's answer: the best of its candidates.  Plans and timeline live in the answer. */
struct mw_answer {
    struct mw_result *result;
    struct mw_variants *variants; /* of all steps; NULL when it does not fit */
    struct mw_plan *plan;         /* of these the one that the answer is about; borrowed */
    struct mw_timeline timeline;
    struct mw_known_steps *known; /* steps of the plans that were simulated */
    struct mw_sizing *sizing;     /* NULL for a plan that was read from a file */
};

enum mw_depth {
    MW_DEPTH_PLAN,    /* sizes and placement of the best candidate */
    MW_DEPTH_ROW,     /* and its step time, with `ends` its range, with `figures_only` its closed
                       * forms: a row */
    MW_DEPTH_VERDICT, /* and these, the critical path, the single change that gains most */
    MW_DEPTH_FULL     /* and the what-if tables */
};

/* With MW_STRATEGY_AUTO the fastest strategy; if none fits, the one that lacks least memory.  May
 * take seconds, and reports its progress (base/progress.h). */
struct mw_answer *mw_answer_new(const struct mw_question *question, enum mw_strategy strategy,
                                enum mw_depth depth, bool keep_timeline, GError **error);

/* Simulates checked plans, which it takes ownership of, on the question's machine; messages call
 * them `name`.  Without the plan's model the answer has no tokens, FLOP/s or closed forms.  A plan
 * that does not fit on the machine is not simulated. */
struct mw_answer *mw_answer_of_plan(const struct mw_question *question, const char *name,
                                    struct mw_variants *variants, GError **error);
/* A warning that such a plan was made for another machine than the question's; NULL: it was made
 * for this one.  g_free it. */
char *mw_answer_other_machine(const struct mw_question *question, const char *name,
                              const struct mw_plan *plan, const struct mw_answer *answer);

/* A warning that the plan was made with software that is not known here, for an answer to a
 * question that names none; NULL: it is known, or the plan does not say.  g_free it. */
char *mw_answer_other_software(const struct mw_question *question, const char *name,
                               const struct mw_plan *plan);

/* A row by the closed form alone (mw_estimate_s), without a plan: among the same candidates, in
 * milliseconds.  What only ops tell is unknown: bottleneck, first step, traffic of the drives.
 * `checked`: the engine runs that plan too, for the step time alone. */
struct mw_answer *mw_answer_estimated(const struct mw_question *question, enum mw_strategy strategy,
                                      bool checked, GError **error);

void mw_answer_free(struct mw_answer *answer);

#endif
