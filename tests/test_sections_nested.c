/* Sections within sections, on random plans: lanes, windows, shared channels and dependencies drawn
 * by chance.  The engine gives the unfolded plan's times, and by the mean of the last rounds no
 * more than a thousandth of the step beside it. */
#include <glib.h>
#include <math.h>
#include <stdlib.h>

#include "sim/engine.h"
#include "tests/cases.h"
#include "tests/random_plan.h"

#define PLANS MW_CASES(600)
#define LANES 4
#define CHANNELS 3
#define WORKS 6

struct body {
    GRand *random;
    struct mw_plan *plan;
    uint32_t ops;     /* of a round of the inner section */
    uint32_t lane[8]; /* of each, and its work */
    uint32_t work[8];
    uint32_t back[8][2]; /* how many ops back it depends on; 0: no dependency */
};

static uint32_t
draw(GRand *random, uint32_t least, uint32_t most)
{
    return least + (uint32_t)g_rand_int_range(random, 0, (gint32)(most - least + 1));
}

static void
add_tables(struct body *body)
{
    struct mw_plan *plan = body->plan;

    for (uint32_t i = 0; i < LANES; i++)
        mw_plan_add_lane(
            plan, (struct mw_lane){.kind = (uint8_t)i, .window_ops = draw(body->random, 1, 3)});
    for (uint32_t i = 0; i < CHANNELS; i++)
        mw_plan_add_channel(plan, (struct mw_channel){.kind = (uint8_t)i, .users = 1});
    for (uint32_t i = 0; i < WORKS; i++) {
        struct mw_draw draws[2] = {{draw(body->random, 0, CHANNELS - 1), 1, 1000},
                                   {draw(body->random, 0, CHANNELS - 1), 1, 1000}};
        mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_COMPUTE, .comm = MW_NONE}, draws,
                         draw(body->random, 0, 2));
    }
}

static void
add_op(struct body *body, uint32_t lane, uint32_t work)
{
    mw_plan_add_op(body->plan,
                   (struct mw_op){.work = work, .lane = (uint16_t)lane, .match = MW_NONE});
}

/* The ops of a round; the first round depends on nothing before it. */
static void
add_round(struct body *body, bool first)
{
    for (uint32_t i = 0; i < body->ops; i++) {
        add_op(body, body->lane[i], body->work[i]);
        for (int d = 0; d < 2; d++)
            if (body->back[i][d] && (!first || body->back[i][d] <= i))
                mw_plan_add_dep(body->plan, body->plan->op_count - 1 - body->back[i][d]);
    }
}

/* An outer section of a first inner round, the others, and some ops behind them; around it others.
 * Whatever is in a section depends on what moves on with it. */
static struct mw_plan *
draw_plan(GRand *random, uint32_t outer_most, uint32_t inner_most)
{
    struct body body = {.random = random, .plan = mw_plan_new("nested"), .ops = draw(random, 1, 8)};
    struct mw_plan *plan = body.plan;

    add_tables(&body);
    for (uint32_t i = 0; i < body.ops; i++) {
        body.lane[i] = draw(random, 0, LANES - 1);
        body.work[i] = draw(random, 0, WORKS - 1);
        for (int d = 0; d < 2; d++)
            body.back[i][d] = draw(random, 0, i + body.ops);
        if (body.back[i][1] == body.back[i][0])
            body.back[i][1] = 0;
    }
    for (uint32_t i = draw(random, 0, 4); i > 0; i--)
        add_op(&body, draw(random, 0, LANES - 1), draw(random, 0, WORKS - 1));
    uint32_t outer = plan->op_count;
    add_round(&body, true);
    uint32_t inner = plan->op_count;
    add_round(&body, false);
    uint32_t behind = plan->op_count, rounds = draw(random, 1, inner_most);
    for (uint32_t i = draw(random, 0, 3); i > 0; i--) {
        add_op(&body, draw(random, 0, LANES - 1), draw(random, 0, WORKS - 1));
        /* On the last of the inner rounds. */
        mw_plan_add_dep(plan, inner + (rounds - 1) * body.ops + draw(random, 0, body.ops - 1));
    }
    uint32_t end = plan->op_count;
    for (uint32_t i = draw(random, 0, 4); i > 0; i--)
        add_op(&body, draw(random, 0, LANES - 1), draw(random, 0, WORKS - 1));
    mw_plan_add_section(plan, (struct mw_section){.first_op = outer,
                                                  .op_count = end - outer,
                                                  .rounds = draw(random, 1, outer_most),
                                                  .parent = MW_NONE,
                                                  .micro_batch_step = 1});
    mw_plan_add_section(plan, (struct mw_section){.first_op = inner,
                                                  .op_count = behind - inner,
                                                  .rounds = rounds,
                                                  .parent = 0,
                                                  .layer_step = 1});
    for (uint32_t i = outer; i < end; i++)
        for (uint32_t d = plan->ops[i].dep_begin;
             d < plan->ops[i].dep_begin + plan->ops[i].dep_count; d++) {
            plan->dep_strides[d].by[0] = (int32_t)plan->sections[0].span;
            plan->dep_strides[d].by[1] = i >= inner && i < behind ? (int32_t)body.ops : 0;
        }
    return plan;
}

struct counts {
    int skipped, by_mean, above; /* above a thousandth of the step */
    double worst;
};

static void
compare(const struct mw_plan *folded, const struct mw_plan *flat, const struct mw_costs *costs,
        struct counts *counts)
{
    struct mw_engine_result a, b;
    char why[256] = "";

    mw_engine_run(folded, costs, (struct mw_engine_options){0}, &a, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    mw_engine_run(flat, costs, (struct mw_engine_options){0}, &b, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    g_assert_cmpuint(a.ops_done, ==, b.ops_done);
    counts->skipped += a.rounds_skipped > 0;
    counts->by_mean += a.rounds_by_mean > 0;
    if (a.rounds_by_mean) {
        double error = fabs((double)(a.step_ns - b.step_ns)) / (double)MAX(1, b.step_ns);
        counts->worst = fmax(counts->worst, error);
        g_assert_cmpfloat(error, <=, 1e-3);
    } else {
        g_assert_cmpint(a.step_ns, ==, b.step_ns);
        g_assert_cmpint(a.first_step_ns, ==, b.first_step_ns);
        for (uint32_t l = 0; l < flat->lane_count; l++)
            g_assert_cmpint(a.lane_busy_ns[l], ==, b.lane_busy_ns[l]);
    }
    mw_engine_result_clear(&a);
    mw_engine_result_clear(&b);
}

static void
compare_plans(guint32 seed, uint32_t outer_most, uint32_t inner_most)
{
    GRand *random = g_rand_new_with_seed(seed);
    struct counts counts = {0};

    for (int i = 0; i < PLANS; i++) {
        struct mw_plan *folded = draw_plan(random, outer_most, inner_most);
        struct mw_plan *flat = mw_plan_unfold(folded);
        struct mw_costs costs = {0};
        char why[256] = "";

        g_assert_nonnull(flat);
        if (!mw_plan_check(folded, why, sizeof why) || !mw_plan_check(flat, why, sizeof why))
            g_error("plan %d: %s", i, why);
        random_costs(random, flat, &costs);
        g_test_message("plan %d", i);
        compare(folded, flat, &costs, &counts);
        mw_costs_clear(&costs);
        mw_plan_free(folded);
        mw_plan_free(flat);
    }
    g_test_message("%d plans: %d skipped rounds, %d by the mean, at most %g of the step off", PLANS,
                   counts.skipped, counts.by_mean, counts.worst);
    g_assert_cmpint(counts.skipped, >, PLANS / 4);
    g_rand_free(random);
}

static void
test_nested(void)
{
    compare_plans(1, 30, 30);
}

static void
test_many_inner(void)
{
    compare_plans(2, 3, 1500);
}

static void
test_many_outer(void)
{
    compare_plans(3, 1500, 3);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sections-nested/both", test_nested);
    g_test_add_func("/sections-nested/inner", test_many_inner);
    g_test_add_func("/sections-nested/outer", test_many_outer);
    return g_test_run();
}
