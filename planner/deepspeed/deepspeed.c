#include "planner/deepspeed/deepspeed.h"

#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/spell.h"
#include "planner/deepspeed/internal.h"

#define BATCH_MAX INT64_C(1000000000000)
#define ELEMENTS_MAX INT64_C(1000000000000000000)
#define SLICING_MAX 1024
/* For a file that is not DeepSpeed's: how much of a key a line shows, how many keys get a line, and
 * for how many a similar name is looked for. */
#define SHOWN_MAX 80
#define UNKNOWN_MAX 10
#define LOOKED_MAX 200
#define PASSED_MAX 100

/* Names and bounds: deepspeed.ai/docs/config-json and the checks of DeepSpeed 0.19 (its classes in
 * runtime/zero/config.py, offload_config.py, precision_config.py and tensor_parallel/config.py).  A
 * plan does not follow a name that is not here, or that is DS_UNKNOWN. */
static const struct mw_ds_row rows[] = {
    {"train_batch_size", DS_TRAIN_BATCH, KIND_WHOLE, 1, BATCH_MAX},
    {"train_micro_batch_size_per_gpu", DS_MICRO_BATCH, KIND_WHOLE, 1, BATCH_MAX},
    {"gradient_accumulation_steps", DS_GRAD_ACCUM, KIND_WHOLE, 1, BATCH_MAX},
    {"gradient_clipping", DS_CHECKED, KIND_NUMBER, 0, ELEMENTS_MAX},
    {"sequence_parallel_size", DS_SEQUENCE_PARALLEL, KIND_WHOLE, 1, SLICING_MAX},
    {"tensor_parallel", DS_UNKNOWN, KIND_CLOSED, 0, 0},
    {"tensor_parallel.autotp_size", DS_SLICING, KIND_WHOLE, 0, SLICING_MAX},
    {"fp16", DS_UNKNOWN, KIND_CLOSED, 0, 0},
    {"fp16.enabled", DS_FP16, KIND_BOOL, 0, 1},
    {"bf16", DS_UNKNOWN, KIND_CLOSED, 0, 0},
    {"bf16.enabled", DS_BF16, KIND_BOOL, 0, 1},
    {"bfloat16", DS_UNKNOWN, KIND_CLOSED, 0, 0},
    {"bfloat16.enabled", DS_BF16, KIND_BOOL, 0, 1},
    {"zero_optimization", DS_ZERO, KIND_CLOSED, 0, 0},
    {"zero_optimization.stage", DS_STAGE, KIND_WHOLE, 0, 3},
    {"zero_optimization.overlap_comm", DS_OVERLAP, KIND_BOOL, 0, 1},
    {"zero_optimization.sub_group_size", DS_SUB_GROUP, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.reduce_bucket_size", DS_CHECKED, KIND_WHOLE, 1, ELEMENTS_MAX},
    {"zero_optimization.allgather_bucket_size", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    /* DeepSpeed also reads names without their stage3_. */
    {"zero_optimization.stage3_prefetch_bucket_size", DS_PREFETCH, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.prefetch_bucket_size", DS_PREFETCH, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.stage3_max_live_parameters", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.max_live_parameters", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.stage3_max_reuse_distance", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.max_reuse_distance", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.cpu_offload", DS_OPTIMIZER_DEVICE_OLD, KIND_CPU_OFFLOAD, 0, 1},
    {"zero_optimization.cpu_offload_param", DS_PARAM_DEVICE_OLD, KIND_CPU_OFFLOAD, 0, 1},
    {"zero_optimization.offload_param", DS_UNKNOWN, KIND_CLOSED, 0, 0},
    {"zero_optimization.offload_param.device", DS_PARAM_DEVICE, KIND_DEVICE, 0, 0},
    {"zero_optimization.offload_param.pin_memory", DS_CHECKED, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_param.buffer_count", DS_CHECKED, KIND_WHOLE, 0, BATCH_MAX},
    {"zero_optimization.offload_param.buffer_size", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.offload_param.max_in_cpu", DS_CHECKED, KIND_WHOLE, 0, ELEMENTS_MAX},
    {"zero_optimization.offload_optimizer", DS_UNKNOWN, KIND_CLOSED, 0, 0},
    {"zero_optimization.offload_optimizer.device", DS_OPTIMIZER_DEVICE, KIND_DEVICE, 0, 0},
    {"zero_optimization.offload_optimizer.pin_memory", DS_CHECKED, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_optimizer.buffer_count", DS_CHECKED, KIND_WHOLE, 0, BATCH_MAX},
    {"zero_optimization.offload_optimizer.pipeline_read", DS_PIPELINE_READ, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_optimizer.pipeline_write", DS_PIPELINE_WRITE, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_optimizer.fast_init", DS_CHECKED, KIND_BOOL, 0, 1},
    {"zero_optimization.offload_optimizer.ratio", DS_RATIO, KIND_SHARE, 0, 1},
    {"activation_checkpointing", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"activation_checkpointing.cpu_checkpointing", DS_CPU_CHECKPOINTING, KIND_BOOL, 0, 1},
    {"activation_checkpointing.number_checkpoints", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"aio", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"aio.block_size", DS_CHECKED, KIND_WHOLE, 1, ELEMENTS_MAX},
    {"aio.queue_depth", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"aio.intra_op_parallelism", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"aio.thread_count", DS_CHECKED, KIND_WHOLE, 1, BATCH_MAX},
    {"data_types", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"data_types.grad_accum_dtype", DS_SUM_DTYPE, KIND_SUM_DTYPE, 0, 0},
    {"optimizer", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"optimizer.type", DS_OPTIMIZER, KIND_OPTIMIZER, 0, 1},
    /* What DeepSpeed has no keys for, by the names of the options; DeepSpeed ignores the
     * section. */
    {"memwall", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"memwall.strategy", DS_OWN_STRATEGY, KIND_STRATEGY, 0, 0},
    {"memwall.param_device", DS_OWN_PARAM, KIND_PLACEMENT, 0, 0},
    {"memwall.gradient_device", DS_OWN_GRADIENT, KIND_PLACEMENT, 0, 0},
    {"memwall.optimizer_device", DS_OWN_OPTIMIZER, KIND_PLACEMENT, 0, 0},
    {"memwall.activation_device", DS_OWN_ACTIVATION, KIND_PLACEMENT, 0, 0},
    {"memwall.activation_checkpoint_interval", DS_OWN_INTERVAL, KIND_WHOLE, 0, 0},
    {"memwall.recompute_layers", DS_OWN_RECOMPUTE_LAYERS, KIND_WHOLE, 0, 0},
    {"memwall.recompute_list", DS_OWN_RECOMPUTE_LIST, KIND_LAYERS, 0, 0},
    {"memwall.stage_split", DS_OWN_STAGE_SPLIT, KIND_LAYERS, 0, 0},
    {"memwall.stage_replicas", DS_OWN_STAGE_REPLICAS, KIND_REPLICAS, 0, 0},
    {"memwall.param_loads", DS_OWN_PARAM_LOADS, KIND_WHOLE, 0, 0},
    {"memwall.tiles", DS_OWN_TILES, KIND_WHOLE, 0, 0},
    {"memwall.logits_chunks", DS_OWN_LOGITS_CHUNKS, KIND_WHOLE, 0, 0},
    {"memwall.prefetch", DS_OWN_PREFETCH, KIND_WHOLE, 0, 0},
    {"memwall.prefetch_nc", DS_OWN_PREFETCH_NC, KIND_WHOLE, 0, 0},
    {"memwall.prefetch_cg", DS_OWN_PREFETCH_CG, KIND_WHOLE, 0, 0},
    {"memwall.prefetch_gg", DS_OWN_PREFETCH_GG, KIND_WHOLE, 0, 0},
    {"memwall.overlap", DS_OWN_OVERLAP, KIND_BOOL, 0, 1},
    {"memwall.optimizer_chunk", DS_OWN_CHUNK, KIND_WHOLE, 0, 0},
    {"memwall.buffer_sets", DS_OWN_BUFFER_SETS, KIND_WHOLE, 0, 0},
    {"memwall.owner_broadcast", DS_OWN_OWNER, KIND_BOOL, 0, 1},
    {"memwall.fp32_gradients", DS_OWN_FP32_GRADIENTS, KIND_BOOL, 0, 1},
    {"memwall.commit_step", DS_OWN_COMMIT, KIND_BOOL, 0, 1},
    {"memwall.save_every", DS_OWN_SAVE_EVERY, KIND_WHOLE, 0, 0},
    {"memwall.dpu_start", DS_OWN_DPU_START, KIND_WHOLE, 0, 0},
    {"memwall.update_beside", DS_OWN_UPDATE_BESIDE, KIND_BOOL, 0, 1},
    {"memwall.update_on_gpu", DS_OWN_UPDATE_ON_GPU, KIND_BOOL, 0, 1},
    {"memwall.asynchronous", DS_OWN_ASYNCHRONOUS, KIND_BOOL, 0, 1},
    {"memwall.layer_order", DS_OWN_LAYER_ORDER, KIND_BOOL, 0, 1},
    {"memwall.all_forward_first", DS_OWN_SCHEDULE, KIND_BOOL, 0, 1},
    {"memwall.weights_later", DS_OWN_WEIGHTS_LATER, KIND_BOOL, 0, 1},
    {"memwall.no_flush", DS_OWN_NO_FLUSH, KIND_BOOL, 0, 1},
    {"memwall.stashes", DS_OWN_STASHES, KIND_BOOL, 0, 1},
    {"memwall.vertical_sync", DS_OWN_VERTICAL_SYNC, KIND_BOOL, 0, 1},
    {"memwall.virtual_stages", DS_OWN_VIRTUAL_STAGES, KIND_WHOLE, 2, 1024},
    {"memwall.shard_group", DS_OWN_SHARD_GROUP, KIND_WHOLE, 2, MW_PLAN_MAX_WORLD},
    {"memwall.whole_checkpoints", DS_OWN_WHOLE_CHECKPOINTS, KIND_BOOL, 0, 1},
    {"zero_optimization.contiguous_gradients", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.reduce_scatter", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.use_multi_rank_bucket_allreduce", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.allgather_partitions", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.compute_grad_norm", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.load_from_fp32_weights", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.elastic_checkpoint", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.zenflow", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.cpu_offload_use_pin_memory", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.stage3_param_persistence_threshold", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.param_persistence_threshold", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.stage3_model_persistence_threshold", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.model_persistence_threshold", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.gather_16bit_weights_on_model_save", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.stage3_module_granularity_threshold", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.module_granularity_threshold", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.use_all_reduce_for_fetch_params", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.stage3_allgather_sequential", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.allgather_sequential", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.ignore_unused_parameters", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.legacy_stage1", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.round_robin_gradients", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.parameter_alignment", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.zero_hpz_partition_size", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.zero_quantized_weights", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.zero_quantized_nontrainable_weights", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.zero_quantized_gradients", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.memory_efficient_linear", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.pipeline_loading_checkpoint", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.override_module_apply", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.log_trace_cache_warnings", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.enable_sanity_checks", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.save_muon_momentum_buffer_in_memory", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.leaf_module", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.offload_param.nvme_path", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.offload_optimizer.nvme_path", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.offload_optimizer.super_offload", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_optimization.offload_optimizer.cpuadam_cores_perc", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"fp16.auto_cast", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"fp16.loss_scale", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"fp16.initial_scale_power", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"fp16.loss_scale_window", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"fp16.hysteresis", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"fp16.consecutive_hysteresis", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"fp16.min_loss_scale", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"fp16.fp16_master_weights_and_grads", DS_MASTER16, KIND_BOOL, 0, 1},
    {"bf16.immediate_grad_update", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"bf16.check_grad_overflow", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"bf16.bf16_master_weights_and_grads", DS_MASTER16, KIND_BOOL, 0, 1},
    {"bf16.bf16_optimizer_states", DS_MOMENTS16, KIND_BOOL, 0, 1},
    {"bfloat16.immediate_grad_update", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"bfloat16.check_grad_overflow", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"bfloat16.bf16_master_weights_and_grads", DS_MASTER16, KIND_BOOL, 0, 1},
    {"bfloat16.bf16_optimizer_states", DS_MOMENTS16, KIND_BOOL, 0, 1},
    {"activation_checkpointing.partition_activations", DS_PARTITION_ACTIVATIONS, KIND_BOOL, 0, 1},
    {"activation_checkpointing.contiguous_memory_optimization", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"activation_checkpointing.synchronize_checkpoint_boundary", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"activation_checkpointing.profile", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"aio.single_submit", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"aio.overlap_events", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"aio.use_gds", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"optimizer.params", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"optimizer.legacy_fusion", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"scheduler", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"steps_per_print", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"wall_clock_breakdown", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"memory_breakdown", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"dump_state", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"prescale_gradients", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"gradient_predivide_factor", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"communication_data_type", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"seq_parallel_communication_data_type", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"disable_allgather", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_allow_untested_optimizer", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"zero_force_ds_cpu_optimizer", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"allgather_size", DS_UNKNOWN, KIND_ANY, 0, 0}, /* beside zero_optimization: true */
    {"data_types.param_dtype", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"data_types.buffer_dtype", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"data_types.keep_in_fp32_modules", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"torch_autocast", DS_UNKNOWN, KIND_SECTION, 0, 0},
    {"torch_autocast.enabled", DS_AUTOCAST, KIND_BOOL, 0, 1},
    {"torch_autocast.dtype", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"torch_autocast.lower_precision_safe_modules", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"flops_profiler", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensorboard", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"wandb", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"comet", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"csv_monitor", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"comms_logger", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"monitor_config", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"autotuning", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"data_efficiency", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"checkpoint", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"pipeline", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"hybrid_engine", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.dtype", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.tp_overlap_comm", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.vocab_parallel_lm_head", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.vocab_parallel_ce_backend", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.tensor_parallel", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.tp", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.injection_policy_tuple", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.partition_config", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.preset_model", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.keep_module_on_host", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.replace_with_kernel_inject", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"tensor_parallel.kernel_inject", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"compile", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"dataloader_drop_last", DS_UNKNOWN, KIND_ANY, 0, 0},
    {"weight_quantization", DS_UNKNOWN, KIND_ANY, 0, 0},
    /* runtime/config.py, _REMOVED_TOP_LEVEL_CONFIG_KEYS and _REMOVED_ZERO_CONFIG_KEYS */
    {"zero_optimization.mics_shard_size", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"zero_optimization.mics_hierarchical_params_gather", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"zero_optimization.zeropp_loco_param", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"amp", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"compression_training", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"curriculum_learning", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"eigenvalue", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"elasticity", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"graph_harvesting", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"nebula", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"progressive_layer_drop", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"quantize_training", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"sparse_attention", DS_UNKNOWN, KIND_REMOVED, 0, 0},
    {"sparse_gradients", DS_UNKNOWN, KIND_REMOVED, 0, 0},
};

void
mw_ds_note(struct mw_ds_file *file, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_ptr_array_add(file->notes, mw_spelled_vprintf(format, arguments));
    va_end(arguments);
}

bool
mw_ds_refuse(const char *origin, const char *name, const char *text, const char *accepted,
             GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %s: must be %s", origin,
                name, text, accepted);
    return false;
}

static const struct mw_ds_row *
find_row(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (!strcmp(name, rows[i].name))
            return &rows[i];
    return NULL;
}

/* A key may hold any text of any length; this makes one line of it. */
static char *
printable(const char *dotted)
{
    char *name = strlen(dotted) > SHOWN_MAX ? g_strdup_printf("%.*s...", SHOWN_MAX, dotted)
                                            : g_strdup(dotted);

    for (char *c = name; *c; c++)
        if (g_ascii_iscntrl(*c))
            *c = '?';
    return name;
}

static void
add_name(struct mw_ds_file *file, const char *dotted, enum mw_ds_key key)
{
    struct mw_ds_name name = {printable(dotted), key};

    g_array_append_val(file->names, name);
}

static void
keep_value(struct mw_ds_file *file, enum mw_ds_key key, const char *name, JsonNode *node,
           int64_t value)
{
    if (value != MW_AUTO) /* "auto" asks for nothing */
        add_name(file, name, key);
    file->key[key].value = value;
    file->key[key].name = name;
    g_free(file->key[key].text);
    file->key[key].text = mw_json_text(node);
}

static bool
take_value(struct mw_ds_file *file, const struct mw_ds_row *row, JsonNode *node, bool lax,
           GError **error)
{
    int64_t value;

    if (!mw_ds_read_value(node, row, lax, &value, &file->key[row->key].placement)) {
        g_autofree char *accepted = mw_ds_accepted(row);
        g_autofree char *text = mw_json_text(node);
        return mw_ds_refuse(file->origin, row->name, text, accepted, error);
    }
    keep_value(file, row->key, row->name, node, value);
    return true;
}

/* The form that predates stages (zero/config.py, read_zero_config_deprecated). */
static bool
take_old_zero(struct mw_ds_file *file, const struct mw_ds_row *row, JsonNode *node)
{
    if (row->key != DS_ZERO || !JSON_NODE_HOLDS_VALUE(node) ||
        json_node_get_value_type(node) != G_TYPE_BOOLEAN)
        return false;
    bool on = json_node_get_boolean(node);
    mw_ds_note(file, "%s: %s is an older form, which DeepSpeed takes for {\"stage\": %d}",
               row->name, on ? "true" : "false", on);
    keep_value(file, DS_STAGE, row->name, node, on);
    file->key[DS_ZERO].value = 1;
    return true;
}

/* Known names that were probably meant: the nearest, or those in a section whose own name was left
 * out.  NULL: none; g_free it. */
static char *
nearest_rows(const char *dotted)
{
    const char *known[G_N_ELEMENTS(rows) + 1], *within[G_N_ELEMENTS(rows) + 1];
    size_t count = 0, matches = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        const char *last = strrchr(rows[i].name, '.');
        if (rows[i].kind == KIND_REMOVED)
            continue;
        known[count++] = rows[i].name;
        if (last && !strcmp(last + 1, dotted))
            within[matches++] = rows[i].name;
    }
    known[count] = within[matches] = NULL;
    char *nearest = mw_names_nearest(dotted, known);
    return nearest ? nearest : mw_names_like(dotted, within, "");
}

/* DeepSpeed refuses the file; a later version may know the name. */
static void
note_unknown(struct mw_ds_file *file, const char *dotted)
{
    if (++file->unknown > UNKNOWN_MAX)
        return;
    g_autofree char *nearest = nearest_rows(dotted);
    g_autofree char *name = printable(dotted);

    mw_ds_note(file, "%s: not a key of DeepSpeed 0.19, which refuses it%s%s%s", name,
               nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

/* DeepSpeed silently ignores it, so a note is made only if it resembles another name. */
static void
note_mistyped(struct mw_ds_file *file, const char *dotted)
{
    g_autofree char *nearest =
        file->near < UNKNOWN_MAX && ++file->looked <= LOOKED_MAX ? nearest_rows(dotted) : NULL;
    g_autofree char *name = printable(dotted);

    file->near += nearest != NULL;
    if (nearest)
        mw_ds_note(file, "%s: not a key; DeepSpeed ignores it; did you mean %s?", name, nearest);
}

static bool walk(struct mw_ds_file *file, const struct mw_ds_row *section, JsonObject *object,
                 GError **error);

/* DeepSpeed refuses null for most keys that its classes read, and for most sections. */
static void
note_null(struct mw_ds_file *file, const struct mw_ds_row *row, bool closed)
{
    static const char *const taken[] = {
        "bf16",
        "aio",
        "memwall",
        "zero_optimization.overlap_comm",
        "zero_optimization.cpu_offload",
        "zero_optimization.cpu_offload_param",
        "zero_optimization.cpu_offload_use_pin_memory",
        "zero_optimization.offload_param",
        "zero_optimization.offload_param.nvme_path",
        "zero_optimization.offload_optimizer",
        "zero_optimization.offload_optimizer.nvme_path",
        "zero_optimization.leaf_module",
        "zero_optimization.zenflow",
        "tensor_parallel.vocab_parallel_lm_head",
        "tensor_parallel.injection_policy_tuple",
        "tensor_parallel.partition_config",
        "tensor_parallel.preset_model",
        NULL,
    };
    bool section = row->kind == KIND_SECTION || row->kind == KIND_CLOSED;

    if ((closed || section) && !g_strv_contains(taken, row->name))
        mw_ds_note(file, "%s: DeepSpeed refuses null; planned as if it were left out", row->name);
}

/* An absent value and null mean the same. */
static bool
take_member(struct mw_ds_file *file, const struct mw_ds_row *section, const char *key,
            JsonNode *node, GError **error)
{
    g_autofree char *dotted = section ? g_strconcat(section->name, ".", key, NULL) : g_strdup(key);
    const struct mw_ds_row *row = strchr(key, '.') ? NULL : find_row(dotted);
    bool inner = row && (row->kind == KIND_SECTION || row->kind == KIND_CLOSED);
    bool closed = section && section->kind == KIND_CLOSED;

    if (row && row->kind == KIND_REMOVED) { /* whatever its value is */
        mw_ds_note(file, "%s: is gone from DeepSpeed: 0.19 refuses a file with it; planned without",
                   dotted);
        return true;
    }
    if (row && JSON_NODE_HOLDS_NULL(node))
        note_null(file, row, closed);
    if (JSON_NODE_HOLDS_NULL(node))
        return true;
    if (inner && JSON_NODE_HOLDS_OBJECT(node))
        return walk(file, row, json_node_get_object(node), error);
    if (row && take_old_zero(file, row, node))
        return true;
    if (row && row->kind != KIND_ANY)
        return take_value(file, row, node, closed, error);
    if (!row && closed) {
        note_unknown(file, dotted);
        return true;
    }
    if (!row)
        note_mistyped(file, dotted);
    if ((!JSON_NODE_HOLDS_VALUE(node) || !mw_ds_is_text(node, "auto")) &&
        ++file->passed <= PASSED_MAX)
        add_name(file, dotted, DS_UNKNOWN);
    return true;
}

static bool
walk(struct mw_ds_file *file, const struct mw_ds_row *section, JsonObject *object, GError **error)
{
    g_autoptr(GList) members = json_object_get_members(object);

    if (section && section->key != DS_UNKNOWN)
        file->key[section->key].value = 1;
    for (GList *member = members; member; member = member->next)
        if (!take_member(file, section, member->data, json_object_get_member(object, member->data),
                         error))
            return false;
    return true;
}

static char **
names_without_effect(const struct mw_ds_file *file)
{
    GPtrArray *names = g_ptr_array_new();

    for (guint i = 0; i < file->names->len; i++) {
        const struct mw_ds_name *name = &g_array_index(file->names, struct mw_ds_name, i);
        if (!file->key[name->key].used)
            g_ptr_array_add(names, g_strdup(name->name));
    }
    if (file->passed > PASSED_MAX)
        g_ptr_array_add(names, g_strdup_printf("%d more", file->passed - PASSED_MAX));
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

static char **
take_notes(const struct mw_ds_file *file)
{
    g_ptr_array_add(file->notes, NULL);
    return g_strdupv((char **)file->notes->pdata);
}

static char *
stage_text(const struct mw_ds_file *file)
{
    const char *name = file->key[DS_STAGE].name;

    return name ? g_strdup_printf("%s %s", name, file->key[DS_STAGE].text) : NULL;
}

void
mw_deepspeed_said_clear(struct mw_deepspeed_said *said)
{
    g_clear_pointer(&said->ignored, g_strfreev);
    g_clear_pointer(&said->notes, g_strfreev);
    g_clear_pointer(&said->stage_said, g_free);
}

static void
clear_name(void *name)
{
    g_free(((struct mw_ds_name *)name)->name);
}

bool
mw_deepspeed_parse(const char *text, gssize length, const char *origin, int64_t world_size,
                   struct mw_settings *settings, struct mw_deepspeed_said *said, GError **error)
{
    g_autoptr(JsonNode) root = mw_json_parse(text, length, origin, error);
    struct mw_ds_file file = {.origin = origin};
    struct mw_settings result = *settings;

    if (!root)
        return false;
    file.names = g_array_new(FALSE, FALSE, sizeof(struct mw_ds_name));
    g_array_set_clear_func(file.names, clear_name);
    file.notes = g_ptr_array_new_with_free_func(g_free);
    for (int key = 0; key < DS_KEY_COUNT; key++)
        file.key[key].value = DS_ABSENT;

    bool good = walk(&file, NULL, json_node_get_object(root), error) &&
                mw_ds_apply(&file, world_size, &result, error);
    if (file.unknown > UNKNOWN_MAX)
        mw_ds_note(&file, "%d more keys are unknown to DeepSpeed 0.19, which refuses them",
                   file.unknown - UNKNOWN_MAX);
    if (good) {
        *settings = result;
        if (said)
            *said = (struct mw_deepspeed_said){
                names_without_effect(&file),           take_notes(&file), stage_text(&file),
                MAX((int)file.key[DS_STAGE].value, 0), result.strategy,   file.sum_bytes};
    }
    for (int key = 0; key < DS_KEY_COUNT; key++)
        g_free(file.key[key].text);
    g_array_free(file.names, TRUE);
    g_ptr_array_free(file.notes, TRUE);
    return good;
}

bool
mw_deepspeed_load(const char *path, int64_t world_size, struct mw_settings *settings,
                  struct mw_deepspeed_said *said, GError **error)
{
    static const struct mw_input_kind kind = {"a DeepSpeed configuration (ds_config.json)",
                                              MW_JSON_BYTES_MAX, NULL};
    gsize length = 0;
    g_autofree char *text = mw_input_read(path, &kind, &length, error);

    return text &&
           mw_deepspeed_parse(text, (gssize)length, path, world_size, settings, said, error);
}
