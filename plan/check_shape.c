/* Checks the step's shape: the model's dimensions are valid, and ops stay within it. */
#include <inttypes.h>
#include <math.h>

#include "plan/check.h"
#include "plan/gates.h"
#include "plan/optimizers.h"

/* Products of any three dimensions fit int64.  No published model comes near. */
#define DIMENSION_MAX (INT64_C(1) << 28)

static bool
is_dimension(int64_t value)
{
    return value >= 1 && value <= DIMENSION_MAX;
}

/* False for NaN. */
static bool
is_within(double value, double least, double most)
{
    return value >= least && value <= most;
}

static bool
check_stretch(struct mw_plan_check *check, const struct mw_rope_scaling *stretch)
{
    const double least = MW_DECODER_STRETCH_MIN, most = MW_DECODER_STRETCH_MAX;

    if (is_within(stretch->factor, 1, most) &&
        is_within(stretch->low_frequency_factor, least, most) &&
        is_within(stretch->high_frequency_factor, least, most) &&
        stretch->original_positions >= 1 && stretch->original_positions <= MW_DECODER_POSITIONS_MAX)
        return true;
    return mw_plan_refuse(check, "decoder: its rotary positions are stretched out of range");
}

/* Matrices in one tensor have one adapter, or none. */
static bool
has_matrices(const struct mw_decoder *d)
{
    struct mw_operator_dims dims = mw_decoder_dims(d);
    bool of_qkv = d->lora_bare & mw_targets_of(MW_OPERATOR_QKV);
    bool of_up = d->lora_bare & mw_targets_of(MW_OPERATOR_MLP_UP);

    return (!of_qkv || mw_dims_have(&dims, MW_HAS(QKV_APART))) &&
           (!of_up || mw_dims_have(&dims, MW_HAS(GATE_APART)));
}

/* Adapters are of operators that have a row for them, and no wider than the model. */
static bool
check_adapters(struct mw_plan_check *check, const struct mw_decoder *d)
{
    uint32_t may = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        may |= mw_operator_row(i)->adapts ? UINT32_C(1) << mw_operator_row(i)->adapts : 0;
    if (!d->lora_rank && !d->lora_adapted && !d->lora_bare)
        return true;
    if (is_dimension(d->lora_rank) && d->lora_adapted && !(d->lora_adapted & ~may) &&
        d->lora_alpha > 0 && is_within(d->lora_alpha, 0, MW_DECODER_ALPHA_MAX) &&
        mw_targets_suit(d->lora_adapted, d->lora_bare) && has_matrices(d))
        return true;
    return mw_plan_refuse(check,
                          "decoder: adapters of rank %" PRId64
                          " or with alpha %g, or of other operators than have any",
                          d->lora_rank, d->lora_alpha);
}

static bool
check_gate(struct mw_plan_check *check, const struct mw_decoder *d)
{
    const struct mw_gate_row *gate = mw_gate_row((int)d->gate);

    if (!gate)
        return mw_plan_refuse(check, "decoder: gate %d: is none of 0 to %d", (int)d->gate,
                              MW_GATING_COUNT - 1);
    if (!gate->runs)
        return mw_plan_refuse(check,
                              "decoder: gate %s: is none that runs, and a plan with another has no "
                              "decoder",
                              gate->name);
    return !gate->visits || gate->visits == d->experts_per_token ||
           mw_plan_refuse(check,
                          "decoder: gate %s: sends a token to %" PRId64
                          " of the experts, and the decoder to %" PRId64,
                          gate->name, gate->visits, d->experts_per_token);
}

/* A mixture's experts are as its family has them: gated, without biases. */
static bool
check_experts(struct mw_plan_check *check, const struct mw_decoder *d)
{
    bool of_mixtures = d->family->run.tensors->of[MW_WEIGHT_ROUTER];

    if (!d->experts != !of_mixtures)
        return mw_plan_refuse(check, "decoder: %s has %s experts", d->family->name,
                              of_mixtures ? "a number of" : "no");
    if (!of_mixtures)
        return true;
    if (d->experts < 1 || d->experts > MW_DECODER_EXPERTS_MAX || d->experts_per_token < 1 ||
        d->experts_per_token > d->experts)
        return mw_plan_refuse(check,
                              "decoder: a token visits %" PRId64 " of %" PRId64
                              " experts: must be 1 to all of 1 to %d",
                              d->experts_per_token, d->experts, MW_DECODER_EXPERTS_MAX);
    if (d->rows_of_expert < 0 || d->rows_of_expert > MW_DECODER_POSITIONS_MAX)
        return mw_plan_refuse(check, "decoder: experts that take %" PRId64 " rows: out of range",
                              d->rows_of_expert);
    if (!check_gate(check, d))
        return false;
    if (!is_within(d->router_aux_loss, 0, MW_DECODER_LOSS_MAX) ||
        !is_within(d->router_z_loss, 0, MW_DECODER_LOSS_MAX))
        return mw_plan_refuse(check, "decoder: losses of the router, %g and %g: out of range",
                              d->router_aux_loss, d->router_z_loss);
    if (d->spread.count < 0 || d->spread.index < 0 ||
        (mw_decoder_is_spread(d)
             ? d->experts % d->spread.count || d->spread.index >= d->spread.count
             : d->spread.index))
        return mw_plan_refuse(check,
                              "decoder: %" PRId64 " experts, spread over %" PRId64
                              " ranks: must be as many on each",
                              d->experts, d->spread.count);
    return !d->mlp_bias ||
           mw_plan_refuse(check, "decoder: %s has no biases of experts", d->family->name);
}

static bool
check_decoder(struct mw_plan_check *check, const struct mw_decoder *d)
{
    const int64_t dimensions[] = {d->layers,   d->hidden, d->heads, d->kv_heads,
                                  d->head_dim, d->ffn,    d->vocab};

    if (!d->family || !d->family->run.tensors || d->kind != d->family->run.kind ||
        d->activation >= MW_ACTIVATION_COUNT)
        return mw_plan_refuse(check, "decoder: family of kind %d or activation %d out of range",
                              d->kind, d->activation);
    if (d->qk_norm && !d->family->run.tensors->of[MW_WEIGHT_Q_NORM])
        return mw_plan_refuse(check, "decoder: %s has no norms of q and k", d->family->name);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++)
        if (!is_dimension(dimensions[i]))
            return mw_plan_refuse(check, "decoder: dimension %" PRId64 ": expected 1 to %" PRId64,
                                  dimensions[i], DIMENSION_MAX);
    if (d->heads % d->kv_heads || d->positions < 0 || d->position_rows < 0 ||
        d->positions > MW_DECODER_POSITIONS_MAX || d->position_rows > MW_DECODER_POSITIONS_MAX)
        return mw_plan_refuse(check,
                              "decoder: %" PRId64 " heads of %" PRId64
                              " of k and v, or positions out of range",
                              d->heads, d->kv_heads);
    if (!is_within(d->norm_epsilon, 0, MW_DECODER_EPSILON_MAX) ||
        !is_within(d->rope_theta, 0, MW_DECODER_THETA_MAX))
        return mw_plan_refuse(check, "decoder: epsilon %g or theta %g out of range",
                              d->norm_epsilon, d->rope_theta);
    return check_experts(check, d) && check_adapters(check, d) &&
           check_stretch(check, &d->rope_scaling);
}

/* Each of the ranks along dp is an update, from parameters that all of them have whole. */
static bool
check_asynchronous(struct mw_plan_check *check, const struct mw_step_shape *s)
{
    if (!s->asynchronous)
        return true;
    if (s->no_flush || s->updates_beside || s->commits || s->save_every)
        return mw_plan_refuse(check, "step: asynchronous with a flush, updates at the end, and "
                                     "nothing durable alone");
    if (!mw_optimizer_updates_alone(s->optimizer))
        return mw_plan_refuse(check, "step: asynchronous, and the optimizer is %s",
                              mw_optimizer_name(s->optimizer));
    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        if ((mw_plan_degree(check->plan, axis) > 1) != (axis == MW_AXIS_DP))
            return mw_plan_refuse(check, "step: asynchronous with ranks along dp alone, not %s",
                                  mw_axis_name(axis));
    return true;
}

/* Each rank has a program of its own, as it takes micro-batches that no other rank of its stage
 * does. */
static bool
check_replicas(struct mw_plan_check *check, const struct mw_step_shape *s)
{
    const struct mw_plan *plan = check->plan;
    int64_t grain = mw_stage_replicas_grain(&s->replicas);

    if (!s->replicas.stages)
        return true;
    if (mw_stage_replicas_from(&s->replicas, 0) != plan->world_ranks)
        return mw_plan_refuse(check, "step: replicas of %u ranks, in a world of %u",
                              mw_stage_replicas_from(&s->replicas, 0), plan->world_ranks);
    if (!grain || s->micro_batches % grain)
        return mw_plan_refuse(check,
                              "step: %" PRId64 " micro-batches, of which replicas of a stage "
                              "cannot take as many each",
                              s->micro_batches);
    for (uint32_t p = 0; p < plan->program_count; p++)
        if (mw_members_count(&plan->programs[p].ranks) > 1)
            return mw_plan_refuse(check,
                                  "program %u: stands for ranks that take unlike "
                                  "micro-batches",
                                  p);
    return true;
}

/* Whether the rank of a computation is the one that takes its micro-batch. */
static bool
takes_micro_batch(const struct mw_plan *plan, const struct mw_op *op)
{
    uint32_t rank = plan->programs[plan->lanes[op->lane].program].ranks.base;
    struct mw_replica replica = mw_stage_replica(&plan->shape.replicas, rank);

    return op->micro_batch % replica.count == replica.index;
}

/* What tensor slices and later products of the weights' gradients go with. */
static bool
check_slicing(struct mw_plan_check *check, const struct mw_step_shape *s)
{
    if (s->weights_later && (s->checkpoint_interval || s->kept_encodings || s->tensor_overlap))
        return mw_plan_refuse(check, "step: weights-later keeps all activations as they are, "
                                     "without an interval, encodings or tensor-overlap");
    if (s->tensor_pieces &&
        (!s->tensor_overlap || !s->sequence_parallel || s->whole_checkpoints || s->layer_order))
        return mw_plan_refuse(check, "step: tensor-pieces needs tensor-overlap and "
                                     "sequence-parallel, without whole-checkpoints or "
                                     "layer-order");
    if (s->tensor_parts && (!s->sequence_parallel || s->tensor_overlap || s->weights_later))
        return mw_plan_refuse(check, "step: tensor-parts needs sequence-parallel, without "
                                     "tensor-overlap or weights-later");
    return true;
}

static bool
check_numbers(struct mw_plan_check *check, const struct mw_step_shape *s)
{
    if (s->sequences < 0 || s->seq < 0 || s->micro_batches < 1 ||
        s->micro_batches > MW_PLAN_MICRO_BATCHES_MAX || s->tiles < 1 || s->token_chunks < 1 ||
        s->checkpoint_interval < 0 || s->kept_layers < 0 || s->save_every < 0 ||
        s->sequences > DIMENSION_MAX || s->seq > DIMENSION_MAX ||
        s->sequences * s->seq > DIMENSION_MAX || s->dtype >= MW_DTYPE_COUNT ||
        s->context >= MW_CONTEXT_COUNT ||
        (s->context_ranks > 1 && s->sequences * s->seq % s->context_ranks) ||
        s->checkpoint_dtype >= MW_DTYPE_COUNT || s->kept_encodings >> MW_ENCODING_COUNT)
        return mw_plan_refuse(check, "step: a number is out of range");
    if (s->kept_layers && !s->checkpoint_interval)
        return mw_plan_refuse(check, "step: keeps layers beside recomputed ones, and has no "
                                     "interval");
    if (s->kept_encodings && s->whole_checkpoints)
        return mw_plan_refuse(check, "step: keeps activations encoded, with checkpoints of whole "
                                     "layers");
    if (s->kept_encodings && s->checkpoint_interval && !s->kept_layers)
        return mw_plan_refuse(check, "step: keeps activations encoded, and recomputes all layers");
    if (s->checkpoint_dtype != MW_DTYPE_NONE && !s->checkpoint_interval)
        return mw_plan_refuse(check, "step: has checkpoints in %s, and no interval",
                              mw_dtype_name(s->checkpoint_dtype));
    if (s->whole_checkpoints && (s->checkpoint_interval != 1 || s->layer_order))
        return mw_plan_refuse(check, "step: checkpoints of whole layers need interval 1, without "
                                     "layer-order");
    if (s->checkpoint_dtype != MW_DTYPE_NONE &&
        ((s->whole_checkpoints && !s->kept_layers) || s->layer_order))
        return mw_plan_refuse(check,
                              "step: has checkpoints in %s, with none of inputs or layer-order",
                              mw_dtype_name(s->checkpoint_dtype));
    if (s->layer_order && (!s->checkpoint_interval || s->kept_layers))
        return mw_plan_refuse(check, "step: layer-order needs an interval, and keeps no layers");
    if (s->no_flush && (s->checkpoint_interval || s->kept_encodings || s->commits))
        return mw_plan_refuse(check, "step: no-flush keeps all activations as they are, without an "
                                     "interval or encodings, and commits nothing");
    if (s->stashes && !s->no_flush)
        return mw_plan_refuse(check, "step: stashes without no-flush");
    if (s->vertical_sync && !s->stashes)
        return mw_plan_refuse(check, "step: vertical-sync without stashes");
    if (!check_slicing(check, s) || !check_asynchronous(check, s) || !check_replicas(check, s))
        return false;
    if (s->has_decoder && s->kept_layers && s->kept_layers >= s->decoder.layers)
        return mw_plan_refuse(check,
                              "step: keeps %" PRId64 " layers: must be fewer than the "
                              "model's %" PRId64,
                              s->kept_layers, s->decoder.layers);
    if (!mw_layer_set_is_empty(&s->recomputed) &&
        (!s->kept_layers ||
         (s->has_decoder && s->decoder.layers - s->kept_layers !=
                                mw_layer_set_count(&s->recomputed, 0, s->decoder.layers))))
        return mw_plan_refuse(
            check, "step: recomputes %" PRId64 " of the layers, and keeps %" PRId64,
            mw_layer_set_count(&s->recomputed, 0, MW_LAYER_SET_MAX), s->kept_layers);
    if (!mw_optimizer_row(s->optimizer))
        return mw_plan_refuse(check, "step: optimizer %u out of range", s->optimizer);
    if (s->updates_in_place && (s->dtype != MW_DTYPE_FP32 || !s->only_simulated ||
                                !mw_optimizer_keeps(s->optimizer, MW_KEPT_PARAMETER)))
        return mw_plan_refuse(check, "step: updates-in-place needs fp32 parameters, an optimizer "
                                     "with a copy of others, and only-simulated");
    if (s->has_decoder && (!s->sequences || !s->seq))
        return mw_plan_refuse(check, "step: of a decoder it has sequences of tokens");
    return true;
}

static bool
check_op(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_step_shape *shape = &plan->shape;
    const struct mw_op *op = &plan->ops[index];
    const struct mw_work *work = &plan->works[op->work];
    bool chunked = work->kind == MW_OP_COMPUTE && mw_operator_row(work->operator_)->in_token_chunks;

    if (shape->replicas.stages && work->kind == MW_OP_COMPUTE && !takes_micro_batch(plan, op))
        return mw_plan_refuse(check, "%s is of a micro-batch that another replica takes",
                              mw_plan_label_op(check, index).text);
    if (!shape->has_decoder)
        return true;
    if (op->micro_batch < shape->micro_batches && op->layer < shape->decoder.layers &&
        (!chunked || op->shard < shape->token_chunks))
        return true;
    return mw_plan_refuse(check, "%s is outside the step's shape",
                          mw_plan_label_op(check, index).text);
}

bool
mw_plan_check_shape(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_step_shape *shape = &plan->shape;

    if (!check_numbers(check, shape))
        return false;
    if (shape->has_decoder && !check_decoder(check, &shape->decoder))
        return false;
    if (!shape->has_decoder && !shape->replicas.stages)
        return true;
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (!check_op(check, i))
            return false;
    return true;
}
