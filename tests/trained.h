/*
 * trained.h - a small decoder trained by plans of many shapes, and the state that results.
 */
#ifndef MW_TESTS_TRAINED_H
#define MW_TESTS_TRAINED_H

#include "exec/trainer/checkpoint.h"
#include "exec/trainer/trainer.h"
#include "plan/optimizers.h"
#include "planner/planner.h"

/* What is asked for; words as on the command line, NULL: the planner decides. */
struct trained_case {
    const char *name;
    const char *model; /* a config.json or a preset */
    enum mw_strategy strategy;
    const char *params, *gradients, *optimizer, *activations;
    int64_t sequences, seq, grad_accum, tiles, logits_chunks, prefetch, interval, param_loads;
    int64_t optimizer_chunk;
    int commit; /* 1: step */
    int64_t save_every;
    /* A fixture: its weights, its batches, and AdamW as it was made with; NULL: by seed. */
    const struct mw_safetensors *weights;
    const int32_t *inputs, *targets;     /* [steps][sequences * seq] */
    enum mw_optimizer_kind kind;         /* of optimizer */
    enum mw_dtype dtype;                 /* of parameters and activations; none: bf16 */
    enum mw_dtype checkpoint_dtype;      /* of activation checkpoints; none: the same */
    enum mw_dtype kept_dtype;            /* of activations that layers keep; none: the same */
    int64_t recompute_layers;            /* 0: all, where there are checkpoints */
    struct mw_loss_scaling loss_scaling; /* all zero: the type's */
    bool delayed;                        /* update, after undelayed_steps without */
    const char *drop_layers;             /* a schedule; NULL: none are left out */
    bool one_plan;         /* the schedule's first turn alone, as the only plan there is */
    int share_slots;       /* enum mw_share */
    bool asynchronous;     /* each rank's gradient is an update */
    int update_on;         /* 1: on the GPU; 0: where the planner would */
    struct mw_folds folds; /* what the plan says once; nothing: it is flat */
    int64_t undelayed_steps;

    const struct mw_backend *backend; /* NULL: trained_backend */
    struct mw_ranks *ranks;           /* NULL: alone */
    enum mw_partition partition;
    int64_t shard_group; /* 0: all ranks */
    int64_t tp;          /* 0: no tensor slicing */
    int64_t pp;          /* 0: no stages.  Each rank is one, and all have the same batches */
    enum mw_schedule schedule;
    double patience_s;
    double lr; /* 0: 1e-2 */
    int64_t skipped_in_row_max;
    double link_bytes_per_s; /* of copies between host and device; 0: not limited */
    /* If not NULL, called before a micro-batch is made. */
    bool (*before_batch)(const struct trained_case *what, int64_t step, GError **error);
};

/* Members of a case.  Micro-batches of so many sequences, so many a step; a checkpoint a layer. */
#define TRAINED_BATCHES(sequences_, seq_, grad_accum_)                                             \
    .sequences = (sequences_), .seq = (seq_), .grad_accum = (grad_accum_), .interval = 1
#define TRAINED_ON_DRIVES(checkpoints)                                                             \
    .strategy = MW_STRATEGY_ZERO_INFINITY_NVME, .params = "nvme", .gradients = "nvme",             \
    .optimizer = "nvme", .activations = (checkpoints)

extern const struct mw_backend *trained_backend; /* the cpu's, unless it is set */

/* The state after `steps`: parameters, momentum and variance of all tensors, part by part; zero
 * where another rank has it. */
struct trained {
    int64_t elements;
    float *state;           /* [3][elements]; g_free */
    uint16_t *params;       /* [elements] 16-bit parameters; g_free.  NULL: partitioned */
    int64_t steps;          /* of the whole way */
    double *losses, *norms; /* [steps]; g_free */
    int64_t first_step;     /* of this run */
    uint64_t cursor;        /* the caller's field of what was resumed */
    char *notice;           /* g_free; or NULL */
    char *told;             /* lines for the user, at the start; g_free */
};

/* The tokens of a rank's micro-batch among all ranks', by seed. */
void trained_batch(int64_t step, int64_t micro_batch, int64_t tokens, int64_t vocab, int32_t *ids,
                   int32_t *targets);

/* Threads and drives' directory are the caller's; aborts where something fails. */
struct trained trained_run(const struct trained_case *what, int64_t steps, int threads,
                           const char *directory);
void trained_clear(struct trained *trained);

/* A run of a part of the way.  `steps`: the whole way; it begins where a resume says. */
struct trained_course {
    int64_t steps, stop; /* stop: run no further than to this step; 0: to the end */
    int threads;
    const char *directory;
    bool commit, resume, previous, buffered, unchecked;
    uint64_t fingerprint;
    const struct mw_nvme_calls *calls;
    const char *from;                         /* a checkpoint to continue from; or NULL */
    const struct mw_checkpoint_options *save; /* at the stop; or NULL */
    void (*on_plan)(void *data, const struct mw_plan *plan); /* may be NULL, as the next two */
    void (*on_start)(void *data, int64_t first_step);
    void (*on_step)(void *data, const struct mw_trainer_step *step);
    void *data;
};
/* False with *error where the trainer fails; what has been reported until then is in *trained.
 * With several ranks, only mw_ranks_abort follows then. */
bool trained_train(const struct trained_case *what, const struct trained_course *course,
                   struct trained *trained, GError **error);

/* The same states in many places: the case with the words of placement `index`; 0: all on the
 * device. */
#define TRAINED_PLACEMENTS 12
struct trained_case trained_placed(const struct trained_case *common, int index);

/* The same state; the same losses and norms from the second's first step on. */
void trained_assert_same(const char *name, const struct trained *a, const struct trained *b);

/* A folder of the test's own, to be removed by trained_remove. */
char *trained_directory(void);
void trained_remove(char *directory);

#endif
