#include "launched.h"

#include <glib.h>
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

int
launched_run(const char *mpirun, int ranks, const char *program, const char *const *arguments,
             char **output)
{
    g_autofree char *count = g_strdup_printf("%d", ranks);
    const char *line[4 + ARGUMENTS_MAX + 1] = {mpirun, "-n", count, program};
    g_auto(GStrv) env = environment();
    g_autoptr(GError) error = NULL;
    int status;

    for (int i = 0; arguments[i]; i++) {
        g_assert_cmpint(i, <, ARGUMENTS_MAX);
        line[4 + i] = arguments[i];
    }
    g_spawn_sync(NULL, (char **)line, env, G_SPAWN_DEFAULT, NULL, NULL, NULL, output, &status,
                 &error);
    g_assert_no_error(error);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
