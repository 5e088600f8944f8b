#include "report/run.h"

#include <math.h>
#include <string.h>

#include "base/format.h"
#include "report/report.h"
#include "study/lanes.h"

/* Scales values that grow or fall with the speed. */
static void
scale_rates(struct mw_result *r, struct mw_pair step)
{
    double factor = step.predicted_s / step.measured_s;
    double tflops = r->tflops_per_gpu[1] * factor, efficiency = r->efficiency[1] * factor;

    r->mfu *= factor;
    r->tokens_per_s *= factor;
    r->days /= factor;
    r->energy_kwh /= factor;
    r->owned = mw_result_owned_at(&r->owned, 1 / factor, r->owned.electricity.usd_per_kwh);
    r->cost_usd = r->rented ? r->cost_usd / factor : mw_result_owned_usd(&r->owned);
    for (int o = 0; o < 3; o++) {
        r->tflops_per_gpu[o] = tflops;
        r->efficiency[o] = efficiency;
        r->step_time_s[o] = step.measured_s;
    }
}

static void
find_bottleneck(struct mw_result *r)
{
    const struct mw_result_lane *busiest = NULL;

    for (size_t i = 0; i < r->lane_count; i++)
        if (!busiest || r->lanes[i].busy_s > busiest->busy_s)
            busiest = &r->lanes[i];
    r->bottleneck = busiest ? g_strdup_printf("%s lane", busiest->name) : NULL;
    r->bottleneck_share = busiest ? busiest->busy_s / r->step_time_s[1] : NAN;
}

/* Medians, as everywhere else, instead of one step's times. */
static void
set_lanes(struct mw_result *r, const struct mw_compare *compare)
{
    for (uint32_t i = 0; i < compare->lane_count; i++) {
        const struct mw_compare_lane *lane = &compare->lanes[i];
        r->lanes[lane->lane].busy_s = lane->busy.measured_s;
        r->lanes[lane->lane].exposed_s = lane->exposed.measured_s;
    }
}

static void
set_facts(struct mw_result *r, const struct mw_run_facts *facts)
{
    for (int t = 0; t < MW_TIER_COUNT; t++)
        r->tiers[t].peak_bytes = facts->peak_bytes[t];
    r->nvme_read_bytes = facts->nvme_read_bytes / MAX(facts->steps, 1);
    r->nvme_written_bytes = facts->nvme_written_bytes / MAX(facts->steps, 1);
}

/* Clears fields that a measurement does not give. */
static void
forget(struct mw_result *r)
{
    r->lanes = NULL;
    r->channels = NULL;
    r->phases = NULL;
    r->terms = NULL;
    r->what_ifs = NULL;
    r->needs = NULL;
    r->lane_count = r->channel_count = r->phase_count = 0;
    r->term_count = r->what_if_count = r->need_count = 0;
    r->critical_path_s = r->collective_latency_s = NAN;
    r->change = r->paid_change = (struct mw_result_change){0};
    r->smaller_batch = r->undelayed_step_time_s = NAN;
}

struct mw_result *
mw_run_result(const struct mw_run *run)
{
    struct mw_result *r = g_memdup2(run->predicted, sizeof *r);

    forget(r);
    scale_rates(r, run->compare->step);
    r->first_step_time_s = run->compare->first_step.measured_s;
    r->timeline = &mw_measured_typical(run->measured)->timeline;
    mw_summary_lanes(r->plan, r->timeline, r);
    set_lanes(r, run->compare);
    find_bottleneck(r);
    if (run->facts)
        set_facts(r, run->facts);
    return r;
}

char *
mw_run_faster_text(const struct mw_run *run)
{
    const struct mw_result *r = run->predicted;
    double mfu = r->mfu * run->compare->step.predicted_s / run->compare->step.measured_s;

    if (!r->calibrated || !(mfu > 1))
        return NULL;
    return g_strdup_printf(
        "MFU %s: the machine was slower while it was calibrated than in this run, "
        "so the profile's rates are too low; `memwall calibrate` measures it anew",
        mw_format_percent(mfu));
}

void
mw_run_result_free(struct mw_result *result)
{
    if (!result)
        return;
    for (size_t i = 0; i < result->lane_count; i++)
        g_free(result->lanes[i].name);
    for (size_t i = 0; i < result->phase_count; i++)
        g_free(result->phases[i].name);
    g_free(result->lanes);
    g_free(result->phases);
    g_free(result->bottleneck);
    g_free(result);
}
