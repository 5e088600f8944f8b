/* Until the first step: where a model is made, whether there is room for it, and how long it takes
 * (docs/MODEL.md 12.17 to 12.19). */
#include <glib.h>
#include <math.h>

#include "study/set_result.h"

/* On the GPU a parameter is written once as it is made, and read once as it goes where it lives. */
#define PASSES_ON_GPU 2

/* Where experts are spread, each rank makes its own alone. */
static double
params_of_rank(const struct mw_sizing *sizing)
{
    double params = 0;

    if (sizing->ep > 1) {
        for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage)
            params += (double)stage->params;
        return params / (double)sizing->pp;
    }
    return (double)mw_model_params(sizing->model) / (double)(sizing->tp * sizing->pp);
}

/* A whole model is made by each rank, unless its parameters are partitioned as it is made, or made
 * narrow as they are read. */
static bool
is_made_whole(const struct mw_sizing *sizing)
{
    return sizing->settings.frozen_dtype == MW_DTYPE_NONE &&
           !(sizing->hardware->start.partitions && sizing->params_partitioned);
}

/* Weights that nobody trains are read in the type in which they are kept. */
static double
bytes_per_param(const struct mw_sizing *sizing)
{
    double made = sizing->hardware->start.bytes_per_param;

    return sizing->settings.trained.rank ? fmin(made, (double)sizing->element_bytes) : made;
}

/* All ranks of a node at once: made in host memory, and copied to their GPUs. */
static double
host_s(const struct mw_sizing *sizing)
{
    const struct mw_hardware *hw = sizing->hardware;
    double params = params_of_rank(sizing), ranks = (double)sizing->ranks_per_node;
    double made_s = hw->start.params_per_s > 0 ? params / hw->start.params_per_s : 0;

    return made_s + ranks * params * (double)sizing->element_bytes / hw->pcie_node_h2d_bytes_per_s;
}

static double
gpu_s(const struct mw_sizing *sizing)
{
    return PASSES_ON_GPU * params_of_rank(sizing) * (double)sizing->element_bytes /
           sizing->hardware->gpu_memory_bytes_per_s;
}

/* Parameters and optimizer state go where they live. */
static double
homes_s(const struct mw_sizing *sizing)
{
    const struct mw_hardware *hw = sizing->hardware;
    double bytes[MW_TIER_COUNT];

    for (int t = 0; t < MW_TIER_COUNT; t++)
        bytes[t] = (double)sizing->ranks_per_node *
                   (double)(sizing->ledger[t][MW_PURPOSE_PARAMETERS] +
                            sizing->ledger[t][MW_PURPOSE_OPTIMIZER_STATE]);
    return bytes[MW_TIER_CPU] / hw->host_memory_bytes_per_s +
           (bytes[MW_TIER_NVME] > 0 ? bytes[MW_TIER_NVME] / hw->nvme_write_bytes_per_s : 0);
}

void
mw_result_set_start(const struct mw_sizing *sizing, struct mw_result_start *start)
{
    const struct mw_start_use *use = &sizing->hardware->start;
    bool whole = is_made_whole(sizing), on_gpu = !whole || use->made_on_gpu;
    enum mw_tier tier = on_gpu ? MW_TIER_GPU : MW_TIER_CPU;

    *start = (struct mw_result_start){.known = !whole || use->bytes_per_param > 0, .fits = true};
    if (!start->known)
        return;
    if (whole) {
        start->key = sizing->params_partitioned ? "partitions" : "bytes_per_parameter";
        start->made_in = on_gpu ? "gpu" : "host";
        start->bytes = (int64_t)(params_of_rank(sizing) * bytes_per_param(sizing));
        start->room_bytes = sizing->tiers[tier].capacity_bytes;
        start->fits = start->bytes <= start->room_bytes;
    }
    start->time_s = (on_gpu ? gpu_s(sizing) : host_s(sizing)) + homes_s(sizing);
}
