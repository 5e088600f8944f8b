#include "planner/deepspeed/internal.h"

#include <json-glib/json-glib.h>
#include <math.h>

#include "base/typed.h"

#define NVME_PATH "/local_nvme" /* DeepSpeed's own default */
#define PARAM_BYTES 2

static void
add_int(JsonBuilder *json, const char *name, int64_t value)
{
    json_builder_set_member_name(json, name);
    json_builder_add_int_value(json, value);
}

static void
add_bool(JsonBuilder *json, const char *name, bool value)
{
    json_builder_set_member_name(json, name);
    json_builder_add_boolean_value(json, value);
}

/* json-glib writes 0.1 with seventeen digits and 1e-8 as 1e-08.0.  So a number is added as text
 * with this mark before it, and text_of removes mark and quotes. */
#define NUMBER_MARK "="

static void
add_real_text(JsonBuilder *json, const char *text)
{
    g_autofree char *marked = g_strconcat(NUMBER_MARK, text, NULL);

    json_builder_add_string_value(json, marked);
}

static void
add_real(JsonBuilder *json, const char *name, const char *text)
{
    json_builder_set_member_name(json, name);
    add_real_text(json, text);
}

static void
add_text(JsonBuilder *json, const char *name, const char *value)
{
    json_builder_set_member_name(json, name);
    json_builder_add_string_value(json, value);
}

static void
begin(JsonBuilder *json, const char *name)
{
    json_builder_set_member_name(json, name);
    json_builder_begin_object(json);
}

enum mw_tier
mw_ds_slowest(const struct mw_placement *placement)
{
    enum mw_tier tier = MW_TIER_GPU;

    for (int i = 0; i < placement->count; i++)
        tier = MAX(tier, placement->part[i].tier);
    return tier;
}

static bool
uses_nvme(const struct mw_settings *settings)
{
    return mw_ds_slowest(&settings->placement[MW_STATE_PARAMETERS]) == MW_TIER_NVME ||
           mw_ds_slowest(&settings->placement[MW_STATE_OPTIMIZER]) == MW_TIER_NVME;
}

/* A placement counts bytes per node, DeepSpeed elements per GPU. */
static int64_t
elements_in_cpu(const struct mw_settings *settings)
{
    const struct mw_placement *placement = &settings->placement[MW_STATE_PARAMETERS];

    for (int i = 0; i < placement->count; i++)
        if (placement->part[i].tier == MW_TIER_CPU && placement->part[i].share <= 0 &&
            placement->part[i].bytes < INT64_MAX)
            return placement->part[i].bytes / MAX(settings->gpus_per_node, 1) / PARAM_BYTES;
    return 0;
}

static void
add_device(JsonBuilder *json, enum mw_tier tier)
{
    add_text(json, "device", tier == MW_TIER_NVME ? "nvme" : "cpu");
    if (tier == MW_TIER_NVME)
        add_text(json, "nvme_path", NVME_PATH);
    add_bool(json, "pin_memory", true);
}

static void
add_offload_param(JsonBuilder *json, const struct mw_settings *settings,
                  const struct mw_deepspeed_facts *facts)
{
    enum mw_tier tier = mw_ds_slowest(&settings->placement[MW_STATE_PARAMETERS]);

    if (tier == MW_TIER_GPU)
        return;
    begin(json, "offload_param");
    add_device(json, tier);
    if (tier == MW_TIER_NVME) {
        add_int(json, "buffer_count", MAX(facts->buffers.swap.param_count, 1));
        add_int(json, "buffer_size", MAX(facts->buffers.swap.param_elements, 1));
        add_int(json, "max_in_cpu", elements_in_cpu(settings));
    }
    json_builder_end_object(json);
}

/* Of the optimizer state; 0: none is said. */
static double
share_on_gpu(const struct mw_settings *settings)
{
    const struct mw_placement *placement = &settings->placement[MW_STATE_OPTIMIZER];

    return placement->count && placement->part[0].tier == MW_TIER_GPU ? placement->part[0].share
                                                                      : 0;
}

static void
add_offload_optimizer(JsonBuilder *json, const struct mw_settings *settings,
                      const struct mw_deepspeed_facts *facts)
{
    enum mw_tier tier = mw_ds_slowest(&settings->placement[MW_STATE_OPTIMIZER]);

    if (tier == MW_TIER_GPU)
        return;
    begin(json, "offload_optimizer");
    add_device(json, tier);
    if (tier == MW_TIER_CPU && mw_deepspeed_stage(settings) == 3 && share_on_gpu(settings) > 0) {
        g_autofree char *ratio = mw_typed(1 - share_on_gpu(settings));
        add_real(json, "ratio", ratio);
    }
    if (tier == MW_TIER_NVME) {
        add_int(json, "buffer_count", MAX(facts->buffers.swap.state_count, 1));
        add_bool(json, "pipeline_read", facts->buffers.swap.state_sets >= 2);
        add_bool(json, "pipeline_write", facts->buffers.swap.state_sets >= 3);
        add_bool(json, "fast_init", false);
    }
    json_builder_end_object(json);
}

static void
add_stage3(JsonBuilder *json, const struct mw_settings *settings,
           const struct mw_deepspeed_facts *facts)
{
    if (settings->optimizer_chunk > 0)
        add_int(json, "sub_group_size", settings->optimizer_chunk);
    add_int(json, "stage3_prefetch_bucket_size",
            settings->prefetch == 0 ? 0 : MAX(facts->prefetch_elements, 1));
    add_int(json, "stage3_max_live_parameters", facts->live_elements);
    /* A plan drops a parameter as soon as it has been used. */
    add_int(json, "stage3_max_reuse_distance", 0);
    add_int(json, "stage3_param_persistence_threshold", 0);
    add_bool(json, "stage3_gather_16bit_weights_on_model_save", true);
}

int
mw_deepspeed_stage(const struct mw_settings *settings)
{
    int stage = mw_strategy_traits(settings->strategy)->deepspeed.stage;

    if (mw_ds_slowest(&settings->placement[MW_STATE_PARAMETERS]) != MW_TIER_GPU ||
        uses_nvme(settings))
        return 3;
    return mw_ds_slowest(&settings->placement[MW_STATE_OPTIMIZER]) != MW_TIER_GPU ? MAX(stage, 1)
                                                                                  : stage;
}

static void
add_zero(JsonBuilder *json, const struct mw_settings *settings,
         const struct mw_deepspeed_facts *facts)
{
    int stage = mw_deepspeed_stage(settings);

    begin(json, "zero_optimization");
    add_int(json, "stage", stage);
    if (stage > 0) {
        add_bool(json, "contiguous_gradients", true);
        add_bool(json, "overlap_comm", settings->overlap);
        add_int(json, "reduce_bucket_size", MAX(facts->largest_unit_elements, 1));
        add_offload_optimizer(json, settings, facts);
    }
    if (stage == 3) {
        add_offload_param(json, settings, facts);
        add_stage3(json, settings, facts);
    }
    json_builder_end_object(json);
}

/* The default of `memwall run`; an update beside backward clips nothing. */
static const char *
clipping(const struct mw_settings *settings)
{
    return mw_settings_update_beside(settings) ? "0.0" : "1.0";
}

static void
add_batch(JsonBuilder *json, const struct mw_settings *settings,
          const struct mw_deepspeed_facts *facts)
{
    /* It follows from the other two; with slicing DeepSpeed would refuse it unless the training
     * script gives an mpu, because it counts every GPU as a replica then. */
    if (settings->tp == 1)
        add_int(json, "train_batch_size", llround(facts->train_batch));
    /* DeepSpeed counts it per model replica, that is per GPUs that share a micro-batch. */
    add_int(json, "train_micro_batch_size_per_gpu",
            llround(facts->micro_batch * (double)mw_settings_sharers(settings)));
    add_int(json, "gradient_accumulation_steps", facts->grad_accum);
    add_real(json, "gradient_clipping", clipping(settings));
}

static void
add_slicing(JsonBuilder *json, const struct mw_settings *settings)
{
    if (settings->tp == 1)
        return;
    begin(json, "tensor_parallel");
    add_int(json, "autotp_size", settings->tp);
    json_builder_end_object(json);
}

/* DeepSpeed requires an optimizer if it offloads (its own CPU Adam).  The figures are the defaults
 * of `memwall run`; a plan does not depend on them. */
static void
add_optimizer(JsonBuilder *json)
{
    begin(json, "optimizer");
    add_text(json, "type", "AdamW");
    begin(json, "params");
    add_real(json, "lr", "3e-4");
    json_builder_set_member_name(json, "betas");
    json_builder_begin_array(json);
    add_real_text(json, "0.9");
    add_real_text(json, "0.95");
    json_builder_end_array(json);
    add_real(json, "eps", "1e-8");
    add_real(json, "weight_decay", "0.1");
    json_builder_end_object(json);
    json_builder_end_object(json);
}

static void
add_activations(JsonBuilder *json, const struct mw_settings *settings)
{
    begin(json, "activation_checkpointing");
    add_bool(json, "partition_activations", settings->tp > 1 && settings->checkpoint_partition);
    add_bool(json, "cpu_checkpointing",
             mw_ds_slowest(&settings->placement[MW_STATE_ACTIVATIONS]) != MW_TIER_GPU);
    json_builder_end_object(json);
}

static void
add_aio(JsonBuilder *json, const struct mw_deepspeed_facts *facts)
{
    begin(json, "aio");
    add_int(json, "block_size", MAX(facts->nvme_block_bytes, 1));
    add_int(json, "queue_depth", MAX(facts->nvme_queue_depth, 1));
    add_int(json, "intra_op_parallelism", 1);
    add_int(json, "thread_count", 1); /* the older name of intra_op_parallelism */
    add_bool(json, "single_submit", false);
    add_bool(json, "overlap_events", true);
    json_builder_end_object(json);
}

bool
mw_deepspeed_sums_leave(const struct mw_sizing *sizing)
{
    return mw_deepspeed_stage(&sizing->settings) == 2 &&
           !sizing->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS];
}

/* A plan sums micro-batches in fp32, unless the software does not.  DeepSpeed does so at stages 1
 * to 3 if the file asks for it; at stage 0 it would refuse the file.  At stage 2 its sums would be
 * on the GPU then, where the plan has no room for them. */
static void
add_sums(JsonBuilder *json, const struct mw_settings *settings,
         const struct mw_deepspeed_facts *facts)
{
    bool sums = facts->grad_accum > 1 || settings->layout == MW_LAYOUT_PAPER20;

    if (!sums || facts->sums_as_made || facts->sums_leave || mw_deepspeed_stage(settings) == 0)
        return;
    begin(json, "data_types");
    add_text(json, "grad_accum_dtype", "fp32");
    json_builder_end_object(json);
}

static char *
text_of(JsonBuilder *json)
{
    g_autoptr(JsonGenerator) generator = json_generator_new();
    g_autoptr(JsonNode) root = json_builder_get_root(json);
    g_autofree char *text = NULL;

    json_generator_set_root(generator, root);
    json_generator_set_pretty(generator, TRUE);
    text = json_generator_to_data(generator, NULL);
    g_autoptr(GRegex) marked = g_regex_new("\"" NUMBER_MARK "([^\"]*)\"", 0, 0, NULL);
    g_autofree char *plain = g_regex_replace(marked, text, -1, 0, "\\1", 0, NULL);
    return g_strconcat(plain, "\n", NULL);
}

char *
mw_deepspeed_text(const struct mw_settings *settings, const struct mw_deepspeed_facts *facts)
{
    g_autoptr(JsonBuilder) json = json_builder_new();

    json_builder_begin_object(json);
    add_batch(json, settings, facts);
    add_slicing(json, settings);
    if (settings->dtype != MW_DTYPE_FP32) { /* the type without either section */
        begin(json, settings->dtype == MW_DTYPE_FP16 ? "fp16" : "bf16");
        add_bool(json, "enabled", true);
        json_builder_end_object(json);
    }
    add_sums(json, settings, facts);
    add_optimizer(json);
    add_zero(json, settings, facts);
    if (settings->checkpoint_interval != 0)
        add_activations(json, settings);
    if (uses_nvme(settings))
        add_aio(json, facts);
    mw_ds_write_own(json, settings, facts->buffers.swap.state_sets);
    json_builder_end_object(json);
    return text_of(json);
}

static int64_t
largest_part(const struct mw_sizing *sizing)
{
    int64_t largest = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int t = 0; t < sizing->classes[c].tensor_count; t++)
            largest = MAX(largest, sizing->classes[c].tensors[t].tile_params);
    return largest;
}

char *
mw_deepspeed_text_of(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;
    const int64_t part = largest_part(sizing);
    const struct mw_deepspeed_facts facts = {
        .micro_batch = s->micro_batch,
        .grad_accum = s->grad_accum,
        .sums_leave = mw_deepspeed_sums_leave(sizing),
        .sums_as_made = sizing->sum_dtype != MW_DTYPE_FP32,
        .train_batch = s->micro_batch * mw_settings_batch_gpus(s) * s->grad_accum,
        .prefetch_elements = part * s->prefetch,
        .live_elements = part * (s->prefetch + 1),
        .largest_unit_elements = part,
        .buffers = mw_deepspeed_buffers(sizing),
        .nvme_queue_depth = sizing->hardware->nvme_queue_depth,
        .nvme_block_bytes = sizing->hardware->nvme_block_bytes,
    };

    return mw_deepspeed_text(s, &facts);
}
