#include "planner/stage_split.h"

#include <glib.h>
#include <math.h>

#include "planner/sizing/sizing.h"

/* --- dynamic programming --------------------------------------------------------------------- */

struct split {
    int64_t layers;
    double *until_s; /* [layers + 1] of the layers before, with the model's beginning */
    double tail_s;
    double *slowest_s; /* [layers + 1] of the stages so far, if they have so many layers */
    int64_t *from;     /* [stages][layers + 1] where the last of these begins */
};

/* One stage more.  The longer the last stage, the slower it is and the faster the others may be, so
 * only lengths until the former is the slowest are worth a look. */
static void
add_stage(struct split *it, int64_t stage, bool last)
{
    for (int64_t end = it->layers; end > stage; end--) {
        double best_s = INFINITY;
        for (int64_t begin = end - 1; begin >= stage; begin--) {
            double own_s = it->until_s[end] - it->until_s[begin] + (last ? it->tail_s : 0);
            double slowest_s = fmax(own_s, it->slowest_s[begin]);
            if (slowest_s < best_s) {
                best_s = slowest_s;
                it->from[stage * (it->layers + 1) + end] = begin;
            }
            if (own_s >= best_s)
                break;
        }
        it->slowest_s[end] = best_s;
    }
}

double
mw_stage_split_find(const double *layer_s, int64_t layers, double head_s, double tail_s,
                    int64_t stages, int64_t *begins)
{
    g_autofree double *until_s = g_new(double, layers + 1);
    g_autofree double *slowest_s = g_new(double, layers + 1);
    g_autofree int64_t *from = g_new0(int64_t, stages * (layers + 1));
    struct split it = {layers, until_s, tail_s, slowest_s, from};

    until_s[0] = 0;
    for (int64_t i = 0; i < layers; i++)
        until_s[i + 1] = until_s[i] + layer_s[i];
    for (int64_t end = 0; end <= layers; end++)
        slowest_s[end] = head_s + until_s[end] + (stages == 1 ? tail_s : 0);
    for (int64_t stage = 1; stage < stages; stage++)
        add_stage(&it, stage, stage + 1 == stages);
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

/* Layers of a stretch of a stage that has so many: as many in each or one more, fewer where the
 * model begins and where it ends. */
static int64_t
layers_of_stretch(int64_t of_stage, int64_t stretches, int64_t stretch, bool last_stage)
{
    int64_t turn = last_stage ? stretches - 1 - stretch : stretch;

    return (turn + 1) * of_stage / stretches - turn * of_stage / stretches;
}

/* With several stretches it is a stage's sum that others wait for: each stage gets as many layers
 * as without stretches, in stretches of its own, as if layers were alike.  False: a stage has fewer
 * layers than stretches. */
static bool
split_stretches(const int64_t *stage_begins, int64_t layers, int64_t stages, int64_t stretches,
                int64_t *begins)
{
    int64_t begin = 0;

    for (int64_t part = 0; part < stages * stretches; part++) {
        int64_t stage = part % stages,
                behind = stage + 1 < stages ? stage_begins[stage + 1] : layers;
        int64_t of_stage = behind - stage_begins[stage];
        if (of_stage < stretches)
            return false;
        begins[part] = begin;
        begin += layers_of_stretch(of_stage, stretches, part / stages, stage + 1 == stages);
    }
    return true;
}

void
mw_stage_split_choose(const struct mw_model *model, const struct mw_hardware *hardware,
                      struct mw_settings *settings)
{
    struct mw_operator_info operators[MW_LAYER_OPERATORS_MAX];
    struct mw_settings one = *settings;

    if (!mw_settings_balances_stages(settings))
        return;
    int64_t parts = settings->pp * mw_settings_stretches(settings);
    if (settings->pp == 1 || parts > model->layers || model->layers > MW_LAYER_SET_MAX)
        return; /* which is said elsewhere */
    settings->stage_begins = (struct mw_layer_set){{0}};
    one.micro_batch = one.micro_batch == MW_AUTO ? 1 : one.micro_batch;
    struct mw_shape shape = mw_sizing_shape(model, &one, hardware);
    g_autofree double *layer_s = g_new(double, model->layers);
    g_autofree int64_t *begins = g_new0(int64_t, parts);
    for (int64_t l = 0; l < model->layers; l++)
        layer_s[l] = mw_stage_operators_s(operators, mw_model_layer(model, l, &shape, operators),
                                          settings->checkpoint_interval != 0, hardware);
    double head_s =
        mw_stage_operators_s(operators, mw_model_head(model, &shape, operators), false, hardware);
    double tail_s =
        mw_stage_operators_s(operators, mw_model_tail(model, &shape, operators), false, hardware);
    mw_stage_split_find(layer_s, model->layers, head_s, tail_s, settings->pp, begins);
    g_autofree int64_t *of_stages = g_memdup2(begins, (gsize)settings->pp * sizeof *begins);
    if (parts > settings->pp &&
        !split_stretches(of_stages, model->layers, settings->pp, parts / settings->pp, begins))
        mw_stage_split_find(layer_s, model->layers, head_s, tail_s, parts, begins);
    for (int64_t part = 1; part < parts; part++)
        mw_layer_set_add(&settings->stage_begins, begins[part]);
}
