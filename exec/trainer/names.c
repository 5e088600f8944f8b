/* Names the content of the drives in words that users know. */
#include "exec/data/weights.h"
#include "exec/trainer/checkpoint_internal.h"
#include "exec/trainer/internal.h"

/* Returns false if the tensor's description does not fit this decoder. */
static bool
find_piece(const struct mw_decoder *decoder, const struct mw_tensor *tensor, int64_t tile,
           int64_t element, struct mw_weights_piece *piece)
{
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int i = mw_weights_pieces(decoder, &part, pieces) - 1;

    if (i < 0)
        return false;
    while (i > 0 && pieces[i].at > element)
        i--;
    const struct mw_weight *weight = &pieces[i].weight;
    int64_t experts = MAX(1, weight->experts), of_one = weight->elements / experts;
    int64_t expert = MIN((pieces[i].first + element - pieces[i].at) / of_one, experts - 1);
    *piece = pieces[i];
    piece->weight = mw_weight_of_expert(weight, expert);
    piece->first -= expert * of_one; /* from the expert's own first element on */
    return true;
}

char *
mw_trainer_part_name(const struct mw_decoder *decoder, const struct mw_tensor *tensor, int64_t tile,
                     int64_t element)
{
    struct mw_weights_piece piece;

    return g_strdup(find_piece(decoder, tensor, tile, element, &piece) ? piece.weight.name
                                                                       : "an unknown tensor");
}

char *
mw_trainer_element_name(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                        int64_t tile, int64_t element, int state)
{
    struct mw_weights_piece piece;

    if (!find_piece(decoder, tensor, tile, element, &piece))
        return g_strdup("an unknown tensor");
    int64_t at = mw_weight_file_element(&piece.weight, piece.first + element - piece.at);
    return g_strdup_printf("\"%s%s\", element %" G_GINT64_FORMAT, mw_checkpoint_prefixes[state],
                           piece.weight.name, at);
}

char *
mw_trainer_tensor_name(const struct mw_trainer *trainer, const struct mw_piece *piece,
                       int64_t element)
{
    return mw_trainer_part_name(&trainer->plan->shape.decoder,
                                &trainer->plan->tensors[piece->tensor], piece->tile, element);
}

/* Name for a byte in a home of parameters or gradients; NULL for padding. */
static char *
name_at_home(const struct mw_trainer *trainer, uint32_t slot, int64_t at_bytes)
{
    const struct mw_plan *plan = trainer->plan;
    uint32_t index = trainer->variant->tensor_of_home[slot];
    const struct mw_tensor *tensor = &plan->tensors[index];
    bool params = plan->slots[slot].purpose == MW_PURPOSE_PARAMETERS;
    const struct mw_dtype_traits *type =
        mw_dtype_row(params ? tensor->dtype : tensor->gradient_dtype);
    int64_t stride = params ? tensor->param_stride : tensor->gradient_stride;
    int64_t at =
        at_bytes / type->block_bytes * type->block_elements; /* the block's first element */
    int64_t tile = at / stride, element = at % stride;
    struct mw_range shard = {0, 0};

    if (tile >= tensor->tiles)
        return NULL;
    if (!(params ? tensor->params_whole : tensor->gradients_whole))
        shard = mw_tensor_shard(tensor, trainer->rank, (uint32_t)tile);
    struct mw_piece piece = {.tensor = index, .tile = (uint32_t)tile};
    return mw_trainer_tensor_name(trainer, &piece, shard.first + element);
}

/* Name for a byte in a chunk's state. */
static char *
name_in_chunk(const struct mw_trainer *trainer, uint32_t slot, int64_t at_bytes)
{
    const struct mw_plan *plan = trainer->plan;

    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        const struct mw_trainer_chunk *chunk = &trainer->chunks[c];
        if (plan->chunks[c].slot != slot && plan->chunks[c].other_slot != slot)
            continue;
        int64_t at =
            mw_optimizer_element_at(plan->shape.optimizer, plan->chunks[c].elements, at_bytes);
        int64_t i = chunk->piece_count - 1;
        while (i > 0 && chunk->pieces[i].at > at)
            i--;
        return i < 0 ? NULL
                     : mw_trainer_tensor_name(trainer, &chunk->pieces[i],
                                              chunk->pieces[i].first + at - chunk->pieces[i].at);
    }
    return NULL;
}

static char *
name_at(const struct mw_trainer *trainer, uint32_t slot, int64_t at_bytes)
{
    enum mw_purpose purpose = (enum mw_purpose)trainer->plan->slots[slot].purpose;

    if (purpose == MW_PURPOSE_PARAMETERS || purpose == MW_PURPOSE_GRADIENTS)
        return name_at_home(trainer, slot, at_bytes);
    if (purpose == MW_PURPOSE_OPTIMIZER_STATE || purpose == MW_PURPOSE_OPTIMIZER_STATE_OTHER)
        return name_in_chunk(trainer, slot, at_bytes);
    return NULL;
}

/* Name of a checkpoint: the layer after whose group it is kept. */
static char *
name_checkpoint(const struct mw_trainer *trainer, uint32_t slot)
{
    uint32_t first = slot;

    while (first && trainer->plan->slots[first - 1].purpose == MW_PURPOSE_ACTIVATION_CHECKPOINTS)
        first--;
    return g_strdup_printf("activation checkpoint of layer %" G_GINT64_FORMAT,
                           (slot - first) * MAX(trainer->plan->shape.checkpoint_interval, 1));
}

char *
mw_trainer_whose(void *data, int64_t offset_bytes, int64_t bytes)
{
    const struct mw_trainer *trainer = data;
    const struct mw_plan *plan = trainer->plan;
    uint32_t s = 0;

    while (s < plan->slot_count &&
           (plan->slots[s].tier != MW_TIER_NVME || offset_bytes < plan->slots[s].offset_bytes ||
            offset_bytes >= plan->slots[s].offset_bytes + plan->slots[s].size_bytes))
        s++;
    if (s == plan->slot_count || !trainer->chunks)
        return NULL;
    if (plan->slots[s].purpose == MW_PURPOSE_ACTIVATION_CHECKPOINTS)
        return name_checkpoint(trainer, s);
    int64_t at = offset_bytes - plan->slots[s].offset_bytes;
    int64_t last = MIN(at + bytes, plan->slots[s].size_bytes) - 1;
    g_autofree char *from = name_at(trainer, s, at), *to = name_at(trainer, s, last);
    const char *what = mw_purpose_name(plan->slots[s].purpose);
    if (!from || !to)
        return g_strdup(what);
    return g_strcmp0(from, to) ? g_strdup_printf("%s of %s to %s", what, from, to)
                               : g_strdup_printf("%s of %s", what, from);
}
