/* The tables of launches, one for each type of 16-bit elements. */
#include "exec/device/cuda/half.h"

#define ROW_BF16(name) .name = mw_cuda_##name##_bf16,
#define ROW_FP16(name) .name = mw_cuda_##name##_fp16,

const struct mw_cuda_launches mw_cuda_launches_bf16 = {MW_CUDA_LAUNCHES(ROW_BF16)};
const struct mw_cuda_launches mw_cuda_launches_fp16 = {MW_CUDA_LAUNCHES(ROW_FP16)};
