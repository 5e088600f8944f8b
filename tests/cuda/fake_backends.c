/* The backends of a program on a GPU made of threads, whether or not CUDA is built in. */
#include <stdio.h>
#include <stdlib.h>

#include "exec/device/backend.h"
#include "tests/cuda/fake.h"

/* What the environment says of the GPUs: how many, the driver's version (as driver_version), and
 * what fails ("cudaMemcpyAsync 30 700", as fake_fail). */
__attribute__((constructor)) static void
read_environment(void)
{
    const char *gpus = getenv("MEMWALL_TEST_GPUS"), *driver = getenv("MEMWALL_TEST_DRIVER");
    const char *fail = getenv("MEMWALL_TEST_FAIL");
    static char call[64];
    int count, status;

    if (gpus)
        fake_machine.gpus = atoi(gpus);
    if (driver)
        fake_machine.driver_version = atoi(driver);
    if (fail && sscanf(fail, "%63s %d %d", call, &count, &status) == 3)
        fake_fail(call, count, status);
}

const struct mw_backend *const mw_backends[] = {&mw_backend_cpu, &mw_backend_cuda, &mw_backend_null,
                                                NULL};
