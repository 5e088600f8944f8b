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

/* AdamW (arXiv 1711.05101); matrices decay, norms and biases do not. */
struct mw_optimizer {
    double beta1, beta2, epsilon, weight_decay;
    double clip_norm; /* of the whole gradient; 0: not clipped */
};

struct mw_checkpoint; /* exec/trainer/checkpoint.h */

#define MW_TRAINER_FIELDS_MAX 100
/* The field of a record that counts the steps that changed parameters, since the weights. */
#define MW_TRAINER_UPDATES "updates"

/*
 * Durable steps.  State on NVMe is committed by every step; the plan has two extents for it.  With
 * state elsewhere, which is saved to NVMe for that, only every save_every-th step and the last of
 * mw_trainer_run is committed, all state at once.  The files stay when the trainer is freed.
 */
struct mw_trainer_commit {
    bool on;
    bool resume;   /* from the newest committed step, or fail; else what was committed is void */
    bool previous; /* a resume continues from the step before the newest that all ranks have */
    const char *directory; /* of the record; NULL: the first drive's.  Its stem is the drives' */
    int64_t save_every;
    const char *anew;     /* what to do about a run that diverges, as told; NULL: for --overwrite */
    uint64_t fingerprint; /* of all that decides what a step computes: a resume needs the same */
    /* Whether the caller can continue from it, before anything is written.  May be NULL. */
    bool (*resumes)(void *data, const struct mw_commit_record *record, GError **error);
    /* Fills in the caller's own part of a record, returns how many (at most
     * MW_TRAINER_FIELDS_MAX).  Called in a lane's thread while no other op runs.  May be NULL. */
    int (*fields)(void *data, struct mw_commit_field *fields);
};

/* Lanes of collectives that ranks must have: those of plans, three to take turns on, and one to end
 * a course together. */
#define MW_TRAINER_COLLECTIVE_LANES 8

#define MW_TRAINER_WISHES 7

struct mw_trainer_options {
    /* Checked, of one rank's program and of a decoder; borrowed, as all below. */
    const struct mw_variants *variants;
    struct mw_ranks *ranks; /* as many as the plan is for; NULL: alone */
    const struct mw_backend *backend;
    int device_threads, host_threads; /* 0: all cores */
    struct mw_optimizer optimizer;
    struct mw_loss_scaling loss_scaling; /* start 0: mw_loss_scaling_default of the plan's type */
    /* Skipped steps in a row that end a run; 0: as many as the loss scale can be halved, and 8. */
    int64_t skipped_in_row_max;
    struct mw_nvme_options drives; /* capacity and checksums are the plan's */
    bool unchecked; /* data read from drives is not checked: to measure what checks cost */

    struct mw_trainer_commit commit;

    /* An op of such a lane takes its bytes at this rate at least, to stand for a slower link or
     * drive; 0: as fast as it can. */
    double lane_bytes_per_s[MW_LANE_KIND_COUNT];
    /* Several ranks: a run in which no op has ended for this long has failed, because some rank
     * hangs. 0: no limit. */
    double patience_s;

    uint64_t seed;                          /* of starting weights, */
    const struct mw_safetensors *weights;   /* or, if not NULL, where they come from */
    const struct mw_checkpoint *checkpoint; /* or whose state and step it continues */

    /* Fills this rank's micro-batch: ids and targets of sequences * seq tokens.  Called in a
     * lane's thread. */
    bool (*batch)(void *data, int64_t step, int64_t micro_batch, int32_t *ids, int32_t *targets,
                  GError **error);
    double (*learning_rate)(void *data, int64_t step);
    /* Called when all that can be refused has been checked and memory is reserved, before the first
     * look at the drives: what others have left there may go.  May be NULL. */
    bool (*ready)(void *data, GError **error);
    /* Called when everything else is ready and a drive lacks room: true where it has made some,
     * which is tried again.  A run that starts anew then reserves drives last.  May be NULL. */
    bool (*make_space)(void *data);
    /* Which wish of 1 to MW_TRAINER_WISHES there is, of this rank, to end the run after the step
     * that it is in; 0: none.  Ranks tell each other at the end of each step, and all end with the
     * same.  Called in a lane's thread.  May be NULL. */
    int (*wish)(void *data);
    bool try_start; /* every value of weights or checkpoint is checked before that */
    void *data;
};

/* Of one step. */
struct mw_trainer_step {
    int64_t step; /* from 0, through all runs and resumes */
    double loss;  /* mean over the tokens of all ranks */
    double gradient_norm, learning_rate;
    double loss_scale;          /* that its gradients were made with */
    bool skipped;               /* the gradient was not finite: nothing was updated */
    int64_t skipped_in_row;     /* such steps up to this one */
    bool diverged;              /* by loss, or by a gradient that no smaller loss scale mends */
    bool committed;             /* durable: a resume continues from here or later */
    const struct mw_plan *plan; /* that it ran by */
    const struct mw_timeline *timeline;
    int64_t let_in_ns; /* as mw_lanes_let_in_ns says */
};

struct mw_trainer;

/* NULL with *error: a plan that this cannot run (which op), too little memory or room on drives.
 * Where there are several ranks, a failure here and in a run is followed by mw_ranks_abort alone,
 * which does not return. */
struct mw_trainer *mw_trainer_new(const struct mw_trainer_options *options, GError **error);
void mw_trainer_free(struct mw_trainer *trainer); /* NULL is allowed */

/* The step that the next run begins with: 0, or the one after that which was resumed. */
int64_t mw_trainer_next_step(const struct mw_trainer *trainer);
/* The record from which the run was resumed or continued, with the caller's fields; NULL. */
const struct mw_commit_record *mw_trainer_resumed(const struct mw_trainer *trainer);
/* A line for the user, if a commit was found interrupted; NULL. */
const char *mw_trainer_notice(const struct mw_trainer *trainer);

/* False ends the run.  So does a course that has diverged: a loss, gradient or state that is not
 * finite is not committed, and neither many such steps in a row nor the last one go unsaid. */
typedef bool (*mw_trainer_on_step)(void *data, const struct mw_trainer_step *step, GError **error);
bool mw_trainer_run(struct mw_trainer *trainer, int64_t steps, mw_trainer_on_step on_step,
                    void *data, GError **error);

/* For how long no op has begun or ended: this rank waits for others, or for a device.  0 while it
 * commits a step, and for as long after that as it took, because other ranks may be as much slower
 * at it.  Any thread, while it runs. */
int64_t mw_trainer_idle_ns(const struct mw_trainer *trainer);
/* The largest wish of all ranks, where it has ended the last run before its last step; 0.  The run
 * is good, and its last step is committed as the last one always is. */
int mw_trainer_ended_by(const struct mw_trainer *trainer);

/* Whether a run has ended because its course has diverged. */
bool mw_trainer_has_diverged(const struct mw_trainer *trainer);

struct mw_trainer_use {
    int64_t reserved_bytes[MW_TIER_COUNT];       /* for all slots; the most it ever holds */
    int64_t nvme_read_bytes, nvme_written_bytes; /* by the drives, since they were opened */
};
struct mw_trainer_use mw_trainer_use(const struct mw_trainer *trainer);
/* Lines for the user, from index 0 on; NULL after the last: that the run was computed with other
 * instructions before; what memory and drives lack (huge pages, O_DIRECT, a RAM disk). */
const char *mw_trainer_lack(const struct mw_trainer *trainer, int index);

/* Elements [first, first + count) of a part of a tensor, as this rank holds them: fp32 parameters,
 * momentum, variance.  Valid during the call. */
typedef bool (*mw_trainer_visit)(void *data, const struct mw_tensor *tensor, int64_t tile,
                                 int64_t first, int64_t count, const float *const state[3],
                                 GError **error);
/* Between runs. */
bool mw_trainer_visit_state(struct mw_trainer *trainer, mw_trainer_visit visit, void *data,
                            GError **error);

#endif
