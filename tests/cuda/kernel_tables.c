/* The tables of kernels that tests run: that of exec/cuda, where there is a device for it. */
#include "tests/cuda/device_memory.h"
#include "tests/cuda/kernel_table.h"
#include "tests/kernel_helpers.h"

static void
skip(gconstpointer data)
{
    (void)data;
    g_test_skip(mw_test_device_missing());
}

void
mw_add_kernel_test(const char *name, GTestDataFunc test)
{
    g_autofree char *path = g_strdup_printf("/kernels/%s/%s", name, mw_test_device_name());

    mw_add_kernel_table_test(path, &mw_test_cuda_kernels, mw_test_device_missing() ? skip : test);
}
