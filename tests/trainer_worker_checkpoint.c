/* Checkpoints that several ranks write and read, as one rank alone does. */
#include <stdio.h>
#include <string.h>

#include "nvme_fixture.h"
#include "trained.h"
#include "trainer_worker.h"
#include "weights_fixture.h"

#define STEPS 5
#define STOP 2

static const struct trained_case cases[] = {
    {.name = "replicated", .strategy = MW_STRATEGY_DDP},
    {.name = "shards", .strategy = MW_STRATEGY_ZERO3, .tiles = 2},
    {.name = "all have the parameters", .strategy = MW_STRATEGY_ZERO1},
    {.name = "nvme", TRAINED_ON_DRIVES("cpu")},
};

static struct trained_case
fill(const struct trained_case *common, struct mw_ranks *ranks)
{
    struct trained_case what = *common;

    what.model = FIXTURES "gpt2-small/config.json";
    what.sequences = 1;
    what.seq = 12;
    what.grad_accum = 1;
    what.interval = 1;
    what.partition = MW_PARTITION_BANDWIDTH;
    what.optimizer_chunk = 3000; /* less than a shard */
    what.ranks = ranks;
    return what;
}

/* From one checkpoint (NULL: the start) to another (NULL: the end). */
static struct trained
go(const struct trained_case *what, const char *directory, const char *from, const char *to)
{
    struct mw_checkpoint_options save = {
        .path = to, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained_course course = {.steps = STEPS,
                                    .stop = to ? STOP : STEPS,
                                    .threads = 1,
                                    .directory = directory,
                                    .from = from,
                                    .save = to ? &save : NULL};
    struct trained trained;
    GError *error = NULL;

    if (!trained_train(what, &course, &trained, &error)) {
        fprintf(stderr, "%s: %s\n", what->name, error->message);
        g_error("%s", error->message);
    }
    return trained;
}

static void
rewrite(const struct trained_case *what, const char *directory, const char *from, const char *to)
{
    struct trained trained = go(what, directory, from, to);
    trained_clear(&trained);
}

static void
assert_same_file(struct mw_ranks *ranks, const char *name, const char *a, const char *b,
                 const char *file)
{
    g_autofree char *one = g_build_filename(a, file, NULL);
    g_autofree char *other = g_build_filename(b, file, NULL);
    g_autofree char *x = NULL, *y = NULL;
    gsize x_bytes = 0, y_bytes = 0;

    if (!g_file_get_contents(one, &x, &x_bytes, NULL) ||
        !g_file_get_contents(other, &y, &y_bytes, NULL) || x_bytes != y_bytes ||
        memcmp(x, y, x_bytes))
        trainer_worker_fail(ranks, "%s: another %s", name, file);
}

static void
assert_same(struct mw_ranks *ranks, const char *name, const struct trained *a,
            const struct trained *b)
{
    if (memcmp(a->losses + STOP, b->losses + STOP, (STEPS - STOP) * sizeof(double)) ||
        memcmp(a->state, b->state, 3 * a->elements * sizeof(float)))
        trainer_worker_fail(ranks, "%s: other losses or weights", name);
    if (a->params && memcmp(a->params, b->params, a->elements * sizeof(uint16_t)))
        trainer_worker_fail(ranks, "%s: other 16-bit parameters", name);
}

/* All write; each reads alone and writes the same; all read what the first has written. */
static void
carry_over(const struct trained_case *common, struct mw_ranks *ranks, const char *directory)
{
    struct trained_case together = fill(common, ranks), alone = fill(common, NULL);
    g_autofree char *shared = g_build_filename(directory, "shared", NULL);
    g_autofree char *first = g_build_filename(directory, "own0", NULL);
    g_autofree char *own = g_strdup_printf("%s/own%d", directory, mw_ranks_index(ranks));
    g_autofree char *drives = trained_directory();
    GError *error = NULL;

    struct trained undisturbed = go(&together, directory, NULL, NULL);
    rewrite(&together, directory, NULL, shared);
    rewrite(&alone, drives, shared, own);
    assert_same_file(ranks, common->name, shared, own, "model.safetensors");
    assert_same_file(ranks, common->name, shared, own, "optimizer.safetensors");
    trainer_worker_meet(ranks, mw_ranks_barrier(ranks, 0, &error), error);
    struct trained trained = go(&together, directory, first, NULL);
    assert_same(ranks, common->name, &undisturbed, &trained);
    trainer_worker_meet(ranks, mw_ranks_barrier(ranks, 0, &error), error);
    mw_nvme_fixture_remove(own);
    if (!mw_ranks_index(ranks))
        mw_nvme_fixture_remove(shared);
    trained_remove(g_steal_pointer(&drives));
    trained_clear(&undisturbed);
    trained_clear(&trained);
}

int
trainer_worker_checkpoint(struct mw_ranks *ranks, const char *directory)
{
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        carry_over(&cases[i], ranks, directory);
    mw_ranks_leave(ranks);
    return 0;
}
