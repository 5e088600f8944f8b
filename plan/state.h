/* state.h - the optimizer's state of an element, as records, homes and updates have it. */
#ifndef MW_PLAN_STATE_H
#define MW_PLAN_STATE_H

enum {
    MW_STATE_BYTES = 12, /* fp32 parameter, momentum and variance */
    /* A fused unscale, clip, Adam and cast reads all of it and writes all of it.  Beside it the
     * update reads a gradient, and writes the parameter as operators read it: 28 bytes if both have
     * 16 bits. */
    MW_UPDATE_STATE_BYTES = 2 * MW_STATE_BYTES
};

#endif
