/* The table of encodings. */
#include "plan/encodings.h"

#include <stddef.h>

/* Rows of so many elements, so that the place of one in its row has a byte (Gist, narrow value
 * optimization), and the number of the first one of a row. */
#define SPARSE_ROW 256
#define SPARSE_PLACE_BYTES 1
#define SPARSE_ROW_BYTES 4

static const struct mw_encoding_row rows[MW_ENCODING_COUNT] = {
    [MW_ENCODING_MXFP8] = {.name = "mxfp8",
                           .settings = "checkpoint-bits, kept-bits",
                           .of = "activation checkpoints, kept activations",
                           .runs = true,
                           .with_pass = true,
                           .cost = "a pass that reads 2 bytes an element and writes 33/32, and one "
                                   "back",
                           .source = "Gist (ISCA 2018), delayed precision reduction; OCP "
                                     "Microscaling Formats v1.0; scales as in arXiv 2506.08027"},
    [MW_ENCODING_RELU_MASK] = {.name = "relu-mask",
                               .settings = "relu-mask",
                               .of = "inputs of ReLU, of which backward needs the sign alone",
                               .lossless = true,
                               .cost = "a bit an element written by ReLU itself, and read back",
                               .source = "Gist (ISCA 2018), binarize"},
    [MW_ENCODING_SPARSE] = {.name = "sparse",
                            .settings = "relu-sparsity",
                            .of = "results of ReLU: those that are not zero, with their places",
                            .lossless = true,
                            .with_pass = true,
                            .cost =
                                "a pass that reads 2 bytes an element and writes 3 of each that "
                                "is not zero, and one back",
                            .source = "Gist (ISCA 2018), sparse storage and dense compute"},
    [MW_ENCODING_POOL_MAP] = {.name = "pool-map",
                              .of = "where a maximum came from, of pooling: transformers have none",
                              .lossless = true,
                              .cost = "half a byte an element written by pooling itself",
                              .source = "Gist (ISCA 2018), binarize, of max pooling"},
};

const struct mw_encoding_row *
mw_encoding_row(int encoding)
{
    return encoding >= 0 && encoding < MW_ENCODING_COUNT ? &rows[encoding] : NULL;
}

const char *
mw_encoding_name(int encoding)
{
    return encoding >= 0 && encoding < MW_ENCODING_COUNT ? rows[encoding].name : NULL;
}

uint32_t
mw_kept_encodings(const struct mw_kept_as *as)
{
    return (as->dtype == MW_DTYPE_MXFP8 ? UINT32_C(1) << MW_ENCODING_MXFP8 : 0) |
           (as->relu_mask ? UINT32_C(1) << MW_ENCODING_RELU_MASK : 0) |
           (as->relu_sparsity > 0 ? UINT32_C(1) << MW_ENCODING_SPARSE : 0);
}

static int64_t
whole(int64_t of, int64_t by)
{
    return of / by + (of % by > 0);
}

/* Sums and products of this many elements overflow: sizes of a model that nobody has. */
#define ELEMENTS_MAX (INT64_MAX / 16)

int64_t
mw_encoding_bytes(int encoding, int64_t elements, int64_t element_bytes, double sparsity)
{
    if (elements > ELEMENTS_MAX)
        return INT64_MAX;
    switch (encoding) {
    case MW_ENCODING_MXFP8:
        return mw_dtype_bytes(MW_DTYPE_MXFP8, elements);
    case MW_ENCODING_RELU_MASK:
        return whole(elements, 8);
    case MW_ENCODING_SPARSE:
        return (int64_t)((1 - sparsity) * (double)elements + 0.5) *
                   (element_bytes + SPARSE_PLACE_BYTES) +
               whole(elements, SPARSE_ROW) * SPARSE_ROW_BYTES;
    case MW_ENCODING_POOL_MAP:
        return whole(elements, 2);
    default:
        return elements * element_bytes;
    }
}

int64_t
mw_encoding_moved_bytes(int encoding, int64_t elements, int64_t element_bytes, double sparsity)
{
    const struct mw_encoding_row *row = mw_encoding_row(encoding);
    int64_t stored = mw_encoding_bytes(encoding, elements, element_bytes, sparsity);

    if (!row)
        return 0;
    if (elements > ELEMENTS_MAX)
        return INT64_MAX;
    return stored + (row->with_pass ? elements * element_bytes : 0);
}
