#include "cli/run/unite.h"

#include "report/compare.h"

static struct mw_measured_rank
blank_rank(const struct mw_plan *plan)
{
    size_t rows = (size_t)mw_plan_unfolded_ops(plan);

    return (struct mw_measured_rank){
        .lane_count = plan->lane_count,
        .busy_ns = g_new0(int64_t, plan->lane_count + 1),
        .exposed_ns = g_new0(int64_t, plan->lane_count + 1),
        .timeline = {g_new0(struct mw_timeline_row, rows), rows},
    };
}

/* Sends one rank's measurement to all: the first rank is the one that needs it. */
static bool
broadcast_rank(struct mw_ranks *ranks, struct mw_measured_rank *rank, int root, GError **error)
{
    int64_t lane_bytes = rank->lane_count * (int64_t)sizeof(int64_t);
    int64_t row_bytes = (int64_t)(rank->timeline.row_count * sizeof *rank->timeline.rows);

    return mw_ranks_broadcast(ranks, 0, rank->busy_ns, lane_bytes, root, error) &&
           mw_ranks_broadcast(ranks, 0, rank->exposed_ns, lane_bytes, root, error) &&
           mw_ranks_broadcast(ranks, 0, rank->timeline.rows, row_bytes, root, error);
}

bool
cli_unite_ranks(struct mw_measured *measured, const struct mw_plan *plan, struct mw_ranks *ranks,
                GError **error)
{
    int64_t step = measured->seen ? mw_measured_typical(measured)->step : -1;
    int count = mw_ranks_count(ranks), own = mw_ranks_index(ranks);

    if (count == 1 || step < 0)
        return true;
    if (!mw_ranks_broadcast(ranks, 0, &step, sizeof step, 0, error))
        return false;
    for (int root = 1; root < count; root++) {
        struct mw_measured_rank rank =
            root == own ? mw_compare_rank(plan, measured, step) : blank_rank(plan);
        if (!broadcast_rank(ranks, &rank, root, error))
            return false; /* it is kept: messages may still be in flight */
        if (own == 0)
            mw_measured_add_rank(measured, &rank);
        else
            mw_measured_rank_clear(&rank);
    }
    return true;
}
