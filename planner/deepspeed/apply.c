#include "base/spell.h"
#include "planner/deepspeed/internal.h"

static int64_t
value_of(const struct mw_ds_file *file, enum mw_ds_key key)
{
    return file->key[key].value;
}

/* Whether the key has a value other than "auto". */
static bool
is_given(const struct mw_ds_file *file, enum mw_ds_key key)
{
    return value_of(file, key) >= 0;
}

static bool
take_integer(struct mw_ds_file *file, enum mw_ds_key key, int64_t *out)
{
    if (!is_given(file, key))
        return false;
    file->key[key].used = true;
    *out = value_of(file, key);
    return true;
}

static bool refuse(const struct mw_ds_file *file, enum mw_ds_key key, GError **error,
                   const char *accepted, ...) G_GNUC_PRINTF(4, 5);

static bool
refuse(const struct mw_ds_file *file, enum mw_ds_key key, GError **error, const char *accepted, ...)
{
    va_list arguments;

    va_start(arguments, accepted);
    g_autofree char *text = g_strdup_vprintf(accepted, arguments);
    va_end(arguments);
    return mw_ds_refuse(file->origin, file->key[key].name, file->key[key].text, text, error);
}

/* Where the Hugging Face trainer has no argument to fill in, DeepSpeed drops "auto" and takes its
 * own default (DeepSpeedConfigModel). */
static void
drop_auto(struct mw_ds_file *file)
{
    static const enum mw_ds_key keys[] = {
        DS_STAGE,
        DS_OVERLAP,
        DS_SUB_GROUP,
        DS_PARAM_DEVICE,
        DS_PARAM_DEVICE_OLD,
        DS_OPTIMIZER_DEVICE,
        DS_PIPELINE_READ,
        DS_PIPELINE_WRITE,
        DS_OPTIMIZER_DEVICE_OLD,
        DS_SLICING,
        DS_RATIO,
    };

    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        if (value_of(file, keys[i]) == MW_AUTO) {
            mw_ds_note(file, "%s: \"auto\" is DeepSpeed's default", file->key[keys[i]].name);
            file->key[keys[i]].value = DS_ABSENT;
        }
}

/* With neither type on, DeepSpeed trains in fp32; the plan is in 16 bits, and a note says so. */
static bool
apply_precision(struct mw_ds_file *file, struct mw_settings *settings, GError **error)
{
    int64_t fp16 = value_of(file, DS_FP16), bf16 = value_of(file, DS_BF16), autocast = 0;

    if (fp16 == 1 && bf16 == 1)
        return refuse(file, DS_FP16, error, "false where %s is true", file->key[DS_BF16].name);
    file->key[DS_FP16].used = file->key[DS_BF16].used = true;
    if (fp16 == 1 || bf16 == 1)
        settings->dtype = fp16 == 1 ? MW_DTYPE_FP16 : MW_DTYPE_BF16;
    else if (fp16 == MW_AUTO || bf16 == MW_AUTO)
        mw_ds_note(file,
                   "%s: \"auto\" is the Hugging Face trainer's --%s, without which it trains in "
                   "fp32; planned in 16 bits",
                   file->key[bf16 == MW_AUTO ? DS_BF16 : DS_FP16].name,
                   bf16 == MW_AUTO ? "bf16" : "fp16");
    else if (take_integer(file, DS_AUTOCAST, &autocast) && autocast)
        mw_ds_note(file,
                   "torch_autocast without bf16 and fp16: DeepSpeed computes products in 16 "
                   "bits and trains in fp32; planned in 16 bits, which bf16.enabled asks for");
    else
        mw_ds_note(file, "neither bf16 nor fp16 is on, so DeepSpeed trains in fp32; planned in 16 "
                         "bits, which bf16.enabled asks for");
    return true;
}

static void
apply_optimizer(struct mw_ds_file *file)
{
    bool offloads = value_of(file, DS_OPTIMIZER_DEVICE) > MW_TIER_GPU;
    int64_t adam = 1;

    if (take_integer(file, DS_OPTIMIZER, &adam) && !adam)
        mw_ds_note(file, "optimizer.type: %s is planned as AdamW, with its state and traffic",
                   file->key[DS_OPTIMIZER].text);
    else if (value_of(file, DS_OPTIMIZER) < 0 && offloads)
        mw_ds_note(file, "no optimizer: DeepSpeed offloads one that the file names, such as "
                         "\"optimizer\": {\"type\": \"AdamW\"}");
}

/* runtime/base_optimizer.py, _configure_master_weights. */
static void
note_half_state(struct mw_ds_file *file)
{
    static const struct {
        enum mw_ds_key key;
        const char *what;
    } rows[] = {
        {DS_MASTER16, "the optimizer's parameters and gradients"},
        {DS_MOMENTS16, "momentum and variance"},
    };
    int64_t on = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (take_integer(file, rows[i].key, &on) && on)
            mw_ds_note(file, "%s: DeepSpeed keeps %s in 2 bytes each; planned in fp32, 4 bytes",
                       file->key[rows[i].key].name, rows[i].what);
}

/* `world`: number of data-parallel GPUs, before and after slicing; 0: unknown. */
static bool
apply_slicing(struct mw_ds_file *file, int64_t *world, struct mw_settings *settings, GError **error)
{
    int64_t tp = 0, gpus = *world * settings->tp;

    if (!take_integer(file, DS_SLICING, &tp) || tp <= 1)
        return true;
    if (gpus % tp)
        return refuse(file, DS_SLICING, error, "a divisor of the number of GPUs, %" G_GINT64_FORMAT,
                      gpus);
    *world = gpus / tp;
    settings->tp = tp;
    settings->tp_fixed = true;
    return true;
}

static bool
product(int64_t a, int64_t b, int64_t c, int64_t *out)
{
    int64_t ab;

    return !__builtin_mul_overflow(a, b, &ab) && !__builtin_mul_overflow(ab, c, out);
}

/* Whether train_batch_size = micro-batch * accumulation * world, as far as they are known; 0:
 * unknown. */
static bool
comes_out(int64_t world, int64_t train, int64_t micro, int64_t accum)
{
    int64_t known = 0;

    if (!product(MAX(micro, 1), MAX(accum, 1), MAX(world, 1), &known))
        return false;
    return micro && accum && world ? train == known : train % known == 0;
}

/* If neither of the other two is given, DeepSpeed does not accumulate (runtime/config.py,
 * _set_batch_related_parameters). */
static void
take_whole_batch(struct mw_ds_file *file, int64_t train, int64_t world, int64_t *accum)
{
    if (!train || !world || value_of(file, DS_MICRO_BATCH) != DS_ABSENT ||
        value_of(file, DS_GRAD_ACCUM) != DS_ABSENT)
        return;
    *accum = 1;
    mw_ds_note(file, "train_batch_size alone: DeepSpeed takes it in one micro-batch; with "
                     "train_micro_batch_size_per_gpu or gradient_accumulation_steps in several");
}

/* Computes the missing one of the three. */
static bool
complete_batch(struct mw_ds_file *file, int64_t world, int64_t train, int64_t *micro,
               int64_t *accum, GError **error)
{
    int64_t m = MAX(*micro, 1), a = MAX(*accum, 1), w = MAX(world, 1), known = 0;
    bool all = *micro && *accum && world, counted = product(m, a, w, &known);

    if (!comes_out(world, train, *micro, *accum)) {
        g_autofree char *nearest =
            all || !counted || train < known
                ? g_strdup("")
                : g_strdup_printf("; the nearest are %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                                  train - train % known, train - train % known + known);
        return refuse(file, DS_TRAIN_BATCH, error,
                      "%s%.15g: train_micro_batch_size_per_gpu %" G_GINT64_FORMAT
                      " * gradient_accumulation_steps %" G_GINT64_FORMAT " * %" G_GINT64_FORMAT
                      " %sGPUs%s",
                      all ? "" : "a multiple of ", (double)m * (double)a * (double)w, m, a, w,
                      value_of(file, DS_SLICING) > 1 ? "" : "data-parallel ", nearest);
    }
    if (world && *micro && !*accum)
        *accum = train / known;
    else if (world && *accum && !*micro)
        *micro = train / known;
    return true;
}

/* TrainingArguments of transformers 5: per_device_train_batch_size, gradient_accumulation_steps. */
#define TRAINER_MICRO_BATCH 8
#define TRAINER_GRAD_ACCUM 1

/* Beside a train_batch_size the trainer accepts only its own product; here open values follow from
 * it. */
static void
take_trainers_batch(struct mw_ds_file *file, int64_t train, int64_t *micro, int64_t *accum)
{
    bool micro_auto = value_of(file, DS_MICRO_BATCH) == MW_AUTO;
    bool accum_auto = value_of(file, DS_GRAD_ACCUM) == MW_AUTO;

    if (train || (!micro_auto && !accum_auto))
        return;
    if (micro_auto)
        *micro = TRAINER_MICRO_BATCH;
    if (accum_auto)
        *accum = TRAINER_GRAD_ACCUM;
    mw_ds_note(file,
               "\"auto\" is the Hugging Face trainer's:%s%s%s, unless an option says otherwise",
               micro_auto ? " micro-batch 8" : "", micro_auto && accum_auto ? "," : "",
               accum_auto ? " accumulation 1" : "");
}

/* DeepSpeed counts each of `tp` GPUs that share a model as a replica, unless the training script
 * gives it an mpu (DeepSpeedConfig.world_size): returns how many replicas train_batch_size counts
 * for each real one. */
static int64_t
replicas_counted(struct mw_ds_file *file, int64_t world, int64_t train, int64_t micro,
                 int64_t accum)
{
    int64_t tp = value_of(file, DS_SLICING);

    if (!train || tp <= 1)
        return 1;
    bool of_replicas = comes_out(world, train, micro, accum);
    if (of_replicas && (train % tp || !comes_out(world * tp, train, micro, accum))) {
        mw_ds_note(file, "train_batch_size: DeepSpeed takes it where the training script gives it "
                         "an mpu; without one it counts GPUs that share a model as replicas");
        return 1;
    }
    if (train % tp == 0)
        mw_ds_note(file,
                   "train_batch_size: without an mpu of the training script DeepSpeed counts GPUs "
                   "that share a model as replicas; a step is of %" G_GINT64_FORMAT " sequences",
                   train / tp);
    return tp;
}

/* Ranks of a stage that take turns share the micro-batches of a step: none is trained twice. */
static bool
says_turns(const struct mw_ds_file *file)
{
    return value_of(file, DS_OWN_STRATEGY) >= 0 && value_of(file, DS_OWN_STAGE_REPLICAS) > 0;
}

static bool
apply_batch(struct mw_ds_file *file, int64_t ranks, struct mw_settings *settings, GError **error)
{
    int64_t world = ranks && says_turns(file) ? 1 : ranks;
    int64_t train = 0, micro = 0, accum = 0;

    take_integer(file, DS_TRAIN_BATCH, &train);
    take_integer(file, DS_MICRO_BATCH, &micro);
    take_integer(file, DS_GRAD_ACCUM, &accum);
    take_trainers_batch(file, train, &micro, &accum);
    take_whole_batch(file, train, world, &accum);
    if (world && value_of(file, DS_TRAIN_BATCH) == DS_ABSENT &&
        value_of(file, DS_MICRO_BATCH) == DS_ABSENT)
        mw_ds_note(file, "DeepSpeed refuses a file without train_batch_size and "
                         "train_micro_batch_size_per_gpu");
    int64_t counted = replicas_counted(file, world, train, micro, accum);
    if (train && !complete_batch(file, world * counted, train, &micro, &accum, error))
        return false;
    train /= counted;
    if (train) {
        g_autofree char *source =
            g_strdup_printf("%s: key \"%s\": value %s", file->origin,
                            file->key[DS_TRAIN_BATCH].name, file->key[DS_TRAIN_BATCH].text);
        settings->global_batch = train;
        settings->batch_source = g_intern_string(source);
    }
    if (micro) /* DeepSpeed counts it per model replica, that is per GPUs that share a
               * micro-batch */
        settings->micro_batch = (double)micro / (double)mw_settings_sharers(settings);
    if (accum)
        settings->grad_accum = accum;
    return true;
}

/* cpu_offload is the older name of offload_optimizer.device = cpu. */
static bool
merge_old_name(struct mw_ds_file *file, enum mw_ds_key key, enum mw_ds_key old, GError **error)
{
    if (!is_given(file, old))
        return true;
    if (is_given(file, key) && value_of(file, key) != value_of(file, old))
        return refuse(file, old, error, "left out, or say the same as %s, %s", file->key[key].name,
                      file->key[key].text);
    file->key[old].used = true;
    if (is_given(file, key))
        mw_ds_note(file, "%s: DeepSpeed refuses it beside %s; leave it out", file->key[old].name,
                   file->key[key].name);
    if (!is_given(file, key)) {
        file->key[key].value = value_of(file, old);
        file->key[key].name = file->key[old].name;
        g_free(file->key[key].text);
        file->key[key].text = g_strdup(file->key[old].text);
    }
    return true;
}

/* Stage and overlap as DeepSpeed sets them if the file does not (zero/config.py). */
static void
apply_zero_defaults(struct mw_ds_file *file)
{
    if (value_of(file, DS_ZERO) != 1)
        mw_ds_note(file, "no zero_optimization: DeepSpeed trains at stage 0, plain data "
                         "parallelism, which is ddp; {strategy} plans another strategy");
    if (value_of(file, DS_STAGE) == DS_ABSENT)
        file->key[DS_STAGE].value = 0;
    bool partitions = value_of(file, DS_STAGE) == 1 || value_of(file, DS_STAGE) == 2;
    if (value_of(file, DS_OVERLAP) == DS_ABSENT && partitions)
        file->key[DS_OVERLAP].value = 0;
}

/* Stage 1 in bf16 with fp32 sums has an optimizer of its own (engine.py,
 * _do_optimizer_sanity_check), which accepts only "cpu". */
static void
note_bf16_optimizer(struct mw_ds_file *file, int64_t stage)
{
    if (stage == 1 && value_of(file, DS_BF16) == 1 && value_of(file, DS_SUM_DTYPE) == MW_DTYPE_FP32)
        mw_ds_note(file,
                   "%s: at stage 1 in bf16 with data_types.grad_accum_dtype \"fp32\" "
                   "DeepSpeed offloads for \"cpu\" alone, and fails with \"nvme\"",
                   file->key[DS_OPTIMIZER_DEVICE].name);
}

/* The share of the optimizer's sub-groups that stays on the GPU: the first ones (stage3.py,
 * subgroup_to_device). */
static double
share_on_gpu(const struct mw_ds_file *file)
{
    if (value_of(file, DS_OPTIMIZER_DEVICE) <= MW_TIER_GPU || !is_given(file, DS_RATIO))
        return 0;
    return (double)(DS_WHOLE - value_of(file, DS_RATIO)) / (double)DS_WHOLE;
}

/* Sub-groups of the CPU are told apart from those of the GPU, and none from those of drives. */
static void
note_part(struct mw_ds_file *file)
{
    file->key[DS_RATIO].used = is_given(file, DS_RATIO);
    if (share_on_gpu(file) > 0 && value_of(file, DS_OPTIMIZER_DEVICE) == MW_TIER_NVME)
        mw_ds_note(file,
                   "%s: %s: DeepSpeed keeps the rest of the optimizer state on the GPU; planned "
                   "with all of it offloaded, so that what fits here may not fit there",
                   file->key[DS_RATIO].name, file->key[DS_RATIO].text);
}

/* runtime/config.py; no plan divides the tokens of a sequence over GPUs. */
static bool
check_sequence_parallel(struct mw_ds_file *file, GError **error)
{
    int64_t size = 1;

    if (!take_integer(file, DS_SEQUENCE_PARALLEL, &size) || size <= 1)
        return true;
    g_autofree char *accepted =
        mw_spelled("1, and {cp} with {cp-kind=all-to-all} instead; DeepSpeed divides the GPUs by "
                   "it, and the batch is another one then");
    return refuse(file, DS_SEQUENCE_PARALLEL, error, "%s", accepted);
}

/* Below stage 3 DeepSpeed ignores offload_param, and any offload_optimizer.device but "none" means
 * the CPU (stage_1_and_2.py).  At stage 0 DeepSpeed accepts the file, and training fails at its
 * first step: the CPU optimizer gets parameters that are on the GPU (ops/adam/cpu_adam.py). */
static bool
fit_offload(struct mw_ds_file *file, GError **error)
{
    int64_t stage = value_of(file, DS_STAGE) == DS_ABSENT ? 0 : value_of(file, DS_STAGE);

    if (stage == 3) {
        note_part(file);
        return true;
    }
    if (is_given(file, DS_RATIO) && value_of(file, DS_RATIO) < DS_WHOLE)
        return refuse(file, DS_RATIO, error,
                      "1 at zero_optimization.stage %d; a part of the "
                      "optimizer is offloaded at stage 3",
                      (int)stage);
    if (value_of(file, DS_OPTIMIZER_DEVICE) > MW_TIER_GPU && stage == 0)
        return refuse(file, DS_OPTIMIZER_DEVICE, error,
                      "off (\"none\") at zero_optimization.stage 0, where DeepSpeed takes it and "
                      "then fails, with its CPU optimizer and state on the GPU; offload needs "
                      "stage 1, 2 or 3");
    if (value_of(file, DS_PARAM_DEVICE) > MW_TIER_GPU) {
        mw_ds_note(file,
                   "%s: DeepSpeed offloads parameters at stage 3 alone; at stage %d they stay "
                   "on the GPU",
                   file->key[DS_PARAM_DEVICE].name, (int)stage);
        file->key[DS_PARAM_DEVICE].value = DS_ABSENT;
    }
    if (value_of(file, DS_OPTIMIZER_DEVICE) == MW_TIER_NVME) {
        mw_ds_note(file, "%s: \"nvme\" is the CPU at stage %d of DeepSpeed; stage 3 takes drives",
                   file->key[DS_OPTIMIZER_DEVICE].name, (int)stage);
        note_bf16_optimizer(file, stage);
        file->key[DS_OPTIMIZER_DEVICE].value = MW_TIER_CPU;
    }
    return true;
}

/* After fit_offload, some strategy matches. */
static enum mw_strategy
strategy_of(int64_t stage, int64_t param_tier, int64_t optimizer_tier, bool partly)
{
    const struct mw_strategies all = mw_strategies_all();
    int64_t deepest = MAX(MW_TIER_GPU, MAX(param_tier, optimizer_tier));

    for (int i = 0; i < all.count; i++) {
        const struct mw_deepspeed_traits *row = &mw_strategy_traits(all.one[i])->deepspeed;
        if (row->partly && partly && deepest == MW_TIER_CPU)
            return all.one[i];
        if (deepest == (int64_t)row->offload && stage >= row->least_stage && stage <= row->stage)
            return all.one[i];
    }
    g_assert_not_reached();
}

/* Places a state as `key` says. */
static void
place_state(const struct mw_ds_file *file, enum mw_ds_key key, int64_t tier,
            struct mw_settings *settings, enum mw_state state)
{
    settings->placement[state] = (struct mw_placement){
        .count = 1, .part[0] = {.tier = (enum mw_tier)tier, .bytes = INT64_MAX}};
    settings->device_key[state] = file->key[key].name;
}

/* Twin-Flow: gradients are where the state of their sub-group is. */
static void
place_part_on_gpu(const struct mw_ds_file *file, struct mw_settings *settings)
{
    double share = share_on_gpu(file);
    struct mw_placement split = {.count = 2,
                                 .part = {{MW_TIER_GPU, 0, share}, {MW_TIER_CPU, INT64_MAX, 0}}};

    if (share <= 0 || value_of(file, DS_OPTIMIZER_DEVICE) != MW_TIER_CPU)
        return;
    if (share >= 1)
        split = (struct mw_placement){.count = 1, .part = {{MW_TIER_GPU, INT64_MAX, 0}}};
    settings->placement[MW_STATE_OPTIMIZER] = settings->placement[MW_STATE_GRADIENTS] = split;
}

/* If one of the two is offloaded and the other not named, DeepSpeed leaves the other on the GPU. */
static int64_t
tier_or_default(struct mw_ds_file *file, enum mw_ds_key key, enum mw_ds_key other)
{
    if (value_of(file, key) != DS_ABSENT)
        return value_of(file, key);
    return value_of(file, other) > MW_TIER_GPU && value_of(file, DS_STAGE) == 3 ? MW_TIER_GPU
                                                                                : DS_ABSENT;
}

static void
apply_placement(struct mw_ds_file *file, struct mw_settings *settings)
{
    int64_t param_tier = tier_or_default(file, DS_PARAM_DEVICE, DS_OPTIMIZER_DEVICE);
    int64_t optimizer_tier = tier_or_default(file, DS_OPTIMIZER_DEVICE, DS_PARAM_DEVICE);
    int64_t stage = 0, on_cpu = 0, parts = 0;

    file->key[DS_PARAM_DEVICE].used = file->key[DS_OPTIMIZER_DEVICE].used = true;
    bool partly = share_on_gpu(file) > 0;

    if (take_integer(file, DS_STAGE, &stage))
        settings->strategy = strategy_of(stage, param_tier, optimizer_tier, partly);
    if (param_tier >= 0)
        place_state(file, DS_PARAM_DEVICE, param_tier, settings, MW_STATE_PARAMETERS);
    if (optimizer_tier >= 0) {
        place_state(file, DS_OPTIMIZER_DEVICE, optimizer_tier, settings, MW_STATE_OPTIMIZER);
        place_state(file, DS_OPTIMIZER_DEVICE, optimizer_tier, settings, MW_STATE_GRADIENTS);
        place_part_on_gpu(file, settings);
    }
    if (take_integer(file, DS_PARTITION_ACTIVATIONS, &parts))
        settings->checkpoint_partition = (int)parts;
    if (take_integer(file, DS_CPU_CHECKPOINTING, &on_cpu))
        place_state(file, DS_CPU_CHECKPOINTING, on_cpu ? MW_TIER_CPU : MW_TIER_GPU, settings,
                    MW_STATE_ACTIVATIONS);
}

/* One set of buffers for the update, and one more each for concurrent reads and writes; DeepSpeed's
 * default is not to pipeline. */
static void
apply_pipeline(struct mw_ds_file *file, struct mw_settings *settings)
{
    int64_t reads = 0, writes = 0;

    if (value_of(file, DS_OPTIMIZER_DEVICE) != MW_TIER_NVME)
        return;
    bool named = take_integer(file, DS_PIPELINE_READ, &reads);
    if (take_integer(file, DS_PIPELINE_WRITE, &writes) || named)
        settings->buffer_sets = 1 + reads + writes;
}

static void
apply_schedule(struct mw_ds_file *file, struct mw_settings *settings)
{
    bool stage3 = value_of(file, DS_STAGE) == 3;
    int64_t value;

    if (take_integer(file, DS_OVERLAP, &value)) {
        settings->overlap = value;
        if (!value)
            mw_settings_set_prefetch(settings, 0);
    }
    /* How many fetch units a larger bucket holds depends on the model; the planner chooses. */
    if (stage3 && value_of(file, DS_PREFETCH) == 0 && take_integer(file, DS_PREFETCH, &value))
        mw_settings_set_prefetch(settings, 0);
    if (stage3 && value_of(file, DS_SUB_GROUP) > 0 && take_integer(file, DS_SUB_GROUP, &value))
        settings->optimizer_chunk = value;
    apply_pipeline(file, settings);
}

/* Without data_types DeepSpeed sums micro-batches in the model's type (engine.py,
 * get_data_types). */
static void
apply_sums(struct mw_ds_file *file)
{
    bool fp16 = value_of(file, DS_FP16) == 1, bf16 = value_of(file, DS_BF16) == 1;
    int64_t model = fp16 ? MW_DTYPE_FP16 : MW_DTYPE_BF16, dtype = model;
    bool trains_fp32 = value_of(file, DS_FP16) <= 0 && value_of(file, DS_BF16) <= 0 &&
                       value_of(file, DS_FP16) != MW_AUTO && value_of(file, DS_BF16) != MW_AUTO;

    bool named = take_integer(file, DS_SUM_DTYPE, &dtype);
    if (!trains_fp32)
        file->sum_bytes = dtype == MW_DTYPE_FP32 ? 4 : 2;
    if (!named || dtype == model || !(fp16 || bf16))
        return;
    const char *name = file->key[DS_SUM_DTYPE].name, *text = file->key[DS_SUM_DTYPE].text;
    if (value_of(file, DS_STAGE) <= 0)
        mw_ds_note(file, "%s: %s beside %s: DeepSpeed refuses it at stage 0", name, text,
                   fp16 ? "fp16" : "bf16");
    else if (dtype != MW_DTYPE_FP32)
        mw_ds_note(file, "%s: DeepSpeed sums %s gradients in %s", name, fp16 ? "fp16" : "bf16",
                   text);
}

bool
mw_ds_apply(struct mw_ds_file *file, int64_t world_size, struct mw_settings *settings,
            GError **error)
{
    drop_auto(file);
    if (!apply_precision(file, settings, error) || !check_sequence_parallel(file, error) ||
        !apply_slicing(file, &world_size, settings, error) ||
        !apply_batch(file, world_size, settings, error) ||
        !merge_old_name(file, DS_PARAM_DEVICE, DS_PARAM_DEVICE_OLD, error) ||
        !merge_old_name(file, DS_OPTIMIZER_DEVICE, DS_OPTIMIZER_DEVICE_OLD, error) ||
        !fit_offload(file, error))
        return false;
    apply_zero_defaults(file);
    apply_placement(file, settings);
    apply_schedule(file, settings);
    apply_optimizer(file);
    note_half_state(file);
    apply_sums(file);
    mw_ds_apply_own(file, settings);
    settings->device_file = g_intern_string(file->origin);
    return true;
}
