/* Collectives: random ones against what one thread makes of all ranks' data, bit by bit, with one
 * rank alone and with several under mpirun; and ranks that are lost. */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "exec/ranks/internal.h"
#include "launched.h"
#include "ranks_worker.h"

static const char *self;

/* The launcher's exit status; *output is what the ranks and it wrote to standard error. */
static int
launch(const char *mpirun, int ranks, const char *name, char **output)
{
    g_autofree char *seed = g_strdup_printf("%d", g_test_rand_int());
    const char *arguments[] = {"--worker", name, seed, NULL};

    return launched_run(mpirun, ranks, self, arguments, output);
}

struct right {
    const char *name;
    int ranks_min, ranks_max;
};

static const struct right rights[] = {
    {"random", 1, 4}, {"least-scratch", 2, 4}, {"lanes", 1, 4},
    {"large", 2, 2},  {"waits", 2, 2},         {"one-has-more", 2, 3},
};

static void
test_right(gconstpointer data)
{
    const struct right *right = data;
    g_autofree char *mpirun = launched_find();

    for (int ranks = right->ranks_min; mpirun && ranks <= right->ranks_max; ranks++) {
        g_autofree char *output = NULL;
        int status = launch(mpirun, ranks, right->name, &output);
        if (status)
            g_test_message("%d ranks: status %d: %s", ranks, status, output);
        g_assert_cmpint(status, ==, 0);
    }
}

/* --- failures --- */

struct failure {
    const char *name;
    const char *message;
    int times; /* ranks that say it, at least */
};

static const struct failure failures[] = {
    {"killed", "rank 2 (process ", 1},
    {"killed-at-work", "rank 2 (process ", 1},
    {"gives-up", "worker: a broken drive", 1},
    {"told-to-end", "rank 0 was asked to end (SIGTERM)", 1},
    {"cancelled", "rank 0 has failed and waits for no other", 1},
    {"different-plans", "the ranks do not run the same plan", 1},
    {"one-leaves", "rank 0 at 0, the end of 0: the ranks do not run the same plan", 1},
    {"one-cannot-join", "no memory for 1152921504606846976 bytes of scratch", 1},
    {"little-scratch", "bytes of scratch for collectives: 3 ranks take 256 at least", 1},
};

static int
count_of(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

static void
test_ends(gconstpointer data)
{
    const struct failure *failure = data;
    g_autofree char *mpirun = launched_find(), *output = NULL;

    if (!mpirun)
        return;
    int status = launch(mpirun, 3, failure->name, &output);
    g_test_message("status %d: %s", status, output);
    g_assert_cmpint(status, !=, 0);
    g_assert_cmpint(count_of(output, failure->message), >=, failure->times);
}

/* Who asks the launcher to end the others, where all fail. */
static int
askers(const char *mpirun)
{
    g_autofree char *output = NULL;
    int status = launch(mpirun, 3, "all-fail", &output);

    g_test_message("status %d: %s", status, output);
    g_assert_cmpint(status, !=, 0);
    g_assert_nonnull(strstr(output, "rank 0 asks for the end"));
    g_assert_cmpint(count_of(output, " has diverged"), ==, 3);
    return count_of(output, " asks for the end");
}

/* One, unless the launcher is slow: then the others ask too, which Open MPI's mpirun also needs now
 * and then, as it mislays a request ("Data unpack would read past end of buffer"). */
static void
test_all_fail(void)
{
    g_autofree char *mpirun = launched_find();
    int tries = mpirun ? 10 : 1;

    while (mpirun && askers(mpirun) != 1 && --tries)
        continue;
    g_assert_cmpint(tries, >, 0);
}

static void
test_first_is_stuck(void)
{
    g_autofree char *mpirun = launched_find(), *output = NULL;

    if (!mpirun)
        return;
    int status = launch(mpirun, 3, "first-is-stuck", &output);
    g_test_message("status %d: %s", status, output);
    g_assert_cmpint(status, !=, 0);
    g_assert_cmpint(count_of(output, " asks for the end"), >=, 1);
    g_assert_null(strstr(output, "rank 0 has diverged"));
}

/* --- alone --- */

static void
test_alone(void)
{
    g_assert_cmpint(ranks_worker("random", (uint64_t)g_test_rand_int()), ==, 0);
    g_assert_cmpint(ranks_worker("lanes", (uint64_t)g_test_rand_int()), ==, 0);
}

static void
test_alone_is_rank_0(void)
{
    struct mw_ranks *ranks = mw_ranks_join(1, 0, NULL);

    g_assert_nonnull(ranks);
    g_assert_cmpint(mw_ranks_count(ranks), ==, 1);
    g_assert_cmpint(mw_ranks_index(ranks), ==, 0);
    g_assert_cmpint(mw_ranks_node_count(ranks), ==, 1);
    g_assert_cmpint(mw_ranks_node_index(ranks), ==, 0);
    mw_ranks_abort(ranks, 1);
    mw_ranks_leave(NULL);
}

static void
test_notice(void)
{
    g_autofree char *bound = mw_ranks_cores_notice(2, 16, 3);

    g_assert_nonnull(strstr(bound, "3 ranks of this machine may use 2 of its 16 cores"));
    g_assert_nonnull(strstr(bound, "PE=5"));
    g_assert_null(mw_ranks_cores_notice(8, 16, 2));
    g_assert_null(mw_ranks_cores_notice(16, 16, 2));
    g_assert_null(mw_ranks_cores_notice(2, 16, 1)); /* alone: as taskset has it */
    g_assert_null(mw_ranks_cores_notice(0, 16, 2)); /* not known */
}

/* Ranks that the launcher has not bound share the cores. */
static void
test_cores(void)
{
    g_assert_cmpint(mw_ranks_cores_share(16, 16, 1), ==, 16);
    g_assert_cmpint(mw_ranks_cores_share(16, 16, 3), ==, 5);
    g_assert_cmpint(mw_ranks_cores_share(5, 16, 3), ==, 5);
    g_assert_cmpint(mw_ranks_cores_share(2, 16, 3), ==, 2);
    g_assert_cmpint(mw_ranks_cores_share(4, 16, 1), ==, 4); /* as taskset has it */
    g_assert_cmpint(mw_ranks_cores_share(2, 2, 3), ==, 1);
    g_assert_cmpint(mw_ranks_cores_share(0, 8, 2), ==, 4); /* not known */
}

static void
test_without_mpi(void)
{
    g_autoptr(GError) error = NULL;

    if (MW_MPI) {
        g_test_skip("built with MPI");
        return;
    }
    g_setenv("OMPI_COMM_WORLD_SIZE", "2", TRUE);
    g_assert_null(mw_ranks_join(1, 4096, &error));
    g_unsetenv("OMPI_COMM_WORLD_SIZE");
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error->message, "one of 2 ranks"));
}

int
main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 4 && !strcmp(argv[1], "--worker"))
        return ranks_worker(argv[2], strtoull(argv[3], NULL, 10));
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ranks/alone", test_alone);
    g_test_add_func("/ranks/alone-is-rank-0", test_alone_is_rank_0);
    g_test_add_func("/ranks/notice", test_notice);
    g_test_add_func("/ranks/cores", test_cores);
    g_test_add_func("/ranks/without-mpi", test_without_mpi);
    for (size_t i = 0; i < G_N_ELEMENTS(rights); i++) {
        g_autofree char *path = g_strdup_printf("/ranks/several/%s", rights[i].name);
        g_test_add_data_func(path, &rights[i], test_right);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(failures); i++) {
        g_autofree char *path = g_strdup_printf("/ranks/ends/%s", failures[i].name);
        g_test_add_data_func(path, &failures[i], test_ends);
    }
    g_test_add_func("/ranks/all-fail", test_all_fail);
    g_test_add_func("/ranks/first-is-stuck", test_first_is_stuck);
    return g_test_run();
}
