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

/* Also where the tests run as root, on fewer cores than ranks, or where a process may not read
 * another's memory. */
static char **
environment(void)
{
    char **env = g_get_environ();

    env = g_environ_setenv(env, "OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    env = g_environ_setenv(env, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    env = g_environ_setenv(env, "OMPI_MCA_rmaps_base_oversubscribe", "1", TRUE);
    env = g_environ_setenv(env, "OMPI_MCA_hwloc_base_binding_policy", "none", TRUE);
    /* Whose a leak is takes whole stacks; and memory may run out here as elsewhere. */
    env = g_environ_setenv(env, "ASAN_OPTIONS",
                           "fast_unwind_on_malloc=0:allocator_may_return_null=1", TRUE);
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
