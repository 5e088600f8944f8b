/* Repetition said once: a plan with sections is the flat plan of the same step, and the engine,
 * which skips rounds that take their turns alike, gives the flat plan's times. */
#include <math.h>

#include "sim/engine.h"
#include "tests/random_request.h"

#define REQUESTS 400
#define OPS_MAX 60000

/* --- the same plan --------------------------------------------------------------------------- */

static void
assert_same_op(const struct mw_plan *a, const struct mw_plan *b, uint32_t index)
{
    const struct mw_op *x = &a->ops[index], *y = &b->ops[index];

    g_assert_cmpuint(x->work, ==, y->work);
    g_assert_cmpuint(x->lane, ==, y->lane);
    g_assert_cmpuint(x->phase, ==, y->phase);
    g_assert_cmpint(x->layer, ==, y->layer);
    g_assert_cmpuint(x->micro_batch, ==, y->micro_batch);
    g_assert_cmpuint(x->tile, ==, y->tile);
    g_assert_cmpuint(x->shard, ==, y->shard);
    g_assert_cmpuint(x->match, ==, y->match);
    g_assert_cmpuint(x->dep_count, ==, y->dep_count);
    g_assert_cmpuint(x->use_count, ==, y->use_count);
    for (uint32_t i = 0; i < x->dep_count; i++)
        g_assert_cmpuint(a->deps[x->dep_begin + i], ==, b->deps[y->dep_begin + i]);
    for (uint32_t i = 0; i < x->use_count; i++) {
        g_assert_cmpuint(a->uses[x->use_begin + i].slot, ==, b->uses[y->use_begin + i].slot);
        g_assert_cmpuint(a->uses[x->use_begin + i].mode, ==, b->uses[y->use_begin + i].mode);
        g_assert_cmpuint(a->uses[x->use_begin + i].role, ==, b->uses[y->use_begin + i].role);
    }
}

static void
assert_same_plan(const struct mw_plan *a, const struct mw_plan *b)
{
    g_assert_cmpuint(a->op_count, ==, b->op_count);
    g_assert_cmpuint(a->work_count, ==, b->work_count);
    g_assert_cmpint(a->shape.micro_batches, ==, b->shape.micro_batches);
    for (uint32_t i = 0; i < a->op_count; i++)
        assert_same_op(a, b, i);
}

/* --- the same times -------------------------------------------------------------------------- */

struct run {
    struct mw_costs costs;
    struct mw_engine_result result;
};

static struct run
run_new(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    struct run run;
    char why[256] = "";

    mw_costs_init(&run.costs, plan, hardware);
    mw_engine_run(plan, &run.costs, (struct mw_engine_options){0}, &run.result, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    return run;
}

static void
run_clear(struct run *run)
{
    mw_engine_result_clear(&run->result);
    mw_costs_clear(&run->costs);
}

static void
assert_same_times(const struct mw_plan *plan, const struct run *folded, const struct run *flat)
{
    const struct mw_engine_result *a = &folded->result, *b = &flat->result;

    g_assert_cmpuint(a->ops_done, ==, b->ops_done);
    if (a->rounds_by_mean) {
        g_assert_cmpfloat(fabs((double)(a->step_ns - b->step_ns)), <=, 1e-3 * (double)b->step_ns);
        return;
    }
    g_assert_cmpint(a->step_ns, ==, b->step_ns);
    g_assert_cmpint(a->first_step_ns, ==, b->first_step_ns);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        g_assert_cmpint(a->lane_busy_ns[l], ==, b->lane_busy_ns[l]);
    for (uint32_t c = 0; c < plan->channel_count; c++)
        g_assert_cmpfloat_with_epsilon(a->channel_busy_ns[c], b->channel_busy_ns[c],
                                       1e-9 * fabs(b->channel_busy_ns[c]) + 1e-9);
}

struct counts {
    int compared, folded, skipped, by_mean;
};

static void
compare(const struct mw_sizing *sizing, struct counts *counts)
{
    struct mw_plan *folded = mw_build_plan_folded(sizing), *flat = mw_build_plan(sizing);
    struct mw_plan *unfolded = mw_plan_unfold(folded, 0);

    assert_same_plan(unfolded, flat);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        g_assert_cmpint(folded->peak_bytes[tier], ==, flat->peak_bytes[tier]);
    g_assert_cmpint(folded->barriered, ==, flat->barriered);
    struct run a = run_new(folded, sizing->hardware), b = run_new(flat, sizing->hardware);
    assert_same_times(flat, &a, &b);
    counts->compared++;
    counts->folded += folded->section_count > 0;
    counts->skipped += a.result.rounds_skipped > 0;
    counts->by_mean += a.result.rounds_by_mean > 0;
    run_clear(&a);
    run_clear(&b);
    mw_plan_free(unfolded);
    mw_plan_free(folded);
    mw_plan_free(flat);
}

static void
test_random_requests(void)
{
    struct counts counts = {0};

    for (guint32 seed = 700000; counts.compared < REQUESTS; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        random_request_init(&request, seed);
        request.settings.unfold = false;
        request.settings.global_batch = MW_AUTO;
        request.settings.grad_accum = 12 + seed % 400;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || mw_sizing_op_count(sizing) > OPS_MAX)
            continue;
        random_request_name(&request);
        compare(sizing, &counts);
    }
    g_test_message("%d compared, %d folded, %d skipped rounds, %d by the mean", counts.compared,
                   counts.folded, counts.skipped, counts.by_mean);
    g_assert_cmpint(counts.folded, >=, counts.compared * 9 / 10);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sections/random-requests", test_random_requests);
    return g_test_run();
}
