/* calibrate.h - measuring this machine, and where its profile is. */
#ifndef MW_CLI_CALIBRATION_CALIBRATE_H
#define MW_CLI_CALIBRATION_CALIBRATE_H

#include <glib.h>
#include <stdbool.h>

#include "exec/device/backend.h"
#include "exec/ranks/ranks.h"

struct cli_calibrate_wish {
    const struct mw_backend *backend; /* what computes */
    enum mw_dtype dtype;              /* in which; MW_DTYPE_NONE: bf16 */
    struct mw_ranks *ranks; /* NULL: one alone.  Several measure together; the first writes */
    char *output;           /* NULL: cli_here_path() */
    char **directories;     /* NULL: where runs have their state (cli/runs/runs.h) */
    gboolean sustained, quick, json;
    gboolean silent;    /* no table */
    gboolean alone;     /* the caller holds the lock */
    gint64 limit_bytes; /* 0: its default */
    double budget_s;    /* 0: its default */
};

/* Measures, writes the profile, prints.  Progress goes to standard error.  Waits for another one
 * that measures this machine for this user. */
bool cli_calibrate(const struct cli_calibrate_wish *wish, GError **error);

/* The exit status of why it was not measured, where a signal stopped it the shells'; and says why
 * before. */
int cli_calibrate_exit_of(const GError *error);
int cli_calibrate_fail(const GError *error);

/* $XDG_CONFIG_HOME/memwall/hwprofiles/here.ini.  g_free it. */
char *cli_here_path(void);

bool cli_here_is_measured(void);
/* Where that goes.  False with *error, which names the variable to set, or `otherwise`, what else
 * can be given. */
bool cli_here_make_folder(const char *otherwise, GError **error);

/* One measures at a time, of a user's: waits, and says so.  To be given to cli_here_unlock. */
int cli_here_lock(void);
void cli_here_unlock(int lock);

/* So that there is a profile of this machine: measures it where there is none, and says so on
 * standard error. */
bool cli_here_ensure(GError **error);

#endif
