#include <math.h>

#include "report/json_result.h"
#include "base/schemas.h"
#include "report/run.h"
#include "study/lanes.h"

static void
write_times(struct mw_json_writer *json, struct mw_pair pair)
{
    mw_json_number(json, "predicted_s", pair.predicted_s);
    mw_json_number(json, "measured_s", pair.measured_s);
    mw_json_number(json, "error", mw_pair_error(pair));
}

static void
write_pair(struct mw_json_writer *json, const char *key, struct mw_pair pair)
{
    mw_json_begin(json, key, '{', true);
    write_times(json, pair);
    mw_json_end(json, '}');
}

static void
write_ranks(struct mw_json_writer *json, const char *key, const double *values, uint32_t count)
{
    mw_json_begin(json, key, '[', true);
    for (uint32_t i = 0; i < count; i++)
        mw_json_number(json, NULL, values[i]);
    mw_json_end(json, ']');
}

static void
write_lanes(struct mw_json_writer *json, const struct mw_compare *c)
{
    mw_json_begin(json, "lanes", '[', false);
    for (uint32_t i = 0; i < c->lane_count; i++) {
        g_autofree char *title = mw_lane_title(&c->plan->lanes[c->lanes[i].lane]);
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "name", title);
        mw_json_integer(json, "ops", c->lanes[i].ops);
        write_pair(json, "busy", c->lanes[i].busy);
        write_pair(json, "exposed", c->lanes[i].exposed);
        write_ranks(json, "busy_by_rank_s", c->lanes[i].busy_s, c->ranks);
        write_ranks(json, "exposed_by_rank_s", c->lanes[i].exposed_s, c->ranks);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_phases(struct mw_json_writer *json, const struct mw_compare *c)
{
    mw_json_begin(json, "phases", '[', false);
    for (uint32_t i = 0; i < c->phase_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "name", c->phases[i].name);
        write_times(json, c->phases[i].takes);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_operators(struct mw_json_writer *json, const struct mw_compare *c)
{
    mw_json_begin(json, "operators", '[', false);
    for (uint32_t i = 0; i < c->operator_count; i++) {
        const struct mw_compare_operator *o = &c->operators[i];
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "kind", mw_op_kind_name(o->kind));
        mw_json_string(json, "operator", o->name);
        mw_json_string(json, "phase", mw_phase_name(o->phase));
        mw_json_integer(json, "ops", o->ops);
        write_times(json, o->sum);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_ops(struct mw_json_writer *json, const struct mw_compare *c)
{
    mw_json_begin(json, "ops", '[', false);
    for (uint32_t i = 0; i < c->op_count; i++) {
        const struct mw_op *op = &c->plan->ops[c->ops[i].op];
        g_autofree char *title = mw_op_title(c->plan, op);
        g_autofree char *lane = mw_lane_title(&c->plan->lanes[op->lane]);
        mw_json_begin(json, NULL, '{', true);
        mw_json_integer(json, "op", c->ops[i].op);
        mw_json_integer(json, "rounds", mw_plan_op_rounds(c->plan, c->ops[i].op));
        mw_json_string(json, "name", title);
        mw_json_string(json, "kind", mw_op_kind_name(c->plan->works[op->work].kind));
        mw_json_string(json, "lane", lane);
        write_times(json, c->ops[i].takes);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_steps(struct mw_json_writer *json, const struct mw_measured *measured)
{
    uint32_t count = 0;
    const struct mw_measured_step *steps = mw_measured_steps(measured, &count);

    mw_json_begin(json, "step_times_s", '[', true);
    for (uint32_t i = 0; i < count; i++)
        mw_json_number(json, NULL, (double)steps[i].time_ns * 1e-9);
    mw_json_end(json, ']');
}

static void
write_compare(struct mw_json_writer *json, const struct mw_run *run)
{
    const struct mw_compare *c = run->compare;
    struct mw_pair naive = {c->naive_s, c->step.measured_s};

    mw_json_begin(json, "compare", '{', false);
    mw_json_integer(json, "steps", c->steps);
    mw_json_integer(json, "stolen_steps", c->stolen);
    mw_json_boolean(json, "all_stolen", c->all_stolen);
    mw_json_integer(json, "ranks", c->ranks);
    mw_json_integer(json, "typical_step", c->typical_step + 1);
    mw_json_number(json, "fastest_s", c->fastest_s);
    mw_json_number(json, "slowest_s", c->slowest_s);
    write_steps(json, run->measured);
    write_pair(json, "step", c->step);
    write_pair(json, "first_step", c->first_step);
    mw_json_number(json, "idle_s", c->idle_s);
    write_pair(json, "flops_alone", naive);
    write_lanes(json, c);
    write_phases(json, c);
    write_operators(json, c);
    write_ops(json, c);
    mw_json_end(json, '}');
}

static void
write_predicted(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "predicted", '{', false);
    mw_json_result_speed(json, r);
    mw_json_begin(json, "peak_bytes", '{', true);
    for (int t = 0; t < MW_TIER_COUNT; t++)
        mw_json_integer(json, mw_tier_name(t), r->tiers[t].peak_bytes);
    mw_json_end(json, '}');
    mw_json_integer(json, "nvme_read_bytes", r->nvme_read_bytes);
    mw_json_integer(json, "nvme_written_bytes", r->nvme_written_bytes);
    mw_json_end(json, '}');
}

/* NULL: a saved timeline does not say. */
static void
write_fact(struct mw_json_writer *json, const char *key, const int64_t *value)
{
    if (value)
        mw_json_integer(json, key, *value);
    else
        mw_json_string(json, key, NULL);
}

/* -1: neither a saved timeline nor the system says. */
static void
write_known(struct mw_json_writer *json, const char *key, int64_t bytes)
{
    write_fact(json, key, bytes >= 0 ? &bytes : NULL);
}

static void
write_imbalance(struct mw_json_writer *json, const struct mw_run_facts *facts)
{
    mw_json_begin(json, "expert_imbalance", '{', true);
    mw_json_number(json, "median", facts->expert_imbalance);
    mw_json_number(json, "most", facts->expert_imbalance_most);
    mw_json_begin(json, "layers", '[', true);
    for (int64_t l = 0; l < facts->layers; l++)
        mw_json_number(json, NULL, facts->layer_imbalance[l] > 0 ? facts->layer_imbalance[l] : NAN);
    mw_json_end(json, ']');
    mw_json_end(json, '}');
}

static void
write_facts(struct mw_json_writer *json, const struct mw_run *run)
{
    const struct mw_run_facts *facts = run->facts;

    mw_json_begin(json, "run", '{', false);
    mw_json_string(json, "machine", run->machine);
    mw_json_integer(json, "steps", facts ? facts->steps : run->measured->seen);
    mw_json_string(json, "backend", facts ? facts->backend : NULL);
    write_fact(json, "skipped_steps", facts ? &facts->skipped : NULL);
    mw_json_number(json, "first_loss", facts ? facts->first_loss : NAN);
    mw_json_number(json, "last_loss", facts ? facts->last_loss : NAN);
    mw_json_number(json, "seconds", facts ? facts->seconds : NAN);
    write_known(json, "scratch_bytes", facts ? facts->scratch_bytes : -1);
    write_known(json, "program_bytes", facts ? facts->program_bytes : -1);
    write_known(json, "resident_planned_bytes", facts ? facts->planned_bytes : -1);
    write_known(json, "resident_peak_bytes", facts ? facts->resident_bytes : -1);
    write_fact(json, "nvme_read_bytes", facts ? &facts->nvme_read_bytes : NULL);
    write_fact(json, "nvme_written_bytes", facts ? &facts->nvme_written_bytes : NULL);
    if (facts && facts->expert_imbalance > 0)
        write_imbalance(json, facts);
    mw_json_end(json, '}');
}

bool
mw_json_run_write(FILE *out, const struct mw_run *run)
{
    struct mw_json_writer json = {.out = out};
    struct mw_result *measured = mw_run_result(run);

    mw_json_begin_answer(&json, MW_SCHEMA_RUN);
    mw_json_begin(&json, "answers", '[', false);
    mw_json_begin(&json, NULL, '{', false);
    mw_json_result(&json, measured);
    write_predicted(&json, run->predicted);
    write_compare(&json, run);
    write_facts(&json, run);
    mw_json_end(&json, '}');
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
    mw_run_result_free(measured);
    return fflush(out) == 0 && !ferror(out);
}
