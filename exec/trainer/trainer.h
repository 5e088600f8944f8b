/*
 * trainer.h - trains a decoder by a plan: real tokens in, loss and weights out.
 *
 * A process is one rank, and all ranks run the same plan.  Everything that a run needs is reserved
 * before its first step, at the places that the plan says; the lanes then run the plan's ops step
 * after step.  Where steps differ there are several variants of the plan (plan/variants.h); memory,
 * drives and threads are taken once for all of them, and at the end of a step the next step's
 * variant takes over.  For one plan, seed, data and number of threads the weights are the same
 * bits, wherever the state lives.
 */
#ifndef MW_EXEC_TRAINER_TRAINER_H
#define MW_EXEC_TRAINER_TRAINER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/commit/commit.h"
#include "exec/course/schedule.h"
#include "exec/data/safetensors.h"
#include "exec/device/backend.h"
#include "exec/nvme/nvme.h"
#include "exec/ranks/ranks.h"
#include "plan/variants.h"

/* Of the plan's optimizer (plan/optimizers.h); matrices decay, norms and biases do not. */
struct mw_optimizer {
    double beta1, beta2, epsilon, weight_decay;
    double clip_norm; /* norm of the whole gradient; 0: not clipped */
};

struct mw_checkpoint; /* exec/trainer/checkpoint.h */

#define MW_TRAINER_FIELDS_MAX 100
/* The field of a record that counts the steps that have changed parameters since the starting
 * weights. */
#define MW_TRAINER_UPDATES "updates"

/*
 * Durable steps.  Every step commits the state on NVMe, for which the plan has two extents.  State
 * elsewhere is saved to NVMe for the commit; then only every save_every-th step and the last step
 * of mw_trainer_run are committed, with all state at once.  The files stay when the trainer is
 * freed.
 */
struct mw_trainer_commit {
    bool on;
    bool resume;   /* continue from the newest committed step, or fail; else what was committed is
                    * void */
    bool previous; /* a resume continues from the step before the newest that all ranks have */
    const char *directory; /* directory of the record; NULL: that of the first drive.  Its stem is
                            * that of the drives */
    int64_t save_every;
    const char *anew;     /* text that says how to start anew after a divergence; NULL: advises
                           * --overwrite */
    uint64_t fingerprint; /* covers all that decides what a step computes; a resume needs the
                           * same */
    /* Whether the caller can continue from the record; called before anything is written.  May be
     * NULL. */
    bool (*resumes)(void *data, const struct mw_commit_record *record, GError **error);
    /* Fills in the caller's own fields of a record and returns their number (at most
     * MW_TRAINER_FIELDS_MAX).  Called in a lane's thread while no other op runs.  May be NULL. */
    int (*fields)(void *data, struct mw_commit_field *fields);
};

/* Streams of collectives, each with a thread and messages of its own; the first three are those of
 * plans. */
#define MW_TRAINER_TURN_STREAMS 3
enum mw_trainer_stream {
    MW_TRAINER_STATE_STREAM,
    MW_TRAINER_SLICING_STREAM,
    MW_TRAINER_DELAYED_STREAM,
    /* Owners' turns. */
    MW_TRAINER_TURN_STREAM,
    MW_TRAINER_LAST_TURN_STREAM = MW_TRAINER_TURN_STREAM + MW_TRAINER_TURN_STREAMS - 1,
    /* Of ranks that have the same experts, where these are spread: then no owners take turns. */
    MW_TRAINER_EXPERTS_STREAM = MW_TRAINER_TURN_STREAM,
    MW_TRAINER_DELAYED_EXPERTS_STREAM,
    /* Activations to the next stage and gradients back: a middle stage sends and receives at the
     * same time, over boundaries whose numbers differ by one. */
    MW_TRAINER_FORWARD_STREAM = MW_TRAINER_LAST_TURN_STREAM + 1,
    MW_TRAINER_FORWARD_ODD_STREAM,
    MW_TRAINER_BACKWARD_STREAM,
    MW_TRAINER_BACKWARD_ODD_STREAM,
    /* From the last stage to the first, which has layers behind the last's, and back. */
    MW_TRAINER_FORWARD_AROUND_STREAM,
    MW_TRAINER_BACKWARD_AROUND_STREAM,
    /* Of data-parallel ranks that are not all ranks: for the first and the third stream. */
    MW_TRAINER_DATA_STREAM,
    MW_TRAINER_DELAYED_DATA_STREAM,
    /* Of ranks that have the same shard, one of each sharding group. */
    MW_TRAINER_REPLICAS_STREAM,
    /* Of ranks that share sequences. */
    MW_TRAINER_CONTEXT_STREAM,
    /* Of the first and the last stage. */
    MW_TRAINER_COPIES_STREAM,
    /* To end a run together. */
    MW_TRAINER_END_STREAM,
    MW_TRAINER_COLLECTIVE_LANES
};

#define MW_TRAINER_WISHES 7

struct mw_trainer_options {
    /* Checked, with the program of one rank, and with a decoder; borrowed, like all below. */
    const struct mw_variants *variants;
    struct mw_ranks *ranks; /* as many as the plan is for; NULL: one rank alone */
    const struct mw_backend *backend;
    int device_threads, host_threads; /* 0: all cores */
    struct mw_optimizer optimizer;
    struct mw_loss_scaling loss_scaling; /* start 0: mw_loss_scaling_default of the plan's type */
    /* Skipped steps in a row that end a run; 0: as many as it takes to halve the loss scale to its
     * smallest, and 8 more. */
    int64_t skipped_in_row_max;
    struct mw_nvme_options drives; /* the plan gives capacity and checksums */
    bool unchecked; /* do not check data read from drives, to measure the cost of the checks */

    struct mw_trainer_commit commit;

    /* An op of such a lane takes its bytes no faster than this rate, to stand for a slower link or
     * drive; 0: as fast as it can. */
    double lane_bytes_per_s[MW_LANE_KIND_COUNT];
    /* For several ranks: a run in which no op has ended for this long has failed, since some rank
     * hangs. 0: no limit. */
    double patience_s;

    uint64_t seed;                          /* of the starting weights, */
    const struct mw_safetensors *weights;   /* if not NULL, the source of the starting weights */
    const struct mw_safetensors *adapters;  /* the same of adapters */
    const struct mw_checkpoint *checkpoint; /* if not NULL, the run continues its state and step */

    /* Fills this rank's micro-batch: ids and targets of sequences * seq tokens.  Called in a lane's
     * thread. */
    bool (*batch)(void *data, int64_t step, int64_t micro_batch, int32_t *ids, int32_t *targets,
                  GError **error);
    double (*learning_rate)(void *data, int64_t step);
    /* Called when everything that can be refused has been checked and memory is reserved, before
     * the first access to the drives, so that files of others there may be removed.  May be
     * NULL. */
    bool (*ready)(void *data, GError **error);
    /* Called when everything else is ready and a drive lacks room.  Returns true if it has made
     * some; then the reservation is tried again.  With it, a run that starts anew reserves drives
     * last.  May be NULL. */
    bool (*make_space)(void *data);
    /* This rank's wish, from 1 to MW_TRAINER_WISHES, to end the run after the current step; 0:
     * none. Ranks exchange their wishes at the end of each step, and all end with the same step.
     * Called in a lane's thread.  May be NULL. */
    int (*wish)(void *data);
    bool try_start; /* check every value of weights or checkpoint before that */
    void *data;
};

/* The report of one step. */
struct mw_trainer_step {
    int64_t step; /* from 0, counted through all runs and resumes */
    double loss;  /* mean over the tokens of all ranks */
    /* Of a mixture that has them, without their coefficients: means over layers, and over
     * micro-batches of all ranks. */
    double router_aux_loss, router_z_loss;
    /* Where experts are spread: tokens of the rank that has the most of those that share experts,
     * over their mean, forward.  The mean over layers, and over micro-batches of all ranks; the
     * most of any of them; and this rank's group's of each layer, 0 where another stage has it,
     * borrowed until the step after the next ends.  Else 0 and NULL. */
    double expert_imbalance, expert_imbalance_most;
    const double *layer_imbalance; /* [layers] */
    int64_t layers;
    double gradient_norm, learning_rate;
    double loss_scale;          /* scale that its gradients were made with */
    bool skipped;               /* the gradient was not finite, so nothing was updated */
    int64_t skipped_in_row;     /* number of consecutive skipped steps up to this one */
    bool diverged;              /* the loss diverged, or a gradient that no smaller loss scale
                                 * mends */
    bool committed;             /* the step is durable: a resume continues from it or a later one */
    const struct mw_plan *plan; /* plan that it ran by */
    const struct mw_timeline *timeline;
    int64_t let_in_ns; /* as mw_lanes_let_in_ns says */
};

struct mw_trainer;

/* Whether the backend can do what the plans ask of the device; false with *error that says which
 * setting would do.  For who wants to know before anything is opened: mw_trainer_new checks it. */
bool mw_trainer_takes(const struct mw_variants *variants, const struct mw_backend *backend,
                      GError **error);

/* Returns NULL with *error if the plan cannot be run (naming the op), or if memory or room on
 * drives is too small. With several ranks, only mw_ranks_abort, which does not return, may follow a
 * failure here or in a run. */
struct mw_trainer *mw_trainer_new(const struct mw_trainer_options *options, GError **error);
void mw_trainer_free(struct mw_trainer *trainer); /* NULL is allowed */

/* The step that the next run begins with: 0, or the step after the resumed one. */
int64_t mw_trainer_next_step(const struct mw_trainer *trainer);
/* The record from which the run was resumed or continued, with the caller's fields; or NULL. */
const struct mw_commit_record *mw_trainer_resumed(const struct mw_trainer *trainer);
/* A line for the user if a commit was found interrupted; or NULL. */
const char *mw_trainer_notice(const struct mw_trainer *trainer);

/* Returning false ends the run.  So does a run that has diverged: a loss, gradient or state that is
 * not finite is not committed, and many such steps in a row, or one at the end, are reported as
 * errors. */
typedef bool (*mw_trainer_on_step)(void *data, const struct mw_trainer_step *step, GError **error);
bool mw_trainer_run(struct mw_trainer *trainer, int64_t steps, mw_trainer_on_step on_step,
                    void *data, GError **error);

/* How long no op has begun or ended, because this rank waits for others or for a device.  0 while
 * it commits a step and for as long after that as the commit took, since other ranks may be slower
 * by as much.  Any thread may call it during a run. */
int64_t mw_trainer_idle_ns(const struct mw_trainer *trainer);
/* The largest wish of all ranks, if it has ended the last run before its last step; else 0.  The
 * run is good, and its last step is committed as always. */
int mw_trainer_ended_by(const struct mw_trainer *trainer);

/* Whether a run has ended because it diverged. */
bool mw_trainer_has_diverged(const struct mw_trainer *trainer);

struct mw_trainer_use {
    int64_t reserved_bytes[MW_TIER_COUNT];       /* for all that the plan counts; the most that
                                                  * the run ever holds */
    int64_t scratch_bytes;                       /* host memory beside it that the device's kernels
                                                  * and saves write */
    int64_t program_bytes;                       /* host memory that the process had beside both
                                                  * when all was set up, before any state was
                                                  * made; -1: not known */
    int64_t nvme_read_bytes, nvme_written_bytes; /* by the drives, since they were opened */
};
struct mw_trainer_use mw_trainer_use(const struct mw_trainer *trainer);
/* Lines for the user, from index 0 on, with NULL after the last: that other instructions computed
 * the run before, and what memory and drives lack (huge pages, O_DIRECT, a RAM disk). */
const char *mw_trainer_lack(const struct mw_trainer *trainer, int index);

/* Receives elements [first, first + count) of a part of a tensor, as a rank with this decoder holds
 * them: fp32 parameters, momentum, variance.  Valid during the call. */
typedef bool (*mw_trainer_visit)(void *data, const struct mw_decoder *decoder,
                                 const struct mw_tensor *tensor, int64_t tile, int64_t first,
                                 int64_t count, const float *const state[3], GError **error);
/* Call it between runs. */
bool mw_trainer_visit_state(struct mw_trainer *trainer, mw_trainer_visit visit, void *data,
                            GError **error);

#endif
