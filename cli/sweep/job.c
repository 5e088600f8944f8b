#include "cli/sweep/job.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/csv.h"
#include "base/error.h"
#include "base/format.h"
#include "cli/cli.h"
#include "cli/progress_line.h"
#include "cli/sweep/closed_form.h"
#include "lib/question.h"

struct job {
    const struct cli_sweep_wish *wish;
    struct cli_sweep sweep;
    struct mw_ranks *ranks;
    int threads;

    int refused; /* the status with which the first rank cannot begin, or CLI_DONE */

    int64_t *points; /* of this shard */
    int64_t count, kept;

    /* of the first rank */
    struct cli_store *store;
    struct cli_checks *checks; /* NULL: rows are not estimated */
    int64_t begun_ns;
    struct cli_measure measure;
    struct cli_measure_first first_run;
};

/* --- rows ------------------------------------------------------------------------------------ */

void
cli_sweep_progress(int64_t done, int64_t points, int64_t begun_ns, int64_t kept)
{
    double elapsed_s = (double)(mw_clock_now_ns() - begun_ns) * 1e-9;
    double left_s = done > kept ? elapsed_s * (double)(points - done) / (double)(done - kept) : NAN;
    g_autofree char *line = g_strdup_printf("%" PRId64 " of %" PRId64 " points; %s left", done,
                                            points, mw_format_seconds(left_s));

    cli_progress_line_print(line);
}

static bool
take_row(void *data, int64_t index, char *row, GError **error)
{
    struct job *job = data;
    const GError *refused = g_atomic_pointer_get(&job->first_run.refused);
    bool good =
        refused ? mw_refuse(error, "%s", refused->message) : cli_store_add(job->store, row, error);

    g_free(row);
    cli_sweep_progress(job->kept + index + 1, job->count, job->begun_ns, job->kept);
    return good;
}

static bool
is_first(const struct job *job)
{
    return mw_ranks_index(job->ranks) == 0;
}

/* Of the question, the space, and the options of runs. */
static char *
digest_of(const struct job *job)
{
    g_autofree char *digest = mw_space_digest(job->sweep.space, job->sweep.base);

    if (!job->sweep.measure)
        return g_steal_pointer(&digest);
    g_autofree char *options = g_strjoinv("\n", job->sweep.measure->options);
    g_autofree char *all = g_strdup_printf("%s\n%s", digest, options);
    return g_compute_checksum_for_string(G_CHECKSUM_SHA256, all, -1);
}

/* The points of this shard, and in the first rank the store with the rows that are there. */
static bool
begin(struct job *job, GError **error)
{
    const struct cli_sweep_wish *wish = job->wish;
    struct cli_store_title title = {.points = mw_space_points(job->sweep.space),
                                    .shard = wish->shard,
                                    .shards = wish->shards,
                                    .command = wish->shard_text && wish->closed_form ? wish->command
                                                                                     : NULL};
    g_autofree char *digest = digest_of(job);

    job->points = g_new(int64_t, title.points / wish->shards + 1);
    for (int64_t point = wish->shard - 1; point < title.points; point += wish->shards)
        job->points[job->count++] = point;
    if (!is_first(job))
        return true;
    g_strlcpy(title.digest, digest, sizeof title.digest);
    job->store = cli_store_open(wish->output, &job->sweep, &title, error);
    if (!job->store)
        return false;
    job->kept = cli_store_kept(job->store, job->points, job->count);
    job->first_run.is_over = job->kept > 0;
    if (job->kept)
        cli_say("%s: continues behind %" PRId64 " of %" PRId64 " points", wish->output, job->kept,
                job->count);
    job->begun_ns = mw_clock_now_ns();
    return true;
}

/* Runs of several ranks at once would measure each other. */
static bool
check_alone(const struct job *job, GError **error)
{
    return !is_first(job) || !job->sweep.measure || mw_ranks_count(job->ranks) == 1 ||
           mw_refuse(error, "--measure: a run goes on alone: start the sweep without mpirun");
}

/* All ranks learn how many rows are there; or the status with which the first one cannot begin. */
static bool
share_begin(struct job *job, const GError *refused, GError **error)
{
    int64_t told = refused ? -1 - cli_exit_of(refused) : job->kept;

    if (!mw_ranks_broadcast(job->ranks, 0, &told, sizeof told, 0, error))
        return false;
    job->refused = told < 0 ? (int)(-1 - told) : CLI_DONE;
    job->kept = told < 0 ? 0 : told;
    return true;
}

static bool
compute(struct job *job, GError **error)
{
    bool good = cli_sweep_rows(&job->sweep, job->ranks, job->threads, job->points + job->kept,
                               job->count - job->kept, false, take_row, job, error);
    cli_progress_line_clear();
    return good;
}

/* --- estimated rows that the engine checks ---------------------------------------------------- */

static void
rewind_store(void *data)
{
    struct job *job = data;

    cli_store_rewind(job->store);
    if (job->checks)
        cli_checks_rewind(job->checks);
}

static char *
next_row(void *data)
{
    struct job *job = data;
    char *row = cli_store_next(job->store);

    return row && job->checks ? cli_checks_replace(job->checks, row) : row;
}

/* What is checked of a shard depends on the rows of all: merging does it. */
static bool
check(struct job *job, const struct mw_rows *rows, GError **error)
{
    return !job->sweep.closed_form || job->wish->shard_text ||
           cli_checks_compute(&job->sweep, job->ranks, job->threads, rows, job->points,
                              &job->checks, error);
}

/* --- the output ------------------------------------------------------------------------------ */

/* How many points fit, do not fit, and were refused, how many runs failed, and what the first of
 * both says. */
static void
tell(const struct mw_rows *rows)
{
    g_auto(GStrv) names = mw_csv_split(rows->names);
    g_autofree char *first = NULL;
    int64_t all = 0, refused = 0, fitting = 0, failed = 0;
    guint error = 0, feasible = 0;

    for (guint i = 0; names[i]; i++) {
        error = !strcmp(names[i], MW_ROWS_ERROR) ? i : error;
        feasible = !strcmp(names[i], "feasible") ? i : feasible;
    }
    rows->rewind(rows->data);
    for (char *row; (row = rows->next(rows->data)); g_free(row), all++) {
        g_auto(GStrv) cells = mw_csv_split(row);
        bool fits = !strcmp(cells[feasible], "true"), has_error = *cells[error] != '\0';
        fitting += fits;
        failed += fits && has_error;
        refused += !fits && has_error;
        if (has_error && !first)
            first = g_strdup(cells[error]);
    }
    g_autofree char *runs = failed ? g_strdup_printf(", %" PRId64 " runs failed", failed) : NULL;
    cli_say("%" PRId64 " points: %" PRId64 " fit, %" PRId64 " do not, %" PRId64
            " are refused%s%s%s",
            all, fitting, all - fitting - refused, refused, runs ? runs : "",
            first ? ", the first one with: " : "", first ? first : "");
}

static bool
finish(struct job *job, const struct mw_rows *rows, GError **error)
{
    tell(rows);
    if (job->checks)
        cli_checks_tell(job->checks);
    if (job->wish->shard_text)
        return cli_store_finish(g_steal_pointer(&job->store), error);
    bool good = cli_sweep_write(job->wish, rows, error);
    if (good)
        cli_store_remove(g_steal_pointer(&job->store));
    return good;
}

static void
clear(struct job *job)
{
    cli_store_close(job->store);
    cli_checks_free(job->checks);
    g_free(job->points);
    g_clear_error(&job->first_run.refused);
}

/* Nothing was begun: one rank says why, and all leave in order. */
static int
end_refused(struct job *job, const GError *refused)
{
    if (refused)
        cli_fail(refused);
    clear(job);
    mw_ranks_leave(job->ranks);
    return job->refused;
}

static int
end(struct job *job, bool good, const GError *error)
{
    int status = CLI_DONE;

    cli_progress_line_clear();
    if (job->first_run.refused) /* the options must change, with which the file would go on */
        cli_store_remove(g_steal_pointer(&job->store));
    if (good)
        status = is_first(job) ? cli_flush() : CLI_DONE;
    else
        status = mw_ranks_tells(job->ranks, error->message) ? cli_fail(error) : cli_exit_of(error);
    clear(job);
    if (status == CLI_DONE)
        mw_ranks_leave(job->ranks);
    else
        mw_ranks_abort(job->ranks, status);
    return status;
}

int
cli_sweep_run(const struct cli_sweep_wish *wish, const struct memwall_question *base,
              const struct mw_space *space)
{
    struct job job = {
        .wish = wish,
        .sweep = {base, space, wish->closed_form, wish->measure.options ? &job.measure : NULL},
        .measure = {wish->measure.options, wish->measure.limit_s, &job.first_run}};
    g_autofree char *names = cli_sweep_names(&job.sweep);
    g_auto(GStrv) asked = mw_lib_texts(base);
    const struct mw_rows rows = {names, rewind_store, next_row, &job, asked};
    g_autoptr(GError) refused = NULL, error = NULL;

    job.ranks = mw_ranks_join(CLI_SWEEP_LANES, CLI_SWEEP_SCRATCH_BYTES, &error);
    if (!job.ranks) {
        mw_ranks_give_way();
        return cli_fail(error);
    }
    job.threads = job.sweep.measure ? 1 : wish->threads ? wish->threads : mw_ranks_cores(job.ranks);
    if (check_alone(&job, &refused))
        begin(&job, &refused);
    bool good = share_begin(&job, refused, &error);
    if (good && job.refused)
        return end_refused(&job, refused);
    good = good && compute(&job, &error) && check(&job, &rows, &error) &&
           (!is_first(&job) || finish(&job, &rows, &error));
    return end(&job, good, error);
}
