/* The tables of launches, one for each type of 16-bit elements. */
#include "exec/device/cuda/half.h"

const struct mw_cuda_launches mw_cuda_launches_bf16 = {
#define MW_KERNEL(name, parameters, arguments) .name = mw_cuda_##name##_bf16,
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH MW_KERNEL
#include "exec/operators/kernel_list.h"
};

const struct mw_cuda_launches mw_cuda_launches_fp16 = {
#define MW_KERNEL(name, parameters, arguments) .name = mw_cuda_##name##_fp16,
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH MW_KERNEL
#include "exec/operators/kernel_list.h"
};
