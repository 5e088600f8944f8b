/* A run of several ranks continues from the newest step that all of them have. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trained.h"
#include "trainer_worker.h"
#include "weights_fixture.h"

#define STEPS 5
#define KILLED_STEPS 30
#define GPT2 FIXTURES "gpt2-small/config.json"

static const struct trained_case nvme = {.name = "nvme",
                                         .model = GPT2,
                                         TRAINED_ON_DRIVES("cpu"),
                                         TRAINED_BATCHES(1, 12, 2),
                                         .tiles = 2,
                                         .commit = 1};
/* All ranks have all 16-bit parameters. */
static const struct trained_case in_memory = {.name = "in memory",
                                              .model = GPT2,
                                              .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                              .partition = MW_PARTITION_BANDWIDTH,
                                              TRAINED_BATCHES(1, 12, 1),
                                              .save_every = 1};

/* All ranks have all state: each saves its share. */
static const struct trained_case replicated = {.name = "replicated",
                                               .model = GPT2,
                                               .strategy = MW_STRATEGY_DDP,
                                               TRAINED_BATCHES(1, 12, 1),
                                               .save_every = 1};

/* The gradients that each is to use next are saved with each step. */
static const struct trained_case delayed = {.name = "delayed",
                                            .model = GPT2,
                                            .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                            .partition = MW_PARTITION_BANDWIDTH,
                                            .gradients = "cpu:0.03MB,nvme",
                                            .optimizer = "nvme",
                                            TRAINED_BATCHES(1, 12, 1),
                                            .commit = 1,
                                            .delayed = true,
                                            .undelayed_steps = 1};

static struct trained
go(const struct trained_case *what, const char *directory, bool commit, int64_t from, int64_t stop)
{
    struct trained_course course = {.steps = STEPS,
                                    .stop = stop,
                                    .threads = 1,
                                    .directory = directory,
                                    .commit = commit,
                                    .resume = from > 0,
                                    .buffered = true,
                                    .fingerprint = 5};
    struct trained trained;
    GError *error = NULL;

    trainer_worker_meet(what->ranks, trained_train(what, &course, &trained, &error), error);
    if (trained.first_step != from)
        trainer_worker_fail(what->ranks, "%s: went on from step %d, not %d", what->name,
                            (int)trained.first_step, (int)from);
    return trained;
}

static void
part(const struct trained_case *what, const char *directory, int64_t from, int64_t stop)
{
    struct trained trained = go(what, directory, true, from, stop);
    trained_clear(&trained);
}

/* The last rank loses its record of step 2, as if it had ended before it was written. */
static void
lose_record(const struct trained_case *what, const char *directory)
{
    int rank = mw_ranks_index(what->ranks);
    g_autofree char *path = g_strdup_printf("%s/memwall-rank%d.record", directory, rank);
    g_autofree char *content = NULL;
    gsize bytes = 0;
    GError *error = NULL;
    bool last = rank == mw_ranks_count(what->ranks) - 1;

    trainer_worker_meet(what->ranks, g_file_get_contents(path, &content, &bytes, &error), error);
    part(what, directory, 2, 3);
    bool good = !last || g_file_set_contents(path, content, (gssize)bytes, &error);
    trainer_worker_meet(what->ranks, good, error);
}

static void
assert_same(const struct trained_case *what, const struct trained *a, const struct trained *b)
{
    if (memcmp(a->losses + 2, b->losses + 2, (STEPS - 2) * sizeof(double)))
        trainer_worker_fail(what->ranks, "%s: other losses", what->name);
    if (memcmp(a->state, b->state, 3 * a->elements * sizeof(float)))
        trainer_worker_fail(what->ranks, "%s: other weights", what->name);
    if (a->params && memcmp(a->params, b->params, a->elements * sizeof(uint16_t)))
        trainer_worker_fail(what->ranks, "%s: other 16-bit parameters", what->name);
}

static void
go_on(const struct trained_case *common, struct mw_ranks *ranks, const char *directory)
{
    struct trained_case what = *common;

    what.ranks = ranks;
    struct trained undisturbed = go(&what, directory, false, 0, STEPS);
    part(&what, directory, 0, 2);
    lose_record(&what, directory);
    struct trained resumed = go(&what, directory, true, 2, STEPS);
    assert_same(&what, &undisturbed, &resumed);
    trained_clear(&undisturbed);
    trained_clear(&resumed);
}

int
trainer_worker_resume(struct mw_ranks *ranks, const char *directory)
{
    go_on(&nvme, ranks, directory);
    go_on(&in_memory, ranks, directory);
    go_on(&replicated, ranks, directory);
    go_on(&delayed, ranks, directory);
    mw_ranks_leave(ranks);
    return 0;
}

/* --- a run that is killed, again and again --------------------------------------------------- */

/* A line each, for who counts. */
static void
report_start(void *data, int64_t first_step)
{
    if (!mw_ranks_index(data))
        fprintf(stderr, "\nfrom %d\n", (int)first_step);
}

static void
report_step(void *data, const struct mw_trainer_step *step)
{
    if (!mw_ranks_index(data) && step->committed)
        fprintf(stderr, "\ncommitted %d\n", (int)step->step);
}

static void *
kill_later(void *data)
{
    g_usleep(GPOINTER_TO_UINT(data));
    kill(getpid(), SIGKILL);
    return NULL;
}

/* The environment says when, and so which rank. */
static void
await_kill(struct mw_ranks *ranks)
{
    const char *after_us = g_getenv("MEMWALL_TEST_KILL_US");
    guint us = after_us ? (guint)g_ascii_strtoull(after_us, NULL, 10) : 0;
    pthread_t killer;

    if (us && us % (guint)mw_ranks_count(ranks) == (guint)mw_ranks_index(ranks) &&
        pthread_create(&killer, NULL, kill_later, GUINT_TO_POINTER(us)))
        g_error("no thread");
}

static struct trained
run_killed(const struct trained_case *what, const char *directory, bool commit, bool resume,
           int64_t stop)
{
    struct trained_course course = {.steps = KILLED_STEPS,
                                    .stop = stop,
                                    .threads = 1,
                                    .directory = directory,
                                    .commit = commit,
                                    .resume = resume,
                                    .buffered = true,
                                    .fingerprint = 7,
                                    .on_start = commit ? report_start : NULL,
                                    .on_step = commit ? report_step : NULL,
                                    .data = what->ranks};
    struct trained trained;
    GError *error = NULL;

    trainer_worker_meet(what->ranks, trained_train(what, &course, &trained, &error), error);
    return trained;
}

static void
compare_with_undisturbed(const struct trained_case *what, const struct trained *killed)
{
    char *own = trained_directory();
    struct trained undisturbed = run_killed(what, own, false, false, 0);
    int64_t left = KILLED_STEPS - killed->first_step;

    if (memcmp(undisturbed.losses + killed->first_step, killed->losses + killed->first_step,
               left * sizeof(double)) ||
        memcmp(undisturbed.state, killed->state, 3 * killed->elements * sizeof(float)))
        trainer_worker_fail(what->ranks, "%s: killed, it has other weights", what->name);
    trained_clear(&undisturbed);
    trained_remove(own);
}

int
trainer_worker_kills(struct mw_ranks *ranks, const char *directory, bool drives, const char *part)
{
    struct trained_case what = drives ? nvme : in_memory;
    bool begins = !strcmp(part, "begin");

    what.ranks = ranks;
    what.save_every = drives ? 0 : 3;
    await_kill(ranks);
    struct trained trained = run_killed(&what, directory, true, !begins, begins);
    if (!strcmp(part, "finish"))
        compare_with_undisturbed(&what, &trained);
    trained_clear(&trained);
    mw_ranks_leave(ranks);
    return 0;
}
