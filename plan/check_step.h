/*
 * check_step.h - the parts of mw_plan_check_step, which look at one program after the other.
 * Private to the plan library.
 *
 *   homes    tensors are cut as their ranks and tiles say, and chunks cover their state
 *                                                                  plan/check_step_homes.c
 *   compute  each micro-batch runs the model's operators, in order  plan/check_step_compute.c
 *   flow     what ops read is what others made of the same part     plan/check_step_flow.c
 *            slices sum up the gradients of norms' weights          plan/check_step_slices.c
 *   lanes    ops are in lanes of their kind, and meet in lanes that are alike
 *                                                                  plan/check_step_lanes.c
 *   chunks   gradients to updated parameters, chunk by chunk        plan/check_step_chunks.c
 *
 * Ops are looked at in a topological order.  mw_plan_check has proved that any such order shows
 * each slot the same users one after the other, so what holds in one of them holds in all.
 */
#ifndef MW_PLAN_CHECK_STEP_H
#define MW_PLAN_CHECK_STEP_H

#include "plan/check.h"

/* What an op does to a part's gradient, by kind. */
enum mw_step_gradient {
    MW_STEP_COPIES, /* summed up with that of a copy, in another stage */
    MW_STEP_REDUCE,
    MW_STEP_REPLICAS, /* summed up with those of the same shard in other sharding groups */
    MW_STEP_DOWN,     /* to the host */
    MW_STEP_SUM_READ,
    MW_STEP_ACCUMULATE,
    MW_STEP_PART_NORM,
    MW_STEP_SUM_WRITE,
    MW_STEP_GRADIENT_COUNT
};

/* A part of a tensor in the step. */
struct mw_step_part {
    uint32_t made;     /* micro-batches whose gradient backward has computed, at least in part */
    uint32_t left;     /* micro-batches whose gradient has gone on from there */
    uint32_t unsummed; /* norms whose weights' gradients slices have made of their own tokens, and
                        * not summed up: bits 1 << enum mw_operator */
    uint32_t done[MW_STEP_GRADIENT_COUNT];
};

/* The planner cuts the rooms of layers into as many slots at most. */
#define MW_STEP_ROOMS_MAX 64

/* Slots as they are in the step so far. */
struct mw_step_slot {
    uint32_t definer, writer; /* ops, or MW_NONE */
    bool read_by_optimizer, read_by_others, written;
    bool updated_late; /* parameters, when others had read them */
};

struct mw_step_check {
    struct mw_plan_check base;
    const struct mw_plan *plan; /* without sections */
    const struct mw_plan *said; /* whose numbers a message has */
    bool may_drop;
    int64_t layers; /* of the model */
    struct mw_step_slot *slots;

    /* Of a program. */
    uint32_t program;
    const uint32_t *ops; /* [op_count] in a topological order */
    uint32_t op_count;
    int64_t layer_first, layer_behind; /* the latter is not its own */
    int64_t stretches;                 /* of layers that follow each other */
    int64_t *first_of_stretch;         /* [layers] of the stretch that has the layer: its first, */
    int64_t *behind_stretch;           /* and the layer behind it; 0: it is not the program's */
    bool *dropped;                     /* [layers] */
    uint32_t *tensor_of;               /* [(layers + 1) * MW_OPERATOR_COUNT], MW_NONE: none */
    uint32_t begin, agree, commit;
    uint32_t weights_apart; /* operators whose weights' gradients come later, if the step's do */
    bool gathers_checkpoints;
    int64_t dp, rp, tp, pp; /* dp: a sharding group, of which there are rp */
    bool delayed;
    uint32_t *part_of; /* [tensor_count] first part of a tensor */
    struct mw_step_part *parts;
    uint32_t rooms[MW_STEP_ROOMS_MAX]; /* [room_count] slots of activations that share bytes */
    uint32_t room_count;
    uint32_t *left_by; /* [micro_batches] the last op that left something for the next group */
    uint32_t first_chunk, chunk_count; /* ops number the program's own */
    uint32_t *chunk_done;              /* [chunk_count of the plan] bits */
};

bool mw_step_check_lanes(struct mw_plan_check *check);
bool mw_step_check_meetings(struct mw_plan_check *check); /* of ops that mw_plan_check matched */
bool mw_step_check_homes(struct mw_step_check *check);
bool mw_step_check_cover(struct mw_step_check *check); /* of chunks, all programs' */
bool mw_step_check_compute(struct mw_step_check *check);
bool mw_step_check_flow(struct mw_step_check *check);
/* An op that mw_plan_sums_norm: behind the norm's backward, where that has left its tensor's
 * gradients, and before they go on. */
bool mw_step_check_norm_sum(struct mw_step_check *check, uint32_t op, uint32_t tensor);
/* An op of a chunk, in its turn; and at the end, whether none is lacking. */
bool mw_step_check_chunk_op(struct mw_step_check *check, uint32_t op);
bool mw_step_check_chunks(struct mw_step_check *check);

/* --- helpers --------------------------------------------------------------------------------- */

/* As a message names the op. */
struct mw_plan_label mw_step_label(const struct mw_step_check *check, uint32_t op);
/* The slot that an op uses as this; MW_NONE: it uses none. */
uint32_t mw_step_slot(const struct mw_step_check *check, uint32_t op, enum mw_role role);
/* The tensor whose parameters the op is about; MW_NONE: none, or not known. */
uint32_t mw_step_tensor(const struct mw_step_check *check, uint32_t op);
bool mw_step_drops(const struct mw_step_check *check, int32_t layer);
/* Whether backward of this operator of a layer leaves the gradients of its weights to an op of
 * their own, which follows its last part (MW_OBJECT_GRADIENTS). */
bool mw_step_splits(const struct mw_step_check *check, int32_t layer, int operator_);
/* Whether slices compute this operator of a layer, forward or back, in two ops, of which the second
 * has shard 1 (shape.tensor_pieces). */
bool mw_step_in_pieces(const struct mw_step_check *check, int32_t layer, int operator_, bool back);
/* Whether a layer from layer_first on, below layer_behind, is the program's. */
bool mw_step_has(const struct mw_step_check *check, int64_t layer);
/* Where the stretches begin behind the one that has the layer, and before it; layer_behind, and -1:
 * there is none. */
int64_t mw_step_next_stretch(const struct mw_step_check *check, int64_t layer);
int64_t mw_step_stretch_before(const struct mw_step_check *check, int64_t layer);
/* Data-parallel ranks that have the tensor's elements, and divide them: all, or where experts are
 * spread one in `spread`. */
int64_t mw_step_replicas(const struct mw_step_check *check, const struct mw_tensor *tensor);
/* Whether the op's group has just these ranks. */
bool mw_step_meets_replicas(const struct mw_step_check *check, uint32_t op,
                            const struct mw_tensor *tensor);
enum mw_tier mw_step_tier(const struct mw_step_check *check, uint32_t slot);
/* Whether so many ranks meet in the op, along this axis alone. */
bool mw_step_joins_along(const struct mw_step_check *check, uint32_t op, enum mw_axis along,
                         int64_t ranks);
/* Whether the slot holds the gradient of the op's own part and micro-batch, as an op of this kind
 * left it. */
bool mw_step_is_gradient_of(const struct mw_step_check *check, uint32_t slot, uint32_t op,
                            uint32_t tensor, enum mw_op_kind kind);

static inline struct mw_step_part *
mw_step_part_of(const struct mw_step_check *check, uint32_t tensor, uint32_t tile)
{
    return &check->parts[check->part_of[tensor] + tile];
}

static inline const struct mw_work *
mw_step_work(const struct mw_step_check *check, uint32_t op)
{
    return &check->plan->works[check->plan->ops[op].work];
}

#endif
