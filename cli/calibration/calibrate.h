/* calibrate.h - measures this machine, and knows where its profile is. */
#ifndef MW_CLI_CALIBRATION_CALIBRATE_H
#define MW_CLI_CALIBRATION_CALIBRATE_H

#include <glib.h>
#include <stdbool.h>

#include "exec/device/backend.h"
#include "exec/ranks/ranks.h"

struct cli_calibrate_wish {
    const struct mw_backend *backend; /* backend to measure */
    enum mw_dtype dtype;              /* data type of products; MW_DTYPE_NONE: bf16 */
    struct mw_ranks *ranks; /* NULL: one rank alone.  Several ranks measure together; the first one
                             * writes */
    char *output;           /* NULL: cli_here_path() */
    char **directories;     /* NULL: where runs keep their state (cli/runs/runs.h) */
    gboolean sustained, quick, json;
    gboolean silent;    /* no table */
    gboolean alone;     /* the caller holds the lock */
    gint64 limit_bytes; /* 0: the default */
    double budget_s;    /* 0: the default */
};

/* Measures, writes the profile, prints.  Progress goes to standard error.  Waits for another
 * process of this user that is measuring this machine. */
bool cli_calibrate(const struct cli_calibrate_wish *wish, GError **error);

/* The exit status for a failed measurement: 128 plus the signal's number if a signal stopped it.
 * cli_calibrate_fail prints the error first. */
int cli_calibrate_exit_of(const GError *error);
int cli_calibrate_fail(const GError *error);

/* $XDG_CONFIG_HOME/memwall/hwprofiles/here.ini.  g_free it. */
char *cli_here_path(void);

bool cli_here_is_measured(void);
/* Makes the folder of that file.  False with *error, which names the variable to set, or
 * `otherwise`, an option that can be given instead. */
bool cli_here_make_folder(const char *otherwise, GError **error);

/* Lets one process of a user measure at a time: waits for others, and says so.  Pass the result to
 * cli_here_unlock. */
int cli_here_lock(void);
void cli_here_unlock(int lock);

/* Measures this machine if it has no profile yet, and says so on standard error. */
bool cli_here_ensure(GError **error);

#endif
