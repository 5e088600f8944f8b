#include <sched.h>
#include <unistd.h>

#include "exec/ranks_internal.h"

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

char *
mw_ranks_cores_look(int ranks)
{
    cpu_set_t set;
    int own = sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);

    return mw_ranks_cores_notice(own, (int)sysconf(_SC_NPROCESSORS_ONLN), ranks);
}
