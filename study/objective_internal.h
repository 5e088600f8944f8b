/* objective_internal.h - what the files of an objective's prediction share. */
#ifndef MW_STUDY_OBJECTIVE_INTERNAL_H
#define MW_STUDY_OBJECTIVE_INTERNAL_H

#include "study/choose.h"
#include "study/objective.h"
#include "study/serving.h"

/* Who takes part in a step; one row each (objective.c). */
struct mw_objective_part {
    const char *role;
    bool trained;
    bool scores;   /* a number for a sequence or a token, in place of logits */
    bool judges;   /* of the critic's size */
    bool compares; /* it is the model as it was before training: with adapters, the one without */
};

/* A model in one attempt: with one strategy, and frozen copies in one tier. */
struct mw_objective_member {
    const struct mw_objective_part *part;
    struct mw_question question; /* its model, and the machine with what the others leave of it */
    struct mw_choice choice;     /* of a trained one */
    bool without_adapters;       /* uses the weights of the first member */
    struct mw_question machine;  /* with what all leave to its pass forward */
    struct mw_sizing *pass;      /* forward; NULL: a step has none */
    int64_t resident[MW_TIER_COUNT]; /* per GPU, while others work */
};

/* An objective. */
struct mw_objective_row {
    const char *name;
    bool pairs;       /* a pair is two sequences of one micro-batch */
    double sequences; /* per step, if no batch is requested, by what was published */
    int part_count;
    struct mw_objective_part parts[MW_OBJECTIVE_MODELS_MAX];
};

/* One strategy, and one tier for frozen copies. */
struct mw_objective_attempt {
    const struct mw_question *question;
    const struct mw_objective_row *row;
    enum mw_strategy strategy;
    enum mw_tier tier; /* of frozen copies */
    struct mw_objective_member members[MW_OBJECTIVE_MODELS_MAX];
    struct mw_serving_row generation;
    struct mw_objective out;
};

extern const struct mw_objective_row mw_objective_rows[MW_OBJECTIVE_COUNT];

/* --- objective_attempt.c --- */

/* NULL with *error: the settings make no sense with this strategy. */
struct mw_objective_attempt *mw_objective_attempt_new(const struct mw_question *question,
                                                      enum mw_strategy strategy, enum mw_tier tier,
                                                      GError **error);
void mw_objective_attempt_free(struct mw_objective_attempt *attempt); /* NULL is allowed */
/* Sets the ends of the step's range. */
void mw_objective_set_ends(struct mw_objective_attempt *attempt);
/* Sets what the plans of the trained models are; the caller owns it. */
void mw_objective_set_plans(struct mw_objective_attempt *attempt);
/* `sizing` NULL: the caller sets what it needs. */
void mw_objective_add_phase(struct mw_objective_attempt *attempt, const char *name, int m,
                            const struct mw_sizing *sizing, int64_t times, double each_s);

/* --- objective_batches.c --- */

struct mw_objective_batch {
    double micro_batch;
    int64_t grad_accum;
};

/* Refuses a batch that is not of whole pairs. */
bool mw_objective_check_batch(const struct mw_question *question, GError **error);
/* Those that are worth an attempt where the micro-batch is open, the smallest first; else none.
 * Elements are struct mw_objective_batch; g_array_unref it. */
GArray *mw_objective_batches(const struct mw_question *question);

/* --- objective_members.c --- */

bool mw_objective_begin(const struct mw_question *question, const struct mw_objective_part *part,
                        struct mw_objective_member *member, GError **error);
/* Bytes that all but one keep; member -1: that all keep. */
void mw_objective_others_keep(const struct mw_objective_attempt *attempt, int member,
                              int64_t bytes[MW_TIER_COUNT]);
void mw_objective_set_lack(struct mw_objective_attempt *attempt, int member,
                           const struct mw_sizing *sizing);
/* What a frozen copy keeps, which does not depend on the batch. */
bool mw_objective_size_copy(struct mw_objective_attempt *attempt, int m, GError **error);
bool mw_objective_choose_trained(struct mw_objective_attempt *attempt, GError **error);
bool mw_objective_size_passes(struct mw_objective_attempt *attempt, GError **error);

/* --- objective_generation.c --- */

bool mw_objective_size_generation(struct mw_objective_attempt *attempt, GError **error);
void mw_objective_add_generation(struct mw_objective_attempt *attempt);
/* Seconds of one turn. */
double mw_objective_generation_at(const struct mw_objective_attempt *attempt,
                                  enum mw_outlook outlook);

/* --- objective_phases.c --- */

/* Whether adapters are all that is trained: without them the model is what it was before. */
bool mw_objective_only_adapters(const struct mw_trained *trained);
/* Takes so many bytes per GPU from every outlook of the question's machine. */
void mw_objective_reserve(struct mw_question *question, const int64_t bytes[MW_TIER_COUNT]);
/* Settings of a pass forward of a frozen model, whose parameters live as `placement` says. */
struct mw_settings mw_objective_forward(const struct mw_settings *trained,
                                        enum mw_strategy strategy,
                                        const struct mw_placement *placement);
/* The strategy by which a frozen copy in that tier is kept: the trained model's, or one that
 * fetches parameters from there. */
enum mw_strategy mw_objective_frozen_strategy(enum mw_strategy trained, enum mw_tier tier);
/* Bytes per GPU that a frozen copy keeps. */
void mw_objective_frozen_bytes(const struct mw_sizing *sizing, int64_t bytes[MW_TIER_COUNT]);
/* Bytes per GPU that a trained model keeps while others work; `gradients`: these too. */
void mw_objective_trained_bytes(const struct mw_sizing *sizing, bool gradients,
                                int64_t bytes[MW_TIER_COUNT]);

#endif
