/* The event engine on random plans: against the plain reference, within its bounds, repeatable. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "sim/engine.h"
#include "tests/cases.h"
#include "tests/nvme_plan.h"
#include "tests/random_plan.h"
#include "tests/reference_engine.h"

#define PLANS MW_CASES(10000)
#define SEED 20240611

/* Rounding of progress may move a completion by 1 ns, and what waits for it in turn. */
#define TOLERANCE_NS 2

struct sample {
    struct mw_plan *plan;
    struct mw_costs costs;
    uint32_t steps;
    struct mw_engine_result result;
};

static struct sample
sample_new(GRand *random)
{
    struct sample sample = {.plan = random_plan(random)};
    struct mw_engine_options options = {.keep_timeline = true};
    char why[200] = "";

    random_costs(random, sample.plan, &sample.costs);
    sample.steps = options.steps = (uint32_t)g_rand_int_range(random, 1, 5);
    if (!mw_engine_run(sample.plan, &sample.costs, options, &sample.result, why, sizeof why))
        g_error("refused: %s", why);
    return sample;
}

static void
sample_clear(struct sample *sample)
{
    mw_engine_result_clear(&sample->result);
    mw_costs_clear(&sample->costs);
    mw_plan_free(sample->plan);
}

static void
assert_near(int64_t a, int64_t b)
{
    if (llabs(a - b) > TOLERANCE_NS)
        g_assert_cmpint(a, ==, b);
}

static void
assert_like_reference(const struct sample *sample, const struct reference_result *reference)
{
    uint32_t last = sample->steps - 1, ops = sample->plan->op_count;
    int64_t before_ns = last > 0 ? reference->step_end_ns[last - 1] : 0;

    assert_near(sample->result.first_step_ns, reference->step_end_ns[0]);
    assert_near(sample->result.step_ns, reference->step_end_ns[last] - before_ns);
    for (uint32_t op = 0; op < ops; op++) {
        assert_near(sample->result.timeline.rows[op].start_ns,
                    reference->start_ns[(size_t)last * ops + op]);
        assert_near(sample->result.timeline.rows[op].end_ns,
                    reference->end_ns[(size_t)last * ops + op]);
    }
}

static void
test_reference(void)
{
    GRand *random = g_rand_new_with_seed(SEED);
    uint32_t unconverged = 0, shared = 0;

    for (int i = 0; i < PLANS; i++) {
        struct sample sample = sample_new(random);
        struct reference_result reference;

        reference_run(sample.plan, &sample.costs, sample.steps, &reference);
        if (reference.converged)
            assert_like_reference(&sample, &reference);
        unconverged += !reference.converged;
        shared += sample.result.reshares > 0;
        reference_clear(&reference);
        sample_clear(&sample);
    }
    g_test_message("%u plans with sharing, %u without a converged reference", shared, unconverged);
    g_assert_cmpuint(shared, >, PLANS / 3);
    g_assert_cmpuint(unconverged, <, PLANS / 100);
    g_rand_free(random);
}

static int64_t
end_of_last_op(const struct sample *sample)
{
    int64_t end_ns = 0;

    for (size_t i = 0; i < sample->result.timeline.row_count; i++)
        end_ns = MAX(end_ns, sample->result.timeline.rows[i].end_ns);
    return end_ns;
}

static int64_t
work_ns_of(const struct sample *sample, uint32_t op)
{
    return sample->costs.work_ns[sample->plan->ops[op].work];
}

/* Without what may pass while others of its lane are before it. */
static int64_t
moving_ns_of(const struct sample *sample, uint32_t op)
{
    return work_ns_of(sample, op) - sample->costs.lead_ns[sample->plan->ops[op].work];
}

/* Longest chain of dependencies within a step. */
static int64_t
critical_path_ns(const struct sample *sample)
{
    const struct mw_plan *plan = sample->plan;
    int64_t *done_ns = g_new0(int64_t, plan->op_count), longest = 0;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        for (uint32_t d = 0; d < plan->ops[i].dep_count; d++) {
            uint32_t dep = plan->deps[plan->ops[i].dep_begin + d];
            if (!(dep & MW_DEP_PREVIOUS_STEP))
                done_ns[i] = MAX(done_ns[i], done_ns[dep]);
        }
        done_ns[i] += work_ns_of(sample, i);
        longest = MAX(longest, done_ns[i]);
    }
    g_free(done_ns);
    return longest;
}

static void
assert_lower_bounds(const struct sample *sample)
{
    const struct mw_plan *plan = sample->plan;
    int64_t end_ns = end_of_last_op(sample);

    g_assert_cmpint(sample->result.first_step_ns, >=, critical_path_ns(sample));
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        int64_t lane_ns = 0;

        for (uint32_t op = 0; op < plan->op_count; op++)
            lane_ns += plan->ops[op].lane == l ? moving_ns_of(sample, op) : 0;
        g_assert_cmpint(end_ns, >=, lane_ns * sample->steps);
    }
    for (uint32_t c = 0; c < plan->channel_count; c++)
        g_assert_cmpfloat((double)end_ns + 1, >=,
                          sample->result.channel_busy_ns[c] * sample->steps * (1 - 1e-9));
}

/* Something always moves at its full speed, or a channel is full: time is never wasted, but for
 * rounding to whole ns. */
static void
assert_upper_bound(const struct sample *sample)
{
    int64_t sum_ns = 0;

    for (uint32_t op = 0; op < sample->plan->op_count; op++)
        sum_ns += work_ns_of(sample, op) + 1;
    g_assert_cmpint(end_of_last_op(sample), <=, sum_ns * sample->steps);
}

static void
test_bounds(void)
{
    GRand *random = g_rand_new_with_seed(SEED + 1);

    for (int i = 0; i < PLANS; i++) {
        struct sample sample = sample_new(random);

        assert_lower_bounds(&sample);
        assert_upper_bound(&sample);
        g_assert_cmpuint(sample.result.ops_done, ==,
                         (uint64_t)sample.steps * sample.plan->op_count);
        sample_clear(&sample);
    }
    g_rand_free(random);
}

static void
assert_same(const struct mw_engine_result *a, const struct mw_engine_result *b,
            const struct mw_plan *plan)
{
    g_assert_cmpint(a->step_ns, ==, b->step_ns);
    g_assert_cmpint(a->first_step_ns, ==, b->first_step_ns);
    g_assert_cmpuint(a->reshares, ==, b->reshares);
    g_assert_cmpmem(a->lane_busy_ns, plan->lane_count * sizeof *a->lane_busy_ns, b->lane_busy_ns,
                    plan->lane_count * sizeof *b->lane_busy_ns);
    g_assert_cmpmem(a->channel_busy_ns, plan->channel_count * sizeof *a->channel_busy_ns,
                    b->channel_busy_ns, plan->channel_count * sizeof *b->channel_busy_ns);
    g_assert_cmpmem(a->timeline.rows, a->timeline.row_count * sizeof *a->timeline.rows,
                    b->timeline.rows, b->timeline.row_count * sizeof *b->timeline.rows);
}

static void
test_same_twice(void)
{
    struct mw_hardware hardware = mw_nvme_hardware();
    struct mw_plan *plan = mw_nvme_plan(3000);
    struct mw_engine_options options = {.keep_timeline = true};
    struct mw_engine_result a, b;
    struct mw_costs costs;

    mw_costs_init(&costs, plan, &hardware);
    g_assert_true(mw_engine_run(plan, &costs, options, &a, NULL, 0));
    g_assert_true(mw_engine_run(plan, &costs, options, &b, NULL, 0));
    g_assert_cmpuint(a.reshares, >, 0);
    assert_same(&a, &b, plan);
    mw_engine_result_clear(&a);
    mw_engine_result_clear(&b);
    mw_costs_clear(&costs);
    mw_plan_free(plan);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/engine-random/reference", test_reference);
    g_test_add_func("/engine-random/bounds", test_bounds);
    g_test_add_func("/engine-random/same-twice", test_same_twice);
    return g_test_run();
}
