#include "launched.h"

#include <ftw.h>
#include <glib.h>
#include <stdio.h>
#include <sys/wait.h>

#include "config.h"

enum { ARGUMENTS_MAX = 8 };

#if defined(__SANITIZE_ADDRESS__)
/* Open MPI's modules stay loaded, so that the leak checker knows whose leaks it finds in the end
 * (lsan-openmpi.supp). */
int dlclose(void *module);

int
dlclose(void *module)
{
    return 0;
}
#endif

char *
launched_find(void)
{
    char *path = MW_MPI ? g_find_program_in_path("mpirun") : NULL;

    if (!path)
        g_test_skip(MW_MPI ? "no mpirun" : "built without MPI");
    return path;
}

/* Of Open MPI: ranks on one machine need no network, and those that wait leave the core to other
 * tests.  Python's checks have the same (tap.py). */
static const char *const OPEN_MPI[][2] = {
    {"OMPI_MCA_pml", "ob1"}, {"OMPI_MCA_btl", "self,vader"}, {"OMPI_MCA_mpi_yield_when_idle", "1"}};

/* Also where the tests run as root, on fewer cores than ranks, or where a process may not read
 * another's memory. */
static char **
environment(void)
{
    char **env = g_get_environ();
    const char *asan = g_environ_getenv(env, "ASAN_OPTIONS");
    /* Whose a leak is takes stacks that go through code without frame pointers, up to Open MPI's
     * own; and memory may run out here as elsewhere. */
    g_autofree char *leaks = g_strdup_printf("%s:fast_unwind_on_malloc=0:malloc_context_size=8:"
                                             "allocator_may_return_null=1",
                                             asan ? asan : "");

    env = g_environ_setenv(env, "OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    env = g_environ_setenv(env, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    env = g_environ_setenv(env, "OMPI_MCA_rmaps_base_oversubscribe", "1", TRUE);
    env = g_environ_setenv(env, "OMPI_MCA_hwloc_base_binding_policy", "none", TRUE);
    for (size_t i = 0; i < G_N_ELEMENTS(OPEN_MPI); i++)
        env = g_environ_setenv(env, OPEN_MPI[i][0], OPEN_MPI[i][1], TRUE);
    env = g_environ_setenv(env, "ASAN_OPTIONS", leaks, TRUE);
    return g_environ_setenv(
        env, "LSAN_OPTIONS",
        "print_suppressions=0:suppressions=" MW_SOURCE_DIR "/tests/lsan-openmpi.supp", TRUE);
}

static int
remove_entry(const char *path, const struct stat *is, int kind, struct FTW *at)
{
    (void)is, (void)kind, (void)at;
    return remove(path);
}

int
launched_run(const char *mpirun, int ranks, const char *program, const char *const *arguments,
             char **output)
{
    g_autofree char *count = g_strdup_printf("%d", ranks);
    const char *line[4 + ARGUMENTS_MAX + 1] = {mpirun, "-n", count, program};
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) env = environment();
    /* All launchers of a user share a folder, which each removes when it finds it empty:
     * perhaps under one that has just made it.  So each gets its own. */
    g_autofree char *own = g_dir_make_tmp("mw-ranks-XXXXXX", &error);
    int status;

    for (int i = 0; arguments[i]; i++) {
        g_assert_cmpint(i, <, ARGUMENTS_MAX);
        line[4 + i] = arguments[i];
    }
    g_assert_no_error(error);
    env = g_environ_setenv(env, "OMPI_MCA_orte_tmpdir_base", own, TRUE);
    g_spawn_sync(NULL, (char **)line, env, G_SPAWN_DEFAULT, NULL, NULL, NULL, output, &status,
                 &error);
    g_assert_no_error(error);
    nftw(own, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    if (status != 0) /* meson shows this stream alone of a test that fails */
        fprintf(stderr, "%s ended with %d:\n%s\n", program, status, *output);
    return status;
}
