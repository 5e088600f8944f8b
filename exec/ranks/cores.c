#include <sched.h>
#include <unistd.h>

#include "exec/ranks/internal.h"

char *
mw_ranks_cores_notice(int own, int online, int ranks)
{
    if (ranks < 2 || own < 1 || (int64_t)own * ranks >= online)
        return NULL;
    return g_strdup_printf("each of the %d ranks of this machine may use %d of its %d cores, as "
                           "mpirun binds them: `mpirun --bind-to none` or `--map-by slot:PE=%d` "
                           "gives them all",
                           ranks, own, online, online / ranks);
}

int
mw_ranks_cores_share(int own, int online, int ranks)
{
    int fair = MAX(1, online / ranks);

    return own > 0 ? MIN(own, fair) : fair;
}

static int
own_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);
}

static int
online_cores(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int
mw_ranks_cores(const struct mw_ranks *ranks)
{
    return mw_ranks_cores_share(own_cores(), online_cores(), ranks->node_count);
}

char *
mw_ranks_cores_look(int ranks)
{
    return mw_ranks_cores_notice(own_cores(), online_cores(), ranks);
}
