/*
 * sweep.h - many questions: what is swept, a point's row, and the rows of all points in order.
 *
 * A row is a line of CSV: the point's values (over.NAME), why it was refused, and the columns of an
 * answer.  Rows depend on nothing but the point, so the same sweep has the same bytes however many
 * threads, ranks and shards compute it, and wherever it was interrupted.
 */
#ifndef MW_CLI_SWEEP_SWEEP_H
#define MW_CLI_SWEEP_SWEEP_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/sweep/measure.h"
#include "exec/ranks/ranks.h"
#include "lib/memwall.h"
#include "lib/space.h"

struct cli_sweep {
    const struct memwall_question *base;
    const struct mw_space *space;
    bool closed_form;                  /* rows are estimated */
    const struct cli_measure *measure; /* plans that fit are run too; NULL: none is */
};

/* The first line, and the row of a point, without line ends; g_free them.  `question` is a copy of
 * the base question.  `simulates`: the row says too what the engine takes for an estimated plan. */
char *cli_sweep_names(const struct cli_sweep *sweep);
char *cli_sweep_row(const struct cli_sweep *sweep, int64_t point, bool simulates,
                    struct memwall_question *question);
/* Whether a row has the point's values, and a cell for every column. */
bool cli_sweep_is_row(const struct cli_sweep *sweep, int64_t point, const char *row);

/* --- rows of points, by threads --------------------------------------------------------------- */

struct cli_pool;

/* Begins to compute the rows of `points`, which stay the caller's. */
struct cli_pool *cli_pool_new(const struct cli_sweep *sweep, const int64_t *points, int64_t count,
                              bool simulates, int threads);
/* The row of the next point, which the caller frees; at most `count` calls. */
char *cli_pool_take(struct cli_pool *pool);
void cli_pool_free(struct cli_pool *pool);

/* Of mw_ranks_join. */
#define CLI_SWEEP_LANES 1
#define CLI_SWEEP_SCRATCH_BYTES (1 << 20)

/* --- and by ranks ----------------------------------------------------------------------------- */

/* Called in the first rank with every row, in the order of the points; takes the row. */
typedef bool (*cli_sweep_taker)(void *data, int64_t index, char *row, GError **error);

/* All ranks call it with the same points.  False with *error: `take` failed, or a rank was lost. */
bool cli_sweep_rows(const struct cli_sweep *sweep, struct mw_ranks *ranks, int threads,
                    const int64_t *points, int64_t count, bool simulates, cli_sweep_taker take,
                    void *data, GError **error);

#endif
