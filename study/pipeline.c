#include "study/pipeline.h"

#include <math.h>

#include "hardware/ring.h"
#include "sim/cost.h"
#include "study/evaluate.h"

/* --- between stages --------------------------------------------------------------------------- */

/* Stages are of neighbouring ranks, in whole nodes or several in one.  The slowest way counts: it
 * leads to another node where there are several.  The closed form ignores latency. */
static double
hop_s(const struct mw_sizing *sizing, const struct mw_hardware *hw)
{
    bool parts = sizing->shape.sequence_parallel || mw_sizing_scatters_stages(sizing);
    double bytes = (double)sizing->element_bytes * (double)sizing->tokens *
                   (double)sizing->model->hidden / (double)(parts ? sizing->tp : 1);
    double of_stage = (double)(sizing->ranks / sizing->pp);
    double of_node = (double)sizing->ranks_per_node;
    struct mw_ring ring =
        mw_ring_of(hw, 2, sizing->ranks > sizing->ranks_per_node ? 1 : 2, fmin(of_stage, of_node));

    ring.fabric_latency_s = ring.nic_latency_s = ring.start_s = 0;
    return sizing->pp > 1 ? mw_ring_send_s(&ring, bytes) : 0;
}

/* All of what stages hand on, of the parts that the slices have got. */
static double
gather_s(const struct mw_sizing *sizing, const struct mw_hardware *hw)
{
    double bytes =
        (double)sizing->element_bytes * (double)sizing->tokens * (double)sizing->model->hidden;
    double tp = (double)sizing->tp, of_node = (double)sizing->tp_ranks_per_node;
    struct mw_ring ring = mw_ring_of(hw, tp, of_node, (double)sizing->ranks_per_node / of_node);

    ring.fabric_latency_s = ring.nic_latency_s = ring.start_s = 0;
    return mw_sizing_scatters_stages(sizing) ? mw_ring_s(&ring, bytes) : 0;
}

/* What a stage's ways take of its compute lane for each micro-batch: of its stretches each gets
 * activations and gradients and hands them on, but for the first and the last of all. */
static double
ways_s(const struct mw_sizing *sizing, const struct mw_hardware *hw)
{
    double end = sizing->stage == 0 || sizing->stage + 1 == sizing->pp ? 1 : 0;
    double gets = 2 * (double)sizing->stretches - end;

    return sizing->pp > 1
               ? 2 * gets * mw_cost_hop_share(hw) * hop_s(sizing, hw) + gets * gather_s(sizing, hw)
               : 0;
}

/* --- all stages ------------------------------------------------------------------------------- */

struct stages {
    double all_s, slowest_s; /* what they compute for a micro-batch */
    double passes_s;         /* of the stage whose passes take longest, all micro-batches */
};

static void
add_stages(struct stages *stages, double each_s, double passes_s, int64_t count)
{
    stages->all_s += (double)count * each_s;
    stages->slowest_s = fmax(stages->slowest_s, each_s);
    stages->passes_s = fmax(stages->passes_s, passes_s);
}

struct mw_pipeline_order
mw_pipeline_order_of(const struct mw_settings *settings, int64_t layers, int64_t micro_batches)
{
    return (struct mw_pipeline_order){
        .stages = settings->pp,
        .micro_batches = micro_batches,
        .first_share =
            (double)mw_settings_stretch_begin(settings, layers, settings->pp) / (double)layers,
        .one_by_one = settings->schedule == MW_SCHEDULE_1F1B,
    };
}

/* Every stage but the slowest passes one micro-batch while that one waits, of several stretches the
 * first, with which the step begins and ends.  With one forward, one backward as
 * many micro-batches are under way as there are stages, and each round of them waits for its ways;
 * otherwise only the first and the last do. */
static double
step_s(const struct stages *stages, double hop, struct mw_pipeline_order order)
{
    double pp = (double)order.stages, rounds = (double)order.micro_batches / pp;
    bool waits = order.one_by_one && rounds > 1;

    return stages->passes_s + (stages->all_s - stages->slowest_s) * order.first_share +
           2 * (pp - 1) * hop * (waits ? rounds : 1);
}

double
mw_pipeline_s(const struct mw_sizing *first, const struct mw_hardware *hw)
{
    double behind_s = 0;
    struct stages stages = {0};
    int64_t sized = 0;

    if (first->pp == 1)
        return mw_estimate_s(first, hw);
    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage)
        sized++;
    bool distinct = sized < first->pp;
    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage) {
        double micro_batches = (double)mw_sizing_micro_batches(stage);
        struct mw_step_parts parts;
        mw_step_parts_of(stage, hw, &parts);
        double compute_s = parts.compute_s + micro_batches * ways_s(stage, hw);
        add_stages(&stages, compute_s / micro_batches, fmax(parts.passes_s, compute_s),
                   distinct ? mw_sizing_stands_for(stage) : 1);
        behind_s = fmax(behind_s, parts.after_s + parts.update_s);
    }
    return step_s(&stages, hop_s(first, hw),
                  mw_pipeline_order_of(&first->settings, first->model->layers,
                                       first->settings.grad_accum)) +
           behind_s;
}

/* --- the floor -------------------------------------------------------------------------------- */

/* All micro-batches, with all hidden that can be. */
static double
own_s(const struct mw_closed_form *form, const struct mw_hardware *hw)
{
    double all_s =
        form->plan_s[MW_TERM_PRODUCTS] + form->plan_s[MW_TERM_MEMORY_BOUND] +
        form->plan_s[MW_TERM_SLICING] + form->plan_s[MW_TERM_EXCHANGE] +
        form->plan_s[MW_TERM_CONTEXT] -
        (1 - hw->gpu_collective_sm_share) * (form->slicing_beside_s + form->ring_beside_s);

    return fmax(0, all_s);
}

/* Of a micro-batch, with every kernel in time: that is a line in the layers that are recomputed. */
static double
compute_s(const struct mw_sizing *stage, const struct mw_hardware *hw)
{
    struct mw_closed_form form;

    mw_closed_form_of(stage, hw, &form);
    return own_s(&form, hw) / (double)mw_sizing_micro_batches(stage) + ways_s(stage, hw);
}

/* Of a micro-batch likewise, whose activations leave whole. */
static double
away_s(const struct mw_sizing *stage, const struct mw_hardware *hw)
{
    struct mw_closed_form form;

    mw_closed_form_of(stage, hw, &form);
    double nvme_s = form.plan_s[MW_TERM_CHECKPOINT_NVME];
    double each_way_s = fmax(form.plan_s[MW_TERM_CHECKPOINT_PCIE], nvme_s) / 2;
    return fmax(nvme_s, mw_passes_beside_leaving_s(own_s(&form, hw), 0, each_way_s)) /
           (double)mw_sizing_micro_batches(stage);
}

/* `away`: the tier to which whole activations leave. */
static struct mw_sizing *
size_floor(const struct mw_request *request, const struct mw_settings *settings, int64_t interval,
           enum mw_tier away, GError **error)
{
    struct mw_settings asked = *settings, resolved;

    asked.strategy = mw_strategies_of(MW_STRATEGY_AUTO).one[0]; /* which partitions nothing */
    asked.shard_group = MW_SHARD_ALL;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        asked.placement[state] =
            (struct mw_placement){.count = 1, .part = {{MW_TIER_GPU, INT64_MAX, 0}}};
    asked.placement[MW_STATE_ACTIVATIONS].part[0].tier = away;
    asked.whole_checkpoints = away != MW_TIER_GPU;
    asked.checkpoint_interval = interval;
    asked.recompute_layers = MW_AUTO;
    asked.checkpoint_partition = 0;
    return mw_settings_complete(request, &asked, &resolved, error)
               ? mw_sizing_new_distinct(request->model, request->hardware, &resolved, error)
               : NULL;
}

/* What the machine or the software lacks is not known, and is no faster than nothing. */
static void
set_away(const struct mw_request *request, const struct mw_hardware *in_time,
         const struct mw_settings *settings, struct mw_pipeline_floor *out)
{
    for (int tier = MW_TIER_GPU + 1; tier < MW_TIER_COUNT; tier++) {
        struct mw_sizing *first = size_floor(request, settings, 1, (enum mw_tier)tier, NULL);
        const struct mw_sizing *stage = first;
        for (int i = 0; stage && i < out->count; i++, stage = stage->next_stage)
            out->of[i].away_s[tier] = away_s(stage, in_time);
        mw_sizing_free(first);
    }
}

bool
mw_pipeline_floor_of(const struct mw_model *model, const struct mw_hardware *hardware,
                     const struct mw_settings *settings, bool leave, struct mw_pipeline_floor *out,
                     GError **error)
{
    const struct mw_request request = {model, hardware};
    struct mw_hardware in_time = *hardware;
    struct mw_sizing *kept = size_floor(&request, settings, 0, MW_TIER_GPU, error);
    struct mw_sizing *again = kept ? size_floor(&request, settings, 1, MW_TIER_GPU, error) : NULL;
    const struct mw_sizing *k = kept, *a = again;

    in_time.host_launch_s = 0;
    *out = (struct mw_pipeline_floor){.hop_s = again ? hop_s(again, hardware) : 0};
    for (; a && k && out->count < MW_PIPELINE_KINDS; a = a->next_stage, k = k->next_stage)
        out->of[out->count++] = (struct mw_pipeline_compute){.kept_s = compute_s(k, &in_time),
                                                             .recomputed_s = compute_s(a, &in_time),
                                                             .layers = a->layers,
                                                             .stages = mw_sizing_stands_for(a)};
    bool good = again && !a;
    if (good && leave && mw_settings_stretches(settings) == 1)
        set_away(&request, &in_time, settings, out);
    mw_sizing_free(kept);
    mw_sizing_free(again);
    return good;
}

double
mw_pipeline_floor_s(const struct mw_pipeline_floor *floor, struct mw_pipeline_order order,
                    int64_t recomputed, enum mw_tier away, const struct mw_pipeline_beside *beside)
{
    double micro_batches = (double)order.micro_batches, behind_s = 0;
    struct stages stages = {0};

    for (int i = 0; i < floor->count; i++) {
        const struct mw_pipeline_compute *of = &floor->of[i];
        const struct mw_pipeline_beside with = beside ? beside[i] : (struct mw_pipeline_beside){0};
        double share = (double)MIN(recomputed, of->layers) / (double)of->layers;
        double each_s =
            of->kept_s + share * (of->recomputed_s - of->kept_s) + with.compute_s / micro_batches;
        double lanes_s = fmax(with.lanes_s, micro_batches * of->away_s[away]);
        add_stages(&stages, each_s, fmax(micro_batches * each_s, lanes_s), of->stages);
        behind_s = fmax(behind_s, with.behind_s);
    }
    return step_s(&stages, floor->hop_s, order) + behind_s;
}
