/* parallel_internal.h - the space of parallel.h: what its points are, and the bounds of a block. */
#ifndef MW_STUDY_PARALLEL_INTERNAL_H
#define MW_STUDY_PARALLEL_INTERNAL_H

#include "study/parallel.h"
#include "study/pipeline.h"

/* Which layers backward computes again, or that all of them leave the GPU whole and come back. */
struct mw_parallel_choice {
    int64_t interval, layers; /* layers MW_AUTO: all; interval 0: none */
    int partition;            /* of checkpoints, over tensor slices */
    bool whole;
};

/* What is partitioned and where it rests. */
struct mw_parallel_variant {
    enum mw_strategy strategy;
    int strategy_number; /* of the space's */
    int64_t shard_group;
    uint8_t tier[MW_STATE_COUNT];
};

/* Of a kind of stage with a variant, in a step of so many micro-batches or more: lines through two
 * numbers of them. */
struct mw_parallel_line {
    struct mw_pipeline_beside at, more; /* and of each further micro-batch */
    int64_t home_bytes[MW_TIER_COUNT];  /* of parameters, optimizer state, and gradients that are
                                         * there all the time; */
    int64_t made_bytes[MW_TIER_COUNT];  /* of others */
};
enum mw_parallel_fate { MW_PARALLEL_OPEN, MW_PARALLEL_REFUSED, MW_PARALLEL_LACKING };
struct mw_parallel_state {
    enum mw_parallel_fate fate;
    struct mw_parallel_line of[MW_PIPELINE_KINDS];
};

enum { ALONE, SEVERAL, COUNTS }; /* micro-batches: one, or more, which sum up gradients */

/* Tensor slices and stages, with what depends on them alone. */
struct mw_parallel_pair {
    int64_t tp, pp, dp;
    const GArray *variants; /* borrowed */
    struct mw_parallel_state *states[COUNTS];
};

struct mw_parallel_shape {
    int pair;
    int64_t sequences, micro_batches; /* of a replica */
    int sequence_parallel, schedule;
    int64_t stretches;
    const GArray *choices; /* borrowed */
    int64_t first_block;   /* of as many as there are choices */
    enum mw_parallel_fate fate;
    struct mw_pipeline_order order;
    struct mw_pipeline_floor floor;
};

struct mw_parallel_space {
    const struct mw_parallel_question *asked;
    const struct mw_model *model;
    const struct mw_hardware *hardware;
    struct mw_settings base; /* with the global batch */
    struct mw_strategies strategies;
    GArray *pairs, *shapes;
    GPtrArray *choices;  /* lists: [layers of a stretch][interleaved][checkpoints may be parted] */
    GArray *variants[2]; /* without groups within a node, and with them */
    bool leaves;         /* activations, in some variants */
    int64_t points, blocks, refused, lacking; /* the latter two of shapes as a whole */
};

struct mw_parallel_space *mw_parallel_space_new(const struct mw_parallel_question *asked,
                                                GError **error);
void mw_parallel_space_free(struct mw_parallel_space *space); /* NULL is allowed */
/* Why the first shape makes no sense, which it does not. */
void mw_parallel_refuse_first(const struct mw_parallel_space *space, GError **error);

/* A block, and the least that its points take. */
struct mw_parallel_block {
    double floor_s;
    int32_t shape, choice;
};
/* All of the space, [blocks]; g_free it. */
struct mw_parallel_block *mw_parallel_blocks(const struct mw_parallel_space *space);

static inline const struct mw_parallel_pair *
mw_parallel_pair_of(const struct mw_parallel_space *space, const struct mw_parallel_shape *shape)
{
    return &g_array_index(space->pairs, struct mw_parallel_pair, shape->pair);
}

/* Of a block's point whether it makes sense, and whether the software has it. */
enum mw_parallel_fate mw_parallel_fate_of(const struct mw_parallel_space *space,
                                          const struct mw_parallel_block *block, guint variant);
static inline const struct mw_parallel_state *
mw_parallel_state_of(const struct mw_parallel_shape *shape, const struct mw_parallel_pair *pair,
                     guint variant)
{
    return &pair->states[shape->micro_batches > 1 ? SEVERAL : ALONE][variant];
}

/* Settings of a point, completed; false: they make no sense. */
bool mw_parallel_settings(const struct mw_parallel_space *space,
                          const struct mw_parallel_block *block,
                          const struct mw_parallel_variant *variant, struct mw_settings *out);

/* What all points of a block take of the GPU's memory, and their checkpoints wherever they rest, of
 * each kind of stage. */
struct mw_parallel_room {
    int count;
    int64_t gpu_bytes[MW_PIPELINE_KINDS], checkpoint_bytes[MW_PIPELINE_KINDS];
    int64_t capacity[MW_TIER_COUNT];
};
bool mw_parallel_room_of(const struct mw_parallel_space *space,
                         const struct mw_parallel_block *block, struct mw_parallel_room *out);
/* The least that a point takes of a tier in a kind of stage; and whether all tiers have that. */
int64_t mw_parallel_need_bytes(const struct mw_parallel_room *room,
                               const struct mw_parallel_variant *variant,
                               const struct mw_parallel_state *state, int stage, int tier);
bool mw_parallel_has_room(const struct mw_parallel_room *room,
                          const struct mw_parallel_variant *variant,
                          const struct mw_parallel_state *state);
/* Never above a point's time; `variant` and `state` NULL: that of any point of the block. */
double mw_parallel_bound_s(const struct mw_parallel_shape *shape,
                           const struct mw_parallel_choice *choice,
                           const struct mw_parallel_variant *variant,
                           const struct mw_parallel_state *state);
/* Runs work(data, i) for all of `count`, on all cores. */
void mw_parallel_each(void (*work)(void *data, int i), void *data, int count);

#endif
