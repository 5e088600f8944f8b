/* Several ranks train: the same bits for all placements of a partitioning, near to one rank's; and
 * all end where one does. */
#include <string.h>

#include "launched.h"
#include "trained.h"
#include "trainer_worker.h"

static const char *self;

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
} rights[] = {{"gpt2", 2},        {"gpt2-tiled", 3}, {"llama", 3},
              {"llama-tiled", 2}, {"delayed", 2},    {"resume", 3}};

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
} failures[] = {
    {"killed", "has ended: rank "},
    {"without-data", "worker: nvme: no more data"},
    {"owners", "owner-broadcast; --partition bandwidth runs"},
    {"offload-owners", "owner-broadcast; --partition bandwidth runs"},
    {"slicing", "tensor slicing; --tp 1 runs"},
};

static void
test_ends(gconstpointer data)
{
    const struct failure *failure = data;
    g_autofree char *mpirun = launched_find(), *output = NULL;

    if (!mpirun)
        return;
    int status = launch(mpirun, 2, failure->name, &output);
    g_test_message("status %d: %s", status, output);
    g_assert_cmpint(status, !=, 0);
    g_assert_nonnull(strstr(output, failure->message));
}

int
main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 4 && !strcmp(argv[1], "--worker"))
        return trainer_worker(argv[2], argv[3]);
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(rights); i++) {
        g_autofree char *path = g_strdup_printf("/trainer-ranks/%s", rights[i].name);
        g_test_add_data_func(path, &rights[i], test_right);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(failures); i++) {
        g_autofree char *path = g_strdup_printf("/trainer-ranks/ends/%s", failures[i].name);
        g_test_add_data_func(path, &failures[i], test_ends);
    }
    return g_test_run();
}
