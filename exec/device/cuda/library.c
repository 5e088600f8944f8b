#include "exec/device/cuda/library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "config.h"

void *
mw_cuda_library_open(const char *soname, GError **error)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

    if (library)
        return library;
    g_autofree char *why = g_strdup(dlerror());
    g_autofree char *path = g_build_filename(MW_CUDA_LIBRARIES, soname, NULL);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "GPUs: %s; %s", why, dlerror());
    return library;
}

bool
mw_cuda_library_find(void *library, const char *name, void *function, GError **error)
{
    void *symbol = dlsym(library, name);

    memcpy(function, &symbol, sizeof symbol);
    if (symbol)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "GPUs: %s", dlerror());
    return false;
}
