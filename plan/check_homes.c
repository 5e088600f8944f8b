/* Tensors and chunks lie within their homes, and do not overlap there. */
#include <stdlib.h>

#include "plan/check.h"
#include "plan/internal.h"
#include "plan/optimizers.h"

static bool
within(int64_t count, int64_t size, int64_t limit)
{
    int64_t product;

    return !__builtin_mul_overflow(count, size, &product) && product <= limit;
}

/* Whether `count` parts, placed a stride of elements apart, lie within a home. */
static bool
are_at_home(const struct mw_plan *plan, uint32_t slot, uint8_t dtype, int64_t stride,
            uint32_t parts)
{
    int64_t block = mw_dtype_row(dtype)->block_elements;

    return stride % block == 0 &&
           within(stride / block, (int64_t)mw_dtype_row(dtype)->block_bytes * parts,
                  plan->slots[slot].size_bytes);
}

/* A frozen tensor has no gradients, and therefore no optimizer state. */
static bool
check_gradient_home(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_tensor *tensor = &check->plan->tensors[index];

    if (!tensor->trainable && (tensor->gradient_slot != MW_NONE || tensor->gradient_stride ||
                               tensor->state_stride || tensor->summed))
        return mw_plan_refuse(check, "tensor %u: is frozen, but has gradients or optimizer state",
                              index);
    if (tensor->trainable && tensor->gradient_slot >= check->plan->slot_count)
        return mw_plan_refuse(check, "tensor %u: gradient home %u: expected one of %u slots", index,
                              tensor->gradient_slot, check->plan->slot_count);
    return true;
}

static bool
check_homes(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_tensor *tensor = &plan->tensors[index];

    if (tensor->param_slot >= plan->slot_count)
        return mw_plan_refuse(check, "tensor %u: home %u: expected one of %u slots", index,
                              tensor->param_slot, plan->slot_count);
    if (!check_gradient_home(check, index))
        return false;
    if (!are_at_home(plan, tensor->param_slot, tensor->dtype, tensor->param_stride,
                     tensor->tiles) ||
        (tensor->trainable && !are_at_home(plan, tensor->gradient_slot, tensor->gradient_dtype,
                                           tensor->gradient_stride, tensor->tiles)))
        return mw_plan_refuse(check, "tensor %u: does not fit its home", index);
    return true;
}

/* Parts have at most tile_elements and do not overlap in a home. */
static bool
check_parts(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_tensor *tensor = &check->plan->tensors[index];
    int64_t rows = mw_part_rows_max(tensor->rows, tensor->tiles);
    int64_t others = tensor->elements - tensor->rows * tensor->row_elements;
    int64_t tile = tensor->tile_elements, shard = tensor->shard_elements;

    if (!within(rows, tensor->row_elements, tile) || rows * tensor->row_elements > tile - others)
        return mw_plan_refuse(check, "tensor %u: a part is more than its tile elements", index);
    if (tensor->param_stride < (tensor->params_whole ? tile : shard) ||
        (tensor->trainable && (tensor->gradient_stride < (tensor->gradients_whole ? tile : shard) ||
                               tensor->state_stride < (tensor->state_whole ? tile : shard))))
        return mw_plan_refuse(check, "tensor %u: a stride is less than what it holds", index);
    return true;
}

static bool
check_tensors(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const struct mw_tensor *tensor = &plan->tensors[i];
        if (tensor->program >= plan->program_count || tensor->dtype >= MW_DTYPE_COUNT ||
            tensor->gradient_dtype >= MW_DTYPE_COUNT || tensor->layer < -1)
            return mw_plan_refuse(check, "tensor %u: program, layer or data type out of range", i);
        if (tensor->elements < 0 || tensor->rows < 0 || tensor->row_elements < 0 ||
            tensor->tile_elements < 0 || tensor->shard_elements < 0 || tensor->param_stride < 0 ||
            tensor->gradient_stride < 0 || tensor->state_stride < 0 || !tensor->tiles)
            return mw_plan_refuse(check, "tensor %u: negative number, or no tile", i);
        if (!within(tensor->rows, tensor->row_elements, tensor->elements))
            return mw_plan_refuse(check, "tensor %u: its rows are more than its elements", i);
        if (!check_homes(check, i) || !check_parts(check, i))
            return false;
    }
    return true;
}

/* A chunk ends at or before the end of its tensors' state. */
static bool
is_of_tensors(const struct mw_plan *plan, const struct mw_chunk_content *chunk)
{
    int64_t left = chunk->elements;

    for (uint32_t i = 0; i < chunk->tensor_count; i++) {
        const struct mw_tensor *tensor = &plan->tensors[chunk->first_tensor + i];
        int64_t state;
        if (__builtin_mul_overflow(tensor->state_stride, tensor->tiles, &state) ||
            (i == 0 && chunk->first_element > state))
            return false;
        left -= i == 0 ? state - chunk->first_element : state;
        if (left <= 0)
            return true;
    }
    return left <= 0;
}

bool
mw_plan_holds_state(const struct mw_plan *plan, uint32_t slot, int64_t elements)
{
    const int64_t most = INT64_MAX / (4 * MW_KEPT_COUNT + 1) - MW_KEPT_BLOCK; /* no overflow */
    int64_t bytes =
        elements <= most ? mw_optimizer_state_bytes(plan->shape.optimizer, elements) : INT64_MAX;

    if (plan->shape.updates_in_place && elements <= most)
        bytes -= mw_optimizer_kept_at_bytes(plan->shape.optimizer, MW_KEPT_MOMENTUM, elements);
    return bytes <= plan->slots[slot].size_bytes;
}

static bool
check_chunks(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        const struct mw_chunk_content *chunk = &plan->chunks[i];
        if (chunk->program >= plan->program_count || chunk->first_element < 0 ||
            chunk->elements < 0 ||
            (uint64_t)chunk->first_tensor + chunk->tensor_count > plan->tensor_count)
            return mw_plan_refuse(check, "chunk %u: program, tensors or elements out of range", i);
        if (chunk->slot >= plan->slot_count ||
            (chunk->other_slot != MW_NONE && chunk->other_slot >= plan->slot_count))
            return mw_plan_refuse(check, "chunk %u: slot %u or %u: expected two of %u", i,
                                  chunk->slot, chunk->other_slot, plan->slot_count);
        if (!mw_plan_holds_state(plan, chunk->slot, chunk->elements))
            return mw_plan_refuse(check, "chunk %u: does not fit its home", i);
        if (!is_of_tensors(plan, chunk))
            return mw_plan_refuse(check, "chunk %u: more than its tensors' state", i);
    }
    return true;
}

/* Slots do not overlap, so homes do not where each is a slot of its own. */
static bool
take_slot(struct mw_plan_check *check, bool *taken, uint32_t slot, const char *entity,
          uint32_t index)
{
    if (slot == MW_NONE)
        return true;
    if (taken[slot])
        return mw_plan_refuse(check, "%s %u: slot %u is the home of something else too", entity,
                              index, slot);
    taken[slot] = true;
    return true;
}

static bool
check_apart(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    bool *taken = mw_plan_allocate(plan->slot_count, sizeof *taken), good = true;

    for (uint32_t i = 0; i < plan->tensor_count && good; i++)
        good = take_slot(check, taken, plan->tensors[i].param_slot, "tensor", i) &&
               take_slot(check, taken, plan->tensors[i].gradient_slot, "tensor", i);
    for (uint32_t i = 0; i < plan->chunk_count && good; i++)
        good = take_slot(check, taken, plan->chunks[i].slot, "chunk", i) &&
               take_slot(check, taken, plan->chunks[i].other_slot, "chunk", i);
    free(taken);
    return good;
}

bool
mw_plan_check_homes(struct mw_plan_check *check)
{
    return check_tensors(check) && check_chunks(check) && check_apart(check);
}
