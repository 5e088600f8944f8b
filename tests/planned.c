#include "tests/planned.h"

#include "planner/settings/table.h"

static struct mw_hardware
roomy_dgx2(const struct planned *what)
{
    struct mw_profile *profile = mw_hwprofile_load("dgx2", NULL);
    struct mw_hardware hardware;

    if (!profile)
        g_error("no profile dgx2");
    hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    hardware.gpu_memory_bytes *= 2;
    hardware.host_memory_bytes *= 1000;
    hardware.host_largest_request_bytes *= 1000;
    hardware.nvme_capacity_bytes *= 1000;
    if (what->no_latency)
        hardware.nvme_latency_s = hardware.pcie_latency_s = 0;
    mw_profile_free(profile);
    return hardware;
}

static void
ask(const struct planned *what, struct mw_settings *settings)
{
    mw_settings_init(settings);
    settings->ops_max = INT64_C(1) << 60; /* benchmarks measure what nobody waits for */
    settings->strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    settings->micro_batch = what->micro_batch;
    settings->gpus_per_node = what->gpus;
    settings->unfold = what->unfold;
    if (what->prefetch &&
        !mw_setting_read(mw_setting_find("prefetch"), what->prefetch, false, settings, NULL))
        g_error("no prefetch of %s", what->prefetch);
    for (int state = MW_STATE_PARAMETERS; state <= MW_STATE_OPTIMIZER; state++)
        mw_placement_parse("nvme", NULL, &settings->placement[state], NULL);
}

struct mw_plan *
planned_new(struct planned what, struct mw_hardware *hardware)
{
    struct mw_settings asked, resolved;
    struct mw_model model;
    struct mw_request request = {&model, hardware};
    const struct mw_sizing *sizing;
    struct mw_plan *plan;

    *hardware = roomy_dgx2(&what);
    if (!mw_model_load("gpt3-175b", &model, NULL))
        g_error("no model gpt3-175b");
    model.layers = what.layers;
    ask(&what, &asked);
    if (!mw_settings_complete(&request, &asked, &resolved, NULL))
        g_error("settings do not resolve");
    GError *error = NULL;
    GPtrArray *candidates = mw_planner_candidates(&request, &resolved, &error);
    if (!candidates)
        g_error("%" G_GINT64_FORMAT " layers: %s", what.layers, error->message);
    sizing = candidates->pdata[0];
    if (!sizing->fits)
        g_error("%" G_GINT64_FORMAT " layers do not fit", what.layers);
    plan = mw_build_plan(sizing);
    g_ptr_array_unref(candidates);
    return plan;
}
