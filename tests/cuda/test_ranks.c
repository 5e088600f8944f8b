/* Several ranks on GPUs that are made of threads, one each, between which NCCL is a fake (fake.h):
 * what they train has the bits of the cpu backend's ranks, since the fake adds up as those do, and
 * the kernels are those of the cpu backend.  With MW_TEST_EMULATED the kernels are the GPU's, and
 * with MW_TEST_GPU all is: then it is near to what the cpu backend's ranks train. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cuda/gpu.h"
#include "tests/cases.h"
#include "tests/cuda/ranks_table.h"
#include "tests/launched.h"
#include "tests/trained.h"
#include "tests/weights_fixture.h"
#if defined(MW_TEST_GPU)
#define STEPS 20
#define LOSS_TOLERANCE 0.01
#define STATE_TOLERANCE 0.05
#else
#include "tests/cuda/fake.h"
#define STEPS 3
#define LOSS_TOLERANCE 0.001
#define STATE_TOLERANCE 0.05
#endif
#if defined(MW_TEST_GPU) || defined(MW_TEST_EMULATED)
#define NEAR 1
#else
#include "tests/cuda/ranks_ends.h"
#define NEAR 0
#endif

#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"

static const char *self;

/* --- a rank ---------------------------------------------------------------------------------- */

static void
fail(struct mw_ranks *ranks, const char *what, const char *why)
{
    fprintf(stderr, "worker: rank %d: %s: %s\n", mw_ranks_index(ranks), what, why);
    mw_ranks_abort(ranks, 1);
    exit(1);
}

static struct trained
train(const struct trained_case *common, const struct mw_backend *backend, int64_t steps,
      const char *directory)
{
    struct trained_course course = {.steps = steps, .threads = 1, .directory = directory};
    struct trained_case what = *common;
    struct trained trained;
    g_autoptr(GError) error = NULL;

    what.backend = backend;
    if (!trained_train(&what, &course, &trained, &error))
        fail(what.ranks, what.name, error->message);
    return trained;
}

static void
compare_bits(const struct trained_case *what, const struct trained *cpu, const struct trained *gpu)
{
    if (memcmp(cpu->losses, gpu->losses, STEPS * sizeof(double)) ||
        memcmp(cpu->norms, gpu->norms, STEPS * sizeof(double)))
        fail(what->ranks, what->name, "other losses");
    if (memcmp(cpu->state, gpu->state, (size_t)(3 * cpu->elements) * sizeof(float)))
        fail(what->ranks, what->name, "other weights");
    if (cpu->params && memcmp(cpu->params, gpu->params, (size_t)cpu->elements * sizeof(uint16_t)))
        fail(what->ranks, what->name, "other 16-bit parameters");
}

/* Both round to 16 bits after every operation, in other orders, and drift apart with the steps. The
 * optimizer makes steps of a given length, so of weights it is the mean of differences, as a part
 * of what training changed. */
static void
compare_near(const struct trained_case *what, const struct trained *cpu, const struct trained *gpu,
             const float *start)
{
    double loss = 0, off = 0, changed = 0;

    for (int s = 0; s < STEPS; s++)
        loss = fmax(loss, fabs(gpu->losses[s] / cpu->losses[s] - 1));
    for (int64_t i = 0; i < cpu->elements; i++) {
        off += fabs((double)gpu->state[i] - cpu->state[i]);
        changed += fabs((double)cpu->state[i] - start[i]);
    }
    fprintf(stderr, "%s, rank %d: off by %.2g in the loss, %.2g in the weights\n", what->name,
            mw_ranks_index(what->ranks), loss, off / changed);
    if (!(loss < LOSS_TOLERANCE && off / changed < STATE_TOLERANCE))
        fail(what->ranks, what->name, "too far off");
}

/* Each rank of its own shards. */
static void
compare(const struct trained_case *what, const char *directory)
{
    struct trained start = {0};
    struct trained cpu = train(what, &mw_backend_cpu, STEPS, directory);
    struct trained gpu = train(what, &mw_backend_cuda, STEPS, directory);

    if (NEAR)
        start = train(what, &mw_backend_cpu, 0, directory);
    if (NEAR)
        compare_near(what, &cpu, &gpu, start.state);
    else
        compare_bits(what, &cpu, &gpu);
    trained_clear(&start);
    trained_clear(&cpu);
    trained_clear(&gpu);
}

static const struct placement {
    const char *name;
    enum mw_strategy strategy;
    enum mw_partition partition;
    const char *home; /* of what a strategy lets choose */
    int64_t grad_accum;
    bool delayed, emulated;  /* emulated: there too, which takes its time */
    double link_bytes_per_s; /* what is limited is not queued, but waited for */
    enum mw_dtype dtype;
    int shard_group;
} placements[] = {
    {"ddp", MW_STRATEGY_DDP, MW_PARTITION_BANDWIDTH, NULL, 2, false, false, 0, MW_DTYPE_BF16, 0},
    {"zero1", MW_STRATEGY_ZERO1, MW_PARTITION_BANDWIDTH, NULL, 2, false, false, 0, MW_DTYPE_BF16,
     0},
    {"zero2", MW_STRATEGY_ZERO2, MW_PARTITION_BANDWIDTH, NULL, 1, false, false, 0, MW_DTYPE_BF16,
     0},
    {"zero3", MW_STRATEGY_ZERO3, MW_PARTITION_BANDWIDTH, NULL, 2, false, true, 0, MW_DTYPE_BF16, 0},
    {"zero3, owners", MW_STRATEGY_ZERO3, MW_PARTITION_OWNER, NULL, 1, false, false, 0,
     MW_DTYPE_BF16, 0},
    {"host", MW_STRATEGY_ZERO_INFINITY_CPU, MW_PARTITION_BANDWIDTH, "cpu", 2, false, false, 0,
     MW_DTYPE_BF16, 0},
    {"nvme", MW_STRATEGY_ZERO_INFINITY_NVME, MW_PARTITION_BANDWIDTH, "nvme", 1, false, true, 0,
     MW_DTYPE_BF16, 0},
    {"nvme, owners", MW_STRATEGY_ZERO_INFINITY_NVME, MW_PARTITION_OWNER, "nvme", 1, false, false, 0,
     MW_DTYPE_BF16, 0},
    {"delayed", MW_STRATEGY_ZERO_OFFLOAD, MW_PARTITION_BANDWIDTH, NULL, 1, true, false, 0,
     MW_DTYPE_BF16, 0},
    {"limited", MW_STRATEGY_ZERO_INFINITY_CPU, MW_PARTITION_BANDWIDTH, "cpu", 1, false, false, 1e9,
     MW_DTYPE_BF16, 0},
    {"limited, owners", MW_STRATEGY_ZERO_INFINITY_CPU, MW_PARTITION_OWNER, "cpu", 1, false, false,
     1e9, MW_DTYPE_BF16, 0},
    {"fp16", MW_STRATEGY_ZERO3, MW_PARTITION_BANDWIDTH, NULL, 1, false, true, 0, MW_DTYPE_FP16, 0},
    {"groups", MW_STRATEGY_ZERO3, MW_PARTITION_BANDWIDTH, NULL, 2, false, true, 0, MW_DTYPE_BF16,
     2},
    {"groups, host", MW_STRATEGY_ZERO_INFINITY_CPU, MW_PARTITION_BANDWIDTH, "cpu", 2, false, false,
     0, MW_DTYPE_BF16, 2},
    {"groups, delayed", MW_STRATEGY_ZERO_OFFLOAD, MW_PARTITION_BANDWIDTH, NULL, 1, true, false, 0,
     MW_DTYPE_BF16, 2},
    {"groups, zero1", MW_STRATEGY_ZERO1, MW_PARTITION_BANDWIDTH, NULL, 2, false, false, 0,
     MW_DTYPE_BF16, 2},
};

static struct trained_case
place(const struct placement *at, int index)
{
    return (struct trained_case){.name = at->name,
                                 .strategy = at->strategy,
                                 .partition = at->partition,
                                 .params = at->home,
                                 .gradients = at->home,
                                 .optimizer = at->home,
                                 .activations = at->home,
                                 .grad_accum = at->grad_accum,
                                 .delayed = at->delayed,
                                 .dtype = at->dtype,
                                 .undelayed_steps = at->delayed,
                                 .link_bytes_per_s = at->link_bytes_per_s,
                                 .shard_group = at->shard_group,
                                 .optimizer_chunk = 3000, /* less than a shard */
                                 .prefetch = index % 3,
                                 .interval = 1,
                                 .sequences = 1};
}

static bool
is_emulated(void)
{
#if defined(MW_TEST_EMULATED)
    return true;
#else
    return false;
#endif
}

static void
make_gpus(int count)
{
#if defined(MW_TEST_GPU)
    (void)count;
#else
    fake_machine.gpus = count;
    fake_machine.threads = 1;
    fake_machine.reachable = is_emulated();
#endif
}

static int
compare_all(const char *model, int64_t seq, int64_t tiles, const char *directory)
{
    struct mw_ranks *ranks = mw_ranks_join(MW_TRAINER_COLLECTIVE_LANES, 8192, NULL);

    make_gpus(mw_ranks_count(ranks));
    for (size_t i = 0; i < G_N_ELEMENTS(placements); i++) {
        struct trained_case what = place(&placements[i], (int)i);
        bool groups = !what.shard_group || mw_ranks_count(ranks) > 3;
        if (!groups || (!placements[i].emulated && is_emulated()))
            continue;
        what.model = model;
        what.seq = seq;
        what.tiles = tiles;
        what.ranks = ranks;
        compare(&what, directory);
    }
    mw_ranks_leave(ranks);
    return 0;
}

static int
compare_tables(void)
{
    struct mw_ranks *ranks = mw_ranks_join(2, 8192, NULL);
    g_autoptr(GError) error = NULL;

    make_gpus(mw_ranks_count(ranks));
    if (!ranks_table(ranks, &error))
        fail(ranks, "table", error->message);
    mw_ranks_leave(ranks);
    return 0;
}

static int
work(const char *name, const char *directory)
{
    if (!strcmp(name, "gpt2"))
        return compare_all(GPT2, 12, 1, directory);
    if (!strcmp(name, "llama"))
        return compare_all(LLAMA, 17, 2, directory);
    if (!strcmp(name, "table"))
        return compare_tables();
#if !NEAR
    return ranks_end(name, directory);
#else
    return 2;
#endif
}

/* --- tests ----------------------------------------------------------------------------------- */

static int
launch(const char *mpirun, int ranks, const char *name, char **output)
{
    char *directory = trained_directory();
    const char *arguments[] = {"--worker", name, directory, NULL};
    int status = launched_run(mpirun, ranks, self, arguments, output);

    trained_remove(directory);
    return status;
}

static const struct right {
    const char *name;
    int ranks;
    bool in_figures; /* differs from another in its figures alone */
} rights[] = {{"table", 2, true},
              {"table", 3, false},
              {"gpt2", 2, false},
              {"llama", 3, false},
              {"gpt2", 4, true}};

/* Skips the test. */
static bool
lacks_gpus(int ranks)
{
#if defined(MW_TEST_GPU)
    g_autoptr(GError) error = NULL;
    int count = mw_cuda_gpu_count(&error);
    g_autofree char *why = error ? g_strdup(error->message)
                                 : g_strdup_printf("%d GPUs are here, %d ranks", count, ranks);

    if (count < ranks)
        g_test_skip(why);
    return count < ranks;
#else
    (void)ranks;
    return false;
#endif
}

static void
test_right(gconstpointer data)
{
    const struct right *right = data;
    g_autofree char *mpirun = launched_find(), *output = NULL;

    if (!mpirun || lacks_gpus(right->ranks))
        return;
    int status = launch(mpirun, right->ranks, right->name, &output);
    g_test_message("status %d: %s", status, output);
    g_assert_cmpint(status, ==, 0);
}

#if !NEAR
/* In one line. */
static bool
says(const char *output, const struct ranks_end *end)
{
    g_auto(GStrv) lines = g_strsplit(output, "\n", -1);
    bool said = false;

    for (int i = 0; lines[i]; i++)
        said |= g_str_has_prefix(lines[i], "worker: ") && strstr(lines[i], end->message) &&
                (!end->also || strstr(lines[i], end->also));
    return said;
}

static void
test_end(gconstpointer data)
{
    const struct ranks_end *end = data;
    g_autofree char *mpirun = launched_find(), *output = NULL;

    if (!mpirun)
        return;
    int status = launch(mpirun, 2, end->name, &output);
    g_test_message("status %d: %s", status, output);
    g_assert_cmpint(status, !=, 0);
    g_assert_true(says(output, end));
}
#endif

int
main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 4 && !strcmp(argv[1], "--worker"))
        return work(argv[2], argv[3]);
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(rights); i++) {
        if (MW_FEW_CASES && rights[i].in_figures)
            continue;
        g_autofree char *path =
            g_strdup_printf("/cuda-ranks/%s-%d", rights[i].name, rights[i].ranks);
        g_test_add_data_func(path, &rights[i], test_right);
    }
#if !NEAR
    for (const struct ranks_end *end = ranks_ends; end->name; end++) {
        g_autofree char *path = g_strdup_printf("/cuda-ranks/ends/%s", end->name);
        g_test_add_data_func(path, end, test_end);
    }
#endif
    return g_test_run();
}
