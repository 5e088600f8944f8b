/* Delayed parameter update: the host's update runs beside the GPU's compute, and a step with it is
 * never slower than one without. */
#include <glib.h>

#include "tests/cases.h"
#include "tests/random_request.h"
#include "tests/simulated.h"

#define REQUESTS MW_CASES(3000)

static double
run_s(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    double seconds = (double)mw_test_step_ns(plan, sizing->hardware) * 1e-9;

    mw_plan_free(plan);
    return seconds;
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
ask(double micro_batch, int64_t dpu_start)
{
    struct mw_settings asked;

    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_OFFLOAD;
    asked.gpus_per_node = 1;
    asked.micro_batch = micro_batch;
    asked.dpu_start = dpu_start;
    return asked;
}

static double
step_s(const char *machine, const char *name, double micro_batch, int64_t dpu_start, bool overlap)
{
    struct mw_hardware hardware = test_hardware(machine);
    struct mw_model model;
    struct mw_request request = {&model, &hardware};
    struct mw_settings asked = ask(micro_batch, dpu_start);

    g_assert_true(mw_model_load(name, &model, NULL));
    asked.overlap = overlap;
    g_autoptr(GPtrArray) found = candidates(&request, &asked);
    return run_s(found->pdata[0]);
}

/* 2 billion parameters at 3.9 a nanosecond take 0.5 s; they return over 12 GB/s in 0.34 s. */
static void
test_gain(void)
{
    for (int overlap = 0; overlap < 2; overlap++) {
        double at_once_s = step_s("v100", "zo-2b", 8, MW_AUTO, overlap);
        double delayed_s = step_s("v100", "zo-2b", 8, 0, overlap);
        g_test_message("overlap %d: %.3f s, delayed %.3f s", overlap, at_once_s, delayed_s);
        g_assert_cmpfloat(delayed_s, <, at_once_s - 0.1);
    }
}

/* One sequence: the update of 10 billion parameters (28 B each over 163 GB/s at most, 3.9 a
 * nanosecond at least) outlasts forward, backward and either way of the link, and hides them. */
static void
test_small_batch(void)
{
    double delayed_s = step_s("dgx2", "zo-10b", 1, 0, true);

    g_test_message("%.3f s", delayed_s);
    g_assert_cmpfloat(delayed_s, >, 10e9 / 3.9e9);
    g_assert_cmpfloat(delayed_s, <, 1.1 * 10e9 / 3.9e9);
}

/* The same placement without the delay. */
static struct mw_sizing *
at_once(const struct random_request *request, const struct mw_sizing *delayed)
{
    struct mw_settings settings = delayed->settings;
    g_autoptr(GError) error = NULL;

    settings.dpu_start = MW_AUTO;
    struct mw_sizing *sizing =
        mw_sizing_new(&request->model, &request->hardware, &settings, &error);
    g_assert_no_error(error);
    return sizing;
}

/* States where ZeRO-Offload has them, chunks of a size that the planner chose. */
static void
delay(struct mw_settings *settings)
{
    settings->strategy = MW_STRATEGY_ZERO_OFFLOAD;
    settings->dpu_start = 0;
    settings->data_parallel = MW_DATA_PARALLEL_SYNC;
    settings->update_beside = false;
    settings->serialize = false;
    settings->optimizer_chunk = MW_AUTO;
    settings->placement[MW_STATE_OPTIMIZER].count = 0;
    settings->placement[MW_STATE_GRADIENTS].count = 0;
}

static int
compare(guint32 seed)
{
    struct random_request request;

    random_request_init(&request, seed);
    /* Where the update takes of the device's cores, it delays what it runs beside. */
    request.hardware.gpu_host_sm_share = 0;
    request.hardware.gpu_copy_sm_share = request.hardware.gpu_nvme_sm_share = 0;
    /* Of few trained parameters, the update that is hidden is shorter than a delayed one's ways. */
    request.settings.trained.frozen = 0;
    delay(&request.settings);
    random_request_name(&request);
    g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
    const struct mw_sizing *delayed = found ? found->pdata[0] : NULL;
    if (!delayed || !delayed->fits)
        return 0;
    struct mw_sizing *other = at_once(&request, delayed);
    double delayed_s = run_s(delayed), at_once_s = other->fits ? run_s(other) : G_MAXDOUBLE;
    mw_sizing_free(other);
    g_assert_cmpfloat(delayed_s, <=, 1.01 * at_once_s);
    return 1;
}

static void
test_never_slower(void)
{
    int compared = 0;

    for (guint32 seed = 0; seed < REQUESTS; seed++)
        compared += compare(seed);
    g_test_message("%d plans", compared);
    g_assert_cmpint(compared, >, REQUESTS / 4);
}

/* A durable step of state on NVMe: the gradients in host memory are written too, behind all else.
 * They go to one of two places. */
static void
test_durable(void)
{
    struct mw_hardware hardware = test_hardware("rtx4090");
    struct mw_model model;
    struct mw_request request = {&model, &hardware};
    struct mw_settings asked = ask(4, 0);
    double seconds[2];
    int64_t saves = 0, gradients = 0;

    g_assert_true(mw_model_load("gpt2", &model, NULL));
    g_assert_true(mw_placement_parse("nvme", NULL, &asked.placement[MW_STATE_OPTIMIZER], NULL));
    g_assert_true(mw_placement_parse("cpu", NULL, &asked.placement[MW_STATE_GRADIENTS], NULL));
    for (asked.commit = 0; asked.commit < 2; asked.commit++) {
        g_autoptr(GPtrArray) found = candidates(&request, &asked);
        const struct mw_sizing *sizing = found->pdata[0];
        seconds[asked.commit] = run_s(sizing);
        saves = sizing->ledger[MW_TIER_NVME][MW_PURPOSE_SAVES];
        gradients = sizing->ledger[MW_TIER_CPU][MW_PURPOSE_GRADIENTS];
        g_assert_cmpint(sizing->save_steps, ==, asked.commit);
        g_assert_true(asked.commit || !saves);
    }
    g_assert_cmpint(saves, ==, 2 * gradients);
    double written_s = (double)gradients / hardware.nvme_write_bytes_per_s;
    g_assert_cmpfloat(seconds[1], >, seconds[0] + 0.95 * written_s);
    g_assert_cmpfloat(seconds[1], <, seconds[0] + 1.05 * written_s + 1e-3);
}

static bool
waits_for(const struct mw_plan *plan, const struct mw_op *op, uint32_t other)
{
    for (uint32_t d = op->dep_begin; d < op->dep_begin + op->dep_count; d++)
        if (plan->deps[d] == other)
            return true;
    return false;
}

/* A part's share of the norm has one place.  Backward puts it there for gradients on their way to
 * the drives, where the update of this step may not have looked for that of the step before. */
static void
test_norms_in_order(void)
{
    struct mw_hardware hardware = test_hardware("rtx4090");
    struct mw_model model;
    struct mw_request request = {&model, &hardware};
    struct mw_settings asked = ask(4, 0);
    uint32_t agreed = MW_NONE, norms = 0;

    g_assert_true(mw_model_load("gpt2", &model, NULL));
    g_assert_true(mw_placement_parse("nvme", NULL, &asked.placement[MW_STATE_OPTIMIZER], NULL));
    g_assert_true(mw_placement_parse("nvme", NULL, &asked.placement[MW_STATE_GRADIENTS], NULL));
    g_autoptr(GPtrArray) found = candidates(&request, &asked);
    struct mw_plan *plan = mw_build_plan(found->pdata[0]);
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        enum mw_op_kind kind = plan->works[op->work].kind;

        if (kind == MW_OP_AGREE)
            agreed = o;
        if (kind != MW_OP_NORM || op->phase != MW_PHASE_BACKWARD)
            continue;
        g_assert_true(waits_for(plan, op, agreed));
        norms++;
    }
    g_assert_cmpuint(norms, >, 0);
    mw_plan_free(plan);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/delayed/gain", test_gain);
    g_test_add_func("/delayed/small-batch", test_small_batch);
    g_test_add_func("/delayed/durable", test_durable);
    g_test_add_func("/delayed/norms-in-order", test_norms_in_order);
    g_test_add_func("/delayed/never-slower", test_never_slower);
    return g_test_run();
}
