#include "planner/settings/settings.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "base/number.h"
#include "base/typed.h"
#include "model/model.h"

#define SIZE_FORM                                                                                  \
    "a number and one of TB, TiB, GB, GiB, MB, MiB, B, such as 60GB, or a share such as 20%%"

/* The largest first, so that a printed size uses the largest unit that divides it. */
static const struct {
    const char *name;
    int64_t bytes;
} units[] = {
    {"TiB", INT64_C(1) << 40},
    {"TB", INT64_C(1000000000000)},
    {"GiB", INT64_C(1) << 30},
    {"GB", INT64_C(1000000000)},
    {"MiB", INT64_C(1) << 20},
    {"MB", INT64_C(1000000)},
    {"B", 1},
};

void
mw_settings_init(struct mw_settings *settings)
{
    *settings = (struct mw_settings){
        .strategy = MW_STRATEGY_AUTO,
        .nodes = 1,
        .gpus_per_node = MW_AUTO,
        .tp = 1,
        .sequence_parallel = MW_AUTO,
        .shard_group = MW_SHARD_ALL,
        .pp = 1,
        .cp = 1,
        .ep = 1,
        .etp = MW_AUTO,
        .capacity_factor = MW_AUTO,
        .expert_imbalance = 1,
        .router_aux_loss = MW_AUTO,
        .router_z_loss = MW_AUTO,
        .micro_batch = MW_AUTO,
        .global_batch = MW_AUTO,
        .step_tokens_max = MW_AUTO,
        .lora_alpha = MW_AUTO,
        .grad_accum = MW_AUTO,
        .seq = MW_AUTO,
        .partition = MW_PARTITION_AUTO,
        .layout = MW_LAYOUT_ZERO16,
        .checkpoint_interval = MW_AUTO,
        .recompute_layers = MW_AUTO,
        .checkpoint_partition = MW_AUTO,
        .param_loads = MW_AUTO,
        .tiles = MW_AUTO,
        .logits_chunks = MW_AUTO,
        .prefetch = MW_AUTO,
        .prefetch_stage = {MW_AUTO, MW_AUTO, MW_AUTO},
        .optimizer_chunk = MW_AUTO,
        .buffer_sets = 3,
        .overlap = true,
        .commit = MW_AUTO,
        .dpu_start = MW_AUTO,
        .update_beside = MW_AUTO,
        .frozen_device = MW_AUTO,
        .response = MW_AUTO,
        .update_on = MW_AUTO,
        .layer_order = MW_AUTO,
        .whole_checkpoints = MW_AUTO,
        .virtual_stages = MW_AUTO,
        .ops_max = MW_OPS_MAX,
    };
}

void
mw_settings_adapt(const struct mw_settings *settings, struct mw_decoder *decoder)
{
    if (!settings->trained.rank)
        return;
    decoder->lora_rank = settings->trained.rank;
    decoder->lora_alpha =
        settings->lora_alpha > 0 ? settings->lora_alpha : (double)settings->trained.rank;
    decoder->lora_adapted = settings->trained.adapted;
    decoder->lora_bare = settings->trained.bare;
    if (decoder->kind == MW_DECODER_GPT2) /* there is no gate to leave out */
        decoder->lora_bare &= ~(UINT32_C(1) << MW_TARGET_GATE);
}

/* A gate's is of each layer, and the coefficient of their mean. */
double
mw_settings_router_aux_loss(const struct mw_settings *settings, const struct mw_model *model)
{
    if (!model->experts || settings->router_aux_loss >= 0)
        return model->experts ? settings->router_aux_loss : 0;
    return model->constants.router_losses_said
               ? model->constants.router_aux_loss
               : mw_gate_row((int)settings->gate)->layer_loss * (double)model->layers;
}

double
mw_settings_router_z_loss(const struct mw_settings *settings, const struct mw_model *model)
{
    if (!model->experts || settings->router_z_loss >= 0)
        return model->experts ? settings->router_z_loss : 0;
    return model->constants.router_z_loss;
}

double
mw_settings_batch_gpus(const struct mw_settings *settings)
{
    if (mw_settings_takes_turns(settings))
        return 1;
    return (double)settings->nodes * (double)settings->gpus_per_node / (double)settings->pp;
}

void
mw_settings_set_prefetch(struct mw_settings *settings, int64_t depth)
{
    settings->prefetch = depth;
    for (int stage = 0; stage < MW_FETCH_STAGES; stage++)
        settings->prefetch_stage[stage] = MW_AUTO;
}

int64_t
mw_settings_fetch_depth(const struct mw_settings *settings, enum mw_fetch_stage stage)
{
    int64_t depth = settings->prefetch_stage[stage];

    return depth == MW_AUTO ? settings->prefetch : depth;
}

bool
mw_settings_has_fetch_stages(const struct mw_settings *settings)
{
    return settings->prefetch_stage[MW_FETCH_NC] != MW_AUTO;
}

static int64_t
unit_bytes(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        if (!strcmp(name, units[i].name))
            return units[i].bytes;
    return 0;
}

/* Bytes of "60GB" or "1.5TiB"; returns NULL, or what is wrong with the text. */
static const char *
parse_size(const char *text, int64_t *bytes)
{
    size_t digits = strspn(text, "0123456789");
    size_t length = digits;
    int64_t unit;

    if (text[digits] == '.')
        length += 1 + strspn(text + digits + 1, "0123456789");
    if (!digits || text[length - 1] == '.')
        return text[0] == '-' ? "negative size" : "not a size";
    unit = unit_bytes(text + length);
    if (!unit)
        return text[length] ? "unknown unit" : "size without a unit";

    /* Whole numbers stay exact above 2^53 bytes. */
    guint64 whole = g_ascii_strtoull(text, NULL, 10);
    double value = g_ascii_strtod(text, NULL) * (double)unit;
    if (value >= 0x1p63 || (length == digits && whole >= (guint64)(INT64_MAX / unit)))
        return "size too large";
    *bytes = length == digits ? (int64_t)whole * unit : llround(value);
    return *bytes > 0 ? NULL : "zero size";
}

/* Whether it is a share, such as 12.5%; and then NULL with the share, or what is wrong. */
static bool
parse_share(const char *text, double *share, const char **wrong)
{
    double value;
    const char *end = mw_number_scan(text, &value);

    if (!end || strcmp(end, "%") != 0)
        return false;
    *wrong = value > 0 && value < 100 ? NULL : "not a share between 0% and 100%";
    *share = value / 100;
    return true;
}

static int
tier_parse(const char *name)
{
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        if (!strcmp(name, mw_tier_name(tier)))
            return tier;
    return MW_TIER_COUNT;
}

/* Appends one "TIER" or "TIER:SIZE"; returns NULL, or what is wrong with the text. */
static const char *
add_part(struct mw_placement *placement, const char *text)
{
    const char *colon = strchr(text, ':');
    g_autofree char *name = g_strndup(text, colon ? (size_t)(colon - text) : strlen(text));
    int tier = tier_parse(name);
    int64_t bytes = INT64_MAX;
    double share = 0;
    const char *wrong = NULL;

    if (tier == MW_TIER_COUNT)
        return *name ? "unknown device" : "empty part";
    if (mw_placement_has(placement, (enum mw_tier)tier))
        return "device named twice";
    if (placement->count && placement->part[placement->count - 1].bytes == INT64_MAX)
        return "nothing can follow a device without a size";
    if (colon && parse_share(colon + 1, &share, &wrong))
        bytes = 0;
    else if (colon)
        wrong = parse_size(colon + 1, &bytes);
    if (wrong)
        return wrong;
    placement->part[placement->count].tier = (enum mw_tier)tier;
    placement->part[placement->count].bytes = bytes;
    placement->part[placement->count].share = share;
    placement->count++;
    return NULL;
}

/* Shares alone, that do not add up to all. */
static bool
leaves_a_rest(const struct mw_placement *placement)
{
    double sum = 0;

    for (int i = 0; i < placement->count; i++) {
        if (!(placement->part[i].share > 0))
            return false;
        sum += placement->part[i].share;
    }
    return sum < 1 - 1e-9;
}

bool
mw_placement_parse(const char *text, const char *option, struct mw_placement *out, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(*text ? text : ",", ",", -1);
    struct mw_placement placement = {0};

    for (char **part = parts; *part; part++) {
        const char *wrong = add_part(&placement, *part);
        if (wrong) {
            g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                        "%s: \"%s\": %s at \"%s\"; must be gpu, cpu or nvme, or a split such as "
                        "cpu:60GB,nvme: each device once, a size is " SIZE_FORM,
                        option, text, wrong, *part);
            return false;
        }
    }
    if (leaves_a_rest(&placement))
        return mw_refuse(error,
                         "%s: \"%s\": says not where the rest is: end with a device without a "
                         "share, such as gpu:20%%,cpu",
                         option, text);
    *out = placement;
    return true;
}

char *
mw_placement_text(const struct mw_placement *placement)
{
    GString *text = g_string_new(NULL);

    for (int i = 0; i < placement->count; i++) {
        int64_t bytes = placement->part[i].bytes;
        size_t unit = 0;

        g_string_append_printf(text, "%s%s", i ? "," : "", mw_tier_name(placement->part[i].tier));
        if (placement->part[i].share > 0) {
            g_autofree char *percent = mw_typed(100 * placement->part[i].share);
            g_string_append_printf(text, ":%s%%", percent);
        }
        if (bytes == INT64_MAX || placement->part[i].share > 0)
            continue;
        while (bytes % units[unit].bytes)
            unit++;
        g_string_append_printf(text, ":%" G_GINT64_FORMAT "%s", bytes / units[unit].bytes,
                               units[unit].name);
    }
    return g_string_free(text, FALSE);
}

bool
mw_placement_has(const struct mw_placement *placement, enum mw_tier tier)
{
    for (int i = 0; i < placement->count; i++)
        if (placement->part[i].tier == tier)
            return true;
    return false;
}

/* --- stages ---------------------------------------------------------------------------------- */

bool
mw_settings_balances_stages(const struct mw_settings *settings)
{
    return mw_layer_set_has(&settings->stage_begins, MW_STAGES_BALANCED) &&
           mw_layer_set_count(&settings->stage_begins, 0, MW_LAYER_SET_MAX) == 1;
}

int64_t
mw_settings_layers_before(int64_t of_stage, int64_t stretches, int64_t stretch)
{
    return stretch * (of_stage / stretches) + MIN(stretch, of_stage % stretches);
}

/* Stages have `few` layers or one more.  Before a stretch are those of its round in the stages
 * before its own, and all of the rounds before. */
static int64_t
even_begin(int64_t layers, int64_t stages, int64_t stretches, int64_t number)
{
    int64_t round = number / stages, stage = number % stages, few = layers / stages;
    int64_t more = layers * stage / stages - few * stage, more_behind = layers % stages - more;

    return more * mw_settings_layers_before(few + 1, stretches, round + 1) +
           (stage - more) * mw_settings_layers_before(few, stretches, round + 1) +
           more_behind * mw_settings_layers_before(few + 1, stretches, round) +
           (stages - stage - more_behind) * mw_settings_layers_before(few, stretches, round);
}

int64_t
mw_settings_stretch_begin(const struct mw_settings *settings, int64_t layers, int64_t number)
{
    int64_t layer = 0;

    if (mw_layer_set_is_empty(&settings->stage_begins) || mw_settings_balances_stages(settings))
        return even_begin(layers, settings->pp, mw_settings_stretches(settings), number);
    int64_t first = mw_layer_set_has(&settings->stage_begins, 0); /* the embedding alone */
    for (int64_t s = first; s < number && layer < layers; s++)
        for (layer++; layer < layers && !mw_layer_set_has(&settings->stage_begins, layer);)
            layer++;
    return layer;
}

char *
mw_settings_stages_text(const struct mw_settings *settings)
{
    char text[MW_STAGE_REPLICAS_TEXT_MAX];

    if (!mw_settings_takes_turns(settings))
        return g_strdup_printf("{pp=%" G_GINT64_FORMAT "}", settings->pp);
    mw_stage_replicas_write(&settings->stage_replicas, text);
    return g_strdup_printf("{stage-replicas=%s}", text);
}

int64_t
mw_settings_stage_ranks(const struct mw_settings *settings, int64_t stage)
{
    return mw_settings_takes_turns(settings)
               ? settings->stage_replicas.of[stage]
               : settings->nodes * settings->gpus_per_node / settings->tp / settings->pp;
}

int64_t
mw_settings_stage_rank(const struct mw_settings *settings, int64_t stage)
{
    return mw_settings_takes_turns(settings)
               ? mw_stage_replicas_first(&settings->stage_replicas, (uint32_t)stage)
               : stage * settings->tp * mw_settings_stage_ranks(settings, stage);
}

int64_t
mw_settings_stage_in_flight(const struct mw_settings *settings, int64_t stage)
{
    if (!mw_settings_takes_turns(settings))
        return settings->pp - stage;
    return mw_divide_up(mw_stage_replicas_from(&settings->stage_replicas, (uint32_t)stage),
                        settings->stage_replicas.of[stage]);
}

/* Without a flush a step has the micro-batches in flight, and of replicas that take turns a whole
 * number of turns. */
int64_t
mw_settings_batch_grain(const struct mw_settings *settings)
{
    int64_t turns = mw_stage_replicas_grain(&settings->stage_replicas), least = 1;

    if (!mw_settings_takes_turns(settings))
        return mw_settings_stretches(settings) > 1 || mw_settings_no_flush(settings) ? settings->pp
                                                                                     : 1;
    for (int64_t stage = 0; stage < settings->stage_replicas.stages; stage++)
        if (mw_settings_no_flush(settings))
            least = MAX(least, mw_settings_stage_in_flight(settings, stage) *
                                   settings->stage_replicas.of[stage]);
    return turns ? mw_round_up(least, turns) : least;
}
