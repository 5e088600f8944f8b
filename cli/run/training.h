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

/* The caller fills in the first rows; the rest is filled in by open and start. */
struct cli_training {
    const struct cli_request *request; /* borrowed */
    struct mw_ranks *ranks;            /* borrowed */
    struct cli_run_options options;
    struct mw_answer *answer;  /* with a plan */
    char *stem;                /* of this rank's files on the drives; may be NULL */

    struct cli_run_drives *drives; /* cli/run/drives.h */
    struct cli_run_course *then;   /* of the run that is gone on with; may be NULL */
    struct mw_decoder decoder;
    struct mw_tokens *tokens;
    struct mw_safetensors *weights; /* NULL: by seed */
    struct mw_checkpoint *checkpoint; /* or gone on from */
    int64_t sequences;              /* of a micro-batch */
    struct mw_batch_place place;
    int64_t first_step, first_sequence; /* of this run: where the data is taken from */
    int64_t used_sequences;             /* of the data, up to the step that runs */
    struct cli_run_data *data;          /* cli/run/data.h; NULL before it is started */
    int64_t commits;                    /* begun */
    struct mw_plan *undelayed; /* of the steps before --dpu-start; may be NULL */
    struct mw_trainer *trainer;
    int *held; /* [held_count] descriptors of pipes whose readers wait for the report */
    int held_count;
    int unstarted; /* the wish (cli/run/stop.h) by which it ends before its first step; 0: none */
    bool is_stage; /* of a pipeline: its plan is another than that of the other ranks */
    bool diverged; /* once the trainer is closed: for that the run has ended */
    char *saved;   /* the folder that --save was done to; NULL: it was not */
    bool displaced; /* that one is another than what was asked for, which cannot be written */
    bool is_done;  /* a resume that finds all its steps durable: only --save is left to do */
    bool stopped;  /* before its last step; what is kept has been said */
};

/* What `run` reads, opened and checked before there is a plan: model, data, starting weights. */
bool cli_training_check_inputs(const struct cli_request *request,
                               const struct cli_run_options *options, GError **error);
/* Model, data and weights, which are checked; directories for the drives. */
bool cli_training_open(struct cli_training *training, GError **error);
/* Whether this machine has the memory for all its ranks, the same for all of them; a line has the
 * numbers where it lacks some. */
bool cli_training_fits(const struct cli_training *training, bool *fits, GError **error);
/* As asked for, or what the plan's type wants. */
struct mw_loss_scaling cli_training_loss_scaling(const struct cli_training *run);
/* Reserves memory and drives, and makes or reads the starting state.  False also where one of the
 * ranks was told to end before --overwrite: training->unstarted is that wish then. */
bool cli_training_start(struct cli_training *training, GError **error);
/* After the last step: what --save asks for; beside its folder where that holds by then what must
 * not be replaced (checkpoint_place.h), which a line says. */
bool cli_training_save(struct cli_training *training, GError **error);
/* Whether its steps are made durable; of a training that has an answer. */
bool cli_training_is_durable(const struct cli_training *training);
/* Of what a resume has to have alike. */
uint64_t cli_training_fingerprint(const struct cli_training *training);
/* Frees all that it owns, answer and options too.  `together`: all ranks are about to. */
void cli_training_close(struct cli_training *training, bool together);

#endif
