#include "cli/run/backend.h"

#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

/* Leaves "auto" open: only all ranks together know the best backend. */
bool
cli_run_backend_read(const char *name, const struct mw_backend **backend, GError **error)
{
    *backend = NULL;
    if (!name || !strcmp(name, "auto"))
        return true;
    *backend = mw_backend_find(name);
    if (*backend)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "--backend %s: %s", name,
                strcmp(name, "cuda") ? "must be auto, cpu, cuda or null"
                                     : "GPUs are not built in (meson's -Dcuda)");
    return false;
}

/* What this rank finds about its best backend; the largest of all ranks decides. */
enum { TAKEN, NO_DEVICE, REFUSED };

/* Chooses a device only if every rank has one. */
static bool
choose_for_all_ranks(const struct mw_backend **backend, const struct mw_backend_place *place,
                     struct mw_ranks *ranks, GError **error)
{
    g_autoptr(GError) why = NULL;
    const struct mw_backend *best = mw_backend_best(place, &why);
    int status = best != &mw_backend_cpu ? TAKEN : why ? REFUSED : NO_DEVICE;
    int worst, who;

    if (!mw_ranks_worst(ranks, 0, status, &worst, &who, error))
        return false;
    if (worst == REFUSED && who == mw_ranks_index(ranks))
        cli_say("computing on cores (--backend cpu): %s", why->message);
    *backend = worst == TAKEN ? best : &mw_backend_cpu;
    return true;
}

bool
cli_run_backend_choose(const struct mw_backend **backend, struct mw_ranks *ranks, GError **error)
{
    struct mw_backend_place place = {
        .ranks = mw_ranks_count(ranks),
        .node_rank = mw_ranks_node_index(ranks),
        .node_ranks = mw_ranks_node_count(ranks),
    };

    return *backend ? mw_backend_takes(*backend, &place, error)
                    : choose_for_all_ranks(backend, &place, ranks, error);
}
