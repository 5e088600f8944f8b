/*
 * training.h - from a plan and the options of `run` to a trainer that is ready: model, data,
 * starting weights, drives, durable steps.
 */
#ifndef MW_CLI_RUN_TRAINING_H
#define MW_CLI_RUN_TRAINING_H

#include "cli/cli.h"
#include "cli/run/options.h"
#include "exec/data/tokens.h"
#include "exec/ranks/ranks.h"

/* The caller sets the first rows; open and start set the rest. */
struct cli_training {
    const struct cli_request *request; /* borrowed */
    struct mw_ranks *ranks;            /* borrowed */
    struct cli_run_options options;
    struct mw_answer *answer; /* has a plan */
    char *stem;               /* of this rank's files on the drives; may be NULL */

    struct cli_run_drives *drives; /* cli/run/drives.h */
    struct cli_run_course *then;   /* course of the run that is resumed; may be NULL */
    struct mw_decoder decoder;
    struct mw_tokens *tokens;
    struct mw_safetensors *weights;   /* NULL: drawn from the seed */
    struct mw_safetensors *adapters;  /* the same */
    struct mw_checkpoint *checkpoint; /* the checkpoint to continue from; NULL */
    int64_t sequences;                /* per micro-batch */
    struct mw_batch_place place;
    int64_t first_step, first_sequence; /* of this run: where its data begins */
    int64_t used_sequences;             /* of the data, up to the step that runs */
    struct cli_run_data *data;          /* cli/run/data.h; NULL before start */
    int64_t commits;                    /* begun so far */
    struct mw_trainer *trainer;
    int *held; /* [held_count] descriptors of pipes whose readers wait for the report */
    int held_count;
    int unstarted;   /* the wish (cli/run/stop.h) that ended it before its first step; 0: none */
    uint32_t stages; /* of the pipeline, whose plans differ; 1: none */
    int64_t slices;  /* of the model's tensors */
    struct mw_context_share share; /* of each sequence */
    struct mw_plan *homes;         /* of all stages: without ops; NULL: there is one program */
    bool diverged;   /* the run ended because the loss diverged; set once the trainer is closed */
    char *saved;     /* the folder that --save was written to; NULL: none */
    char *explained; /* settings that differ from those of the run it resumes; NULL: not looked */
    bool displaced;  /* `saved` is another folder than requested, which cannot be written */
    bool is_done;    /* a resume whose steps are all durable: only --save is left to do */
    bool stopped;    /* ended before its last step; what is kept has been said */
};

/* Opens and checks what `run` reads before there is a plan: model, data, starting weights. */
bool cli_training_check_inputs(const struct cli_request *request,
                               const struct cli_run_options *options, GError **error);
/* Opens model, data and weights, checks them, and finds the directories for the drives. */
bool cli_training_open(struct cli_training *training, GError **error);
/* *fits: whether this machine has the memory for all its ranks, the same on all of them; if not, a
 * line has the numbers. */
bool cli_training_fits(const struct cli_training *training, bool *fits, GError **error);
/* As requested, or the default for the plan's type. */
struct mw_loss_scaling cli_training_loss_scaling(const struct cli_training *run);
/* Reserves memory and drives, and makes or reads the starting state.  False also if a signal ended
 * one of the ranks before --overwrite: training->unstarted is that wish. */
bool cli_training_start(struct cli_training *training, GError **error);
/* After the last step: writes what --save asks for.  If its folder by then holds what must not be
 * replaced (checkpoint_place.h), writes it beside that folder, and a line says so. */
bool cli_training_save(struct cli_training *training, GError **error);
/* Whether its steps are made durable; for a training that has an answer. */
bool cli_training_is_durable(const struct cli_training *training);
/* Whether some of its parameters are not trained, in any stage; the same. */
bool cli_training_has_frozen(const struct cli_training *training);
/* Fingerprint of what a resume must not change. */
uint64_t cli_training_fingerprint(const struct cli_training *training);
/* Frees all that it owns, answer and options too.  `together`: all ranks call it. */
void cli_training_close(struct cli_training *training, bool together);

#endif
