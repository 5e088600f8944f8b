/* objective_internal.h - what the files of an objective's prediction share. */
#ifndef MW_STUDY_OBJECTIVE_INTERNAL_H
#define MW_STUDY_OBJECTIVE_INTERNAL_H

#include "study/choose.h"
#include "study/objective.h"

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
