/* A run of several ranks goes on from the newest step that all of them have. */
#include <string.h>

#include "trained.h"
#include "trainer_worker.h"
#include "weights_fixture.h"

#define STEPS 5
#define GPT2 FIXTURES "gpt2-small/config.json"

static const struct trained_case nvme = {.name = "nvme",
                                         .model = GPT2,
                                         .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
                                         .params = "nvme",
                                         .gradients = "nvme",
                                         .optimizer = "nvme",
                                         .activations = "cpu",
                                         .sequences = 1,
                                         .seq = 12,
                                         .grad_accum = 2,
                                         .interval = 1,
                                         .tiles = 2,
                                         .commit = 1};
/* All ranks have all 16-bit parameters. */
static const struct trained_case in_memory = {.name = "in memory",
                                              .model = GPT2,
                                              .strategy = MW_STRATEGY_ZERO_OFFLOAD,
                                              .partition = MW_PARTITION_BANDWIDTH,
                                              .sequences = 1,
                                              .seq = 12,
                                              .grad_accum = 1,
                                              .interval = 1,
                                              .save_every = 1};

/* All ranks have all state: each saves its share. */
static const struct trained_case replicated = {.name = "replicated",
                                               .model = GPT2,
                                               .strategy = MW_STRATEGY_DDP,
                                               .sequences = 1,
                                               .seq = 12,
                                               .grad_accum = 1,
                                               .interval = 1,
                                               .save_every = 1};

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
    mw_ranks_leave(ranks);
    return 0;
}
