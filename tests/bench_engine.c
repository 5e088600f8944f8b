/*
 * Ops per second of the event engine, including its setup.  "planner": the plans of planned.h, with
 * more and more layers; "deep": the made-up plans of nvme_plan.h, whose drives have eight ops in
 * flight. --smoke: only the smallest of each.
 */
#include <stdio.h>
#include <string.h>

#include "sim/engine.h"
#include "tests/nvme_plan.h"
#include "tests/planned.h"

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
        double one_s = run_s(plan, &costs, &result); /* MIN reads its operands twice */
        best_s = MIN(best_s, one_s);
    }
    printf("%-8s %9u ops a step, 3 steps  %9.2f ms  %6.2f million ops/s  %.3f reshares an op\n",
           name, plan->op_count, best_s * 1e3, (double)result.ops_done / best_s * 1e-6,
           (double)result.reshares / (double)result.ops_done);
    fflush(stdout);
    mw_engine_result_clear(&result);
    mw_costs_clear(&costs);
}

static void
measure_planned(int64_t layers)
{
    struct mw_hardware hardware;
    struct mw_plan *plan =
        planned_new((struct planned){.layers = layers, .gpus = 16, .micro_batch = 1}, &hardware);

    measure("planner", plan, &hardware);
    mw_plan_free(plan);
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

    for (int64_t layers = 100; layers <= (smoke ? 100 : 100000); layers *= 10)
        measure_planned(layers);
    for (uint32_t ops = 10000; ops <= (smoke ? 10000 : 10000000); ops *= 10)
        measure_deep(ops);
    return 0;
}
