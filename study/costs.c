/* Traffic and wear of the drives per step, and the cost of a training. */
#include <math.h>
#include <string.h>

#include "study/set_result.h"
#include "study/steps.h"

#define HOURS_A_DAY 24
#define SECONDS_A_DAY 86400
#define DAYS_A_YEAR 365.25

void
mw_result_set_drives(const struct mw_plan *plan, const struct mw_hardware *hw, int64_t saved_bytes,
                     struct mw_result *r)
{
    int64_t written = saved_bytes * plan->world_ranks, read = 0;

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_work *work = &plan->works[plan->ops[o].work];
        if (work->kind != MW_OP_NVME_WRITE && work->kind != MW_OP_NVME_READ)
            continue;
        const struct mw_program *program = &plan->programs[plan->lanes[plan->ops[o].lane].program];
        int64_t bytes =
            work->bytes * mw_members_count(&program->ranks) * mw_plan_op_rounds(plan, o);
        *(work->kind == MW_OP_NVME_WRITE ? &written : &read) += bytes;
    }
    r->nvme_written_bytes = written / r->nodes;
    r->nvme_read_bytes = read / r->nodes;
    r->drive_life_steps = written > 0 && hw->nvme_endurance_bytes > 0
                              ? (double)hw->nvme_endurance_bytes / r->nvme_written_bytes
                              : NAN;
}

/* A run has at least one step. */
static double
run_steps(const struct mw_result *r)
{
    return fmax(1, r->tokens / r->tokens_per_step);
}

/* Who gives a key of a node, or "default". */
static const char *
given_by(const struct mw_profile *profile, const char *key)
{
    return mw_profile_gives(profile, "node", key)
               ? mw_provenance_name(mw_profile_provenance(profile, "node", key, NULL))
               : "default";
}

/* What electricity costs where nobody says; USD per kWh, with taxes.  Least: the state of the USA
 * with the lowest average of all customers, North Dakota in April 2024 (EIA, Electricity Monthly
 * Update of 2024-06-26).  Typical: households of the USA in 2023 (EIA, 2024-09-11).  Most:
 * households of the EU in the second half of 2024, 0.2872 EUR (Eurostat, 2025-05-06), a EUR at
 * 1.08 USD. */
static const struct mw_electricity any_electricity = {0.16, 0.078, 0.31, "default"};

struct mw_electricity
mw_electricity_of(const struct mw_question *question)
{
    double usd = question->hardware[MW_OUTLOOK_TYPICAL].electricity_usd_per_kwh;
    const char *from = given_by(question->profile, "electricity_usd_per_kwh");

    return strcmp(from, any_electricity.from) ? (struct mw_electricity){usd, usd, usd, from}
                                              : any_electricity;
}

/* Of all drives of a node: what the profile says of them, or a TB of such drives. */
static double
drives_price(const struct mw_question *question, const char **from)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    const struct mw_drive_price *of_kind = &question->drives[mw_drive_kind_of(hw)];

    *from = hw->nvme_price_usd > 0 ? "the profile" : of_kind->from;
    return hw->nvme_price_usd > 0      ? hw->nvme_price_usd
           : of_kind->usd_per_byte > 0 ? of_kind->usd_per_byte * (double)hw->nvme_capacity_bytes
                                       : NAN;
}

/* Drives are in the machine's price, of which a share is counted for the time; what a run wears out
 * beyond that share is counted on top.  Whole sets are bought. */
static void
set_wear(const struct mw_question *question, const struct mw_result *r,
         struct mw_result_owned *owned)
{
    if (!(r->drive_life_steps > 0))
        return;
    owned->drives_worn = run_steps(r) / r->drive_life_steps;
    owned->drives_price_usd = drives_price(question, &owned->drives_from) * (double)r->nodes;
    owned->drives_usd = owned->drives_price_usd * fmax(0, owned->drives_worn - owned->share);
    owned->replaced_usd = owned->drives_price_usd * (r->drive_sets - 1);
}

/* Cost of a machine that is owned: its price, spread evenly over the years in which it is written
 * off, as if it trained all that time; plus electricity, and drives that wear out sooner. */
static struct mw_result_owned
owned_cost(const struct mw_question *question, const struct mw_result *r)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    double nodes = (double)r->nodes;
    struct mw_result_owned owned = r->owned;

    owned.node_price_usd = hw->price_usd;
    owned.years = hw->amortisation_years;
    if (hw->price_usd <= 0) {
        set_wear(question, r, &owned);
        return owned;
    }
    owned.years_from = given_by(question->profile, "amortisation_years");
    owned.share = r->days / (DAYS_A_YEAR * hw->amortisation_years);
    owned.machine_usd = hw->price_usd * nodes * owned.share;
    owned.electricity = mw_electricity_of(question);
    owned.energy_usd = r->energy_kwh * owned.electricity.usd_per_kwh;
    set_wear(question, r, &owned);
    owned.pay_usd = hw->price_usd * nodes + (isfinite(owned.energy_usd) ? owned.energy_usd : 0) +
                    (isfinite(owned.replaced_usd) ? owned.replaced_usd : 0);
    return owned;
}

/* --- without an answer ------------------------------------------------------------------------ */

static double
energy_usd_per_day(const struct mw_question *question)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];

    return HOURS_A_DAY * hw->power_w / 1000 * mw_electricity_of(question).usd_per_kwh;
}

double
mw_usd_per_day(const struct mw_question *question, int64_t nodes)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];

    if (hw->price_usd_per_hour > 0)
        return HOURS_A_DAY * hw->price_usd_per_hour * (double)nodes;
    if (hw->price_usd <= 0)
        return NAN;
    return (hw->price_usd / (DAYS_A_YEAR * hw->amortisation_years) + energy_usd_per_day(question)) *
           (double)nodes;
}

double
mw_pay_usd(const struct mw_question *question, int64_t nodes, double days)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];

    if (hw->price_usd_per_hour > 0 || hw->price_usd <= 0)
        return days * mw_usd_per_day(question, nodes);
    return (hw->price_usd + days * energy_usd_per_day(question)) * (double)nodes;
}

/* Steps before --dpu-start have a step time of their own. */
static double
run_s(const struct mw_answer *answer)
{
    const struct mw_result *r = answer->result;
    double steps = run_steps(r);
    double step_s = r->step_time_s[MW_OUTLOOK_TYPICAL];

    if (!(r->undelayed_step_time_s > 0))
        return steps * step_s;
    double undelayed = fmin(steps, (double)answer->sizing->settings.dpu_start);
    return undelayed * r->undelayed_step_time_s + (steps - undelayed) * step_s;
}

void
mw_result_set_training(const struct mw_question *question, const struct mw_answer *answer)
{
    struct mw_result *r = answer->result;
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];

    if (question->settings.tokens <= 0)
        return;
    r->tokens = question->settings.tokens;
    r->days = run_s(answer) / SECONDS_A_DAY;
    r->drive_sets = ceil(run_steps(r) / r->drive_life_steps); /* NAN without a rating */
    r->energy_kwh = hw->power_w > 0 ? r->days * HOURS_A_DAY * hw->power_w * r->nodes / 1000 : NAN;
    r->owned = owned_cost(question, r);
    r->rented = hw->price_usd_per_hour > 0;
    r->cost_usd = r->rented ? r->days * HOURS_A_DAY * hw->price_usd_per_hour * r->nodes
                            : mw_result_owned_usd(&r->owned);
}

void
mw_result_set_costs(const struct mw_question *question, const struct mw_answer *answer)
{
    const struct mw_sizing *s = answer->sizing;

    mw_result_set_drives(answer->plan, &question->hardware[MW_OUTLOOK_TYPICAL],
                         s->save_steps ? s->buffers[MW_BUFFER_SAVES].bytes / s->save_steps : 0,
                         answer->result);
    mw_result_set_training(question, answer);
}
