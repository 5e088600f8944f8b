/* A device that is the host's own cores: what runs on them takes turns. */
#include "sim/engine.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(300)

static bool
on_cores(const struct mw_work *work)
{
    return work->kind == MW_OP_COMPUTE || work->kind == MW_OP_UPDATE ||
           (work->host && (work->kind == MW_OP_NORM || work->kind == MW_OP_ACCUMULATE)) ||
           work->kind == MW_OP_H2D || work->kind == MW_OP_D2H;
}

/* Each takes all cores of its rank: a step is no shorter than all of them one after the other. */
static void
check_turns(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    g_autofree int64_t *sum_ns = g_new0(int64_t, plan->program_count);
    struct mw_engine_result result;
    struct mw_costs costs;
    char why[256] = "";

    mw_costs_init(&costs, plan, hardware);
    g_assert_true(
        mw_engine_run(plan, &costs, (struct mw_engine_options){0}, &result, why, sizeof why));
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        if (on_cores(&plan->works[op->work]))
            sum_ns[plan->lanes[op->lane].program] += costs.work_ns[op->work];
    }
    for (uint32_t r = 0; r < plan->program_count; r++)
        /* Durations are rounded up. */
        g_assert_cmpint(result.step_ns + plan->op_count, >=, sum_ns[r]);
    mw_engine_result_clear(&result);
    mw_costs_clear(&costs);
}

/* Cores of its own: host work draws on none of the device's. */
static void
check_apart(const struct mw_plan *plan)
{
    for (uint32_t w = 0; w < plan->work_count; w++) {
        const struct mw_work *work = &plan->works[w];
        bool pass = work->kind == MW_OP_UPDATE || work->kind == MW_OP_ACCUMULATE;
        bool device = work->kind == MW_OP_COMPUTE || (pass && !work->host) || work->comm != MW_NONE;
        for (uint32_t d = work->draw_begin; d < work->draw_begin + work->draw_count; d++)
            if (!device)
                g_assert_cmpint(plan->channels[plan->draws[d].channel].kind, !=, MW_CHANNEL_SM);
    }
}

static void
set_shares(struct mw_hardware *hardware, double share)
{
    hardware->gpu_host_sm_share = hardware->gpu_copy_sm_share = hardware->gpu_nvme_sm_share = share;
}

static void
check_request(struct random_request *request, double share, int *plans)
{
    set_shares(&request->hardware, share);
    request->hardware.pcie_latency_s = 0; /* in which cores are free */
    /* No op is made longer by what others leave of a node's channels. */
    request->hardware.host_memory_bytes_per_s = 1e15;
    request->hardware.pcie_node_h2d_bytes_per_s = 1e15;
    request->hardware.pcie_node_d2h_bytes_per_s = 1e15;
    g_autoptr(GPtrArray) found = random_request_candidates(request, NULL);
    for (guint i = 0; found && i < found->len; i++) {
        const struct mw_sizing *sizing = found->pdata[i];
        if (!sizing->fits || sizing->ranks_per_node > 1)
            continue;
        struct mw_plan *plan = mw_build_plan(sizing);
        if (share > 0)
            check_turns(plan, &request->hardware);
        else
            check_apart(plan);
        mw_plan_free(plan);
        ++*plans;
    }
}

static void
test_shares(gconstpointer share)
{
    int plans = 0;

    for (guint32 seed = 700000; plans < PLANS; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        check_request(&request, *(const double *)share, &plans);
    }
}

int
main(int argc, char **argv)
{
    static const double none = 0, all = 1;

    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/shared-cores/cores-apart", &none, test_shares);
    g_test_add_data_func("/shared-cores/turns", &all, test_shares);
    return g_test_run();
}
