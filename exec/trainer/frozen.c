/*
 * Parameters that a run leaves as they are.  No step writes them, so no extent holds them: a resume
 * and an export read them where the run did, and compare them with the checksum in the record.
 */
#include <string.h>

#include "base/error.h"
#include "exec/trainer/frozen.h"
#include "exec/trainer/internal.h"

#define PIECE_ELEMENTS MW_FROZEN_PIECE_ELEMENTS

bool
mw_frozen_is_there(const struct mw_plan *plan)
{
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (!plan->tensors[t].trainable)
            return true;
    return false;
}

uint64_t
mw_frozen_adapters(const struct mw_decoder *decoder)
{
    uint64_t numbers[3] = {(uint64_t)decoder->lora_rank, 0,
                           mw_operators_stored(decoder->lora_adapted) | (uint64_t)decoder->lora_bare
                                                                            << 32};

    memcpy(&numbers[1], &decoder->lora_alpha, sizeof decoder->lora_alpha);
    return decoder->lora_rank ? mw_commit_checksum(numbers, sizeof numbers) : 0;
}

bool
mw_frozen_same_adapters(const struct mw_commit_record *record, const struct mw_decoder *decoder)
{
    uint64_t was;

    return !mw_commit_find(record, MW_TRAINER_ADAPTERS, &was) || was == mw_frozen_adapters(decoder);
}

/* Of what was added before, and of these. */
static uint64_t
add(uint64_t so_far, const float *params, int64_t count)
{
    uint64_t both[2] = {so_far, mw_commit_checksum(params, 4 * count)};

    return mw_commit_checksum(both, sizeof both);
}

bool
mw_frozen_check(const struct mw_commit_record *record, uint64_t sum,
                const struct mw_safetensors *weights, GError **error)
{
    uint64_t was;

    if (!mw_commit_find(record, MW_TRAINER_FROZEN, &was) || was == sum)
        return true;
    if (weights)
        return mw_fail(error, MW_ERROR_FORMAT,
                       "%s: has other values of what is not trained than the run began with: "
                       "{resume} {weights=FOLDER} names the folder that has them",
                       mw_safetensors_path(weights));
    return mw_fail(
        error, MW_ERROR_FORMAT,
        "what is not trained is drawn from the seed, and is not what the run began with: "
        "{resume} {weights=FOLDER} names the folder that it was read from");
}

static bool
add_part(const struct mw_frozen *it, const struct mw_tensor *tensor, int64_t tile, float *made,
         uint64_t *sum, GError **error)
{
    struct mw_range mine = mw_frozen_params(tensor, it->rank, tile);

    for (int64_t i = 0; i < mine.elements; i += PIECE_ELEMENTS) {
        int64_t count = MIN(PIECE_ELEMENTS, mine.elements - i);
        if (!mw_frozen_read(it, tensor, tile, mine.first + i, count, made, error))
            return false;
        *sum = add(*sum, made, count);
    }
    return true;
}

bool
mw_frozen_sum(const struct mw_frozen *it, uint64_t *sum, GError **error)
{
    g_autofree float *made = g_new(float, PIECE_ELEMENTS);

    *sum = 0;
    for (uint32_t t = 0; t < it->plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &it->plan->tensors[t];
        for (uint32_t tile = 0; !tensor->trainable && tile < tensor->tiles; tile++)
            if (!add_part(it, tensor, tile, made, sum, error))
                return false;
    }
    return true;
}

struct mw_range
mw_frozen_params(const struct mw_tensor *tensor, uint32_t rank, int64_t tile)
{
    return tensor->params_whole ? (struct mw_range){0, mw_tensor_part_elements(tensor, tile)}
                                : mw_tensor_shard(tensor, rank, tile);
}

bool
mw_frozen_read(const struct mw_frozen *it, const struct mw_tensor *tensor, int64_t tile,
               int64_t first, int64_t count, float *out, GError **error)
{
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};
    struct mw_weights_sets sets = {it->weights, NULL};

    if (it->checkpoint)
        return mw_checkpoint_read(it->checkpoint, it->decoder, 0, &part, first, count,
                                  MW_DTYPE_FP32, out, error);
    return mw_weights_make(it->decoder, it->seed, sets, &part, first, count, MW_DTYPE_FP32, out,
                           error);
}
