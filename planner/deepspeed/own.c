/* memwall's own section of a ds_config.json: reads and writes it. */
#include <string.h>

#include "planner/deepspeed/internal.h"

static const struct {
    enum mw_ds_key key;
    enum mw_state state;
} devices[] = {
    {DS_OWN_PARAM, MW_STATE_PARAMETERS},
    {DS_OWN_GRADIENT, MW_STATE_GRADIENTS},
    {DS_OWN_OPTIMIZER, MW_STATE_OPTIMIZER},
    {DS_OWN_ACTIVATION, MW_STATE_ACTIVATIONS},
};

static const struct {
    enum mw_ds_key key;
    size_t offset; /* in struct mw_settings, of an int64_t */
} numbers[] = {
    {DS_OWN_INTERVAL, offsetof(struct mw_settings, checkpoint_interval)},
    {DS_OWN_RECOMPUTE_LAYERS, offsetof(struct mw_settings, recompute_layers)},
    {DS_OWN_PARAM_LOADS, offsetof(struct mw_settings, param_loads)},
    {DS_OWN_TILES, offsetof(struct mw_settings, tiles)},
    {DS_OWN_LOGITS_CHUNKS, offsetof(struct mw_settings, logits_chunks)},
    {DS_OWN_CHUNK, offsetof(struct mw_settings, optimizer_chunk)},
    {DS_OWN_BUFFER_SETS, offsetof(struct mw_settings, buffer_sets)},
    {DS_OWN_SAVE_EVERY, offsetof(struct mw_settings, save_every)},
    {DS_OWN_DPU_START, offsetof(struct mw_settings, dpu_start)},
};

static bool
take_integer(struct mw_ds_file *file, enum mw_ds_key key, int64_t *out)
{
    if (file->key[key].value < 0)
        return false;
    file->key[key].used = true;
    *out = file->key[key].value;
    return true;
}

static void
take_places(struct mw_ds_file *file, struct mw_settings *settings)
{
    int64_t value = 0;

    if (take_integer(file, DS_OWN_STRATEGY, &value))
        settings->strategy = (enum mw_strategy)value;
    for (size_t i = 0; i < G_N_ELEMENTS(devices); i++)
        if (take_integer(file, devices[i].key, &value)) {
            settings->placement[devices[i].state] = file->key[devices[i].key].placement;
            settings->device_key[devices[i].state] = file->key[devices[i].key].name;
        }
}

static bool
is_on(const struct mw_settings *settings, enum mw_state state, int64_t tier)
{
    return (int64_t)mw_ds_slowest(&settings->placement[state]) == MAX(tier, MW_TIER_GPU);
}

/* Whether DeepSpeed's keys still say the same: if not, someone has changed them. */
static bool
agrees_with_file(const struct mw_ds_file *file, const struct mw_settings *own)
{
    bool on_cpu = file->key[DS_CPU_CHECKPOINTING].value > 0;

    return mw_deepspeed_stage(own) == MAX(file->key[DS_STAGE].value, 0) &&
           is_on(own, MW_STATE_PARAMETERS, file->key[DS_PARAM_DEVICE].value) &&
           is_on(own, MW_STATE_OPTIMIZER, file->key[DS_OPTIMIZER_DEVICE].value) &&
           on_cpu == !is_on(own, MW_STATE_ACTIVATIONS, MW_TIER_GPU);
}

/* Sets a depth for each stage, if the file gives all of them. */
static void
take_fetch_stages(struct mw_ds_file *file, struct mw_settings *settings)
{
    int64_t depth[MW_FETCH_STAGES], deepest = 0;

    for (int stage = 0; stage < MW_FETCH_STAGES; stage++) {
        if (!take_integer(file, (enum mw_ds_key)(DS_OWN_PREFETCH_NC + stage), &depth[stage]))
            return;
        deepest = MAX(deepest, depth[stage]);
    }
    settings->prefetch = deepest;
    memcpy(settings->prefetch_stage, depth, sizeof depth);
}

static void
take_schedule(struct mw_ds_file *file, struct mw_settings *settings)
{
    int64_t value = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        if (take_integer(file, numbers[i].key, &value))
            *(int64_t *)(void *)((char *)settings + numbers[i].offset) = value;
    if (take_integer(file, DS_OWN_RECOMPUTE_LIST, &value))
        mw_layer_set_read(g_quark_to_string((GQuark)value), &settings->recompute_set);
    if (take_integer(file, DS_OWN_STAGE_SPLIT, &value) &&
        mw_layer_set_read(g_quark_to_string((GQuark)value), &settings->stage_begins) &&
        mw_settings_balances_stages(settings))
        settings->stage_begins = (struct mw_layer_set){{0}}; /* no file leaves it to the planner */
    if (take_integer(file, DS_OWN_STAGE_REPLICAS, &value) &&
        mw_stage_replicas_read(g_quark_to_string((GQuark)value), &settings->stage_replicas) &&
        settings->pp == 1)
        settings->pp = settings->stage_replicas.stages;
    /* Without overlap, or with an empty bucket, DeepSpeed's own keys say that nothing is fetched
     * ahead. */
    int64_t overlap = file->key[DS_OWN_OVERLAP].value;
    bool ahead = overlap < 0 || overlap == (int64_t)settings->overlap;
    if (ahead && file->key[DS_PREFETCH].value != 0) {
        if (take_integer(file, DS_OWN_PREFETCH, &value))
            mw_settings_set_prefetch(settings, value);
        take_fetch_stages(file, settings);
    }
    if (mw_deepspeed_stage(settings) == 0 && take_integer(file, DS_OWN_OVERLAP, &value))
        settings->overlap = value;
    if (take_integer(file, DS_OWN_OWNER, &value))
        settings->partition = value ? MW_PARTITION_OWNER : MW_PARTITION_BANDWIDTH;
    if (take_integer(file, DS_OWN_FP32_GRADIENTS, &value))
        settings->layout = value ? MW_LAYOUT_PAPER20 : MW_LAYOUT_ZERO16;
    if (take_integer(file, DS_OWN_UPDATE_BESIDE, &value))
        settings->update_beside = value;
    if (take_integer(file, DS_OWN_UPDATE_ON_GPU, &value))
        settings->update_on = (int)value;
    if (take_integer(file, DS_OWN_ASYNCHRONOUS, &value))
        settings->data_parallel = value ? MW_DATA_PARALLEL_ASYNC : MW_DATA_PARALLEL_SYNC;
    if (take_integer(file, DS_OWN_LAYER_ORDER, &value))
        settings->layer_order = (int)value;
    if (take_integer(file, DS_OWN_SCHEDULE, &value))
        settings->schedule = value ? MW_SCHEDULE_GPIPE : MW_SCHEDULE_1F1B;
    if (take_integer(file, DS_OWN_WEIGHTS_LATER, &value) && value)
        settings->schedule = MW_SCHEDULE_ZB_H1;
    if (take_integer(file, DS_OWN_NO_FLUSH, &value) && value)
        settings->schedule = MW_SCHEDULE_2BW;
    if (take_integer(file, DS_OWN_STASHES, &value) && value)
        settings->schedule = MW_SCHEDULE_PIPEDREAM;
    if (take_integer(file, DS_OWN_VERTICAL_SYNC, &value) && value)
        settings->schedule = MW_SCHEDULE_VERTICAL_SYNC;
    if (take_integer(file, DS_OWN_VIRTUAL_STAGES, &value)) {
        settings->schedule = MW_SCHEDULE_INTERLEAVED;
        settings->virtual_stages = value;
    }
    if (take_integer(file, DS_OWN_SHARD_GROUP, &value))
        settings->shard_group = value;
    if (take_integer(file, DS_OWN_WHOLE_CHECKPOINTS, &value))
        settings->whole_checkpoints = (int)value;
    if (take_integer(file, DS_OWN_COMMIT, &value))
        settings->commit = (int)value;
}

void
mw_ds_apply_own(struct mw_ds_file *file, struct mw_settings *settings)
{
    struct mw_settings own = *settings;

    if (file->key[DS_OWN_STRATEGY].value < 0)
        return;
    take_places(file, &own);
    if (!agrees_with_file(file, &own)) {
        mw_ds_note(file, "memwall: left out, as its strategy and devices are no longer those of "
                         "zero_optimization and activation_checkpointing");
        return;
    }
    *settings = own;
    take_schedule(file, settings);
}

/* --- writing --------------------------------------------------------------------------------- */

static void
add_text(JsonBuilder *json, const char *name, const char *text)
{
    json_builder_set_member_name(json, name);
    json_builder_add_string_value(json, text);
}

/* Writes the value unless it is the default. */
static void
add_int(JsonBuilder *json, const char *name, int64_t value, bool said)
{
    if (!said)
        return;
    json_builder_set_member_name(json, name);
    json_builder_add_int_value(json, value);
}

static void
add_bool(JsonBuilder *json, const char *name, bool value, bool said)
{
    if (!said)
        return;
    json_builder_set_member_name(json, name);
    json_builder_add_boolean_value(json, value);
}

static void
add_layers(JsonBuilder *json, const char *name, const struct mw_layer_set *set)
{
    char text[MW_LAYER_SET_TEXT_MAX];

    mw_layer_set_write(set, text);
    if (*text)
        add_text(json, name, text);
}

static void
add_replicas(JsonBuilder *json, const struct mw_stage_replicas *replicas)
{
    char text[MW_STAGE_REPLICAS_TEXT_MAX];

    mw_stage_replicas_write(replicas, text);
    if (*text)
        add_text(json, "stage_replicas", text);
}

static void
add_devices(JsonBuilder *json, const struct mw_settings *s)
{
    static const char *const names[MW_STATE_COUNT] = {
        [MW_STATE_PARAMETERS] = "param_device",
        [MW_STATE_GRADIENTS] = "gradient_device",
        [MW_STATE_OPTIMIZER] = "optimizer_device",
        [MW_STATE_ACTIVATIONS] = "activation_device",
    };

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        g_autofree char *text = mw_placement_text(&s->placement[state]);
        bool kept = state == MW_STATE_ACTIVATIONS && s->checkpoint_interval == 0;
        if (*text && !kept)
            add_text(json, names[state], text);
    }
}

void
mw_ds_write_own(JsonBuilder *json, const struct mw_settings *s, int64_t sets)
{
    const struct mw_strategy_traits *strategy = mw_strategy_traits(s->strategy);
    bool fetches = strategy->state[MW_STATE_PARAMETERS].partitioned;
    bool stage3 = mw_deepspeed_stage(s) == 3;
    bool on_nvme = mw_ds_slowest(&s->placement[MW_STATE_OPTIMIZER]) == MW_TIER_NVME;
    int64_t sets_said = on_nvme ? MIN(sets, 3) : 3; /* by DeepSpeed's keys, or the default */

    json_builder_set_member_name(json, "memwall");
    json_builder_begin_object(json);
    add_text(json, "strategy", strategy->name);
    add_devices(json, s);
    add_int(json, "activation_checkpoint_interval", s->checkpoint_interval,
            s->checkpoint_interval >= 0);
    add_int(json, "recompute_layers", s->recompute_layers, s->recompute_layers > 0);
    add_layers(json, "recompute_list", &s->recompute_set);
    add_layers(json, "stage_split", &s->stage_begins);
    add_replicas(json, &s->stage_replicas);
    add_int(json, "param_loads", s->param_loads, s->param_loads == 2);
    add_int(json, "tiles", s->tiles, s->tiles > 1);
    add_int(json, "logits_chunks", s->logits_chunks, s->logits_chunks > 1);
    add_int(json, "prefetch", s->prefetch,
            s->prefetch > 1 || (s->prefetch == 1 && fetches && !s->overlap));
    add_int(json, "prefetch_nc", s->prefetch_stage[MW_FETCH_NC], mw_settings_has_fetch_stages(s));
    add_int(json, "prefetch_cg", s->prefetch_stage[MW_FETCH_CG], mw_settings_has_fetch_stages(s));
    add_int(json, "prefetch_gg", s->prefetch_stage[MW_FETCH_GG], mw_settings_has_fetch_stages(s));
    add_bool(json, "overlap", s->overlap, !s->overlap || s->prefetch > 1);
    add_int(json, "optimizer_chunk", s->optimizer_chunk, !stage3 && s->optimizer_chunk > 0);
    add_int(json, "buffer_sets", s->buffer_sets, s->buffer_sets != sets_said);
    add_bool(json, "owner_broadcast", s->partition == MW_PARTITION_OWNER,
             s->partition != MW_PARTITION_AUTO && s->partition != strategy->partition);
    add_bool(json, "fp32_gradients", true, s->layout == MW_LAYOUT_PAPER20);
    add_bool(json, "commit_step", s->commit == 1, on_nvme && s->commit != MW_AUTO);
    add_int(json, "save_every", s->save_every, s->save_every > 0);
    add_int(json, "dpu_start", s->dpu_start, s->dpu_start >= 0);
    add_bool(json, "update_beside", s->update_beside == 1, s->update_beside != MW_AUTO);
    add_bool(json, "update_on_gpu", s->update_on == 1,
             s->update_on != MW_AUTO && s->update_on != strategy->updates_on_gpu);
    add_bool(json, "asynchronous", true, s->data_parallel == MW_DATA_PARALLEL_ASYNC);
    add_bool(json, "layer_order", s->layer_order == 1,
             s->layer_order != MW_AUTO && s->layer_order != strategy->layer_order);
    add_bool(json, "all_forward_first", true, s->schedule == MW_SCHEDULE_GPIPE);
    add_bool(json, "weights_later", true, s->schedule == MW_SCHEDULE_ZB_H1);
    add_bool(json, "no_flush", true, s->schedule == MW_SCHEDULE_2BW);
    add_bool(json, "stashes", true, s->schedule == MW_SCHEDULE_PIPEDREAM);
    add_bool(json, "vertical_sync", true, s->schedule == MW_SCHEDULE_VERTICAL_SYNC);
    add_int(json, "virtual_stages", mw_settings_stretches(s),
            s->schedule == MW_SCHEDULE_INTERLEAVED);
    add_int(json, "shard_group", mw_sizing_shard_group(s), mw_sizing_has_replicas(s));
    add_bool(json, "whole_checkpoints", s->whole_checkpoints == 1,
             s->whole_checkpoints != MW_AUTO &&
                 s->whole_checkpoints != strategy->whole_checkpoints);
    json_builder_end_object(json);
}
