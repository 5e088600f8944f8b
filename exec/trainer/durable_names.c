/* Names the state in an extent of a record. */
#include "exec/trainer/durable.h"
#include "exec/trainer/internal.h"

struct found {
    char *first, *last; /* NULL if there are no names yet */
};

static void
add_piece(struct found *found, const struct mw_plan *plan, const struct mw_decoder *decoder,
          const struct mw_piece *piece)
{
    const struct mw_tensor *tensor = &plan->tensors[piece->tensor];

    if (!found->first)
        found->first = mw_trainer_part_name(decoder, tensor, piece->tile, piece->first);
    g_free(found->last);
    found->last =
        mw_trainer_part_name(decoder, tensor, piece->tile, piece->first + piece->elements - 1);
}

static void
add_chunk(struct found *found, const struct mw_plan *plan, const struct mw_decoder *decoder,
          int rank, uint32_t chunk)
{
    struct mw_pieces walk = mw_chunk_pieces(plan, &plan->chunks[chunk], (uint32_t)rank);

    for (struct mw_piece piece; mw_pieces_next(&walk, &piece);)
        add_piece(found, plan, decoder, &piece);
}

/* For state in memory, chunk after chunk: adds the chunks that have a part in the block. */
static void
add_block(struct found *found, const struct mw_durable_part *part, int64_t begin, int64_t bytes)
{
    const struct mw_plan *plan = part->plan;
    int64_t at = 0;

    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        int64_t chunk_bytes = mw_trainer_state_bytes(plan, c);
        if (mw_trainer_on_drives(plan, c))
            continue;
        if (at < begin + bytes && begin < at + chunk_bytes)
            add_chunk(found, plan, &part->decoder, part->rank, c);
        at += chunk_bytes;
    }
}

char *
mw_durable_names(const struct mw_durable_options *run, int rank, int ranks,
                 const struct mw_commit_extent *extent)
{
    if (extent->id < 0 || rank < 0 || rank >= ranks || !mw_durable_divides(run, ranks))
        return NULL;
    const struct mw_durable_part part = mw_durable_part(run, rank, ranks);
    const struct mw_plan *plan = part.plan;
    const int64_t block = extent->id - plan->chunk_count;
    const bool shared = mw_trainer_saves_shared(plan, (uint32_t)part.ranks);
    struct found found = {NULL, NULL};

    if (shared && mw_plan_is_delayed(plan))
        return NULL;
    if (block < 0)
        add_chunk(&found, plan, &part.decoder, part.rank, (uint32_t)extent->id);
    else if (block <= INT64_MAX / 2 / MW_TRAINER_SAVE_BYTES)
        add_block(
            &found, &part,
            mw_trainer_save_range(plan, false, (uint32_t)part.rank, (uint32_t)part.ranks).first +
                block * MW_TRAINER_SAVE_BYTES,
            extent->bytes);
    char *text = found.first ? g_strdup_printf("state of %s to %s", found.first, found.last)
                 : block >= 0 && mw_plan_is_delayed(plan)
                     ? g_strdup("gradients of a delayed update")
                 : block >= 0 && mw_optimizer_has_vectors(plan->shape.optimizer)
                     ? g_strdup("vectors of rows and columns")
                     : NULL;
    g_free(found.first);
    g_free(found.last);
    return text;
}
