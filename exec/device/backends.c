/* Which backends are built in. */
#include "config.h"
#include "exec/device/backend.h"

const struct mw_backend *const mw_backends[] = {
    &mw_backend_cpu,
#if MW_CUDA
    &mw_backend_cuda,
#endif
    &mw_backend_null,
    NULL,
};
