/* Threads of a run, all of which the system must let it have. */
#include "exec/host/thread.h"
#include "exec/trainer/internal.h"

#define DRIVE_THREADS 2 /* one reads, one writes */

/* Of a team that begins with the thread that has it. */
static int
others(int threads)
{
    return (threads ? threads : (int)g_get_num_processors()) - 1;
}

/* A lane's own; its team's, or whoever waits for its queue. */
static int
lane_threads(const struct mw_trainer_options *options, const struct mw_lane *lane)
{
    if (lane->kind == MW_LANE_HOST)
        return 1 + others(options->host_threads);
    if (lane->kind == MW_LANE_COMPUTE && !options->backend->apart)
        return 1 + others(options->device_threads);
    return options->backend->begin && lane->kind < MW_LANE_NVME_READ ? 2 : 1;
}

bool
mw_trainer_check_threads(const struct mw_trainer_options *options, GError **error)
{
    const struct mw_plan *plan = options->plan;
    g_autofree bool *used = g_new0(bool, plan->lane_count);
    int count = others(options->host_threads); /* starting values */

    if (plan->peak_bytes[MW_TIER_NVME])
        count += DRIVE_THREADS;
    for (uint32_t i = 0; i < plan->op_count; i++)
        used[plan->ops[i].lane] = true;
    for (uint32_t l = 0; l < plan->lane_count; l++)
        if (used[l])
            count += lane_threads(options, &plan->lanes[l]);
    return mw_thread_room(count, error);
}
