/* Places of elements in the homes of tensors and chunks. */
#include "plan/plan.h"

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t
mw_plan_checksum_bytes(int64_t nvme_bytes)
{
    int64_t pages =
        nvme_bytes / MW_SLOT_ALIGNMENT_BYTES + (nvme_bytes % MW_SLOT_ALIGNMENT_BYTES > 0);

    return pages * MW_PAGE_CHECKSUM_BYTES;
}

static int64_t
row_grain(int64_t rows, int64_t tiles)
{
    return rows / MW_PART_ROWS_LEAST >= tiles ? MW_PART_ROW_GRAIN : 1;
}

static int64_t
whole_grains(int64_t rows, int64_t grain)
{
    return rows / grain + (rows % grain > 0);
}

int64_t
mw_part_first_row(int64_t rows, int64_t tiles, int64_t tile)
{
    int64_t grain = row_grain(rows, tiles), grains = whole_grains(rows, grain);
    /* Avoids the rows times the tile's number, which may not fit int64. */
    int64_t before = grains / tiles * tile + grains % tiles * tile / tiles;

    return tile < tiles ? before * grain : rows;
}

/* The last part is cut short, if any: where it alone has one grain more, it is the largest. */
int64_t
mw_part_rows_max(int64_t rows, int64_t tiles)
{
    int64_t grain = row_grain(rows, tiles), grains = whole_grains(rows, grain);

    if (tiles == 1 || grains % tiles == 1)
        return rows - mw_part_first_row(rows, tiles, tiles - 1);
    return whole_grains(grains, tiles) * grain;
}

int64_t
mw_tensor_part_elements(const struct mw_tensor *tensor, uint32_t tile)
{
    int64_t rows = mw_part_first_row(tensor->rows, tensor->tiles, tile + 1) -
                   mw_part_first_row(tensor->rows, tensor->tiles, tile);
    int64_t others = tensor->elements - tensor->rows * tensor->row_elements;

    return rows * tensor->row_elements + (tile ? 0 : others);
}

uint32_t
mw_tensor_holder(const struct mw_tensor *tensor, uint32_t dp_rank)
{
    return tensor->spread > 1 ? dp_rank / tensor->spread : dp_rank;
}

uint32_t
mw_plan_spread(const struct mw_plan *plan)
{
    uint32_t spread = 1;

    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].spread > spread)
            spread = plan->tensors[t].spread;
    return spread;
}

struct mw_range
mw_tensor_shard(const struct mw_tensor *tensor, uint32_t dp_rank, uint32_t tile)
{
    int64_t all = mw_tensor_part_elements(tensor, tile);
    int64_t first = least(all, mw_tensor_holder(tensor, dp_rank) * tensor->shard_elements);

    return (struct mw_range){first, least(tensor->shard_elements, all - first)};
}

static bool
is_whole(const struct mw_tensor *tensor, enum mw_home home)
{
    return home == MW_HOME_PARAMS      ? tensor->params_whole
           : home == MW_HOME_GRADIENTS ? tensor->gradients_whole
                                       : tensor->state_whole;
}

static int64_t
stride(const struct mw_tensor *tensor, enum mw_home home)
{
    return home == MW_HOME_PARAMS      ? tensor->param_stride
           : home == MW_HOME_GRADIENTS ? tensor->gradient_stride
                                       : tensor->state_stride;
}

int64_t
mw_tensor_place(const struct mw_tensor *tensor, enum mw_home home, uint32_t dp_rank, uint32_t tile,
                int64_t element)
{
    int64_t before =
        is_whole(tensor, home) ? 0 : mw_tensor_holder(tensor, dp_rank) * tensor->shard_elements;

    return tile * stride(tensor, home) + element - before;
}

struct mw_pieces
mw_chunk_pieces(const struct mw_plan *plan, const struct mw_chunk_content *chunk, uint32_t dp_rank)
{
    return (struct mw_pieces){plan, chunk, dp_rank, 0, 0, -chunk->first_element};
}

/* Returns the piece that the rank's state has of the next part, up to the end of the chunk. */
static struct mw_piece
cut(const struct mw_pieces *pieces)
{
    const struct mw_tensor *tensor =
        &pieces->plan->tensors[pieces->chunk->first_tensor + pieces->turn];
    struct mw_range part = {0, mw_tensor_part_elements(tensor, pieces->tile)};

    if (!tensor->trainable) /* a frozen tensor has no state */
        part.elements = 0;
    else if (!tensor->state_whole)
        part = mw_tensor_shard(tensor, pieces->dp_rank, pieces->tile);
    int64_t at = pieces->tensor_at + pieces->tile * tensor->state_stride; /* start of the part's
                                                                           * state */
    int64_t begin = most(at, 0), end = least(at + part.elements, pieces->chunk->elements);
    return (struct mw_piece){pieces->chunk->first_tensor + pieces->turn, pieces->tile,
                             part.first + begin - at, end - begin, begin};
}

bool
mw_pieces_next(struct mw_pieces *pieces, struct mw_piece *piece)
{
    while (pieces->turn < pieces->chunk->tensor_count) {
        const struct mw_tensor *tensor =
            &pieces->plan->tensors[pieces->chunk->first_tensor + pieces->turn];
        *piece = cut(pieces);
        if (++pieces->tile == tensor->tiles) {
            pieces->tensor_at += tensor->tiles * tensor->state_stride;
            pieces->tile = 0;
            pieces->turn++;
        }
        if (piece->elements > 0)
            return true;
    }
    return false;
}

bool
mw_plan_sums_passing(const struct mw_plan *plan, const struct mw_tensor *tensor)
{
    return plan->shape.layer_order && tensor->summed && tensor->trainable &&
           !tensor->gradients_whole && plan->slots[tensor->gradient_slot].tier != MW_TIER_GPU;
}

bool
mw_plan_gathers_checkpoints(const struct mw_plan *plan)
{
    for (uint32_t w = 0; w < plan->work_count; w++)
        if (plan->works[w].kind == MW_OP_ALL_GATHER &&
            plan->works[w].object == MW_OBJECT_CHECKPOINT)
            return true;
    return false;
}

bool
mw_plan_sums_norm(const struct mw_plan *plan, const struct mw_work *work)
{
    return work->kind == MW_OP_ALL_REDUCE && work->object == MW_OBJECT_GRADIENTS &&
           work->comm < plan->comm_count && plan->comms[work->comm].spans[MW_AXIS_TP].count > 1;
}
