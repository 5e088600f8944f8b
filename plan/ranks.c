/* Ranks, the programs that stand for them, and the communicators in which they meet. */
#include <stdio.h>

#include "plan/internal.h"

struct mw_members
mw_members_of_one(uint32_t rank)
{
    struct mw_members members = {.base = rank};

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        members.spans[axis].count = 1;
    return members;
}

static uint32_t
count(const struct mw_axis_span spans[MW_AXIS_COUNT])
{
    uint32_t ranks = 1;

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        ranks *= spans[axis].count;
    return ranks;
}

uint32_t
mw_members_count(const struct mw_members *members)
{
    return count(members->spans);
}

uint32_t
mw_plan_degree(const struct mw_plan *plan, enum mw_axis axis)
{
    uint32_t most = 1;

    if (axis == MW_AXIS_PP && plan->shape.replicas.stages)
        return plan->shape.replicas.stages;
    for (uint32_t c = 0; c < plan->comm_count; c++)
        if (plan->comms[c].spans[axis].count > most)
            most = plan->comms[c].spans[axis].count;
    return most;
}

uint32_t
mw_plan_updates(const struct mw_plan *plan)
{
    return plan->shape.asynchronous ? mw_plan_degree(plan, MW_AXIS_DP) : 1;
}

uint32_t
mw_members_at(const struct mw_members *members, uint32_t index)
{
    uint32_t rank = members->base;

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        rank += index % members->spans[axis].count * members->spans[axis].stride;
        index /= members->spans[axis].count;
    }
    return rank;
}

/* A span's stride is larger than the reach of all spans below it (mw_plan_spans_nest). */
bool
mw_members_have(const struct mw_members *members, uint32_t rank)
{
    if (rank < members->base)
        return false;
    rank -= members->base;
    for (int axis = MW_AXIS_COUNT; axis-- > 0;) {
        const struct mw_axis_span *span = &members->spans[axis];
        uint32_t steps = span->stride ? rank / span->stride : 0;
        rank -= (steps < span->count ? steps : span->count - 1) * span->stride;
    }
    return rank == 0;
}

bool
mw_plan_spans_nest(const struct mw_axis_span spans[MW_AXIS_COUNT], uint32_t world_ranks)
{
    uint64_t reach = 1; /* the last rank of the spans so far is below it */

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        const struct mw_axis_span *span = &spans[axis];
        if (!span->count || (span->count == 1) != (span->stride == 0) ||
            (span->count > 1 && span->stride < reach) ||
            (uint64_t)span->stride * (span->count - 1) >= world_ranks)
            return false;
        reach += (uint64_t)span->stride * (span->count - 1);
    }
    return reach <= world_ranks;
}

bool
mw_plan_spans_divide(const struct mw_axis_span spans[MW_AXIS_COUNT])
{
    uint64_t below = 1;

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        if (spans[axis].count == 1)
            continue;
        if (spans[axis].stride % below)
            return false;
        below = (uint64_t)spans[axis].stride * spans[axis].count;
    }
    return true;
}

struct mw_members
mw_comm_group(const struct mw_comm *comm, uint32_t rank)
{
    struct mw_members group = {.base = comm->single ? comm->first : rank};

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        const struct mw_axis_span *span = &comm->spans[axis];
        group.spans[axis] = *span;
        if (span->stride && !comm->single)
            group.base -= rank / span->stride % span->count * span->stride;
    }
    return group;
}

/* Groups of a communicator: all ranks are in one, or along its only axis those of the first ranks
 * whose group ends within the world. */
static uint32_t
count_groups(const struct mw_axis_span spans[MW_AXIS_COUNT], uint32_t world_ranks)
{
    uint32_t reach = 1, period = 1;

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        reach += spans[axis].stride * (spans[axis].count - 1);
        period = spans[axis].stride ? spans[axis].stride * spans[axis].count : period;
    }
    return world_ranks % period ? world_ranks + 1 - reach : world_ranks / count(spans);
}

/* Of one group alone, the most ranks that a node has of it. */
static uint32_t
ranks_in_one_node(const struct mw_plan *plan, const struct mw_comm *comm)
{
    struct mw_members group = mw_comm_group(comm, comm->first);
    uint32_t most = 0, here = 0, node = MW_NONE;

    for (uint32_t i = 0; i < mw_members_count(&group); i++) {
        uint32_t its = mw_members_at(&group, i) / plan->ranks_per_node;
        here = its == node ? here + 1 : 1;
        most = here > most ? here : most;
        node = its;
    }
    return most;
}

/* Along an axis, a node has as many ranks of a group as it has strides; and all of them, if it is
 * the only one. */
struct mw_comm_shape
mw_plan_comm_shape(const struct mw_plan *plan, uint32_t comm)
{
    const struct mw_axis_span *spans = plan->comms[comm].spans;
    struct mw_comm_shape shape = {.size = count(spans), .ranks_per_node = 1};

    if (plan->comms[comm].single) {
        shape.ranks_per_node = ranks_in_one_node(plan, &plan->comms[comm]);
        shape.groups_per_node = 1;
        return shape;
    }
    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        uint32_t strides = spans[axis].stride ? plan->ranks_per_node / spans[axis].stride : 0;
        uint32_t here = strides < spans[axis].count ? strides : spans[axis].count;
        shape.ranks_per_node *= here ? here : 1;
    }
    if (plan->world_ranks <= plan->ranks_per_node)
        shape.ranks_per_node = shape.size;
    uint32_t groups = count_groups(spans, plan->world_ranks);
    uint32_t most = plan->ranks_per_node / shape.ranks_per_node;
    shape.groups_per_node = most < groups ? most : groups;
    return shape;
}

uint32_t
mw_plan_program_of(const struct mw_plan *plan, uint32_t rank)
{
    for (uint32_t p = 0; p < plan->program_count; p++)
        if (mw_members_have(&plan->programs[p].ranks, rank))
            return p;
    return MW_NONE;
}

/* The index of a rank in its group (mw_members_at). */
static int64_t
index_in_group(const struct mw_members *group, uint32_t rank)
{
    int64_t index = 0, below = 1;

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++) {
        const struct mw_axis_span *span = &group->spans[axis];
        if (span->stride)
            index += below * ((rank - group->base) / span->stride % span->count);
        below *= span->count;
    }
    return index;
}

uint32_t
mw_work_peer(const struct mw_plan *plan, const struct mw_work *work, uint32_t rank)
{
    struct mw_members group = mw_comm_group(&plan->comms[work->comm], rank);
    int64_t size = mw_members_count(&group), index = index_in_group(&group, rank);
    int64_t hop = work->kind == MW_OP_RECV ? -(int64_t)work->hop : work->hop;

    return mw_members_at(&group, (uint32_t)(((index + hop) % size + size) % size));
}
