/* The transport of a build without MPI: there is none, and one rank needs none. */
#include "base/error.h"
#include "exec/ranks/internal.h"

bool
mw_ranks_link_join(struct mw_ranks *ranks, GError **error)
{
    int count = mw_ranks_launched();

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
