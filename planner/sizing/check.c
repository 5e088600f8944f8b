/* Checks that ranks and batches make sense for a machine and a model. */
#include <glib.h>
#include <math.h>

#include "base/error.h"
#include "base/format.h"
#include "base/spell.h"
#include "base/typed.h"
#include "plan/optimizers.h"
#include "planner/settings/table.h"
#include "planner/sizing/internal.h"

/* Says how many there are, and so how many can be requested. */
static bool
refuse_count(const char *setting, int64_t asked, const char *of, int64_t has, const char *what,
             const char *more, GError **error)
{
    g_autofree char *range =
        has > 1 ? g_strdup_printf("1 to %" G_GINT64_FORMAT, has) : g_strdup("1");

    return mw_refuse(error,
                     "{%s=%" G_GINT64_FORMAT "}: %s has %" G_GINT64_FORMAT " %s%s; give %s%s",
                     setting, asked, of, has, what, has > 1 ? "s" : "", range, more);
}

/* Names all keys that a network needs, so that one try is enough. */
static void
refuse_network(const struct mw_settings *settings, const struct mw_hardware *hw, GError **error)
{
    g_autofree char *keys = mw_profile_required(&mw_hwprofile_kind, "network");
    bool few = hw->nodes_max > 0 && settings->nodes > hw->nodes_max;
    g_autofree char *most =
        few ? g_strdup_printf(" and node.nodes_max=%" G_GINT64_FORMAT " or more", settings->nodes)
            : g_strdup("");

    mw_refuse(error,
              "{nodes=%" G_GINT64_FORMAT "}: the profile has no network; give 1, or set %s%s",
              settings->nodes, keys, most);
}

/* Names all keys that more GPUs need on a machine without a network, so that one try is enough. */
static bool
refuse_gpus(const struct mw_settings *settings, const struct mw_hardware *hw, GError **error)
{
    g_autofree char *keys = mw_profile_required(&mw_hwprofile_kind, "fabric");
    g_autofree char *more =
        hw->nic_bytes_per_s > 0
            ? mw_spelled(", or more {nodes}")
            : g_strdup_printf(", or set node.gpus=%" G_GINT64_FORMAT "%s%s",
                              settings->gpus_per_node, hw->fabric_bytes_per_s > 0 ? "" : " and ",
                              hw->fabric_bytes_per_s > 0 ? "" : keys);

    return refuse_count("gpus", settings->gpus_per_node, "a node of the profile", hw->gpus_per_node,
                        "GPU", more, error);
}

/* What a message proposes of the nearest numbers: `below`, if it is above 1, and `above`, if it is
 * `most` at most; `none` if neither is. */
static char *
proposed(int64_t below, int64_t above, int64_t most, const char *none)
{
    if (below > 1 && above <= most)
        return g_strdup_printf("%" G_GINT64_FORMAT " or %" G_GINT64_FORMAT, below, above);
    return below > 1 || above <= most
               ? g_strdup_printf("%" G_GINT64_FORMAT, below > 1 ? below : above)
               : g_strdup(none);
}

/* The nearest numbers below and above that divide both; "": none above 1 does. */
static char *
nearest_common_divisors(int64_t one, int64_t other, int64_t asked)
{
    int64_t most = MIN(one, other), below = MIN(asked - 1, most), above = asked + 1;

    while (below > 1 && (one % below || other % below))
        below--;
    while (above <= most && (one % above || other % above))
        above++;
    return proposed(below, above, most, "");
}

/* The nearest numbers of tensor slices that divide the model and `ranks`, 0 for unknown. */
static char *
nearest_slices(const struct mw_model *model, int64_t ranks, int64_t tp)
{
    int64_t both = model->heads, rest = model->hidden;

    while (rest) {
        int64_t left = both % rest;
        both = rest;
        rest = left;
    }
    g_autofree char *nearest = nearest_common_divisors(both, ranks ? ranks : both, tp);
    return g_strdup(*nearest ? nearest : "1");
}

static bool
check_ranks(const struct mw_model *model, const struct mw_settings *settings,
            const struct mw_hardware *hw, GError **error)
{
    int64_t ranks = settings->nodes * settings->gpus_per_node;
    g_autofree char *slices = nearest_slices(model, ranks, settings->tp);

    if (settings->gpus_per_node > hw->gpus_per_node)
        return refuse_gpus(settings, hw, error);
    if (settings->nodes > 1 && hw->nic_bytes_per_s <= 0)
        refuse_network(settings, hw, error);
    else if (hw->nodes_max > 0 && settings->nodes > hw->nodes_max)
        return refuse_count("nodes", settings->nodes, "the profile", hw->nodes_max, "node", "",
                            error);
    else if (ranks > MW_PLAN_MAX_WORLD)
        mw_refuse(error,
                  "{nodes=%" G_GINT64_FORMAT "}: with %" G_GINT64_FORMAT
                  " GPUs each they have %" G_GINT64_FORMAT ", more than can be planned; give %s",
                  settings->nodes, settings->gpus_per_node, ranks,
                  mw_format_choice(1, MW_PLAN_MAX_WORLD / settings->gpus_per_node));
    else if (settings->tp > ranks || ranks % settings->tp)
        mw_refuse(error,
                  "{tp=%" G_GINT64_FORMAT
                  "}: must divide the number of GPUs on all nodes, which is %" G_GINT64_FORMAT
                  "; give %s",
                  settings->tp, ranks, slices);
    else if (settings->unfold && settings->partition == MW_PARTITION_OWNER && ranks > settings->tp)
        mw_refuse(error, "unfold: owners take turns, which only a folded plan can say; give "
                         "{partition=bandwidth}");
    else
        return true;
    return false;
}

/* The first and the last stage have a copy each of a tied embedding, whose gradients they sum up.
 * Shards of the two are of other elements, as the first stage's have positions and the last one's
 * the final norm; and frameworks partition gradients in no pipeline (DeepSpeed's engine refuses
 * ZeRO-2 and ZeRO-3 there, Megatron-LM's distributed optimizer is ZeRO-1). */
static bool
check_copies(const struct mw_model *model, const struct mw_settings *settings, GError **error)
{
    struct mw_shape shape = mw_sizing_shape(model, settings, NULL);
    bool frozen = shape.trained.frozen >> MW_OPERATOR_EMBEDDING & 1;
    struct mw_operators tail;

    if (!model->tied_embedding)
        return true;
    if (!mw_model_copying_tail(model, &shape, &tail))
        return mw_refuse(error,
                         "{pp=%" G_GINT64_FORMAT "}: model %s ties embedding and output weights, "
                         "and does not say which part of them the last stage has a copy of; give "
                         "{pp=1}",
                         settings->pp, model->name);
    if (frozen || !mw_strategy_traits(settings->strategy)->state[MW_STATE_GRADIENTS].partitioned)
        return true;
    bool placed = false;
    for (int state = 0; state < MW_STATE_ACTIVATIONS; state++)
        placed |= mw_placement_has(&settings->placement[state], MW_TIER_CPU) ||
                  mw_placement_has(&settings->placement[state], MW_TIER_NVME);
    g_autofree char *whole =
        mw_spelled(placed ? ", unlike ddp and zero1 with all states on the GPU; give {pp=1}"
                          : "; give {strategy=ddp} or {strategy=zero1}, or {pp=1}");
    return mw_refuse(error,
                     "{pp=%" G_GINT64_FORMAT
                     "}: the first and the last stage sum up gradients of the embedding that model "
                     "%s ties to its output, and %s partitions gradients%s",
                     settings->pp, model->name, mw_strategy_name(settings->strategy), whole);
}

/* The nearest multiples of `grain` around a number, as a message says them. */
static char *
nearest_multiples(int64_t number, int64_t grain)
{
    int64_t below = number / grain * grain;

    return below
               ? g_strdup_printf("%" G_GINT64_FORMAT " or %" G_GINT64_FORMAT, below, below + grain)
               : g_strdup_printf("%" G_GINT64_FORMAT, below + grain);
}

static bool
check_split(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    g_autofree char *text = mw_setting_text(mw_setting_find("stage-split"), s);
    int64_t begins = mw_layer_set_count(&s->stage_begins, 0, MW_LAYER_SET_MAX);
    int64_t within = mw_layer_set_count(&s->stage_begins, 1, model->layers);
    int64_t ends = mw_layer_set_has(&s->stage_begins, 0) +
                   mw_layer_set_count(&s->stage_begins, model->layers,
                                      MIN(model->layers + 1, MW_LAYER_SET_MAX));

    if (mw_layer_set_is_empty(&s->stage_begins))
        return true;
    if (model->layers > MW_LAYER_SET_MAX)
        return mw_refuse(error,
                         "{stage-split=%s}: model %s has %" G_GINT64_FORMAT
                         " layers, and a split is of %d at most; give {stage-split=even}",
                         text, model->name, model->layers, MW_LAYER_SET_MAX);
    int64_t parts = s->pp * mw_settings_stretches(s);
    const char *part = parts > s->pp ? "stretch" : "stage";
    bool logits_alone = mw_settings_stretch_begin(s, model->layers, s->pp - 1) == model->layers;
    if (logits_alone && mw_schedule_row(s->schedule)->all_forward)
        return mw_refuse(error,
                         "{stage-split=%s}: a stage of the logits alone sends gradients back at "
                         "once, and {schedule=%s} takes them behind all micro-batches; give "
                         "{schedule=1f1b}",
                         text, mw_schedule_row(s->schedule)->name);
    if (mw_settings_balances_stages(s) ||
        (begins == parts - 1 && begins == within + (parts > s->pp ? 0 : ends)))
        return true;
    return mw_refuse(
        error,
        "{stage-split=%s}: {pp=%" G_GINT64_FORMAT "} takes the first layers of %" G_GINT64_FORMAT
        " %s%s, from %d to %" G_GINT64_FORMAT " in order%s; or give {stage-split=balanced}",
        text, s->pp, parts - 1, part,
        parts <= 2      ? ""
        : parts > s->pp ? "es"
                        : "s",
        parts == 2 && s->pp == 2 ? 0 : 1, parts == 2 ? model->layers : model->layers - 1,
        parts > s->pp ? ""
        : parts == 2
            ? " (at 0 the embedding, and at the number of layers the logits have a stage to "
              "themselves)"
            : " (the first may also be 0, and the last the number of layers: the embedding "
              "and the logits then have a stage to themselves)");
}

/* Each stretch has a layer; and they pass on micro-batches in groups of as many as there are stages
 * (Narayanan et al. 2021, arXiv 2104.04473, Sec. 2.2.2). */
static bool
check_stretches(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    int64_t stretches = mw_settings_stretches(s), pp = s->pp;

    if (mw_settings_no_flush(s) && s->grad_accum != MW_AUTO && s->grad_accum < pp)
        return mw_refuse(error,
                         "{schedule=%s}: takes as many micro-batches as there are stages or more, "
                         "and there are %" G_GINT64_FORMAT "; give {grad-accum=%" G_GINT64_FORMAT
                         "}",
                         mw_schedule_row(s->schedule)->name, s->grad_accum, pp);
    if (stretches == 1)
        return true;
    int64_t most = MIN(MW_STRETCHES_MAX, model->layers / pp);
    if (most < 2)
        return mw_refuse(error,
                         "{schedule=interleaved}: the %" G_GINT64_FORMAT
                         " layers of model %s are no two stretches for each of "
                         "{pp=%" G_GINT64_FORMAT "} stages; give {schedule=1f1b}",
                         model->layers, model->name, pp);
    if (stretches > most)
        return mw_refuse(error,
                         "{virtual-stages=%" G_GINT64_FORMAT "}: the %" G_GINT64_FORMAT
                         " layers of model %s make at most %" G_GINT64_FORMAT
                         " stretches in each of {pp=%" G_GINT64_FORMAT "} stages; give %s",
                         stretches, model->layers, model->name, most, pp,
                         mw_format_choice(2, most));
    if (s->grad_accum == MW_AUTO || s->grad_accum % pp == 0)
        return true;
    if (s->global_batch != MW_AUTO) {
        g_autofree char *sequences =
            nearest_multiples(s->global_batch, s->global_batch / s->grad_accum * pp);
        return mw_refuse(error,
                         "{global-batch=%" G_GINT64_FORMAT "}: makes %" G_GINT64_FORMAT
                         " micro-batches, and {schedule=interleaved} takes a multiple of "
                         "{pp=%" G_GINT64_FORMAT "}; give %s",
                         s->global_batch, s->grad_accum, pp, sequences);
    }
    g_autofree char *batches = nearest_multiples(s->grad_accum, pp);
    return mw_refuse(error,
                     "{grad-accum=%" G_GINT64_FORMAT
                     "}: {schedule=interleaved} takes a multiple of {pp=%" G_GINT64_FORMAT
                     "} micro-batches; give %s",
                     s->grad_accum, pp, batches);
}

/* --- stages whose ranks take turns ------------------------------------------------------------ */

/* The nearest numbers of replicas that are `ranks` in all: what is missing or too much comes from
 * the stages that have most, the first of them first.  "": there are fewer ranks than stages. */
static char *
nearest_replicas(struct mw_stage_replicas it, int64_t ranks)
{
    char text[MW_STAGE_REPLICAS_TEXT_MAX];

    if (ranks < it.stages)
        return g_strdup("");
    while (mw_stage_replicas_from(&it, 0) != ranks) {
        uint32_t most = 0;
        for (uint32_t stage = 1; stage < it.stages; stage++)
            if (it.of[stage] > it.of[most])
                most = stage;
        int64_t more = ranks - mw_stage_replicas_from(&it, 0);
        if (more > 0 && it.of[most] + more > MW_STAGE_REPLICAS_MAX)
            return g_strdup("");
        it.of[most] = (uint16_t)(more > 0 ? it.of[most] + more : it.of[most] - 1);
    }
    mw_stage_replicas_write(&it, text);
    return g_strdup(text);
}

/* Each replica of a stage has as many micro-batches, and without a flush at least as many as it has
 * in flight. */
static bool
check_turns_batch(const struct mw_settings *s, GError **error)
{
    int64_t turns = mw_stage_replicas_grain(&s->stage_replicas);
    int64_t least = mw_settings_batch_grain(s), asked = s->grad_accum;
    g_autofree char *text = mw_setting_text(mw_setting_find("stage-replicas"), s);

    if (!turns)
        return mw_refuse(error,
                         "{stage-replicas=%s}: a step would have more than %d micro-batches, of "
                         "which all replicas of a stage take as many; give numbers that divide "
                         "each other",
                         text, MW_PLAN_MICRO_BATCHES_MAX);
    if (asked == MW_AUTO || (asked % turns == 0 && asked >= least))
        return true;
    bool global = s->global_batch != MW_AUTO;
    int64_t each = global ? s->global_batch / asked : 1;
    g_autofree char *nearest = asked < least ? g_strdup_printf("%" G_GINT64_FORMAT, least * each)
                                             : nearest_multiples(asked * each, turns * each);
    g_autofree char *which = mw_spelled(global ? "{global-batch}" : "{grad-accum}");
    return mw_refuse(error,
                     "{stage-replicas=%s}: the replicas of each stage take as many of the "
                     "micro-batches each%s, and there are %" G_GINT64_FORMAT "; give %s of %s",
                     text,
                     mw_settings_no_flush(s) ? ", and at least those that they have in flight" : "",
                     asked, which, nearest);
}

static bool
check_turns(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    int64_t ranks = s->nodes * s->gpus_per_node;
    uint32_t asked = mw_stage_replicas_from(&s->stage_replicas, 0);
    g_autofree char *text = mw_setting_text(mw_setting_find("stage-replicas"), s);

    if (s->pp != s->stage_replicas.stages)
        return mw_refuse(error,
                         "{pp=%" G_GINT64_FORMAT "}: {stage-replicas=%s} is of %u stages; give "
                         "{pp=%u}, or leave it out",
                         s->pp, text, s->stage_replicas.stages, s->stage_replicas.stages);
    if (s->pp > model->layers)
        return mw_refuse(error,
                         "{stage-replicas=%s}: is of %" G_GINT64_FORMAT
                         " stages, and model %s has %" G_GINT64_FORMAT
                         " layers, one or more for each; give %" G_GINT64_FORMAT " stages at most",
                         text, s->pp, model->name, model->layers, model->layers);
    if (asked == ranks)
        return check_turns_batch(s, error);
    g_autofree char *nearest = nearest_replicas(s->stage_replicas, ranks);
    return mw_refuse(error,
                     "{stage-replicas=%s}: takes %u GPUs, and there are %" G_GINT64_FORMAT
                     "; give %s%s%u GPUs ({nodes} times {gpus})",
                     text, asked, ranks, nearest, *nearest ? ", or " : "", asked);
}

/* Whether so many stages have ranks, layers, and nodes or parts of nodes of their own. */
static bool
can_stage(const struct mw_model *model, const struct mw_settings *s, int64_t pp)
{
    int64_t ranks = s->nodes * s->gpus_per_node, of_stage = ranks / pp, of_node = s->gpus_per_node;

    return pp <= model->layers && ranks % (s->tp * pp) == 0 &&
           (of_stage % of_node == 0 || of_node % of_stage == 0);
}

static char *
nearest_stages(const struct mw_model *model, const struct mw_settings *s)
{
    int64_t most = MIN(model->layers, s->nodes * s->gpus_per_node);
    int64_t below = MIN(s->pp - 1, most), above = s->pp + 1;

    while (below > 1 && !can_stage(model, s, below))
        below--;
    while (above <= most && !can_stage(model, s, above))
        above++;
    return proposed(below, above, most, "1");
}

/* What no stage does whatever its ranks do. */
static bool
check_order(const struct mw_settings *settings, GError **error)
{
    g_autofree char *stages = mw_settings_stages_text(settings), *named = mw_spelled(stages);

    if (settings->dpu_start != MW_AUTO)
        return mw_refuse(error, "%s: a pipeline cannot delay updates; leave out {dpu-start}",
                         named);
    if (settings->overlap && !settings->serialize)
        return true;
    return mw_refuse(
        error, "%s: without overlap, stages would wait for each other forever; give {overlap=on}",
        named);
}

/* Refuses what a pipeline cannot do yet, in one line each. */
static bool
check_pipeline(const struct mw_model *model, const struct mw_settings *settings, GError **error)
{
    int64_t pp = settings->pp, ranks = settings->nodes * settings->gpus_per_node;

    if (pp == 1)
        return true;
    if (mw_settings_takes_turns(settings))
        return check_turns(model, settings, error) && check_split(model, settings, error) &&
               check_order(settings, error);
    g_autofree char *nearest = nearest_stages(model, settings);
    if (ranks % (settings->tp * pp))
        return mw_refuse(error,
                         "{pp=%" G_GINT64_FORMAT "}: times {tp=%" G_GINT64_FORMAT
                         "} must divide the number of GPUs on all nodes, which is %" G_GINT64_FORMAT
                         "; give %s",
                         pp, settings->tp, ranks, nearest);
    if (pp > model->layers)
        return mw_refuse(error,
                         "{pp=%" G_GINT64_FORMAT "}: model %s has %" G_GINT64_FORMAT
                         " layers, and a pipeline no more stages than that; give %s",
                         pp, model->name, model->layers, nearest);
    int64_t of_stage = ranks / pp, of_node = settings->gpus_per_node;
    if (of_stage % of_node && of_node % of_stage)
        return mw_refuse(error,
                         "{pp=%" G_GINT64_FORMAT "}: makes stages of %" G_GINT64_FORMAT
                         " GPUs, which neither fill nodes of %" G_GINT64_FORMAT
                         " nor divide one; give %s",
                         pp, of_stage, of_node, nearest);
    if (!check_copies(model, settings, error) || !check_stretches(model, settings, error) ||
        !check_split(model, settings, error))
        return false;
    if (!check_order(settings, error))
        return false;
    if (settings->partition == MW_PARTITION_OWNER && ranks > settings->tp * pp)
        return mw_refuse(error, "{pp=%" G_GINT64_FORMAT "}: needs {partition=bandwidth}", pp);
    return true;
}

/* Groups partition something, and lie alike on the nodes: in one, or in several whole ones. */
static bool
is_group(int64_t shards, int64_t dp, int64_t of_node)
{
    return shards > 1 && shards <= dp && dp % shards == 0 &&
           (of_node % shards == 0 || shards % of_node == 0);
}

/* The nearest sizes of groups, as a message says them. */
static char *
nearest_groups(int64_t asked, int64_t dp, int64_t of_node)
{
    int64_t below = MIN(asked - 1, dp), above = asked + 1;

    while (below > 1 && !is_group(below, dp, of_node))
        below--;
    while (above <= dp && !is_group(above, dp, of_node))
        above++;
    if (below > 1 && above <= dp)
        return g_strdup_printf("%" G_GINT64_FORMAT " or %" G_GINT64_FORMAT, below, above);
    return g_strdup_printf("%" G_GINT64_FORMAT, below > 1 ? below : above);
}

static bool
check_groups(const struct mw_settings *s, GError **error)
{
    int64_t dp = s->nodes * s->gpus_per_node / s->tp / s->pp;
    int64_t of_node = mw_sizing_node_group(s), shards = mw_sizing_shard_group(s);
    g_autofree char *asked = mw_setting_text(mw_setting_find("shard-group"), s);

    if (!asked || (dp == 1 && s->shard_group == MW_SHARD_NODE))
        return true;
    if (dp == 1)
        return mw_refuse(error, "{shard-group=%s}: there is one data-parallel GPU; leave it out",
                         asked);
    g_autofree char *nearest = nearest_groups(shards, dp, of_node);
    if (!is_group(shards, dp, of_node))
        return mw_refuse(error,
                         "{shard-group=%s}: must divide the %" G_GINT64_FORMAT
                         " data-parallel GPUs, and divide the %" G_GINT64_FORMAT
                         " of a node or fill nodes; give %s",
                         asked, dp, of_node, nearest);
    if (s->partition == MW_PARTITION_OWNER && shards < dp)
        return mw_refuse(error,
                         "{shard-group=%s}: owners take turns among all GPUs; give "
                         "{partition=bandwidth}",
                         asked);
    return true;
}

/* Other settings that experts spread over ranks do not go with yet; NULL: all do.  Slices send
 * tokens of their own (Megatron Core, model_parallel_config.py, which requires that too). */
static const char *
keeps_from_spreading(const struct mw_settings *s, bool complete)
{
    bool alike = s->tp > 1 && s->sequence_parallel != 1 && complete;

    return alike                                       ? "{tp=1}, or {sequence-parallel=on},"
           : mw_sizing_has_replicas(s)                 ? "{shard-group=all}"
           : s->trained.rank                           ? "no adapters in {train}"
           : s->partition == MW_PARTITION_OWNER        ? "{partition=bandwidth}"
           : mw_optimizer_orthogonalizes(s->optimizer) ? "another {optimizer}, such as adamw,"
                                                       : NULL;
}

/* What is to be known of a mixture. */
static const char *
no_choice_of(const struct mw_model *model)
{
    return !model->experts      ? "no experts"
           : model->experts > 1 ? "no experts whose layers are known here"
                                : "one expert per layer, which all tokens visit";
}

/* Groups of experts that have gates of their own: each has enough to choose among, and lies on one
 * GPU (Shazeer et al., arXiv 1701.06538, Sec. 3.1). */
static bool
check_groups_of_experts(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    const struct mw_gate_row *gate = mw_gate_row((int)s->gate);
    int64_t groups = mw_model_gate_groups(model, s->gate), ep = MAX(1, s->ep);
    int64_t least = mw_gate_copies((int)s->gate);

    if (!groups)
        return true;
    if (groups < gate->group_visits || model->experts / groups < least)
        return mw_refuse(error,
                         "{gate=%s}: model %s has %" G_GINT64_FORMAT
                         " experts per layer, which do not "
                         "divide into %" G_GINT64_FORMAT
                         " or more groups of at least %" G_GINT64_FORMAT "; give {gate=%s}",
                         gate->name, model->name, model->experts, gate->group_visits, least,
                         mw_gate_name(MW_GATING_NOISY_TOP_K));
    if (s->capacity_factor > 0)
        return mw_refuse(error,
                         "{capacity-factor=%.15g}: with {gate=%s} experts take all tokens that "
                         "come; leave it out",
                         s->capacity_factor, gate->name);
    g_autofree char *nearest = nearest_common_divisors(groups, groups, ep);
    g_autofree char *alone = mw_spelled("{ep=1}");
    return groups % ep == 0 ||
           mw_refuse(error,
                     "{ep=%" G_GINT64_FORMAT "}: with {gate=%s} a GPU has whole groups of experts, "
                     "and a layer of model %s has %" G_GINT64_FORMAT " groups; give %s",
                     ep, gate->name, model->name, groups, *nearest ? nearest : alone);
}

/* Whether the experts have such a gate.  None takes a token twice (Zhou et al., arXiv 2202.09368,
 * Sec. 3.2, a top-k over the tokens). */
static bool
check_gate(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    const struct mw_gate_row *gate = mw_gate_row((int)s->gate);
    double most = (double)model->experts / (double)MAX(1, model->experts_per_token);

    if (s->gate != MW_GATING_TOP_K && !mw_model_can_spread(model))
        return mw_refuse(error, "{gate=%s}: model %s has %s; give {gate=%s}", gate->name,
                         model->name, no_choice_of(model), mw_gate_name(MW_GATING_TOP_K));
    if (gate->experts_choose && s->capacity_factor == 0)
        return mw_refuse(error,
                         "{capacity-factor=none}: with {gate=%s} an expert takes as many tokens as "
                         "it has room for; give a number up to %.3g, or auto",
                         gate->name, floor(100 * most) / 100);
    if (!check_groups_of_experts(model, s, error))
        return false;
    return !gate->experts_choose || s->capacity_factor <= most ||
           mw_refuse(
               error,
               "{capacity-factor=%.15g}: with {gate=%s} an expert takes a token once; give at "
               "most %.3g for the %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " experts that "
               "a token of model %s visits",
               s->capacity_factor, gate->name, floor(100 * most) / 100, model->experts_per_token,
               model->experts, model->name);
}

static bool
check_imbalance(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    return s->expert_imbalance <= 1 || mw_model_can_spread(model) ||
           mw_refuse(error, "{expert-imbalance=%.15g}: model %s has no experts%s; leave it out",
                     s->expert_imbalance, model->name,
                     model->experts ? " whose layers are known here" : "");
}

static bool
check_losses(const struct mw_model *model, const struct mw_settings *s, GError **error)
{
    if (model->experts || (s->router_aux_loss <= 0 && s->router_z_loss <= 0))
        return true;
    if (s->router_aux_loss > 0)
        return mw_refuse(error,
                         "{router-aux-loss-coef=%.15g}: model %s has no experts; leave it out",
                         s->router_aux_loss, model->name);
    return mw_refuse(error, "{router-z-loss-coef=%.15g}: model %s has no experts; leave it out",
                     s->router_z_loss, model->name);
}

/* Slices of experts: as many as of all else, or none where slices share whole ones.  Megatron Core
 * has numbers between too (parallel_state.py, expert_tensor_parallel_size). */
static bool
check_expert_slices(const struct mw_settings *s, GError **error)
{
    if (s->etp == MW_AUTO || s->etp == s->tp || mw_settings_whole_experts(s))
        return true;
    if (s->etp == 1)
        return mw_refuse(error, "{etp=1}: slices have whole experts only where {ep} spreads them; "
                                "give {ep} a multiple of {tp}, or {etp=tp}");
    return mw_refuse(error,
                     "{etp=%" G_GINT64_FORMAT "}: experts are planned whole or in as many slices "
                     "as all else; give {etp=1} or {etp=tp}",
                     s->etp);
}

/* Whole experts lie over all slices of a number of data-parallel ranks (Megatron Core,
 * parallel_state.py: expert ranks count tp fastest, with a tp of 1 there). */
static bool
check_whole_experts(const struct mw_model *model, const struct mw_settings *s, int64_t dp,
                    GError **error)
{
    int64_t ep = s->ep, tp = s->tp;

    if (ep % tp == 0 && model->experts % ep == 0 && (!dp || dp * tp % ep == 0))
        return true;
    g_autoptr(GString) good = g_string_new(NULL);
    for (int64_t fits = tp; fits <= model->experts && (!dp || fits <= dp * tp); fits += tp)
        if (model->experts % fits == 0 && (!dp || dp * tp % fits == 0))
            g_string_append_printf(good, "%s%" G_GINT64_FORMAT, good->len ? " or " : "", fits);
    g_autofree char *sliced = mw_spelled("{etp=tp}");
    g_autofree char *ranks =
        dp ? g_strdup_printf(" and the %" G_GINT64_FORMAT " GPUs", dp * tp) : g_strdup("");
    return mw_refuse(
        error,
        "{ep=%" G_GINT64_FORMAT "}: with {etp=1} must be a multiple of {tp=%" G_GINT64_FORMAT
        "} that divides the %" G_GINT64_FORMAT " experts of a layer of model %s%s; give %s",
        ep, tp, model->experts, model->name, ranks, good->len ? good->str : sliced);
}

/* Whether so many ranks can share the experts of each layer; `dp`: data-parallel ranks, 0: not
 * known. */
static bool
check_experts(const struct mw_model *model, const struct mw_settings *s, int64_t dp, GError **error)
{
    const char *needs = keeps_from_spreading(s, dp > 0);
    g_autofree char *other = needs ? mw_spelled(needs) : NULL;
    int64_t ep = s->ep;

    if (s->capacity_factor > 0 && !mw_model_can_spread(model))
        return mw_refuse(error, "{capacity-factor=%.15g}: model %s has %s; leave it out",
                         s->capacity_factor, model->name, no_choice_of(model));
    if (!check_gate(model, s, error) || !check_losses(model, s, error) ||
        !check_imbalance(model, s, error) || !check_expert_slices(s, error))
        return false;
    if (ep == 1)
        return true;
    if (model->experts <= 1)
        return mw_refuse(error, "{ep=%" G_GINT64_FORMAT "}: model %s has %s; give {ep=1}", ep,
                         model->name, no_choice_of(model));
    if (!mw_model_can_spread(model))
        return mw_refuse(error,
                         "{ep=%" G_GINT64_FORMAT "}: how the experts of model %s lie in its layers "
                         "is not known here; give {ep=1}",
                         ep, model->name);
    if (other)
        return mw_refuse(error,
                         "{ep=%" G_GINT64_FORMAT "}: experts that are spread over GPUs are planned "
                         "with %s alone; give that, or {ep=1}",
                         ep, other);
    if (mw_settings_whole_experts(s))
        return check_whole_experts(model, s, dp, error);
    g_autofree char *nearest =
        nearest_common_divisors(model->experts, dp ? dp : model->experts, ep);
    g_autofree char *alone = mw_spelled("{ep=1}");
    bool over_slices =
        s->tp > 1 && dp && ep % s->tp == 0 && dp * s->tp % ep == 0 && model->experts % ep == 0;
    g_autofree char *whole = mw_spelled(over_slices ? ", or {etp=1}" : "");
    g_autofree char *ranks =
        dp ? g_strdup_printf(", and the %" G_GINT64_FORMAT " data-parallel GPUs", dp)
           : g_strdup("");
    return (model->experts % ep == 0 && (!dp || dp % ep == 0)) ||
           mw_refuse(error,
                     "{ep=%" G_GINT64_FORMAT "}: must divide the %" G_GINT64_FORMAT
                     " experts of a layer of model %s%s; give %s%s",
                     ep, model->experts, model->name, ranks, *nearest ? nearest : alone, whole);
}

/* --- ranks that share sequences --------------------------------------------------------------- */

/* What a rank has is whole: in a ring two chunks of each sequence, one from either end, so that a
 * causal mask leaves as many scores to each (Transformer Engine, context_parallel.py); else heads.
 * `dp`: data-parallel ranks, 0: not known. */
static bool
can_share(const struct mw_model *model, const struct mw_settings *s, int64_t dp, int64_t cp)
{
    int64_t heads = model->heads / s->tp, keys = model->kv_lora ? heads : model->kv_heads / s->tp;
    bool ring = s->cp_kind == MW_CONTEXT_RING;

    return (!dp || dp % cp == 0) && s->seq % (ring ? 2 * cp : cp) == 0 &&
           (ring || (heads % cp == 0 && keys >= cp && keys % cp == 0)) &&
           (s->sequence_parallel != 1 || s->seq / cp % s->tp == 0);
}

static char *
nearest_sharers(const struct mw_model *model, const struct mw_settings *s, int64_t dp)
{
    int64_t most = dp ? dp : s->seq, below = MIN(s->cp - 1, most), above = s->cp + 1;

    while (below > 1 && !can_share(model, s, dp, below))
        below--;
    while (above <= most && !can_share(model, s, dp, above))
        above++;
    return proposed(below, above, most, "1");
}

/* ", or {seq=22}": the longest sequences, no longer than these, that so many can share; "": there
 * are none. */
static char *
nearest_length(const struct mw_model *model, const struct mw_settings *s, int64_t dp)
{
    int64_t slices = s->sequence_parallel == 1 ? s->tp : 1;
    int64_t unit = s->cp * (s->cp_kind == MW_CONTEXT_RING ? 2 * slices : slices);
    struct mw_settings shorter = *s;

    shorter.seq = s->seq / unit * unit;
    return shorter.seq > 0 && can_share(model, &shorter, dp, s->cp)
               ? mw_spelled_printf(", or {seq=%" G_GINT64_FORMAT "}", shorter.seq)
               : g_strdup("");
}

/* What keeps sequences of the model whole, whatever their length; NULL: nothing. */
static const char *
keeps_sequences_whole(const struct mw_model *model, const struct mw_settings *s, int64_t dp,
                      bool flash)
{
    bool ring = s->cp_kind == MW_CONTEXT_RING;
    struct mw_settings other = *s;

    other.cp_kind = MW_CONTEXT_ALL_TO_ALL;
    bool heads = can_share(model, &other, dp, s->cp);

    if (!mw_model_can_share(model))
        return "how its layers relate tokens is not known here; give {cp=1}";
    if (ring && model->window && model->window < s->seq)
        return heads ? "a ring has no sliding windows; give {cp-kind=all-to-all}"
                     : "a ring has no sliding windows, and so many GPUs cannot share its heads "
                       "({cp-kind=all-to-all}); give {cp=1}";
    if (ring && !flash)
        return heads
                   ? "a ring goes with fused attention, which this software or GPU does not have; "
                     "give {cp-kind=all-to-all}"
                   : "a ring goes with fused attention, which this software or GPU does not have, "
                     "and so many GPUs cannot share its heads ({cp-kind=all-to-all}); give "
                     "{cp=1}";
    return NULL;
}

static bool
check_context(const struct mw_model *model, const struct mw_settings *s, int64_t dp, bool flash,
              GError **error)
{
    if (s->cp == 1)
        return true;
    const char *whole = keeps_sequences_whole(model, s, dp, flash);
    if (whole) {
        g_autofree char *why = mw_spelled(whole);
        return mw_refuse(error, "{cp=%" G_GINT64_FORMAT "}: model %s: %s", s->cp, model->name, why);
    }
    if (can_share(model, s, dp, s->cp))
        return true;
    g_autofree char *nearest = nearest_sharers(model, s, dp);
    g_autofree char *ranks =
        dp ? g_strdup_printf("the %" G_GINT64_FORMAT " data-parallel GPUs, ", dp) : g_strdup("");
    int64_t keys = (model->kv_lora ? model->heads : model->kv_heads) / s->tp;
    g_autofree char *heads =
        s->cp_kind == MW_CONTEXT_RING
            ? g_strdup("")
            : g_strdup_printf(", and the %" G_GINT64_FORMAT " heads and %" G_GINT64_FORMAT
                              " key and value heads of %smodel %s",
                              model->heads / s->tp, MAX(1, keys), s->tp > 1 ? "each slice of " : "",
                              model->name);
    g_autofree char *length = nearest_length(model, s, dp);
    struct mw_settings without = *s;
    without.sequence_parallel = 0;
    if (s->sequence_parallel == 1 && can_share(model, &without, dp, s->cp))
        return mw_refuse(error,
                         "{cp=%" G_GINT64_FORMAT "}: leaves each rank tokens of a sequence that "
                         "{tp=%" G_GINT64_FORMAT "} slices cannot share; give "
                         "{sequence-parallel=off}, or {cp} of %s",
                         s->cp, s->tp, nearest);
    return mw_refuse(error,
                     "{cp=%" G_GINT64_FORMAT "}: must divide %s%sthe %" G_GINT64_FORMAT
                     " tokens of a sequence%s; give %s%s",
                     s->cp, ranks,
                     s->cp_kind != MW_CONTEXT_RING ? ""
                     : dp                          ? "and twice it "
                                                   : "half of ",
                     s->seq, heads, nearest, length);
}

static int64_t
data_parallel(const struct mw_settings *s)
{
    return s->nodes * s->gpus_per_node / s->tp / s->pp;
}

static bool
check_asynchronous(const struct mw_settings *s, GError **error)
{
    return !mw_settings_asynchronous(s) || data_parallel(s) > 1 ||
           mw_refuse(error, "{data-parallel=async}: there is one data-parallel GPU, whose gradient "
                            "is the sum; leave it out");
}

/* A tensor-sliced replica trains on the micro-batches of all its GPUs. */
static bool
refuse_sequences(const struct mw_settings *settings, GError **error)
{
    g_autofree char *batch = mw_typed(settings->micro_batch);
    int64_t sharers = mw_settings_sharers(settings);
    g_autofree char *all = mw_typed(settings->micro_batch * (double)sharers);

    if (sharers == 1)
        return mw_refuse(error, "{batch=%s}: must be a whole number of sequences, 1 to 1000000",
                         batch);
    bool both = settings->tp > 1 && settings->cp > 1;
    g_autofree char *and_cp = both ? mw_spelled(" and {cp}") : g_strdup("");
    return mw_refuse(error,
                     "{batch=%s}: times {%s=%" G_GINT64_FORMAT
                     "}%s is %s sequences; must be a whole number, 1 to 1000000",
                     batch, settings->tp > 1 ? "tp" : "cp",
                     settings->tp > 1 ? settings->tp : settings->cp, and_cp, all);
}

static bool
check_batch(const struct mw_settings *settings, GError **error)
{
    double sequences = settings->micro_batch * (double)mw_settings_sharers(settings);

    if (sequences < 0.999 || sequences > 1e6 ||
        ABS(sequences - (double)(int64_t)(sequences + 0.5)) > 1e-6)
        return refuse_sequences(settings, error);
    return true;
}

static bool
check_slicing(const struct mw_model *model, int64_t tp, int64_t ranks, GError **error)
{
    if (model->heads % tp == 0 && model->hidden % tp == 0)
        return true;
    g_autofree char *nearest = nearest_slices(model, ranks, tp);
    return mw_refuse(error,
                     "{tp=%" G_GINT64_FORMAT
                     "}: must divide both the number of heads, %" G_GINT64_FORMAT
                     ", and the hidden size, %" G_GINT64_FORMAT ", of model %s; give %s",
                     tp, model->heads, model->hidden, model->name, nearest);
}

/* A stage that trains nothing has no update. */
static bool
refuse_trained(const struct mw_sizing *sizing, GError **error)
{
    const struct mw_settings *s = &sizing->settings;
    const char *whole = mw_settings_takes_turns(s) ? "{stage-replicas=even}" : "{pp=1}";
    g_autofree char *trained = mw_setting_trained_text(&s->trained);
    g_autofree char *stages = mw_settings_stages_text(s), *named = mw_spelled(stages);
    g_autofree char *other = mw_spelled(whole);
    const char *lacks = sizing->layers ? "has no such operators; give some that each stage has, "
                                         "such as qkv"
                                       : "has no layers; give {stage-split=even}";
    g_autofree char *why = mw_spelled(lacks);

    if (sizing->pp == 1)
        return mw_refuse(error,
                         "{train=%s}: model %s has no such operators; give others, or {train=all}",
                         trained, sizing->model->name);
    return mw_refuse(error,
                     "{train=%s}: of the stages of %s each trains something, and stage "
                     "%" G_GINT64_FORMAT " %s, or %s",
                     trained, named, (int64_t)sizing->stage + 1, why, other);
}

/* Limits the chunks, because each is examined whenever a placement or a batch is tried. */
#define CHUNKS_MAX 16384

bool
mw_sizing_check_chunks(const struct mw_sizing *sizing, GError **error)
{
    if (!sizing->trained_params && !sizing->settings.forward_only)
        return refuse_trained(sizing, error);
    int64_t chunk = sizing->settings.optimizer_chunk, least = sizing->shard_params / CHUNKS_MAX + 1;

    if (chunk >= least || sizing->shard_params <= CHUNKS_MAX)
        return true;
    return mw_refuse(error,
                     "{optimizer-chunk=%" G_GINT64_FORMAT "}: cuts %.3g parameters of a rank into "
                     "%.3g chunks; must be at least %" G_GINT64_FORMAT,
                     chunk, (double)sizing->shard_params, (double)sizing->shard_params / chunk,
                     least);
}

/* A delayed update that clips names all gradients at home in one op. */
bool
mw_sizing_check_uses(const struct mw_sizing *sizing, GError **error)
{
    const struct mw_settings *s = &sizing->settings;
    const struct mw_optimizer_row *row = mw_optimizer_row(s->optimizer);
    uint32_t uses = 0;

    if (!row->clips || s->dpu_start == MW_AUTO)
        return true;
    for (uint32_t t = 0; t < sizing->tensor_count; t++) {
        const struct mw_unit_tensor *tensor = mw_sizing_tensor(sizing, t);
        uses += tensor->params && tensor->trained;
    }
    if (uses <= MW_MAX_USES_PER_OP)
        return true;
    return mw_refuse(error,
                     "{dpu-start=%" G_GINT64_FORMAT "}: {optimizer=%s} clips each update, of %u "
                     "tensors here; a delayed one is planned for %d at most",
                     s->dpu_start, row->name, uses, MW_MAX_USES_PER_OP);
}

/* Adapters read what slices would gather first, and their gradients need all of it too. */
static bool
check_adapters(const struct mw_hardware *hardware, const struct mw_settings *s, GError **error)
{
    if (!s->trained.rank || s->tp == 1 || s->sequence_parallel != 1 || !hardware->tensor_parts)
        return true;
    return mw_refuse(error,
                     "{train}: adapters are not planned where tensor slices of this software "
                     "share tokens; give {sequence-parallel=off}");
}

static bool
check_shape(const struct mw_model *model, const struct mw_hardware *hardware,
            const struct mw_settings *settings, struct mw_model_walk *walk, GError **error)
{
    struct mw_shape shape = mw_sizing_shape(model, settings, hardware);

    return mw_sizing_walk(model, &shape, walk, error);
}

bool
mw_sizing_check_settings(const struct mw_model *model, const struct mw_settings *settings,
                         GError **error)
{
    struct mw_model_walk walk;

    return check_batch(settings, error) && check_slicing(model, settings->tp, 0, error) &&
           check_experts(model, settings, 0, error) &&
           check_context(model, settings, 0, true, error) &&
           check_shape(model, NULL, settings, &walk, error);
}

bool
mw_sizing_check(const struct mw_model *model, const struct mw_hardware *hardware,
                const struct mw_settings *settings, struct mw_model_walk *walk, GError **error)
{
    return check_ranks(model, settings, hardware, error) &&
           check_pipeline(model, settings, error) &&
           check_experts(model, settings, data_parallel(settings), error) &&
           check_context(model, settings, data_parallel(settings), hardware->gpu_flash_attention,
                         error) &&
           check_groups(settings, error) && check_asynchronous(settings, error) &&
           check_batch(settings, error) &&
           check_slicing(model, settings->tp, settings->nodes * settings->gpus_per_node, error) &&
           check_adapters(hardware, settings, error) &&
           check_shape(model, hardware, settings, walk, error);
}
