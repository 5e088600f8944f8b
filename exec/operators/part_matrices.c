/* Parts of fetch units as operators see them: which rows of which matrix, where. */
#include "exec/data/weights.h"
#include "exec/operators/compute.h"

static void
enter_norm(struct mw_part *part, const struct mw_weights_piece *piece)
{
    if (piece->weight.role == MW_WEIGHT_Q_NORM)
        part->q_norm_at = piece->at;
    else if (piece->weight.role == MW_WEIGHT_K_NORM)
        part->k_norm_at = piece->at;
    else if (piece->weight.start == MW_WEIGHT_ONE)
        part->norm_weight_at = piece->at;
    else
        part->norm_bias_at = piece->at;
}

/* Pieces of one matrix follow each other: q, k and v have rows of their own, one after the other;
 * gate and up have the same rows, which count once. */
static void
enter_rows(struct mw_part_matrix *matrix, const struct mw_weights_piece *piece, int64_t base_row)
{
    int64_t row = piece->weight.first_row - base_row + piece->first / piece->weight.row_elements;
    int64_t end = row + piece->count / piece->weight.row_elements;

    if (matrix->at < 0) {
        matrix->at = piece->at;
        matrix->first_row = row;
    }
    if (end > matrix->first_row + matrix->rows)
        matrix->rows = end - matrix->first_row;
}

static bool
is_adapter(const struct mw_weights_piece *piece)
{
    return mw_operator_row((int)piece->weight.operator_)->adapts != MW_OPERATOR_NONE;
}

/* Pieces of all A's come before those of the B's. */
static void
enter_adapter(struct mw_part *part, const struct mw_weights_piece *piece)
{
    int64_t *at = piece->weight.lora == MW_LORA_IN ? &part->lora_in_at : &part->lora_out_at;

    *at = *at < 0 ? piece->at : *at;
}

/* The first one's of all experts' matrices, which are neighbours. */
static void
enter_experts(struct mw_part *part, const struct mw_weights_piece *piece)
{
    int64_t rows = piece->weight.rows / piece->weight.experts;

    if (piece->weight.role == MW_WEIGHT_EXPERT_UP)
        return; /* behind those of the gates */
    part->matrix = (struct mw_part_matrix){.at = piece->at,
                                           .bias_at = -1,
                                           .rows = rows,
                                           .all_rows = rows,
                                           .columns = piece->weight.row_elements};
}

static void
enter(const struct mw_decoder *decoder, struct mw_part *part, const struct mw_weights_piece *piece)
{
    bool table = piece->weight.operator_ == MW_OPERATOR_EMBEDDING;

    if (is_adapter(piece))
        enter_adapter(part, piece);
    else if (!piece->weight.rows)
        enter_norm(part, piece);
    else if (piece->weight.role == MW_WEIGHT_ROUTER)
        part->router_at = piece->at;
    else if (piece->weight.experts)
        enter_experts(part, piece);
    else if (piece->weight.rank == 1)
        part->matrix.bias_at = part->matrix.bias_at < 0 ? piece->at : part->matrix.bias_at;
    else if (table && piece->weight.first_row)
        enter_rows(&part->positions, piece, decoder->vocab);
    else
        enter_rows(&part->matrix, piece, 0);
}

/* The whole matrices of a unit, however little of them the part has. */
static void
set_shapes(const struct mw_decoder *decoder, const struct mw_tensor *tensor, struct mw_part *part)
{
    struct mw_weight weights[MW_WEIGHTS_MAX];

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        int count = tensor->operators >> i & 1 && !mw_operator_row(i)->adapts
                        ? mw_weights_list(decoder, (enum mw_operator)i, tensor->layer, weights)
                        : 0;
        for (int w = 0; w < count; w++) {
            if (weights[w].rank != 2 || weights[w].experts || weights[w].role == MW_WEIGHT_ROUTER)
                continue;
            bool positions = i == MW_OPERATOR_EMBEDDING && weights[w].first_row;
            struct mw_part_matrix *matrix = positions ? &part->positions : &part->matrix;
            matrix->columns = weights[w].row_elements;
            matrix->all_rows = weights[w].rows + (positions ? 0 : weights[w].first_row);
        }
    }
}

struct mw_part
mw_part_of(const struct mw_decoder *decoder, const struct mw_tensor *tensor, int64_t tile)
{
    const struct mw_weights_part in = {
        .layer = tensor->layer,
        .operators = tensor->operators,
        .tiles = tensor->tiles,
        .tile = tile,
    };
    struct mw_part part = {
        .norm_weight_at = -1,
        .norm_bias_at = -1,
        .q_norm_at = -1,
        .k_norm_at = -1,
        .matrix = {.at = -1, .bias_at = -1},
        .positions = {.at = -1, .bias_at = -1},
        .router_at = -1,
        .lora_in_at = -1,
        .lora_out_at = -1,
    };
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int count = mw_weights_pieces(decoder, &in, pieces);

    set_shapes(decoder, tensor, &part);
    for (int i = 0; i < count; i++)
        enter(decoder, &part, &pieces[i]);
    part.elements = mw_weights_part_elements(decoder, &in);
    return part;
}
