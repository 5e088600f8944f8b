/* The tables of kernels that tests run: those of the cpu backend. */
#include "kernel_helpers.h"

void
mw_add_kernel_test(const char *name, GTestDataFunc test)
{
    for (int isa = 0; isa < MW_CPU_ISAS; isa++) {
        const struct mw_cpu_kernels *kernels = mw_cpu_kernels_of((enum mw_cpu_isa)isa);
        if (kernels == NULL)
            continue;
        g_autofree char *path =
            g_strdup_printf("/kernels/%s/%s", name, mw_cpu_isa_name((enum mw_cpu_isa)isa));
        g_test_add_data_func(path, kernels, test);
    }
}
