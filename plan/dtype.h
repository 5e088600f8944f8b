/*
 * dtype.h - element types, one row each, apart from plans (plan/plan.h), since kernels need no
 * more.
 *
 * Elements are stored in blocks.  A block is one element or, where several elements share a scale,
 * these elements and their scales.  Sizes in memory, on links and on drives come only from the
 * rows.
 */
#ifndef MW_PLAN_DTYPE_H
#define MW_PLAN_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Records of durable runs hold these numbers, so new types come last. */
enum mw_dtype {
    MW_DTYPE_NONE,
    MW_DTYPE_BF16,
    MW_DTYPE_FP16,
    MW_DTYPE_FP32,
    MW_DTYPE_MXFP8, /* OCP Microscaling Formats v1.0: blocks of 32 e4m3 elements with a scale of 8
                     * bits */
    MW_DTYPE_NF4,   /* QLoRA (arXiv 2305.14314) Sec. 2, 3: blocks of 64 elements of 4 bits with a
                     * scale of 32 bits */
    MW_DTYPE_NF4_DOUBLE, /* the same, double quantization: a scale has 8 bits, and 256 of them one
                          * of 32 bits: 4.127 bits per element */
    MW_DTYPE_DYNAMIC8,   /* arXiv 2110.02861 Sec. 2: blocks of 2048 moments of 8 bits, dynamic tree
                           * quantized, with a scale of 32 bits */
    MW_DTYPE_DYNAMIC8_SQUARES, /* the same of squares, without signs */
    MW_DTYPE_FP8, /* operands of products alone: e4m3 forward, e5m2 for gradients, a scale per
                          * tensor that is not counted (Transformer Engine's hybrid recipe) */
    MW_DTYPE_DYNAMIC8_256, /* as bitsandbytes has had them since 0.44: a scale for 256 moments */
    MW_DTYPE_DYNAMIC8_256_SQUARES,
    MW_DTYPE_COUNT
};

/* The profile key with the speed of products of such elements. */
enum mw_products_rate {
    MW_PRODUCTS_NONE, /* no products: elements are widened first */
    MW_PRODUCTS_HALF, /* gpu.peak_tflops, with the curves */
    MW_PRODUCTS_FP32, /* gpu.fp32_tflops */
    MW_PRODUCTS_FP8,  /* gpu.fp8_tile_tflops */
};

struct mw_dtype_traits {
    const char *name;
    int64_t block_elements, block_bytes;
    int64_t scale_bytes; /* bytes of a block that are scales */
    bool computes;       /* parameters, activations and gradients can have this type */
    bool scales_loss;    /* its range needs a scaled loss */
    enum mw_products_rate products;
};
const struct mw_dtype_traits *mw_dtype_row(int dtype); /* NULL for a number out of range */

/* Bytes of this many elements, in whole blocks; 0 for MW_DTYPE_NONE. */
int64_t mw_dtype_bytes(int dtype, int64_t elements);
/* Bits of one element, without its share of a scale. */
int mw_dtype_bits(int dtype);
/* Bytes of one element; 0 for a type whose blocks have several, as none of these can be addressed
 * alone. */
int64_t mw_dtype_element_bytes(int dtype);

#ifdef __cplusplus
}
#endif

#endif
