/* An update beside backward: chunks are updated while gradients of earlier layers are computed, and
 * what a step takes grows by no more than what the two then share. */
#include <glib.h>

#include "tests/cases.h"
#include "tests/random_request.h"
#include "tests/simulated.h"

#define REQUESTS MW_CASES(2000)

static int64_t
step_ns(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    int64_t ns = mw_test_step_ns(plan, sizing->hardware);

    mw_plan_free(plan);
    return ns;
}

static GPtrArray *
candidates(const struct mw_request *request, const struct mw_settings *asked)
{
    struct mw_settings resolved;
    g_autoptr(GError) error = NULL;

    g_assert_true(mw_settings_complete(request, asked, &resolved, &error));
    GPtrArray *found = mw_planner_candidates(request, &resolved, &error);
    g_assert_no_error(error);
    return found;
}

static struct mw_settings
ask(bool beside)
{
    struct mw_settings asked;

    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    asked.gpus_per_node = 1;
    asked.micro_batch = 8;
    asked.commit = 0;
    asked.update_beside = beside;
    g_assert_true(mw_placement_parse("nvme", NULL, &asked.placement[MW_STATE_OPTIMIZER], NULL));
    g_assert_true(mw_placement_parse("cpu", NULL, &asked.placement[MW_STATE_GRADIENTS], NULL));
    return asked;
}

/* An op that does not come after another by any path may run before it. */
static bool
comes_after(const struct mw_plan *plan, uint32_t op, uint32_t other)
{
    g_autofree bool *after = g_new0(bool, plan->op_count);
    g_autofree uint32_t *last = g_new(uint32_t, plan->lane_count);

    for (uint32_t l = 0; l < plan->lane_count; l++)
        last[l] = MW_NONE;
    after[other] = true;
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *it = &plan->ops[o];
        if (last[it->lane] != MW_NONE)
            after[o] |= after[last[it->lane]];
        for (uint32_t d = it->dep_begin; d < it->dep_begin + it->dep_count; d++)
            if (!(plan->deps[d] & MW_DEP_PREVIOUS_STEP))
                after[o] |= after[plan->deps[d]];
        last[it->lane] = o;
    }
    return after[op];
}

static uint32_t
find_last(const struct mw_plan *plan, enum mw_op_kind kind, enum mw_phase phase)
{
    uint32_t found = MW_NONE;

    for (uint32_t o = 0; o < plan->op_count; o++)
        if (plan->works[plan->ops[o].work].kind == kind && plan->ops[o].phase == phase)
            found = o;
    return found;
}

static uint32_t
find_first(const struct mw_plan *plan, enum mw_op_kind kind)
{
    uint32_t o = 0;

    while (o < plan->op_count && plan->works[plan->ops[o].work].kind != kind)
        o++;
    return o < plan->op_count ? o : MW_NONE;
}

/* The first update waits for no more than its own gradients, the last one for all of backward; and
 * nobody takes a norm. */
static void
test_order(void)
{
    for (int beside = 0; beside < 2; beside++) {
        struct mw_hardware hardware = test_hardware("rtx4090");
        struct mw_model model;
        struct mw_request request = {&model, &hardware};
        struct mw_settings asked = ask(beside);

        g_assert_true(mw_model_load("gpt2-xl", &model, NULL));
        g_autoptr(GPtrArray) found = candidates(&request, &asked);
        struct mw_plan *plan = mw_build_plan(found->pdata[0]);
        uint32_t backward = find_last(plan, MW_OP_COMPUTE, MW_PHASE_BACKWARD);
        uint32_t first = find_first(plan, MW_OP_UPDATE);
        uint32_t last = find_last(plan, MW_OP_UPDATE, MW_PHASE_OPTIMIZER);
        g_assert_cmpint(plan->shape.updates_beside, ==, beside);
        g_assert_cmpint(comes_after(plan, first, backward), ==, !beside);
        g_assert_true(comes_after(plan, last, backward));
        g_assert_cmpint(find_first(plan, MW_OP_NORM) == MW_NONE, ==, beside);
        mw_plan_free(plan);
    }
}

/* One drive is busy with the state for most of the step: backward is hidden behind that. */
static void
test_gain(void)
{
    int64_t ns[2];

    for (int beside = 0; beside < 2; beside++) {
        struct mw_hardware hardware = test_hardware("rtx4090");
        struct mw_model model;
        struct mw_request request = {&model, &hardware};
        struct mw_settings asked = ask(beside);

        g_assert_true(mw_model_load("gpt2-xl", &model, NULL));
        g_autoptr(GPtrArray) found = candidates(&request, &asked);
        ns[beside] = step_ns(found->pdata[0]);
    }
    g_test_message("%.3f s, beside backward %.3f s", (double)ns[0] * 1e-9, (double)ns[1] * 1e-9);
    g_assert_cmpint(ns[1], <, ns[0]);
}

/* The step beside backward over that with the update at its end; 0: no such plan. */
static double
compare(guint32 seed)
{
    struct random_request request;

    random_request_init(&request, seed);
    request.hardware.gpu_host_sm_share = 0;
    request.hardware.gpu_copy_sm_share = request.hardware.gpu_nvme_sm_share = 0;
    request.settings.dpu_start = MW_AUTO;
    request.settings.overlap = true;
    request.settings.serialize = false;
    request.settings.update_beside = true;
    random_request_name(&request);
    g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
    const struct mw_sizing *beside = found ? found->pdata[0] : NULL;
    if (!beside || !beside->fits)
        return 0;
    struct mw_settings settings = beside->settings;
    settings.update_beside = false;
    struct mw_sizing *end = mw_sizing_new(&request.model, &request.hardware, &settings, NULL);
    g_assert_nonnull(end);
    g_assert_cmpint(end->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS], >=,
                    beside->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS]);
    double ratio = end->fits ? (double)step_ns(beside) / (double)step_ns(end) : 0;
    mw_sizing_free(end);
    return ratio;
}

/* An update takes from links and drives that backward needs just then, and lanes keep their order:
 * so single steps become longer (Graham, SIAM J. Appl. Math. 17(2), 1969), but few, and not by
 * much. */
static void
test_seldom_slower(void)
{
    int compared = 0, slower = 0;
    double sum = 0;

    for (guint32 seed = 0; seed < REQUESTS; seed++) {
        double ratio = compare(seed);
        compared += ratio > 0;
        slower += ratio > 1.02;
        sum += ratio;
        g_assert_cmpfloat(ratio, <, 1.25);
    }
    g_test_message("%d plans, mean %.3f of the step, %d slower", compared, sum / compared, slower);
    g_assert_cmpint(compared, >, REQUESTS / 4);
    g_assert_cmpint(slower * 25, <, compared);
    g_assert_cmpfloat(sum, <, 0.98 * compared);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/beside/order", test_order);
    g_test_add_func("/beside/gain", test_gain);
    g_test_add_func("/beside/seldom-slower", test_seldom_slower);
    return g_test_run();
}
