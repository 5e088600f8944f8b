/* Refuses settings that contradict the strategy which is named beside them. */
#include "planner/check_strategy.h"

#include <glib.h>

#include "base/error.h"
#include "base/spell.h"
#include "plan/optimizers.h"

/* --- contradictions -------------------------------------------------------------------------- */

enum contradiction {
    UPDATES_ELSEWHERE,
    OTHER_ORDER,
    ON_DRIVES, /* states below the deepest tier of the row */
    ON_GPU,    /* states above the nearest */
    CONTRADICTIONS
};

static bool
leaves_gpu(const struct mw_placement *placement)
{
    for (int i = 0; i < placement->count; i++)
        if (placement->part[i].tier != MW_TIER_GPU)
            return true;
    return false;
}

static bool
stays_on_gpu(const struct mw_placement *placement)
{
    return placement->count && !leaves_gpu(placement);
}

/* A strategy that keeps a state on the GPU may be told to keep it anywhere: its plan is then that
 * of another one, by a name that says less. */
bool
mw_settings_is_below_strategy(const struct mw_settings *s, enum mw_state state)
{
    enum mw_tier deepest = mw_strategy_traits(s->strategy)->state[state].deepest;

    return deepest > MW_TIER_GPU && deepest < MW_TIER_NVME &&
           mw_placement_has(&s->placement[state], MW_TIER_NVME);
}

/* Activation checkpoints may be anywhere, and gradients follow the optimizer state: no strategy is
 * named for where these are not. */
static bool
is_above(const struct mw_settings *s, enum mw_state state)
{
    const struct mw_state_traits *row = &mw_strategy_traits(s->strategy)->state[state];

    return row->nearest > MW_TIER_GPU && stays_on_gpu(&s->placement[state]) &&
           state != MW_STATE_GRADIENTS && state != MW_STATE_ACTIVATIONS;
}

/* The first state of which that is true; MW_STATE_ACTIVATIONS: none. */
static enum mw_state
first_state(const struct mw_settings *s, bool (*is)(const struct mw_settings *, enum mw_state))
{
    enum mw_state state = MW_STATE_PARAMETERS;

    while (state < MW_STATE_ACTIVATIONS && !is(s, state))
        state++;
    return state;
}

static bool
updates_parts(const struct mw_strategy_traits *row)
{
    return row->fills_gpu >> MW_STATE_OPTIMIZER & 1 && !row->updates_on_gpu;
}

/* An optimizer that takes whole matrices updates on the GPU with every strategy. */
static bool
updates_elsewhere(const struct mw_settings *s)
{
    const struct mw_strategy_traits *row = mw_strategy_traits(s->strategy);
    bool on_host = row->state[MW_STATE_OPTIMIZER].nearest > MW_TIER_GPU && !row->updates_on_gpu;

    if (s->update_on == 0)
        return row->updates_on_gpu;
    return (on_host || updates_parts(row)) && !mw_optimizer_orthogonalizes(s->optimizer);
}

static bool
contradicts(const struct mw_settings *s, enum contradiction what)
{
    switch (what) {
    case UPDATES_ELSEWHERE:
        return updates_elsewhere(s);
    case OTHER_ORDER:
        return mw_strategy_traits(s->strategy)->layer_order && s->layer_order == 0;
    case ON_DRIVES:
        return first_state(s, mw_settings_is_below_strategy) < MW_STATE_ACTIVATIONS;
    case ON_GPU:
        return first_state(s, is_above) < MW_STATE_ACTIVATIONS;
    default:
        return false;
    }
}

/* --- the strategy that is meant -------------------------------------------------------------- */

static bool
offloads_params(const struct mw_strategy_traits *strategy)
{
    return strategy->state[MW_STATE_PARAMETERS].offloadable;
}

static bool
offloads_optimizer(const struct mw_strategy_traits *strategy)
{
    return strategy->state[MW_STATE_OPTIMIZER].offloadable;
}

/* Whether the strategy can have these settings at all. */
static bool
can_have(const struct mw_settings *s)
{
    const struct mw_strategy_traits *row = mw_strategy_traits(s->strategy);
    bool off = leaves_gpu(&s->placement[MW_STATE_OPTIMIZER]) ||
               leaves_gpu(&s->placement[MW_STATE_GRADIENTS]);

    return (row->delays_update || s->dpu_start == MW_AUTO) && (offloads_optimizer(row) || !off) &&
           (offloads_params(row) || !leaves_gpu(&s->placement[MW_STATE_PARAMETERS]));
}

/* Whether what contradicted another strategy is what this one is named for. */
static bool
is_named_for(const struct mw_settings *s, enum contradiction what, enum mw_state state)
{
    const struct mw_strategy_traits *row = mw_strategy_traits(s->strategy);

    switch (what) {
    case UPDATES_ELSEWHERE:
        return row->updates_on_gpu == (s->update_on == 1);
    case OTHER_ORDER:
        return !row->layer_order;
    case ON_DRIVES:
        return row->state[state].deepest == MW_TIER_NVME;
    case ON_GPU:
        return row->state[state].nearest == MW_TIER_GPU;
    default:
        return false;
    }
}

static bool
does_all(const struct mw_settings *s)
{
    bool does = can_have(s);

    for (int what = 0; does && what < CONTRADICTIONS; what++)
        does = !contradicts(s, (enum contradiction)what);
    return does;
}

/* In how many traits of use two strategies differ; what a step does counts twice, since a state's
 * place is said by an option of its own. */
static int
difference(const struct mw_strategy_traits *one, const struct mw_strategy_traits *other)
{
    int differ = 2 * (one->updates_on_gpu != other->updates_on_gpu) +
                 2 * (one->layer_order != other->layer_order) +
                 2 * (one->whole_checkpoints != other->whole_checkpoints) +
                 2 * (one->fills_gpu != other->fills_gpu);

    for (int state = 0; state < MW_STATE_COUNT; state++)
        differ += (one->state[state].partitioned != other->state[state].partitioned) +
                  (one->state[state].nearest != other->state[state].nearest) +
                  (one->state[state].deepest != other->state[state].deepest);
    return differ;
}

/* Of the strategies that do all that is asked the one most like the named one, of those that are
 * alike one that an open choice tries; NULL: none does. */
static const char *
meant(const struct mw_settings *s, enum contradiction what, enum mw_state state)
{
    const struct mw_strategies all = mw_strategies_all();
    const struct mw_strategy_traits *named = mw_strategy_traits(s->strategy);
    const char *name = NULL;
    int least = G_MAXINT;

    for (int i = 0; i < all.count; i++) {
        const struct mw_strategy_traits *row = mw_strategy_traits(all.one[i]);
        struct mw_settings other = *s;
        int far = 2 * difference(named, row) + row->by_name;
        other.strategy = all.one[i];
        if (far >= least || !is_named_for(&other, what, state) || !does_all(&other))
            continue;
        least = far;
        name = row->name;
    }
    return name;
}

/* --- refusals -------------------------------------------------------------------------------- */

static const struct {
    const char *option, *what;
} states[MW_STATE_COUNT] = {
    [MW_STATE_PARAMETERS] = {"param-device", "parameters"},
    [MW_STATE_GRADIENTS] = {"gradient-device", "gradients"},
    [MW_STATE_OPTIMIZER] = {"optimizer-device", "optimizer state"},
    [MW_STATE_ACTIVATIONS] = {"activation-device", "activation checkpoints"},
};

/* Refuses the option, or the key of a file, which would suit the file's own strategy. */
static bool
refuse_device(const struct mw_settings *s, enum mw_state state, const char *option,
              const char *keeps, const char *instead, GError **error)
{
    const char *name = mw_strategy_name(s->strategy);
    g_autofree char *where = mw_placement_text(&s->placement[state]);

    if (!s->device_key[state]) {
        g_autofree char *spelled = mw_spelled(option);
        g_autofree char *use = mw_spelled(instead);
        return mw_refuse(error, "%s: %s keeps %s; use %s", spelled, name, keeps, use);
    }
    return mw_refuse(
        error, "%s: key \"%s\", on %s: {strategy=%s} keeps %s; leave {strategy} out, or the key",
        s->device_file, s->device_key[state], where, name, keeps);
}

static bool
refuse_update(const struct mw_settings *s, const char *instead, GError **error)
{
    const struct mw_strategy_traits *row = mw_strategy_traits(s->strategy);
    const char *updates = row->updates_on_gpu  ? "updates on the GPU"
                          : updates_parts(row) ? "updates each part of the state where it is"
                                               : "updates on the host";
    const char *asked = s->update_on == 1 ? "gpu" : "host";

    return mw_refuse(
        error, "{update-on=%s}: %s %s; {strategy=%s} does so on the %s, or leave {update-on} out",
        asked, row->name, updates, instead, s->update_on == 1 ? "GPU" : "host");
}

static bool
refuse_order(const struct mw_settings *s, const char *instead, GError **error)
{
    return mw_refuse(error,
                     "{micro-batch-order=depth}: with %s all micro-batches pass a layer before the "
                     "next; {strategy=%s} takes one after the other, or leave {micro-batch-order} "
                     "out",
                     mw_strategy_name(s->strategy), instead);
}

static bool
refuse_place(const struct mw_settings *s, enum contradiction what, enum mw_state state,
             const char *instead, GError **error)
{
    g_autofree char *where = mw_placement_text(&s->placement[state]);
    g_autofree char *option = g_strdup_printf("{%s=%s}", states[state].option, where);
    g_autofree char *keeps = what == ON_DRIVES
                                 ? g_strdup("nothing on drives")
                                 : g_strdup_printf("%s off the GPU", states[state].what);
    g_autofree char *other =
        instead ? g_strdup_printf("{strategy=%s}, or ", instead) : g_strdup("");
    g_autofree char *use = g_strdup_printf("%s{%s=cpu}", other, states[state].option);

    return refuse_device(s, state, option, keeps, use, error);
}

static bool
refuse_contradiction(const struct mw_settings *s, enum contradiction what, GError **error)
{
    enum mw_state state =
        first_state(s, what == ON_DRIVES ? mw_settings_is_below_strategy : is_above);
    const char *instead = meant(s, what, state);

    if (!instead && what != ON_GPU) /* no other strategy does all that is asked together */
        return true;
    if (what == UPDATES_ELSEWHERE)
        return refuse_update(s, instead, error);
    if (what == OTHER_ORDER)
        return refuse_order(s, instead, error);
    return refuse_place(s, what, state, instead, error);
}

/* Strategies that keep states on the GPU and have no way to place them elsewhere. */
static bool
check_devices(const struct mw_settings *s, GError **error)
{
    const struct mw_strategy_traits *strategy = mw_strategy_traits(s->strategy);
    bool optimizer = leaves_gpu(&s->placement[MW_STATE_OPTIMIZER]);

    if (!offloads_params(strategy) && leaves_gpu(&s->placement[MW_STATE_PARAMETERS])) {
        g_autofree char *names = mw_strategies_text(offloads_params);
        g_autofree char *instead = g_strdup_printf("%s to place them elsewhere", names);
        return refuse_device(s, MW_STATE_PARAMETERS, "{param-device}", "parameters on the GPU",
                             instead, error);
    }
    if (!offloads_optimizer(strategy) &&
        (optimizer || leaves_gpu(&s->placement[MW_STATE_GRADIENTS]))) {
        g_autofree char *instead = mw_strategies_text(offloads_optimizer);
        return refuse_device(s, optimizer ? MW_STATE_OPTIMIZER : MW_STATE_GRADIENTS,
                             "{optimizer-device}, {gradient-device}",
                             "optimizer state and gradients on the GPU", instead, error);
    }
    return true;
}

bool
mw_settings_check_strategy(const struct mw_settings *s, GError **error)
{
    if (!check_devices(s, error))
        return false;
    for (int what = 0; what < CONTRADICTIONS; what++)
        if (contradicts(s, (enum contradiction)what) &&
            !refuse_contradiction(s, (enum contradiction)what, error))
            return false;
    return true;
}
