#include "report/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "study/lanes.h"

double
mw_pair_error(struct mw_pair pair)
{
    return pair.measured_s > 0 ? pair.predicted_s / pair.measured_s - 1 : NAN;
}

static double
difference(struct mw_pair pair)
{
    return fabs(pair.predicted_s - pair.measured_s);
}

/* --- medians --------------------------------------------------------------------------------- */

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts `values`. */
static double
median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return (values[count / 2] + values[(count - 1) / 2]) / 2;
}

static double
row_s(const struct mw_timeline_row *row)
{
    return (row->end_ns - row->start_ns) * 1e-9;
}

/* --- ops and operators ----------------------------------------------------------------------- */

/* [step][op] Time of an op, in all its rounds together. */
static double *
measured_ops(const struct mw_plan *plan, const struct mw_measured_step *steps, uint32_t count)
{
    double *takes_s = g_new0(double, (size_t)count * plan->op_count + 1);

    for (uint32_t s = 0; s < count; s++)
        for (size_t i = 0; i < steps[s].timeline.row_count; i++) {
            const struct mw_timeline_row *row = &steps[s].timeline.rows[i];
            takes_s[(size_t)s * plan->op_count + row->op] += row_s(row);
        }
    return takes_s;
}

static int
compare_ops(const void *a, const void *b)
{
    const struct mw_compare_op *x = a, *y = b;
    double dx = difference(x->takes), dy = difference(y->takes);

    return dx != dy ? (dx < dy) - (dx > dy) : (x->op > y->op) - (x->op < y->op);
}

static struct mw_compare_op *
pair_ops(const struct mw_result *predicted, const struct mw_measured_step *steps, uint32_t count)
{
    uint32_t op_count = predicted->plan->op_count;
    struct mw_compare_op *ops = g_new0(struct mw_compare_op, op_count + 1);
    g_autofree double *measured_s = measured_ops(predicted->plan, steps, count);
    double values[MW_MEASURED_STEPS_MAX];

    for (size_t i = 0; i < predicted->timeline->row_count; i++) {
        const struct mw_timeline_row *row = &predicted->timeline->rows[i];
        ops[row->op].takes.predicted_s += (1 + row->more) * row_s(row);
    }
    for (uint32_t op = 0; op < op_count; op++) {
        for (uint32_t s = 0; s < count; s++)
            values[s] = measured_s[(size_t)s * op_count + op];
        ops[op].op = op;
        ops[op].takes.measured_s = median(values, count);
    }
    return ops;
}

static int
place_of(const struct mw_compare_operator *o)
{
    int subject = o->object * MW_OPERATOR_COUNT + o->operator_;

    return (o->kind * MW_OBJECT_COUNT * MW_OPERATOR_COUNT + subject) * MW_PHASE_COUNT + o->phase;
}

static int
compare_operators(const void *a, const void *b)
{
    const struct mw_compare_operator *x = a, *y = b;
    double dx = difference(x->sum), dy = difference(y->sum);

    if (dx != dy)
        return (dx < dy) - (dx > dy);
    return place_of(x) - place_of(y);
}

static void
sum_operators(struct mw_compare *compare, const struct mw_compare_op *ops)
{
    const struct mw_plan *plan = compare->plan;
    size_t all = (size_t)MW_OP_KIND_COUNT * MW_OBJECT_COUNT * MW_OPERATOR_COUNT * MW_PHASE_COUNT;
    struct mw_compare_operator *sums = g_new0(struct mw_compare_operator, all);

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        const struct mw_work *work = &plan->works[op->work];
        struct mw_compare_operator of = {.kind = work->kind,
                                         .object = work->object,
                                         .operator_ = work->operator_,
                                         .phase = op->phase,
                                         .name = mw_work_name(work)};
        struct mw_compare_operator *sum = &sums[place_of(&of)];
        of.ops = sum->ops + (uint32_t)mw_plan_op_rounds(plan, i);
        of.sum.predicted_s = sum->sum.predicted_s + ops[i].takes.predicted_s;
        of.sum.measured_s = sum->sum.measured_s + ops[i].takes.measured_s;
        *sum = of;
    }
    for (size_t i = 0; i < all; i++)
        if (sums[i].ops)
            sums[compare->operator_count++] = sums[i];
    qsort(sums, compare->operator_count, sizeof *sums, compare_operators);
    compare->operators = g_renew(struct mw_compare_operator, sums, compare->operator_count + 1);
}

static void
find_ops(struct mw_compare *compare, const struct mw_result *predicted,
         const struct mw_measured_step *steps)
{
    g_autofree struct mw_compare_op *ops = pair_ops(predicted, steps, compare->steps);
    uint32_t op_count = compare->plan->op_count;

    sum_operators(compare, ops);
    qsort(ops, op_count, sizeof *ops, compare_ops);
    compare->op_count = MIN(op_count, MW_COMPARE_OPS_MAX);
    memcpy(compare->ops, ops, compare->op_count * sizeof *ops);
}

/* --- lanes and phases ------------------------------------------------------------------------ */

static double
phase_s(const struct mw_result *use, const char *name)
{
    for (size_t i = 0; i < use->phase_count; i++)
        if (!strcmp(use->phases[i].name, name))
            return use->phases[i].end_s - use->phases[i].start_s;
    return 0;
}

static double
busy_s(const struct mw_result *use, uint32_t lane)
{
    return use->lanes[lane].busy_s;
}

static double
exposed_s(const struct mw_result *use, uint32_t lane)
{
    return use->lanes[lane].exposed_s;
}

static struct mw_pair
pair_lane(const struct mw_result *predicted, struct mw_result *const *uses, uint32_t count,
          uint32_t lane, double (*value)(const struct mw_result *use, uint32_t lane))
{
    double values[MW_MEASURED_STEPS_MAX];

    for (uint32_t s = 0; s < count; s++)
        values[s] = value(uses[s], lane);
    return (struct mw_pair){value(predicted, lane), median(values, count)};
}

/* The lane's times on every rank; the first rank's are known. */
static double *
over_ranks(const struct mw_measured *measured, struct mw_pair pair, uint32_t lane, bool busy)
{
    double *values = g_new(double, measured->rank_count + 1);

    values[0] = pair.measured_s;
    for (uint32_t r = 0; r < measured->rank_count; r++) {
        const struct mw_measured_rank *rank = &measured->ranks[r];
        values[r + 1] = (busy ? rank->busy_ns : rank->exposed_ns)[lane] * 1e-9;
    }
    return values;
}

static void
spread_lanes(struct mw_compare *compare, const struct mw_measured *measured)
{
    compare->ranks = measured->rank_count + 1;
    for (uint32_t i = 0; i < compare->lane_count; i++) {
        struct mw_compare_lane *lane = &compare->lanes[i];
        lane->busy_s = over_ranks(measured, lane->busy, lane->lane, true);
        lane->exposed_s = over_ranks(measured, lane->exposed, lane->lane, false);
    }
}

static void
find_lanes(struct mw_compare *compare, const struct mw_result *predicted,
           struct mw_result *const *uses)
{
    const struct mw_plan *plan = compare->plan;
    g_autofree uint32_t *ops = g_new0(uint32_t, plan->lane_count + 1);

    for (uint32_t i = 0; i < plan->op_count; i++)
        ops[plan->ops[i].lane] += (uint32_t)mw_plan_op_rounds(plan, i);
    compare->lanes = g_new0(struct mw_compare_lane, plan->lane_count + 1);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        if (ops[l])
            compare->lanes[compare->lane_count++] = (struct mw_compare_lane){
                .lane = l,
                .ops = ops[l],
                .busy = pair_lane(predicted, uses, compare->steps, l, busy_s),
                .exposed = pair_lane(predicted, uses, compare->steps, l, exposed_s),
            };
}

static void
find_phases(struct mw_compare *compare, const struct mw_result *predicted,
            struct mw_result *const *uses)
{
    static const char *const names[MW_COMPARE_PHASES] = {"forward", "backward", "optimizer"};
    double values[MW_MEASURED_STEPS_MAX];

    for (int p = 0; p < MW_COMPARE_PHASES; p++) {
        struct mw_pair takes = {phase_s(predicted, names[p]), 0};
        for (uint32_t s = 0; s < compare->steps; s++)
            values[s] = phase_s(uses[s], names[p]);
        takes.measured_s = median(values, compare->steps);
        if (takes.predicted_s > 0 || takes.measured_s > 0)
            compare->phases[compare->phase_count++] = (struct mw_compare_phase){names[p], takes};
    }
}

/* How every step used its lanes. */
static void
sum_up(const struct mw_plan *plan, const struct mw_measured_step *steps, uint32_t count,
       struct mw_result **uses)
{
    for (uint32_t s = 0; s < count; s++) {
        uses[s] = g_new0(struct mw_result, 1);
        mw_summary_lanes(plan, &steps[s].timeline, uses[s]);
    }
}

static void
find_use(struct mw_compare *compare, const struct mw_result *predicted,
         const struct mw_measured_step *steps)
{
    struct mw_result *uses[MW_MEASURED_STEPS_MAX];

    sum_up(compare->plan, steps, compare->steps, uses);
    find_lanes(compare, predicted, uses);
    find_phases(compare, predicted, uses);
    for (uint32_t s = 0; s < compare->steps; s++)
        mw_result_free(uses[s]);
}

static struct mw_timeline
copy_of(const struct mw_measured_step *steps, uint32_t count, int64_t step)
{
    const struct mw_measured_step *found = &steps[0];

    for (uint32_t s = 0; s < count; s++)
        if (steps[s].step == step)
            found = &steps[s];
    size_t rows = found->timeline.row_count;
    return (struct mw_timeline){
        g_memdup2(found->timeline.rows, rows * sizeof *found->timeline.rows), rows};
}

struct mw_measured_rank
mw_compare_rank(const struct mw_plan *plan, const struct mw_measured *measured, int64_t step)
{
    struct mw_result *uses[MW_MEASURED_STEPS_MAX];
    uint32_t count;
    const struct mw_measured_step *steps = mw_measured_steps(measured, &count);
    struct mw_measured_rank rank = {
        .lane_count = plan->lane_count,
        .busy_ns = g_new0(int64_t, plan->lane_count + 1),
        .exposed_ns = g_new0(int64_t, plan->lane_count + 1),
        .timeline = copy_of(steps, count, step),
    };

    sum_up(plan, steps, count, uses);
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        rank.busy_ns[l] = llround(pair_lane(uses[0], uses, count, l, busy_s).measured_s * 1e9);
        rank.exposed_ns[l] =
            llround(pair_lane(uses[0], uses, count, l, exposed_s).measured_s * 1e9);
    }
    for (uint32_t s = 0; s < count; s++)
        mw_result_free(uses[s]);
    return rank;
}

/* --- idle time -------------------------------------------------------------------------------- */

static int
compare_starts(const void *a, const void *b)
{
    const struct mw_timeline_row *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* For one step, which begins where the previous one ended. */
static double
idle_of(const struct mw_measured_step *step)
{
    size_t count = step->timeline.row_count;
    g_autofree struct mw_timeline_row *rows =
        g_memdup2(step->timeline.rows, count * sizeof *step->timeline.rows);
    int64_t busy_ns = 0, until_ns = 0;

    qsort(rows, count, sizeof *rows, compare_starts);
    for (size_t i = 0; i < count; i++) {
        busy_ns += MAX(rows[i].end_ns - MAX(rows[i].start_ns, until_ns), 0);
        until_ns = MAX(until_ns, rows[i].end_ns);
    }
    return MAX(step->time_ns - busy_ns, 0) * 1e-9;
}

static double
median_idle_s(const struct mw_measured_step *steps, uint32_t count)
{
    double values[MW_MEASURED_STEPS_MAX];

    for (uint32_t s = 0; s < count; s++)
        values[s] = idle_of(&steps[s]);
    return median(values, count);
}

/* --- the comparison --------------------------------------------------------------------------- */

static void
find_times(struct mw_compare *compare, const struct mw_result *predicted,
           const struct mw_measured *measured, const struct mw_measured_step *steps)
{
    compare->step =
        (struct mw_pair){mw_result_shown_step_s(predicted), mw_measured_median_s(measured)};
    compare->first_step =
        (struct mw_pair){predicted->undelayed_step_time_s > 0 ? NAN : predicted->first_step_time_s,
                         measured->first.time_ns * 1e-9};
    compare->typical_step = mw_measured_typical(measured)->step;
    compare->fastest_s = INFINITY;
    for (uint32_t s = 0; s < compare->steps; s++) {
        compare->fastest_s = fmin(compare->fastest_s, steps[s].time_ns * 1e-9);
        compare->slowest_s = fmax(compare->slowest_s, steps[s].time_ns * 1e-9);
    }
}

struct mw_compare *
mw_compare_new(const struct mw_result *predicted, const struct mw_measured *measured,
               double naive_s)
{
    struct mw_compare *compare = g_new0(struct mw_compare, 1);
    const struct mw_measured_step *steps = mw_measured_steps(measured, &compare->steps);

    compare->plan = predicted->plan;
    compare->naive_s = naive_s;
    compare->stolen = measured->stolen;
    compare->all_stolen = mw_measured_all_stolen(measured);
    find_times(compare, predicted, measured, steps);
    find_ops(compare, predicted, steps);
    find_use(compare, predicted, steps);
    spread_lanes(compare, measured);
    compare->idle_s = median_idle_s(steps, compare->steps);
    return compare;
}

void
mw_compare_free(struct mw_compare *compare)
{
    if (!compare)
        return;
    for (uint32_t i = 0; i < compare->lane_count; i++) {
        g_free(compare->lanes[i].busy_s);
        g_free(compare->lanes[i].exposed_s);
    }
    g_free(compare->lanes);
    g_free(compare->operators);
    g_free(compare);
}
