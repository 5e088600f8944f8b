/* internal.h - what the files of the trainer share. */
#ifndef MW_EXEC_TRAINER_INTERNAL_H
#define MW_EXEC_TRAINER_INTERNAL_H

#include "exec/device/cpu/kernels.h" /* of the host lanes */
#include "exec/lanes/lanes.h"
#include "exec/trainer/storage.h"
#include "exec/trainer/trainer.h"

/* Numbers of the step that runs; written by its ops, each before those that read it. */
struct mw_step_numbers {
    int64_t step, updates;
    double learning_rate, gradient_norm;
    double loss_scale;    /* of the gradients that its backward makes */
    bool skipped;         /* the gradient was not finite */
    bool scale_was_least; /* of the loss, when that was seen: none smaller would have helped */
    bool updates_nothing; /* skipped, or there is no gradient yet: parameters stay as they are */
    struct mw_adamw adamw, adamw_decaying;
};

/* A range of a chunk whose elements all decay or all do not. */
struct mw_update_range {
    struct mw_piece piece;
    bool decays;
};

struct mw_trainer_chunk {
    struct mw_piece *pieces;
    struct mw_update_range *ranges;
    int64_t piece_count, range_count;
};

/* Which op it is that ends in another thread than it began. */
struct mw_trainer_ticket {
    struct mw_lanes *lanes;
    uint32_t op, step;
};

struct mw_trainer_durable {
    struct mw_commit *commit; /* NULL: steps are not committed */
    struct mw_commit_record resumed;
    char *change;                       /* a line for the user about changed instructions; NULL */
    struct mw_commit_extent *extents;   /* [extents_max] of a record */
    int64_t extents_max, state_extents; /* of these, of state on drives */
    uint64_t *checksums;                /* [chunk_count] of the state that the step wrote */
    _Atomic int64_t last_step;          /* of this run: committed in any case */
    int64_t last_committed;             /* -1: none */
    int64_t before_last;                /* committed before it, or resumed; -1: not known */
    int infinite_chunk;                 /* whose state the step made infinite, + 1; 0: none */
    int64_t saves_at[2];                /* of the NVMe tier; which is the newer */
    int save_which;
    int64_t stream_bytes; /* of state that is in memory */
    char *block;
};

/* What is looked up of one variant: where its slots lie, and what its ops need. */
struct mw_trainer_variant {
    const struct mw_plan *plan;
    struct mw_lanes *lanes;
    uint32_t *tensor_of_home; /* [slot_count]; MW_NONE */
    uint32_t *set_slots;      /* [chunk_count] where a chunk's state from drives passes through host
                            memory; MW_NONE: at home */
    bool *updates;            /* [chunk_count] whether a step updates the chunk */
    bool *computes;           /* [layers + 1] whether a step computes the layer */
    struct mw_layer_activations *layers;  /* [sets][layers_kept] */
    struct mw_shared_activations *shared; /* [sets]: one per micro-batch that is kept */
    bool *queued;                         /* [op_count]: ops that the device orders */
    struct mw_trainer_ticket *tickets;    /* [2][op_count]: of even and odd steps */
};

struct mw_trainer {
    struct mw_trainer_options options;
    const struct mw_plan *plan;          /* the variant of the step that runs now, */
    struct mw_trainer_variant *variant;  /* and what is looked up of it */
    struct mw_trainer_variant *variants; /* [options.variants->plan_count] */
    struct mw_crew *crew;                /* the threads of all variants' lanes */
    struct mw_storage storage;
    const struct mw_cpu_kernels *kernels; /* of the host lanes */
    uint32_t rank, ranks;             /* data-parallel: among those that train on other sequences */
    uint32_t world_rank, world_ranks; /* among all, of which other stages train on the same */
    int has_diverged;                 /* any lane may see it */
    _Atomic int64_t moved_ns;         /* when an op began or ended at last, */
    _Atomic int64_t busy_until_ns;    /* and what counts as that; of the monotonic clock */
    int ended_by;                     /* a wish; 0: none */
    const struct mw_collectives *collectives; /* of device memory */
    void *peers;                              /* whom they are called with */

    int64_t tokens, micro_batches, logits_chunks, layers_kept;
    struct mw_arena exchange; /* what device and host tell each other: */
    int32_t *ids, *targets;   /* [micro_batches][tokens] */
    double *loss;             /* sum over this rank's tokens */

    uint32_t *tensor_of;             /* [layer + 1][operator]; MW_NONE */
    struct mw_part **parts;          /* [tensor][tile] */
    int64_t sets;                    /* of activations, in each variant's slots */
    struct mw_trainer_chunk *chunks; /* [chunk_count] */

    /* [stream] of owners' turns: how long the rank has waited for others to come to an op, not for
     * its turn in it. */
    int64_t turns_waited_ns[MW_TRAINER_COLLECTIVE_LANES];

    double *partials; /* squares of gradients, by tensor, part and block; in `exchange` */
    int64_t *partial_first, *partial_blocks; /* [tensor]: where they begin, and blocks of a part */
    int64_t partial_count;

    struct mw_trainer_durable durable;
    int64_t next_step;
    struct mw_loss_scale scale; /* of the next step */
    bool pending;               /* gradients of the step before wait for a delayed update */
    double pending_scale;       /* that they were made with */
    double last_loss;           /* the sum over all ranks' tokens, of the step before */
    struct mw_step_numbers now;
    struct mw_trainer_step reports[2]; /* of even and odd steps: two may be in flight */
    mw_trainer_on_step on_step;
    void *on_step_data;
};

/* The slot that an op uses in a role, the first of several; MW_NONE. */
uint32_t mw_trainer_slot(const struct mw_trainer *trainer, const struct mw_op *op,
                         enum mw_role role);

/* Whose part an op moves; not of the optimizer step. */
const struct mw_tensor *mw_trainer_tensor(const struct mw_trainer *trainer, const struct mw_op *op);
/* A part begins at its stride in a home, at the start of a buffer. */
struct mw_place mw_trainer_place(const struct mw_trainer *trainer, uint32_t slot, int64_t tile);
/* Elements of a part whose state this rank has. */
struct mw_range mw_trainer_state_of(const struct mw_trainer *trainer, uint32_t tensor,
                                    uint32_t tile);
/* Bytes of an element: of activations, trained parameters and gradients as they are made; and of
 * gradients at home. */
int64_t mw_trainer_element_bytes(const struct mw_trainer *trainer);
int64_t mw_trainer_gradient_bytes(const struct mw_tensor *tensor);
/* Where the gradient as it was made begins in a host buffer that holds the sum before it. */
int64_t mw_trainer_gradient_offset_bytes(const struct mw_trainer *trainer,
                                         const struct mw_tensor *tensor);

/* --- exec/trainer/stages.c --- */
bool mw_trainer_is_stage(const struct mw_plan *plan); /* of a pipeline */
/* Between the slots that stages send and receive, and where operators have them. */
bool mw_trainer_take_received(struct mw_trainer *trainer, const struct mw_op *op,
                              const struct mw_compute *compute, GError **error);
bool mw_trainer_give_sent(struct mw_trainer *trainer, const struct mw_op *op,
                          const struct mw_compute *compute, GError **error);
bool mw_trainer_hop(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* The stream of collectives that an op of such a lane is called on. */
int mw_trainer_stream(const struct mw_trainer *trainer, const struct mw_op *op);

/* --- exec/trainer/threads.c --- */
/* False with *error where the system refuses a thread that the run will need. */
bool mw_trainer_check_threads(const struct mw_trainer_options *options, GError **error);

/* --- exec/trainer/setup.c: what does not change while it runs --- */
/* Looks up all that there is to know of the variants, and makes their lanes; `run` carries out. */
bool mw_trainer_set_up(struct mw_trainer *trainer, const struct mw_exec_backend *run,
                       GError **error);
/* Between steps: continues with a step's variant.  The content of homes stays. */
void mw_trainer_turn_to(struct mw_trainer *trainer, int64_t step);
void mw_trainer_take_down(struct mw_trainer *trainer);

/* --- exec/trainer/operands.c: whether a plan's ops can be carried out --- */
/* The first of a plan, the second once its tensors are indexed, the third once the variant that
 * runs now is set up.
 * False with *error, which names the op and what it lacks. */
bool mw_trainer_check_tensors(const struct mw_plan *plan, GError **error);
bool mw_trainer_check_names(const struct mw_trainer *trainer, GError **error);
bool mw_trainer_check_operands(const struct mw_trainer *trainer, GError **error);

/* --- exec/trainer/compute.c, exec/trainer/unit_copies.c, exec/trainer/update.c: ops --- */
/* What the backend makes of the plan's compute ops before the first of them runs. */
bool mw_trainer_prepare(struct mw_trainer *trainer, GError **error);
bool mw_trainer_compute(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
struct mw_move mw_trainer_part_move(const struct mw_trainer *trainer, const struct mw_op *op);
/* The stream of collectives on which the owners of a part take turns to move what they have of it;
 * -1: the op is none of owner-broadcast, and all ranks move at once. */
int mw_trainer_turn_stream(const struct mw_trainer *trainer, const struct mw_op *op);
bool mw_trainer_move_in_turn(struct mw_trainer *trainer, const struct mw_op *op, int stream,
                             GError **error);
bool mw_trainer_accumulate(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* Adds the moves of a chunk's op. */
void mw_trainer_list_chunk(const struct mw_trainer *trainer, const struct mw_op *op, GArray *moves);
bool mw_trainer_norm(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
bool mw_trainer_agree(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
bool mw_trainer_update(struct mw_trainer *trainer, const struct mw_op *op, GError **error);

/* --- exec/trainer/moves.c: from tier to tier --- */
bool mw_trainer_move(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* Whether drives do the op without its lane's thread. */
bool mw_trainer_moves_alone(const struct mw_trainer *trainer, const struct mw_op *op);
void mw_trainer_begin_move(struct mw_trainer *trainer, struct mw_lanes *lanes, uint32_t op,
                           uint32_t step);

/* --- exec/trainer/queue.c: ops that the device orders --- */
struct mw_trainer_ticket *mw_trainer_ticket(struct mw_trainer *trainer, struct mw_lanes *lanes,
                                            uint32_t op, uint32_t step);
void mw_trainer_map_queues(struct mw_trainer *trainer);
/* As struct mw_exec_backend says. */
bool mw_trainer_queues(void *context, uint32_t op);
/* Whether all slots that the op reads are in one tier, and all that it writes in the other. */
bool mw_trainer_uses_tiers(const struct mw_plan *plan, const struct mw_op *op, enum mw_tier read,
                           enum mw_tier written);
typedef bool (*mw_trainer_perform)(struct mw_trainer *trainer, const struct mw_op *op,
                                   uint32_t step, GError **error);
enum mw_exec_outcome mw_trainer_queue(struct mw_trainer *trainer, struct mw_lanes *lanes,
                                      uint32_t op, uint32_t step, mw_trainer_perform perform,
                                      GError **error);

/* --- exec/trainer/collect.c: what takes all ranks --- */
/* Sets the rank; false with *error for a plan of other ranks, or one that several cannot run. */
bool mw_trainer_join(struct mw_trainer *trainer, GError **error);
/* Of the device's collectives, bits 1 << stream; 0: they are the host's, or there are none. */
uint32_t mw_trainer_streams(const struct mw_trainer *trainer);
/* Once the device is open: what collectives of its memory need. */
bool mw_trainer_open_collectives(struct mw_trainer *trainer, GError **error);
bool mw_trainer_collect(struct mw_trainer *trainer, const struct mw_op *op, GError **error);
/* Whether a collective is of device memory alone, not of numbers that hosts agree upon. */
bool mw_trainer_collects_on_device(const struct mw_plan *plan, const struct mw_op *op);
/* value = its sum over ranks, in their order; on a stream (index of a collective lane) that no op
 * is on. */
bool mw_trainer_sum(struct mw_trainer *trainer, int stream, double *value, GError **error);

/* value = the least of all ranks'; between runs. */
bool mw_trainer_least(struct mw_trainer *trainer, int64_t *value, GError **error);
/* Parameters that all ranks hold, where each has made those of its own state. */
bool mw_trainer_all_gather_parameters(struct mw_trainer *trainer, GError **error);

/* --- exec/trainer/finite.c: what is not finite is neither used nor kept --- */
/* Bytes [at, at + bytes) of a chunk's state, in memory; parameters as 16 bits hold them, too. */
bool mw_trainer_is_finite(const struct mw_trainer *trainer, uint32_t chunk, int64_t at,
                          int64_t bytes, const void *state);
bool mw_trainer_are_finite(const float *values, int64_t count);
/* Finite and at least 0, as a variance is. */
bool mw_trainer_are_squares(const float *values, int64_t count);
/* What was read as bytes [at, at + bytes) of a chunk's state can be that; or *error names state,
 * tensor and element.  One pass over what is in memory. */
bool mw_trainer_check_state(const struct mw_trainer *trainer, uint32_t chunk, int64_t at,
                            int64_t bytes, const char *state, GError **error);
/* Of parameters (state 0), momentum (1) or variance (2): the first that is none; -1: all can be. */
int64_t mw_trainer_first_invalid(int state, const float *values, int64_t count);
/* Whether a gradient of this norm, clipped, can update state that stays finite. */
bool mw_trainer_fits(double norm);
/* Whether training can continue after a step with this loss. */
bool mw_trainer_diverges(const struct mw_trainer *trainer, double loss);
/* False with *error and advice: too many such steps in a row, or the run ends with one. */
bool mw_trainer_check_course(struct mw_trainer *trainer, const struct mw_trainer_step *step,
                             GError **error);
/* Returns false with *error: this step's update of a chunk was not finite. */
bool mw_trainer_refuse_state(struct mw_trainer *trainer, uint32_t chunk, GError **error);

/* --- exec/trainer/state.c --- */
bool mw_trainer_start_state(struct mw_trainer *trainer, GError **error);
/* Reads what this rank starts from and keeps nothing: false with *error where the state could not
 * be made of it. */
bool mw_trainer_try_start(const struct mw_trainer *trainer, GError **error);
/* Parameters, from a chunk's state where it can be reached; those without state. */
bool mw_trainer_restore_params(struct mw_trainer *trainer, uint32_t chunk, GError **error);
bool mw_trainer_start_frozen(struct mw_trainer *trainer, GError **error);

/* --- exec/trainer/commit.c --- */
/* Sets a record's fields, the trainer's own first, then the caller's; returns how many. */
#define MW_TRAINER_OWN_FIELDS 8
#define MW_TRAINER_FORMAT "format" /* which fields there are; without it 1 */
#define MW_TRAINER_FORMAT_NOW 2
#define MW_TRAINER_DTYPE "dtype" /* the type that the run computes in; absent: bf16 */
#define MW_TRAINER_LOSS_SCALE "loss-scale"
#define MW_TRAINER_GOOD_STEPS "good-steps"
#define MW_TRAINER_SKIPPED "skipped"
#define MW_TRAINER_SKIPPED_IN_ROW "skipped-in-row"
/* What has computed it, one of the two: the cores' instruction set, by number; or not the cores. */
#define MW_TRAINER_ISA "isa"
#define MW_TRAINER_ON_GPU "on-gpu"
/* If the gradients of a delayed update are in it: the scale they were made with. */
#define MW_TRAINER_PENDING "pending-scale"
/* Of a run's records, not of checkpoints: a checksum of which elements the plan's tensors have
 * where. */
#define MW_TRAINER_TENSORS "tensors"
/* exec/trainer/fields.c: every field that the record's format has is there, none is there twice,
 * and those that have a range are within it; or false with its name, value, and what it must be. */
#define MW_TRAINER_STEPS_MAX (INT64_C(1) << 53)
bool mw_trainer_check_fields(const struct mw_commit_record *record, GError **error);
bool mw_trainer_refuse_missing(const char *name, GError **error); /* false */
struct mw_commit_field mw_trainer_computes_with(const struct mw_trainer *trainer);
/* Products and attention have other last digits by other instructions: a line for the user where
 * the record's step was made by others than this run's.  g_free it; NULL: by the same, or the
 * record does not say. */
char *mw_trainer_tell_change(const struct mw_trainer *trainer,
                             const struct mw_commit_record *record);
int mw_trainer_fields(const struct mw_trainer *trainer,
                      struct mw_commit_field fields[MW_TRAINER_OWN_FIELDS + MW_TRAINER_FIELDS_MAX]);
void mw_trainer_read_fields(struct mw_trainer *trainer, const struct mw_commit_record *record);
bool mw_trainer_check_commit(const struct mw_trainer *trainer, GError **error);
bool mw_trainer_open_commit(struct mw_trainer *trainer, GError **error);
void mw_trainer_close_commit(struct mw_trainer *trainer);
/* The checksum of a chunk's state, in host memory on its way to the drives. */
void mw_trainer_digest(struct mw_trainer *trainer, uint32_t chunk);
/* Whether the step, which updates nothing, leaves state on drives where it is: so the extents of
 * the record before the last stay as well. */
bool mw_trainer_keeps_state(const struct mw_trainer *trainer);
/* Ends a step: what it wrote is current, and durable if it is to be and did not diverge. */
bool mw_trainer_commit_step(struct mw_trainer *trainer, bool diverged, bool *committed,
                            GError **error);
/* fp32 parameters, momentum and variance of a chunk, one after the other. */
#define MW_TRAINER_STATES 3
int64_t mw_trainer_state_bytes(const struct mw_plan *plan, uint32_t chunk);
bool mw_trainer_on_drives(const struct mw_plan *plan, uint32_t chunk);
struct mw_commit_extent mw_trainer_state_extent(const struct mw_trainer *trainer, uint32_t chunk,
                                                int which);

/* --- exec/trainer/names.c --- */
/* Whose element of a part it is, by its name in weight files; g_free it. */
char *mw_trainer_part_name(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                           int64_t tile, int64_t element);
/* "\"exp_avg_sq.NAME\", element 7": of its state, as files count the elements; g_free it. */
char *mw_trainer_element_name(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                              int64_t tile, int64_t element, int state);
char *mw_trainer_tensor_name(const struct mw_trainer *trainer, const struct mw_piece *piece,
                             int64_t element);
/* What lies in a range of the NVMe tier: "parameters of NAME to NAME"; g_free it.  `data` is the
 * trainer. */
char *mw_trainer_whose(void *data, int64_t offset_bytes, int64_t bytes);

/* --- exec/trainer/resume.c --- */
bool mw_trainer_resume(struct mw_trainer *trainer, GError **error);
bool mw_trainer_same_extent(const struct mw_commit_extent *found,
                            const struct mw_commit_extent *wanted, GError **error);
/* What was read of an extent, in whole pages, is what was committed, and so must be what is read of
 * it later; or *error names its files, and the tensors
 * from the begin of `first` to the end of `last` (NULL: it holds padding). */
bool mw_trainer_check_extent(const struct mw_trainer *trainer,
                             const struct mw_commit_extent *extent, const void *data,
                             const struct mw_piece *first, const struct mw_piece *last,
                             GError **error);

/* --- exec/trainer/saves.c --- */
/* Bytes of all extents of a save but the last. */
#define MW_TRAINER_SAVE_BYTES ((int64_t)4 << 20)
/* Whether ranks have the same state, and each saves its share of it. */
bool mw_trainer_saves_shared(const struct mw_plan *plan, uint32_t ranks);
/* Bytes of the stream that a rank saves; `pending`: with the gradients of a delayed update. */
struct mw_range mw_trainer_save_range(const struct mw_plan *plan, bool pending, uint32_t rank,
                                      uint32_t ranks);
bool mw_trainer_find_saves(struct mw_trainer *trainer, GError **error);
/* Extents of a save: of state in memory, and of gradients if there are any pending. */
int64_t mw_trainer_save_extents(const struct mw_trainer *trainer);
/* Adds its extents to those of the record. */
bool mw_trainer_save(struct mw_trainer *trainer, int64_t *extent_count, GError **error);
/* From the record's extents of a save. */
bool mw_trainer_load_save(struct mw_trainer *trainer, const struct mw_commit_extent *extents,
                          GError **error);

#endif
