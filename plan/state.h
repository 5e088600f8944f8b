/* state.h - the optimizer's state and update of an element, as homes, kernels and rates have it. */
#ifndef MW_PLAN_STATE_H
#define MW_PLAN_STATE_H

/* The arithmetic of an update: exec/operators/kernel_types.h. */
enum mw_update_rule { MW_UPDATE_ADAMW, MW_UPDATE_SGD, MW_UPDATE_MOMENTUM, MW_UPDATE_LION };

enum {
    MW_STATE_BYTES = 12, /* AdamW's fp32 parameter, momentum and variance */
    /* A fused unscale, clip, Adam and cast reads all of it and writes all of it.  Beside it the
     * update reads a gradient, and writes the parameter as operators read it: 28 bytes if both have
     * 16 bits. */
    MW_UPDATE_STATE_BYTES = 2 * MW_STATE_BYTES
};

#endif
