/* internal.h - what the files of the builder share. */
#ifndef MW_PLANNER_BUILD_INTERNAL_H
#define MW_PLANNER_BUILD_INTERNAL_H

#include "planner/build/build.h"
#include "planner/sizing/internal.h"

/* Size of the hash table of works; when all probes are taken a work is replaced, so a work may be
 * in the plan twice. */
#define WORK_TABLE 1024
#define WORK_PROBES 8

/* The lanes of one rank. */
enum {
    LANE_COMPUTE,
    LANE_COLLECTIVE, /* data-parallel collectives */
    LANE_SLICING,    /* collectives of activations: a stream of their own */
    LANE_H2D,
    LANE_D2H,
    LANE_READ,
    LANE_WRITE,
    LANE_HOST,
    /* lanes of a delayed update, so that the update and the concurrent step do not wait for each
     * other */
    LANE_UPDATE_COLLECTIVE,
    LANE_UPDATE_H2D,
    LANE_UPDATE_D2H,
    LANE_UPDATE_READ,
    LANE_UPDATE_WRITE,
    LANE_UPDATE_HOST,
    /* between pipeline stages, one each way: neither waits for the other */
    LANE_STAGE_INPUT,
    LANE_STAGE_OUTPUT,
    LANE_STAGE_GRADIENT_INPUT,
    LANE_STAGE_GRADIENT_OUTPUT,
    LANE_REPLICAS, /* sums of shards' gradients over sharding groups: a stream of their own */
    LANES_PER_RANK
};
G_STATIC_ASSERT(LANES_PER_RANK <= 32); /* a slot's readers are bits of 32 */

/* What of an operator is computed: forward, all of backward, or in two ops the gradients of its
 * input and those of its weights, which nothing in the layer waits for. */
enum pass {
    PASS_FORWARD,
    PASS_BACKWARD,
    PASS_OF_INPUT,
    PASS_OF_WEIGHTS,
    PASS_OF_BLOCKS, /* of attention, with all blocks of keys but the last one that comes, */
    PASS_OF_LAST_BLOCK,
    PASS_OF_PIECES, /* forward, or of the input's gradient, in as many pieces as slices but one; */
    PASS_OF_PIECE,  /* that one */
    PASS_BACK_OF_PIECES,
    PASS_BACK_OF_PIECE, /* and the gradients of the weights */
    PASS_COUNT
};

/* The last writer of a slot, and its readers since: one reader per lane is enough, because lanes
 * issue and complete in order. */
struct slot_state {
    uint32_t writer;
    uint32_t read_by; /* bits 1 << lane of those that have a reader */
    uint32_t readers[LANES_PER_RANK];
};

/* A work that was asked for by these words, of the program: works are made of a few at a time. */
struct asked_work {
    uint64_t words[3];
    uint32_t work;
};
#define ASKED_WORKS 64

/* Of a communicator, the group of the program's first rank. */
struct met_group {
    bool known, within_program;
    uint32_t base;
};
#define MET_GROUPS 16

/* The slots of a row of mw_sizing.buffers; `next` is for slots that take turns. */
struct ring {
    uint32_t first, count, next;
};

/* Tied logits take their weight from the embedding, part by part; the rest of the tail (the final
 * norm, a projection or bias of the logits) is a visit of its own. */
enum tied_part { TIED_NOT, TIED_WEIGHT, TIED_REST };

/* One visit of the schedule: the computation of one part of a fetch unit. */
struct visit {
    uint8_t phase;
    uint8_t class_;
    uint8_t unit; /* within its block */
    bool first_of_group;
    bool keeps_layer;    /* begins backward of a layer that is kept whole, or ends its forward */
    bool of_weights; /* computes the gradients of weights that the way back has left */
    bool updates;    /* ends a micro-batch that is an update of its own */
    bool next;       /* of the next step, and so of the next version of parameters */
    bool enters, leaves; /* begins or ends a stage's pass, and so receives or sends */
    uint16_t micro_batch;
    uint16_t tile;
    uint16_t chunk; /* of the logits */
    int32_t layer;
    uint32_t first_tensor;   /* of the unit whose operators run */
    uint32_t fetched_tensor; /* the first of the unit whose parameters it needs, or MW_NONE */
    uint32_t fetched_tile;
    uint32_t reuses; /* earlier visit whose gathered slot serves this one, or MW_NONE */
    bool keeps;      /* a later visit reuses the slot */
    enum tied_part tied;
    uint32_t adds_to;    /* earlier visit to whose gradient this one's is added, or MW_NONE */
    bool gradient_stays; /* a later visit adds to it */
    /* set while the plan grows, for each of the unit's tensors; MW_NONE: there is none */
    uint32_t pinned_slot[MW_UNIT_TENSORS_MAX], shard_slot[MW_UNIT_TENSORS_MAX];
    uint32_t param_slot[MW_UNIT_TENSORS_MAX], gradient_slot[MW_UNIT_TENSORS_MAX];
};

/* What a visit has of one of its unit's tensors. */
struct part {
    struct visit *visit;
    const struct mw_unit_tensor *tensor;
    uint32_t number; /* of the tensor */
    uint32_t tile;   /* of the tensor */
    int turn;        /* of the tensor within the unit */
    bool tiled;      /* it is the one that tiles cut */
};

/* Behind the axes. */
enum { MET_BY_ALL = MW_AXIS_COUNT, MET_BY_COPIES, MET_BY_REPLICAS, MET_COUNT };

struct builder {
    const struct mw_sizing *sizing;
    const struct mw_sizing *whole; /* of which that is few layers; NULL: it has all of them */
    struct mw_chunk *chunks; /* [sizing->chunk_count] */
    const bool *dropped;     /* [sizing->layers] that the step leaves out; NULL: none */
    struct mw_plan *plan;
    uint32_t rank; /* the first rank that the program stands for */
    uint32_t program;
    uint32_t lanes[LANES_PER_RANK]; /* in the plan; MW_NONE: the program has none */
    uint8_t *lane_of;               /* [plan->lane_count] enum lane of each lane of the plan */

    uint32_t dp_comm, tp_comm, pp_comm, world_comm; /* dp: a sharding group */
    uint32_t rp_comm;     /* ranks that hold the same shards, of all sharding groups, or MW_NONE */
    uint32_t cp_comm;     /* ranks that share sequences, or MW_NONE */
    uint32_t copies_comm; /* of the first and the last stage, or MW_NONE */
    uint32_t ep_comm, replicas_comm; /* of ranks that share experts, and that have the same ones; or
                                      * MW_NONE */
    uint32_t channel[MW_CHANNEL_KIND_COUNT];

    struct slot_state *states; /* [plan->slot_count] */
    /* Slots that lie over a slot of the program: overlaps[overlap_begin[slot]] up to
     * overlap_begin[slot + 1] */
    uint32_t *overlap_begin, *overlaps;
    uint32_t lane_last[LANES_PER_RANK];
    uint32_t begin_op;               /* all other ops of the step come after it */
    uint32_t newest;                 /* the newest op of this rank */
    bool chain;                      /* every op waits for the newest */
    uint32_t *final_visit;           /* [chunk_count] the last visit that adds to its gradients, for
                              an update beside backward */
    uint32_t chunks_left;            /* not updated yet */
    uint32_t norm_agreed;            /* norm of a delayed update, before backward; else MW_NONE */
    uint32_t compute_wait;           /* a collective that the next compute op needs */
    GHashTable *matches;             /* match numbers, by group and place */
    uint32_t met[MET_COUNT];         /* collectives so far, by axis, of all ranks, of copies */
    int64_t offset_bytes[MW_TIER_COUNT];

    struct ring slots[MW_BUFFER_KIND_COUNT];
    uint32_t param_home, gradient_home; /* first slot; one per tensor */
    uint32_t sum_home;                  /* likewise, of sums in host memory */
    uint32_t checkpoint_home;           /* one per checkpoint */
    uint32_t state_home;                /* one per chunk */
    uint32_t *chunk_other;              /* [chunk_count] the other extent, or MW_NONE */
    uint32_t logits_slot;
    uint32_t stage_input, stage_output;   /* slots of the visit that is computed, or MW_NONE */
    uint32_t update_of; /* the micro-batch whose gradients alone are updated with; else 0 */
    struct mw_replica turn; /* of the rank: which micro-batches are its own */
    uint32_t stage_comms; /* of stages whose ranks take turns: the first one's, then the others' */
    /* Slots of what comes for the next step's first passes, and how many of them have been used. */
    uint32_t carried, carried_count, carried_taken;
    uint32_t *operands_of; /* [slots of inputs, then of results] the micro-batch, plus 1, whose
                            * operands of weights' gradients they have */
    uint32_t reduced_all;                 /* the op that reduces all gradients; MW_NONE */
    uint32_t tied_gradient;               /* first slot; one per part of the embedding */
    uint32_t commit_record, commit_saves; /* the slots that this step writes, or MW_NONE */
    /* Layer by layer: the visits that fetch, in order, how many of them have, and how many may have
     * by each visit.  NULL: micro-batch by micro-batch. */
    uint32_t *fetching, fetching_count, fetched, *fetches_by;
    bool *param_slot_held; /* [slots of gathered parameters], tiled tensors' first */
    uint32_t *passing_sum; /* [tensor][tile] the slot of a sum that has not left yet */
    uint32_t passing_tiles;
    struct part reduced;   /* not accumulated yet; */
    uint32_t reduced_slot; /* MW_NONE: there is none */

    uint32_t *work_cache;            /* [class][operator][PASS_COUNT] */
    struct asked_work asked_works[ASKED_WORKS]; /* by hash; others take their place */
    struct met_group groups[MET_GROUPS];        /* of the first communicators */
    uint32_t work_table[WORK_TABLE]; /* works by hash */
    /* First op of each visit, and of each chunk's part in the norm and of its update, and where the
     * last one ends: [visit_count + 1], [chunk_count + 1] */
    uint32_t *visit_ops, *norm_ops, *update_ops;
    struct visit *visits;
    uint32_t visit_count, visit_capacity;
    uint32_t *place_of;          /* [micro_batches * stretches] the place of a pass's activations */
    int64_t *group_of;           /* [sizing->layers] its checkpoint group, or -1 */
    int64_t *group_first;        /* [checkpoint_count] the first layer of a group */
    uint32_t *checkpoint_loaded; /* [checkpoint] the slot where it was written, or is read from */
    uint16_t *checkpoint_tile;   /* [checkpoint] of the op that makes it, if it is a whole layer */
    int64_t group_ahead;         /* whose checkpoint has come ahead and is to be gathered, or -1, */
    uint32_t micro_batch_ahead;  /* and of which micro-batch */
    uint32_t activation_sets;    /* of working memory: one per micro-batch that is kept */
    int *activation_turns;       /* [activation_sets] */
    bool rooms_hold;             /* something that is still needed */
};

/* What an op is about, for its identity. */
struct subject {
    enum mw_object object;
    enum mw_operator operator_; /* the operator it belongs to, or MW_OPERATOR_NONE */
};

struct identity {
    enum mw_phase phase;
    int32_t layer;
    uint32_t micro_batch, tile, shard;
};

/* --- planner/build/ops.c --- */
guint mw_build_hash_place(gconstpointer place); /* of a key of builder.matches */
uint32_t mw_build_op(struct builder *b, int lane, uint32_t work, struct identity id);
/* Adds a use to the newest op, with the edges that it needs. */
void mw_build_use(struct builder *b, uint32_t slot, enum mw_use_mode mode, enum mw_role role);
void mw_build_after(struct builder *b, uint32_t op); /* explicit edge; MW_NONE is ignored */
uint32_t mw_build_ring_next(struct ring *ring);
/* The number in the step of the n-th micro-batch of this rank. */
uint32_t mw_build_micro_batch(const struct builder *b, uint32_t n);

/* --- planner/build/tables.c --- */
void mw_build_add_lanes(struct builder *b);
void mw_build_add_channels(struct builder *b);
void mw_build_add_comms(struct builder *b);
/* The communicator of the data-parallel ranks that have the same elements, so many. */
uint32_t mw_build_replicas(const struct builder *b, int64_t ranks);
void mw_build_add_slots(struct builder *b);
void mw_build_prepare_states(struct builder *b); /* of the slots, for ops that use them */

/* --- planner/build/work.c --- */
/* Computes one of `tiles` parts of the weight, for all tokens or for one chunk of the logits.  A
 * pass over coded_bytes more stores activations in another type, or restores them; 0: none does. */
uint32_t mw_work_compute(struct builder *b, enum mw_class class, int operator_, enum pass pass,
                         int64_t tiles, int64_t coded_bytes);
/* A part of the product of tied logits, or what tied logits have beside the embedding's weight: a
 * projection to the embedding's width (OPT-350M), a bias. */
uint32_t mw_work_tied_logits(struct builder *b, int operator_, bool backward, int64_t tiles,
                             enum tied_part part);
/* `alone`: an owner moves it while the other ranks' links are idle (owner-broadcast). */
uint32_t mw_work_copy(struct builder *b, enum mw_op_kind kind, struct subject of, int64_t bytes,
                      bool alone);
uint32_t mw_work_collective(struct builder *b, enum mw_op_kind kind, struct subject of,
                            uint32_t comm, int64_t bytes);
/* All ranks agree on so many bytes, and each reads some from its drives, of what is summed. */
uint32_t mw_work_agree(struct builder *b, struct subject of, int64_t bytes, int64_t read_bytes);
/* From one pipeline stage to the next, or back: MW_OP_SEND or MW_OP_RECV. */
uint32_t mw_work_hop(struct builder *b, enum mw_op_kind kind, int32_t hop, int64_t bytes);
uint32_t mw_work_update(struct builder *b, const struct mw_chunk *chunk, bool host);
uint32_t mw_work_accumulate(struct builder *b, enum mw_operator operator_, bool host, int64_t bytes,
                            int64_t elements);
uint32_t mw_work_norm(struct builder *b, struct subject of, bool host, int64_t elements);
uint32_t mw_work_begin(struct builder *b);
/* A commit record, and what every step saves before it. */
uint32_t mw_work_commit(struct builder *b, int64_t record_bytes, int64_t saved_bytes);

/* --- planner/build/build.c --- */
/* The plan of all programs, unchecked; `b` has what the last program was built with. */
struct mw_plan *mw_build_flat(struct builder *b);
/* The same of one program, with all tables but works and ops, or without slots and homes too. */
struct mw_plan *mw_build_tables(struct builder *b, bool with_slots);
void mw_build_clear(struct builder *b); /* all but the plan */

/* --- planner/build/fold.c --- */
/* mw_build_plan_folded without the layers that are dropped; NULL: all are there. */
struct mw_plan *mw_build_folded(const struct mw_sizing *sizing, struct mw_folds folds,
                                const bool *dropped);

/* --- planner/build/schedule.c --- */
void mw_schedule_visits(struct builder *b);
/* The place of a micro-batch's pass through a stretch, and of a visit's. */
uint32_t mw_place_of(const struct builder *b, uint32_t micro_batch, int64_t stretch);
uint32_t mw_visit_place(const struct builder *b, const struct visit *visit);
/* Of the unit that the visit computes, which is the one that it fetches. */
int mw_visit_tensors(const struct builder *b, const struct visit *visit);
/* What the visit has of tensor `turn` of its unit, or of the unit that it fetches; false: nothing,
 * or the unit has no such tensor. */
bool mw_visit_computes(const struct builder *b, struct visit *visit, int turn, struct part *part);
bool mw_visit_fetches(const struct builder *b, struct visit *visit, int turn, struct part *part);
/* The turn of the tensor that an operator of the class belongs to, within its unit. */
int mw_turn_of(const struct mw_class_info *class, const struct mw_unit *unit, int operator_);

/* --- planner/build/fetch.c --- */
void mw_fetch_ahead(struct builder *b, uint32_t visit);
void mw_fetch_release(struct builder *b, uint32_t visit);

/* The slot of a tensor's parameters in this place among their versions. */
uint32_t mw_version_slot(const struct builder *b, uint32_t place, uint32_t tensor);

/* --- planner/build/compute.c --- */
void mw_compute_visit(struct builder *b, uint32_t visit);

/* --- planner/build/gradient.c --- */
/* The slot that this visit's backward writes the gradient of a part to, and the use mode. */
uint32_t mw_gradient_slot(struct builder *b, const struct part *part, enum mw_use_mode *mode);
void mw_gradient_leave(struct builder *b, const struct part *part, uint32_t slot);
void mw_gradient_reduce_all(struct builder *b); /* behind backward, where it waits for that */
void mw_gradient_flush(struct builder *b); /* accumulates a gradient that is still pending */
/* Of a tied embedding, between the first and the last stage of a pipeline. */
void mw_gradient_sum_copies(struct builder *b);

/* --- planner/build/checkpoint.c --- */
/* The number of a group's checkpoint, at the place of the micro-batch's pass among those in
 * flight. */
int64_t mw_checkpoint_at(const struct builder *b, int64_t group, uint32_t mb);
/* --- planner/build/schedule.c --- */
bool mw_drops_layer(const struct builder *b, int64_t layer);
/* The first layer of a checkpoint's group that the step does not leave out; -1: it has none. */
int64_t mw_first_of_group(const struct builder *b, int64_t group);
uint32_t mw_checkpoint_slot(struct builder *b, int64_t checkpoint);
void mw_checkpoint_store(struct builder *b, int64_t group, uint32_t slot, uint32_t mb);
void mw_checkpoint_load(struct builder *b, int64_t group, uint32_t mb);
/* Of slices that keep parts: behind its load, and once the group that the buffer is taken from has
 * begun. */
void mw_checkpoint_gather(struct builder *b, int64_t group, uint32_t mb);

/* --- planner/build/stage.c --- */
/* Around each visit: receives what it needs from neighbouring stages, and sends what they need. */
void mw_stage_receive(struct builder *b, uint32_t visit);
/* Behind the last visit, where steps overlap: receives for the first passes of the next step. */
void mw_stage_carry(struct builder *b);
/* adds the uses to the visit's newest op */
void mw_stage_use(struct builder *b, bool first, bool last);
void mw_stage_send(struct builder *b, uint32_t visit);

/* --- planner/build/optimizer.c --- */
void mw_optimizer_step(struct builder *b);
/* An update beside backward: what it needs to know, the chunks whose gradients are final after a
 * visit, and the rest. */
void mw_optimizer_beside_begin(struct builder *b);
void mw_optimizer_beside(struct builder *b, uint32_t visit);
void mw_optimizer_beside_end(struct builder *b);
void mw_optimizer_return(struct builder *b); /* delayed update: sends the updated parameters back */

#endif
