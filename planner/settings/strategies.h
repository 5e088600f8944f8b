/*
 * strategies.h - the table of strategies: one row says all that is particular to one of them.
 *
 * Other code asks for a trait and never which strategy it is: only the table, and tests, name one.
 * The order of the enum says nothing.  MW_STRATEGY_AUTO is not a strategy but an open choice; its
 * row has a name, and none of the traits.
 *
 * Every strategy needs the group of the data-parallel ranks.  What they exchange follows from what
 * is partitioned (ZeRO Sec. 7): gradients are reduced, by all-reduce or, if optimizer state is
 * partitioned, by reduce-scatter; parameters are gathered after the update or, if partitioned
 * themselves, for each use.  Tensor slicing has a group of its own and can be combined with every
 * row.
 */
#ifndef MW_PLANNER_SETTINGS_STRATEGIES_H
#define MW_PLANNER_SETTINGS_STRATEGIES_H

#include <glib.h>
#include <stdbool.h>

#include "plan/plan.h"

enum mw_strategy {
    MW_STRATEGY_AUTO,
    MW_STRATEGY_DDP,
    MW_STRATEGY_ZERO1,
    MW_STRATEGY_ZERO2,
    MW_STRATEGY_ZERO3,
    MW_STRATEGY_ZERO_OFFLOAD,
    MW_STRATEGY_ZERO_INFINITY_CPU,
    MW_STRATEGY_ZERO_INFINITY_NVME,
    MW_STRATEGY_STREAMED_UPDATE,
    MW_STRATEGY_TWIN_FLOW,
    MW_STRATEGY_L2L,
    MW_STRATEGY_GEEPS,
    MW_STRATEGY_COUNT
};

enum mw_state {
    MW_STATE_PARAMETERS,
    MW_STATE_GRADIENTS,
    MW_STATE_OPTIMIZER,
    MW_STATE_ACTIVATIONS, /* activation checkpoints */
    MW_STATE_COUNT
};

/* How the ranks bring a partitioned part to the GPUs: each rank its shard over its own link, then
 * an all-gather (ZeRO-Infinity Sec. 6.1), or an owner the whole part over one link, then a
 * broadcast (ZeRO-Offload). */
enum mw_partition { MW_PARTITION_AUTO, MW_PARTITION_BANDWIDTH, MW_PARTITION_OWNER };

/* What a strategy does with one state. */
struct mw_state_traits {
    bool partitioned; /* a data-parallel rank holds 1/dp of it, else all of it (ZeRO Sec. 5) */
    bool offloadable; /* may be requested on another device than the GPU */
    enum mw_tier nearest, deepest; /* the planner looks for its home from here to there.  Optimizer
                                      state that cannot be nearer than the CPU must be offloaded.
                                      Gradients follow the optimizer state, from `nearest` or the
                                      CPU down to `deepest`; the others move only where it has
                                      moved (ZeRO-Infinity Sec. 5.1) */
};

/* DeepSpeed has a stage and devices to offload to, and no names of strategies.  A file with a stage
 * from `least_stage` to `stage` whose deepest device is `offload` means this strategy. */
struct mw_deepspeed_traits {
    int stage; /* the zero_optimization.stage that is written */
    int least_stage;
    enum mw_tier offload; /* MW_TIER_COUNT: no file means it */
    bool partly;          /* means it where a part of the optimizer state stays on the GPU */
};

struct mw_strategy_traits {
    const char *name;   /* for -s, and in answers */
    const char *help;   /* for `memwall list strategies` */
    const char *source; /* paper, arXiv number, section */
    /* Of plans with similar speed the one of least complexity is taken; what does not fit may fit
     * with more.  Different in every row; with gaps, so that a row can be inserted. */
    int complexity;
    struct mw_state_traits state[MW_STATE_COUNT];
    enum mw_partition partition;   /* unless another is requested */
    bool delays_update;            /* --dpu-start: may update beside the next step (ZeRO-Offload
                                      Sec. 5.2) */
    uint32_t fills_gpu;            /* bits of enum mw_state: of those that move off the GPU as much
                                      stays there as has room */
    bool updates_on_gpu;           /* unless {update-on} says otherwise: wherever the optimizer
                                      state rests */
    bool layer_order;              /* unless {micro-batch-order} says otherwise: all micro-batches
                                      pass a layer before the next */
    bool whole_checkpoints;        /* unless {checkpoints} says otherwise: activations are kept,
                                      and moved, whole, but of layers that are recomputed */
    bool runs;                     /* `memwall run` does it, not only plan and simulate */
    bool by_name;                  /* an open choice and advice leave it out: it is planned where
                                      it is named */
    bool offloads_by_another_name; /* placed off the GPU, its plans are those of another row, so an
                                      open choice need not try both */
    struct mw_deepspeed_traits deepspeed;
};

/* The row of a strategy; `strategy` is in range. */
const struct mw_strategy_traits *mw_strategy_traits(enum mw_strategy strategy);

/* Strategies by rising complexity. */
struct mw_strategies {
    int count;
    enum mw_strategy one[MW_STRATEGY_COUNT];
};

struct mw_strategies mw_strategies_all(void);
/* The requested strategy; for MW_STRATEGY_AUTO all that an open choice tries. */
struct mw_strategies mw_strategies_of(enum mw_strategy asked);
/* Those of them of more complexity; for MW_STRATEGY_AUTO none. */
struct mw_strategies mw_strategies_beyond(enum mw_strategy strategy);
/* The first strategy that partitions the same states: plans of one placement are the same. */
enum mw_strategy mw_strategy_sized_as(enum mw_strategy strategy);
bool mw_strategy_is_simpler(enum mw_strategy one, enum mw_strategy other);

/* "zero2, zero-offload or ddp": those for which `takes` is true; g_free it. */
char *mw_strategies_text(bool (*takes)(const struct mw_strategy_traits *));

const char *mw_strategy_name(int strategy); /* "zero-infinity-nvme"; NULL out of range */
bool mw_strategy_parse(const char *name, enum mw_strategy *out, GError **error);

#endif
