#include "planner/stage_split.h"

#include <glib.h>
#include <math.h>

#include "planner/sizing/sizing.h"

/* --- dynamic programming --------------------------------------------------------------------- */

struct split {
    const struct mw_split_costs *costs;
    double *slowest_s; /* [layers + 1] of the stages so far, if they have so many layers */
    int64_t *from;     /* [stages][layers + 1] where the last of these begins */
};

/* What the stages until this one take; INFINITY: it may not have so many layers. */
static double
slowest_until(const struct split *it, int64_t stage, int64_t begin, int64_t end)
{
    const struct mw_split_costs *costs = it->costs;

    if (costs->most && end - begin > costs->most[stage])
        return INFINITY;
    return fmax(costs->own_s(costs->data, stage, begin, end), stage ? it->slowest_s[begin] : 0);
}

/* One stage more.  The longer the last stage, the slower it is and the faster the others may be, so
 * only lengths until the former is the slowest are worth a look. */
static void
add_stage(struct split *it, int64_t stage)
{
    const struct mw_split_costs *costs = it->costs;
    int64_t least = costs->least, layers = costs->layers;

    for (int64_t end = layers; end >= 0; end--) {
        double best_s = INFINITY;
        for (int64_t begin = end - least; begin >= stage * least; begin--) {
            double all_s = slowest_until(it, stage, begin, end);
            if (all_s < best_s) {
                best_s = all_s;
                it->from[stage * (layers + 1) + end] = begin;
            }
            if (costs->own_s(costs->data, stage, begin, end) >= best_s)
                break;
        }
        it->slowest_s[end] = best_s;
    }
}

double
mw_split_find(const struct mw_split_costs *costs, int64_t *begins)
{
    int64_t layers = costs->layers, stages = costs->stages;
    g_autofree double *slowest_s = g_new(double, layers + 1);
    g_autofree int64_t *from = g_new0(int64_t, stages * (layers + 1));
    struct split it = {costs, slowest_s, from};

    for (int64_t end = 0; end <= layers; end++)
        slowest_s[end] = end < costs->least ? INFINITY : slowest_until(&it, 0, 0, end);
    for (int64_t stage = 1; stage < stages; stage++)
        add_stage(&it, stage);
    for (int64_t stage = stages - 1, end = layers; stage > 0; stage--)
        end = begins[stage] = from[stage * (layers + 1) + end];
    return slowest_s[layers];
}

/* --- times ----------------------------------------------------------------------------------- */

double
mw_stage_operators_s(const struct mw_operator_info *operators, int count, bool again,
                     const struct mw_hardware *hardware)
{
    double flops = 0, bytes = 0;

    for (int i = 0; i < count; i++) {
        double times = again ? 2 : 1;
        flops += times * (double)operators[i].forward_flops + (double)operators[i].backward_flops;
        bytes += times * (double)operators[i].forward_bytes + (double)operators[i].backward_bytes;
    }
    return flops / hardware->gpu_achievable_flops + bytes / hardware->gpu_memory_bytes_per_s;
}

struct times {
    int64_t layers;
    double *until_s; /* [layers + 1] of the layers before */
    double head_s, tail_s;
};

static void
times_of(const struct mw_model *model, const struct mw_hardware *hardware,
         const struct mw_settings *settings, struct times *out)
{
    struct mw_operator_info operators[MW_LAYER_OPERATORS_MAX];
    struct mw_settings one = *settings;
    bool again = settings->checkpoint_interval != 0;

    one.micro_batch = one.micro_batch == MW_AUTO ? 1 : one.micro_batch;
    struct mw_shape shape = mw_sizing_shape(model, &one, hardware);
    *out = (struct times){.layers = model->layers, .until_s = g_new0(double, model->layers + 1)};
    for (int64_t l = 0; l < model->layers; l++)
        out->until_s[l + 1] =
            out->until_s[l] + mw_stage_operators_s(operators,
                                                   mw_model_layer(model, l, &shape, operators),
                                                   again, hardware);
    out->head_s =
        mw_stage_operators_s(operators, mw_model_head(model, &shape, operators), false, hardware);
    out->tail_s =
        mw_stage_operators_s(operators, mw_model_tail(model, &shape, operators), false, hardware);
}

static double
own_s(const void *data, int64_t stage, int64_t begin, int64_t end)
{
    const struct times *times = data;
    double layers_s = times->until_s[end] - times->until_s[begin];

    return layers_s + (stage == 0 ? times->head_s : 0) + (end == times->layers ? times->tail_s : 0);
}

/* --- stretches ------------------------------------------------------------------------------- */

/* What an end of the model takes, in layers of a stage. */
static int64_t
in_layers(double end_s, double stage_s, int64_t layers)
{
    return stage_s > 0 ? llround(end_s * (double)layers / stage_s) : 0;
}

/* Layers of a stage in its stretches: as many in each or one more as if the model's ends, which its
 * first and its last stretch have beside layers, were layers, too; each has one at least. */
static void
divide_stage(int64_t layers, int64_t head, int64_t tail, int64_t stretches, int64_t *of)
{
    int64_t all = layers + head + tail, last = stretches - 1, rest = layers, others = stretches;

    for (int64_t k = 0; k < stretches; k++)
        of[k] = 0;
    if (tail) {
        int64_t share = all - mw_settings_layers_before(all, stretches, last);
        of[last] = CLAMP(share - tail, 1, layers / stretches);
        rest -= of[last];
        others--;
    }
    if (head && others > 1) {
        int64_t share = mw_settings_layers_before(all, stretches, 1);
        of[0] = CLAMP(share - head, 1, rest / others);
        rest -= of[0];
        others--;
    }
    for (int64_t k = 0, turn = 0; k < stretches; k++)
        if (!of[k]) {
            of[k] = mw_settings_layers_before(rest, others, turn + 1) -
                    mw_settings_layers_before(rest, others, turn);
            turn++;
        }
}

/* With several stretches it is a stage's sum that others wait for: stages are those without
 * stretches, each with a layer for each stretch at least. */
static void
split_stretches(const struct times *times, const int64_t *stage_begins, int64_t stages,
                int64_t stretches, int64_t *begins)
{
    g_autofree int64_t *of = g_new(int64_t, stages * stretches);
    int64_t begin = 0;

    for (int64_t stage = 0; stage < stages; stage++) {
        int64_t from = stage ? stage_begins[stage] : 0;
        int64_t behind = stage + 1 < stages ? stage_begins[stage + 1] : times->layers;
        double stage_s = times->until_s[behind] - times->until_s[from];
        double head_s = stage ? 0 : times->head_s;
        double tail_s = stage + 1 < stages ? 0 : times->tail_s;
        divide_stage(behind - from, in_layers(head_s, stage_s, behind - from),
                     in_layers(tail_s, stage_s, behind - from), stretches, of + stage * stretches);
    }
    for (int64_t part = 0; part < stages * stretches; part++) {
        begins[part] = begin;
        begin += of[part % stages * stretches + part / stages];
    }
}

/* --- a model on a machine -------------------------------------------------------------------- */

/* Stages of no more layers than `most` says; NULL: any.  False: there is no such split. */
static bool
choose(const struct mw_model *model, const struct mw_hardware *hardware, const int64_t *most,
       struct mw_settings *settings)
{
    int64_t stretches = mw_settings_stretches(settings), parts = settings->pp * stretches;
    g_autofree int64_t *of_stages = g_new0(int64_t, settings->pp);
    g_autofree int64_t *begins = g_new0(int64_t, parts);
    struct times times;

    times_of(model, hardware, settings, &times);
    const struct mw_split_costs costs = {model->layers, settings->pp, stretches,
                                         most,          own_s,        &times};
    bool any = isfinite(mw_split_find(&costs, of_stages));
    if (any)
        split_stretches(&times, of_stages, settings->pp, stretches, begins);
    g_free(times.until_s);
    if (!any)
        return false;
    settings->stage_begins = (struct mw_layer_set){{0}};
    for (int64_t part = 1; part < parts; part++)
        mw_layer_set_add(&settings->stage_begins, begins[part]);
    settings->chose_stages = true;
    return true;
}

void
mw_stage_split_choose(const struct mw_model *model, const struct mw_hardware *hardware,
                      struct mw_settings *settings)
{
    int64_t parts = settings->pp * mw_settings_stretches(settings);

    if (mw_settings_balances_stages(settings) && settings->pp > 1 && parts <= model->layers &&
        model->layers <= MW_LAYER_SET_MAX) /* else it is said elsewhere */
        choose(model, hardware, NULL, settings);
}

static bool
lacks_room(const struct mw_sizing *stage)
{
    int64_t lack = 0;

    for (int t = 0; t < MW_TIER_COUNT; t++)
        lack = MAX(lack, mw_sizing_lack_of(stage, (enum mw_tier)t));
    return lack > 0;
}

/* A stage that has no room has none for more layers either, whatever the others have.  Of stages
 * that have no room each has a layer less from then on. */
bool
mw_stage_split_fit(const struct mw_model *model, const struct mw_hardware *hardware,
                   struct mw_settings *settings)
{
    struct mw_settings s = *settings;
    g_autofree int64_t *most = g_new(int64_t, s.pp);
    bool fits = false, any = s.chose_stages && !mw_settings_takes_turns(&s);

    for (int64_t stage = 0; stage < s.pp; stage++)
        most[stage] = model->layers;
    s.recompute_layers = s.recompute_layers < 0 ? MW_AUTO : s.recompute_layers;
    s.tiles = s.tiles == MW_AUTO ? 1 : s.tiles;
    while (any && !fits) {
        struct mw_sizing *first = mw_sizing_new(model, hardware, &s, NULL);
        any = first != NULL;
        fits = first && first->fits;
        for (const struct mw_sizing *stage = first; stage && !fits; stage = stage->next_stage)
            if (lacks_room(stage))
                most[stage->stage] = stage->layers - 1;
        mw_sizing_free(first);
        any = any && (fits || choose(model, hardware, most, &s));
    }
    if (fits)
        settings->stage_begins = s.stage_begins;
    return fits;
}
