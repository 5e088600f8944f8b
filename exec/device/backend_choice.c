/* One of the backends, by name or by what a rank needs. */
#include <string.h>

#include "exec/device/backend.h"

const struct mw_backend *
mw_backend_find(const char *name)
{
    for (const struct mw_backend *const *at = mw_backends; *at; at++)
        if (!strcmp((*at)->name, name))
            return *at;
    return NULL;
}

bool
mw_backend_describe_own(const struct mw_backend *backend, int node_rank,
                        struct mw_backend_device *device, GError **error)
{
    int count = backend->devices(error);

    return count >= 0 && backend->describe(count == 1 ? 0 : node_rank, device, error);
}

/* The reason is reported where the machine has such devices or is meant to. */
static bool
has_devices(const struct mw_backend *backend, GError **why)
{
    bool there = backend->devices(why) > 0;

    if (!there && !(backend->installed && backend->installed()))
        g_clear_error(why);
    return there;
}

const struct mw_backend *
mw_backend_best(const struct mw_backend_place *place, GError **why)
{
    for (const struct mw_backend *const *at = mw_backends; *at; at++) {
        if (!(*at)->apart)
            continue;
        g_clear_error(why);
        if (has_devices(*at, why) && mw_backend_takes(*at, place, why))
            return *at;
    }
    return &mw_backend_cpu;
}
