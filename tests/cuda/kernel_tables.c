/* The tables of kernels that tests run: that of exec/device/cuda, where there is a device for
 * it. */
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
    g_autofree char *bf16 = g_strdup_printf("/kernels/%s/%s/bf16", name, mw_test_device_name());
    g_autofree char *fp16 = g_strdup_printf("/kernels/%s/%s/fp16", name, mw_test_device_name());

    test = mw_test_device_missing() ? skip : test;
    mw_add_kernel_table_test(bf16, &mw_test_cuda_bf16, test);
    mw_add_kernel_table_test(fp16, &mw_test_cuda_fp16, test);
}
