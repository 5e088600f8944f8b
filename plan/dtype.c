/* The table of element types. */
#include "plan/dtype.h"

#include <stddef.h>

#define DYNAMIC8(elements) .block_elements = elements, .block_bytes = elements + 4, .scale_bytes = 4

static const struct mw_dtype_traits rows[MW_DTYPE_COUNT] = {
    [MW_DTYPE_NONE] = {.name = "none", .block_elements = 1},
    [MW_DTYPE_BF16] = {.name = "bf16",
                       .block_elements = 1,
                       .block_bytes = 2,
                       .computes = true,
                       .products = MW_PRODUCTS_HALF},
    [MW_DTYPE_FP16] = {.name = "fp16",
                       .block_elements = 1,
                       .block_bytes = 2,
                       .computes = true,
                       .scales_loss = true,
                       .products = MW_PRODUCTS_HALF},
    [MW_DTYPE_FP32] = {.name = "fp32",
                       .block_elements = 1,
                       .block_bytes = 4,
                       .computes = true,
                       .products = MW_PRODUCTS_FP32},
    [MW_DTYPE_MXFP8] = {.name = "mxfp8", .block_elements = 32, .block_bytes = 33, .scale_bytes = 1},
    [MW_DTYPE_NF4] = {.name = "nf4", .block_elements = 64, .block_bytes = 36, .scale_bytes = 4},
    [MW_DTYPE_NF4_DOUBLE] = {.name = "nf4-double",
                             .block_elements = 256 * 64,
                             .block_bytes = 256 * (32 + 1) + 4,
                             .scale_bytes = 256 + 4},
    [MW_DTYPE_DYNAMIC8] = {.name = "dynamic8", DYNAMIC8(2048)},
    [MW_DTYPE_DYNAMIC8_SQUARES] = {.name = "dynamic8-squares", DYNAMIC8(2048)},
    [MW_DTYPE_FP8] = {.name = "fp8",
                      .block_elements = 1,
                      .block_bytes = 1,
                      .products = MW_PRODUCTS_FP8},
    [MW_DTYPE_DYNAMIC8_256] = {.name = "dynamic8-256", DYNAMIC8(256)},
    [MW_DTYPE_DYNAMIC8_256_SQUARES] = {.name = "dynamic8-256-squares", DYNAMIC8(256)},
};

const struct mw_dtype_traits *
mw_dtype_row(int dtype)
{
    return dtype >= 0 && dtype < MW_DTYPE_COUNT ? &rows[dtype] : NULL;
}

int64_t
mw_dtype_bytes(int dtype, int64_t elements)
{
    int64_t block = rows[dtype].block_elements;

    if (block == 1)
        return elements * rows[dtype].block_bytes;
    return (elements / block + (elements % block > 0)) * rows[dtype].block_bytes;
}

int
mw_dtype_bits(int dtype)
{
    return (int)(8 * (rows[dtype].block_bytes - rows[dtype].scale_bytes) /
                 rows[dtype].block_elements);
}

int64_t
mw_dtype_element_bytes(int dtype)
{
    return rows[dtype].block_elements == 1 ? rows[dtype].block_bytes : 0;
}
