/*
 * encodings.h - how activations that backward needs may be stored meanwhile, one row each.
 *
 * An encoding stores elements after their last use in forward, and restores them before their use
 * in backward.  Those of Gist (Jain et al., ISCA 2018) are here as far as a transformer has what
 * they are for.
 */
#ifndef MW_PLAN_ENCODINGS_H
#define MW_PLAN_ENCODINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/dtype.h"

/* In plans by name. */
enum mw_encoding {
    MW_ENCODING_MXFP8,
    MW_ENCODING_RELU_MASK,
    MW_ENCODING_SPARSE,
    MW_ENCODING_POOL_MAP,
    MW_ENCODING_COUNT
};

struct mw_encoding_row {
    const char *name;
    const char *settings; /* that ask for it, separated by commas; NULL: none does */
    const char *of;       /* what it stores */
    bool lossless;
    bool runs;      /* by the executor */
    bool with_pass; /* elements are read in a pass of their own; else by what computes them */
    const char *cost, *source;
};

const struct mw_encoding_row *mw_encoding_row(int encoding); /* NULL out of range */
const char *mw_encoding_name(int encoding);

/* How kept activations are stored. */
struct mw_kept_as {
    enum mw_dtype dtype;  /* MW_DTYPE_NONE: as they are */
    bool relu_mask;       /* of ReLU's inputs a bit each */
    double relu_sparsity; /* share of zeros among ReLU's results, which are left out; 0: none are */
};

/* Bits 1 << enum mw_encoding; 0: all are stored as they are. */
uint32_t mw_kept_encodings(const struct mw_kept_as *as);

/* Bytes that so many elements, of element_bytes each as they are, are stored in; and that storing
 * them moves, as restoring them does. */
int64_t mw_encoding_bytes(int encoding, int64_t elements, int64_t element_bytes, double sparsity);
int64_t mw_encoding_moved_bytes(int encoding, int64_t elements, int64_t element_bytes,
                                double sparsity);

#endif
