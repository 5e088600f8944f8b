/* Makes the rows of a step obey the rule where a device's clock is off. */
#include "exec/lanes/internal.h"

/* The earliest time at which it may begin: its dependencies and the op before it in its lane have
 * ended. */
static int64_t
earliest_start_ns(const struct mw_lanes *lanes, const struct mw_timeline_row *rows,
                  const struct mw_op *op, int64_t lane_end_ns)
{
    int64_t earliest_ns = lane_end_ns;

    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = mw_plan_op_dep(lanes->plan, op, i), index = MW_DEP_INDEX(dep);
        int64_t end_ns =
            dep & MW_DEP_PREVIOUS_STEP ? lanes->last_end_ns[index] : rows[index].end_ns;
        earliest_ns = MAX(earliest_ns, end_ns);
    }
    return earliest_ns;
}

/* End of the lane's last op in the previous step. */
static int64_t
last_end_of_lane_ns(const struct mw_lanes *lanes, const struct mw_lanes_lane *lane)
{
    return lane->op_count ? lanes->last_end_ns[lane->ops[lane->op_count - 1]] : 0;
}

/* Times of ops that a device orders come from marks of its clock, which drifts between them.  So an
 * op may seem to start before the end of an op that it follows.  If the difference is within the
 * clocks' uncertainty, the start is moved to that end.  A larger difference stays, since no clock
 * explains it.  Returns false if nothing was moved. */
static bool
move_to_rule(const struct mw_lanes *lanes, struct mw_timeline_row *rows, int64_t *lane_end_ns)
{
    const struct mw_plan *plan = lanes->plan;
    bool moved = false;

    for (uint32_t l = 0; l < plan->lane_count; l++)
        lane_end_ns[l] = last_end_of_lane_ns(lanes, &lanes->lanes[l]);
    for (uint32_t i = 0; i < lanes->op_count; i++) {
        const struct mw_op op = mw_plan_numbered_op(plan, i);
        struct mw_timeline_row *row = &rows[i];
        int64_t earliest_ns = earliest_start_ns(lanes, rows, &op, lane_end_ns[op.lane]);
        int64_t early_ns = earliest_ns - row->start_ns;
        if (early_ns > 0 && early_ns <= MW_LANES_CLOCK_SLACK_NS) {
            row->start_ns = earliest_ns;
            row->end_ns = MAX(row->end_ns, row->start_ns);
            moved = true;
        }
        lane_end_ns[op.lane] = row->end_ns;
    }
    return moved;
}

/* An op may come before one that it depends on.  Each round gives at least one op its final row. */
void
mw_lanes_order_rows(const struct mw_lanes *lanes, struct mw_timeline_row *rows)
{
    g_autofree int64_t *lane_end_ns = g_new0(int64_t, lanes->plan->lane_count);
    uint32_t rounds = lanes->backend.queues ? lanes->op_count : 0;

    while (rounds && move_to_rule(lanes, rows, lane_end_ns))
        rounds--;
    for (uint32_t i = 0; i < lanes->op_count; i++)
        lanes->last_end_ns[i] = rows[i].end_ns;
}
