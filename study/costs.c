/* Traffic and wear of the drives per step, and the cost of a training. */
#include <math.h>

#include "study/set_result.h"

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
        const struct mw_program *program = &plan->programs[plan->lanes[plan->ops[o].lane].program];
        int64_t bytes =
            work->bytes * mw_members_count(&program->ranks) * mw_plan_op_rounds(plan, o);
        written += work->kind == MW_OP_NVME_WRITE ? bytes : 0;
        read += work->kind == MW_OP_NVME_READ ? bytes : 0;
    }
    r->nvme_written_bytes = written / r->nodes;
    r->nvme_read_bytes = read / r->nodes;
    r->drive_life_steps = written > 0 && hw->nvme_endurance_bytes > 0
                              ? (double)hw->nvme_endurance_bytes / r->nvme_written_bytes
                              : NAN;
}

/* Cost of a machine that is owned: its price, spread evenly over the years in which it is written
 * off, as if it trained all that time; plus electricity and replaced drives, if their prices are
 * known. */
static struct mw_result_owned
owned_cost(const struct mw_question *question, const struct mw_result *r)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_result_owned owned = {hw->price_usd, hw->amortisation_years, NULL, NAN, NAN, NAN};

    if (r->drive_sets > 0 && hw->nvme_price_usd > 0)
        owned.drives_usd = (r->drive_sets - 1) * hw->nvme_price_usd * r->nodes;
    if (hw->price_usd <= 0)
        return owned;
    owned.years_from = mw_profile_gives(question->profile, "node", "amortisation_years")
                           ? mw_provenance_name(mw_profile_provenance(question->profile, "node",
                                                                      "amortisation_years", NULL))
                           : "default";
    owned.machine_usd = hw->price_usd * r->nodes * r->days / (DAYS_A_YEAR * hw->amortisation_years);
    if (hw->electricity_usd_per_kwh > 0)
        owned.energy_usd = r->energy_kwh * hw->electricity_usd_per_kwh;
    return owned;
}

/* Without drives that wear out. */
double
mw_usd_per_day(const struct mw_hardware *hw, int64_t nodes)
{
    double energy = hw->power_w > 0 && hw->electricity_usd_per_kwh > 0
                        ? HOURS_A_DAY * hw->power_w / 1000 * hw->electricity_usd_per_kwh
                        : 0;

    if (hw->price_usd_per_hour > 0)
        return HOURS_A_DAY * hw->price_usd_per_hour * (double)nodes;
    if (hw->price_usd <= 0)
        return NAN;
    return (hw->price_usd / (DAYS_A_YEAR * hw->amortisation_years) + energy) * (double)nodes;
}

/* A run has at least one step. */
static double
run_steps(const struct mw_result *r)
{
    return fmax(1, r->tokens / r->tokens_per_step);
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
