#include <inttypes.h>
#include <math.h>

#include "base/format.h"
#include "base/spell.h"
#include "report/grid.h"
#include "report/report.h"
#include "report/run.h"
#include "report/table.h"
#include "report/wrap.h"
#include "study/lanes.h"

#define OPERATORS_SHOWN 16
#define OPS_SHOWN 8

/* "+8.4%": with a sign, which gives the direction. */
static char *
error_text(struct mw_pair pair)
{
    double error = mw_pair_error(pair);

    return g_strdup_printf("%s%s", error >= 0 ? "+" : "", mw_format_percent(error));
}

static void
add_pair(struct mw_grid *grid, const char *name, struct mw_pair pair)
{
    g_autofree char *error = error_text(pair);

    mw_grid_row(grid, name, mw_format_seconds(pair.predicted_s), mw_format_seconds(pair.measured_s),
                error, NULL);
}

static void
print_step(FILE *out, const struct mw_compare *c)
{
    struct mw_grid *grid = mw_grid_new("lrrr");

    mw_grid_row(grid, "", "predicted", "measured", "error", NULL);
    add_pair(grid, "step", c->step);
    add_pair(grid, "first step", c->first_step);
    for (uint32_t i = 0; i < c->phase_count; i++)
        add_pair(grid, c->phases[i].name, c->phases[i].takes);
    if (isfinite(c->naive_s))
        add_pair(grid, "step by FLOPs alone", (struct mw_pair){c->naive_s, c->step.measured_s});
    mw_grid_print(grid, out, 2);
}

/* "4.10 ms .. 5.20 ms" busy; NULL for one rank. */
static char *
spread_text(const struct mw_compare *c, const struct mw_compare_lane *lane)
{
    double least = lane->busy_s[0], most = least;

    for (uint32_t r = 1; r < c->ranks; r++) {
        least = fmin(least, lane->busy_s[r]);
        most = fmax(most, lane->busy_s[r]);
    }
    return c->ranks > 1
               ? g_strdup_printf("%s .. %s", mw_format_seconds(least), mw_format_seconds(most))
               : NULL;
}

static void
print_lanes(FILE *out, const struct mw_compare *c)
{
    struct mw_grid *grid = mw_grid_new(c->ranks > 1 ? "lrrrrrrr" : "lrrrrrr");
    g_autofree char *ranks =
        c->ranks > 1 ? g_strdup_printf("over %" PRIu32 " ranks", c->ranks) : NULL;

    mw_table_heading(out, "Lanes (busy; measured share of the step, and exposed: compute waits "
                          "for it)");
    mw_grid_row(grid, "lane", "ops", "predicted", "measured", "error", "of step", "exposed", ranks,
                NULL);
    for (uint32_t i = 0; i < c->lane_count; i++) {
        const struct mw_compare_lane *lane = &c->lanes[i];
        g_autofree char *title = mw_lane_title(&c->plan->lanes[lane->lane]);
        g_autofree char *error = error_text(lane->busy);
        g_autofree char *spread = spread_text(c, lane);
        mw_grid_row(grid, title, mw_format_count(lane->ops),
                    mw_format_seconds(lane->busy.predicted_s),
                    mw_format_seconds(lane->busy.measured_s), error,
                    mw_table_share(lane->busy.measured_s, c->step.measured_s),
                    mw_format_seconds(lane->exposed.measured_s), spread, NULL);
    }
    mw_grid_print(grid, out, 2);
}

static const char *
difference_text(struct mw_pair pair)
{
    return mw_format_seconds(pair.predicted_s - pair.measured_s);
}

static void
add_operator(struct mw_grid *grid, const char *kind, const char *operator_, const char *phase,
             uint32_t ops, struct mw_pair sum)
{
    g_autofree char *error = error_text(sum);

    mw_grid_row(grid, kind, operator_, phase, mw_format_count(ops),
                mw_format_seconds(sum.predicted_s), mw_format_seconds(sum.measured_s),
                difference_text(sum), error, NULL);
}

static void
add_rest(struct mw_grid *grid, const struct mw_compare *c, uint32_t shown)
{
    struct mw_pair sum = {0, 0};
    uint32_t ops = 0;

    for (uint32_t i = shown; i < c->operator_count; i++) {
        sum.predicted_s += c->operators[i].sum.predicted_s;
        sum.measured_s += c->operators[i].sum.measured_s;
        ops += c->operators[i].ops;
    }
    add_operator(grid, "the rest", "", "", ops, sum);
}

static void
print_operators(FILE *out, const struct mw_compare *c)
{
    struct mw_grid *grid = mw_grid_new("lllrrrrr");
    uint32_t shown = c->operator_count > OPERATORS_SHOWN + 1 ? OPERATORS_SHOWN : c->operator_count;

    mw_table_heading(out, "Operators (sum of their ops; by difference)");
    mw_grid_row(grid, "kind", "operator", "phase", "ops", "predicted", "measured", "difference",
                "error", NULL);
    for (uint32_t i = 0; i < shown; i++) {
        const struct mw_compare_operator *o = &c->operators[i];
        add_operator(grid, mw_op_kind_name(o->kind), o->name, mw_phase_name(o->phase), o->ops,
                     o->sum);
    }
    if (shown < c->operator_count)
        add_rest(grid, c, shown);
    mw_grid_print(grid, out, 2);
}

/* "norm1 bwd L1 mb1, 4094 rounds" */
static char *
title_of(const struct mw_plan *plan, uint32_t op)
{
    char *title = mw_op_title(plan, &plan->ops[op]);
    int64_t rounds = mw_plan_op_rounds(plan, op);

    if (rounds == 1)
        return title;
    char *longer = g_strdup_printf("%s, %" PRId64 " rounds", title, rounds);
    g_free(title);
    return longer;
}

static void
print_ops(FILE *out, const struct mw_compare *c)
{
    struct mw_grid *grid = mw_grid_new("rllrrr");

    mw_table_heading(out, "Ops that differ most");
    mw_grid_row(grid, "op", "", "kind", "predicted", "measured", "difference", NULL);
    for (uint32_t i = 0; i < MIN(c->op_count, OPS_SHOWN); i++) {
        const struct mw_compare_op *op = &c->ops[i];
        g_autofree char *title = title_of(c->plan, op->op);
        g_autofree char *number = g_strdup_printf("%" PRIu32, op->op);
        mw_grid_row(grid, number, title,
                    mw_op_kind_name(c->plan->works[c->plan->ops[op->op].work].kind),
                    mw_format_seconds(op->takes.predicted_s),
                    mw_format_seconds(op->takes.measured_s), difference_text(op->takes), NULL);
    }
    mw_grid_print(grid, out, 2);
}

static const char *
known_text(int64_t bytes)
{
    return bytes < 0 ? "-" : mw_format_gib((double)bytes);
}

/* The process: what the plan has in host memory, what it does not count, and the peak of all. */
static void
add_process(struct mw_grid *grid, const struct mw_run_facts *facts)
{
    bool known = facts->planned_bytes > 0 && facts->resident_bytes >= 0;
    g_autofree char *error = known ? error_text((struct mw_pair){(double)facts->planned_bytes,
                                                                 (double)facts->resident_bytes})
                                   : NULL;

    if (facts->scratch_bytes)
        mw_grid_row(grid, "scratch", known_text(facts->scratch_bytes), "-", NULL);
    mw_grid_row(grid, "program", known_text(facts->program_bytes), "-", NULL);
    mw_grid_row(grid, "process", known_text(facts->planned_bytes),
                known_text(facts->resident_bytes), error, NULL);
}

/* The memory that the run used, beside the plan's. */
static void
print_memory(FILE *out, const struct mw_run *run)
{
    struct mw_grid *grid = mw_grid_new("lrrr");

    mw_table_heading(out, "Memory (program: before the first step; process: in host memory)");
    mw_grid_row(grid, "", "plan", "taken", "error", NULL);
    for (int t = 0; t < MW_TIER_COUNT; t++)
        if (run->predicted->tiers[t].peak_bytes || run->facts->peak_bytes[t])
            mw_grid_row(grid, mw_tier_name(t), mw_format_gib(run->predicted->tiers[t].peak_bytes),
                        mw_format_gib(run->facts->peak_bytes[t]), NULL);
    add_process(grid, run->facts);
    mw_grid_print(grid, out, 2);
    if (run->facts->nvme_read_bytes + run->facts->nvme_written_bytes)
        fprintf(out, "NVMe: %s read and %s written per step\n",
                mw_format_bytes((double)run->facts->nvme_read_bytes / run->facts->steps),
                mw_format_bytes((double)run->facts->nvme_written_bytes / run->facts->steps));
}

/* Of ranks that share experts, in later steps. */
static void
print_imbalance(FILE *out, const struct mw_run_facts *facts)
{
    g_autofree char *option = mw_spelled_printf("{expert-imbalance=%.3g}", facts->expert_imbalance);

    mw_table_heading(out, "Experts");
    mw_wrap_line(out, 2,
                 "the rank with the most tokens had %.3g times the mean (mean over layers, median "
                 "of steps; %.3g at most), and the others waited for it; %s predicts so",
                 facts->expert_imbalance, facts->expert_imbalance_most, option);
}

static void
print_heading(FILE *out, const struct mw_run *run)
{
    const struct mw_compare *c = run->compare;
    const struct mw_result *r = run->predicted;

    mw_wrap_line(out, 2, "Predicted for %s%s, measured on %s%s", mw_table_text(r->hardware),
                 r->calibrated ? "" : " (not calibrated)", mw_table_text(run->machine),
                 c->ranks > 1 ? " by rank 0" : "");
    if (!run->measured->count)
        fprintf(out, "medians of one step, which is the first: its buffers were new\n");
    else
        fprintf(out, "medians of %" PRIu32 " step%s after the first, %s .. %s\n", c->steps,
                c->steps == 1 ? "" : "s", mw_format_seconds(c->fastest_s),
                mw_format_seconds(c->slowest_s));
    g_autofree char *faster = mw_run_faster_text(run);
    if (faster)
        mw_wrap_line(out, 2, "%s", faster);
    if (c->stolen)
        mw_wrap_line(out, 2,
                     "the hypervisor took time from %" PRId64 " of %" PRId64 " later steps: %s",
                     c->stolen, run->measured->seen - 1,
                     c->all_stolen ? "they are slower than the machine" : "left out");
}

void
mw_table_run(FILE *out, const struct mw_run *run)
{
    print_heading(out, run);
    print_step(out, run->compare);
    print_lanes(out, run->compare);
    print_operators(out, run->compare);
    print_ops(out, run->compare);
    if (run->facts && run->facts->expert_imbalance > 0)
        print_imbalance(out, run->facts);
    if (run->facts)
        print_memory(out, run);
}
