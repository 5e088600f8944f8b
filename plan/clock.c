#include "plan/clock.h"

#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

static uint32_t *
row(uint32_t *rows, const struct mw_plan_clock *clock, uint32_t op)
{
    return rows + (size_t)(op - clock->first_op) * clock->width;
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

    clock->position = mw_plan_allocate(clock->op_count, sizeof *clock->position);
    clock->last = mw_plan_allocate(plan->lane_count, sizeof *clock->last);
    for (uint32_t lane = 0; lane < plan->lane_count; lane++)
        clock->last[lane] = MW_NONE;
    for (uint32_t i = 0; i < clock->op_count; i++) {
        uint32_t *last = &clock->last[plan->ops[clock->first_op + i].lane];
        clock->position[i] = *last == MW_NONE ? 1 : mw_plan_clock_position(clock, *last) + 1;
        *last = clock->first_op + i;
    }
}

static int
compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Numbers the lanes with ops within each program.  Returns false if a program has too many. */
static bool
place_lanes(struct mw_plan_clock *clock)
{
    const struct mw_plan *plan = clock->plan;
    uint64_t *lanes = mw_plan_allocate(plan->lane_count, sizeof *lanes); /* bits of program and
                                                                          * lane */
    uint32_t count = 0, column = 0;
    bool few = true;

    clock->program_of_lane = mw_plan_allocate(plan->lane_count, sizeof *clock->program_of_lane);
    clock->column = mw_plan_allocate(plan->lane_count, sizeof *clock->column);
    for (uint32_t i = 0; i < plan->lane_count; i++)
        if (clock->last[i] != MW_NONE)
            lanes[count++] = (uint64_t)plan->lanes[i].program << 32 | i;
    if (count > 1)
        qsort(lanes, count, sizeof *lanes, compare_u64);
    for (uint32_t i = 0; i < count && few; i++) {
        bool same = i && lanes[i] >> 32 == lanes[i - 1] >> 32;

        column = same ? column + 1 : 0;
        clock->program_count += !same;
        clock->program_of_lane[(uint32_t)lanes[i]] = clock->program_count - 1;
        clock->column[(uint32_t)lanes[i]] = (uint8_t)column;
        clock->width = column >= clock->width ? column + 1 : clock->width;
        few = column < MW_MAX_LANES_PER_RANK;
    }
    free(lanes);
    return few;
}

static void
raise_entry(const struct mw_plan_clock *clock, uint32_t *row, uint32_t lane, uint32_t position)
{
    uint32_t *entry = &row[clock->column[lane]];

    *entry = position > *entry ? position : *entry;
}

/* The number of ops of a lane that are done when the lane has room for an op with `before` ops
 * before it. */
static uint32_t
done_before_issue(const struct mw_plan *plan, uint32_t lane, uint64_t before)
{
    uint32_t window = plan->lanes[lane].window_ops;

    return before >= window ? (uint32_t)(before - window + 1) : 0;
}

static void
raise_done(struct mw_plan_clock *clock, uint32_t index)
{
    const struct mw_plan *plan = clock->plan;
    const struct mw_op *op = &plan->ops[index];
    uint32_t *mine = row(clock->done, clock, index);

    raise_entry(clock, mine, op->lane,
                done_before_issue(plan, op->lane, mw_plan_clock_position(clock, index) - 1));
    for (uint32_t j = 0; j < op->dep_count; j++) {
        uint32_t dep = plan->deps[op->dep_begin + j];

        /* Who knows that an op is done knows all that was done when it started. */
        if ((dep & MW_DEP_PREVIOUS_STEP) ||
            mine[clock->column[plan->ops[dep].lane]] >= mw_plan_clock_position(clock, dep))
            continue;
        raise_row(mine, row(clock->done, clock, dep), clock->width);
        raise_entry(clock, mine, plan->ops[dep].lane, mw_plan_clock_position(clock, dep));
    }
}

/* Goes in topological order, so that the rows that a row is made from exist. */
static void
fill_done(struct mw_plan_clock *clock)
{
    const struct mw_plan *plan = clock->plan;
    const uint32_t **last = mw_plan_allocate(plan->lane_count, sizeof *last); /* the latest row of
                                                                               * each lane */

    clock->done = mw_plan_allocate((size_t)clock->op_count * clock->width, sizeof(uint32_t));
    for (uint32_t i = 0; i < clock->op_count; i++) {
        uint32_t index = clock->order[i], lane = plan->ops[index].lane;

        if (last[lane])
            memcpy(row(clock->done, clock, index), last[lane], clock->width * sizeof(uint32_t));
        raise_done(clock, index);
        last[lane] = row(clock->done, clock, index);
    }
    free(last);
}

struct mw_plan_clock *
mw_plan_clock_new(const struct mw_plan *plan, const uint32_t *order, uint32_t first_op,
                  uint32_t op_count)
{
    struct mw_plan_clock *clock = mw_plan_allocate(1, sizeof *clock);

    clock->plan = plan;
    clock->order = order;
    clock->first_op = first_op;
    clock->op_count = op_count;
    place_ops(clock);
    if (!place_lanes(clock)) {
        mw_plan_clock_free(clock);
        return NULL;
    }
    fill_done(clock);
    return clock;
}

/* The first op of a lane starts after the last op of the previous step. */
static void
raise_previous(struct mw_plan_clock *clock, uint32_t index, const uint32_t *last)
{
    const struct mw_plan *plan = clock->plan;
    const struct mw_op *op = &plan->ops[index];
    uint32_t *mine = row(clock->done_previous, clock, index);
    uint32_t of_step = mw_plan_clock_position(clock, clock->last[op->lane]);
    uint32_t done = done_before_issue(plan, op->lane,
                                      (uint64_t)of_step + mw_plan_clock_position(clock, index) - 1);

    raise_row(mine, last ? last : row(clock->done, clock, clock->last[op->lane]), clock->width);
    raise_entry(clock, mine, op->lane, done < of_step ? done : of_step);
    for (uint32_t j = 0; j < op->dep_count; j++) {
        uint32_t dep = MW_DEP_INDEX(plan->deps[op->dep_begin + j]);
        bool previous = plan->deps[op->dep_begin + j] & MW_DEP_PREVIOUS_STEP;

        raise_row(mine, row(previous ? clock->done : clock->done_previous, clock, dep),
                  clock->width);
        if (previous)
            raise_entry(clock, mine, plan->ops[dep].lane, mw_plan_clock_position(clock, dep));
    }
}

void
mw_plan_clock_add_previous(struct mw_plan_clock *clock)
{
    const struct mw_plan *plan = clock->plan;
    const uint32_t **last = mw_plan_allocate(plan->lane_count, sizeof *last);

    clock->done_previous =
        mw_plan_allocate((size_t)clock->op_count * clock->width, sizeof(uint32_t));
    for (uint32_t i = 0; i < clock->op_count; i++) {
        uint32_t lane = plan->ops[clock->order[i]].lane;

        raise_previous(clock, clock->order[i], last[lane]);
        last[lane] = row(clock->done_previous, clock, clock->order[i]);
    }
    free(last);
}

void
mw_plan_clock_free(struct mw_plan_clock *clock)
{
    if (!clock)
        return;
    free(clock->program_of_lane);
    free(clock->column);
    free(clock->position);
    free(clock->last);
    free(clock->done);
    free(clock->done_previous);
    free(clock);
}

/* If an op of the next step is done, all ops of its lane in this step are done. */
bool
mw_plan_clock_done_before_next(const struct mw_plan_clock *clock, uint32_t first, uint32_t second)
{
    uint32_t lane = clock->plan->ops[first].lane;

    return mw_plan_clock_done_of(clock->done, clock, lane, second) > 0 ||
           mw_plan_clock_done_of(clock->done_previous, clock, lane, second) >=
               mw_plan_clock_position(clock, first);
}
