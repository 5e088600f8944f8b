/* Sets defaults, and refuses contradictions. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "base/format.h"
#include "base/spell.h"
#include "base/typed.h"
#include "plan/optimizers.h"
#include "planner/check_strategy.h"
#include "planner/settings/drops.h"
#include "planner/planner.h"
#include "planner/settings/table.h"
#include "planner/sizing/internal.h"
#include "planner/stage_replicas.h"
#include "planner/stage_split.h"

#define DEFAULT_SEQ 4096
#define PAPER_SEQ 1024

int64_t
mw_settings_default_seq(const struct mw_model *model)
{
    return MIN(model->seq, model->paper_preset ? PAPER_SEQ : DEFAULT_SEQ);
}

/* Two settings of which the second divides the model into stages. */
static bool
refuse_stages(const struct mw_settings *s, const char *setting, GError **error)
{
    g_autofree char *first = mw_spelled(setting), *stages = mw_settings_stages_text(s);
    g_autofree char *second = mw_spelled(stages);

    return mw_refuse(error, "%s: not with %s; leave one out", first, second);
}

/* An update beside backward is of the step's own gradients, and only where lanes run beside each
 * other. */
static bool
check_update(const struct mw_settings *s, GError **error)
{
    if (s->dpu_start != MW_AUTO)
        return mw_refuse(error, "{update=beside}: updates in the step itself, and {dpu-start} one "
                                "step later; leave one out");
    if (!s->overlap || s->serialize)
        return mw_refuse(error, "{update=beside}: needs {overlap=on}");
    return s->pp == 1 || refuse_stages(s, "{update=beside}", error);
}

/* Two settings that contradict each other; `named`: the first comes with the strategy. */
static bool
refuse_pair(const struct mw_settings *s, bool named, const char *one, const char *other,
            GError **error)
{
    g_autofree char *strategy = g_strdup_printf("{strategy=%s}", mw_strategy_name(s->strategy));
    g_autofree char *first = mw_spelled(named ? strategy : one);
    g_autofree char *second = mw_spelled(other);

    return mw_refuse(error, "%s: not with %s; leave one out", first, second);
}

static bool
recomputes_some(const struct mw_settings *s)
{
    return s->recompute_layers != MW_AUTO || !mw_layer_set_is_empty(&s->recompute_set);
}

/* The setting that says which layers are recomputed, for a message. */
static const char *
recomputing_setting(const struct mw_settings *s)
{
    return mw_layer_set_is_empty(&s->recompute_set) ? "{recompute-layers}" : "{recompute-list}";
}

/* The setting that asks for an encoding, for a message. */
static const char *
kept_setting(const struct mw_settings *s)
{
    return s->kept_as.relu_mask           ? "{relu-mask}"
           : s->kept_as.relu_sparsity > 0 ? "{relu-sparsity}"
                                          : "{kept-bits}";
}

/* What a step that goes layer by layer cannot have beside it.  Stages come first: their schedule
 * decides on the interval where nobody does. */
static bool
check_order(const struct mw_settings *s, GError **error)
{
    g_autofree char *stages = mw_settings_stages_text(s);
    const char *beside = s->pp > 1                        ? stages
                         : mw_kept_encodings(&s->kept_as) ? kept_setting(s)
                         : s->checkpoint_interval == 0    ? "{activation-checkpoint-interval=0}"
                         : recomputes_some(s)             ? recomputing_setting(s)
                         : s->param_loads == 3            ? "{param-loads=3}"
                         : s->dpu_start != MW_AUTO        ? "{dpu-start}"
                         : s->drop_layers                 ? "{drop-layers}"
                         : s->whole_checkpoints == 1      ? "{checkpoints=activations}"
                         : s->checkpoint_dtype            ? "{checkpoint-bits=8}"
                                                          : NULL;

    bool named = mw_strategy_traits(s->strategy)->layer_order;
    return !beside || refuse_pair(s, named, "{micro-batch-order=layer}", beside, error);
}

/* With all layers recomputed no checkpoint is of activations. */
static bool
recomputes_all(const struct mw_model *model, const struct mw_settings *s)
{
    return s->recompute_layers >= model->layers ||
           mw_layer_set_count(&s->recompute_set, 0, model->layers) == model->layers;
}

/* There are no blocks of several layers: 0 and 1 say the same. */
static bool
refuse_interval(const struct mw_settings *s, GError **error)
{
    bool named = mw_strategy_traits(s->strategy)->whole_checkpoints;
    g_autofree char *strategy = g_strdup_printf("{strategy=%s}", mw_strategy_name(s->strategy));
    g_autofree char *whole = mw_spelled(named ? strategy : "{checkpoints=activations}");

    return mw_refuse(error,
                     "{activation-checkpoint-interval=%" G_GINT64_FORMAT "}: with %s a layer's "
                     "activations are its checkpoint: must be 0 or 1, or left out",
                     s->checkpoint_interval, whole);
}

/* What whole layers as checkpoints cannot have beside them. */
static bool
check_whole(const struct mw_settings *s, GError **error)
{
    bool fewest = s->recompute_layers == MW_RECOMPUTE_FEWEST;
    bool loads_again = s->param_loads == 2 && !recomputes_some(s);
    bool no_inputs = s->checkpoint_dtype && !recomputes_some(s);
    bool interleaved = mw_schedule_row(s->schedule)->interleaved;

    if (fewest)
        return mw_refuse(error, "{recompute-layers=fewest}: counts what the GPU has room to keep; "
                                "with {checkpoints=activations} give a number of layers, or auto");
    if (s->checkpoint_interval > 1)
        return refuse_interval(s, error);
    const char *beside = loads_again                      ? "{param-loads=2}"
                         : s->drop_layers                 ? "{drop-layers}"
                         : no_inputs                      ? "{checkpoint-bits=8}"
                         : mw_kept_encodings(&s->kept_as) ? kept_setting(s)
                         : interleaved                    ? "{schedule=interleaved}"
                                                          : NULL;

    bool named = mw_strategy_traits(s->strategy)->whole_checkpoints;
    return !beside || refuse_pair(s, named, "{checkpoints=activations}", beside, error);
}

void
mw_settings_complete_tokens(const struct mw_model *model, struct mw_settings *s)
{
    if (s->seq == MW_AUTO)
        s->seq = mw_settings_default_seq(model);
    if (s->step_tokens_max == MW_AUTO)
        s->step_tokens_max = s->micro_batch == MW_AUTO && s->global_batch == MW_AUTO
                                 ? mw_default_step_tokens(model, s)
                                 : 0;
}

/* Whether tensor slices do where nothing is said: with spread experts they have to. */
static bool
shares_tokens(const struct mw_hardware *hardware, const struct mw_settings *s)
{
    return hardware->offers.sequence_parallel && s->seq % s->tp == 0 &&
           (hardware->offers.sequence_parallel_default || s->ep > 1);
}

static void
complete_shape(const struct mw_request *request, struct mw_settings *s)
{
    const struct mw_model *model = request->model;

    mw_settings_complete_tokens(model, s);
    if (s->gpus_per_node == MW_AUTO)
        s->gpus_per_node = request->hardware->gpus_per_node;
    if (s->dtype == MW_DTYPE_NONE || (s->dtype == MW_DTYPE_BF16 && !request->hardware->gpu_bf16))
        s->dtype = request->hardware->gpu_bf16 ? MW_DTYPE_BF16 : MW_DTYPE_FP16;
    if (request->hardware->fp8_products && mw_dtype_row(s->dtype)->products == MW_PRODUCTS_HALF)
        s->matmul_dtype = MW_DTYPE_FP8;
    if (s->tp == 1)
        s->sequence_parallel = MW_AUTO;
    else if (s->sequence_parallel == MW_AUTO)
        s->sequence_parallel = shares_tokens(request->hardware, s);
    if (s->tp > 1 && s->checkpoint_partition == MW_AUTO &&
        request->hardware->memory_use.checkpoints_whole)
        s->checkpoint_partition = 0;
    if (s->whole_checkpoints == MW_AUTO)
        s->whole_checkpoints = mw_strategy_traits(s->strategy)->whole_checkpoints;
    /* With whole layers as checkpoints an encoding is refused. */
    bool encodes =
        mw_kept_encodings(&s->kept_as) && !recomputes_some(s) && s->whole_checkpoints != 1;
    bool keeps = mw_settings_no_flush(s) || mw_settings_weights_later(s) || encodes;
    if (s->checkpoint_interval == MW_AUTO)
        s->checkpoint_interval = keeps && s->checkpoint_dtype == MW_DTYPE_NONE ? 0 : 1;
    if (s->checkpoint_interval == MW_INTERVAL_SQRT)
        s->checkpoint_interval = lround(sqrt((double)model->layers));
    if (s->whole_checkpoints == 1 && recomputes_all(model, s))
        s->whole_checkpoints = 0;
    if (s->layer_order == MW_AUTO)
        s->layer_order = mw_strategy_traits(s->strategy)->layer_order;
    if (s->param_loads == MW_AUTO)
        s->param_loads = s->layer_order == 1 && s->checkpoint_interval ? 2 : 3;
    if (s->prefetch == MW_AUTO)
        s->prefetch = 1;
    if (s->logits_chunks == MW_AUTO && request->hardware->memory_use.logits_whole)
        s->logits_chunks = 1;
    if (s->update_beside == MW_AUTO)
        s->update_beside = request->hardware->updates_beside && check_update(s, NULL);
    if (s->update_on == MW_AUTO)
        s->update_on = mw_strategy_traits(s->strategy)->updates_on_gpu ||
                       mw_optimizer_orthogonalizes(s->optimizer);
    if (s->partition == MW_PARTITION_AUTO)
        s->partition = s->ep > 1 || mw_sizing_has_replicas(s)
                           ? MW_PARTITION_BANDWIDTH
                           : mw_strategy_traits(s->strategy)->partition;
}

/* Refuses the global batch, by the name under which it was given. */
static bool G_GNUC_PRINTF(3, 4)
    refuse_batch(const struct mw_settings *s, GError **error, const char *accepted, ...)
{
    va_list arguments;

    va_start(arguments, accepted);
    g_autofree char *text = mw_spelled_vprintf(accepted, arguments);
    va_end(arguments);
    if (s->batch_source)
        return mw_refuse(error, "%s: must be %s", s->batch_source, text);
    return mw_refuse(error, "{global-batch=%" G_GINT64_FORMAT "}: must be %s", s->global_batch,
                     text);
}

/* The two multiples of `unit` nearest to the global batch. */
static char *
nearest_batches(const struct mw_settings *s, double unit)
{
    int64_t each = llround(unit), below = each > 0 ? s->global_batch / each * each : 0;

    if (each < 1 || fabs(unit - (double)each) > 1e-9)
        return g_strdup("");
    if (!below)
        return g_strdup_printf("; the least is %" G_GINT64_FORMAT, each);
    return g_strdup_printf("; the nearest are %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, below,
                           below + each);
}

static bool
refuse_product(const struct mw_settings *s, double gpus, GError **error)
{
    g_autofree char *batch = mw_typed(s->micro_batch);
    g_autofree char *count = mw_typed(gpus);
    g_autofree char *nearest = nearest_batches(s, s->micro_batch * gpus);

    return refuse_batch(s, error, "{batch=%s} times %s GPU%s times a whole {grad-accum}%s", batch,
                        count, gpus == 1 ? "" : "s", nearest);
}

static bool
refuse_multiple(const struct mw_settings *s, double replicas, int64_t accum, GError **error)
{
    g_autofree char *multiple = mw_typed(replicas * accum);
    g_autofree char *count = mw_typed(replicas);
    g_autofree char *nearest = nearest_batches(s, replicas * accum);

    return refuse_batch(s, error,
                        "a multiple of %s: %s data-parallel GPU%s times "
                        "{grad-accum=%" G_GINT64_FORMAT "}%s",
                        multiple, count, replicas == 1 ? "" : "s", accum, nearest);
}

/* Micro-batches of one sequence are told apart up to here.  More are mostly meant as tokens. */
static bool
check_sequences(const struct mw_settings *s, GError **error)
{
    double groups = mw_settings_batch_gpus(s) / (double)mw_settings_sharers(s);
    int64_t most = (int64_t)(groups * MW_PLAN_MICRO_BATCHES_MAX), meant = s->global_batch / s->seq;

    if (s->global_batch <= most)
        return true;
    g_autofree char *tokens = g_strdup(mw_format_count((double)s->global_batch * (double)s->seq));
    return refuse_batch(
        s, error,
        "at most %" G_GINT64_FORMAT
        " sequences with so many GPUs; this makes %s tokens per step, and %s tokens "
        "are {global-batch=%" G_GINT64_FORMAT "}",
        most, tokens, mw_format_count((double)s->global_batch), MAX(1, meant));
}

/* global batch = micro-batch * GPUs * accumulation; two of the three may be given. */
static bool
complete_batch(struct mw_settings *s, GError **error)
{
    double gpus = mw_settings_batch_gpus(s);

    if (s->global_batch == MW_AUTO) {
        bool fills = s->micro_batch == MW_AUTO && s->step_tokens_max > 0;
        if (s->grad_accum == MW_AUTO && !fills)
            s->grad_accum = mw_settings_batch_grain(s);
        return true;
    }
    if (!check_sequences(s, error))
        return false;
    if (s->micro_batch != MW_AUTO) {
        double accum = s->global_batch / (s->micro_batch * gpus);
        if (s->grad_accum == MW_AUTO)
            s->grad_accum = llround(accum);
        if (fabs(accum - s->grad_accum) > 1e-9 || s->grad_accum < 1)
            return refuse_product(s, gpus, error);
        return true;
    }
    int64_t accum = s->grad_accum == MW_AUTO ? 1 : s->grad_accum;
    double micro = s->global_batch / (gpus * accum),
           sequences = micro * (double)mw_settings_sharers(s);
    if (sequences < 1 || fabs(sequences - llround(sequences)) > 1e-9)
        return refuse_multiple(s, gpus / (double)mw_settings_sharers(s), accum, error);
    if (s->grad_accum != MW_AUTO)
        s->micro_batch = micro; /* else the search finds the fewest micro-batches that fit */
    return true;
}

static bool
offloads_params(const struct mw_strategy_traits *strategy)
{
    return strategy->state[MW_STATE_PARAMETERS].offloadable;
}

static bool
delays_update(const struct mw_strategy_traits *strategy)
{
    return strategy->delays_update;
}

/* Software that writes gradients to the drives with the optimizer state has no other placement. */
static bool
check_swapped(const struct mw_hardware *hardware, const struct mw_settings *s, GError **error)
{
    const struct mw_placement *gradients = &s->placement[MW_STATE_GRADIENTS];
    const struct mw_placement *state = &s->placement[MW_STATE_OPTIMIZER];
    bool on_drives = mw_placement_has(state, MW_TIER_NVME);

    return !hardware->swaps_gradients || !gradients->count || !state->count ||
           mw_placement_has(gradients, MW_TIER_NVME) == on_drives ||
           mw_refuse(error,
                     "{gradient-device}: the software keeps gradients on drives if the optimizer "
                     "state is there, and only then ({key software.offload.swaps_gradients=true}); "
                     "must be %s with {optimizer-device=%s}",
                     on_drives ? "nvme" : "cpu or gpu", on_drives ? "nvme" : "cpu");
}

static bool
is_trained(const struct mw_trained *trained, int operator_)
{
    enum mw_operator adapted = mw_operator_row(operator_)->adapts;

    return adapted ? trained->adapted >> adapted & 1 : !(trained->frozen >> operator_ & 1);
}

/* Backward goes through all layers, to the embedding if that is trained. */
static bool
check_trained(const struct mw_settings *s, GError **error)
{
    bool early = false;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        const struct mw_operator_row *row = mw_operator_row(i);
        early |= row->parameters && !row->part_of && row->place != MW_PLACE_TAIL &&
                 is_trained(&s->trained, i);
    }
    if (s->frozen_dtype != MW_DTYPE_NONE && !s->trained.frozen)
        return mw_refuse(error, "{weight-bits}: applies to frozen weights, and none are frozen; "
                                "give {train=lora:16} too");
    if (s->lora_alpha > 0 && !s->trained.rank)
        return mw_refuse(error, "{lora-alpha=%g}: there are no adapters; give {train=lora:16} too",
                         s->lora_alpha);
    if (!early) {
        g_autofree char *trained = mw_setting_trained_text(&s->trained);
        return mw_refuse(error,
                         "{train=%s}: must have an operator of the layers, or the embedding, "
                         "beside what comes behind the layers",
                         trained);
    }
    return true;
}

static bool
has_relu(const struct mw_model *model)
{
    struct mw_decoder decoder;

    if (mw_model_decoder(model, &decoder, NULL))
        return decoder.activation == MW_ACTIVATION_RELU;
    return model->family && model->family->run.activation == MW_ACTIVATION_RELU;
}

static bool
check_kept(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    bool relu = s->kept_as.relu_mask || s->kept_as.relu_sparsity > 0;

    if (!mw_kept_encodings(&s->kept_as))
        return true;
    g_autofree char *named = mw_spelled(kept_setting(s));
    if (relu && !has_relu(model))
        return mw_refuse(error, "%s: model %s is not known to have ReLU, as OPT has; leave it out",
                         named, model->name);
    if (!s->checkpoint_interval || mw_settings_keeps_whole(s))
        return true;
    g_autofree char *recomputing = mw_spelled(recomputing_setting(s));
    int64_t most = mw_settings_most_layers(model, s);
    if (!recomputes_some(s))
        return mw_refuse(error,
                         "%s: every layer is recomputed, and none keeps its activations; give "
                         "{activation-checkpoint-interval=0}, or {recompute-layers} of less than "
                         "%" G_GINT64_FORMAT,
                         named, most);
    return (s->recompute_layers < most &&
            mw_layer_set_count(&s->recompute_set, 0, model->layers) < model->layers) ||
           mw_refuse(error,
                     "%s: %s names every layer, and none keeps its activations; name fewer, or "
                     "leave out %s",
                     named, recomputing, recomputing);
}

/* Profiles that have fp8 are named: which GPUs have it is nothing that a message says by heart. */
static bool
check_matmul(const struct mw_hardware *hardware, const struct mw_settings *s, GError **error)
{
    if (s->matmul_dtype == MW_DTYPE_NONE)
        return true;
    if (mw_dtype_row(s->dtype)->products != MW_PRODUCTS_HALF)
        return mw_refuse(error,
                         "{matmul-dtype=%s}: casts operands of 16 bits, and {dtype=%s} has "
                         "none; leave one out",
                         mw_dtype_name(s->matmul_dtype), mw_dtype_name(s->dtype));
    /* bitsandbytes' MatMul4Bit and torchao's linear_nf4 go on in 16 bits, LLM.int8 in integers. */
    if (s->frozen_dtype != MW_DTYPE_NONE)
        return mw_refuse(error,
                         "{matmul-dtype=%s}: weights in %s, by {weight-bits}, are widened to 16 "
                         "bits and multiplied as such; leave one out",
                         mw_dtype_name(s->matmul_dtype), mw_dtype_name(s->frozen_dtype));
    if (mw_hardware_has_fp8(hardware))
        return true;
    g_autofree char *names = mw_hwprofiles_with_fp8();
    return mw_refuse(error,
                     "{matmul-dtype=%s}: the profile has no rate of products in fp8 "
                     "(gpu.fp8_tile_tflops); profiles with one: %s, and machines of these GPUs; "
                     "or leave it out",
                     mw_dtype_name(s->matmul_dtype), names);
}

/* An optimizer that takes matrices as a whole, by products. */
static bool
check_orthogonal(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    const char *name = mw_optimizer_name(s->optimizer);

    if (!mw_optimizer_orthogonalizes(s->optimizer))
        return true;
    if (s->tp > 1)
        return mw_refuse(error,
                         "{tp=%" G_GINT64_FORMAT "}: cuts the matrices that {optimizer=%s} updates "
                         "as a whole; must be 1, or another optimizer",
                         s->tp, name);
    if (s->update_on == 0)
        return mw_refuse(error,
                         "{update-on=host}: {optimizer=%s} updates matrices by products, which are "
                         "modelled on the GPU alone; leave one out",
                         name);
    if (model->stack_count || model->described)
        return mw_refuse(error,
                         "{optimizer=%s}: model %s has layers of several shapes, of which a mean "
                         "is planned; must be an optimizer by elements, such as adamw",
                         name, model->name);
    return true;
}

static bool
partitions(const struct mw_strategy_traits *strategy)
{
    return strategy->state[MW_STATE_OPTIMIZER].partitioned;
}

/* A group's shards are of what is partitioned. */
static bool
check_shard_group(const struct mw_settings *s, GError **error)
{
    if (s->shard_group == MW_SHARD_ALL || partitions(mw_strategy_traits(s->strategy)))
        return true;
    g_autofree char *names = mw_strategies_text(partitions);
    g_autofree char *group = mw_setting_text(mw_setting_find("shard-group"), s);
    return mw_refuse(error, "{shard-group=%s}: %s partitions nothing; give %s, or leave it out",
                     group, mw_strategy_name(s->strategy), names);
}

/* As many as there can be where the planner chooses where stages begin. */
int64_t
mw_settings_most_layers(const struct mw_model *model, const struct mw_settings *s)
{
    int64_t parts = s->pp * mw_settings_stretches(s), most = 1;

    if (mw_settings_balances_stages(s))
        return MAX(1, model->layers - parts + 1);
    if (mw_layer_set_is_empty(&s->stage_begins))
        return mw_divide_up(model->layers, parts);
    for (int64_t part = 0; part < parts; part++)
        most = MAX(most, mw_settings_stretch_begin(s, model->layers, part + 1) -
                             mw_settings_stretch_begin(s, model->layers, part));
    return most;
}

/* Settings that count layers count those that there are. */
static bool
check_counts_of_layers(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    int64_t most = mw_settings_most_layers(model, s);

    if (s->checkpoint_interval > model->layers)
        return mw_refuse(error,
                         "{activation-checkpoint-interval=%" G_GINT64_FORMAT
                         "}: model %s has %" G_GINT64_FORMAT " layers; give 0 to %" G_GINT64_FORMAT
                         ", sqrt or auto",
                         s->checkpoint_interval, model->name, model->layers, model->layers);
    if (s->recompute_layers > most)
        return mw_refuse(error,
                         "{recompute-layers=%" G_GINT64_FORMAT "}: %smodel %s has "
                         "%" G_GINT64_FORMAT " layers; give %s, or fewest",
                         s->recompute_layers,
                         mw_settings_stretches(s) > 1 ? "a stretch of "
                         : s->pp > 1                  ? "a pipeline stage of "
                                                      : "",
                         model->name, most, mw_format_choice(1, most));
    return true;
}

static bool
check_recompute(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    int64_t listed = mw_layer_set_count(&s->recompute_set, 0, MW_LAYER_SET_MAX);
    int64_t own = mw_layer_set_count(&s->recompute_set, 0, model->layers);
    g_autofree char *recomputing = mw_spelled(recomputing_setting(s));

    if (recomputes_some(s) && (mw_settings_no_flush(s) || mw_settings_weights_later(s)))
        return mw_refuse(error,
                         "{schedule=%s}: keeps all activations, and recomputes no layer; leave out "
                         "%s",
                         mw_schedule_row(s->schedule)->name, recomputing);
    if (s->recompute_layers > 0 && s->checkpoint_interval == 0)
        return mw_refuse(error,
                         "{recompute-layers=%" G_GINT64_FORMAT
                         "}: {activation-checkpoint-interval=0} recomputes nothing; leave one out",
                         s->recompute_layers);
    if (s->recompute_layers == MW_RECOMPUTE_FASTEST && !mw_settings_keeps_whole(s))
        return mw_refuse(error, "{recompute-layers=auto}: is of activations that leave the GPU; "
                                "give {checkpoints=activations}, or {recompute-layers=fewest}");
    if (listed && s->checkpoint_interval == 0)
        return mw_refuse(error, "{recompute-list}: {activation-checkpoint-interval=0} recomputes "
                                "nothing; leave one out");
    if (listed && s->recompute_layers != MW_AUTO)
        return mw_refuse(error, "{recompute-list}: says which layers are recomputed, and "
                                "{recompute-layers} how many; leave one out");
    if (listed > own)
        return mw_refuse(error,
                         "{recompute-list}: model %s has layers 0 to %" G_GINT64_FORMAT
                         "; name these alone",
                         model->name, model->layers - 1);
    if (recomputes_some(s) && s->pp > 1 && model->layers > MW_LAYER_SET_MAX)
        return mw_refuse(error, "%s: with {pp} for models of at most %d layers; leave one out",
                         recomputing, MW_LAYER_SET_MAX);
    return true;
}

/* Gradients of weights that come later need all that a micro-batch's passes have made. */
static bool
check_weights_later(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    const char *name = mw_schedule_row(s->schedule)->name;

    if (s->checkpoint_interval)
        return mw_refuse(error,
                         "{schedule=%s}: keeps all activations for the gradients of weights; give "
                         "{activation-checkpoint-interval=0}",
                         name);
    if (mw_kept_encodings(&s->kept_as)) {
        g_autofree char *kept = mw_spelled(kept_setting(s));
        return mw_refuse(error, "{schedule=%s}: keeps activations as they are; leave out %s", name,
                         kept);
    }
    if (s->trained.frozen)
        return mw_refuse(error, "{schedule=%s}: trains all parameters; leave out {train}", name);
    if (model->experts)
        return mw_refuse(error,
                         "{schedule=%s}: model %s is a mixture of experts, whose gradients are not "
                         "split; give {schedule=1f1b}",
                         name, model->name);
    return true;
}

/* A stage has the passes of two steps in hand, and updates by itself. */
static bool
check_no_flush(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    const struct mw_strategy_traits *strategy = mw_strategy_traits(s->strategy);
    const char *name = mw_schedule_row(s->schedule)->name;
    bool moves = false;

    for (int state = 0; state < MW_STATE_COUNT; state++)
        moves |= mw_placement_has(&s->placement[state], MW_TIER_CPU) ||
                 mw_placement_has(&s->placement[state], MW_TIER_NVME);
    if (mw_settings_stashes(s) && (model->tied_embedding || s->layout == MW_LAYOUT_PAPER20))
        return mw_refuse(error,
                         "{schedule=%s}: updates after each micro-batch, without %s; give "
                         "{schedule=2bw}",
                         name,
                         model->tied_embedding ? "sums of an embedding that is tied to the output"
                                               : "fp32 gradients ({state-layout=paper20})");
    if (moves || strategy->state[MW_STATE_GRADIENTS].partitioned)
        return mw_refuse(error,
                         "{schedule=%s}: is for states that stay whole on the GPU; give "
                         "{strategy=ddp} or {strategy=zero1}, without offloading",
                         name);
    if (mw_kept_encodings(&s->kept_as)) {
        g_autofree char *kept = mw_spelled(kept_setting(s));
        return mw_refuse(error, "{schedule=%s}: keeps activations as they are; leave out %s", name,
                         kept);
    }
    if (s->checkpoint_interval)
        return mw_refuse(error,
                         "{schedule=%s}: keeps all activations; give "
                         "{activation-checkpoint-interval=0}",
                         name);
    if (s->commit == 1 || s->save_every > 0)
        return mw_refuse(error,
                         "{schedule=%s}: no step ends alone, so none is durable; leave out "
                         "{commit} and {save-every}",
                         name);
    return true;
}

static bool
partitions_state_alone(const struct mw_strategy_traits *row)
{
    return row->state[MW_STATE_OPTIMIZER].partitioned &&
           !row->state[MW_STATE_GRADIENTS].partitioned &&
           !row->state[MW_STATE_PARAMETERS].partitioned;
}

/* What an update of one rank's gradient at a time does not go with; NULL: all is well.  Gradients
 * are whole until their shards go to the owners, and ranks have parameters of as many versions as
 * there are ranks between two steps: the newest is in the optimizer state alone. */
static const char *
keeps_from_asynchrony(const struct mw_settings *s)
{
    bool alone = mw_optimizer_updates_alone(s->optimizer);

    return s->dpu_start != MW_AUTO ? "updates in their own step, without {dpu-start}"
           : !partitions_state_alone(mw_strategy_traits(s->strategy)) ? "{strategy=zero1}"
           : s->tp > 1                                                ? "{tp=1}"
           : mw_settings_takes_turns(s)          ? "{pp=1}, without {stage-replicas}"
           : s->pp > 1                           ? "{pp=1}"
           : s->cp > 1                           ? "{cp=1}"
           : s->ep > 1                           ? "{ep=1}"
           : mw_sizing_has_replicas(s)           ? "{shard-group=all}"
           : s->partition == MW_PARTITION_OWNER  ? "{partition=bandwidth}"
           : !alone                              ? "another {optimizer}, such as adamw"
           : mw_settings_update_beside(s)        ? "{update=end}"
           : s->drop_layers                      ? "all layers in each step, without {drop-layers}"
           : s->commit == 1 || s->save_every > 0 ? "a run without {commit} and {save-every}"
                                                 : NULL;
}

static bool
check_asynchronous(const struct mw_settings *s, GError **error)
{
    const char *needs = keeps_from_asynchrony(s);
    g_autofree char *other = needs ? mw_spelled(needs) : NULL;

    return !needs || mw_refuse(error,
                               "{data-parallel=async}: needs %s; give that, or "
                               "{data-parallel=sync}",
                               other);
}

/* What stages whose ranks take turns do not go with; NULL: all is well. */
static const char *
keeps_from_turns(const struct mw_model *model, const struct mw_settings *s)
{
    const struct mw_schedule_row *row = mw_schedule_row(s->schedule);
    const struct mw_strategy_traits *strategy = mw_strategy_traits(s->strategy);

    return row->interleaved || row->weights_later || row->vertical_sync
               ? "{schedule} of 1f1b, gpipe, 2bw or pipedream"
           : s->tp > 1                          ? "{tp=1}"
           : s->cp > 1                          ? "{cp=1}"
           : s->ep > 1                          ? "{ep=1}"
           : s->shard_group != MW_SHARD_ALL     ? "{shard-group=all}"
           : s->layer_order == 1                ? "{micro-batch-order=depth}"
           : s->partition == MW_PARTITION_OWNER ? "{partition=bandwidth}"
           : s->drop_layers                     ? "all layers in each step, without {drop-layers}"
           : model->tied_embedding
               ? "a model whose embedding is not tied to the output, of which two stages sum up a "
                 "copy each"
           : strategy->state[MW_STATE_OPTIMIZER].partitioned ||
                   strategy->state[MW_STATE_GRADIENTS].partitioned
               ? "{strategy=ddp} and no offloading, as each replica has the state of its whole "
                 "stage on its GPU"
               : NULL;
}

static bool
check_turns(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    const char *needs = keeps_from_turns(model, s);
    g_autofree char *other = needs ? mw_spelled(needs) : NULL;
    g_autofree char *text = mw_setting_text(mw_setting_find("stage-replicas"), s);

    return !needs || mw_refuse(error,
                               "{stage-replicas=%s}: needs %s; give that, or "
                               "{stage-replicas=even}",
                               text, other);
}

/* Of a pipeline. */
static bool
check_schedule(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    bool interleaved = mw_schedule_row(s->schedule)->interleaved;

    if (s->schedule != MW_SCHEDULE_1F1B && s->pp == 1)
        return mw_refuse(error,
                         "{schedule=%s}: is of a pipeline's stages; give {pp} of 2 or more, or "
                         "leave it out",
                         mw_schedule_row(s->schedule)->name);
    if (!mw_layer_set_is_empty(&s->stage_begins) && s->pp == 1) {
        g_autofree char *text = mw_setting_text(mw_setting_find("stage-split"), s);
        return mw_refuse(error,
                         "{stage-split=%s}: is of a pipeline's stages; give {pp} of 2 or more, or "
                         "leave it out",
                         text);
    }
    if (mw_settings_takes_turns(s) && !check_turns(model, s, error))
        return false;
    if (s->virtual_stages != MW_AUTO && !interleaved)
        return mw_refuse(error,
                         "{virtual-stages=%" G_GINT64_FORMAT "}: is of {schedule=interleaved}; "
                         "give both, or leave it out",
                         s->virtual_stages);
    if (mw_settings_weights_later(s) && !check_weights_later(model, s, error))
        return false;
    if (mw_settings_no_flush(s) && !check_no_flush(model, s, error))
        return false;
    if (!interleaved)
        return true;
    if (model->by_turns)
        return mw_refuse(error,
                         "{schedule=interleaved}: model %s has stacks of layers of several kinds, "
                         "which are not interleaved; give {schedule=1f1b}",
                         model->name);
    return true;
}

static bool
check_combination(const struct mw_request *request, const struct mw_settings *s, GError **error)
{
    if (s->seq > request->model->seq && request->model->learned_positions)
        return mw_refuse(error,
                         "{seq=%" G_GINT64_FORMAT
                         "}: model %s has learned positions for %" G_GINT64_FORMAT
                         " tokens; give %s",
                         s->seq, request->model->name, request->model->seq,
                         mw_format_choice(1, request->model->seq));
    if (mw_dtype_row(s->dtype)->products == MW_PRODUCTS_FP32 &&
        request->hardware->gpu_fp32_flops <= 0)
        return mw_refuse(error,
                         "{dtype=%s}: the profile has no rate of products in fp32; "
                         "set gpu.fp32_tflops, or give {dtype=%s}",
                         mw_dtype_name(s->dtype), request->hardware->gpu_bf16 ? "bf16" : "fp16");
    if (!check_matmul(request->hardware, s, error) || !check_kept(request->model, s, error) ||
        !check_orthogonal(request->model, s, error))
        return false;
    if (s->dtype == MW_DTYPE_FP32 && s->layout == MW_LAYOUT_PAPER20)
        return mw_refuse(error, "{state-layout=paper20}: keeps gradients in fp32 beside those of "
                                "16 bits, and {dtype=fp32} has these alone; leave one out");
    if (s->scores_again == 1 && request->hardware->gpu_flash_attention)
        return mw_refuse(error, "{recompute-attention=on}: attention here is a fused kernel, which "
                                "keeps no scores; leave it out, or name software without "
                                "({key software.attention.kernel=unfused})");
    if (s->param_loads == 2 && s->checkpoint_interval == 0)
        return mw_refuse(error,
                         "{param-loads=2}: means one fetch for recompute and backward, and "
                         "{activation-checkpoint-interval=0} recomputes nothing; leave one out");
    if (s->checkpoint_dtype != MW_DTYPE_NONE && s->checkpoint_interval == 0)
        return mw_refuse(error, "{checkpoint-bits=8}: {activation-checkpoint-interval=0} makes no "
                                "checkpoints; leave one out");
    if (!check_counts_of_layers(request->model, s, error) ||
        !check_recompute(request->model, s, error) || !check_shard_group(s, error))
        return false;
    if (s->dpu_start != MW_AUTO && !mw_strategy_traits(s->strategy)->delays_update) {
        g_autofree char *names = mw_strategies_text(delays_update);
        return mw_refuse(error, "{dpu-start}: delayed parameter update belongs to %s, not to %s",
                         names, mw_strategy_name(s->strategy));
    }
    if (mw_settings_asynchronous(s) && !check_asynchronous(s, error))
        return false;
    if (s->layer_order == 1 && !check_order(s, error))
        return false;
    if (s->sequence_parallel == 1 && s->seq % s->tp)
        return mw_refuse(
            error,
            "{seq=%" G_GINT64_FORMAT "}: {tp=%" G_GINT64_FORMAT
            "} slices share its tokens, and must divide it; give {sequence-parallel=off}",
            s->seq, s->tp);
    if (!check_schedule(request->model, s, error))
        return false;
    if (mw_settings_keeps_whole(s) && !check_whole(s, error))
        return false;
    if (s->dpu_start != MW_AUTO && mw_settings_updates_on_gpu(s))
        return mw_refuse(error, "{update-on=gpu}: a GPU cannot update while it computes the "
                                "next step, as {dpu-start} has the host do; leave one out");
    if (mw_settings_update_beside(s) && !check_update(s, error))
        return false;
    if (s->drop_layers && s->dpu_start != MW_AUTO)
        return mw_refuse(error, "{drop-layers}: not with {dpu-start}, whose update would be of "
                                "other layers; leave one out");
    if (s->drop_layers && s->pp > 1)
        return refuse_stages(s, "{drop-layers}", error);
    if (s->drop_layers && !mw_drops_check_layers(s->drop_layers, request->model->layers, error))
        return false;
    return mw_setting_check_modules(request->model, s->trained_modules, error) &&
           check_trained(s, error) && mw_settings_check_strategy(s, error) &&
           check_swapped(request->hardware, s, error);
}

bool
mw_settings_complete(const struct mw_request *request, const struct mw_settings *asked,
                     struct mw_settings *resolved, GError **error)
{
    *resolved = *asked;
    complete_shape(request, resolved);
    if (!complete_batch(resolved, error) || !check_combination(request, resolved, error))
        return false;
    if (mw_settings_takes_turns(resolved))
        mw_stage_replicas_choose(request->model, request->hardware, resolved);
    else
        mw_stage_split_choose(request->model, request->hardware, resolved);
    return true;
}

/* A message about a strategy is of no use where nobody named one. */
static bool
names_strategy(const GError *refused)
{
    const struct mw_strategies all = mw_strategies_all();
    bool names = false;

    for (int i = 0; !names && i < all.count; i++)
        names = strstr(refused->message, mw_strategy_name(all.one[i])) != NULL;
    return names;
}

/* The first message of an open strategy that is not about a strategy: it goes furthest with what is
 * asked.  Else that of `blamed`. */
static bool
refuse_open(const struct mw_request *request, const struct mw_settings *blamed,
            const struct mw_strategies *all, GError **error)
{
    struct mw_settings one = *blamed;
    GError *first = NULL;

    check_combination(request, blamed, &first);
    for (int i = 0; names_strategy(first) && i < all->count; i++) {
        g_autoptr(GError) other = NULL;
        one.strategy = all->one[i];
        check_combination(request, &one, &other);
        if (!names_strategy(other)) {
            g_error_free(first);
            first = g_steal_pointer(&other);
        }
    }
    g_propagate_error(error, first);
    return false;
}

/* If the strategy is open, one that accepts the devices is enough; if none does, the message is
 * that of the strategy that accepts any device, if it is not about the strategy. */
static bool
check_strategies(const struct mw_request *request, const struct mw_settings *s, GError **error)
{
    const struct mw_strategies all = mw_strategies_of(s->strategy);
    struct mw_settings one = *s, blamed = *s;
    bool taken = false;

    for (int i = 0; !taken && i < all.count; i++) {
        one.strategy = all.one[i];
        taken = check_combination(request, &one, NULL);
        if (!offloads_params(mw_strategy_traits(blamed.strategy)))
            blamed.strategy = one.strategy;
    }
    return taken || refuse_open(request, &blamed, &all, error);
}

bool
mw_settings_check(const struct mw_request *request, const struct mw_settings *asked, GError **error)
{
    const struct mw_hardware any = {.gpus_per_node = 1,
                                    .gpu_bf16 = true,
                                    .gpu_fp32_flops = 1,
                                    .gpu_multiprocessors = 1,
                                    .fp8_tile_flops = 1};
    const struct mw_hardware *hardware = request->hardware ? request->hardware : &any;
    const struct mw_request trial = {request->model, hardware};
    struct mw_settings s = *asked;
    struct mw_model_walk walk;

    complete_shape(&trial, &s);
    if (request->hardware && !complete_batch(&s, error))
        return false;
    if (s.micro_batch == MW_AUTO)
        s.micro_batch = 1;
    return check_strategies(&trial, &s, error) &&
           (request->hardware ? mw_sizing_check(trial.model, hardware, &s, &walk, error)
                              : mw_sizing_check_settings(trial.model, &s, error));
}

/* The gates that `run` has, separated by "or"; g_free it. */
static char *
gates_that_run(void)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (int i = 0; i < MW_GATING_COUNT; i++)
        if (mw_gate_row(i)->runs)
            g_string_append_printf(names, "%s%s", names->len ? " or " : "", mw_gate_name(i));
    return g_strdup(names->str);
}

bool
mw_settings_run(const struct mw_settings *s, GError **error)
{
    g_autofree char *gates = gates_that_run();

    if (!mw_gate_row((int)s->gate)->runs)
        return mw_refuse(error,
                         "{gate=%s}: run does not have it; give {gate=%s}, or ask `memwall "
                         "simulate`",
                         mw_gate_name((int)s->gate), gates);
    if (!mw_settings_gate_runs(s))
        return mw_refuse(error,
                         "{gate=%s}: its router computes in fp32, which run does where all else "
                         "does; give {dtype=fp32}, or {gate=%s}",
                         mw_gate_name((int)s->gate), mw_gate_name(MW_GATING_TOP_K));
    if (mw_settings_capacity_factor(s) > 0 && (s->tp > 1 || s->cp > 1))
        return mw_refuse(error,
                         "{capacity-factor=%.15g}%s: run limits whole experts, of whole sequences; "
                         "give {tp=1} and {cp=1}, or {capacity-factor=none}, or ask `memwall "
                         "simulate`",
                         mw_settings_capacity_factor(s),
                         s->capacity_factor > 0 ? "" : ", as the gate has it");
    if (s->ep > 1 && (s->tp > 1 || s->cp > 1))
        return mw_refuse(error,
                         "{ep=%" G_GINT64_FORMAT "}: run spreads whole experts, of whole "
                         "sequences; give {tp=1} and {cp=1}, or ask `memwall simulate`",
                         s->ep);
    if (s->layout == MW_LAYOUT_PAPER20)
        return mw_refuse(error, "{state-layout=paper20}: run keeps state as zero16 only; plan and "
                                "simulate take paper20");
    double sequences = s->micro_batch * (double)mw_settings_sharers(s);
    if (s->micro_batch != MW_AUTO && sequences != (double)(int64_t)sequences)
        return mw_refuse(error, "{batch=%.15g}: run takes whole sequences", s->micro_batch);
    if (!mw_optimizer_row(s->optimizer)->runs)
        return mw_refuse(error,
                         "{optimizer=%s}: run does not update by it; `memwall list optimizers` "
                         "says by which, or ask `memwall simulate`",
                         mw_optimizer_name(s->optimizer));
    if (mw_settings_update_beside(s))
        return mw_refuse(error, "{update=beside}: run updates at the end of a step; give "
                                "{update=end}, or ask `memwall simulate`");
    return true;
}
