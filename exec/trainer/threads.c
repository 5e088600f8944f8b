/* Checks that the system provides all threads that a run needs. */
#include "exec/host/thread.h"
#include "exec/trainer/internal.h"

#define DRIVE_THREADS 2 /* one reads, one writes */

/* Threads that a team starts besides the one that owns it. */
static int
others(int threads)
{
    return (threads ? threads : (int)g_get_num_processors()) - 1;
}

/* The lane's own thread, and its team's, or the one that waits for its queue. */
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
    int count = others(options->host_threads); /* the team that makes starting values */
    bool drives = false, late = false;
    int threads[MW_MAX_LANES_PER_RANK][MW_LANE_KIND_COUNT] = {{0}}; /* shared in the way of
                                                                     * crew.h */

    for (uint32_t v = 0; v < options->variants->plan_count; v++) {
        const struct mw_plan *plan = options->variants->plans[v];
        drives |= plan->peak_bytes[MW_TIER_NVME] > 0;
        late |= plan->shape.no_flush;
        for (uint32_t i = 0; i < plan->op_count; i++) {
            const struct mw_lane *lane = &plan->lanes[plan->ops[i].lane];
            threads[plan->ops[i].lane][lane->kind] = lane_threads(options, lane);
        }
    }
    for (int l = 0; l < MW_MAX_LANES_PER_RANK; l++)
        for (int kind = 0; kind < MW_LANE_KIND_COUNT; kind++)
            count += threads[l][kind];
    return mw_thread_can_start(count + (drives ? DRIVE_THREADS : 0) + late, error);
}
