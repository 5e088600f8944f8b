/*
 * options.h - the options of `memwall run` beside those of a plan: data, course of the training,
 * drives, threads, files.
 */
#ifndef MW_CLI_RUN_OPTIONS_H
#define MW_CLI_RUN_OPTIONS_H

#include <glib.h>
#include <stdbool.h>

#include "cli/lane_limits.h"
#include "cli/words.h"
#include "exec/course/schedule.h"
#include "exec/trainer/trainer.h"

/* Options that say how the training proceeds, not what its state is: a resume may change them. */
enum cli_course {
    CLI_COURSE_LR, CLI_COURSE_LR_MIN, CLI_COURSE_SHAPE, CLI_COURSE_WARMUP, CLI_COURSE_BETA1,
    CLI_COURSE_BETA2, CLI_COURSE_EPSILON, CLI_COURSE_DECAY, CLI_COURSE_CLIP, CLI_COURSE_LOSS_SCALE,
    CLI_COURSE_SEED, CLI_COURSE_SHUFFLE, CLI_COURSES
};

/* Their range, and so that of a record: least, most. */
#define CLI_RANGE_LR 1e-12, 1e3
#define CLI_RANGE_LR_MIN 0, 1e3
#define CLI_RANGE_WARMUP 0, 1e9
#define CLI_RANGE_BETA1 0, 0.999999
#define CLI_RANGE_BETA2 0, 0.99999999
#define CLI_RANGE_EPSILON 1e-20, 1
#define CLI_RANGE_DECAY 0, 10
#define CLI_RANGE_CLIP 0, 1e9
#define CLI_RANGE_SEED 0, 1e15

/* Of a run: its ranks, and how many slices and stages its model has. */
struct cli_run_division {
    int64_t ranks, slices, stages; /* ranks 0: not known */
};

struct cli_run_options {
    char *data, *weights, *adapter, *log;
    char *from, *save; /* folders of checkpoints */
    char **nvme; /* directories; NULL: the default */
    int64_t steps;
    uint64_t seed;
    bool shuffle;
    bool resume;
    char *resume_run;   /* its name, or one of its directories; NULL: the run in the directories of
                       * nvme, or the newest */
    char *newest;       /* the run that --resume without a name has found; NULL */
    char *note, *taken; /* lines to print about the resume; NULL */
    bool previous;      /* with resume: continue from the step before the newest */
    bool overwrite;     /* delete what another run has left in the directories */
    const struct mw_backend *backend; /* what computes; NULL: auto (cli/run/backend.h) */
    bool compare;        /* predicted against measured, as a table */
    char *save_timeline; /* file */
    struct mw_lr_schedule schedule;
    struct mw_optimizer optimizer;
    struct mw_loss_scaling loss_scaling; /* start 0: as mw_loss_scaling_default says */
    struct cli_limits limits;
    int device_threads, host_threads; /* 0: all cores */
    int64_t max_skipped;              /* steps in a row; 0: the default for the loss scale */
    double patience_s;                /* 0: no limit */
    uint32_t given;                   /* bits 1 << enum cli_course: given, not a default */
    struct cli_run_division was;      /* of the run to resume, as its description says */
};

/* The groups for the option parser.  What it parses is kept here, for one command line. */
const struct cli_words_group *cli_run_groups(void);

/* Which run to resume; borrowed. */
struct cli_run_resuming {
    bool resume;
    const char *run; /* NULL: no name was given */
    char **nvme;     /* NULL: no directories were given */
};
struct cli_run_resuming cli_run_options_resuming(void);
/* Refuses options that exclude each other, before anything is taken from a run. */
bool cli_run_options_check_start(GError **error);
/* --data as given, or NULL.  g_free it. */
char *cli_run_options_data(void);
char *cli_run_options_weights(void); /* the same of --weights */
/* Sets an option that was not given; returns whether it did.  `value` may be NULL. */
enum cli_run_option { CLI_RUN_DATA, CLI_RUN_STEPS, CLI_RUN_LOG, CLI_RUN_WEIGHTS };
bool cli_run_options_take(enum cli_run_option option, const char *value);
/* --adapter as given, or NULL.  g_free it. */
char *cli_run_options_adapter(void);
/* --plan as given, or NULL. */
const char *cli_run_options_plan(void);
/* Whether --save was given. */
bool cli_run_options_saves(void);
/* For --resume without a name: the run that it means, and a note to print about it (may be
 * NULL). */
void cli_run_options_found(const char *run, const char *note);
/* Keeps how the run to resume was divided. */
void cli_run_options_divided(const struct cli_run_division *was);
/* Keeps a line to be printed once it is known which rank prints; takes ownership. */
void cli_run_options_say(char *line);

/* Options not given get their defaults.  Fails with one line naming option, value and range. */
bool cli_run_options_read(struct cli_run_options *options, GError **error);
void cli_run_options_clear(struct cli_run_options *options);

#endif
