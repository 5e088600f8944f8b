/* Frozen weights in few bits. */
#include "exec/trainer/narrow.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "exec/data/blocks.h"
#include "exec/data/weights.h"

/* Biases are a few of a part's elements. */
#define PIECE_ELEMENTS 65536

bool
mw_narrow_is(const struct mw_tensor *tensor)
{
    return !mw_dtype_row(tensor->dtype)->computes;
}

/* --- which can be encoded -------------------------------------------------------------------- */

/* Whether the blocks of a matrix are the same however its rows are cut: the last one may be short,
 * if nothing follows in the part. */
static bool
has_whole_blocks(const struct mw_weights_piece *piece, int64_t block, int64_t part_elements)
{
    bool last = piece->at + piece->count == part_elements &&
                piece->first + piece->count == piece->weight.elements;

    return piece->at % block == 0 && piece->first % block == 0 &&
           (piece->count % block == 0 || last);
}

static bool
check_part(const struct mw_decoder *decoder, const struct mw_tensor *tensor, int64_t tile,
           GError **error)
{
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int count = mw_weights_pieces(decoder, &part, pieces);
    int64_t block = mw_dtype_row(tensor->dtype)->block_elements;
    int64_t all = mw_weights_part_elements(decoder, &part);

    for (int i = 0; i < count; i++) {
        const struct mw_weights_piece *piece = &pieces[i];
        if (piece->weight.operator_ != pieces[0].weight.operator_)
            return mw_fail(error, MW_ERROR_INVALID,
                           "%s is narrow, in one tensor with another operator's: no run has that",
                           piece->weight.name);
        if (piece->weight.rank == 2 && !has_whole_blocks(piece, block, all))
            return mw_fail(error, MW_ERROR_INVALID,
                           "{weight-bits}: %s: its rows %" PRId64 " to %" PRId64 " of %" PRId64
                           " elements, part %" PRId64 " of %" PRIu32
                           " by {tiles}, are not whole blocks of %" PRId64 ": %s needs %s"
                           "a model whose rows are, or {weight-bits=%s}",
                           piece->weight.name, piece->first / piece->weight.row_elements,
                           (piece->first + piece->count) / piece->weight.row_elements,
                           piece->weight.row_elements, tile + 1, tensor->tiles, block,
                           mw_dtype_name(tensor->dtype), tensor->tiles > 1 ? "other tiles, " : "",
                           tensor->dtype == MW_DTYPE_NF4_DOUBLE ? "4" : "16");
    }
    return true;
}

bool
mw_narrow_check(const struct mw_decoder *decoder, const struct mw_tensor *tensor, GError **error)
{
    if (!mw_narrow_is(tensor))
        return true;
    if (!mw_blocks_hold((enum mw_dtype)tensor->dtype))
        return mw_fail(error, MW_ERROR_INVALID, "frozen weights in %s: no run has them",
                       mw_dtype_name(tensor->dtype));
    for (uint32_t tile = 0; tile < tensor->tiles; tile++)
        if (!check_part(decoder, tensor, tile, error))
            return false;
    return true;
}

/* --- encoding -------------------------------------------------------------------------------- */

/* The first of a part's biases, which are its last elements; the part's end where it has none. */
static int64_t
bias_begin(const struct mw_part *part)
{
    return part->matrix.bias_at < 0 ? part->elements : part->matrix.bias_at;
}

bool
mw_narrow_largest_bias(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                       mw_narrow_read read, void *data, float *largest, GError **error)
{
    g_autofree float *values = g_new(float, PIECE_ELEMENTS);

    *largest = 0;
    for (uint32_t tile = 0; tile < tensor->tiles; tile++) {
        struct mw_part part = mw_part_of(decoder, tensor, tile);
        for (int64_t at = bias_begin(&part); at < part.elements; at += PIECE_ELEMENTS) {
            int64_t count = MIN(PIECE_ELEMENTS, part.elements - at);
            if (!read(data, tensor, tile, at, count, values, error))
                return false;
            for (int64_t i = 0; i < count; i++)
                *largest = MAX(*largest, fabsf(values[i]));
        }
    }
    return true;
}

void
mw_narrow_encode(const struct mw_tensor *tensor, const struct mw_part *part, const float *values,
                 int64_t first, int64_t count, float largest_bias, void *out)
{
    enum mw_dtype dtype = (enum mw_dtype)tensor->dtype;
    int64_t own = CLAMP(bias_begin(part) - first, 0, count);

    mw_blocks_encode(dtype, values, own, 0, out);
    mw_blocks_encode(dtype, values + own, count - own, largest_bias,
                     (char *)out + mw_dtype_bytes((int)dtype, own));
}
