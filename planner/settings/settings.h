/*
 * settings.h - what a user may request of a plan: strategy, placement, batch, schedule.
 *
 * A field that the user did not set holds MW_AUTO (or an empty placement); mw_settings_complete
 * (planner/complete_settings.c) turns it into the settings of one concrete plan.
 */
#ifndef MW_PLANNER_SETTINGS_SETTINGS_H
#define MW_PLANNER_SETTINGS_SETTINGS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/encodings.h"
#include "plan/gates.h"
#include "plan/plan.h"
#include "plan/recomputed.h"
#include "planner/settings/strategies.h"

#define MW_AUTO (-1)
#define MW_LOGITS_CHUNKS_MAX 4096
/* Activations that an eager framework keeps without recomputation, as a multiple of those counted:
 * where the software profile says nothing.  The most that was measured of a Llama layer, with fp32
 * weights under autocast (rates/kept_bytes.csv). */
#define MW_EAGER_ACTIVATIONS 1.74
/* A plan of this many ops is built and simulated in seconds, in 300 MB. */
#define MW_OPS_MAX 500000
/* The same of all stages of a pipeline, whose ops no section says once: in half a minute, in
 * 900 MB. */
#define MW_OPS_MAX_PIPELINE 3500000
/* Micro-batches that nobody requested do not make a plan larger than this: it is built in tenths of
 * a second. */
#define MW_OPS_QUICK (MW_OPS_MAX / 2)

/* Number of micro-batches that are built of a step whose plan says the others once, or a few
 * more. */
#define MW_FOLDED_LEAST 8
#define MW_FOLDED_MOST 64
/* And so many checkpoint groups, which are so many layers about. */
#define MW_FOLDED_ROUNDS_LEAST 12
#define MW_ORDER_ROUNDS_LEAST 10 /* of an order alone, which most often takes no more */
#define MW_FOLDED_ROUNDS_MOST 96
#define MW_FOLDED_LAYERS 200

/* State bytes per parameter (ZeRO-Infinity Sec. 3; ZeRO Sec. 3.1). */
enum mw_layout {
    MW_LAYOUT_ZERO16,  /* 2 parameters + 2 gradients + 12 fp32 parameters, momentum, variance; in
                          fp32 4 + 4 + 12: the state has parameters of its own, from which
                          durable steps continue (docs/DESIGN.md) */
    MW_LAYOUT_PAPER20, /* zero16 + 4: gradients kept in fp32 too, written by the backward pass and
                          read by the optimizer step, which does not write them back */
    MW_LAYOUT_COUNT
};

/* Where a state lives: parts in order, each up to `bytes` per node (INT64_MAX: no limit), or up to
 * a share of the state.  "cpu:60GB,nvme" is {CPU 60e9}, {NVMe no limit}; "gpu:20%,cpu" is {GPU,
 * share 0.2}, {CPU no limit}.  count 0: the planner decides. */
struct mw_placement {
    int count;
    struct {
        enum mw_tier tier;
        int64_t bytes; /* 0 where there is a share */
        double share;  /* above 0: in place of bytes */
    } part[MW_TIER_COUNT];
};

/* Stages by which a part of the parameters travels to its use (ZeRO-Infinity Sec. 6.2): nc from
 * NVMe to the host, cg from the host to the GPU, gg from the other GPUs. */
enum mw_fetch_stage { MW_FETCH_NC, MW_FETCH_CG, MW_FETCH_GG, MW_FETCH_STAGES };

#define MW_SHARD_ALL 0
#define MW_SHARD_NODE (-2)
#define MW_RECOMPUTE_FEWEST (-2)
#define MW_RECOMPUTE_FASTEST (-3)
/* As many layers to a checkpoint as there are checkpoints: memory grows with the square root of the
 * layers (Chen et al., arXiv 1604.06174, Sec. 4.2). */
#define MW_INTERVAL_SQRT (-2)

/* What the loss compares (study/objective.h). */
enum mw_objective_kind {
    MW_OBJECTIVE_CAUSAL, /* each token with the one that follows */
    MW_OBJECTIVE_DPO,    /* answers of a pair, by the model and by a frozen one */
    MW_OBJECTIVE_REWARD, /* answers of a pair, by a score */
    MW_OBJECTIVE_PPO,    /* answers that the model gives itself, by a reward model */
    MW_OBJECTIVE_COUNT
};

/* Whether slots whose contents never meet share bytes. */
enum mw_share {
    MW_SHARE_NONE,
    MW_SHARE_ALL,
    MW_SHARE_BUFFERS /* homes lie where another variant of the step has them */
};

/* The order of micro-batches in each stage of a pipeline. */
enum mw_schedule {
    MW_SCHEDULE_1F1B,          /* one forward, one backward */
    MW_SCHEDULE_GPIPE,         /* all forward before any goes back */
    MW_SCHEDULE_INTERLEAVED,   /* one forward, one backward, of several stretches of layers */
    MW_SCHEDULE_ZB_H1,         /* one forward, one backward; the gradients of weights come later */
    MW_SCHEDULE_2BW,           /* one forward, one backward, on through the ends of steps */
    MW_SCHEDULE_PIPEDREAM,     /* the same, with an update after each micro-batch */
    MW_SCHEDULE_VERTICAL_SYNC, /* the same, by one version of the parameters in all stages */
    MW_SCHEDULE_COUNT
};

/* What data-parallel ranks do with their gradients. */
enum mw_data_parallel { MW_DATA_PARALLEL_SYNC, MW_DATA_PARALLEL_ASYNC, MW_DATA_PARALLEL_COUNT };
struct mw_data_parallel_row {
    const char *name;
    bool runs;                               /* `run` does it */
    const char *update, *staleness, *source; /* for people: the updates of a step of N GPUs, and how
                                              * many of them the parameters lack that a gradient is
                                              * of, when it is applied */
};
const struct mw_data_parallel_row *mw_data_parallel_row(int way);

/* One row per schedule. */
struct mw_schedule_row {
    const char *name;
    bool runs;                           /* `run` does it */
    const char *order, *bubble, *source; /* for people: of `p` equal stages, `m` micro-batches */
    const char *way;    /* as a table says it; NULL: it is the default, or its stretches are said */
    bool all_forward;   /* before any micro-batch goes back */
    bool interleaved;   /* a stage has several stretches of layers */
    bool weights_later; /* gradients of layers' weights are passes of their own, which fill bubbles
                         * (zero-bubble): the gradients of inputs, which other stages wait for,
                         * come first */
    bool no_flush;      /* micro-batches of the next step go forward before the last ones of this
                         * step have come back: with parameters of their own version */
    bool stashes;       /* each micro-batch is an update, and a stage has as many versions of its
                         * parameters as micro-batches in flight; without a flush */
    bool vertical_sync; /* and all stages take the version that the first one has when the
                         * micro-batch enters it */
};
const struct mw_schedule_row *mw_schedule_row(int schedule);

struct mw_settings {
    enum mw_strategy strategy;
    int64_t nodes;           /* default 1 */
    int64_t gpus_per_node;   /* MW_AUTO: all that the profile has */
    int64_t tp;              /* tensor slicing, default 1 */
    int sequence_parallel;   /* 1: with tp, slices share the tokens of what they do not slice;
                                 MW_AUTO: as the software does */
    int64_t pp;              /* pipeline stages, default 1 */
    int64_t shard_group;     /* data-parallel ranks that states are partitioned over, and the
                                 groups hold replicas (hybrid sharding); MW_SHARD_NODE: those of a
                                 node; MW_SHARD_ALL: all */
    int64_t cp;              /* data-parallel ranks that share the tokens of sequences, default 1 */
    int cp_kind;             /* enum mw_context, default MW_CONTEXT_RING */
    int64_t ep;              /* data-parallel ranks over which experts are spread, default 1; of
                              * whole experts ranks of a stage, their slices among them */
    int64_t etp;             /* slices of an expert; MW_AUTO: as many as tp */
    double capacity_factor;  /* rows of each expert, as a multiple of an even share of a
                             * micro-batch's tokens: others are dropped; 0: no limit; MW_AUTO: as
                             * the gate has it */
    double expert_imbalance; /* tokens of the rank with the most, of those that share experts, over
                              * the mean; default 1 */
    enum mw_gating gate;     /* of mixtures, default MW_GATING_TOP_K */
    double router_aux_loss;  /* coefficients of losses of their routers, 0: none; MW_AUTO: as the */
    double router_z_loss;    /* model's file has them, or the gate */
    bool tp_fixed;           /* by a file: another value is refused */
    double micro_batch;      /* sequences per GPU, times tp and cp whole; MW_AUTO: most that fit */
    int64_t global_batch;    /* sequences per step; MW_AUTO: micro_batch *
                                   mw_settings_batch_gpus * grad_accum */
    const char *batch_source; /* what messages call the global batch, if not --global-batch; lives
                                   as long as the program */
    double step_tokens_max;   /* for an open batch; MW_AUTO: the default, 0: no limit */
    int64_t grad_accum;       /* MW_AUTO: 1; of an open batch what step_tokens_max or global_batch
                                   asks for */
    int64_t seq;              /* MW_AUTO: the model's, at most 4096 (paper presets 1024) */
    struct mw_placement placement[MW_STATE_COUNT];
    uint32_t fills; /* bits of enum mw_state that nobody placed: as much of each as the GPU has
                           room for stays there, gradients with optimizer state */
    /* A file and its keys that placed them; NULL: an option did.  They live as long as the program
     * does. */
    const char *device_file;
    const char *device_key[MW_STATE_COUNT];
    enum mw_partition partition;
    enum mw_layout layout;
    enum mw_dtype dtype;        /* of parameters, activations and gradients; MW_DTYPE_NONE: bf16
                                    where the GPU has it, else fp16 */
    enum mw_dtype matmul_dtype; /* of the operands of layers' products with weights;
                                    MW_DTYPE_NONE: dtype, unless the software says fp8 */
    struct mw_trained trained;
    uint64_t trained_modules; /* that were named in it as some families call them: bits of rows in
                               * planner/settings/table.c */
    int optimizer;            /* enum mw_optimizer_kind */
    double lora_alpha;        /* adapters' results are multiplied by alpha / rank; MW_AUTO: 1 */
    enum mw_dtype
        frozen_dtype; /* of weights of layers' products among them; MW_DTYPE_NONE: dtype */
    int64_t checkpoint_interval;       /* blocks a checkpoint; 0: no checkpointing; MW_AUTO: 1 */
    enum mw_dtype checkpoint_dtype;    /* of activation checkpoints; MW_DTYPE_NONE: dtype */
    int64_t recompute_layers;          /* the first so many are recomputed, the others keep their
                                    activations; MW_RECOMPUTE_FEWEST: as few as memory
                                    has room for; MW_RECOMPUTE_FASTEST: beside activations
                                    that leave as many as are fastest; MW_AUTO: all, or none
                                    beside those.  Of each pipeline stage */
    struct mw_layer_set recompute_set; /* the same, layer by layer; empty: not stated */
    int checkpoint_partition;          /* 1: with tensor slicing each rank keeps its part of a
                                       checkpoint (ZeRO-R, Pa); 0: all of it, as all have it;
                                       MW_AUTO: 1, or 0 where the software keeps it whole */
    struct mw_kept_as kept_as;         /* activations that forward keeps for backward */
    int scores_again;                  /* 1: selective recomputation: attention's scores alone */
    int64_t param_loads;               /* 3 or 2; MW_AUTO: 3 */
    int64_t tiles;                     /* memory-centric tiling; MW_AUTO: as few as fit */
    int64_t logits_chunks; /* parts of the tokens, for logits and loss; MW_AUTO: fewest */
    int share_slots;       /* enum mw_share */
    int64_t prefetch;      /* depth D of every stage, or of the deepest one; MW_AUTO: 1 */
    int64_t prefetch_stage[MW_FETCH_STAGES]; /* per stage; MW_AUTO: D */
    int64_t optimizer_chunk;                 /* parameters a chunk of the optimizer step; MW_AUTO */
    int64_t buffer_sets;                     /* of the optimizer step; default 3 */
    bool overlap;       /* collectives and transfers run beside compute; default true */
    bool serialize;     /* every op waits for the previous one, for a test */
    bool unfold;        /* one program for every rank; not with owner-broadcast */
    int commit;         /* 1 step, 0 none, MW_AUTO */
    int64_t save_every; /* steps between saves of state that is not on NVMe; 0 never */
    int64_t dpu_start;  /* delayed parameter update from this step on; MW_AUTO: off */
    int update_beside;  /* 1: each chunk is updated beside backward, once its gradients
                                    are final; 0: after backward; MW_AUTO: as the software does */
    int update_on;      /* 1: state is updated on the GPU wherever it rests; 0: on the host
                                    where it rests off the GPU; MW_AUTO: as the strategy does */
    int data_parallel;  /* enum mw_data_parallel */
    int schedule;       /* enum mw_schedule, of a pipeline's micro-batches */
    /* First layers of the stages but the first; empty: layers of two stages differ by at most one;
     * MW_STAGES_BALANCED alone: the planner chooses. */
    struct mw_layer_set stage_begins;
    bool chose_stages;                       /* the planner has, */
    bool fit_stages;                         /* and may choose again where they have no room */
    struct mw_stage_replicas stage_replicas; /* ranks of each stage, which take its micro-batches in
                              * turn: pp is their number, and grad_accum counts the micro-batches of
                              * all together; none: as many ranks in each stage */
    int64_t virtual_stages;  /* stretches of layers that a stage has, if they are interleaved;
                                    MW_AUTO: 2 */
    int layer_order;         /* 1: all micro-batches pass a group of layers before the next group;
                                    0: each passes all layers; MW_AUTO: as the strategy does */
    int whole_checkpoints;   /* 1: a checkpoint is all activations of a layer, of those that are not
                                    recomputed; 0: its input; MW_AUTO: as the strategy does */
    const char *drop_layers; /* a schedule (drops.h), which lives as long as the program; NULL:
                                    no step leaves out layers */
    double tokens;           /* to train on, for days and cost; 0: not requested */
    int64_t serve;           /* tokens to generate instead of training; 0: none */
    int objective;           /* enum mw_objective_kind */
    int frozen_device;       /* enum mw_tier of the copies that are not trained; MW_AUTO: the one
                                with which a step is fastest */
    int reference_before;    /* 1: the reference's log-probabilities are computed before training */
    int64_t response;        /* tokens of a sequence that ppo generates; MW_AUTO: half of them */
    const char *critic;      /* model of ppo's critic and reward; NULL: the model itself.  Lives as
                                long as the program */
    bool forward_only;       /* a frozen model's pass: no backward, no gradients, no update; the
                                study of an objective plans such passes, nobody requests one */
    int64_t ops_max;         /* a plan with more is refused before it is built */
    bool folds; /* of more ops than that, micro-batches and layers that are alike are said
                   once, in a section */
};

void mw_settings_init(struct mw_settings *settings);

/* Gives a decoder the adapters that are requested. */
void mw_settings_adapt(const struct mw_settings *settings, struct mw_decoder *decoder);

/* GPUs with sequences of their own, tensor slices counted: the stages of a pipeline work on the
 * same ones.  Sequences per step = micro_batch * these * grad_accum. */
double mw_settings_batch_gpus(const struct mw_settings *settings);
/* As stated, or what the gate of mixtures has where nothing is; 0: no limit. */
static inline double
mw_settings_capacity_factor(const struct mw_settings *settings)
{
    return settings->capacity_factor >= 0 ? settings->capacity_factor
                                          : mw_gate_row(settings->gate)->capacity_factor;
}
/* Whether slices have experts of their own, and not each its slice of the same ones. */
static inline bool
mw_settings_whole_experts(const struct mw_settings *settings)
{
    return settings->tp > 1 && settings->ep > 1 && settings->etp == 1;
}
/* Data-parallel ranks over which experts are spread: those of one slice. */
static inline int64_t
mw_settings_spread(const struct mw_settings *settings)
{
    return mw_settings_whole_experts(settings) ? MAX(1, settings->ep / settings->tp) : settings->ep;
}
/* Whether `run` has the gate in this type: a router in fp32 is as precise as all else there. */
static inline bool
mw_settings_gate_runs(const struct mw_settings *settings)
{
    const struct mw_gate_row *gate = mw_gate_row(settings->gate);

    return gate->runs &&
           (!(gate->features & MW_HAS(ROUTER_FP32)) || settings->dtype == MW_DTYPE_FP32);
}
struct mw_model;
/* As stated, or what the model's file has, or what its gate has. */
double mw_settings_router_aux_loss(const struct mw_settings *settings,
                                   const struct mw_model *model);
double mw_settings_router_z_loss(const struct mw_settings *settings, const struct mw_model *model);
/* GPUs that share a micro-batch: its slices, and parts of its sequences. */
static inline int64_t
mw_settings_sharers(const struct mw_settings *settings)
{
    return settings->tp * settings->cp;
}

/* A frozen model's pass updates nothing. */
static inline bool
mw_settings_asynchronous(const struct mw_settings *settings)
{
    return settings->data_parallel == MW_DATA_PARALLEL_ASYNC && !settings->forward_only;
}

static inline bool
mw_settings_stashes(const struct mw_settings *settings)
{
    return settings->pp > 1 && mw_schedule_row(settings->schedule)->stashes;
}

static inline bool
mw_settings_vertical_sync(const struct mw_settings *settings)
{
    return settings->pp > 1 && mw_schedule_row(settings->schedule)->vertical_sync;
}

static inline bool
mw_settings_no_flush(const struct mw_settings *settings)
{
    return settings->pp > 1 && mw_schedule_row(settings->schedule)->no_flush;
}

static inline bool
mw_settings_weights_later(const struct mw_settings *settings)
{
    return settings->pp > 1 && mw_schedule_row(settings->schedule)->weights_later;
}

/* Whether the ranks of a stage take its micro-batches in turn. */
static inline bool
mw_settings_takes_turns(const struct mw_settings *settings)
{
    return settings->stage_replicas.stages > 0;
}

/* What divides the model into stages, as a message names it: "{pp=4}", or "{stage-replicas=2,1}",
 * which also says how many there are.  g_free it. */
char *mw_settings_stages_text(const struct mw_settings *settings);

/* Whether each rank has a program of its own. */
static inline bool
mw_settings_unfolds(const struct mw_settings *settings)
{
    return settings->unfold || mw_settings_takes_turns(settings);
}

/* Data-parallel ranks of a stage; of stages alike any number. */
int64_t mw_settings_stage_ranks(const struct mw_settings *settings, int64_t stage);
/* The first rank of a stage. */
int64_t mw_settings_stage_rank(const struct mw_settings *settings, int64_t stage);
/* Micro-batches that a replica of a stage has in flight: of 1F1B round robin all that the ranks
 * from its stage on can work on, divided among the replicas (PipeDream's NOAM, Narayanan et al.,
 * SOSP 2019, Sec. 3.2; msr-fiddle/pipedream, runtime/runtime.py, num_warmup_minibatches). */
int64_t mw_settings_stage_in_flight(const struct mw_settings *settings, int64_t stage);

/* Whether the planner is to choose where stages begin: a number that none begins with says so. */
#define MW_STAGES_BALANCED (MW_LAYER_SET_MAX - 1)
bool mw_settings_balances_stages(const struct mw_settings *settings);
/* Stretches of layers that a pipeline's stage has. */
static inline int64_t
mw_settings_stretches(const struct mw_settings *settings)
{
    if (!mw_schedule_row(settings->schedule)->interleaved)
        return 1;
    return settings->virtual_stages == MW_AUTO ? 2 : settings->virtual_stages;
}

/* Layers of a stage of so many that come before one of its stretches.  The first have one more than
 * the last: a micro-batch then comes to longer stretches once, where it begins, and each time it
 * does, every stage waits for the one before. */
int64_t mw_settings_layers_before(int64_t of_stage, int64_t stretches, int64_t stretch);
/* The first layer of a stretch of a model of so many layers.  Stretches are numbered in the order
 * of the layers, so that stage s has those with number s modulo pp; the one behind the last begins
 * behind the layers. */
int64_t mw_settings_stretch_begin(const struct mw_settings *settings, int64_t layers,
                                  int64_t number);

/* The micro-batches of a step are a multiple of this: interleaved stretches pass on as many of them
 * at a time as there are stages, and replicas of a stage take as many each. */
int64_t mw_settings_batch_grain(const struct mw_settings *settings);

static inline bool
mw_settings_update_beside(const struct mw_settings *settings)
{
    return settings->update_beside == 1;
}

static inline bool
mw_settings_updates_on_gpu(const struct mw_settings *settings)
{
    return settings->update_on == 1;
}

/* With one micro-batch there is one order. */
static inline bool
mw_settings_layer_order(const struct mw_settings *settings)
{
    return settings->layer_order == 1 && settings->grad_accum > 1;
}

/* Without an interval all activations stay on the GPU anyway. */
static inline bool
mw_settings_keeps_whole(const struct mw_settings *settings)
{
    return settings->whole_checkpoints == 1 && settings->checkpoint_interval > 0;
}

/* Whether the update runs beside the passes: of the step before, or of the same one. */
static inline bool
mw_settings_update_apart(const struct mw_settings *settings)
{
    return settings->dpu_start != MW_AUTO || mw_settings_update_beside(settings);
}

/* Sets the same depth for every stage. */
void mw_settings_set_prefetch(struct mw_settings *settings, int64_t depth);
/* Number of parts that this stage fetches ahead of the next stage; `prefetch` is no longer
 * MW_AUTO. */
int64_t mw_settings_fetch_depth(const struct mw_settings *settings, enum mw_fetch_stage stage);
/* Whether a depth for each stage was requested, rather than one for all. */
bool mw_settings_has_fetch_stages(const struct mw_settings *settings);

/* "gpu", "cpu", "nvme", or a split such as "cpu:60GB,nvme" (GB, GiB, TB, TiB, MB, MiB). */
bool mw_placement_parse(const char *text, const char *option, struct mw_placement *out,
                        GError **error);
char *mw_placement_text(const struct mw_placement *placement); /* g_free it */
/* Whether any part of it is on that tier. */
bool mw_placement_has(const struct mw_placement *placement, enum mw_tier tier);

#endif
