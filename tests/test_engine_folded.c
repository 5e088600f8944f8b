/* Invariant 9, for any numbers of ranks: a program that stands for several ranks, beside programs
 * that stand for more or fewer, ends its ops when a program for each of its ranks would.  On random
 * plans whose programs all draw on the same channels. */
#include <glib.h>
#include <string.h>

#include "sim/engine.h"
#include "tests/cases.h"
#include "tests/random_plan.h"

#define PLANS MW_CASES(10000)
#define SEED 20251123
#define RANKS_MAX 4 /* of a program */

/* Rounding of progress may move a completion by 1 ns, and what waits for it in turn. */
#define TOLERANCE_NS 2

/* A plan made of another's programs, each as many times over as `copies` says. */
struct variant {
    struct mw_plan *plan;
    struct mw_costs costs;
    uint32_t *first_op;   /* [ops of the other] */
    uint32_t copies[4];   /* of a program */
    uint32_t lane_of[4];  /* first lane of a program's first copy */
    uint32_t draws_by[4]; /* ranks for which an op of a program draws */
    uint32_t lanes_per_rank;
};

static uint32_t
program_of(const struct mw_plan *plan, uint32_t op)
{
    return plan->lanes[plan->ops[op].lane].program;
}

static void
copy_lanes(struct variant *v, const struct mw_plan *base)
{
    uint32_t program = 0;

    v->lanes_per_rank = base->lane_count / base->program_count;
    for (uint32_t p = 0; p < base->program_count; p++) {
        v->lane_of[p] = v->plan->lane_count;
        for (uint32_t copy = 0; copy < v->copies[p]; copy++, program++)
            for (uint32_t l = 0; l < v->lanes_per_rank; l++) {
                struct mw_lane lane = base->lanes[p * v->lanes_per_rank + l];
                lane.program = program;
                mw_plan_add_lane(v->plan, lane);
            }
    }
}

/* Each program has works of its own, for which as many ranks draw as it stands for. */
static void
copy_works(struct variant *v, const struct mw_plan *base)
{
    for (uint32_t p = 0; p < base->program_count; p++)
        for (uint32_t w = 0; w < base->work_count; w++) {
            struct mw_draw draws[MW_MAX_DRAWS_PER_WORK];
            const struct mw_work *work = &base->works[w];

            for (uint32_t i = 0; i < work->draw_count; i++) {
                draws[i] = base->draws[work->draw_begin + i];
                draws[i].ranks = v->draws_by[p];
            }
            mw_plan_add_work(v->plan, *work, draws, work->draw_count);
        }
}

/* `costs` are those of a program that stands for `ranks` of them: a rank draws its part. */
static void
copy_costs(struct variant *v, const struct mw_plan *base, const struct mw_costs *costs,
           const uint32_t *ranks)
{
    v->costs.work_ns = g_new(int64_t, v->plan->work_count);
    v->costs.lead_ns = g_new(int64_t, v->plan->work_count);
    v->costs.draw_rate = g_new(double, v->plan->draw_count);
    v->costs.capacity = g_memdup2(costs->capacity, base->channel_count * sizeof(double));
    v->costs.one_way = g_memdup2(costs->one_way, base->channel_count * sizeof(double));
    v->costs.mixed = g_memdup2(costs->mixed, base->channel_count * sizeof *costs->mixed);
    for (uint32_t p = 0; p < base->program_count; p++) {
        uint32_t work = p * base->work_count, draw = p * base->draw_count;
        memcpy(v->costs.work_ns + work, costs->work_ns, base->work_count * sizeof(int64_t));
        memcpy(v->costs.lead_ns + work, costs->lead_ns, base->work_count * sizeof(int64_t));
        for (uint32_t i = 0; i < base->draw_count; i++)
            v->costs.draw_rate[draw + i] = costs->draw_rate[i] * v->draws_by[p] / ranks[p];
    }
}

static void
number_ops(struct variant *v, const struct mw_plan *base)
{
    uint32_t count = 0;

    v->first_op = g_new(uint32_t, base->op_count);
    for (uint32_t o = 0; o < base->op_count; o++) {
        v->first_op[o] = count;
        count += v->copies[program_of(base, o)];
    }
}

/* A copy waits for the same copy of its program, and for the first of another, as all end alike. */
static void
copy_op(struct variant *v, const struct mw_plan *base, uint32_t o, uint32_t copy)
{
    uint32_t program = program_of(base, o);
    struct mw_op op = base->ops[o];

    op.lane = (uint16_t)(v->lane_of[program] + copy * v->lanes_per_rank +
                         base->ops[o].lane % v->lanes_per_rank);
    op.work = program * base->work_count + base->ops[o].work;
    if (op.match != MW_NONE)
        op.match = v->first_op[op.match];
    mw_plan_add_op(v->plan, op);
    for (uint32_t d = base->ops[o].dep_begin; d < base->ops[o].dep_begin + base->ops[o].dep_count;
         d++) {
        uint32_t dep = MW_DEP_INDEX(base->deps[d]);
        uint32_t same = program_of(base, dep) == program ? copy : 0;
        mw_plan_add_dep(v->plan,
                        (v->first_op[dep] + same) | (base->deps[d] & MW_DEP_PREVIOUS_STEP));
    }
}

/* Folded: one copy of each program, with draws by all its ranks; else one for each rank. */
static struct variant
variant_new(const struct mw_plan *base, const struct mw_costs *costs, const uint32_t *ranks,
            bool folded)
{
    struct variant v = {.plan = mw_plan_new("variant")};
    uint32_t programs = 0;

    for (uint32_t p = 0; p < base->program_count; p++) {
        v.copies[p] = folded ? 1 : ranks[p];
        v.draws_by[p] = folded ? ranks[p] : 1;
        programs += v.copies[p];
    }
    mw_plan_set_world(v.plan, programs, programs, false);
    for (uint32_t c = 0; c < base->channel_count; c++)
        mw_plan_add_channel(v.plan, base->channels[c]);
    copy_lanes(&v, base);
    copy_works(&v, base);
    copy_costs(&v, base, costs, ranks);
    number_ops(&v, base);
    for (uint32_t o = 0; o < base->op_count; o++)
        for (uint32_t copy = 0; copy < v.copies[program_of(base, o)]; copy++)
            copy_op(&v, base, o, copy);
    v.plan->checked = true;
    return v;
}

static void
variant_clear(struct variant *v)
{
    mw_costs_clear(&v->costs);
    mw_plan_free(v->plan);
    g_free(v->first_op);
}

static struct mw_engine_result
run(const struct variant *v)
{
    struct mw_engine_result result;
    char why[200] = "";

    mw_engine_run(v->plan, &v->costs, (struct mw_engine_options){.keep_timeline = true}, &result,
                  why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    return result;
}

static void
assert_near(int64_t a, int64_t b)
{
    if (llabs(a - b) > TOLERANCE_NS)
        g_assert_cmpint(a, ==, b);
}

static void
assert_same_times(const struct mw_plan *base, const struct variant *apart,
                  const struct mw_engine_result *a, const struct mw_engine_result *b)
{
    assert_near(a->first_step_ns, b->first_step_ns);
    assert_near(a->step_ns, b->step_ns);
    for (uint32_t o = 0; o < base->op_count; o++)
        for (uint32_t copy = 0; copy < apart->copies[program_of(base, o)]; copy++) {
            const struct mw_timeline_row *row = &b->timeline.rows[apart->first_op[o] + copy];
            assert_near(a->timeline.rows[o].start_ns, row->start_ns);
            assert_near(a->timeline.rows[o].end_ns, row->end_ns);
        }
    for (uint32_t c = 0; c < base->channel_count; c++)
        g_assert_cmpfloat_with_epsilon(a->channel_busy_ns[c], b->channel_busy_ns[c],
                                       1e-9 * b->channel_busy_ns[c] + 1e-9);
}

static void
test_unequal(void)
{
    GRand *random = g_rand_new_with_seed(SEED);
    uint32_t shared = 0;

    for (int i = 0; i < PLANS; i++) {
        struct mw_plan *base = random_plan(random);
        struct mw_costs costs;
        uint32_t ranks[4];

        random_costs(random, base, &costs);
        g_assert_cmpuint(base->program_count, <=, G_N_ELEMENTS(ranks));
        for (uint32_t p = 0; p < base->program_count; p++)
            ranks[p] = (uint32_t)g_rand_int_range(random, 1, RANKS_MAX + 1);
        struct variant folded = variant_new(base, &costs, ranks, true);
        struct variant apart = variant_new(base, &costs, ranks, false);
        struct mw_engine_result a = run(&folded), b = run(&apart);

        assert_same_times(base, &apart, &a, &b);
        shared += base->program_count > 1 && a.reshares > 0;
        mw_engine_result_clear(&a);
        mw_engine_result_clear(&b);
        variant_clear(&folded);
        variant_clear(&apart);
        mw_costs_clear(&costs);
        mw_plan_free(base);
    }
    g_assert_cmpuint(shared, >, PLANS / 3);
    g_rand_free(random);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/engine-folded/invariant-9/unequal-numbers-of-ranks", test_unequal);
    return g_test_run();
}
