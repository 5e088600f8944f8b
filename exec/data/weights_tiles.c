/* Parts: tiles of fetch units, cut into pieces of tensors. */
#include "exec/data/weights_internal.h"

/* --- counts ---------------------------------------------------------------------------------- */

static bool
is_of_layers(int operator_)
{
    return mw_operator_row(operator_)->place == MW_PLACE_BLOCK;
}

int64_t
mw_weights_operator_elements(const struct mw_decoder *decoder, enum mw_operator operator_)
{
    struct mw_weight weights[MW_WEIGHTS_MAX];
    int64_t elements = 0;

    for (int i = mw_weights_list(decoder, operator_, 0, weights) - 1; i >= 0; i--)
        elements += weights[i].elements;
    return elements;
}

/* Elements of the operators before `end`, which come in the model's order: those of one layer, and
 * those outside the layers.  Adapters are numbered apart: with them the model starts as without. */
struct before {
    int64_t layer, ends;
};

static bool
is_adapter(int operator_)
{
    return mw_operator_row(operator_)->adapts != MW_OPERATOR_NONE;
}

static struct before
sum_before(const struct mw_decoder *decoder, int end, bool adapters)
{
    struct before before = {0};

    for (int i = 0; i < end; i++)
        if (is_adapter(i) == adapters)
            *(is_of_layers(i) ? &before.layer : &before.ends) +=
                mw_weights_operator_elements(decoder, i);
    return before;
}

int64_t
mw_weights_elements(const struct mw_decoder *decoder)
{
    struct before own = sum_before(decoder, MW_OPERATOR_COUNT, false);
    struct before adapters = sum_before(decoder, MW_OPERATOR_COUNT, true);

    return own.ends + decoder->layers * (own.layer + adapters.layer);
}

int64_t
mw_weights_operator_begin(const struct mw_decoder *decoder, enum mw_operator operator_,
                          int64_t layer)
{
    bool adapters = is_adapter((int)operator_);
    struct before before = sum_before(decoder, (int)operator_, adapters);

    if (is_of_layers(operator_))
        return before.ends + layer * sum_before(decoder, MW_OPERATOR_COUNT, adapters).layer +
               before.layer;
    return before.ends + decoder->layers * before.layer;
}

/* --- pieces ---------------------------------------------------------------------------------- */

/* The largest operator, and the first of several, as the planner chooses it. */
static enum mw_operator
largest(const struct mw_decoder *decoder, uint32_t operators)
{
    enum mw_operator best = MW_OPERATOR_NONE;
    int64_t most = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        int64_t elements = operators >> i & 1 ? mw_weights_operator_elements(decoder, i) : 0;
        if (elements > most) {
            most = elements;
            best = i;
        }
    }
    return best;
}

int64_t
mw_weights_rows(const struct mw_decoder *decoder, uint32_t operators)
{
    enum mw_operator operator_ = largest(decoder, operators);
    struct mw_weight weights[MW_WEIGHTS_MAX];
    int count = mw_weights_list(decoder, operator_, 0, weights);
    int64_t rows = 1;

    for (int i = 0; i < count; i++)
        rows = MAX(rows, weights[i].first_row + weights[i].rows);
    return rows;
}

struct rows {
    enum mw_operator operator_; /* that is cut */
    int64_t begin, end;
};

static struct rows
rows_of(const struct mw_decoder *decoder, const struct mw_weights_part *part)
{
    int64_t rows = mw_weights_rows(decoder, part->operators);

    return (struct rows){
        .operator_ = largest(decoder, part->operators),
        .begin = mw_part_first_row(rows, part->tiles, part->tile),
        .end = mw_part_first_row(rows, part->tiles, part->tile + 1),
    };
}

/* Tile 0 has the whole of every tensor that is not cut. */
static struct mw_weights_piece
piece_of(const struct mw_weight *weight, const struct rows *rows, int64_t tile)
{
    struct mw_weights_piece piece = {.weight = *weight};

    if (weight->operator_ != rows->operator_ || !weight->rows) {
        piece.count = tile ? 0 : weight->elements;
        return piece;
    }
    int64_t begin = CLAMP(rows->begin - weight->first_row, 0, weight->rows);
    int64_t end = CLAMP(rows->end - weight->first_row, 0, weight->rows);
    piece.first = begin * weight->row_elements;
    piece.count = (end - begin) * weight->row_elements;
    return piece;
}

int
mw_weights_pieces(const struct mw_decoder *decoder, const struct mw_weights_part *part,
                  struct mw_weights_piece out[MW_WEIGHTS_PIECES_MAX])
{
    struct rows rows = rows_of(decoder, part);
    struct mw_weight weights[MW_WEIGHTS_MAX];
    int64_t at = 0;
    int pieces = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        int count =
            part->operators >> i & 1 ? mw_weights_list(decoder, i, part->layer, weights) : 0;
        for (int j = 0; j < count; j++) {
            struct mw_weights_piece piece = piece_of(&weights[j], &rows, part->tile);
            piece.at = at;
            at += piece.count;
            if (piece.count)
                out[pieces++] = piece;
        }
    }
    return pieces;
}

int64_t
mw_weights_part_elements(const struct mw_decoder *decoder, const struct mw_weights_part *part)
{
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int count = mw_weights_pieces(decoder, part, pieces);

    return count ? pieces[count - 1].at + pieces[count - 1].count : 0;
}

bool
mw_weights_walk(const struct mw_decoder *decoder, const struct mw_weights_part *part, int64_t first,
                int64_t count, mw_weights_visit visit, void *data)
{
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int piece_count = mw_weights_pieces(decoder, part, pieces);

    for (int i = 0; i < piece_count; i++) {
        struct mw_weights_piece *piece = &pieces[i];
        int64_t begin = MAX(first, piece->at), end = MIN(first + count, piece->at + piece->count);
        if (begin >= end)
            continue;
        piece->first += begin - piece->at;
        piece->count = end - begin;
        piece->at = begin - first;
        if (!visit(piece, data))
            return false;
    }
    return true;
}

int64_t
mw_weights_padding(const struct mw_decoder *decoder, const struct mw_weights_part *part,
                   int64_t first, int64_t count)
{
    int64_t inside = mw_weights_part_elements(decoder, part) - first;

    return count - CLAMP(inside, 0, count);
}
