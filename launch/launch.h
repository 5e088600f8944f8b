/*
 * launch.h - what carries a plan out with other software: a target's configuration and the line
 * that starts it.
 *
 * A target is a row of a table.  Each setting of a plan is carried by what is written, or a note
 * says that it is left out, or the target cannot do it at all and is refused: rules say which, and
 * what no rule knows is left out.  Nothing here reads or writes files but the scripts that go with
 * a target (launch/NAME.py in a data folder).
 */
#ifndef MW_LAUNCH_LAUNCH_H
#define MW_LAUNCH_LAUNCH_H

#include <glib.h>
#include <stdbool.h>

#include "planner/sizing/sizing.h"

/* A plan that fits.  All is borrowed. */
struct mw_launch_plan {
    const struct mw_sizing *sizing;
    char *const *asked; /* "NAME=TEXT": the question, with nothing left open */
    char *const *notes; /* what a ds_config.json of it cannot express; NULL: none */
    bool is_path;       /* the model is the path of a config.json */
};

#define MW_LAUNCH_START "launch.sh" /* of every target: starts it */
#define MW_LAUNCH_JOB "job.sbatch"  /* of a batch job: starts launch.sh */

struct mw_launch_file {
    char *name, *text;
    bool runs; /* is started */
};

struct mw_launch {
    GPtrArray *files; /* of struct mw_launch_file */
    GPtrArray *left;  /* strings: what of the plan is not in there, or is not as planned */
    GPtrArray *fill;  /* strings: what to fill in */
};

/* "deepspeed", or "slurm:deepspeed": a batch job that starts it.  False with *error, in one line:
 * there is no such target, or it cannot carry the plan out, with the targets that can.  Else
 * mw_launch_clear *out. */
bool mw_launch_make(const char *target, const struct mw_launch_plan *plan, struct mw_launch *out,
                    GError **error);
void mw_launch_clear(struct mw_launch *launch);

/* As a word of a shell, in quotes where it needs them; g_free it. */
char *mw_launch_quoted(const char *word);

/* The text of a name of the question; NULL: the plan has its default. */
const char *mw_launch_asked(const struct mw_launch_plan *plan, const char *name);

/* Whether there is such a target. */
bool mw_launch_check(const char *target, GError **error);
/* "deepspeed|accelerate|...": all names, for help.  g_free it. */
char *mw_launch_names(void);

#endif
