/*
 * plan.h - the plan: one training step, as data.
 *
 * A plan holds the ops of one training step and everything an interpreter needs to order them:
 * lanes (which issue), channels (which are shared), tiers and slots (where bytes live),
 * communicators. It never holds a duration and never an address.  sim/ computes when each op would
 * run, and exec/ runs it; both obey one rule:
 *
 *     an op starts when all earlier ops of its lane have started, the lane's window has room,
 *     and its dependencies are done; the ops of a lane end in the order in which they started.
 *
 * A window of several ops keeps a queue full, such as a drive's.  The ops after the first wait in
 * the queue for their turn, and their latency has passed when it comes.
 *
 * A lane continues from step to step: its first op of a step comes right after its last op of the
 * previous step.
 *
 * Four words that are easily mixed up:
 *
 *     operator  a part of the model: the QKV product, the attention, a norm
 *     work      what to do, how much, on which channels; never when.  Many ops share one
 *     op        one work at one place of the step: its identity, lane, slots and dependencies
 *     kernel    a function of a device that an executor calls to run an op; no plan names one
 *
 * Life of a plan: mw_plan_new -> mw_plan_add_* -> mw_plan_check.  A plan that passed the check is
 * immutable (mw_plan_add_* abort on it), and interpreters refuse any other.
 *
 * Sizes are int64 bytes.  Indices are uint32; MW_NONE means "none".  This header is GLib-free.
 */
#ifndef MW_PLAN_PLAN_H
#define MW_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/context.h"
#include "plan/decoder.h"
#include "plan/dtype.h"
#include "plan/encodings.h"
#include "plan/operators.h"
#include "plan/recomputed.h"
#include "plan/replicas.h"

#define MW_NONE UINT32_MAX

enum mw_tier {
    MW_TIER_GPU,  /* device memory of one GPU */
    MW_TIER_CPU,  /* host memory, this rank's share of its node */
    MW_TIER_NVME, /* drives, this rank's share of its node */
    MW_TIER_COUNT
};

/* The kinds of op.  mw_op_traits says what each kind may use, draw on and meet. */
enum mw_op_kind {
    MW_OP_BEGIN,          /* begin of the step, before all its other ops */
    MW_OP_COMPUTE,        /* an operator on the GPU */
    MW_OP_UPDATE,         /* the optimizer's fused pass over a chunk */
    MW_OP_NORM,           /* adds up the squares of gradients */
    MW_OP_AGREE,          /* all ranks agree on the norm and on whether it is finite */
    MW_OP_ACCUMULATE,     /* adds a gradient to its sum; the gradient of micro-batch 0 becomes the
                           * sum */
    MW_OP_NVME_READ,      /* NVMe -> pinned CPU (nc-transfer) */
    MW_OP_NVME_WRITE,     /* pinned CPU -> NVMe */
    MW_OP_H2D,            /* CPU -> GPU (cg-transfer) */
    MW_OP_D2H,            /* GPU -> CPU */
    MW_OP_ALL_GATHER,     /* gg-transfer; bytes = the whole gathered tensor */
    MW_OP_REDUCE_SCATTER, /* bytes = the whole tensor before scattering */
    MW_OP_ALL_REDUCE,     /* bytes = the tensor */
    MW_OP_ALL_TO_ALL,     /* bytes = what a rank has for all ranks, itself included */
    MW_OP_RING_PASS,      /* each block visits all ranks, from one to the next, beside the op that
                           * takes them; bytes = all ranks' blocks */
    MW_OP_BROADCAST,      /* bytes = the tensor */
    MW_OP_SEND,
    MW_OP_RECV,
    MW_OP_COMMIT, /* end of the step: a barrier, and with --commit step the durable record */
    MW_OP_KIND_COUNT
};

/* The object that an op moves or changes. */
enum mw_object {
    MW_OBJECT_NONE,
    MW_OBJECT_ACTIVATIONS, /* results of operators, and their gradients on the way back */
    MW_OBJECT_PARAMETERS,  /* parameters of a fetch unit, as operators read them */
    MW_OBJECT_GRADIENTS,   /* gradients of a fetch unit's parameters */
    MW_OBJECT_CHECKPOINT,  /* an activation checkpoint */
    MW_OBJECT_STATE,       /* a chunk of the optimizer step: its gradients and state */
    MW_OBJECT_UPDATED,     /* the chunk's parameters, on their way home */
    MW_OBJECT_COUNT
};

enum mw_phase {
    MW_PHASE_FORWARD,
    MW_PHASE_RECOMPUTE,
    MW_PHASE_BACKWARD,
    MW_PHASE_OPTIMIZER,
    MW_PHASE_COMMIT,
    MW_PHASE_COUNT
};

enum mw_lane_kind {
    MW_LANE_COMPUTE,    /* the GPU's compute stream */
    MW_LANE_COLLECTIVE, /* the GPU's communication stream */
    MW_LANE_H2D,
    MW_LANE_D2H,
    MW_LANE_NVME_READ,
    MW_LANE_NVME_WRITE,
    MW_LANE_HOST, /* the host's cores: optimizer, accumulation */
    MW_LANE_KIND_COUNT
};

enum mw_channel_kind {
    MW_CHANNEL_SM,       /* the GPU's multiprocessors: 1.0 is all of them */
    MW_CHANNEL_PCIE_H2D, /* one GPU's link, each direction */
    MW_CHANNEL_PCIE_D2H,
    MW_CHANNEL_NODE_H2D, /* all links of a node together, each direction */
    MW_CHANNEL_NODE_D2H,
    MW_CHANNEL_DRAM,   /* a node's host memory */
    MW_CHANNEL_CORES,  /* a node's cores, as the optimizer's update uses them */
    MW_CHANNEL_DRIVE,  /* a node's drives: reads and writes share their time */
    MW_CHANNEL_FABRIC, /* a GPU's port to its node's other GPUs */
    MW_CHANNEL_NIC,    /* a node's network cards, each direction alike */
    MW_CHANNEL_KIND_COUNT
};

/* What a slot is for.  The ledger sums slots by (tier, purpose). */
enum mw_purpose {
    MW_PURPOSE_PARAMETERS,            /* at rest, as operators read them */
    MW_PURPOSE_GRADIENTS,             /* gradients at rest or accumulated */
    MW_PURPOSE_OPTIMIZER_STATE,       /* fp32 master parameters, momentum, variance */
    MW_PURPOSE_OPTIMIZER_STATE_OTHER, /* the other extent of a committed state */
    MW_PURPOSE_ACTIVATION_CHECKPOINTS,
    MW_PURPOSE_ACTIVATIONS,       /* activation working memory (AWM) */
    MW_PURPOSE_PARAMETER_BUFFERS, /* gathered fetch units: model state working memory (MSWM) */
    MW_PURPOSE_GRADIENT_BUFFERS,
    MW_PURPOSE_SHARD_BUFFERS,      /* one rank's shard in transit */
    MW_PURPOSE_CHECKPOINT_BUFFERS, /* a checkpoint in transit */
    MW_PURPOSE_OPTIMIZER_BUFFERS,  /* the buffer sets of the optimizer step */
    MW_PURPOSE_LOGITS,             /* logits, their gradient, the loss */
    MW_PURPOSE_STAGE_BUFFERS,      /* activations and gradients that pipeline stages send */
    MW_PURPOSE_COMMIT_RECORDS,
    MW_PURPOSE_SAVES,             /* saves, every K steps, of state that is not on NVMe */
    MW_PURPOSE_CHECKSUMS,         /* checksums of pages on NVMe, for checking reads */
    MW_PURPOSE_OPTIMIZER_VECTORS, /* of rows and columns: plan/optimizers.h */
    /* of a micro-batch, until the gradients of weights are computed, where these come later: */
    MW_PURPOSE_PRODUCT_INPUTS,   /* inputs of products and norms, */
    MW_PURPOSE_RESULT_GRADIENTS, /* and gradients of their results */
    MW_PURPOSE_COUNT
};

/* How an op uses a slot.  DEFINE starts a new content; READ and MODIFY use the present one. */
enum mw_use_mode { MW_USE_DEFINE, MW_USE_READ, MW_USE_MODIFY, MW_USE_MODE_COUNT };

/* The role of a slot in an op.  A transfer has one SOURCE and one DESTINATION.  For a chunk of the
 * optimizer step, one of the two is the set of homes that the chunk lies in, named by their
 * contents. */
enum mw_role {
    MW_ROLE_NONE, /* no interpreter needs the role */
    MW_ROLE_SOURCE,
    MW_ROLE_DESTINATION,
    MW_ROLE_PARAMETER,
    MW_ROLE_GRADIENT,
    MW_ROLE_SUM,   /* accumulated gradients */
    MW_ROLE_STATE, /* optimizer state */
    MW_ROLE_INPUT, /* activations */
    MW_ROLE_OUTPUT,
    MW_ROLE_CHECKPOINT,
    MW_ROLE_LOGITS,   /* logits and their gradient */
    MW_ROLE_RECEIVED, /* activations or their gradients from a neighbouring pipeline stage, or layer
                       * by layer from the group before */
    MW_ROLE_SENT,     /* the same, to a neighbouring stage, or to the next group */
    MW_ROLE_RECORD,   /* record of a durable step */
    MW_ROLE_SAVE,
    MW_ROLE_WIDENED, /* parameters in the type that products take, of narrower ones */
    MW_ROLE_COUNT
};

/* The hardware that executes an op. */
enum mw_agent {
    MW_AGENT_NOBODY,  /* the op takes no time of its own */
    MW_AGENT_CORES,   /* the GPU's multiprocessors; or, where work.host says so, the host's cores */
    MW_AGENT_LINK,    /* the copy engines of a GPU */
    MW_AGENT_DRIVES,  /* the drives of the node */
    MW_AGENT_NETWORK, /* fabric and network cards, driven by the GPU's multiprocessors */
};

/* The ranks that an op meets.  Each has an op of the same kind in its program; in a pair, one
 * sends. */
enum mw_joins {
    MW_JOINS_NOBODY,
    MW_JOINS_ALL,   /* every rank of the plan */
    MW_JOINS_GROUP, /* the ranks of its communicator */
    MW_JOINS_PAIR,  /* one other rank of its communicator */
};

/* How members of a group pass on a tensor; its bytes on links and its time follow. */
enum mw_pattern {
    MW_PATTERN_NONE,
    MW_PATTERN_GATHER,   /* around a ring, once: parts are collected, or added up into parts */
    MW_PATTERN_REDUCE,   /* around a ring, twice: the sum of all comes to all */
    MW_PATTERN_SPREAD,   /* from one to all */
    MW_PATTERN_EXCHANGE, /* a part of each to each */
    MW_PATTERN_PASS,     /* from each to the next, until all have had it */
    MW_PATTERN_HOP,      /* from one to one */
    MW_PATTERN_COUNT
};

/* One row per kind of op, which builder, check, cost, engine, executor and trace read. */
struct mw_op_traits {
    const char *name;
    enum mw_agent agent;
    enum mw_joins joins;
    enum mw_pattern pattern;
    bool writes;    /* true: writes to the drives that it draws on; false: reads from them */
    uint32_t roles; /* bits 1 << enum mw_role that its uses may have; MW_ROLE_NONE always */
};
const struct mw_op_traits *mw_op_traits(int kind); /* NULL out of range */
struct mw_work;
/* The kind of lane (enum mw_lane_kind) that issues ops of this work in a step. */
int mw_work_lane_kind(const struct mw_work *work);

struct mw_tier_info {
    int64_t capacity_bytes;        /* bytes that a plan may use: the tier minus its reserve */
    int64_t reserve_bytes;         /* driver context, display, operating system, file system */
    int64_t largest_request_bytes; /* fragmentation: no slot of the tier may be larger */
};

/* Axes along which work is divided over the ranks of the world: tensor slices, context, experts,
 * data, replicas of sharding groups, pipeline stages.  A rank's number counts along them, tp
 * fastest and pp slowest.  States are partitioned along dp; where that is a sharding group, the
 * ranks of one number in all groups, along rp, hold the same shards (hybrid sharding). */
enum mw_axis {
    MW_AXIS_TP,
    MW_AXIS_CP,
    MW_AXIS_EP,
    MW_AXIS_DP,
    MW_AXIS_RP,
    MW_AXIS_PP,
    MW_AXIS_COUNT
};

/* The ranks base + stride * i, 0 <= i < count, combined over all axes.  An axis of one rank has
 * stride 0 and count 1. */
struct mw_axis_span {
    uint32_t stride, count;
};
struct mw_members {
    uint32_t base;
    struct mw_axis_span spans[MW_AXIS_COUNT];
};

/* Ranks that act together.  Every rank is in one of its groups, and all groups are alike.  The
 * group of rank r begins at the rank that has index 0 along each axis; the index of r along an axis
 * is (r / stride) % count.  Or there is one group alone, as stages of unlike replicas have each,
 * which begins with rank `first`. */
struct mw_comm {
    struct mw_axis_span spans[MW_AXIS_COUNT];
    bool single;
    uint32_t first; /* 0, if it is not */
};

/* The shape that decides the cost of a communicator's collectives. */
struct mw_comm_shape {
    uint32_t size;            /* ranks in a group */
    uint32_t ranks_per_node;  /* ranks of the group in one node */
    uint32_t groups_per_node; /* groups alike that share a node's NIC at the same time */
};

/* The ops of one rank, and of all ranks that do the same: these are folded into one program.  Its
 * lanes, slots, tensors and chunks are those of one of its ranks.  A collective whose group lies
 * within one program has no match; a collective between programs has an op in each. */
struct mw_program {
    struct mw_members ranks;
    uint32_t in_flight;  /* the most micro-batches that wait for their backward, each with
                         * activations of its own */
    int64_t apart_bytes; /* of a GPU's slots those that software which gives their bytes to others
                          * never needs when it needs most: they may lie beyond the capacity.  A run
                          * has none */
    int64_t beside_bytes[MW_TIER_COUNT]; /* that such software takes beside the slots: of a GPU and
                                          * of host memory.  Answers count them, no op uses them */
    int64_t peak_bytes[MW_TIER_COUNT];   /* of one rank, as proved by mw_plan_check */
};

struct mw_lane {
    uint32_t program; /* the program that issues its ops */
    uint8_t kind;     /* enum mw_lane_kind */
    uint8_t index;
    uint32_t window_ops;  /* the most ops that have started and not ended; >= 1 */
    int64_t window_bytes; /* the most bytes in flight; 0: no limit.  One op is always let in. */
};

struct mw_channel {
    uint8_t kind;   /* enum mw_channel_kind */
    uint32_t index; /* GPU or node number */
    uint32_t users; /* ranks that a draw with `ranks` 1 stands for; it gets 1/users of the
                     * capacity */
};

/* `amount` is what one op moves over the channel: bytes; for MW_CHANNEL_CORES parameters updated;
 * for MW_CHANNEL_SM the share of the multiprocessors in millionths (the profile may scale it, see
 * sim/cost.h). */
struct mw_draw {
    uint32_t channel;
    uint32_t ranks; /* ranks that draw this amount at the same time, each with a fair share; >= 1.
                     * It differs between programs of a node that stand for unequal numbers of
                     * ranks */
    int64_t amount; /* amount of one rank */
};

/* What a product gives: forward's result, or the gradient of its first factor, an input, or of its
 * second, weights. */
enum mw_product_of {
    MW_PRODUCT_OF_RESULT,
    MW_PRODUCT_OF_INPUT,
    MW_PRODUCT_OF_WEIGHTS,
    MW_PRODUCT_OF_COUNT
};

/* `count` products of an m·k and a k·n matrix: 2·m·n·k FLOPs each. */
struct mw_work_product {
    int64_t m, n, k, count;
    int64_t dtype; /* enum mw_dtype of the factors */
    int64_t of;    /* enum mw_product_of */
};

/* The attention of a work, for each sequence of a micro-batch.  heads 0: the work has none.  All
 * members have the same width, since works are compared as bytes. */
struct mw_work_attention {
    int64_t queries, keys;       /* lengths */
    int64_t heads, kv_heads;     /* heads of q; heads of k and v, which divide those of q */
    int64_t head_dim, value_dim; /* width of a head of q and k; of v */
    int64_t window;              /* keys that a query sees, itself included; 0: all */
    int64_t causal;              /* 1: a query sees no later key; 0: it sees all */
};

#define MW_WORK_PRODUCTS_MAX 8
#define MW_ATTENTION_FORWARD_PRODUCTS 2 /* queries by keys, scores by values; backward: more */

/* Work that many ops share (a model's layers are alike): an amount of work, never a duration.
 * FLOPs are those of the products.  Where the parts of an operator, or the tokens of its experts,
 * are unequal, FLOPs are the mean, and the products are those of a part that may have one row more
 * or less. */
struct mw_work {
    uint8_t kind;   /* enum mw_op_kind */
    uint8_t object; /* enum mw_object */
    uint8_t
        operator_; /* enum mw_operator of activations, or the operator that parameters and gradients
                    * belong to */
    uint8_t dtype; /* enum mw_dtype */
    bool host;     /* the host's cores execute it, not the GPU */
    uint32_t comm; /* communicator of a collective, or MW_NONE */
    int32_t hop;   /* a SEND goes to the member this many places further in its group, cyclically,
                    * and a RECV comes from as many places back; else 0 */
    double fullest; /* of ranks that share experts: how many times the mean, which flops and bytes
                     * are, the rank with the most tokens has, for which the others wait; 0: the
                     * ranks have all the same */
    int64_t flops;  /* of all products together */
    struct mw_work_product products[MW_WORK_PRODUCTS_MAX]; /* the first product sets the rate of
                                                            * all */
    uint32_t product_count;
    struct mw_work_attention attention;
    int64_t bytes;       /* bytes moved; for compute, bytes that memory-bound operators read and
                        * write */
    int64_t coded_bytes; /* bytes that passes read and write which store activations in another type
                          * than `dtype`, or restore them from it */
    int64_t elements;    /* parameters of an update, accumulation or norm; else 0 */
    uint32_t launches;   /* kernels started by compute */
    uint32_t draw_begin, draw_count; /* range of plan->draws */
};

/* Slots begin and end at page boundaries, as drives, pinned memory and huge pages require. */
#define MW_SLOT_ALIGNMENT_BYTES 4096

/* Host memory has a checksum of each page on drives; this is its size in bytes. */
#define MW_PAGE_CHECKSUM_BYTES 4
int64_t mw_plan_checksum_bytes(int64_t nvme_bytes);

struct mw_slot {
    uint32_t program;
    uint8_t tier;         /* enum mw_tier */
    uint8_t purpose;      /* enum mw_purpose */
    bool persistent;      /* holds a content before the step begins (state at rest) */
    int64_t offset_bytes; /* offset within the rank's part of the tier */
    int64_t size_bytes;
    bool shares; /* may lie over other slots that say so, where their contents never meet */
};

/* Bytes of a tier. */
struct mw_extent {
    int64_t begin, end;
};
/* How many bytes of an extent none of the others lies over. */
int64_t mw_extent_own_bytes(struct mw_extent extent, const struct mw_extent *others, size_t count);

struct mw_plan;

/* What a program's slots take of each tier, by purpose.  Bytes that slots share count once, for the
 * slot that comes first.  The plan must be checked. */
void mw_plan_count_bytes(const struct mw_plan *plan, uint32_t program,
                         int64_t bytes[MW_TIER_COUNT][MW_PURPOSE_COUNT]);

struct mw_use {
    uint32_t slot;
    uint8_t mode; /* enum mw_use_mode */
    uint8_t role; /* enum mw_role, one that the op's kind allows */
};

/*
 * The contents of homes.  sim/ does not need them; exec/ moves and computes by them.
 *
 * A tensor holds the parameters of some operators of one fetch unit: those that have one element
 * type and are all trained or all frozen.  A frozen tensor has no gradient and no optimizer state,
 * and is in no chunk.  A tensor is cut into `tiles` parts by the rows of its largest matrix, as
 * evenly as grains of rows allow (mw_part_first_row).  Part 0 has, before its rows, the elements
 * that are not rows (the norm's weights).  A part is cut into one shard per
 * data-parallel rank, of `shard_elements` each; the last shards may be shorter, or empty.  Rank r
 * of its data-parallel group has the part's elements from r * shard_elements on.  Where `spread`
 * is above 1, so many neighbouring ranks of that group have each a tensor of its own (the experts
 * of a mixture), and every spread-th rank another replica: these alone have shards of it.
 *
 * For every part, a home holds the whole part or this rank's shard.  Element e of part t lies in it
 * at
 *     whole            t * stride + e
 *     shard of rank r  t * stride + e - r * shard_elements
 * The rest up to the next part, at (t + 1) * stride, is padding whose content means nothing.  The
 * three homes may differ.  With zero1, parameters and gradients are whole and the state is a shard.
 * Then element i of part t in the state (its place there minus t * state_stride) is element r *
 * shard_elements + i of the part, which is in the other homes at t * stride + r * shard_elements +
 * i.  mw_tensor_place gives the place of one element, and mw_chunk_pieces those of a chunk.
 *
 * Gradients are made and reduced in the type of the parameters.  Where they are summed, ACCUMULATE
 * adds them up in fp32 (for micro-batch 0 it sets the sums instead), and the gradient home begins
 * with the sums; it may be larger.  A buffer holds one part or shard from its start on, or a chunk
 * laid out as in the state, padding included; gradients that come with the state follow it.  A
 * pinned gradient buffer bound for NVMe holds the sum of the shard first, which drives read and
 * write there.  The gradient that is added to it follows at the next whole page.  A pinned gradient
 * buffer bound for host memory holds only the latter.
 */
struct mw_tensor {
    uint32_t program;
    int32_t layer;          /* -1: outside the layers */
    uint32_t operators;     /* operators whose parameters these are: bits 1 << enum mw_operator */
    uint8_t dtype;          /* enum mw_dtype of parameters, and of gradients when they are made */
    uint8_t gradient_dtype; /* enum mw_dtype of gradients at home */
    bool summed;            /* gradients are added up at home */
    bool trainable;         /* if false, gradient_slot is MW_NONE and its strides are 0 */
    uint32_t tiles;
    uint32_t spread; /* data-parallel ranks that have other elements each; 0 or 1: none has */
    int64_t elements, rows, row_elements;
    int64_t tile_elements; /* elements of the largest part */
    int64_t shard_elements;
    int64_t param_stride, gradient_stride, state_stride; /* elements */
    uint32_t param_slot, gradient_slot;                  /* homes; the home of the state is that of
                                                          * the chunks */
    bool params_whole, gradients_whole, state_whole;     /* if false, the home holds this rank's
                                                          * shards */
};

enum mw_home { MW_HOME_PARAMS, MW_HOME_GRADIENTS, MW_HOME_STATE };

/* A chunk of the optimizer step: `elements` of the state, which runs through the trainable tensors'
 * state homes (tiles * state_stride each) from `first_element` of tensor `first_tensor` on.  Of a
 * state that is whole, all data-parallel ranks hold the same chunk: it counts once in the norm. */
struct mw_chunk_content {
    uint32_t program;
    uint32_t first_tensor, tensor_count;
    int64_t first_element, elements;
    uint32_t slot, other_slot; /* fp32 parameters, momentum and variance, one after the other; the
                                * other extent of a committed state, or MW_NONE */
};

/* A dependency is an op's index; MW_DEP_PREVIOUS_STEP is set if the edge has distance 1. */
#define MW_DEP_PREVIOUS_STEP 0x80000000u
#define MW_DEP_INDEX(dep) ((dep) & ~MW_DEP_PREVIOUS_STEP)

#define MW_SECTION_LEVELS 2

struct mw_op {
    uint32_t work;
    uint16_t lane;
    uint8_t phase; /* identity: (phase, micro-batch, layer, object and operator, tile, shard) */
    uint8_t dep_count;
    int32_t layer; /* -1: outside the layers */
    uint16_t micro_batch;
    uint16_t tile;
    uint32_t shard; /* chunk of the object: of optimizer state, or of the tokens of logits and loss;
                     * else 0 */
    uint32_t match; /* ops of different ranks with equal `match` are one collective; MW_NONE */
    uint32_t dep_begin;
    uint32_t use_begin;
    uint16_t use_count;
    uint32_t round[MW_SECTION_LEVELS]; /* of an op of the unfolded plan; in a plan's own rows 0 */
};

/*
 * A section says once what is repeated: it is a row of ops that run `rounds` times, such as the
 * equal micro-batches of a step.  Sections nest, at most two deep.  The plan stands for its
 * unfolded plan, in which every round has ops of its own, one round after the other.
 *
 * In a plan with sections a dependency is a number of the unfolded plan: the one that holds in
 * round 0 of the sections that contain the op.  From round to round it moves on by
 * mw_plan.dep_strides.  In the same way a use's slot is that of round 0, and moves on by
 * mw_plan.use_strides, around its ring. The identity moves on by the section's steps.  Ops in a
 * section have no match.
 */
struct mw_section {
    uint32_t first_op, op_count; /* including ops of inner sections */
    uint32_t rounds;
    uint32_t parent; /* the section around it, which has a lower number, or MW_NONE */
    int32_t micro_batch_step, layer_step, shard_step;
    uint32_t span; /* unfolded ops of one round; mw_plan_add_section fills it in */
};
struct mw_dep_stride {
    int32_t by[MW_SECTION_LEVELS]; /* per round of the outer section, then of the inner one */
};
struct mw_use_stride {
    int32_t by[MW_SECTION_LEVELS];
    uint32_t ring_first, ring_count; /* slots that take turns; 0: slots in an open row */
};

#define MW_PLAN_MICRO_BATCHES_MAX 65536  /* that mw_op.micro_batch can tell apart */
#define MW_PLAN_SHARED_PAIRS_MAX 2100000 /* of slots that share bytes: more make the check slow */
#define MW_PLAN_MAX_WORLD (1u << 22)     /* ranks: no existing machine has more */
#define MW_MAX_DEPS_PER_OP 255
#define MW_MAX_USES_PER_OP 65535
#define MW_MAX_DRAWS_PER_WORK 255
#define MW_MAX_LANES_PER_RANK 64

/* The shape of a step: all that an executor must know besides its ops. */
struct mw_step_shape {
    int64_t sequences, seq; /* of a micro-batch of each tensor-slicing group; 0: not stated */
    uint32_t context_ranks; /* such groups that share their tokens; 0 or 1: none do */
    uint8_t context;        /* enum mw_context, if they do */
    int64_t micro_batches;  /* per step; of each replica of a pipeline, or of all together: */
    struct mw_stage_replicas replicas; /* stages whose ranks take them in turn */
    int64_t tiles;                     /* parts of the largest operators: memory-centric tiling */
    int64_t token_chunks;        /* chunks into which logits and loss cut a micro-batch's tokens */
    int64_t checkpoint_interval; /* blocks between activation checkpoints; 0: no checkpoints */
    uint32_t kept_encodings;     /* of activations that layers keep: bits 1 << enum mw_encoding */
    uint8_t checkpoint_dtype;    /* enum mw_dtype of activation checkpoints; MW_DTYPE_NONE: dtype */
    int64_t kept_layers;         /* so many, which no checkpoint is for: */
    struct mw_layer_set recomputed; /* all but these layers; empty: the last ones */
    int64_t save_every;     /* steps between saves of state that is not on NVMe; 0: no saves */
    bool commits;           /* every step is durable */
    bool sequence_parallel; /* tensor slices share tokens: their sums are scattered and gathered */
    bool whole_experts;  /* tensor slices have spread experts of their own, to which each sends its
                         * tokens, and no slices of the same ones */
    bool tensor_overlap; /* backward sums up gradients of tensor slices' inputs beside the products
                             * of the weights' gradients, which are ops of their own; of slices that
                             * share tokens it gathers inputs and gradients by ops */
    bool tensor_pieces;  /* and slices that share tokens compute sliced products in two ops: beside
                          * one of them tokens come or sums go; the other is the piece that is left,
                          * the first or the last of as many as there are slices */
    bool tensor_parts;   /* or else tensor slices that share tokens scatter and gather by ops of
                          * their own, at a block's end and the next one's begin, gather products'
                          * inputs again in backward, and sum up gradients of norms' weights */
    bool weights_later;  /* the gradients of layers' weights are ops of their own, which come once
                          * their micro-batch has gone back through all layers of the rank */
    bool updates_beside; /* a chunk waits for its own gradients, and not for a norm */
    bool whole_checkpoints; /* of all activations of a layer, for layers that are not recomputed: of
                             * all where none is kept */
    bool layer_order;       /* all micro-batches pass a checkpoint group before the next */
    bool updates_on_gpu;    /* state that rests elsewhere comes there for its update */
    bool no_flush;          /* stages of a pipeline whose steps go on over their ends: a step sends
                             * micro-batches of the next one forward, by parameters of another
                             * version, and takes back those of its own that the one before sent */
    bool stashes;       /* and each micro-batch is an update, by what a program has of versions */
    bool vertical_sync; /* and all stages take for it the version that the first one does */
    bool asynchronous;  /* data-parallel ranks' gradients are not summed up: each is an update, in
                          * the order of ranks, and a rank goes on with the parameters that its own
                          * leaves.  Ranks exchange shards: in a home of gradients the shards of all
                          * ranks become this one's shard of all, and in one of parameters back */
    uint8_t optimizer;  /* enum mw_optimizer_kind */
    uint8_t dtype;      /* enum mw_dtype of parameters, activations and gradients */
    bool updates_in_place; /* fp32 parameters are updated themselves: state has no copy of them */
    bool only_simulated;   /* its software moves data as no executor does */
    bool score_bias; /* attention adds a bias to its scores, which some software then stores */
    bool dropout;    /* it drops some of them */
    bool capped_logits, capped_scores; /* tanh caps these */
    bool rms_norm, rotary, gated; /* the model has RMSNorm, rotary positions, a gated MLP: software
                                   * computes these in few kernels or many */
    bool has_decoder;             /* if false, no executor runs the model */
    struct mw_decoder decoder;
};

/* Which layers of a stretch are recomputed; it borrows from the shape. */
struct mw_recomputed mw_step_shape_recomputed(const struct mw_step_shape *shape, int64_t begin,
                                              int64_t end);

/* Of a micro-batch those of one tensor-slicing group. */
static inline int64_t
mw_step_shape_tokens(const struct mw_step_shape *shape)
{
    return shape->sequences * shape->seq / (shape->context_ranks > 1 ? shape->context_ranks : 1);
}

/* Those of each sequence. */
static inline int64_t
mw_step_shape_seq(const struct mw_step_shape *shape)
{
    return shape->seq / (shape->context_ranks > 1 ? shape->context_ranks : 1);
}

struct mw_plan {
    char *title; /* one line for people */
    /* The profiles of machine and software, model and strategy that the plan was made for; NULL if
     * unknown. */
    char *machine, *software, *model, *strategy;
    uint32_t world_ranks;    /* ranks of all programs, including those that this plan does not
                              * have */
    uint32_t ranks_per_node; /* rank r is on node r / ranks_per_node */
    struct mw_program *programs;
    uint32_t program_count;
    struct mw_tier_info tiers[MW_TIER_COUNT];
    struct mw_step_shape shape;

    struct mw_comm *comms;
    uint32_t comm_count;
    struct mw_lane *lanes;
    uint32_t lane_count;
    struct mw_channel *channels;
    uint32_t channel_count;
    struct mw_draw *draws;
    uint32_t draw_count;
    struct mw_work *works;
    uint32_t work_count;
    struct mw_slot *slots;
    uint32_t slot_count;
    struct mw_op *ops;
    uint32_t op_count;
    uint32_t *deps;
    uint32_t dep_count;
    struct mw_use *uses;
    uint32_t use_count;

    struct mw_section *sections; /* in the order of their ops, outer sections first */
    uint32_t section_count;
    struct mw_dep_stride *dep_strides; /* [dep_count], [use_count]; NULL without sections */
    struct mw_use_stride *use_strides;

    bool checked;   /* only mw_plan_check sets it; of an order alone mw_plan_fold and
                    * mw_plan_check_order_alone */
    bool barriered; /* set by mw_plan_check: no op of a step can start before the previous step is
                     * completely done, so one step is the steady state.  This takes a commit op
                     * after all other ops, and dependencies (prev) of the next step's first ops on
                     * it */
    int64_t peak_bytes[MW_TIER_COUNT]; /* per rank, proved by mw_plan_check */

    struct mw_tensor *tensors;
    uint32_t tensor_count;
    struct mw_chunk_content *chunks;
    uint32_t chunk_count;

    struct mw_plan_capacity *capacity; /* capacities of the arrays; private to plan.c */
};

/* Names for texts, tables and traces; NULL for a value out of range. */
const char *mw_tier_name(int tier);
const char *mw_axis_name(int axis);
const char *mw_context_name(int context);
const char *mw_op_kind_name(int kind);
const char *mw_object_name(int object);
const char *mw_phase_name(int phase);
const char *mw_dtype_name(int dtype);
const char *mw_product_of_name(int of);
const char *mw_lane_kind_name(int kind);
const char *mw_channel_kind_name(int kind);
const char *mw_purpose_name(int purpose);
const char *mw_use_mode_name(int mode);
const char *mw_role_name(int role);
/* The subject of an op in tables and traces: its operator, or its object. */
const char *mw_work_name(const struct mw_work *work);

/* Building.  The caller owns the plan and frees it with mw_plan_free (NULL is allowed).  Each add
 * returns the new index.  Running out of memory aborts, and so does a change of a checked plan. */
struct mw_plan *mw_plan_new(const char *title);
/* Control characters in these texts become blanks, since the text form has one line for each. */
void mw_plan_set_machine(struct mw_plan *plan, const char *machine);
void mw_plan_set_software(struct mw_plan *plan, const char *software);
void mw_plan_set_model(struct mw_plan *plan, const char *model);
void mw_plan_set_strategy(struct mw_plan *plan, const char *strategy);
void mw_plan_free(struct mw_plan *plan);
/* Copies all that stands before the entities, but for the title, and the programs. */
void mw_plan_copy_head(struct mw_plan *to, const struct mw_plan *from);
/* Sets a world of this many ranks.  A new plan has a world of one rank and one program, rank 0's.
 * Folded: one program stands for all ranks; else each rank has its own. */
void mw_plan_set_world(struct mw_plan *plan, uint32_t ranks, uint32_t ranks_per_node, bool folded);
/* Removes all programs, so that programs that stand for some ranks each can be added. */
void mw_plan_clear_programs(struct mw_plan *plan);
uint32_t mw_plan_add_program(struct mw_plan *plan, struct mw_members ranks);
uint32_t mw_plan_add_comm(struct mw_plan *plan, struct mw_comm comm);
uint32_t mw_plan_add_lane(struct mw_plan *plan, struct mw_lane lane);
uint32_t mw_plan_add_channel(struct mw_plan *plan, struct mw_channel channel);
/* So many more slots, tensors and chunks are about to be added: a hint that spares their arrays
 * growing step by step. */
void mw_plan_expect_homes(struct mw_plan *plan, uint32_t slots, uint32_t tensors, uint32_t chunks);
uint32_t mw_plan_add_slot(struct mw_plan *plan, struct mw_slot slot);
uint32_t mw_plan_add_tensor(struct mw_plan *plan, struct mw_tensor tensor);
uint32_t mw_plan_add_chunk(struct mw_plan *plan, struct mw_chunk_content chunk);
/* Copies the draws and fills in work.draw_begin and draw_count. */
uint32_t mw_plan_add_work(struct mw_plan *plan, struct mw_work work, const struct mw_draw *draws,
                          uint32_t draw_count);
/* Starts a new op.  Dependencies and uses added before the next mw_plan_add_op belong to it. */
uint32_t mw_plan_add_op(struct mw_plan *plan, struct mw_op op);
/* Adds a dependency of the newest op.  MW_NONE and repeats are ignored. */
void mw_plan_add_dep(struct mw_plan *plan, uint32_t dep);
void mw_plan_add_use(struct mw_plan *plan, uint32_t slot, enum mw_use_mode mode, enum mw_role role);

/* Makes existing ops a section and fills in its span.  After that, their dependencies and uses take
 * strides.  An outer section is added before its inner ones; otherwise sections follow the order of
 * their ops. */
uint32_t mw_plan_add_section(struct mw_plan *plan, struct mw_section section);

/* --- sections -------------------------------------------------------------------------------- */

/* An op of the unfolded plan: an op of the folded plan, and the rounds it is in. */
struct mw_op_place {
    uint32_t op;
    uint32_t round[MW_SECTION_LEVELS]; /* 0 for a level at which it is in no section */
};
/* How many sections contain the op.  Lists them from the outermost on, and MW_NONE after them. */
int mw_plan_sections_of(const struct mw_plan *plan, uint32_t op,
                        uint32_t sections[MW_SECTION_LEVELS]);
/* The number of unfolded ops that the op stands for. */
int64_t mw_plan_op_rounds(const struct mw_plan *plan, uint32_t op);
int64_t mw_plan_unfolded_ops(const struct mw_plan *plan);
/* Converts between places and numbers of the unfolded plan.  mw_plan_find_number returns false if
 * there is no such number. */
int64_t mw_plan_unfolded_number(const struct mw_plan *plan, struct mw_op_place place);
bool mw_plan_find_number(const struct mw_plan *plan, int64_t number, struct mw_op_place *place);
/* A use's slot and an op's identity in the given rounds. */
uint32_t mw_plan_use_slot(const struct mw_plan *plan, uint32_t use,
                          const uint32_t round[MW_SECTION_LEVELS]);
struct mw_op mw_plan_op_at(const struct mw_plan *plan, struct mw_op_place place);
/* The op of this number in the unfolded plan, which must have it.  Interpreters that do not unfold
 * a plan look up what it depends on and uses by the next two. */
struct mw_op mw_plan_numbered_op(const struct mw_plan *plan, uint32_t number);
/* i < op->dep_count: a number of the unfolded plan, with MW_DEP_PREVIOUS_STEP as in the plan. */
uint32_t mw_plan_op_dep(const struct mw_plan *plan, const struct mw_op *op, uint32_t i);
/* i < op->use_count */
struct mw_use mw_plan_op_use(const struct mw_plan *plan, const struct mw_op *op, uint32_t i);
/* Positions of ops in their lanes, in the unfolded plan. */
struct mw_lane_positions {
    int64_t *first;  /* [op_count] position in rounds 0, from 0 */
    int64_t *span;   /* [section_count * lane_count] ops of a lane in one round */
    int64_t *length; /* [lane_count] */
};
struct mw_lane_positions mw_lane_positions_new(const struct mw_plan *plan);
void mw_lane_positions_clear(struct mw_lane_positions *places);
int64_t mw_lane_position(const struct mw_plan *plan, const struct mw_lane_positions *places,
                         struct mw_op_place place);
/* Returns the same step without sections, unchecked; NULL if a number leaves the plan. */
struct mw_plan *mw_plan_unfold(const struct mw_plan *plan);
/* Rounds of a flat plan that may be alike: micro-batches, the layers of a pass, chunks of the
 * optimizer step.  The flat plan leaves out rounds in the middle. */
struct mw_fold_rounds {
    const uint32_t *begins; /* [count + 1] first op of each round, in order, and the end of the last
                             * round */
    uint32_t count;
    uint32_t cut, more; /* `more` rounds are left out before round `cut` */
    uint32_t alike;     /* the least number of rounds around the cut that must be alike, */
    uint32_t before;    /* not counting this many first ones */
};
struct mw_slot_ring {
    uint32_t first, count; /* slots that take turns; count 0: the slot is in no ring */
};
struct mw_fold {
    const struct mw_fold_rounds *rounds; /* [count] in the order of their ops; rounds within others
                                          * come after these */
    uint32_t count;
    bool has_outer; /* the first rounds are micro-batches, and others may lie within them */
    /* For the flat plan: the ring of each slot, and the numbers of its slots, layers and chunks in
     * the folded plan.  Slots of a ring stay side by side. */
    const struct mw_slot_ring *rings;
    const uint32_t *slots;  /* NULL: an order alone */
    const int32_t *layers;  /* NULL: the same */
    const uint32_t *chunks; /* NULL: the same */
};
/* Folds `flat`, which has some rounds of the step, into a section for each row of `how`.  `folded`
 * is a plan with all tables except works and ops, which are added to it.  Returns false if rounds
 * are not alike; `folded` is then of no use.
 *
 * An order alone has no slots or homes, and its ops use none.  The engine needs no more than that:
 * it is for plans whose time is wanted.  `flat` must have passed the check, or that of its order
 * alone, and the order counts as checked: its rounds in the middle are those that were compared. */
bool mw_plan_fold(const struct mw_plan *flat, const struct mw_fold *how, struct mw_plan *folded);

/*
 * Proves, for every timing:
 *   - every index and enum is in range, no number is negative, an op's uses have roles of its kind;
 *   - the step's shape is valid, and no op is outside it;
 *   - tensors and chunks lie within their homes, and parts do not overlap there;
 *   - slots of a tier do not overlap, no slot exceeds the tier's largest request, and the sum of
 *     the slots, less a program's apart_bytes, is within capacity;
 *   - a slot's new content depends on every last user of its previous content, also across the end
 *     of the step, and no op uses a slot that holds nothing;
 *   - dependencies, lane order and slot edges together are acyclic over all ranks, with each
 *     matched collective as one node; and the members of a match agree on the work (kind,
 *     communicator, bytes; a send matches a recv).  Only a match joins ranks: a dependency and a
 *     use stay within their rank.
 * Dependencies and the order and window of lanes prove that one op waits for another.
 * On success the plan is sealed: checked, barriered and peak_bytes are set.
 * On failure returns false and writes one line to `why` (why_size bytes, may be 0).
 */
bool mw_plan_check(struct mw_plan *plan, char *why, size_t why_size);
/* Of a plan of one program without sections that is only timed: whether no op waits for a later one
 * and steps are apart, as nearly every plan's are.  On success the plan counts as checked, and is
 * barriered; else ask mw_plan_check, which looks at all, and takes many times as long. */
bool mw_plan_check_order_alone(struct mw_plan *plan);
/* Of a checked plan: the most that a rank needs of a tier, its peak_bytes less apart_bytes. */
int64_t mw_plan_need_bytes(const struct mw_plan *plan, int tier);
/* The same with what its software takes beside it. */
int64_t mw_plan_whole_need_bytes(const struct mw_plan *plan, int tier);

/*
 * Proves of a plan that passed the check that it is a whole training step of its model, as the
 * step's shape, its tensors and its chunks say:
 *   - tensors are cut as the ranks divide them, and each element of the optimizer's state is in one
 *     chunk;
 *   - each micro-batch runs all operators, in all their parts and token chunks, forward, again
 *     where checkpoints ask for it, and back, in order;
 *   - parameters come from where they live, every gradient that is trained comes home and is
 *     reduced and summed on its way, and every chunk is updated with it, once;
 *   - begin comes first, behind the commit of the step before; norms before the ranks agree on
 *     them, updates after that, commit last; with updates beside backward there are no norms, and
 *     each update waits for its own gradients.
 * may_drop: layers may be left out as a whole, as variants of a step do.  Of a model that no
 * executor runs, less is known of the operators before and behind its layers.  A plan with sections
 * is unfolded; where that gives more ops than MW_PLAN_STEP_OPS_MAX, chunks alone are looked at.
 */
#define MW_PLAN_STEP_OPS_MAX 4000000
bool mw_plan_check_step(const struct mw_plan *plan, bool may_drop, char *why, size_t why_size);

/* --- ranks, programs and communicators ------------------------------------------------------- */

struct mw_members mw_members_of_one(uint32_t rank);
uint32_t mw_members_count(const struct mw_members *members);
/* Ranks along an axis: the most that any communicator of the plan has there, at least 1; of stages
 * that have unlike replicas their number. */
uint32_t mw_plan_degree(const struct mw_plan *plan, enum mw_axis axis);
/* Updates of each chunk in a round of data-parallel ranks: one, or one by each rank where they
 * update asynchronously. */
uint32_t mw_plan_updates(const struct mw_plan *plan);
uint32_t mw_members_at(const struct mw_members *members, uint32_t index); /* index is below their
                                                                           * count */
bool mw_members_have(const struct mw_members *members, uint32_t rank);
/* The group of a rank, and the shape of groups in a world with this many ranks per node. */
struct mw_members mw_comm_group(const struct mw_comm *comm, uint32_t rank);
struct mw_comm_shape mw_plan_comm_shape(const struct mw_plan *plan, uint32_t comm);
/* The rank that a SEND of `rank` goes to, or that its RECV comes from. */
uint32_t mw_work_peer(const struct mw_plan *plan, const struct mw_work *work, uint32_t rank);
/* Returns MW_NONE if none of the plan's programs has this rank. */
uint32_t mw_plan_program_of(const struct mw_plan *plan, uint32_t rank);
/* The program of one rank of a checked plan, as a plan whose collectives have no match.  NULL with
 * a line in `why` if the rank has none. */
struct mw_plan *mw_plan_extract(const struct mw_plan *plan, uint32_t rank, char *why,
                                size_t why_size);

/* These functions need a plan that passed the check.  Whether its gradients outlive the step, so
 * that the next step's update uses them. */
bool mw_plan_is_delayed(const struct mw_plan *plan);

/* Whether a tensor's gradients, which live off the GPU, are summed up there over all micro-batches,
 * and the sum alone comes home: these make them one after the other. */
bool mw_plan_sums_passing(const struct mw_plan *plan, const struct mw_tensor *tensor);

/* Whether tensor slices gather the checkpoints that layers are recomputed from: then each keeps a
 * part of every checkpoint, and else all of it.  Parts are equal ones of whole blocks of the
 * checkpoint's type, but the last of them may be shorter. */
bool mw_plan_gathers_checkpoints(const struct mw_plan *plan);
/* Whether each program has a layer of the model; a stage may have one of its ends alone. */
bool mw_plan_all_have_layers(const struct mw_plan *plan);
/* How many stretches a program's layers come in, which follow each other in each: of each of the
 * model's layers [layers] the first of its stretch, and the layer behind that; 0: it is not the
 * program's. */
int64_t mw_plan_find_stretches(const struct mw_plan *plan, uint32_t program, int64_t layers,
                               int64_t *first_of, int64_t *behind);

/* Whether the work sums up, over tensor slices that share tokens, the gradients of a norm's
 * weights, where each has made them of its own tokens. */
bool mw_plan_sums_norm(const struct mw_plan *plan, const struct mw_work *work);

/* Elements of a part: its rows, and in part 0 also the elements that are not rows. */
/*
 * Parts begin at multiples of MW_PART_ROW_GRAIN rows where they have MW_PART_ROWS_LEAST of them:
 * rows of a weight are columns of what is multiplied by it, and kernels for tensor cores take 16
 * bytes of a column's neighbours at once.  Columns that begin elsewhere cost seven times as much
 * (GPT-2's 50257 logits in 17 parts on an H100).  Smaller parts would be padded by more than 1%.
 */
#define MW_PART_ROW_GRAIN 8
#define MW_PART_ROWS_LEAST 1024

/* Part `tile` of `tiles` has the rows from this one up to that of tile + 1; `rows` for `tiles`. */
int64_t mw_part_first_row(int64_t rows, int64_t tiles, int64_t tile);
/* Rows of the largest part. */
int64_t mw_part_rows_max(int64_t rows, int64_t tiles);
int64_t mw_tensor_part_elements(const struct mw_tensor *tensor, uint32_t tile);
struct mw_range {
    int64_t first, elements;
};
/* Among the ranks that have the tensor's elements, the number of one of its data-parallel group. */
uint32_t mw_tensor_holder(const struct mw_tensor *tensor, uint32_t dp_rank);
/* The most ranks over which a tensor of the plan is spread; 1: over none. */
uint32_t mw_plan_spread(const struct mw_plan *plan);
/* A rank's shard of a part, without padding; it may be empty. */
struct mw_range mw_tensor_shard(const struct mw_tensor *tensor, uint32_t dp_rank, uint32_t tile);
/* Place of an element of a part in the home of a rank that holds it, in elements. */
int64_t mw_tensor_place(const struct mw_tensor *tensor, enum mw_home home, uint32_t dp_rank,
                        uint32_t tile, int64_t element);

/* The piece of one part that a chunk has: its elements [first, first + elements), from element `at`
 * of the chunk on.  Pieces are never empty, have no padding, and come in the chunk's order. */
struct mw_piece {
    uint32_t tensor, tile;
    int64_t first, elements, at;
};
struct mw_pieces {
    const struct mw_plan *plan;
    const struct mw_chunk_content *chunk;
    uint32_t dp_rank, turn, tile;
    int64_t tensor_at; /* place of the tensor's state in the chunk; negative if it began before the
                        * chunk */
};
struct mw_pieces mw_chunk_pieces(const struct mw_plan *plan, const struct mw_chunk_content *chunk,
                                 uint32_t dp_rank);
bool mw_pieces_next(struct mw_pieces *pieces, struct mw_piece *piece); /* returns false after the
                                                                        * last piece */

/* The text form reads back to the same plan, and is the same byte for byte when written again.
 * Both return false with one line in `why` (with the line number, for a read). */
bool mw_plan_write(const struct mw_plan *plan, FILE *out);
struct mw_plan *mw_plan_read(FILE *in, char *why, size_t why_size);
/* Reads `length` bytes of text, at most MW_PLAN_TEXT_BYTES_MAX from a file, and checks the plan. */
#define MW_PLAN_TEXT_BYTES_MAX (1 << 30)
#define MW_PLAN_TEXT_BEGIN "memwall-plan"
#define MW_PLAN_TEXT_VERSION "7"
struct mw_plan *mw_plan_parse(const char *text, size_t length, char *why, size_t why_size);

/* One row of the timeline, predicted (sim/) or measured (exec/), with the op's identity. */
struct mw_timeline_row {
    uint32_t op;
    uint32_t step;
    uint32_t round[MW_SECTION_LEVELS]; /* rounds of the sections that the op is in */
    uint32_t more;                     /* repeats of the op in rounds that were skipped */
    int64_t start_ns, end_ns;
    int64_t skipped_ns; /* skipped time before it ended, which its times leave out */
};

struct mw_timeline {
    struct mw_timeline_row *rows;
    size_t row_count;
};

#endif
