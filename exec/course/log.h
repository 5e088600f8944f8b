/*
 * log.h - what a run says while it trains: a row a step as aligned columns, the same as JSON lines
 * in a file, and on a terminal a line about how far it is, rewritten every second of a long step.
 *
 * One rank of several logs.
 */
#ifndef MW_EXEC_COURSE_LOG_H
#define MW_EXEC_COURSE_LOG_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct mw_log_options {
    FILE *table;       /* rows; NULL: none */
    const char *title; /* a line above them, said when the log is opened; NULL: none */
    FILE *progress;    /* used if it is a terminal; NULL: none */
    int64_t tick_ns;   /* from one rewriting to the next; 0: a second */
    const char *path;  /* of the JSON lines; NULL: none */

    /* A new run empties the file when it writes its first line; a run that writes none leaves the
     * file as it was.  A run that resumes after `first_step` steps continues the file: lines of
     * later steps, and one that a crash cut off, are removed; the line of the last step may be
     * missing if a kill came between its commit and its line.  A file that is not such a log is
     * refused; for a resume, so is the log of another run. */
    bool resume;
    const char *run;           /* its name, which each line has; NULL: it has none */
    int64_t first_step, steps; /* of the run: [first_step, steps) */

    /* Of a step, all ranks together; what is 0 is not known and shown as "-". */
    int64_t tokens;
    double flops;      /* of the model: nothing computed twice */
    double peak_flops; /* a second, of all devices: MFU is against it */
    int64_t predicted_ns;
    bool loss_scale; /* has a column; and so have losses of routers: */
    bool router_aux_loss, router_z_loss;
    bool expert_imbalance; /* so has that */

    /* A pipe or a terminal that takes nothing is waited for until this is true, and is given up
     * then.  NULL: for as long as it takes. */
    bool (*gives_up)(void *data);
    void *data;
};

/* A step that is done. */
struct mw_log_row {
    int64_t step; /* counted from 0; shown from 1 */
    double loss;  /* mean over the step's tokens */
    double gradient_norm;
    double lr;
    int64_t time_ns;
    double loss_scale;
    bool skipped;      /* loss or gradient was not finite: no update */
    int64_t stolen_ns; /* that the hypervisor took from the cores; 0: not enough to count */
    /* Of a mixture, beside the loss and without their coefficients (docs/MODEL.md 2.18). */
    double router_aux_loss, router_z_loss;
    /* Where experts are spread over ranks: the tokens of the fullest rank over the mean of those
     * that share them.  The mean over layers and micro-batches, and the most. */
    double expert_imbalance, expert_imbalance_most;
};

struct mw_log;

/* Checks that `run` (may be NULL), which continues the log, can write one there; *error as in
 * mw_log_open.  Creates nothing. */
bool mw_log_check(const char *path, const char *run, GError **error);
/* Names of the runs whose lines the log has, each once; an empty list if it is no file.
 * g_strfreev. */
char **mw_log_runs(const char *path);
/* NULL with *error: the file cannot be written, or is something else. */
struct mw_log *mw_log_open(const struct mw_log_options *options, GError **error);
/* Clears the progress line.  NULL is allowed. */
void mw_log_close(struct mw_log *log);

/* A line for the user, on the stream of progress: it does not run into the line that is rewritten.
 * Where that takes nothing it is left out.  Any thread. */
void mw_log_say(struct mw_log *log, const char *line);

/* The line in the file is whole or not there.  False with *error if it cannot be written, or was
 * given up: then later ones are not written either, and all that is there has no gap. */
bool mw_log_step(struct mw_log *log, const struct mw_log_row *row, GError **error);

#endif
