/*
 * Adafactor clips the update of a tensor whose root mean square is above 1 (arXiv 1804.04235,
 * Algorithm 4, line 8, with the d that its Sec. 6 proposes).  The squares are those of what the
 * update would take, by factors that follow from all gradients: so this is another pass over them,
 * between the ranks' agreement on the norm and the first update.  Each tensor has an exact sum, the
 * same in any order.  The pass reads gradients at home, also from drives; no op overwrites them
 * before the update, which waits for the agreement.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/trainer/internal.h"

/* Of a gradient on drives so many elements are read at a time. */
#define READ_ELEMENTS (16 * MW_NORM_BLOCK)

struct clipping {
    struct mw_trainer *trainer;
    struct mw_exact_sum *sums; /* one for each place */
    char *buffer;              /* for what drives hold */
    const char *gradient;      /* of the elements that are walked over */
    int64_t gradient_bytes;
};

/* Of a delayed update the gradients' sums are made in the step before where they go to drives: a
 * resume would have lost them. */
bool
mw_trainer_check_clips(const struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;

    if (mw_optimizer_row(plan->shape.optimizer)->rule != MW_UPDATE_ADAFACTOR ||
        mw_variants_delayed_from(trainer->storage.variants) < 0)
        return true;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].trainable &&
            plan->slots[plan->tensors[t].gradient_slot].tier == MW_TIER_NVME)
            return mw_refuse(error, "{dpu-start}, {optimizer=adafactor}: gradients must be in host "
                                    "or GPU memory; give {gradient-device=cpu}");
    return true;
}

static bool
add_piece(const struct mw_weights_piece *piece, void *data)
{
    const struct clipping *it = data;
    const struct mw_trainer_vectors *of = &it->trainer->vectors;
    struct mw_update_vectors vectors = mw_vectors_of(of->places, piece, of->next, of->next);

    it->trainer->kernels->update_squares(
        &it->trainer->now.update, &vectors, it->gradient + it->gradient_bytes * piece->at,
        it->gradient_bytes == 4, piece->count, &it->sums[mw_vectors_place_of(of->places, piece)]);
    return true;
}

/* So many elements of a part, from `first` on, from home or from where drives hold them. */
static bool
find_gradient(struct clipping *it, const struct mw_tensor *tensor, int64_t home_bytes,
              int64_t count, GError **error)
{
    const struct mw_storage *storage = &it->trainer->storage;
    const struct mw_slot *slot = &it->trainer->plan->slots[tensor->gradient_slot];

    if (slot->tier != MW_TIER_NVME) {
        it->gradient = mw_storage_address(storage, tensor->gradient_slot, home_bytes);
        return true;
    }
    it->gradient = it->buffer;
    return mw_nvme_transfer(storage->nvme, MW_NVME_READ, slot->offset_bytes + home_bytes,
                            mw_in_pages(it->gradient_bytes * count), it->buffer, error);
}

static bool
add_part(struct clipping *it, uint32_t index, uint32_t tile, GError **error)
{
    const struct mw_trainer *trainer = it->trainer;
    const struct mw_tensor *tensor = &trainer->plan->tensors[index];
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};
    struct mw_range mine = mw_trainer_state_of(trainer, index, tile);

    it->gradient_bytes = mw_trainer_gradient_bytes(tensor);
    for (int64_t i = 0; i < mine.elements; i += READ_ELEMENTS) {
        int64_t count = MIN(READ_ELEMENTS, mine.elements - i), first = mine.first + i;
        int64_t at = mw_tensor_place(tensor, MW_HOME_GRADIENTS, trainer->rank, tile, first);
        if (!find_gradient(it, tensor, it->gradient_bytes * at, count, error))
            return false;
        mw_weights_walk(&trainer->plan->shape.decoder, &part, first, count, add_piece, it);
    }
    return true;
}

/* Of what all ranks hold only the first one counts. */
static bool
add_tensors(struct clipping *it, GError **error)
{
    const struct mw_trainer *trainer = it->trainer;
    const struct mw_plan *plan = trainer->plan;

    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        if (!tensor->trainable || (tensor->state_whole && trainer->rank) ||
            !mw_trainer_has_gradient(trainer, tensor->layer))
            continue;
        for (uint32_t tile = 0; tile < tensor->tiles; tile++)
            if (!add_part(it, t, tile, error))
                return false;
    }
    return true;
}

/* The factors of its first side, or of its only one, become smaller. */
static void
clip(const struct mw_trainer_vectors *of, const struct mw_vectors_place *place,
     const struct mw_exact_sum *sum)
{
    double elements = (double)place->shape[0] * (double)(place->rank > 1 ? place->shape[1] : 1);
    double rms = sqrt(mw_exact_value(sum) / elements);

    for (int64_t i = place->at; rms > 1 && i < place->at + place->shape[0]; i++)
        of->next[i] = (float)((double)of->next[i] / rms);
}

bool
mw_trainer_clip_updates(struct mw_trainer *trainer, int stream, GError **error)
{
    const struct mw_trainer_vectors *of = &trainer->vectors;
    int64_t count = mw_vectors_places(of->places);
    g_autofree struct mw_exact_sum *sums = g_new0(struct mw_exact_sum, count);
    struct clipping it = {.trainer = trainer, .sums = sums};
    void *buffer = NULL;

    if (trainer->storage.nvme && posix_memalign(&buffer, MW_PAGE_BYTES, 4 * READ_ELEMENTS))
        g_error("out of memory");
    it.buffer = buffer;
    bool good = add_tensors(&it, error) &&
                (trainer->ranks == 1 ||
                 mw_trainer_add_ranks(trainer, sums, count, mw_trainer_data_stream(trainer, stream),
                                      error));
    free(buffer);
    for (int64_t i = 0; good && i < count; i++) {
        struct mw_vectors_place place = mw_vectors_place(of->places, i);
        clip(of, &place, &sums[i]);
    }
    return good;
}
