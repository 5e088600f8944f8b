/* What limits a step: MODEL.md, 8.7. */
#include <math.h>
#include <string.h>

#include "sim/cost.h"
#include "study/set_result.h"

struct bound {
    const char *name, *what; /* "nic", "channel" */
    double share;            /* share of the step */
    bool collectives;        /* it is what collectives wait for */
};

/* The busier of the compute and host lanes. */
static struct bound
busiest_lane(const struct mw_plan *plan, const struct mw_engine_result *engine)
{
    struct bound best = {0};

    for (uint32_t l = 0; l < plan->lane_count; l++) {
        int kind = plan->lanes[l].kind;
        double share = (double)engine->lane_busy_ns[l] / engine->step_ns;
        if ((kind == MW_LANE_COMPUTE || kind == MW_LANE_HOST) && share > best.share)
            best = (struct bound){mw_lane_kind_name(kind), "lane", share, false};
    }
    return best;
}

static struct bound
busiest_channel(const struct mw_plan *plan, const struct mw_engine_result *engine)
{
    struct bound best = {0};

    for (uint32_t c = 0; c < plan->channel_count; c++) {
        int kind = plan->channels[c].kind;
        double share = engine->channel_busy_ns[c] / engine->step_ns;
        if (kind != MW_CHANNEL_SM && kind != MW_CHANNEL_CORES && share >= best.share)
            best = (struct bound){mw_channel_kind_name(kind), "channel", share,
                                  kind == MW_CHANNEL_FABRIC || kind == MW_CHANNEL_NIC};
    }
    return best;
}

static struct bound
busiest_collectives(const struct mw_plan *plan, const struct mw_engine_result *engine)
{
    struct bound best = {.name = mw_lane_kind_name(MW_LANE_COLLECTIVE), .what = "lane"};

    for (uint32_t l = 0; l < plan->lane_count; l++)
        if (plan->lanes[l].kind == MW_LANE_COLLECTIVE)
            best.share = fmax(best.share, (double)engine->lane_busy_ns[l] / engine->step_ns);
    return best;
}

/* Per step, of the lane of collectives with the most latency. */
static double
collective_latency_s(const struct mw_plan *plan, const struct mw_hardware *hw)
{
    g_autofree double *of_lane = g_new0(double, plan->lane_count + 1);
    g_autofree double *of_work = g_new(double, plan->work_count + 1);
    double most = 0;

    for (uint32_t w = 0; w < plan->work_count; w++)
        of_work[w] = mw_cost_collective_latency_s(plan, &plan->works[w], hw);
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        of_lane[op->lane] += (double)mw_plan_op_rounds(plan, o) * of_work[op->work];
        most = fmax(most, of_lane[op->lane]);
    }
    return most;
}

/* The busiest of all.  A shared channel explains more than a lane that waits for it, and so does
 * latency: the lane of collectives is named only if neither of them is busier. */
void
mw_result_set_bottleneck(const struct mw_plan *plan, const struct mw_hardware *hw,
                         const struct mw_engine_result *engine, struct mw_result *r)
{
    struct bound best = busiest_lane(plan, engine), channel = busiest_channel(plan, engine);
    struct bound collectives = busiest_collectives(plan, engine);

    r->collective_latency_s = collective_latency_s(plan, hw);
    struct bound latency = {"collective", "latency",
                            r->collective_latency_s * 1e9 / engine->step_ns, true};
    if (best.name && !strcmp(best.name, mw_lane_kind_name(MW_LANE_COMPUTE)) &&
        mw_cost_lateness(plan, hw) > 1)
        best = (struct bound){"host's", "kernel launches", best.share, false};
    if (channel.share >= best.share)
        best = channel;
    if (latency.share > best.share)
        best = latency;
    if (!best.collectives && collectives.share > best.share)
        best = collectives;
    g_free(r->bottleneck);
    r->bottleneck = best.name ? g_strdup_printf("%s %s", best.name, best.what) : NULL;
    r->bottleneck_share = best.share;
}
