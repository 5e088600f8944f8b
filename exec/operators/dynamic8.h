/*
 * dynamic8.h - moments in 8 bits, for the kernels of all devices: a block is 2048 codes and a scale
 * in fp32; each code one of 256 values from -0.993 to 1, or from 0 to 1 for squares (dynamic tree
 * quantization, arXiv 2110.02861 Sec. 2).
 *
 * Codes count from the value 0 upwards, and downwards from 255: memory of zeros holds zeros.
 */
#ifndef MW_EXEC_OPERATORS_DYNAMIC8_H
#define MW_EXEC_OPERATORS_DYNAMIC8_H

#include <math.h> /* INFINITY */
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MW_DYNAMIC8_CODES 256
#define MW_DYNAMIC8_BLOCK 2048
#define MW_DYNAMIC8_BYTES (MW_DYNAMIC8_BLOCK + 4)

/* A value's bits above the shift find its bucket, which at most one middle of two neighbours lies
 * in.  Bucket 0 has what is smaller than 2^-24, and nearest to 0; the last one begins at 1. */
#define MW_DYNAMIC8_SHIFT 15
#define MW_DYNAMIC8_BEFORE (((127 - 24) << (23 - MW_DYNAMIC8_SHIFT)) - 1)
#define MW_DYNAMIC8_BUCKETS ((24 << (23 - MW_DYNAMIC8_SHIFT)) + 2)

/* Kernels take it by value. */
struct mw_dynamic8_codes {
    float values[MW_DYNAMIC8_CODES]; /* by code */
    int32_t least;                   /* code of what is not 0: of a square never that of 0, as an
                                      * update divides by its root */
    int32_t largest;                 /* the code of 1; -1 has none */
};

/* Magnitudes up to it have a code or one below, those above it the next one's; from the largest
 * code on all have that. */
#define MW_DYNAMIC8_MIDDLE(codes, code)                                                            \
    ((code) < (codes).largest ? ((codes).values[code] + (codes).values[(code) + 1]) / 2            \
                              : (float)INFINITY)

struct mw_dynamic8 {
    struct mw_dynamic8_codes codes;
    int32_t below[MW_DYNAMIC8_BUCKETS]; /* code of the least magnitude in a bucket */
    float middle[MW_DYNAMIC8_BUCKETS];  /* above that code */
};

/* Of squares, which have no signs; or of any moments. */
const struct mw_dynamic8 *mw_dynamic8_of(bool squares);

#ifdef __cplusplus
}
#endif

#endif
