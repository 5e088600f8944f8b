/* The tables of kernels that tests run: those of the cpu backend. */
#include "kernel_helpers.h"

static void
add_test(const char *name, enum mw_cpu_isa isa, enum mw_dtype dtype, GTestDataFunc test)
{
    const struct mw_cpu_kernels *kernels = mw_cpu_kernels_of(isa, dtype);
    if (kernels == NULL)
        return;
    g_autofree char *path = g_strdup_printf("/kernels/%s/%s/%s", name, mw_cpu_isa_name(isa),
                                            dtype == MW_DTYPE_FP16 ? "fp16" : "bf16");
    mw_add_kernel_table_test(path, kernels, test);
}

void
mw_add_kernel_test(const char *name, GTestDataFunc test)
{
    for (int isa = 0; isa < MW_CPU_ISAS; isa++) {
        add_test(name, (enum mw_cpu_isa)isa, MW_DTYPE_BF16, test);
        add_test(name, (enum mw_cpu_isa)isa, MW_DTYPE_FP16, test);
    }
}
