/*
 * store.h - the rows of a sweep while it goes on, in a file beside the output (OUTPUT.partial), or
 * in none that has a name.
 *
 * The file is a line that names the sweep, the line of names, and the rows in order, each
 * with a digest.  An interrupted sweep continues behind the last row that is as it was written, and
 * computes all behind it again.  One process at a time has the
 * file.
 */
#ifndef MW_CLI_SWEEP_STORE_H
#define MW_CLI_SWEEP_STORE_H

#include "cli/sweep/sweep.h"

struct cli_store;

/* What a file's first line says. */
struct cli_store_title {
    char digest[65]; /* mw_space_digest, of the question and the space */
    int64_t points;  /* of the space, of which a shard has every shards-th from shard - 1 on */
    int shard, shards;
    const char *command; /* what merging asks again: words with tabs between, escaped; the store's
                          * or the caller's; NULL: it asks nothing */
};

/* Opens OUTPUT.partial; NULL: a file without a name.  NULL with *error: it is of another sweep, in
 * use, or cannot be written. */
struct cli_store *cli_store_open(const char *output, const struct cli_sweep *sweep,
                                 const struct cli_store_title *title, GError **error);
/* The number of rows that are there: the first of `points`. */
int64_t cli_store_kept(struct cli_store *store, const int64_t *points, int64_t count);
bool cli_store_add(struct cli_store *store, const char *row, GError **error);

/* Reads again from the first row on. */
void cli_store_rewind(struct cli_store *store);
/* The next row, g_free it; NULL: there are no more. */
char *cli_store_next(struct cli_store *store);

/* Makes the file a shard's output, whole, with a last line that has its digest; then, as
 * cli_store_remove does, frees the store. */
bool cli_store_finish(struct cli_store *store, GError **error);
/* Frees the store and removes its file. */
void cli_store_remove(struct cli_store *store);
/* Frees the store; its file stays. */
void cli_store_close(struct cli_store *store);

/* --- finished files of shards ----------------------------------------------------------------- */

/* Opens such a file for reading; *names: its line of names, g_free it. */
struct cli_store *cli_store_read(const char *path, struct cli_store_title *title, char **names,
                                 GError **error);
/* Whether all lines are those that cli_store_finish left. */
bool cli_store_is_as_written(struct cli_store *store);

#endif
