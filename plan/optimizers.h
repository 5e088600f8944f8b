/*
 * optimizers.h - what optimizers keep of an element, one row each.
 *
 * State is what is at rest beside the parameter and the gradient of 16 bits: an fp32 parameter
 * where the optimizer has one, and its moments.  An update reads all of it and writes all of it,
 * reads a gradient and writes a parameter.  Vectors of a matrix's rows and columns, of which
 * Adafactor and SM3 have one each, are not counted: a thousandth of the rest.
 */
#ifndef MW_PLAN_OPTIMIZERS_H
#define MW_PLAN_OPTIMIZERS_H

#include <stdbool.h>
#include <stdint.h>

/* In plans by name. */
enum mw_optimizer_kind {
    MW_OPTIMIZER_ADAMW,
    MW_OPTIMIZER_ADAMW_16BIT,
    MW_OPTIMIZER_ADAMW_8BIT,
    MW_OPTIMIZER_ADAMW_PURE,
    MW_OPTIMIZER_SGD,
    MW_OPTIMIZER_MOMENTUM,
    MW_OPTIMIZER_LION,
    MW_OPTIMIZER_ADAFACTOR,
    MW_OPTIMIZER_SM3,
    MW_OPTIMIZER_COUNT
};

struct mw_optimizer_row {
    const char *name;
    /* State of so many elements: with a scale for a block a whole one. */
    int64_t block_elements, block_bytes;
    bool runs; /* by the executor */
    const char *keeps, *source;
};

const struct mw_optimizer_row *mw_optimizer_row(int kind); /* NULL out of range */
const char *mw_optimizer_name(int kind);

/* State of elements: whole blocks. */
int64_t mw_optimizer_state_bytes(int kind, int64_t elements);

#endif
