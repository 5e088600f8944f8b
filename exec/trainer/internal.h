/* internal.h - declarations that the files of the trainer share. */
#ifndef MW_EXEC_TRAINER_INTERNAL_H
#define MW_EXEC_TRAINER_INTERNAL_H

#include "exec/device/cpu/kernels.h" /* kernels of the host lanes */
#include "exec/lanes/lanes.h"
#include "exec/trainer/storage.h"
#include "exec/trainer/trainer.h"
#include "exec/trainer/vectors.h"
#include "plan/optimizers.h"

/* One of a step's updates. */
struct mw_trainer_update {
    bool nothing; /* its gradient was not finite, or there is none yet: parameters stay */
    struct mw_update_step step, decaying;
};

/* Numbers of the running step.  Its ops write them, each before the ops that read it. */
struct mw_step_numbers {
    int64_t step, updates;
    double learning_rate, gradient_norm;
    double loss_scale;    /* scale of the gradients that its backward makes */
    bool skipped;         /* the gradient was not finite */
    bool scale_was_least; /* the loss scale was the least when that was seen: no smaller one would
                           * have helped */
    bool updated;         /* micro-batches of the step before this one have made an update each */
    bool updates_nothing; /* the step was skipped, or there is no gradient yet: parameters stay as
                           * they are */
    struct mw_update_step update, update_decaying;
    struct mw_trainer_update *each; /* [ranks] where each rank's gradient is an update; else NULL:
                                     * the last of them is the above too */
};

/* A range of a chunk in which all elements decay, or none does. */
struct mw_update_range {
    struct mw_piece piece;
    bool decays;
};

struct mw_trainer_chunk {
    struct mw_piece *pieces;
    struct mw_update_range *ranges;
    int64_t piece_count, range_count;
};

/* Identifies an op that ends in another thread than it began in. */
struct mw_trainer_ticket {
    struct mw_lanes *lanes;
    uint32_t op, step;
};

/* Vectors of rows and columns, as exec/trainer/vectors.h says. */
struct mw_trainer_vectors {
    struct mw_vectors *places; /* NULL: the optimizer keeps none */
    struct mw_arena memory;
    float *now, *next;         /* next: of SM3 maxima, of Adafactor factors */
    struct mw_exact_sum *sums; /* of Adafactor, since ranks last agreed; else NULL */
    GMutex one;                /* of several lanes one at a time adds sums, or updates */
};

struct mw_trainer_durable {
    struct mw_commit *commit; /* NULL: steps are not committed */
    struct mw_commit_record resumed;
    char *change;                       /* a line for the user about changed instructions, or
                                         * NULL */
    struct mw_commit_extent *extents;   /* [extents_max] extents of a record */
    int64_t extents_max, state_extents; /* the most extents; those of state on drives */
    uint64_t *checksums;                /* [chunk_count] checksums of the state that the step
                                         * wrote */
    _Atomic int64_t last_step;          /* last step of this run, which is always committed */
    int64_t last_committed;             /* -1: none */
    int64_t before_last;                /* step committed before it, or resumed; -1: unknown */
    int infinite_chunk;                 /* the chunk whose state the step made infinite, + 1; 0:
                                         * none */
    int64_t saves_at[2];                /* offsets in the NVMe tier, and which is the newer */
    int save_which;
    int64_t stream_bytes; /* of chunks' state that is in memory */
    uint64_t frozen;      /* checksum of what is not trained; 0 if all is */
    char *block;
};

/* Which forward passes are done where a step sends those of the next one forward too. */
enum mw_trainer_passes {
    MW_PASSES_ALL,
    MW_PASSES_NEXT, /* the next step's alone: before the first step */
    MW_PASSES_LAST, /* all but these: in the last step */
};

struct mw_trainer_no_flush; /* exec/trainer/no_flush.c */

/* What ranks tell each other at the end of a step: sums over them. */
enum mw_told {
    MW_TOLD_LOSS,
    MW_TOLD_SKIPS,   /* ranks whose gradient was not finite */
    MW_TOLD_SQUARES, /* of the gradient */
    MW_TOLD_ROUTER_AUX,
    MW_TOLD_ROUTER_Z,
    MW_TOLD_EXPERT_LOADS,  /* a sum, */
    MW_TOLD_EXPERT_VISITS, /* and of so many */
    MW_TOLD_ROUTERS, /* that were computed: steps may leave out layers, and stages have some each */
    MW_TOLD_WISHES,
    MW_TOLD_COUNT = MW_TOLD_WISHES + MW_TRAINER_WISHES,
};

/* A step whose numbers ranks exchange while they go on (exec/trainer/late.c). */
struct mw_trainer_late {
    struct mw_trainer_step report;
    struct mw_timeline_row *rows; /* of its ops */
    size_t row_count;
    int64_t let_in_ns;
};

struct mw_trainer_telling {
    struct mw_trainer *trainer;
    GThread *thread; /* NULL: nothing is being told */
    double told[MW_TOLD_COUNT];
    bool good;
    GError *error;
    int64_t first, ended; /* the run's first step; steps that have ended, of all */
    struct mw_trainer_late
        late[4]; /* of steps 4 n, 4 n + 1 and so on: a step that ends completes the report of
                  * the one before it, while that of the step before both may be read */
};

/* What has come around a ring of ranks, and what attention is through with. */
struct mw_trainer_ring {
    GMutex mutex;
    GCond changed;
    int64_t keys, gradients, done; /* blocks */
    bool stopped;
    /* How long what passes has waited for attention, and attention for what passes; each is of the
     * thread that waits. */
    int64_t pass_waited_ns, attention_waited_ns;
};

/* Looked up once for a variant: the places of its slots, and what its ops need. */
struct mw_trainer_variant {
    const struct mw_plan *plan;
    struct mw_lanes *lanes;
    uint32_t *tensor_of_home; /* [slot_count] tensor whose home the slot is, or MW_NONE */
    uint32_t *set_slots;      /* [chunk_count] slot of host memory that a chunk's state from drives
                               * passes through; MW_NONE: it is at home */
    bool *updates;            /* [chunk_count] whether a step updates the chunk */
    bool *computes;           /* [layers + 1] whether a step computes the layer */
    struct mw_layer_activations *layers; /* [sets][layers_held]; of operands_of [micro_batches]
                                          * instead of sets */
    /* Where the gradients of weights come later: [micro_batches] slots of what these take.  NULL:
     * they do not. */
    struct mw_trainer_operands {
        uint32_t inputs, results;
    } * operands_of;
    struct mw_ranks_part checkpoint; /* in blocks of its type: of slices that gather it each keeps
                                      * its shard; else that is all of it */
    uint32_t *set_of; /* [passes] set of activations; NULL: the micro-batch's number modulo sets */
    void **coded;     /* [sets][layers_held] where its activations are stored meanwhile, or NULL */
    struct mw_shared_activations *shared; /* [sets]: one per micro-batch that is kept */
    bool *queued;                         /* [op_count]: ops that the device orders */
    struct mw_trainer_ticket *tickets;    /* [2][ops of the unfolded plan]: for even and odd
                                           * steps */
    struct mw_trainer_no_flush *no_flush; /* NULL: micro-batches go back in the step in which they
                                           * went forward */
};

/* Layers of a rank that follow each other. */
struct mw_trainer_stretch {
    int64_t begin, end;
};

struct mw_trainer {
    struct mw_trainer_options options;
    const struct mw_plan *plan;          /* the variant of the running step, */
    struct mw_trainer_variant *variant;  /* and what was looked up for it */
    struct mw_trainer_variant *variants; /* [options.variants->plan_count] */
    struct mw_crew *crew;                /* the threads of all variants' lanes */
    struct mw_storage storage;
    const struct mw_cpu_kernels *kernels; /* kernels of the host lanes */
    uint32_t rank, ranks;                 /* data-parallel rank: among those that train on other
                                           * sequences and divide one state */
    uint32_t replica, replicas;           /* sharding group: each of them has such ranks, and the
                                           * same state */
    uint32_t world_rank, world_ranks; /* rank among all; other stages, and tensor slices, train on
                                       * the same sequences */
    int has_diverged;                 /* atomic: any lane may read it */
    _Atomic int64_t moved_ns;         /* when an op last began or ended, */
    _Atomic int64_t busy_until_ns;    /* and until when the rank counts as busy; monotonic clock */
    int ended_by;                     /* the wish that ended the run; 0: none */
    const struct mw_collectives *collectives; /* collectives of device memory */
    void *peers;                              /* context of the calls */
    struct mw_trainer_ring ring;

    int64_t layers_coded, coded_elements; /* of those held; elements of one of them */
    struct mw_recomputed recomputed;      /* of the rank's layers */
    GArray *stretches;                    /* of them: struct mw_trainer_stretch */
    int64_t *kept_turn; /* [layers] which one it is of those that keep their activations, or -1 */
    int64_t tokens, micro_batches, logits_chunks;
    int64_t layers_held, layers_rooms; /* the latter of layers that are recomputed, or decoded */
    int64_t layer_bytes;               /* activations of one of the layers held */
    struct mw_arena exchange;          /* memory that device and host exchange numbers in: */
    int32_t *ids, *targets;            /* [micro_batches][tokens] */
    double *loss;                      /* sum over this rank's tokens */
    struct mw_visits visits;           /* where experts are spread; else NULL */
    double *router_losses; /* [micro_batches][layers][2] of a mixture with losses of its router, as
                            * mw_kernels.router_losses gives them; else NULL */
    double router_told[2]; /* their means, over ranks too, of the step that has ended */
    double *expert_loads;  /* [micro_batches][layers] where experts are spread: of the ranks that
                            * share them, what the one with the most tokens has, over the mean; 0:
                            * none has been told yet.  Else NULL */
    double expert_told;    /* the mean of all ranks', of the step that has ended; 0: none */
    double expert_most;    /* and the most of them */
    double *layer_loads;   /* [2][layers] of reports: means over this rank's micro-batches */

    uint32_t *tensor_of;             /* [layer + 1][operator] tensor, or MW_NONE */
    struct mw_part **parts;          /* [tensor][tile] */
    int64_t sets;                    /* sets of activations in each variant's slots */
    struct mw_trainer_chunk *chunks; /* [chunk_count] */

    /* [stream] For owners' turns: how long the rank has waited for others to come to an op, not
     * counting the wait for its turn. */
    int64_t turns_waited_ns[MW_TRAINER_COLLECTIVE_LANES];

    double *partials; /* squares of gradients, by tensor, part and block; in `exchange`.  Where each
                       * rank's gradient is an update: of all ranks', one after the other */
    int64_t *partial_first, *partial_blocks; /* [tensor] their begin, and number of blocks in a
                                              * part */
    int64_t partial_count;

    struct mw_trainer_vectors vectors;
    struct mw_trainer_durable durable;
    int64_t program_bytes; /* as struct mw_trainer_use has it */
    int64_t next_step;
    struct mw_loss_scale scale; /* loss scale of the next step */
    bool pending;               /* gradients of the previous step wait for a delayed update */
    double pending_scale;       /* loss scale of those gradients */
    enum mw_trainer_passes passes;
    bool sent_before; /* the step before has sent the next step's first micro-batches forward */
    double last_loss; /* sum over all ranks' tokens, of the previous step */
    struct mw_step_numbers now;
    struct mw_trainer_step reports[2]; /* of even and odd steps: two may be in flight */
    struct mw_trainer_telling telling;
    mw_trainer_on_step on_step;
    void *on_step_data;
};

/* The slot that an op uses in a role, the first if there are several; or MW_NONE. */
uint32_t mw_trainer_slot(const struct mw_trainer *trainer, const struct mw_op *op,
                         enum mw_role role);

/* The tensor whose part an op moves; not for ops of the optimizer step. */
const struct mw_tensor *mw_trainer_tensor(const struct mw_trainer *trainer, const struct mw_op *op);
/* The place of a part: at its stride in a home, at the start of a buffer. */
struct mw_place mw_trainer_place(const struct mw_trainer *trainer, uint32_t slot, int64_t tile);
/* The elements of a part whose state this rank has. */
struct mw_range mw_trainer_state_of(const struct mw_trainer *trainer, uint32_t tensor,
                                    uint32_t tile);
/* Bytes of an element of activations, trained parameters and gradients as they are made; and of an
 * element of gradients at home. */
int64_t mw_trainer_element_bytes(const struct mw_trainer *trainer);
int64_t mw_trainer_gradient_bytes(const struct mw_tensor *tensor);
/* Offset of the gradient as it was made in a host buffer that holds the sum before it. */
int64_t mw_trainer_gradient_offset_bytes(const struct mw_trainer *trainer,
                                         const struct mw_tensor *tensor);

/* --- exec/trainer/stages.c --- */
bool mw_trainer_is_stage(const struct mw_plan *plan); /* of a pipeline */
/* Copies between the slots that stages send and receive and the memory that operators use. */
bool mw_trainer_take_received(struct mw_trainer *trainer, const struct mw_op *op,
                              const struct mw_compute *compute, GError **error);
bool mw_trainer_give_sent(struct mw_trainer *trainer, const struct mw_op *op,
                          const struct mw_compute *compute, GError **error);
bool mw_trainer_hop(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* The stream of the collectives that an op of such a lane calls. */
int mw_trainer_stream(const struct mw_trainer *trainer, const struct mw_op *op);
/* The same of an op of any variant's plan. */
int mw_trainer_stream_in(const struct mw_trainer *trainer, const struct mw_plan *plan,
                         const struct mw_op *op);

/* --- exec/trainer/no_flush.c: stages whose steps go on over their ends --- */
bool mw_trainer_set_up_no_flush(struct mw_trainer *trainer, GError **error);
void mw_trainer_free_no_flush(struct mw_trainer_no_flush *no_flush); /* NULL is allowed */
/* Makes all versions of the parameters those that are at home. */
bool mw_trainer_start_versions(struct mw_trainer *trainer, GError **error);
/* Whether the slot holds a version of all parameters; where it has those of a tensor, in bytes (of
 * any other slot 0); and the version that an update writes beside homes, or instead, or MW_NONE. */
bool mw_trainer_is_version(const struct mw_trainer *trainer, uint32_t slot);
int64_t mw_trainer_version_at(const struct mw_trainer *trainer, uint32_t slot, uint32_t tensor);
uint32_t mw_trainer_version_written(const struct mw_trainer *trainer, const struct mw_op *op);
/* Whether the running pass through the plan leaves the op out. */
bool mw_trainer_leaves_out(const struct mw_trainer *trainer, uint32_t op);
/* How many of a step's micro-batches the step before has sent forward. */
int64_t mw_trainer_sent_before(const struct mw_trainer *trainer);
/* Whether the op is the first to read tokens of a micro-batch of the next step. */
bool mw_trainer_reads_next(const struct mw_trainer *trainer, const struct mw_op *op);

/* --- exec/trainer/late.c: reports of steps that end without waiting for the other ranks --- */
/* This rank's numbers of the step that ends. */
void mw_trainer_find_told(struct mw_trainer *trainer, double told[MW_TOLD_COUNT]);
/* Starts to tell them, and learns those of the step before: *wish is that of any rank then. */
bool mw_trainer_tell_late(struct mw_trainer *trainer, int *wish, GError **error);
/* Once the lanes are through with the step: reports the step before. */
bool mw_trainer_report_late(struct mw_trainer *trainer, int64_t step,
                            const struct mw_timeline *timeline, GError **error);
/* Behind the last step of a run, and also if the run has failed: then it reports nothing. */
bool mw_trainer_report_last(struct mw_trainer *trainer, bool good, GError **error);
void mw_trainer_free_late(struct mw_trainer *trainer);
/* Largest wish among all ranks' of what they told, 0: none. */
int mw_trainer_wish_of(const double told[MW_TOLD_COUNT]);

/* --- exec/trainer/use.c --- */
void mw_trainer_find_program(struct mw_trainer *trainer);

/* --- exec/trainer/threads.c --- */
/* Returns false with *error if the system refuses a thread that the run will need. */
bool mw_trainer_check_threads(const struct mw_trainer_options *options, GError **error);

/* --- exec/trainer/setup.c: what does not change during the run --- */
/* Looks up everything about the variants and makes their lanes; `run` executes ops. */
bool mw_trainer_set_up(struct mw_trainer *trainer, const struct mw_exec_backend *run,
                       GError **error);
/* Changes to the variant of a step.  Call it between steps.  Homes keep their content. */
void mw_trainer_turn_to(struct mw_trainer *trainer, int64_t step);
void mw_trainer_take_down(struct mw_trainer *trainer);

/* Bytes of all activations of a layer. */
int64_t mw_trainer_layer_bytes(const struct mw_trainer *trainer);
/* Whether all that the layer keeps is a checkpoint. */
bool mw_trainer_leaves_whole(const struct mw_trainer *trainer, int64_t layer);
/* Of activation checkpoints. */
enum mw_dtype mw_trainer_checkpoint_dtype(const struct mw_trainer *trainer);

/* --- exec/trainer/operands.c: whether a plan's ops can be executed --- */
/* Call the first for a plan, the second once its tensors are indexed, the third once the current
 * variant is set up. They return false with *error, which names the op and what it lacks. */
bool mw_trainer_check_tensors(const struct mw_plan *plan, GError **error);
bool mw_trainer_check_names(const struct mw_trainer *trainer, GError **error);
bool mw_trainer_check_operands(const struct mw_trainer *trainer, GError **error);

/* --- exec/trainer/compute.c, exec/trainer/unit_copies.c, exec/trainer/update.c: ops --- */
/* Lets the backend prepare the plan's compute ops before the first of them runs. */
bool mw_trainer_prepare(struct mw_trainer *trainer, GError **error);
bool mw_trainer_compute(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* The operands of a compute op, or of the operator that a collective of activations is of. */
struct mw_compute mw_trainer_bind(struct mw_trainer *trainer, const struct mw_op *op);
struct mw_move mw_trainer_part_move(const struct mw_trainer *trainer, const struct mw_op *op);
/* The stream of collectives on which the owners of a part take turns to move their shards; -1 if
 * the op is not an owner's, and all ranks move at once. */
int mw_trainer_turn_stream(const struct mw_trainer *trainer, const struct mw_op *op);
bool mw_trainer_move_in_turn(struct mw_trainer *trainer, const struct mw_op *op, int stream,
                             GError **error);
/* Bytes of a rank's shard of a part on its way: parameters, or gradients as they are made, or their
 * sum. */
int64_t mw_trainer_shard_bytes(const struct mw_trainer *trainer, const struct mw_work *work,
                               const struct mw_tensor *tensor);
bool mw_trainer_accumulate(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* Whether a chunk's state rests off the device and passes it for its update. */
bool mw_trainer_streams_state(const struct mw_trainer *trainer, uint32_t chunk);
/* Appends the moves of a chunk's op. */
void mw_trainer_list_chunk(const struct mw_trainer *trainer, const struct mw_op *op, GArray *moves);
bool mw_trainer_norm(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
bool mw_trainer_agree(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
bool mw_trainer_update(struct mw_trainer *trainer, const struct mw_op *op, GError **error);

/* --- exec/trainer/use_vectors.c: vectors of rows and columns --- */
bool mw_trainer_reserve_vectors(struct mw_trainer *trainer, GError **error);
void mw_trainer_free_vectors(struct mw_trainer *trainer);
/* Of numbers that were put into the first set: the second is the same. */
void mw_trainer_start_vectors(struct mw_trainer *trainer);
/* Updates a range of a chunk whose elements are at these places. */
bool mw_trainer_update_by_vectors(struct mw_trainer *trainer, const struct mw_update_step *step,
                                  const struct mw_piece *piece, bool device, float *w, float *m,
                                  void *param, const void *gradient, GError **error);
/* Adds the squares of a part's gradient, from an element of the part on. */
void mw_trainer_add_sides(struct mw_trainer *trainer, uint32_t tensor, int64_t tile, int64_t first,
                          int64_t elements, const void *gradient);
/* Where ranks agree: makes means and factors of all sums, which begin anew.  Not where nothing is
 * updated. */
bool mw_trainer_take_sides(struct mw_trainer *trainer, int stream, GError **error);
/* sums[i] = that of all ranks. */
bool mw_trainer_add_ranks(struct mw_trainer *trainer, struct mw_exact_sum *sums, int64_t count,
                          int stream, GError **error);
/* A step that leaves a layer out has no gradient of it; layer -1: outside of the layers. */
bool mw_trainer_has_gradient(const struct mw_trainer *trainer, int64_t layer);
/* At the end of a step: what any rank's updates have made becomes current. */
bool mw_trainer_turn_vectors(struct mw_trainer *trainer, GError **error);

/* --- exec/trainer/clip_updates.c: updates that are too large --- */
/* Whether the plan leaves gradients where the clipping finds them. */
bool mw_trainer_check_clips(const struct mw_trainer *trainer, GError **error);
/* Makes factors of updates smaller that would change a tensor too much. */
bool mw_trainer_clip_updates(struct mw_trainer *trainer, int stream, GError **error);

/* --- exec/trainer/moves.c: moves between tiers --- */
bool mw_trainer_move(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* Whether drives execute the op without its lane's thread. */
bool mw_trainer_moves_alone(const struct mw_trainer *trainer, const struct mw_op *op);
void mw_trainer_begin_move(struct mw_trainer *trainer, struct mw_lanes *lanes, uint32_t op,
                           uint32_t step);

/* --- exec/trainer/queue.c: ops that the device orders --- */
struct mw_trainer_ticket *mw_trainer_ticket(struct mw_trainer *trainer, struct mw_lanes *lanes,
                                            uint32_t op, uint32_t step);
void mw_trainer_map_queues(struct mw_trainer *trainer);
/* As struct mw_exec_backend says. */
bool mw_trainer_queues(void *context, uint32_t op);
/* Whether all slots that the op reads are in one tier, and all slots that it writes are in the
 * other. */
bool mw_trainer_uses_tiers(const struct mw_plan *plan, const struct mw_op *op, enum mw_tier read,
                           enum mw_tier written);
typedef bool (*mw_trainer_perform)(struct mw_trainer *trainer, const struct mw_op *op,
                                   uint32_t step, GError **error);
enum mw_exec_outcome mw_trainer_queue(struct mw_trainer *trainer, struct mw_lanes *lanes,
                                      uint32_t op, uint32_t step, mw_trainer_perform perform,
                                      GError **error);

/* --- exec/trainer/passes.c: stretches of layers, and passes of micro-batches through them --- */
/* After the rank's layers are known.  Returns false with *error if it cannot run them. */
bool mw_trainer_find_stretches(struct mw_trainer *trainer, GError **error);
/* Whether there are several. */
bool mw_trainer_has_stretches(const struct mw_trainer *trainer);
bool mw_trainer_is_own(const struct mw_trainer *trainer, int64_t layer);
/* The stretch that has the layer; the embedding is of the first. */
const struct mw_trainer_stretch *mw_trainer_stretch_of(const struct mw_trainer *trainer,
                                                       int64_t layer);
/* Layers of the longest one. */
int64_t mw_trainer_stretch_layers(const struct mw_trainer *trainer);
/* Gives each pass a set of the variant's activations, if layers keep them.  Returns false with
 * *error if there are more passes under way than sets. */
bool mw_trainer_place_passes(struct mw_trainer *trainer, bool kept, GError **error);
/* The set that a compute op works on. */
int64_t mw_trainer_set(const struct mw_trainer *trainer, const struct mw_op *op);

/* --- exec/trainer/collect.c: collectives --- */
/* Sets the rank.  Returns false with *error if the plan is for other ranks, or cannot run with
 * several. */
bool mw_trainer_join(struct mw_trainer *trainer, GError **error);
/* The streams of the device's collectives, as bits 1 << stream; 0 if the host executes them, or if
 * there are none. */
uint32_t mw_trainer_streams(const struct mw_trainer *trainer);
/* Opens what collectives of device memory need.  Call it once the device is open. */
bool mw_trainer_open_collectives(struct mw_trainer *trainer, GError **error);
/* Where ranks meet that have the same slice of the same stage and train on other sequences, those
 * of one sharding group. */
int mw_trainer_data_stream(const struct mw_trainer *trainer, int stream);
/* Ranks that train on other sequences, of all sharding groups. */
int64_t mw_trainer_data_ranks(const struct mw_trainer *trainer);
/* Sums up a shard of a gradient over the sharding groups; of a work. */
bool mw_trainer_is_of_replicas(const struct mw_plan *plan, const struct mw_work *work);
/* Sums up what the slices of an operator have made, on all of them. */
bool mw_trainer_is_sum(const struct mw_work *work);
/* Gathers the parts of a checkpoint that slices have kept. */
bool mw_trainer_is_gathered_checkpoint(const struct mw_work *work);
/* Where slices share tokens: scatters hidden states or their gradients, or gathers them. */
bool mw_trainer_is_of_rows(const struct mw_work *work);
/* Whether it is any of these, or sums up a norm's gradients, and so among the slices of a model. */
bool mw_trainer_is_of_slices(const struct mw_plan *plan, const struct mw_work *work);
bool mw_trainer_sum_slices(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
bool mw_trainer_move_rows(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
bool mw_trainer_sum_norm(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* Sends rows of tokens to spread experts, or their results back; and gradients the other way.
 * is_dispatch: of a work. */
bool mw_trainer_is_dispatch(const struct mw_work *work);
bool mw_trainer_dispatch(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
bool mw_trainer_collect(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* Whether a collective is of device memory only, not of numbers that hosts agree upon. */
bool mw_trainer_collects_on_device(const struct mw_plan *plan, const struct mw_op *op);
/* value = its sum over ranks, in their order.  `stream` is the index of a collective lane on which
 * no op is running. */
bool mw_trainer_sum(struct mw_trainer *trainer, int stream, double *value, GError **error);

/* value = the smallest of all ranks.  Call it between runs. */
bool mw_trainer_least(struct mw_trainer *trainer, int64_t *value, GError **error);
/* Gathers the parameters that all ranks hold, after each rank has made those of its own state. */
bool mw_trainer_all_gather_parameters(struct mw_trainer *trainer, GError **error);

/* --- exec/trainer/context.c: ranks that share sequences --- */
/* Whether the executor computes what the plan's ranks share as the plan has it. */
bool mw_trainer_check_context(const struct mw_plan *plan, GError **error);
/* Whether the op makes all tokens of a rank's heads, or returns them. */
bool mw_trainer_is_exchange(const struct mw_work *work);
bool mw_trainer_exchange_heads(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* Bytes that such an op is of. */
int64_t mw_trainer_exchange_bytes(const struct mw_trainer *trainer, const struct mw_op *op);

/* --- exec/trainer/ring.c: keys and values that pass around a ring of ranks --- */
bool mw_trainer_is_pass(const struct mw_work *work);
bool mw_trainer_pass_ring(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
int64_t mw_trainer_pass_bytes(const struct mw_trainer *trainer, const struct mw_op *op);
/* Computes attention to the blocks that an op is of, as they come. */
bool mw_trainer_attend_ring(struct mw_trainer *trainer, const struct mw_op *op,
                            struct mw_compute *compute, GError **error);
/* How long such ops, all so far, have waited for each other: the passes, or attention.  In the
 * thread of their lane. */
int64_t mw_trainer_ring_waited_ns(const struct mw_trainer *trainer, const struct mw_work *work);
/* After a failure: ops that wait for blocks fail. */
void mw_trainer_stop_ring(struct mw_trainer *trainer);

/* --- exec/trainer/finite.c: refuses values that are not finite --- */
/* Whether bytes [at, at + bytes) of a chunk's state in memory are finite; parameters also as 16
 * bits hold them. */
bool mw_trainer_is_finite(const struct mw_trainer *trainer, uint32_t chunk, int64_t at,
                          int64_t bytes, const void *state);
bool mw_trainer_are_finite(const float *values, int64_t count);
/* Whether all are finite and at least 0, as a variance is. */
bool mw_trainer_are_squares(const float *values, int64_t count);
/* Whether bytes [at, at + bytes) that were read of a chunk's state are valid; if not, *error names
 * state, tensor and element.  Takes one pass over the memory. */
bool mw_trainer_check_state(const struct mw_trainer *trainer, uint32_t chunk, int64_t at,
                            int64_t bytes, const char *state, GError **error);
/* Index of the first value that is invalid as a state (enum mw_kept); -1 if all are valid. */
int64_t mw_trainer_first_invalid(int state, const float *values, int64_t count);
/* Whether a gradient of this norm, clipped, can update state that stays finite. */
bool mw_trainer_fits(double norm);
/* Whether training can continue after a step with this loss. */
bool mw_trainer_diverges(const struct mw_trainer *trainer, double loss);
/* Returns false with *error and advice if there were too many such steps in a row, or if the run
 * ends with one. */
bool mw_trainer_check_course(struct mw_trainer *trainer, const struct mw_trainer_step *step,
                             GError **error);
/* Returns false with *error: this step's update of a chunk was not finite. */
bool mw_trainer_refuse_state(struct mw_trainer *trainer, uint32_t chunk, GError **error);

/* --- exec/trainer/state.c --- */
bool mw_trainer_start_state(struct mw_trainer *trainer, GError **error);
/* Reads what this rank starts from, and keeps nothing.  Returns false with *error if the state
 * could not be made from it. */
bool mw_trainer_try_start(const struct mw_trainer *trainer, GError **error);
/* Restores parameters from a chunk's state, where that can be reached; and parameters without
 * state. */
bool mw_trainer_restore_params(struct mw_trainer *trainer, uint32_t chunk, GError **error);
bool mw_trainer_start_frozen(struct mw_trainer *trainer, GError **error);

/* --- exec/trainer/commit.c --- */
/* Sets a record's fields, the trainer's own first, then the caller's.  Returns their number. */
#define MW_TRAINER_OWN_FIELDS 10
#define MW_TRAINER_FORMAT "format" /* the number of the set of fields; 1 if absent */
#define MW_TRAINER_FORMAT_NOW 2
#define MW_TRAINER_DTYPE "dtype"         /* the type that the run computes in; bf16 if absent */
#define MW_TRAINER_OPTIMIZER "optimizer" /* adamw if absent */
#define MW_TRAINER_LOSS_SCALE "loss-scale"
#define MW_TRAINER_GOOD_STEPS "good-steps"
#define MW_TRAINER_SKIPPED "skipped"
#define MW_TRAINER_SKIPPED_IN_ROW "skipped-in-row"
/* One of two fields says what has computed the record: the number of the cores' instruction set, or
 * that it was not the cores. */
#define MW_TRAINER_ISA "isa"
#define MW_TRAINER_ON_GPU "on-gpu"
/* If the record has the gradients of a delayed update: the scale they were made with. */
#define MW_TRAINER_PENDING "pending-scale"
/* In a run's records, not in checkpoints: a checksum of the elements of the plan's tensors and
 * their places. */
#define MW_TRAINER_TENSORS "tensors"
/* Of adapters: rank, alpha and which they are. */
#define MW_TRAINER_ADAPTERS "adapters"
/* Checksum of the parameters that are not trained, as mw_frozen_sum makes it: no step writes them,
 * so a record only says what they were. */
#define MW_TRAINER_FROZEN "frozen"
/* exec/trainer/fields.c: checks that every field of the record's format is there, none is there
 * twice, and each is within its range.  Otherwise returns false and names the field, its value, and
 * the valid values. */
#define MW_TRAINER_STEPS_MAX (INT64_C(1) << 53)
bool mw_trainer_check_fields(const struct mw_commit_record *record, GError **error);
bool mw_trainer_refuse_missing(const char *name, GError **error); /* returns false */
struct mw_commit_field mw_trainer_computes_with(const struct mw_trainer *trainer);
/* Other instructions change the last digits of products and attention.  Returns a line for the user
 * if instructions other than this run's made the record's step, to be g_freed; NULL if they are the
 * same, or if the record does not say. */
char *mw_trainer_tell_change(const struct mw_trainer *trainer,
                             const struct mw_commit_record *record);
int mw_trainer_fields(const struct mw_trainer *trainer,
                      struct mw_commit_field fields[MW_TRAINER_OWN_FIELDS + MW_TRAINER_FIELDS_MAX]);
void mw_trainer_read_fields(struct mw_trainer *trainer, const struct mw_commit_record *record);
bool mw_trainer_check_commit(const struct mw_trainer *trainer, GError **error);
bool mw_trainer_open_commit(struct mw_trainer *trainer, GError **error);
void mw_trainer_close_commit(struct mw_trainer *trainer);
/* Computes the checksum of a chunk's state, in host memory on its way to the drives. */
void mw_trainer_digest(struct mw_trainer *trainer, uint32_t chunk);
/* Whether the step updates nothing and leaves state on drives where it is; then the extents of the
 * record before the last stay as well. */
bool mw_trainer_keeps_state(const struct mw_trainer *trainer);
/* Ends a step: makes what it wrote current, and durable if it is to be and did not diverge. */
bool mw_trainer_commit_step(struct mw_trainer *trainer, bool diverged, bool *committed,
                            GError **error);
/* The optimizer's arrays of a chunk, one after the other (plan/optimizers.h). */
int64_t mw_trainer_state_bytes(const struct mw_plan *plan, uint32_t chunk);
bool mw_trainer_on_drives(const struct mw_plan *plan, uint32_t chunk);
struct mw_commit_extent mw_trainer_state_extent(const struct mw_trainer *trainer, uint32_t chunk,
                                                int which);

/* --- exec/trainer/names.c --- */
/* The name in weight files of an element of a part; g_free it. */
char *mw_trainer_part_name(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                           int64_t tile, int64_t element);
/* "\"exp_avg_sq.NAME\", element 7": an element of its state, as files count elements; g_free it. */
char *mw_trainer_element_name(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                              int64_t tile, int64_t element, int state);
char *mw_trainer_tensor_name(const struct mw_trainer *trainer, const struct mw_piece *piece,
                             int64_t element);
/* The content of a range of the NVMe tier: "parameters of NAME to NAME"; g_free it.  `data` is the
 * trainer. */
char *mw_trainer_whose(void *data, int64_t offset_bytes, int64_t bytes);

/* --- exec/trainer/resume.c --- */
bool mw_trainer_resume(struct mw_trainer *trainer, GError **error);
bool mw_trainer_same_extent(const struct mw_commit_extent *found,
                            const struct mw_commit_extent *wanted, GError **error);
/* Checks that whole pages read of an extent are what was committed; later reads of them must be the
 * same.  Otherwise *error names its files, and the tensors from the begin of `first` to the end of
 * `last` (NULL: the pages hold padding). */
bool mw_trainer_check_extent(const struct mw_trainer *trainer,
                             const struct mw_commit_extent *extent, const void *data,
                             const struct mw_piece *first, const struct mw_piece *last,
                             GError **error);

/* --- exec/trainer/saves.c --- */
/* Bytes of each extent of a save, except the last. */
#define MW_TRAINER_SAVE_BYTES ((int64_t)4 << 20)
/* Whether ranks have the same state, so that each saves a share of it. */
bool mw_trainer_saves_shared(const struct mw_plan *plan, uint32_t ranks);
/* Bytes of the stream before the vectors of rows and columns. */
int64_t mw_trainer_chunks_in_memory_bytes(const struct mw_plan *plan);
/* The range of the stream that a rank saves.  `pending`: with the gradients of a delayed update. */
struct mw_range mw_trainer_save_range(const struct mw_plan *plan, bool pending, uint32_t rank,
                                      uint32_t ranks);
bool mw_trainer_find_saves(struct mw_trainer *trainer, GError **error);
/* Number of extents of a save: of state in memory, and of pending gradients if there are any. */
int64_t mw_trainer_save_extents(const struct mw_trainer *trainer);
/* Saves, and appends the extents to those of the record. */
bool mw_trainer_save(struct mw_trainer *trainer, int64_t *extent_count, GError **error);
/* Loads a save from the record's extents. */
bool mw_trainer_load_save(struct mw_trainer *trainer, const struct mw_commit_extent *extents,
                          GError **error);

#endif
