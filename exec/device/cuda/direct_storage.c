#include <unistd.h>

#include "exec/device/cuda/library.h"

#define LIBRARY "libcufile.so.0"

const char *
mw_cuda_direct_storage(void)
{
    bool kernel = access("/proc/driver/nvidia-fs", F_OK) == 0;

    if (!mw_cuda_library_open(LIBRARY, NULL))
        return kernel ? "nvidia-fs is loaded, " LIBRARY " is not here" : LIBRARY " is not here";
    return kernel ? LIBRARY " is here, nvidia-fs is loaded"
                  : LIBRARY " is here, nvidia-fs is not loaded";
}
