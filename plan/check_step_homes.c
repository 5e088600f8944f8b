/* Tensors are cut as their ranks and tiles say, and chunks cover all state once. */
#include <inttypes.h>
#include <stdlib.h>

#include "plan/check_step.h"
#include "plan/internal.h"
#include "plan/optimizers.h"

/* The most whole blocks by which shards are rounded up, so that they fill pages of drives. */
#define GRAIN_BLOCKS_MAX 4096

static int64_t
round_up(int64_t value, int64_t step)
{
    return value + (step - value % step) % step;
}

static bool
has_state(const struct mw_tensor *tensor)
{
    return tensor->trainable && tensor->state_stride > 0;
}

/* --- tensors --------------------------------------------------------------------------------- */

static bool
is_stride(const struct mw_tensor *tensor, int64_t stride, bool whole, int64_t whole_elements,
          int64_t state_block)
{
    int64_t block = mw_dtype_row(tensor->dtype)->block_elements;

    if (stride % state_block)
        return false;
    if (whole)
        return stride == round_up(round_up(whole_elements, block), state_block);
    return stride - tensor->shard_elements < GRAIN_BLOCKS_MAX * block;
}

static bool
check_tensor(struct mw_step_check *check, uint32_t t)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_tensor *tensor = &plan->tensors[t];
    int64_t block = mw_dtype_row(tensor->dtype)->block_elements;
    int64_t others = tensor->elements - tensor->rows * tensor->row_elements;
    int64_t rows = mw_part_rows_max(tensor->rows, tensor->tiles);
    int64_t replicas = mw_step_replicas(check, tensor);

    for (int i = 0; tensor->spread > 1 && i < MW_OPERATOR_COUNT; i++)
        if (tensor->operators >> i & 1 && mw_operator_row(i)->parameters &&
            !mw_operator_row(i)->part_of)
            return mw_plan_refuse(&check->base, "tensor %u: is spread over %u ranks, and %s is not",
                                  t, tensor->spread, mw_operator_name(i));
    const struct mw_decoder *decoder = &plan->shape.decoder;
    if (plan->shape.has_decoder && tensor->spread > 1 && tensor->spread != decoder->spread.count)
        return mw_plan_refuse(&check->base,
                              "tensor %u: is spread over %u ranks, and the decoder's experts over "
                              "%" PRId64,
                              t, tensor->spread, decoder->spread.count);
    if (tensor->spread > 1 && check->dp % tensor->spread)
        return mw_plan_refuse(&check->base,
                              "tensor %u: is spread over %u ranks, which do not divide %" PRId64, t,
                              tensor->spread, check->dp);
    int64_t shard = tensor->tile_elements / replicas + (tensor->tile_elements % replicas > 0);
    if (tensor->tile_elements != rows * tensor->row_elements + others)
        return mw_plan_refuse(&check->base,
                              "tensor %u: tiles of %" PRId64 " elements: its rows make %" PRId64, t,
                              tensor->tile_elements, rows * tensor->row_elements + others);
    if (tensor->shard_elements != round_up(shard, block))
        return mw_plan_refuse(&check->base,
                              "tensor %u: shards of %" PRId64 " elements: %" PRId64
                              " ranks divide it into %" PRId64,
                              t, tensor->shard_elements, replicas, round_up(shard, block));
    bool exchanged = plan->shape.asynchronous && tensor->trainable;
    if (exchanged && (!tensor->params_whole || !tensor->gradients_whole || tensor->state_whole ||
                      check->delayed || plan->slots[tensor->gradient_slot].tier != MW_TIER_GPU))
        return mw_plan_refuse(&check->base,
                              "tensor %u: is not whole on the GPU with a state that is divided, "
                              "and the step is asynchronous",
                              t);
    /* Where ranks exchange shards, a home has room for as many that are not the last. */
    int64_t whole = exchanged ? replicas * tensor->shard_elements : tensor->tile_elements;
    if (!is_stride(tensor, tensor->param_stride, tensor->params_whole, whole, 1) ||
        (tensor->trainable &&
         (!is_stride(tensor, tensor->gradient_stride, tensor->gradients_whole, whole, 1) ||
          !is_stride(tensor, tensor->state_stride, tensor->state_whole, tensor->tile_elements,
                     mw_optimizer_block(plan->shape.optimizer)))))
        return mw_plan_refuse(&check->base, "tensor %u: its strides are not those of what it holds",
                              t);
    if (!plan->slots[tensor->param_slot].persistent)
        return mw_plan_refuse(&check->base, "tensor %u: its parameters' home is not persistent", t);
    if (!tensor->trainable)
        return true;
    if (plan->slots[tensor->gradient_slot].persistent != check->delayed)
        return mw_plan_refuse(&check->base,
                              "tensor %u: its gradients' home is %spersistent, another's is%s", t,
                              check->delayed ? "not " : "", check->delayed ? "" : " not");
    if (!tensor->summed && plan->shape.micro_batches > 1)
        return mw_plan_refuse(&check->base,
                              "tensor %u: its gradients are not summed, and the step has %" PRId64
                              " micro-batches",
                              t, plan->shape.micro_batches);
    return true;
}

bool
mw_step_check_homes(struct mw_step_check *check)
{
    for (uint32_t t = 0; t < check->plan->tensor_count; t++)
        if (check->plan->tensors[t].program == check->program && !check_tensor(check, t))
            return false;
    return true;
}

/* --- chunks ---------------------------------------------------------------------------------- */

/* How far the chunks of a program go so far. */
struct cursor {
    uint32_t tensor;
    int64_t element;
};

static int64_t
state_of(const struct mw_tensor *tensor)
{
    return tensor->tiles * tensor->state_stride;
}

/* On to a tensor of the program that has state, past what is through. */
static void
skip_finished(const struct mw_plan *plan, uint32_t program, struct cursor *at)
{
    while (at->tensor < plan->tensor_count) {
        const struct mw_tensor *tensor = &plan->tensors[at->tensor];
        if (tensor->program == program && has_state(tensor) && at->element < state_of(tensor))
            return;
        at->tensor++;
        at->element = 0;
    }
}

static bool
lives_alike(const struct mw_plan *plan, const struct mw_tensor *a, const struct mw_tensor *b)
{
    return plan->slots[a->param_slot].tier == plan->slots[b->param_slot].tier &&
           plan->slots[a->gradient_slot].tier == plan->slots[b->gradient_slot].tier &&
           a->params_whole == b->params_whole && a->state_whole == b->state_whole &&
           a->gradients_whole == b->gradients_whole && a->gradient_dtype == b->gradient_dtype &&
           a->spread == b->spread;
}

/* Takes a chunk's elements; false: they are not those that come next. */
static bool
take(const struct mw_plan *plan, const struct mw_chunk_content *chunk, struct cursor *at)
{
    uint32_t end = chunk->first_tensor + chunk->tensor_count;
    int64_t left = chunk->elements;

    skip_finished(plan, chunk->program, at);
    if (at->tensor != chunk->first_tensor || at->element != chunk->first_element || left <= 0)
        return false;
    while (left > 0) {
        skip_finished(plan, chunk->program, at);
        if (at->tensor >= end ||
            !lives_alike(plan, &plan->tensors[at->tensor], &plan->tensors[chunk->first_tensor]))
            return false;
        int64_t rest = state_of(&plan->tensors[at->tensor]) - at->element;
        int64_t taken = rest < left ? rest : left;
        at->element += taken;
        left -= taken;
    }
    return true;
}

static bool
check_slots(struct mw_step_check *check, uint32_t c)
{
    const struct mw_chunk_content *chunk = &check->plan->chunks[c];
    const struct mw_slot *slots = check->plan->slots;

    if (slots[chunk->slot].program != chunk->program || !slots[chunk->slot].persistent ||
        (chunk->other_slot != MW_NONE &&
         (slots[chunk->other_slot].program != chunk->program ||
          !slots[chunk->other_slot].persistent ||
          !mw_plan_holds_state(check->plan, chunk->other_slot, chunk->elements))))
        return mw_plan_refuse(
            &check->base, "chunk %u: its state's home is not persistent, or another program's", c);
    return true;
}

bool
mw_step_check_cover(struct mw_step_check *check)
{
    const struct mw_plan *plan = check->plan;
    struct cursor *at = mw_plan_allocate(plan->program_count, sizeof *at);
    bool good = true;

    for (uint32_t c = 0; c < plan->chunk_count && good; c++) {
        good = check_slots(check, c);
        if (good && !take(plan, &plan->chunks[c], &at[plan->chunks[c].program]))
            good = mw_plan_refuse(&check->base,
                                  "chunk %u: is not what comes next of the state of all tensors: "
                                  "each element is in one chunk, in order",
                                  c);
    }
    for (uint32_t p = 0; p < plan->program_count && good; p++) {
        skip_finished(plan, p, &at[p]);
        if (at[p].tensor < plan->tensor_count)
            good = mw_plan_refuse(&check->base,
                                  "tensor %u: no chunk has its state from element %" PRId64 " on",
                                  at[p].tensor, at[p].element);
    }
    free(at);
    return good;
}
