#include "study/improvements.h"

#include <math.h>
#include <string.h>

#include "base/spell.h"
#include "hardware/priced.h"
#include "planner/settings/table.h"
#include "planner/stage_split.h"
#include "study/choose.h"
#include "study/evaluate.h"
#include "study/lanes.h"
#include "study/pipeline.h"
#include "study/steps.h"

/* A smaller gain is not worth a line, or not worth the money of a purchase. */
#define WORTH_A_LINE 1.01
/* The speed must grow by at least this fraction of the growth in price. */
#define SHARE_OF_PRICE 0.5
/* Number of steps before the delayed update begins in ZeRO-Offload's own runs (Sec. 5.2). */
#define DELAY_STEPS 40
/* Factor on the depth of prefetch. */
#define PREFETCH_DEEP 8
/* Number of doublings of the micro-batches that are estimated. */
#define ACCUMULATIONS 12
/* Number of machines that are estimated. */
#define MACHINES 8

struct list {
    const struct mw_question *question;
    const struct mw_answer *answer;
    const struct mw_settings *now; /* of the plan, complete */
    double rate;                   /* of the plan, estimated */
    GPtrArray *changes;
};

/* --- estimates ------------------------------------------------------------------------------- */

/* The estimated gain if compute waited half as long for these lanes. */
static double
gain_of_lanes(const struct list *list, const char *const lanes[2])
{
    const struct mw_result *result = list->answer->result;
    double step_s = result->step_time_s[MW_OUTLOOK_TYPICAL], exposed_s = 0;

    for (int k = 0; k < 2 && lanes[k]; k++)
        for (size_t l = 0; l < result->lane_count; l++)
            if (g_str_has_prefix(result->lanes[l].name, lanes[k]))
                exposed_s += result->lanes[l].exposed_s;
    return step_s / fmax(step_s - exposed_s / 2, step_s / 2);
}

/* The estimated gain if compute waited half as long in forward and backward. */
static double
gain_of_passes(const struct list *list)
{
    const struct mw_result *result = list->answer->result;
    double step_s = result->step_time_s[MW_OUTLOOK_TYPICAL], idle_s = 0;

    for (size_t p = 0; p < result->phase_count; p++)
        if (strcmp(result->phases[p].name, "optimizer"))
            idle_s = result->phases[p].end_s;
    for (size_t l = 0; l < result->lane_count; l++)
        if (mw_lane_computes(result->lanes[l].name))
            idle_s -= result->lanes[l].busy_s;
    return step_s / (step_s - fmax(0, idle_s) / 2);
}

static bool
recomputes_some(const struct mw_settings *s)
{
    return s->recompute_layers > 0 || !mw_layer_set_is_empty(&s->recompute_set);
}

/* An open batch stays as it was chosen, unless the change makes room for a larger one. */
static double
estimated_gain(const struct list *list, const struct mw_question *question, bool allow_growth)
{
    struct mw_settings asked = question->settings;

    asked.strategy = list->now->strategy;
    if (asked.checkpoint_interval == MW_AUTO) {
        asked.checkpoint_interval = list->now->checkpoint_interval;
        if (asked.recompute_layers == MW_AUTO && recomputes_some(list->now))
            asked.recompute_layers = MW_RECOMPUTE_FEWEST;
    }
    if (asked.micro_batch == MW_AUTO && !allow_growth) {
        asked.micro_batch = list->now->micro_batch;
        if (asked.grad_accum == MW_AUTO)
            asked.grad_accum = list->now->grad_accum;
    }
    return mw_estimated_rate(question, &asked) / list->rate;
}

/* Tokens per second; of all strategies if none was named. */
static double
rate_there(const struct mw_question *question)
{
    const struct mw_strategies strategies = mw_strategies_of(question->strategies[0]);
    struct mw_settings asked = question->settings;
    double best = 0;

    for (int i = 0; i < strategies.count; i++) {
        asked.strategy = strategies.one[i];
        best = fmax(best, mw_estimated_rate(question, &asked));
    }
    return best;
}

static double
gain_there(const struct list *list, const struct mw_question *question)
{
    return rate_there(question) / list->rate;
}

/* --- the list -------------------------------------------------------------------------------- */

static void
free_change(void *data)
{
    struct mw_improvement *change = data;

    g_free(change->what);
    g_free(change->flags);
    mw_profile_free(change->profile);
    g_free(change);
}

bool
mw_improvement_is_worth(const struct mw_improvement *change, double gain)
{
    if (change->kind == MW_IMPROVEMENT_SETTING)
        return gain > WORTH_A_LINE;
    if (change->times_dearer < 1)
        return gain * WORTH_A_LINE >= 1;
    return gain > MW_WORTH_MONEY && gain - 1 >= SHARE_OF_PRICE * (change->times_dearer - 1);
}

double
mw_improvement_per_dollar(const struct mw_improvement *change, double gain)
{
    return gain / change->times_dearer;
}

/* Adds a change if it is worth a line, and returns whether it is.  Takes ownership of the texts and
 * the profile; `gain` may be known to exceed the estimate. */
static bool
add(struct list *list, enum mw_improvement_kind kind, struct mw_question question,
    struct mw_profile *profile, double times_dearer, char *what, char *flags, double gain)
{
    struct mw_improvement *change = g_new(struct mw_improvement, 1);

    enum mw_price_kind price = mw_price_kind(&list->question->hardware[MW_OUTLOOK_TYPICAL]);
    *change = (struct mw_improvement){
        what,
        flags,
        question,
        profile,
        kind,
        gain,
        times_dearer,
        kind == MW_IMPROVEMENT_MACHINE ||
            (kind == MW_IMPROVEMENT_NODES && (price != MW_PRICE_NONE || times_dearer < 1))};
    bool worth = mw_improvement_is_worth(change, gain);
    if (worth)
        g_ptr_array_add(list->changes, change);
    else
        free_change(change);
    return worth;
}

static void
add_setting(struct list *list, struct mw_settings settings, char *what, char *flags, double gain)
{
    struct mw_question question = *list->question;
    bool allow_growth = settings.micro_batch == MW_AUTO && gain == 0;

    question.settings = settings;
    add(list, MW_IMPROVEMENT_SETTING, question, NULL, 1, what, flags,
        fmax(gain, estimated_gain(list, &question, allow_growth)));
}

/* A larger step is another training: this factor is proposed only up to the model's default
 * batch. */
static bool
is_over_default(const struct list *list, double times)
{
    const struct mw_sizing *sizing = list->answer->sizing;

    return mw_exceeds_step_tokens(
        times * mw_tokens_per_step(sizing),
        mw_default_step_tokens(&list->question->model, &sizing->settings));
}

/* --- batch ----------------------------------------------------------------------------------- */

static void
add_batch(struct list *list, double batch)
{
    struct mw_settings s = list->question->settings;

    if (batch <= 0 || batch == list->now->micro_batch)
        return;
    s.micro_batch = batch;
    add_setting(list, s, g_strdup_printf("batch %.15g", batch),
                mw_spelled_printf("{batch=%.15g}", batch), 0);
}

/* The largest batch may need many tiles; the largest one with the fewest tiles may be faster. */
static void
add_untiled_batch(struct list *list)
{
    struct mw_request planned = {&list->question->model,
                                 &list->question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings s = *list->now;

    s.logits_chunks = list->question->settings.logits_chunks; /* as many as that batch then needs */
    if (list->question->settings.tiles != MW_AUTO)
        return;
    for (s.tiles = 1; s.tiles < list->now->tiles; s.tiles *= 2) {
        double batch = mw_planner_largest_batch(&planned, &s);
        add_batch(list, batch);
        if (batch > 0)
            return;
    }
}

static void
add_smaller_batches(struct list *list)
{
    double batch = list->now->micro_batch, sharers = (double)mw_settings_sharers(list->now);

    add_batch(list, floor(batch * sharers / 2) / sharers);
    add_untiled_batch(list);
}

static void
add_larger_batches(struct list *list)
{
    struct mw_settings s = list->question->settings;

    if (s.micro_batch == MW_AUTO)
        return;
    if (!is_over_default(list, 2))
        add_batch(list, 2 * list->now->micro_batch);
    s.micro_batch = MW_AUTO; /* not the largest that fits: it keeps the default global batch */
    add_setting(list, s, g_strdup("the batch left open"), mw_spelled("{batch=auto}"), 0);
}

/* --- settings -------------------------------------------------------------------------------- */

/* Where nothing is fetched, the change is that something is, by another strategy. */
static void
add_prefetch(struct list *list, int64_t depth, double gain)
{
    bool fetched = list->answer->sizing->params_partitioned;
    struct mw_settings s = list->question->settings;

    mw_settings_set_prefetch(&s, MIN(depth, (int64_t)mw_setting_find("prefetch")->max));
    if (s.prefetch <= list->now->prefetch)
        return;
    add_setting(list, s,
                fetched ? g_strdup_printf("prefetch of %" G_GINT64_FORMAT " part%s", s.prefetch,
                                          s.prefetch == 1 ? "" : "s")
                        : g_strdup_printf("parameters that are fetched, %" G_GINT64_FORMAT
                                          " parts ahead",
                                          s.prefetch),
                mw_spelled_printf("{prefetch=%" G_GINT64_FORMAT "}", s.prefetch), gain);
}

/* One unit deeper, which takes little memory, and much deeper, where the depth was asked for: an
 * open one was searched. */
static void
add_fetching(struct list *list)
{
    struct mw_settings s = list->question->settings;
    double gain = gain_of_passes(list);

    if (!list->answer->sizing->params_partitioned)
        return;
    if (s.prefetch != MW_AUTO) {
        add_prefetch(list, list->now->prefetch + 1, gain);
        add_prefetch(list, PREFETCH_DEEP * MAX(1, list->now->prefetch), gain);
    }
    if (list->now->param_loads == 3 && list->now->checkpoint_interval) {
        s.param_loads = 2;
        add_setting(list, s, g_strdup("one parameter load for recompute and backward"),
                    mw_spelled("{param-loads=2}"), gain);
    }
}

/* With the present batch, or with an open batch that leaves room for fp32 sums. */
static double
gain_of_accumulation(const struct list *list, int64_t times)
{
    struct mw_question question = *list->question;

    question.settings.grad_accum = times * list->now->grad_accum;
    question.settings.micro_batch = list->now->micro_batch;
    double gain = gain_there(list, &question);
    question.settings.micro_batch = list->question->settings.micro_batch;
    return question.settings.micro_batch == MW_AUTO ? fmax(gain, gain_there(list, &question))
                                                    : gain;
}

static void
add_times_accumulation(struct list *list, int64_t times, double gain)
{
    struct mw_settings s = list->question->settings;

    s.grad_accum = times * list->now->grad_accum;
    add_setting(list, s,
                times == 2 ? g_strdup("twice the micro-batches per step")
                           : g_strdup_printf(
                                 "%" G_GINT64_FORMAT " times the micro-batches per step", times),
                mw_spelled_printf("{grad-accum=%" G_GINT64_FORMAT "}", s.grad_accum), gain);
}

/* More micro-batches share one optimizer step, and the global batch grows with them.  A larger step
 * is another training, so the smallest power of two that comes close to the best is taken. */
static void
add_accumulation(struct list *list)
{
    double gains[ACCUMULATIONS], best = 0;
    int64_t times = 2;
    int count = 0, chosen = 0;

    if (list->question->settings.global_batch != MW_AUTO)
        return;
    for (; count < ACCUMULATIONS && !is_over_default(list, times); times *= 2) {
        gains[count] = gain_of_accumulation(list, times);
        best = fmax(best, gains[count++]);
    }
    while (chosen < count && gains[chosen] * WORTH_A_LINE < best)
        chosen++;
    if (count)
        add_times_accumulation(list, INT64_C(2) << chosen, gains[chosen]);
}

/* Software that has groups takes them or leaves them. */
static void
add_groups(struct list *list)
{
    const struct mw_sizing *sizing = list->answer->sizing;
    struct mw_settings s = list->question->settings;

    if (sizing->replicas > 1) {
        s.shard_group = MW_SHARD_ALL;
        add_setting(list, s, g_strdup("states partitioned over all GPUs"),
                    mw_spelled("{shard-group=all}"), 0);
    } else if (sizing->optimizer_partitioned && sizing->hardware->offers.hybrid_shard &&
               sizing->dp_ranks_per_node > 1 && sizing->dp_ranks_per_node < sizing->dp) {
        s.shard_group = MW_SHARD_NODE;
        add_setting(list, s, g_strdup("states partitioned over the GPUs of each node"),
                    mw_spelled("{shard-group=node}"), gain_of_passes(list));
    }
}

/* Where the strategy leaves checkpoints on the GPU, but its software can move them to make room for
 * a larger micro-batch. */
static void
add_checkpoints_in_host_memory(struct list *list)
{
    const struct mw_sizing *sizing = list->answer->sizing;
    struct mw_settings s = list->question->settings;
    struct mw_placement *placement = &s.placement[MW_STATE_ACTIVATIONS];

    if (placement->count || !sizing->checkpoint_count ||
        !sizing->hardware->offers.host_activations ||
        mw_strategy_traits(list->now->strategy)->state[MW_STATE_ACTIVATIONS].deepest > MW_TIER_GPU)
        return;
    *placement = (struct mw_placement){.count = 1, .part = {{MW_TIER_CPU, INT64_MAX, 0}}};
    add_setting(list, s, g_strdup("activation checkpoints in host memory"),
                mw_spelled("{activation-device=cpu}"), 0);
}

/* The gain of stages that the planner balances, with the present batch: an estimate is of the first
 * stage alone, and what they gain is in others. */
static double
gain_of_balance(const struct list *list, const struct mw_settings *balanced)
{
    const struct mw_hardware *hw = &list->question->hardware[MW_OUTLOOK_TYPICAL];
    const struct mw_model *model = &list->question->model;
    struct mw_settings s = *list->now;
    double gain = 0;

    s.stage_begins = balanced->stage_begins;
    mw_stage_split_choose(model, hw, &s);
    mw_stage_split_fit(model, hw, &s);
    struct mw_sizing *sizing = mw_sizing_new(model, hw, &s, NULL);
    if (sizing && sizing->fits)
        gain = mw_pipeline_s(list->answer->sizing, hw) / mw_pipeline_s(sizing, hw);
    mw_sizing_free(sizing);
    return gain;
}

static void
add_schedule(struct list *list)
{
    struct mw_settings s = list->question->settings;

    /* if it was open, this has been tried already */
    if (s.checkpoint_interval > 0) {
        s.checkpoint_interval = 0;
        add_setting(list, s, g_strdup("no recompute"),
                    mw_spelled("{activation-checkpoint-interval=0}"), 0);
        s = list->question->settings;
    }
    if (mw_strategy_traits(list->now->strategy)->delays_update && list->now->dpu_start == MW_AUTO) {
        s.dpu_start = DELAY_STEPS;
        add_setting(list, s,
                    g_strdup_printf("delayed parameter update (from step %d on each update is of "
                                    "the gradients of the step before)",
                                    DELAY_STEPS),
                    mw_spelled_printf("{dpu-start=%d}", DELAY_STEPS), 0);
        s = list->question->settings;
    }
    if (s.pp > 1 && mw_layer_set_is_empty(&s.stage_begins)) {
        mw_layer_set_add(&s.stage_begins, MW_STAGES_BALANCED);
        add_setting(list, s, g_strdup("stages of unlike numbers of layers"),
                    mw_spelled("{stage-split=balanced}"),
                    mw_settings_takes_turns(&s) ? 0 : gain_of_balance(list, &s));
        s = list->question->settings;
    }
    if (!s.overlap) {
        s.overlap = true;
        add_setting(list, s, g_strdup("transfers beside compute"), mw_spelled("{overlap=on}"), 0);
        s = list->question->settings;
    }
    if (s.partition == MW_PARTITION_OWNER) {
        s.partition = MW_PARTITION_BANDWIDTH;
        add_setting(list, s, g_strdup("bandwidth-centric partitioning"),
                    mw_spelled("{partition=bandwidth}"), 0);
    }
}

/* Moves states to faster memory than was requested. */
static void
add_devices(struct list *list)
{
    static const char *const options[MW_STATE_COUNT] = {"param", "gradient", "optimizer",
                                                        "activation"};
    static const char *const names[MW_STATE_COUNT] = {"parameters", "gradients", "optimizer state",
                                                      "activation checkpoints"};

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        struct mw_settings s = list->question->settings;
        struct mw_placement *placement = &s.placement[state];
        if (!placement->count)
            continue;
        int farthest = placement->part[placement->count - 1].tier;
        for (int tier = MW_TIER_GPU; tier < farthest; tier++) {
            *placement = (struct mw_placement){.count = 1, .part = {{tier, INT64_MAX, 0}}};
            g_autofree char *flag =
                mw_spelled_printf("{%s-device=%s}", options[state], mw_tier_name(tier));
            add_setting(list, s, g_strdup_printf("%s on %s", names[state], mw_tier_name(tier)),
                        g_steal_pointer(&flag), 0);
        }
    }
}

/* --- hardware -------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    enum mw_hw_part part;
    const char *lanes[2];
    bool takes_memory;
} upgrades[] = {
    {"2x host memory", MW_HW_PART_HOST_MEMORY, {NULL}, true},
    {"one more drive", MW_HW_PART_DRIVES, {"nvme"}, false},
};

/* Keeps the chosen batch, worded as options would request it. */
static void
keep_batch(const struct list *list, struct mw_settings *s, GString *flags)
{
    bool filled = s->grad_accum == MW_AUTO && s->global_batch == MW_AUTO;

    s->micro_batch = list->now->micro_batch;
    mw_spelled_append(flags, "{batch=%.15g}", s->micro_batch);
    if (!filled || list->now->grad_accum == 1)
        return;
    s->grad_accum = list->now->grad_accum;
    mw_spelled_append(flags, " {grad-accum=%" G_GINT64_FORMAT "}", s->grad_accum);
}

/* More memory makes room for a larger batch, or speeds up the present one. */
static void
add_upgrade(struct list *list, size_t index, bool same_batch)
{
    struct mw_question question = *list->question;
    g_autoptr(GString) flags = g_string_new(NULL);
    double gain = upgrades[index].lanes[0] ? gain_of_lanes(list, upgrades[index].lanes) : 0;

    if (same_batch)
        keep_batch(list, &question.settings, flags);
    struct mw_profile *profile = mw_step_part(list->question, upgrades[index].part, flags);
    if (!profile)
        return;
    question.hardware[MW_OUTLOOK_TYPICAL] = mw_machine_read(
        profile, list->question->software, list->question->uses, list->question->outlook);
    add(list, MW_IMPROVEMENT_PART, question, profile, 1, g_strdup(upgrades[index].what),
        g_strdup(flags->str),
        fmax(gain, estimated_gain(list, &question, upgrades[index].takes_memory)));
}

static void
add_upgrades(struct list *list)
{
    bool open = list->question->settings.micro_batch == MW_AUTO;

    if (mw_price_kind(&list->question->hardware[MW_OUTLOOK_TYPICAL]) == MW_PRICE_RENT)
        return; /* a rented machine cannot be upgraded */
    for (size_t u = 0; u < G_N_ELEMENTS(upgrades); u++) {
        add_upgrade(list, u, false);
        if (open && upgrades[u].takes_memory)
            add_upgrade(list, u, true);
    }
}

/* Twice as many nodes. */
static void
add_nodes(struct list *list)
{
    const struct mw_hardware *hw = &list->question->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_question question = *list->question;
    struct mw_settings *s = &question.settings;
    bool open = s->micro_batch == MW_AUTO;
    int64_t accum = s->grad_accum == MW_AUTO ? list->now->grad_accum : 1;
    double sharers = (double)mw_settings_sharers(list->now);
    double sequences = open ? fmax(1, list->now->micro_batch * sharers * (double)accum) : 1;

    if (hw->nic_bytes_per_s <= 0 ||
        (s->global_batch == MW_AUTO && is_over_default(list, 2 / sequences)))
        return;
    int64_t more = list->now->nodes;
    s->nodes = list->now->nodes + more;
    enum mw_price_kind kind = mw_price_kind(hw);
    g_autofree char *price = mw_price_text(list->now->nodes * mw_price_usd(hw, kind), kind);
    add(list, MW_IMPROVEMENT_NODES, question, NULL, 2,
        kind == MW_PRICE_NONE
            ? g_strdup_printf("%" G_GINT64_FORMAT " more node%s (%" G_GINT64_FORMAT " in all)",
                              more, more == 1 ? "" : "s", s->nodes)
            : g_strdup_printf("%" G_GINT64_FORMAT " more node%s (%" G_GINT64_FORMAT
                              " in all, %s more)",
                              more, more == 1 ? "" : "s", s->nodes, price),
        mw_spelled_printf("{nodes=%" G_GINT64_FORMAT "}", s->nodes),
        estimated_gain(list, &question, open));
}

/* Half as many nodes, a quarter and so on, while the estimate reaches the present rate.  The
 * estimate ignores latency, which makes small steps slower on more nodes. */
static void
add_fewer_nodes(struct list *list)
{
    const struct mw_hardware *hw = &list->question->hardware[MW_OUTLOOK_TYPICAL];
    enum mw_price_kind kind = mw_price_kind(hw);
    double usd = mw_price_usd(hw, kind);

    for (int64_t nodes = list->now->nodes / 2; nodes >= 1; nodes /= 2) {
        struct mw_question question = *list->question;
        question.settings.nodes = nodes;
        double gain = rate_there(&question) / list->answer->result->tokens_per_s;
        double share = (double)nodes / (double)list->now->nodes;
        g_autofree char *price = mw_price_text((double)(list->now->nodes - nodes) * usd, kind);
        g_autofree char *less =
            kind == MW_PRICE_NONE ? g_strdup("") : g_strdup_printf(" (%s less)", price);
        if (!add(list, MW_IMPROVEMENT_NODES, question, NULL, share,
                 g_strdup_printf("%" G_GINT64_FORMAT " node%s%s", nodes, nodes == 1 ? "" : "s",
                                 less),
                 mw_spelled_printf("{nodes=%" G_GINT64_FORMAT "}", nodes), gain))
            return;
    }
}

static void
add_machine(struct list *list, const struct mw_priced *priced)
{
    enum mw_price_kind kind = mw_price_kind(&priced->hardware);
    const char *name = mw_profile_name(priced->profile);
    struct mw_question question = *list->question;
    double nodes = list->now->nodes;
    double now_usd = mw_price_usd(&list->question->hardware[MW_OUTLOOK_TYPICAL], kind);

    question.hardware[MW_OUTLOOK_TYPICAL] = mw_machine_read(
        priced->profile, list->question->software, list->question->uses, list->question->outlook);
    g_autofree char *price = mw_price_text(nodes * priced->price_usd, kind);
    g_autofree char *present = mw_price_text(nodes * now_usd, kind);
    add(list, MW_IMPROVEMENT_MACHINE, question, mw_profile_copy(priced->profile),
        priced->price_usd / now_usd,
        g_strdup_printf("another machine for %s (now %s)", price, present),
        mw_spelled_printf("{hardware=%s}", name), gain_there(list, &question));
}

static double
matrix_flops(const struct mw_hardware *hardware)
{
    return hardware->gpus_per_node * hardware->gpu_achievable_flops;
}

static int
compare_worth(const void *a, const void *b)
{
    const struct mw_priced *x = *(void *const *)a, *y = *(void *const *)b;
    double p = matrix_flops(&x->hardware) / x->price_usd;
    double q = matrix_flops(&y->hardware) / y->price_usd;

    return (p < q) - (p > q);
}

/* --- the lists -------------------------------------------------------------------------------- */

static int
compare_gains(const void *a, const void *b)
{
    const struct mw_improvement *x = *(void *const *)a, *y = *(void *const *)b;

    double p = mw_improvement_per_dollar(x, x->gain), q = mw_improvement_per_dollar(y, y->gain);

    return (p < q) - (p > q);
}

static struct list
list_new(const struct mw_question *question, const struct mw_answer *answer)
{
    const struct mw_sizing *sizing = answer->sizing;

    return (struct list){question, answer, &sizing->settings,
                         mw_tokens_per_step(sizing) / mw_estimate_s(sizing, sizing->hardware),
                         g_ptr_array_new_with_free_func(free_change)};
}

/* The GPUs of the nodes that are not used cost nothing more. */
static void
add_idle_gpus(struct list *list)
{
    const struct mw_hardware *hw = &list->question->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_settings s = list->question->settings;
    int64_t times = hw->gpus_per_node / MAX(1, list->now->gpus_per_node);

    if (s.gpus_per_node == MW_AUTO || times < 2 ||
        (s.global_batch == MW_AUTO && s.micro_batch != MW_AUTO && is_over_default(list, 2)))
        return;
    s.gpus_per_node = times * list->now->gpus_per_node;
    add_setting(
        list, s,
        g_strdup_printf("%" G_GINT64_FORMAT " GPUs per node, which are there", s.gpus_per_node),
        mw_spelled_printf("{gpus=%" G_GINT64_FORMAT "}", s.gpus_per_node), 0);
}

GPtrArray *
mw_best_settings(const struct mw_question *question, const struct mw_answer *answer)
{
    struct list list = list_new(question, answer);

    add_smaller_batches(&list);
    add_larger_batches(&list);
    add_idle_gpus(&list);
    add_fetching(&list);
    add_accumulation(&list);
    add_groups(&list);
    add_schedule(&list);
    add_checkpoints_in_host_memory(&list);
    add_devices(&list);
    g_ptr_array_sort(list.changes, compare_gains);
    return list.changes;
}

GPtrArray *
mw_best_smaller_batches(const struct mw_question *question, const struct mw_answer *answer)
{
    struct list list = list_new(question, answer);

    add_smaller_batches(&list);
    g_ptr_array_sort(list.changes, compare_gains);
    return list.changes;
}

/* Other machines of a known price, rented or bought as this one is.  Estimates the few with the
 * best matrix rate per dollar. */
static void
add_machines(struct list *list)
{
    const struct mw_question *question = list->question;
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    enum mw_price_kind kind = mw_price_kind(hw);
    double now_flops = list->answer->result->tflops_per_gpu[MW_OUTLOOK_TYPICAL] * 1e12 *
                       (double)list->now->gpus_per_node;
    int estimated = 0;

    if (kind == MW_PRICE_NONE || question->modified)
        return;
    g_autoptr(GPtrArray) machines =
        mw_priced_new(kind, mw_profile_name(question->profile), question->outlook);
    g_ptr_array_sort(machines, compare_worth);
    for (guint i = 0; i < machines->len && estimated < MACHINES; i++) {
        const struct mw_priced *priced = machines->pdata[i];
        struct mw_improvement there = {.kind = MW_IMPROVEMENT_MACHINE,
                                       .times_dearer = priced->price_usd / mw_price_usd(hw, kind)};
        if (!mw_improvement_is_worth(&there, matrix_flops(&priced->hardware) / now_flops))
            continue; /* no step is faster than the matrix rate */
        add_machine(list, priced);
        estimated++;
    }
}

GPtrArray *
mw_best_purchases(const struct mw_question *question, const struct mw_answer *answer)
{
    struct list list = list_new(question, answer);

    add_upgrades(&list);
    add_nodes(&list);
    add_fewer_nodes(&list);
    add_machines(&list);
    g_ptr_array_sort(list.changes, compare_gains);
    return list.changes;
}
