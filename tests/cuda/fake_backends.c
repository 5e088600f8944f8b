/* The backends of a program on a GPU made of threads, whether or not CUDA is built in. */
#include <stdlib.h>

#include "exec/backend.h"
#include "tests/cuda/fake.h"

/* As many GPUs as the environment says; one. */
__attribute__((constructor)) static void
set_gpus(void)
{
    if (getenv("MEMWALL_TEST_GPUS"))
        fake_machine.gpus = atoi(getenv("MEMWALL_TEST_GPUS"));
}

const struct mw_backend *const mw_backends[] = {&mw_backend_cpu, &mw_backend_cuda, &mw_backend_null,
                                                NULL};
