/*
 * objective.h - predicts a step of fine-tuning from preferences, which needs more models than the
 * trained one.
 *
 * dpo     pairs of answers; beside the trained model a frozen reference, which goes forward over
 *         the same sequences (Rafailov et al., arXiv 2305.18290, Eq. 7).
 * reward  pairs of answers; the model has a score in place of logits (Ouyang et al., arXiv
 *         2203.02155, Sec. 3.5, Eq. 1).
 * ppo     an actor generates answers; actor, reference, critic and reward model go forward over
 *         them; actor and critic are trained (the same, Sec. 3.5; Yao et al., arXiv 2308.01320,
 *         Sec. 3).
 *
 * The phases of a step follow each other, as in TRL and DeepSpeed-Chat.  Each is a plan of one
 * model that the engine simulates, the frozen ones' of a pass forward alone, or a generation as
 * serving.h predicts it.  Bytes that the other models keep meanwhile are a reserve of their tier:
 * the plan of a phase has only the room that they leave.
 *
 * With adapters the reference is the trained model without them: no copy, one more pass.
 */
#ifndef MW_STUDY_OBJECTIVE_H
#define MW_STUDY_OBJECTIVE_H

#include "study/study.h"

#define MW_OBJECTIVE_MODELS_MAX 4
#define MW_OBJECTIVE_PHASES_MAX 8

struct mw_objective_model {
    const char *role; /* "policy", "reference", "actor", "critic", "reward"; static */
    char name[sizeof((struct mw_model){0}.name)];
    bool trained, scores;  /* scores: a number in place of logits */
    bool without_adapters; /* of the model before it, whose weights it uses: no bytes of its own */
    int64_t params, trained_params;
    enum mw_tier home;                     /* of its parameters, or of the most of them */
    int64_t resident_bytes[MW_TIER_COUNT]; /* per GPU, also while other models work */
    struct mw_result *plan; /* settings and notes of a trained one's plan, without a prediction;
                             * NULL: it is frozen, or the step does not fit */
};

struct mw_objective_phase {
    const char *name; /* "forward", "training", "generation"; static */
    int model;        /* in the table of models */
    int64_t times;    /* per step */
    double each_s;
    int64_t need_bytes[MW_TIER_COUNT]; /* per GPU, with all that stays */
};

struct mw_objective {
    enum mw_objective_kind kind;
    int64_t gpus, seq, prompt; /* prompt 0: nothing is generated */
    const char *strategy;      /* static */
    bool fits;
    enum mw_tier limiting_tier; /* valid when !fits */
    int64_t short_bytes;
    const char *short_of;  /* the model whose phase lacks room; static */
    const char *remedy[2]; /* name and value of a setting with which it would fit; static.  NULL:
                            * none was found */

    double micro_batch;        /* sequences per GPU */
    int64_t grad_accum;        /* micro-batches per step */
    double global_batch;       /* sequences per step */
    int64_t generated_at_once; /* sequences per GPU; 0: nothing is generated */
    int64_t generation_slices; /* of every layer, each on another GPU of a node */
    struct mw_objective_model models[MW_OBJECTIVE_MODELS_MAX];
    int model_count;
    struct mw_objective_phase phases[MW_OBJECTIVE_PHASES_MAX];
    int phase_count;
    int64_t capacity_bytes[MW_TIER_COUNT]; /* per GPU, before any model */
    double step_s[MW_OUTLOOK_COUNT];       /* valid when it fits */
    double before_s; /* per pair, of reference log-probabilities before training; 0: none */
};

const char *mw_objective_name(enum mw_objective_kind kind);
/* Refuses settings of an objective that the question does not have. */
bool mw_objective_check_settings(const struct mw_settings *settings, GError **error);
/* The fastest of the question's strategies, of the tiers for frozen copies, and of the batches that
 * are open: within the default of the objective, by the rate of the whole step.  If none fits, the
 * one that lacks least.  False with *error; else mw_objective_clear it. */
bool mw_objective_find(const struct mw_question *question, struct mw_objective *out,
                       GError **error);
void mw_objective_clear(struct mw_objective *objective);

#endif
