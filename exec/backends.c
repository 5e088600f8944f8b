/* Which backends are built in. */
#include <string.h>

#include "config.h"
#include "exec/backend.h"

const struct mw_backend *const mw_backends[] = {
    &mw_backend_cpu,
#if MW_CUDA
    &mw_backend_cuda,
#endif
    &mw_backend_null,
    NULL,
};

const struct mw_backend *
mw_backend_find(const char *name)
{
    for (const struct mw_backend *const *at = mw_backends; *at; at++)
        if (!strcmp((*at)->name, name))
            return *at;
    return NULL;
}

const struct mw_backend *
mw_backend_best(void)
{
#if MW_CUDA
    if (mw_backend_cuda.devices(NULL) > 0)
        return &mw_backend_cuda;
#endif
    return &mw_backend_cpu;
}
