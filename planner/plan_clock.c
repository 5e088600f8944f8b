#include "planner/plan_clock.h"

#include <stdlib.h>
#include <string.h>

#include "planner/plan_internal.h"

static bool
is_serial(const struct mw_plan *plan, uint32_t lane)
{
    return plan->lanes[lane].window_ops == 1;
}

static uint32_t *
row(uint32_t *rows, const struct mw_plan_clock *clock, uint32_t op)
{
    return rows + (size_t)op * clock->width;
}

static void
raise_row(uint32_t *to, const uint32_t *from, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

static void
place_ops(struct mw_plan_clock *clock)
{
    const struct mw_plan *plan = clock->plan;

    clock->position = mw_plan_allocate(plan->op_count, sizeof *clock->position);
    clock->last = mw_plan_allocate(plan->lane_count, sizeof *clock->last);
    for (uint32_t lane = 0; lane < plan->lane_count; lane++)
        clock->last[lane] = MW_NONE;
    for (uint32_t op = 0; op < plan->op_count; op++) {
        uint32_t *last = &clock->last[plan->ops[op].lane];
        clock->position[op] = *last == MW_NONE ? 1 : clock->position[*last] + 1;
        *last = op;
    }
}

static int
compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Numbers the lanes that have ops within their rank.  False if there are too many. */
static bool
place_lanes(struct mw_plan_clock *clock)
{
    const struct mw_plan *plan = clock->plan;
    uint64_t *lanes = mw_plan_allocate(plan->lane_count, sizeof *lanes); /* rank, lane */
    uint32_t count = 0, column = 0;
    bool few = true;

    clock->rank_of_lane = mw_plan_allocate(plan->lane_count, sizeof *clock->rank_of_lane);
    clock->column = mw_plan_allocate(plan->lane_count, sizeof *clock->column);
    for (uint32_t i = 0; i < plan->lane_count; i++)
        if (clock->last[i] != MW_NONE)
            lanes[count++] = (uint64_t)plan->lanes[i].rank << 32 | i;
    if (count > 1)
        qsort(lanes, count, sizeof *lanes, compare_u64);
    for (uint32_t i = 0; i < count && few; i++) {
        bool same = i && lanes[i] >> 32 == lanes[i - 1] >> 32;

        column = same ? column + 1 : 0;
        clock->rank_count += !same;
        clock->rank_of_lane[(uint32_t)lanes[i]] = clock->rank_count - 1;
        clock->column[(uint32_t)lanes[i]] = (uint8_t)column;
        clock->width = column >= clock->width ? column + 1 : clock->width;
        few = column < MW_MAX_LANES_PER_RANK;
    }
    free(lanes);
    return few;
}

/* The rows of `started`: in topological order, so that what they are made of is there. */
static void
fill_started(struct mw_plan_clock *clock)
{
    const struct mw_plan *plan = clock->plan;
    const uint32_t **last = mw_plan_allocate(plan->lane_count, sizeof *last); /* row of a lane */

    clock->started = mw_plan_allocate((size_t)plan->op_count * clock->width, sizeof(uint32_t));
    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t index = clock->order[i];
        const struct mw_op *op = &plan->ops[index];
        uint32_t *mine = row(clock->started, clock, index);

        if (last[op->lane])
            memcpy(mine, last[op->lane], clock->width * sizeof *mine);
        for (uint32_t j = 0; j < op->dep_count; j++) {
            uint32_t dep = plan->deps[op->dep_begin + j];
            if (!(dep & MW_DEP_PREVIOUS_STEP) && plan->ops[dep].lane != op->lane)
                raise_row(mine, row(clock->started, clock, dep), clock->width);
        }
        mine[clock->column[op->lane]] = clock->position[index];
        last[op->lane] = mine;
    }
    free(last);
}

/* The order within a lane with a window of one op says as much as such a dependency. */
static bool
is_wanted(const struct mw_plan *plan, uint32_t op, uint32_t dep, uint32_t distance)
{
    uint32_t lane = plan->ops[op].lane;

    return (dep & MW_DEP_PREVIOUS_STEP) == distance &&
           !(plan->ops[MW_DEP_INDEX(dep)].lane == lane && is_serial(plan, lane));
}

static void
add_dependent(const struct mw_plan_clock *clock, struct mw_plan_dependents *dependents,
              uint32_t dep, uint32_t op)
{
    const struct mw_op *ops = clock->plan->ops;

    for (uint32_t i = dependents->begin[dep]; i < dependents->end[dep]; i++)
        if (ops[dependents->ops[i]].lane == ops[op].lane)
            return;
    dependents->ops[dependents->end[dep]++] = op;
}

/* `distance` is 0 or MW_DEP_PREVIOUS_STEP. */
static void
find_dependents(const struct mw_plan_clock *clock, struct mw_plan_dependents *dependents,
                uint32_t distance)
{
    const struct mw_plan *plan = clock->plan;
    uint32_t sum = 0;

    dependents->begin = mw_plan_allocate(plan->op_count, sizeof(uint32_t));
    dependents->end = mw_plan_allocate(plan->op_count, sizeof(uint32_t));
    dependents->ops = mw_plan_allocate(plan->dep_count, sizeof(uint32_t));
    for (uint32_t i = 0; i < plan->op_count; i++)
        for (uint32_t j = 0; j < plan->ops[i].dep_count; j++) {
            uint32_t dep = plan->deps[plan->ops[i].dep_begin + j];
            if (is_wanted(plan, i, dep, distance))
                dependents->end[MW_DEP_INDEX(dep)]++;
        }
    for (uint32_t i = 0; i < plan->op_count; i++) {
        dependents->begin[i] = sum;
        sum += dependents->end[i];
        dependents->end[i] = dependents->begin[i];
    }
    /* Within a lane the index says which op is earlier. */
    for (uint32_t i = 0; i < plan->op_count; i++)
        for (uint32_t j = 0; j < plan->ops[i].dep_count; j++) {
            uint32_t dep = plan->deps[plan->ops[i].dep_begin + j];
            if (is_wanted(plan, i, dep, distance))
                add_dependent(clock, dependents, MW_DEP_INDEX(dep), i);
        }
}

struct mw_plan_clock *
mw_plan_clock_new(const struct mw_plan *plan, const uint32_t *order)
{
    struct mw_plan_clock *clock = mw_plan_allocate(1, sizeof *clock);

    clock->plan = plan;
    clock->order = order;
    place_ops(clock);
    if (!place_lanes(clock)) {
        mw_plan_clock_free(clock);
        return NULL;
    }
    fill_started(clock);
    find_dependents(clock, &clock->same_step, 0);
    return clock;
}

/* The first op of a lane starts after the last one of the step before. */
static void
raise_previous(struct mw_plan_clock *clock, uint32_t index, const uint32_t *last)
{
    const struct mw_plan *plan = clock->plan;
    const struct mw_op *op = &plan->ops[index];
    uint32_t *mine = row(clock->started_previous, clock, index);

    raise_row(mine, last ? last : row(clock->started, clock, clock->last[op->lane]), clock->width);
    for (uint32_t j = 0; j < op->dep_count; j++) {
        uint32_t dep = plan->deps[op->dep_begin + j];
        bool previous = dep & MW_DEP_PREVIOUS_STEP;

        raise_row(
            mine,
            row(previous ? clock->started : clock->started_previous, clock, MW_DEP_INDEX(dep)),
            clock->width);
    }
}

void
mw_plan_clock_add_previous(struct mw_plan_clock *clock)
{
    const struct mw_plan *plan = clock->plan;
    const uint32_t **last = mw_plan_allocate(plan->lane_count, sizeof *last);

    find_dependents(clock, &clock->next_step, MW_DEP_PREVIOUS_STEP);
    clock->started_previous =
        mw_plan_allocate((size_t)plan->op_count * clock->width, sizeof(uint32_t));
    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t lane = plan->ops[clock->order[i]].lane;

        raise_previous(clock, clock->order[i], last[lane]);
        last[lane] = row(clock->started_previous, clock, clock->order[i]);
    }
    free(last);
}

static void
clear_dependents(struct mw_plan_dependents *dependents)
{
    free(dependents->begin);
    free(dependents->end);
    free(dependents->ops);
}

void
mw_plan_clock_free(struct mw_plan_clock *clock)
{
    if (!clock)
        return;
    free(clock->rank_of_lane);
    free(clock->column);
    free(clock->position);
    free(clock->last);
    free(clock->started);
    free(clock->started_previous);
    clear_dependents(&clock->same_step);
    clear_dependents(&clock->next_step);
    free(clock);
}

/* Whether some op that depends on `op` has started by what `row` says. */
static bool
dependent_started(const struct mw_plan_clock *clock, const struct mw_plan_dependents *dependents,
                  uint32_t op, const uint32_t *started)
{
    for (uint32_t i = dependents->begin[op]; i < dependents->end[op]; i++) {
        uint32_t dependent = dependents->ops[i];
        uint32_t lane = clock->plan->ops[dependent].lane;

        if (started[clock->column[lane]] >= clock->position[dependent])
            return true;
    }
    return false;
}

bool
mw_plan_clock_done_before(const struct mw_plan_clock *clock, uint32_t first, uint32_t second)
{
    const uint32_t *started = row(clock->started, clock, second);
    uint32_t lane = clock->plan->ops[first].lane;

    if (is_serial(clock->plan, lane) && started[clock->column[lane]] > clock->position[first])
        return true;
    return dependent_started(clock, &clock->same_step, first, started);
}

bool
mw_plan_clock_done_before_next(const struct mw_plan_clock *clock, uint32_t first, uint32_t second)
{
    const uint32_t *started = row(clock->started, clock, second);
    const uint32_t *previous = row(clock->started_previous, clock, second);
    uint32_t lane = clock->plan->ops[first].lane;
    uint32_t column = clock->column[lane];

    if (is_serial(clock->plan, lane) &&
        (started[column] || previous[column] > clock->position[first]))
        return true;
    return dependent_started(clock, &clock->same_step, first, previous) ||
           dependent_started(clock, &clock->next_step, first, started);
}
