/* The backends of a program on a GPU made of threads, whether or not CUDA is built in. */
#include "exec/backend.h"

const struct mw_backend *const mw_backends[] = {&mw_backend_cpu, &mw_backend_cuda, &mw_backend_null,
                                                NULL};
