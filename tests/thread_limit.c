#include "thread_limit.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define NOBODYS_USER 1000000000

static gpointer
nothing(gpointer data)
{
    return data;
}

static bool
limit(rlim_t processes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NPROC, &limit))
        return false;
    limit.rlim_cur = processes;
    return !setrlimit(RLIMIT_NPROC, &limit);
}

/* The leak sanitizer looks into its own process, which a change of the user keeps it from. */
static bool
become_nobody(void)
{
    return !setuid(NOBODYS_USER + getpid()) && !prctl(PR_SET_DUMPABLE, 1);
}

/* A user may have any number of processes, but has this one. */
bool
thread_limit_set(int count)
{
    bool root = !geteuid();

    if ((count && !root) || (root && !become_nobody()) || !limit(1))
        return false;
    GThread *thread = g_thread_try_new("nothing", nothing, NULL, NULL);
    if (thread)
        g_thread_join(thread);
    return !thread && limit(1 + count);
}

void
thread_limit_lift(void)
{
    struct rlimit limit;

    g_assert_cmpint(getrlimit(RLIMIT_NPROC, &limit), ==, 0);
    limit.rlim_cur = limit.rlim_max;
    g_assert_cmpint(setrlimit(RLIMIT_NPROC, &limit), ==, 0);
}
