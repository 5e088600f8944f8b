/* Several ranks train: the same bits for all placements of a partitioning, near to one rank's; and
 * all end where one does.  With MW_TEST_CUDA each has a GPU made of threads, and trains what is not
 * compared with cores (cuda/test_ranks.c). */
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "launched.h"
#include "trained.h"
#include "trainer_worker.h"

#if defined(MW_TEST_CUDA)
#include "tests/cuda/fake.h"
#endif

static const char *self;

static int
launch(const char *mpirun, int ranks, const char *name, char **output)
{
    char *directory = trained_directory();
    const char *arguments[] = {"--worker", name, directory, "", NULL};
    int status = launched_run(mpirun, ranks, self, arguments, output);

    trained_remove(directory);
    return status;
}

static const struct right {
    const char *name;
    int ranks;
    bool in_figures; /* differs from another in its figures alone */
} rights[] = {
#if !defined(MW_TEST_CUDA)
    {"gpt2", 2, false},        {"gpt2-tiled", 3, true},    {"llama", 3, true},
    {"llama-tiled", 2, false}, {"delayed", 2, false},      {"overflow", 2, false},
    {"turns", 3, false},       {"two-versions", 2, false}, {"two-versions", 4, true},
    {"stashes", 2, false},     {"stashes", 4, true},       {"asynchronous", 2, false},
    {"asynchronous", 3, true}, {"groups", 4, false},
#endif
    {"resume", 3, false},      {"checkpoint", 3, false}};

static void
test_right(gconstpointer data)
{
    const struct right *right = data;
    g_autofree char *mpirun = launched_find(), *output = NULL;

    if (!mpirun)
        return;
    int status = launch(mpirun, right->ranks, right->name, &output);
    g_test_message("status %d: %s", status, output);
    g_assert_cmpint(status, ==, 0);
}

static const struct failure {
    const char *name, *message;
    bool gives_back; /* the rank that fails removes its files */
} failures[] = {
#if !defined(MW_TEST_CUDA)
    {"killed", "has ended: rank ", false},
    {"without-data", "worker: nvme: no more data", true},
    {"mixes-versions", "is computed by parameters of two versions", false},
    {"slicing", "tensor slices that share more than sums and checkpoints; tp=1 runs", true},
#endif
    {"broken-drive", "Input/output error", true},
    {"flipped-read", ": not what was written there last: ", true}};

#if !defined(MW_TEST_CUDA)
/* Ranks that diverge come to the end of the step together, and none ends another that has not told
 * of it yet. */
static void
test_diverges(gconstpointer data)
{
    g_autofree char *mpirun = launched_find(), *output = NULL;
    char *directory = trained_directory();
    const char *arguments[] = {"--worker", data, directory, "", NULL};

    if (mpirun) {
        int status = launched_run(mpirun, 2, self, arguments, &output);
        g_test_message("status %d: %s", status, output);
        g_assert_cmpint(status, !=, 0);
        g_assert_nonnull(strstr(output, "the run has diverged"));
        g_assert_nonnull(strstr(output, "rank 0 told of step 9"));
        g_assert_nonnull(strstr(output, "rank 1 told of step 9"));
    }
    trained_remove(directory);
}
#endif

static void
test_ends(gconstpointer data)
{
    const struct failure *failure = data;
    g_autofree char *mpirun = launched_find(), *output = NULL;
    char *directory = trained_directory();
    g_autofree char *file = g_build_filename(directory, "memwall-rank1-1of1.data", NULL);
    const char *arguments[] = {"--worker", failure->name, directory, "", NULL};

    if (mpirun) {
        int status = launched_run(mpirun, 2, self, arguments, &output);
        g_test_message("status %d: %s", status, output);
        g_assert_cmpint(status, !=, 0);
        g_assert_nonnull(strstr(output, failure->message));
        g_assert_true(!failure->gives_back || !g_file_test(file, G_FILE_TEST_EXISTS));
    }
    trained_remove(directory);
}

/* --- kills ----------------------------------------------------------------------------------- */

#if defined(MW_TEST_CUDA)
#define KILLS 2
#else
#define KILLS MW_CASES_ONE_IN(2, 4)
#endif
#define KILL_US_MAX 1000000

struct killed {
    const char *mpirun, *name, *directory;
    int committed; /* the newest step that a run has said is durable */
    int kills;
};

/* The last number that follows a word at the beginning of a line; -1. */
static int
last_said(const char *output, const char *word)
{
    g_autofree char *at_line = g_strdup_printf("\n%s ", word);
    int said = -1;

    for (const char *at = output; (at = strstr(at, at_line)); at++)
        said = atoi(at + strlen(at_line));
    return said;
}

/* Ranks complain of the one that was killed and of nothing else. */
static bool
is_well(const char *output)
{
    g_auto(GStrv) lines = g_strsplit(output, "\n", -1);
    bool well = true;

    for (int i = 0; lines[i]; i++)
        well &= !strstr(lines[i], "worker: ") || strstr(lines[i], " has ended: rank ") ||
                strstr(lines[i], " was asked to end ");
    return well;
}

static int
run_killed(struct killed *run, const char *part, int kill_us)
{
    const char *arguments[] = {"--worker", run->name, run->directory, part, NULL};
    g_autofree char *output = NULL, *us = g_strdup_printf("%d", kill_us);

    g_setenv("MEMWALL_TEST_KILL_US", us, TRUE);
    int status = launched_run(run->mpirun, 2, self, arguments, &output);
    int from = last_said(output, "from");
    bool well = is_well(output) && (from < 0 || from > run->committed);
    if (!well)
        g_test_message("%s, after step %d: status %d: %s", part, run->committed, status, output);
    g_assert_true(well);
    run->committed = MAX(run->committed, last_said(output, "committed"));
    return status;
}

static void
test_kills(gconstpointer data)
{
    g_autofree char *mpirun = launched_find();
    char *directory = trained_directory();
    struct killed run = {mpirun, data, directory, -1, 0};

    if (mpirun) {
        g_assert_cmpint(run_killed(&run, "begin", 0), ==, 0);
        g_assert_cmpint(run.committed, ==, 0);
        for (int i = 0; i < KILLS; i++)
            run.kills += run_killed(&run, "go-on", g_test_rand_int_range(1, KILL_US_MAX)) != 0;
        g_test_message("%d kills, step %d committed", run.kills, run.committed);
        g_assert_cmpint(run_killed(&run, "finish", 0), ==, 0);
    }
    trained_remove(directory);
}

int
main(int argc, char **argv)
{
    self = argv[0];
#if defined(MW_TEST_CUDA)
    trained_backend = &mw_backend_cuda;
    fake_machine.gpus = 4;
    fake_machine.threads = 1;
#endif
    if (argc == 5 && !strcmp(argv[1], "--worker"))
        return trainer_worker(argv[2], argv[3], argv[4]);
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(rights); i++) {
        if (MW_FEW_CASES && rights[i].in_figures)
            continue;
        g_autofree char *path =
            g_strdup_printf("/trainer-ranks/%s/%d", rights[i].name, rights[i].ranks);
        g_test_add_data_func(path, &rights[i], test_right);
    }
    g_test_add_data_func("/trainer-ranks/kills/nvme", "kills-nvme", test_kills);
#if !defined(MW_TEST_CUDA)
    g_test_add_data_func("/trainer-ranks/kills/memory", "kills-memory", test_kills);
#endif
    for (size_t i = 0; i < G_N_ELEMENTS(failures); i++) {
        g_autofree char *path = g_strdup_printf("/trainer-ranks/ends/%s", failures[i].name);
        g_test_add_data_func(path, &failures[i], test_ends);
    }
#if !defined(MW_TEST_CUDA)
    g_test_add_data_func("/trainer-ranks/diverges/first-late", "first-diverges-late",
                         test_diverges);
    g_test_add_data_func("/trainer-ranks/diverges/last-late", "last-diverges-late", test_diverges);
#endif
    return g_test_run();
}
