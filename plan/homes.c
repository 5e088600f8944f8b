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
    int64_t pages = nvme_bytes / MW_SLOT_ALIGNMENT_BYTES +
                    (nvme_bytes % MW_SLOT_ALIGNMENT_BYTES > 0);

    return pages * MW_PAGE_CHECKSUM_BYTES;
}

/* Avoids rows times the tile's number, which may not fit int64. */
static int64_t
first_row(const struct mw_tensor *tensor, uint32_t tile)
{
    int64_t each = tensor->rows / tensor->tiles, rest = tensor->rows % tensor->tiles;

    return each * tile + rest * tile / tensor->tiles;
}

int64_t
mw_tensor_part_elements(const struct mw_tensor *tensor, uint32_t tile)
{
    int64_t rows = first_row(tensor, tile + 1) - first_row(tensor, tile);
    int64_t others = tensor->elements - tensor->rows * tensor->row_elements;

    return rows * tensor->row_elements + (tile ? 0 : others);
}

struct mw_range
mw_tensor_shard(const struct mw_tensor *tensor, uint32_t dp_rank, uint32_t tile)
{
    int64_t all = mw_tensor_part_elements(tensor, tile);
    int64_t first = least(all, dp_rank * tensor->shard_elements);

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
    int64_t before = is_whole(tensor, home) ? 0 : dp_rank * tensor->shard_elements;

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
