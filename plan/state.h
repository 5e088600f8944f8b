/* state.h - the optimizer's state and update of an element, as homes, kernels and rates have it. */
#ifndef MW_PLAN_STATE_H
#define MW_PLAN_STATE_H

/* The arithmetic of an update: exec/operators/kernel_types.h. */
enum mw_update_rule {
    MW_UPDATE_ADAMW,
    MW_UPDATE_SGD,
    MW_UPDATE_MOMENTUM,
    MW_UPDATE_LION,
    /* with vectors of rows and columns: struct mw_update_vectors */
    MW_UPDATE_SM3,
    MW_UPDATE_ADAFACTOR
};

enum {
    /* A sum of squares that has the same bits in any order: exec/operators/kernel_types.h. */
    MW_EXACT_DIGITS = 6,
    MW_EXACT_SUM_BYTES = 8 * MW_EXACT_DIGITS,
    MW_STATE_BYTES = 12, /* AdamW's fp32 parameter, momentum and variance */
    /* A fused unscale, clip, Adam and cast reads all of it and writes all of it.  Beside it the
     * update reads a gradient, and writes the parameter as operators read it: 28 bytes if both have
     * 16 bits. */
    MW_UPDATE_STATE_BYTES = 2 * MW_STATE_BYTES
};

#endif
