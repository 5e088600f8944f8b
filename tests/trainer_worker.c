#include "trainer_worker.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/device/cpu/kernels.h"
#include "trained.h"
#include "weights_fixture.h"

#define STEPS 6
#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"

/* What ranks that train the same batch may be off from one that does alone.  They add up the same
 * gradients of micro-batches, but round sums over ranks to 16 bits, before they add up those of
 * several micro-batches, which may cancel.  State: the mean of differences, as a part of what
 * training changed; some never fade, for the gradient of GPT-2's key biases is zero but for
 * rounding, and the optimizer makes steps of it. */
#define LOSS_TOLERANCE 0.003
#define NORM_TOLERANCE 0.05
#define STATE_TOLERANCE 0.05

const char *trainer_worker_directory;
static const char *part;

void
trainer_worker_fail(struct mw_ranks *ranks, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    fprintf(stderr, "worker: rank %d: %s\n", mw_ranks_index(ranks), text);
    mw_ranks_abort(ranks, 1);
    exit(1);
}

/* --- all ranks' state ------------------------------------------------------------------------ */

void
trainer_worker_meet(struct mw_ranks *ranks, bool good, GError *error)
{
    if (!good)
        trainer_worker_fail(ranks, "%s", error->message);
}

/* Every rank is given the first one's and has the same. */
static void
assert_equal(struct mw_ranks *ranks, const char *name, const char *what, const void *data,
             int64_t bytes)
{
    g_autofree char *first = g_memdup2(data, bytes);
    GError *error = NULL;

    trainer_worker_meet(ranks, mw_ranks_broadcast(ranks, 0, first, bytes, 0, &error), error);
    if (memcmp(first, data, bytes))
        trainer_worker_fail(ranks, "%s: %s are not rank 0's", name, what);
}

static void
assert_params(struct mw_ranks *ranks, const char *name, const struct trained *trained)
{
    if (!trained->params)
        return;
    assert_equal(ranks, name, "16-bit parameters", trained->params,
                 trained->elements * sizeof(uint16_t));
    g_autofree uint16_t *rounded = g_new(uint16_t, trained->elements);
    mw_cpu_kernels(MW_DTYPE_BF16)->narrow(rounded, trained->state, trained->elements);
    if (memcmp(rounded, trained->params, trained->elements * sizeof(uint16_t)))
        trainer_worker_fail(ranks, "%s: 16-bit parameters are not those of the state", name);
}

/* Ranks have shards, and zero beside them, those of all groups the same; or all the same. */
static void
join_state(const struct trained_case *what, struct trained *trained)
{
    int groups = what->shard_group ? mw_ranks_count(what->ranks) / (int)what->shard_group : 1;
    GError *error = NULL;

    if (what->strategy == MW_STRATEGY_DDP)
        assert_equal(what->ranks, what->name, "states", trained->state,
                     3 * trained->elements * sizeof(float));
    else
        trainer_worker_meet(what->ranks,
                            mw_ranks_all_reduce(what->ranks, 0, trained->state, MW_DTYPE_FP32,
                                                3 * trained->elements, 1.0f / (float)groups,
                                                &error),
                            error);
}

static struct trained
train_together(const struct trained_case *what)
{
    struct trained_course course = {
        .steps = STEPS, .threads = 1, .directory = trainer_worker_directory};
    struct trained trained;
    GError *error = NULL;

    trainer_worker_meet(what->ranks, trained_train(what, &course, &trained, &error), error);
    join_state(what, &trained);
    assert_equal(what->ranks, what->name, "losses", trained.losses, STEPS * sizeof(double));
    assert_equal(what->ranks, what->name, "norms", trained.norms, STEPS * sizeof(double));
    assert_params(what->ranks, what->name, &trained);
    return trained;
}

/* --- what must come out right ---------------------------------------------------------------- */

/* Placements of one partitioning follow each other: the same bits as the first of them. */
static const struct placement {
    struct trained_case what;
    bool first;
} placements[] = {
    {{.name = "ddp", .strategy = MW_STRATEGY_DDP}, true},
    {{.name = "zero1", .strategy = MW_STRATEGY_ZERO1}, true},
    {{.name = "zero2", .strategy = MW_STRATEGY_ZERO2}, true},
    {{.name = "zero3", .strategy = MW_STRATEGY_ZERO3}, false},
    {{.name = "zero-offload", .strategy = MW_STRATEGY_ZERO_OFFLOAD}, false},
    {{.name = "cpu",
      .strategy = MW_STRATEGY_ZERO_INFINITY_CPU,
      .params = "cpu",
      .gradients = "cpu",
      .optimizer = "cpu",
      .activations = "cpu"},
     false},
    {{.name = "nvme", TRAINED_ON_DRIVES("nvme")}, false},
    {{.name = "split",
      .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
      .params = "cpu:0.04MB,nvme",
      .gradients = "cpu:0.06MB,nvme",
      .optimizer = "gpu:0.1MB,cpu:0.2MB,nvme",
      .activations = "gpu:0.002MB,cpu"},
     false},
    {{.name = "gradients on the device",
      .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
      .params = "cpu",
      .gradients = "gpu",
      .optimizer = "nvme",
      .activations = "gpu"},
     false},
    {{.name = "zero3, owners", .strategy = MW_STRATEGY_ZERO3, .partition = MW_PARTITION_OWNER},
     false},
    {{.name = "zero-offload, owners",
      .strategy = MW_STRATEGY_ZERO_OFFLOAD,
      .partition = MW_PARTITION_OWNER},
     false},
    {{.name = "nvme, owners", TRAINED_ON_DRIVES("nvme"), .partition = MW_PARTITION_OWNER}, false},
    {{.name = "split, owners",
      .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
      .partition = MW_PARTITION_OWNER,
      .params = "gpu:0.02MB,cpu:0.02MB,nvme",
      .gradients = "gpu:0.02MB,cpu:0.02MB,nvme",
      .optimizer = "cpu:0.2MB,nvme",
      .activations = "cpu"},
     false},
};

static const struct placement delayed_placements[] = {
    {{.name = "delayed", .strategy = MW_STRATEGY_ZERO_OFFLOAD}, true},
    {{.name = "delayed, on drives",
      .strategy = MW_STRATEGY_ZERO_OFFLOAD,
      .optimizer = "nvme",
      .gradients = "cpu"},
     false},
    {{.name = "delayed, gradients on the device",
      .strategy = MW_STRATEGY_ZERO_OFFLOAD,
      .optimizer = "cpu",
      .gradients = "gpu"},
     false},
    {{.name = "delayed, owners",
      .strategy = MW_STRATEGY_ZERO_OFFLOAD,
      .partition = MW_PARTITION_OWNER},
     false},
};

/* Of one micro-batch: sums over groups are of the same type wherever gradients live. */
static const struct placement grouped_placements[] = {
    {{.name = "zero1", .strategy = MW_STRATEGY_ZERO1}, true},
    {{.name = "zero2", .strategy = MW_STRATEGY_ZERO2}, true},
    {{.name = "zero3", .strategy = MW_STRATEGY_ZERO3}, false},
    {{.name = "zero-offload", .strategy = MW_STRATEGY_ZERO_OFFLOAD}, false},
    {{.name = "nvme", TRAINED_ON_DRIVES("nvme")}, false},
    {{.name = "split",
      .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
      .params = "cpu:0.04MB,nvme",
      .gradients = "cpu:0.06MB,nvme",
      .optimizer = "gpu:0.1MB,cpu:0.2MB,nvme",
      .activations = "gpu:0.002MB,cpu"},
     false},
};

static const struct placements {
    const struct placement *rows;
    size_t count;
} all_placements = {placements, G_N_ELEMENTS(placements)},
  all_delayed = {delayed_placements, G_N_ELEMENTS(delayed_placements)},
  all_grouped = {grouped_placements, G_N_ELEMENTS(grouped_placements)};

static void
assert_same(struct mw_ranks *ranks, const char *name, const struct trained *a,
            const struct trained *b)
{
    if (memcmp(a->losses, b->losses, STEPS * sizeof(double)) ||
        memcmp(a->norms, b->norms, STEPS * sizeof(double)))
        trainer_worker_fail(ranks, "%s: other losses", name);
    if (memcmp(a->state, b->state, 3 * a->elements * sizeof(float)))
        trainer_worker_fail(ranks, "%s: other weights", name);
}

static double
state_off_by(const struct trained *a, const struct trained *b, const float *start)
{
    double off = 0, changed = 0;

    for (int64_t i = 0; i < a->elements; i++) {
        off += fabs(a->state[i] - b->state[i]);
        changed += fabs(a->state[i] - start[i]);
    }
    return off / changed;
}

static double
most_off_by(const double *a, const double *b)
{
    double most = 0;

    for (int s = 0; s < STEPS; s++)
        most = fmax(most, fabs(a[s] / b[s] - 1));
    return most;
}

static void
assert_near(struct mw_ranks *ranks, const char *name, const struct trained *alone,
            const struct trained *together, const float *start)
{
    double loss = most_off_by(together->losses, alone->losses);
    double norm = most_off_by(together->norms, alone->norms);
    double state = state_off_by(together, alone, start);

    if (!mw_ranks_index(ranks))
        fprintf(stderr, "%s: off by %.2g in the loss, %.2g in the norm, %.2g in the weights\n",
                name, loss, norm, state);
    if (!(loss < LOSS_TOLERANCE && norm < NORM_TOLERANCE && state < STATE_TOLERANCE))
        trainer_worker_fail(ranks, "%s: off by %g in the loss, %g in the norm, %g in the weights",
                            name, loss, norm, state);
}

/* The first step's gradients overflow, and not the last one's. */
static void
assert_skips(struct mw_ranks *ranks, const char *name, const struct trained *trained)
{
    if (isfinite(trained->norms[0]) || !isfinite(trained->norms[STEPS - 1]))
        trainer_worker_fail(ranks, "%s: norms from %g to %g", name, trained->norms[0],
                            trained->norms[STEPS - 1]);
}

static struct trained
train_alone(const struct trained_case *common, int ranks, int64_t steps)
{
    struct trained_case what = *common;

    what.name = "alone";
    what.strategy = what.delayed ? MW_STRATEGY_ZERO_OFFLOAD : MW_STRATEGY_ZERO3;
    what.ranks = NULL;
    what.shard_group = 0;
    what.grad_accum *= ranks;
    what.delayed = what.delayed && steps;
    return trained_run(&what, steps, 1, trainer_worker_directory);
}

static struct trained_case
place(const struct trained_case *common, const struct trained_case *placed, int prefetch)
{
    struct trained_case what = *placed;

    what.model = common->model;
    what.sequences = common->sequences;
    what.seq = common->seq;
    what.grad_accum = common->grad_accum;
    what.tiles = common->tiles;
    what.interval = common->interval;
    what.ranks = common->ranks;
    what.shard_group = common->shard_group;
    what.delayed = common->delayed;
    what.undelayed_steps = common->undelayed_steps;
    what.loss_scaling = common->loss_scaling;
    what.partition = placed->partition ? placed->partition : MW_PARTITION_BANDWIDTH;
    what.optimizer_chunk = 3000; /* less than a shard */
    what.prefetch = prefetch;
    return what;
}

static int
compare(struct mw_ranks *ranks, struct trained_case common)
{
    const struct placements *all = common.delayed       ? &all_delayed
                                   : common.shard_group ? &all_grouped
                                                        : &all_placements;
    const struct placement *rows = all->rows;
    int count = mw_ranks_count(ranks);
    struct trained alone = train_alone(&common, count, STEPS);
    struct trained start = train_alone(&common, count, 0);
    struct trained first = {0};

    common.ranks = ranks;
    for (size_t i = 0; i < all->count; i++) {
        struct trained_case what = place(&common, &rows[i].what, i % 3);
        struct trained trained = train_together(&what);
        if (!rows[i].first)
            assert_same(ranks, what.name, &first, &trained);
        if (what.loss_scaling.start)
            assert_skips(ranks, what.name, &trained);
        else
            assert_near(ranks, what.name, &alone, &trained, start.state);
        trained_clear(rows[i].first ? &first : &trained);
        if (rows[i].first)
            first = trained;
    }
    trained_clear(&alone);
    trained_clear(&start);
    trained_clear(&first);
    mw_ranks_leave(ranks);
    return 0;
}

static int
gpt2(struct mw_ranks *ranks)
{
    return compare(ranks,
                   (struct trained_case){
                       .model = GPT2, .sequences = 2, .seq = 12, .grad_accum = 2, .interval = 1});
}

static int
gpt2_tiled(struct mw_ranks *ranks)
{
    return compare(
        ranks,
        (struct trained_case){
            .model = GPT2, .sequences = 2, .seq = 12, .grad_accum = 1, .interval = 2, .tiles = 2});
}

static int
llama(struct mw_ranks *ranks)
{
    return compare(ranks,
                   (struct trained_case){
                       .model = LLAMA, .sequences = 1, .seq = 17, .grad_accum = 1, .interval = 1});
}

static int
llama_tiled(struct mw_ranks *ranks)
{
    return compare(
        ranks,
        (struct trained_case){
            .model = LLAMA, .sequences = 1, .seq = 17, .grad_accum = 3, .interval = 0, .tiles = 2});
}

static int
delayed(struct mw_ranks *ranks)
{
    return compare(ranks, (struct trained_case){.model = LLAMA,
                                                .sequences = 1,
                                                .seq = 17,
                                                .grad_accum = 1,
                                                .interval = 1,
                                                .delayed = true,
                                                .undelayed_steps = 2});
}

static int
groups(struct mw_ranks *ranks)
{
    return compare(ranks, (struct trained_case){.model = GPT2,
                                                .sequences = 1,
                                                .seq = 12,
                                                .grad_accum = 1,
                                                .interval = 1,
                                                .tiles = 2,
                                                .shard_group = 2});
}

static int
overflow(struct mw_ranks *ranks)
{
    return compare(ranks, (struct trained_case){.model = GPT2,
                                                .sequences = 1,
                                                .seq = 12,
                                                .grad_accum = 1,
                                                .interval = 1,
                                                .loss_scaling = {0x1p132, 1, 0x1p132, 0}});
}

static int
resume(struct mw_ranks *ranks)
{
    return trainer_worker_resume(ranks, trainer_worker_directory);
}

static int
killed_on_drives(struct mw_ranks *ranks)
{
    return trainer_worker_kills(ranks, trainer_worker_directory, true, part);
}

static int
killed_in_memory(struct mw_ranks *ranks)
{
    return trainer_worker_kills(ranks, trainer_worker_directory, false, part);
}

static int
checkpoint(struct mw_ranks *ranks)
{
    return trainer_worker_checkpoint(ranks, trainer_worker_directory);
}

/* --- by name --------------------------------------------------------------------------------- */

static const struct trainer_worker_case cases[] = {
    {"gpt2", gpt2},
    {"gpt2-tiled", gpt2_tiled},
    {"llama", llama},
    {"llama-tiled", llama_tiled},
    {"delayed", delayed},
    {"overflow", overflow},
    {"groups", groups},
    {"turns", trainer_worker_turns},
    {"two-versions", trainer_worker_two_versions},
    {"stashes", trainer_worker_stashes},
    {"asynchronous", trainer_worker_asynchronous},
    {"resume", resume},
    {"checkpoint", checkpoint},
    {"kills-nvme", killed_on_drives},
    {"kills-memory", killed_in_memory},
    {NULL, NULL},
};

static const struct trainer_worker_case *
find(const struct trainer_worker_case *among, const char *name)
{
    while (among->name && strcmp(among->name, name))
        among++;
    return among->name ? among : NULL;
}

int
trainer_worker(const char *name, const char *where, const char *which)
{
    const struct trainer_worker_case *found = find(cases, name);
    GError *error = NULL;

    trainer_worker_directory = where;
    part = which;
    if (!found)
        found = find(trainer_worker_ends, name);
    if (!found) {
        fprintf(stderr, "worker: no case %s\n", name);
        return 1;
    }
    struct mw_ranks *ranks = mw_ranks_join(MW_TRAINER_COLLECTIVE_LANES, SCRATCH_BYTES, &error);
    return ranks ? found->run(ranks) : trainer_worker_give_up(NULL, name, error);
}
