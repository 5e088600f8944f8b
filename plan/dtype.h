/*
 * dtype.h - element types, one row each, apart from plans (plan/plan.h): kernels know no more.
 *
 * Elements are stored in blocks: of one element, or, where several share a scale, of these with
 * their scales.  Sizes in memory, on links and on drives come from the rows alone.
 */
#ifndef MW_PLAN_DTYPE_H
#define MW_PLAN_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Their numbers stand in records of durable runs: new ones come last. */
enum mw_dtype {
    MW_DTYPE_NONE,
    MW_DTYPE_BF16,
    MW_DTYPE_FP16,
    MW_DTYPE_FP32,
    MW_DTYPE_MXFP8, /* OCP Microscaling Formats v1.0: 32 of e4m3, a scale of 8 bits */
    MW_DTYPE_NF4,   /* QLoRA (arXiv 2305.14314) Sec. 2, 3: 64 of 4 bits, a scale of 32 bits */
    MW_DTYPE_COUNT
};

/* Which profile key says how fast products of such elements are. */
enum mw_products_rate {
    MW_PRODUCTS_NONE, /* there are none: they are widened first */
    MW_PRODUCTS_HALF, /* gpu.peak_tflops, with the curves */
    MW_PRODUCTS_FP32, /* gpu.fp32_tflops */
};

struct mw_dtype_traits {
    const char *name;
    int64_t block_elements, block_bytes;
    int64_t scale_bytes; /* of the block's bytes */
    bool computes;       /* parameters, activations and gradients can be of it */
    bool scales_loss;    /* its range asks for a scaled loss */
    enum mw_products_rate products;
};
const struct mw_dtype_traits *mw_dtype_row(int dtype); /* NULL out of range */

/* Bytes of this many elements, in whole blocks; 0 for MW_DTYPE_NONE. */
int64_t mw_dtype_bytes(int dtype, int64_t elements);
/* Of one; of a type with blocks of several 0: nothing lies between them. */
int64_t mw_dtype_element_bytes(int dtype);

#ifdef __cplusplus
}
#endif

#endif
