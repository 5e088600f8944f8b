#include <locale.h>
#include <string.h>

#include "plan/internal.h"
#include "plan/gates.h"
#include "plan/optimizers.h"
#include "plan/variants.h"

/* fprintf takes over a second for a million ops; this buffer takes a tenth of that. */
struct writer {
    FILE *out;
    size_t length;
    bool failed;
    char text[1 << 14];
};

static void
flush(struct writer *writer)
{
    if (fwrite(writer->text, 1, writer->length, writer->out) != writer->length)
        writer->failed = true;
    writer->length = 0;
}

static void
put_bytes(struct writer *writer, const char *bytes, size_t length)
{
    if (writer->length + length > sizeof writer->text)
        flush(writer);
    if (length > sizeof writer->text) {
        writer->failed |= fwrite(bytes, 1, length, writer->out) != length;
        return;
    }
    memcpy(writer->text + writer->length, bytes, length);
    writer->length += length;
}

/* A NULL name is an enum out of range; such a plan has no text form. */
static void
put(struct writer *writer, const char *text)
{
    if (text)
        put_bytes(writer, text, strlen(text));
    else
        writer->failed = true;
}

static void
put_number(struct writer *writer, int64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;

    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (number < 0)
        digits[--at] = '-';
    put_bytes(writer, digits + at, sizeof digits - at);
}

static void
put_key(struct writer *writer, const char *key, int64_t number)
{
    put(writer, key);
    put_number(writer, number);
}

/* Enough digits to read the same number back, with a decimal point in every locale. */
static void
put_real(struct writer *writer, const char *key, double number)
{
    char digits[40];

    snprintf(digits, sizeof digits, "%.17g", number);
    char *point = strchr(digits, *localeconv()->decimal_point);
    if (point)
        *point = '.';
    put(writer, key);
    put(writer, digits);
}

static void
put_name(struct writer *writer, const char *name)
{
    put(writer, " ");
    put(writer, name);
}

static void
put_reference(struct writer *writer, const char *key, uint32_t index)
{
    put(writer, key);
    if (index == MW_NONE)
        put(writer, "-");
    else
        put_number(writer, index);
}

/* Writes one line.  A text of several lines could not be read back. */
static void
put_line(struct writer *writer, const char *word, const char *text)
{
    if (!text)
        return;
    put(writer, word);
    if (*text)
        put_name(writer, text);
    writer->failed |= strpbrk(text, "\n\r") != NULL;
}

static void
write_world(struct writer *writer, const struct mw_plan *plan)
{
    put_key(writer, "world ", plan->world_ranks);
    put_key(writer, " per-node ", plan->ranks_per_node);
    put(writer, "\n");
}

static void
write_head(struct writer *writer, const struct mw_plan *plan)
{
    put(writer, MW_PLAN_TEXT_BEGIN " " MW_PLAN_TEXT_VERSION);
    put_line(writer, "\ntitle", plan->title ? plan->title : "");
    put_line(writer, "\nmachine", plan->machine);
    put_line(writer, "\nsoftware", plan->software);
    put_line(writer, "\nmodel", plan->model);
    put_line(writer, "\nstrategy", plan->strategy);
    put(writer, "\n");
    write_world(writer, plan);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        put(writer, "tier");
        put_name(writer, mw_tier_name(tier));
        put_key(writer, " capacity ", plan->tiers[tier].capacity_bytes);
        put_key(writer, " reserve ", plan->tiers[tier].reserve_bytes);
        put_key(writer, " largest ", plan->tiers[tier].largest_request_bytes);
        put(writer, "\n");
    }
}

static void
put_flag(struct writer *writer, const char *name, bool set)
{
    put(writer, set ? name : "");
}

static void
write_shape(struct writer *writer, const struct mw_step_shape *shape)
{
    put_key(writer, "step sequences ", shape->sequences);
    put_key(writer, " seq ", shape->seq);
    if (shape->context_ranks > 1) {
        put_key(writer, " context ", shape->context_ranks);
        put_name(writer, mw_context_name(shape->context));
    }
    put_key(writer, " micro-batches ", shape->micro_batches);
    if (shape->replicas.stages) {
        char text[MW_STAGE_REPLICAS_TEXT_MAX];
        mw_stage_replicas_write(&shape->replicas, text);
        put(writer, " replicas");
        put_name(writer, text);
    }
    put_key(writer, " tiles ", shape->tiles);
    put_key(writer, " token-chunks ", shape->token_chunks);
    put_key(writer, " interval ", shape->checkpoint_interval);
    if (shape->checkpoint_dtype != MW_DTYPE_NONE) {
        put(writer, " in");
        put_name(writer, mw_dtype_name(shape->checkpoint_dtype));
    }
    if (shape->kept_layers)
        put_key(writer, " keeps ", shape->kept_layers);
    if (!mw_layer_set_is_empty(&shape->recomputed)) {
        char text[MW_LAYER_SET_TEXT_MAX];
        mw_layer_set_write(&shape->recomputed, text);
        put(writer, " recomputes");
        put_name(writer, text);
    }
    for (int e = 0; e < MW_ENCODING_COUNT; e++)
        if (shape->kept_encodings >> e & 1) {
            put(writer, " kept-as");
            put_name(writer, mw_encoding_name(e));
        }
    put_key(writer, " save-every ", shape->save_every);
    put_name(writer, mw_dtype_name(shape->dtype));
    put_flag(writer, " commits", shape->commits);
    put_flag(writer, " rms-norm", shape->rms_norm);
    put_flag(writer, " rotary", shape->rotary);
    put_flag(writer, " gated", shape->gated);
    put_flag(writer, " score-bias", shape->score_bias);
    put_flag(writer, " dropout", shape->dropout);
    put_flag(writer, " capped-logits", shape->capped_logits);
    put_flag(writer, " capped-scores", shape->capped_scores);
    put_flag(writer, " sequence-parallel", shape->sequence_parallel);
    put_flag(writer, " whole-experts", shape->whole_experts);
    put_flag(writer, " tensor-overlap", shape->tensor_overlap);
    put_flag(writer, " tensor-pieces", shape->tensor_pieces);
    put_flag(writer, " tensor-parts", shape->tensor_parts);
    put_flag(writer, " weights-later", shape->weights_later);
    put_flag(writer, " updates-beside", shape->updates_beside);
    put_flag(writer, " whole-checkpoints", shape->whole_checkpoints);
    put_flag(writer, " layer-order", shape->layer_order);
    put_flag(writer, " updates-on-gpu", shape->updates_on_gpu);
    put_flag(writer, " no-flush", shape->no_flush);
    put_flag(writer, " stashes", shape->stashes);
    put_flag(writer, " vertical-sync", shape->vertical_sync);
    put_flag(writer, " asynchronous", shape->asynchronous);
    put_flag(writer, " updates-in-place", shape->updates_in_place);
    put_flag(writer, " only-simulated", shape->only_simulated);
    if (shape->optimizer != MW_OPTIMIZER_ADAMW) {
        put(writer, " optimizer");
        put_name(writer, mw_optimizer_name(shape->optimizer));
    }
    put(writer, "\n");
}

static void
write_decoder(struct writer *writer, const struct mw_decoder *decoder)
{
    put(writer, "decoder");
    put_name(writer, decoder->family ? decoder->family->name : "unknown");
    put_name(writer, mw_activation_name((int)decoder->activation));
    put_key(writer, " layers ", decoder->layers);
    put_key(writer, " hidden ", decoder->hidden);
    put_key(writer, " heads ", decoder->heads);
    put_key(writer, " ", decoder->kv_heads);
    put_key(writer, " ", decoder->head_dim);
    put_key(writer, " ffn ", decoder->ffn);
    put_key(writer, " vocab ", decoder->vocab);
    put_key(writer, " positions ", decoder->positions);
    put_key(writer, " ", decoder->position_rows);
    put_real(writer, " epsilon ", decoder->norm_epsilon);
    put_real(writer, " theta ", decoder->rope_theta);
    put_real(writer, " stretch ", decoder->rope_scaling.factor);
    put_real(writer, " ", decoder->rope_scaling.low_frequency_factor);
    put_real(writer, " ", decoder->rope_scaling.high_frequency_factor);
    put_key(writer, " ", decoder->rope_scaling.original_positions);
    put_flag(writer, " tied", decoder->tied_embedding);
    put_flag(writer, " attention-bias", decoder->attention_bias);
    put_flag(writer, " qk-norm", decoder->qk_norm);
    put_flag(writer, " projection-bias", decoder->projection_bias);
    put_flag(writer, " mlp-bias", decoder->mlp_bias);
    if (decoder->experts) {
        put_key(writer, " experts ", decoder->experts);
        put_key(writer, " ", decoder->experts_per_token);
        put_flag(writer, " renormalized", decoder->router_renormalizes);
        if (decoder->gate != MW_GATING_TOP_K) {
            put(writer, " gate");
            put_name(writer, mw_gate_name((int)decoder->gate));
        }
        if (decoder->rows_of_expert)
            put_key(writer, " capacity ", decoder->rows_of_expert);
        if (decoder->router_aux_loss > 0)
            put_real(writer, " aux-loss ", decoder->router_aux_loss);
        if (decoder->router_z_loss > 0)
            put_real(writer, " z-loss ", decoder->router_z_loss);
        if (mw_decoder_is_spread(decoder))
            put_key(writer, " spread ", decoder->spread.count);
    }
    if (decoder->lora_rank) {
        put_key(writer, " lora ", decoder->lora_rank);
        put_real(writer, " ", decoder->lora_alpha);
        for (int i = 0; i < MW_OPERATOR_COUNT; i++)
            if (decoder->lora_adapted >> i & 1)
                put_name(writer, mw_operator_name(i));
        if (decoder->lora_bare)
            put(writer, " bare");
        for (int t = 0; t < MW_TARGET_COUNT; t++)
            if (decoder->lora_bare >> t & 1)
                put_name(writer, mw_target_name(t));
    }
    put(writer, "\n");
}

/* Leaves out axes of one rank. */
static void
put_spans(struct writer *writer, const struct mw_axis_span spans[MW_AXIS_COUNT])
{
    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        if (spans[axis].count == 1 && spans[axis].stride == 0)
            continue;
        put_name(writer, mw_axis_name(axis));
        put_key(writer, " ", spans[axis].count);
        put_key(writer, " by ", spans[axis].stride);
    }
    put(writer, "\n");
}

static void
write_program(struct writer *writer, const struct mw_program *program, uint32_t index)
{
    put_key(writer, "program ", index);
    put_key(writer, " in-flight ", program->in_flight);
    if (program->apart_bytes)
        put_key(writer, " apart ", program->apart_bytes);
    if (program->beside_bytes[MW_TIER_GPU] || program->beside_bytes[MW_TIER_CPU]) {
        put_key(writer, " beside ", program->beside_bytes[MW_TIER_GPU]);
        put_key(writer, " ", program->beside_bytes[MW_TIER_CPU]);
    }
    put_key(writer, " base ", program->ranks.base);
    put_spans(writer, program->ranks.spans);
}

static void
write_comm(struct writer *writer, const struct mw_comm *comm, uint32_t index)
{
    put_key(writer, "comm ", index);
    if (comm->single)
        put_key(writer, " single ", comm->first);
    put_spans(writer, comm->spans);
}

static void
write_lane(struct writer *writer, const struct mw_lane *lane, uint32_t index)
{
    put_key(writer, "lane ", index);
    put_key(writer, " program ", lane->program);
    put_name(writer, mw_lane_kind_name(lane->kind));
    put_key(writer, " index ", lane->index);
    put_key(writer, " window ", lane->window_ops);
    put_key(writer, " bytes ", lane->window_bytes);
    put(writer, "\n");
}

static void
write_channel(struct writer *writer, const struct mw_channel *channel, uint32_t index)
{
    put_key(writer, "channel ", index);
    put_name(writer, mw_channel_kind_name(channel->kind));
    put_key(writer, " index ", channel->index);
    put_key(writer, " users ", channel->users);
    put(writer, "\n");
}

static void
write_slot(struct writer *writer, const struct mw_slot *slot, uint32_t index)
{
    put_key(writer, "slot ", index);
    put_key(writer, " program ", slot->program);
    put_name(writer, mw_tier_name(slot->tier));
    put_name(writer, mw_purpose_name(slot->purpose));
    put_key(writer, " offset ", slot->offset_bytes);
    put_key(writer, " size ", slot->size_bytes);
    put_flag(writer, " persistent", slot->persistent);
    put_flag(writer, " shares", slot->shares);
    put(writer, "\n");
}

static void
write_tensor(struct writer *writer, const struct mw_tensor *tensor, uint32_t index)
{
    put_key(writer, "tensor ", index);
    put_key(writer, " program ", tensor->program);
    put_key(writer, " layer ", tensor->layer);
    put_key(writer, " operators ", mw_operators_stored(tensor->operators));
    put_name(writer, mw_dtype_name(tensor->dtype));
    put(writer, " gradient");
    put_name(writer, mw_dtype_name(tensor->gradient_dtype));
    put_flag(writer, " summed", tensor->summed);
    put_key(writer, " elements ", tensor->elements);
    put_key(writer, " rows ", tensor->rows);
    put_key(writer, " ", tensor->row_elements);
    put_key(writer, " tiles ", tensor->tiles);
    put_key(writer, " ", tensor->tile_elements);
    if (tensor->spread > 1)
        put_key(writer, " spread ", tensor->spread);
    put_key(writer, " shard ", tensor->shard_elements);
    put_key(writer, " strides ", tensor->param_stride);
    put_key(writer, " ", tensor->gradient_stride);
    put_key(writer, " ", tensor->state_stride);
    put_key(writer, " homes ", tensor->param_slot);
    put_reference(writer, " ", tensor->gradient_slot);
    put(writer, tensor->params_whole ? " whole-params" : "");
    put(writer, tensor->gradients_whole ? " whole-gradients" : "");
    put(writer, tensor->state_whole ? " whole-state" : "");
    put(writer, tensor->trainable ? " trainable\n" : "\n");
}

static void
write_chunk(struct writer *writer, const struct mw_chunk_content *chunk, uint32_t index)
{
    put_key(writer, "chunk ", index);
    put_key(writer, " program ", chunk->program);
    put_key(writer, " tensors ", chunk->first_tensor);
    put_key(writer, " ", chunk->tensor_count);
    put_key(writer, " from ", chunk->first_element);
    put_key(writer, " elements ", chunk->elements);
    put_key(writer, " slot ", chunk->slot);
    put_reference(writer, " other ", chunk->other_slot);
    put(writer, "\n");
}

static void
write_draws(struct writer *writer, const struct mw_plan *plan, const struct mw_work *work)
{
    if ((uint64_t)work->draw_begin + work->draw_count > plan->draw_count) {
        writer->failed = true;
        return;
    }
    if (work->draw_count)
        put(writer, " draw");
    for (uint32_t i = 0; i < work->draw_count; i++) {
        const struct mw_draw *draw = &plan->draws[work->draw_begin + i];
        put_key(writer, " ", draw->channel);
        put_key(writer, ":", draw->amount);
        if (draw->ranks != 1)
            put_key(writer, "x", draw->ranks);
    }
}

static void
write_products(struct writer *writer, const struct mw_work *work)
{
    for (uint32_t i = 0; i < work->product_count; i++) {
        const struct mw_work_product *product = &work->products[i];
        put_key(writer, " product ", product->m);
        put_key(writer, " ", product->n);
        put_key(writer, " ", product->k);
        put_key(writer, " ", product->count);
        put_name(writer, mw_dtype_name((int)product->dtype));
        if (product->of != MW_PRODUCT_OF_RESULT)
            put_name(writer, mw_product_of_name((int)product->of));
    }
}

static void
write_attention(struct writer *writer, const struct mw_work_attention *attention)
{
    if (!attention->heads)
        return;
    put_key(writer, " attention ", attention->queries);
    put_key(writer, " ", attention->keys);
    put_key(writer, " heads ", attention->heads);
    put_key(writer, " ", attention->kv_heads);
    put_key(writer, " ", attention->head_dim);
    put_key(writer, " ", attention->value_dim);
    if (attention->window)
        put_key(writer, " window ", attention->window);
    put(writer, attention->causal ? " causal" : "");
}

static void
write_work(struct writer *writer, const struct mw_plan *plan, uint32_t index)
{
    const struct mw_work *work = &plan->works[index];

    put_key(writer, "work ", index);
    put_name(writer, mw_op_kind_name(work->kind));
    put_name(writer, mw_object_name(work->object));
    put_name(writer, mw_operator_name(work->operator_));
    put_name(writer, mw_dtype_name(work->dtype));
    put(writer, work->host ? " host" : "");
    put_reference(writer, " comm ", work->comm);
    if (work->hop)
        put_key(writer, " hop ", work->hop);
    if (work->fullest > 0)
        put_real(writer, " fullest ", work->fullest);
    put_key(writer, " flops ", work->flops);
    write_products(writer, work);
    write_attention(writer, &work->attention);
    put_key(writer, " bytes ", work->bytes);
    if (work->coded_bytes)
        put_key(writer, " coded ", work->coded_bytes);
    put_key(writer, " elements ", work->elements);
    put_key(writer, " launches ", work->launches);
    write_draws(writer, plan, work);
    put(writer, "\n");
}

static void
write_deps(struct writer *writer, const struct mw_plan *plan, const struct mw_op *op)
{
    if (op->dep_count)
        put(writer, " after");
    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = plan->deps[op->dep_begin + i];
        put_key(writer, dep & MW_DEP_PREVIOUS_STEP ? " prev:" : " ", MW_DEP_INDEX(dep));
    }
}

static void
write_uses(struct writer *writer, const struct mw_plan *plan, const struct mw_op *op)
{
    if (op->use_count)
        put(writer, " use");
    for (uint32_t i = 0; i < op->use_count; i++) {
        const struct mw_use *use = &plan->uses[op->use_begin + i];
        put_key(writer, " ", use->slot);
        put(writer, ":");
        put(writer, mw_use_mode_name(use->mode));
        put(writer, ":");
        put(writer, mw_role_name(use->role));
    }
}

static void
write_op(struct writer *writer, const struct mw_plan *plan, uint32_t index)
{
    const struct mw_op *op = &plan->ops[index];

    put_key(writer, "op ", index);
    put_key(writer, " lane ", op->lane);
    put_key(writer, " work ", op->work);
    put_name(writer, mw_phase_name(op->phase));
    put_key(writer, " mb ", op->micro_batch);
    put_key(writer, " layer ", op->layer);
    put_key(writer, " tile ", op->tile);
    put_key(writer, " shard ", op->shard);
    if (op->match != MW_NONE)
        put_key(writer, " match ", op->match);
    if ((uint64_t)op->dep_begin + op->dep_count > plan->dep_count ||
        (uint64_t)op->use_begin + op->use_count > plan->use_count) {
        writer->failed = true;
        return;
    }
    write_deps(writer, plan, op);
    write_uses(writer, plan, op);
    put(writer, "\n");
}

static void
write_section(struct writer *writer, const struct mw_section *section, uint32_t index)
{
    put_key(writer, "section ", index);
    put_key(writer, " ops ", section->first_op);
    put_key(writer, " ", section->op_count);
    put_key(writer, " rounds ", section->rounds);
    put_reference(writer, " parent ", section->parent);
    put_key(writer, " mb ", section->micro_batch_step);
    put_key(writer, " layer ", section->layer_step);
    put_key(writer, " shard ", section->shard_step);
    put(writer, "\n");
}

static void
put_levels(struct writer *writer, const int32_t by[MW_SECTION_LEVELS])
{
    for (int level = 0; level < MW_SECTION_LEVELS; level++)
        put_key(writer, level ? ":" : " ", by[level]);
}

/* Writes the strides of an op in a section, one for each of its dependencies and uses. */
static void
write_strides(struct writer *writer, const struct mw_plan *plan, uint32_t index)
{
    const struct mw_op *op = &plan->ops[index];
    uint32_t sections[MW_SECTION_LEVELS];

    if (!mw_plan_sections_of(plan, index, sections))
        return;
    put_key(writer, "strides ", index);
    put(writer, op->dep_count ? " after" : "");
    for (uint32_t i = op->dep_begin; i < op->dep_begin + op->dep_count; i++)
        put_levels(writer, plan->dep_strides[i].by);
    put(writer, op->use_count ? " use" : "");
    for (uint32_t i = op->use_begin; i < op->use_begin + op->use_count; i++) {
        put_levels(writer, plan->use_strides[i].by);
        put_key(writer, ":", plan->use_strides[i].ring_first);
        put_key(writer, ":", plan->use_strides[i].ring_count);
    }
    put(writer, "\n");
}

/* Writes ranks and the shape of the step. */
static void
write_frame(struct writer *writer, const struct mw_plan *plan,
            void (*write_its)(struct writer *writer, const struct mw_program *program,
                              uint32_t index))
{
    write_shape(writer, &plan->shape);
    if (plan->shape.has_decoder)
        write_decoder(writer, &plan->shape.decoder);
    for (uint32_t i = 0; i < plan->program_count; i++)
        write_its(writer, &plan->programs[i], i);
    for (uint32_t i = 0; i < plan->comm_count; i++)
        write_comm(writer, &plan->comms[i], i);
}

static bool
end_text(struct writer *writer)
{
    flush(writer);
    return !writer->failed && !fflush(writer->out) && !ferror(writer->out);
}

bool
mw_plan_write(const struct mw_plan *plan, FILE *out)
{
    struct writer writer = {.out = out};

    write_head(&writer, plan);
    write_frame(&writer, plan, write_program);
    for (uint32_t i = 0; i < plan->lane_count; i++)
        write_lane(&writer, &plan->lanes[i], i);
    for (uint32_t i = 0; i < plan->channel_count; i++)
        write_channel(&writer, &plan->channels[i], i);
    for (uint32_t i = 0; i < plan->slot_count; i++)
        write_slot(&writer, &plan->slots[i], i);
    for (uint32_t i = 0; i < plan->tensor_count; i++)
        write_tensor(&writer, &plan->tensors[i], i);
    for (uint32_t i = 0; i < plan->chunk_count; i++)
        write_chunk(&writer, &plan->chunks[i], i);
    for (uint32_t i = 0; i < plan->work_count && !writer.failed; i++)
        write_work(&writer, plan, i);
    for (uint32_t i = 0; i < plan->op_count && !writer.failed; i++)
        write_op(&writer, plan, i);
    for (uint32_t i = 0; i < plan->section_count; i++)
        write_section(&writer, &plan->sections[i], i);
    for (uint32_t i = 0; plan->section_count && i < plan->op_count && !writer.failed; i++)
        write_strides(&writer, plan, i);
    put(&writer, "end\n");
    return end_text(&writer);
}

/* --- variants -------------------------------------------------------------------------------- */

static void
write_home(struct writer *writer, const struct mw_plan *plan, uint32_t slot)
{
    if (slot != MW_NONE)
        write_slot(writer, &plan->slots[slot], slot);
}

/* Each variant decides whether its content outlives the step. */
static void
write_gradient_home(struct writer *writer, const struct mw_plan *plan, uint32_t slot)
{
    struct mw_slot home = plan->slots[slot];

    home.persistent = false;
    write_slot(writer, &home, slot);
}

/* What software takes beside the slots, and what it gives away of them, are of each variant. */
static void
write_shared_program(struct writer *writer, const struct mw_program *program, uint32_t index)
{
    struct mw_program shared = *program;

    shared.apart_bytes = 0;
    memset(shared.beside_bytes, 0, sizeof shared.beside_bytes);
    write_program(writer, &shared, index);
}

bool
mw_plan_write_shared(const struct mw_plan *plan, FILE *out)
{
    struct writer writer = {.out = out};

    write_world(&writer, plan);
    write_frame(&writer, plan, write_shared_program);
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        write_tensor(&writer, &plan->tensors[i], i);
        write_home(&writer, plan, plan->tensors[i].param_slot);
        if (plan->tensors[i].trainable)
            write_gradient_home(&writer, plan, plan->tensors[i].gradient_slot);
    }
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        write_chunk(&writer, &plan->chunks[i], i);
        write_home(&writer, plan, plan->chunks[i].slot);
        write_home(&writer, plan, plan->chunks[i].other_slot);
    }
    return end_text(&writer);
}

bool
mw_variants_write(const struct mw_variants *variants, FILE *out)
{
    struct writer writer = {.out = out};

    for (uint32_t v = 0; v < variants->plan_count; v++)
        if (!mw_plan_write(variants->plans[v], out))
            return false;
    for (uint32_t s = 0; variants->plan_count > 1 && s < variants->span_count; s++) {
        const struct mw_variant_span *span = &variants->spans[s];
        put_key(&writer, "from ", span->first_step);
        put(&writer, " variants");
        for (uint32_t t = 0; t < span->turn_count; t++)
            put_key(&writer, " ", variants->turns[span->first_turn + t]);
        put(&writer, "\n");
    }
    put(&writer, variants->plan_count > 1 ? "end\n" : "");
    return end_text(&writer);
}
