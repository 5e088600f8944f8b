/* The transport of a build without MPI: there is none, and one rank needs none. */
#include <stdlib.h>

#include "base/error.h"
#include "exec/ranks/internal.h"

/* What launchers say of how many processes they started: Open MPI's mpirun, srun, MPICH's. */
static int
launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    const char *steps = getenv("PMIX_RANK") ? getenv("SLURM_STEP_NUM_TASKS") : NULL;
    int count = steps ? atoi(steps) : 1;

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (getenv(names[i]))
            count = MAX(count, atoi(getenv(names[i])));
    return count;
}

bool
mw_ranks_link_join(struct mw_ranks *ranks, GError **error)
{
    int count = launched();

    if (count == 1)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "started as one of %d ranks, but this memwall was built without MPI: build it with "
                "an MPI library (libopenmpi-dev), or run one process",
                count);
    return false;
}

bool
mw_ranks_link_open(struct mw_ranks_lane *lane, GError **error)
{
    return true;
}

void
mw_ranks_link_close(struct mw_ranks_lane *lane)
{
}

void
mw_ranks_link_leave(void)
{
}

void
mw_ranks_link_abort(int status)
{
}

void
mw_ranks_link_tell(int count, const char words[MW_RANKS_WORDS_BYTES])
{
}

bool
mw_ranks_link_hear(char words[MW_RANKS_WORDS_BYTES])
{
    return false;
}

void
mw_ranks_link_send(struct mw_ranks_lane *lane, int set, int peer, const void *data, int64_t bytes)
{
}

void
mw_ranks_link_receive(struct mw_ranks_lane *lane, int set, int peer, void *data, int64_t bytes)
{
}

bool
mw_ranks_link_finish(struct mw_ranks_lane *lane, int set, bool patient, GError **error)
{
    return true;
}
