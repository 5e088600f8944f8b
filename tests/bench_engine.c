/*
 * Ops a second of the event engine.  "planner": what mw_build_plan makes of GPT-3 175B with more
 * and more layers and all state on NVMe, on a DGX-2 with as much memory as that takes; "deep": the
 * made-up plan of nvme_plan.h, whose drives have eight ops in flight.  Setting up is measured too.
 * --smoke: the smallest of each alone.
 */
#include <stdio.h>
#include <string.h>

#include "planner/planner.h"
#include "sim/engine.h"
#include "tests/nvme_plan.h"

#define ROUNDS 5

static double
run_s(const struct mw_plan *plan, const struct mw_costs *costs, struct mw_engine_result *result)
{
    struct mw_engine_options options = {.steps = 3};
    int64_t begin_us = g_get_monotonic_time();
    char why[160];

    if (!mw_engine_run(plan, costs, options, result, why, sizeof why))
        g_error("refused: %s", why);
    return (double)MAX(g_get_monotonic_time() - begin_us, 1) * 1e-6;
}

/* The best of a few rounds: the others shared the machine with something. */
static void
measure(const char *name, const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    struct mw_engine_result result = {0};
    struct mw_costs costs;
    double best_s = G_MAXDOUBLE;

    mw_costs_init(&costs, plan, hardware);
    for (int i = 0; i < ROUNDS; i++) {
        mw_engine_result_clear(&result);
        best_s = MIN(best_s, run_s(plan, &costs, &result));
    }
    printf("%-8s %9u ops a step, 3 steps  %9.2f ms  %6.2f million ops/s  %.3f reshares an op\n",
           name, plan->op_count, best_s * 1e3, (double)result.ops_done / best_s * 1e-6,
           (double)result.reshares / (double)result.ops_done);
    fflush(stdout);
    mw_engine_result_clear(&result);
    mw_costs_clear(&costs);
}

static struct mw_hardware
roomy_dgx2(void)
{
    struct mw_hwprofile *profile = mw_hwprofile_load("dgx2", NULL);
    struct mw_hardware hardware;

    if (!profile)
        g_error("no profile dgx2");
    hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    hardware.host_memory_bytes *= 1000;
    hardware.host_largest_request_bytes *= 1000;
    hardware.nvme_capacity_bytes *= 1000;
    mw_hwprofile_free(profile);
    return hardware;
}

static void
measure_planned(int64_t layers)
{
    struct mw_hardware hardware = roomy_dgx2();
    struct mw_settings asked, resolved;
    struct mw_model model;
    struct mw_request request = {&model, &hardware};
    struct mw_sizing *sizing;
    struct mw_plan *plan;

    if (!mw_model_load("gpt3-175b", &model, NULL))
        g_error("no model gpt3-175b");
    model.layers = layers;
    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    asked.micro_batch = 8;
    for (int state = MW_STATE_PARAMETERS; state <= MW_STATE_OPTIMIZER; state++)
        mw_placement_parse("nvme", NULL, &asked.placement[state], NULL);
    if (!mw_settings_resolve(&request, &asked, &resolved, NULL))
        g_error("settings do not resolve");
    GPtrArray *candidates = mw_planner_candidates(&request, &resolved, NULL);
    sizing = candidates->pdata[0];
    if (!sizing->fits)
        g_error("%" G_GINT64_FORMAT " layers do not fit", layers);
    plan = mw_build_plan(sizing);
    measure("planner", plan, &hardware);
    mw_plan_free(plan);
    g_ptr_array_unref(candidates);
}

static void
measure_deep(uint32_t ops)
{
    struct mw_hardware hardware = mw_nvme_hardware();
    struct mw_plan *plan = mw_nvme_plan(ops);

    measure("deep", plan, &hardware);
    mw_plan_free(plan);
}

int
main(int argc, char **argv)
{
    bool smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;

    for (int64_t layers = 24; layers <= (smoke ? 24 : 24000); layers *= 10)
        measure_planned(layers);
    for (uint32_t ops = 10000; ops <= (smoke ? 10000 : 10000000); ops *= 10)
        measure_deep(ops);
    return 0;
}
