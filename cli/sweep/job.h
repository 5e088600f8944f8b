/*
 * job.h - carries a sweep out: rows into a store, from there to the output and to pictures.
 */
#ifndef MW_CLI_SWEEP_JOB_H
#define MW_CLI_SWEEP_JOB_H

#include "cli/sweep/store.h"
#include "cli/sweep/sweep.h"
#include "report/rows.h"

struct cli_sweep_wish {
    char **over, *points_file; /* axes */
    char *output;              /* NULL: standard output */
    gboolean json, closed_form, merge;
    char *threads_text, *shard_text;
    char *measure_text, *measure_limit_text; /* of the runs beside predictions */
    struct cli_measure measure;              /* its options NULL: nothing is run */
    int threads;                             /* 0: as many as there are cores */
    int shard, shards;
    char **plots;  /* "KIND:FILE"; may be NULL */
    char *columns; /* that are written; NULL: all */
    char *command; /* its words, as struct cli_store_title has them */
};

/* Of an open request.  Every rank calls it; the first one writes.  Returns the exit status. */
int cli_sweep_run(const struct cli_sweep_wish *wish, const struct memwall_question *base,
                  const struct mw_space *space);

/* Puts the files of all shards together.  Returns the exit status. */
int cli_sweep_merge(const struct cli_sweep_wish *wish, char **paths);
/* The words of the sweep whose rows the engine must check once they are together; NULL: there are
 * none, or no file is readable.  g_strfreev it. */
char **cli_sweep_merge_asks(char **paths);
/* The same as cli_sweep_merge for these: of that sweep's question. */
int cli_sweep_merge_checked(const struct cli_sweep_wish *wish, const struct memwall_question *base,
                            const struct mw_space *space, char **paths);

/* Writes the rows as the wish says, and draws its pictures. */
bool cli_sweep_write(const struct cli_sweep_wish *wish, const struct mw_rows *rows, GError **error);

/* A line on a terminal: how far it is, and how long the rest takes. */
void cli_sweep_progress(int64_t done, int64_t points, int64_t begun_ns, int64_t kept);

#endif
