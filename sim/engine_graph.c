#include "sim/engine_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool
refuse(char *why, size_t why_size, const char *line)
{
    if (why_size > 0)
        snprintf(why, why_size, "%s", line);
    return false;
}

/* The number of ops of each work in one step. */
static void
count_uses(struct mw_engine_graph *graph)
{
    const struct mw_plan *plan = graph->plan;

    graph->work_uses = g_new0(uint64_t, plan->work_count);
    for (uint32_t i = 0; i < plan->op_count; i++)
        graph->work_uses[plan->ops[i].work] += (uint64_t)mw_plan_op_rounds(plan, i);
}

/* Checks that time does not overflow. */
static bool
check_time(const struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;
    int64_t total = 0, product;

    for (uint32_t w = 0; w < plan->work_count; w++) {
        if (engine->costs->work_ns[w] < 0 ||
            __builtin_mul_overflow(engine->costs->work_ns[w], engine->graph->work_uses[w],
                                   &product) ||
            __builtin_add_overflow(total, product, &total))
            return false;
    }
    return !__builtin_mul_overflow(total, engine->steps, &product) && product <= INT64_MAX / 4;
}

/* How much longer an op takes that has each of its channels alone. */
static double
stretch_of(const struct mw_engine *engine, const struct mw_work *work)
{
    const struct mw_costs *costs = engine->costs;
    double most = 1;

    for (uint32_t i = work->draw_begin; i < work->draw_begin + work->draw_count; i++) {
        const struct mw_draw *draw = &engine->plan->draws[i];
        most = fmax(most, costs->draw_rate[i] / costs->capacity[draw->channel] * draw->ranks);
    }
    return most;
}

/* The same with what channels add. */
static bool
check_shared_time(const struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;
    double total = 0;

    for (uint32_t w = 0; w < plan->work_count; w++)
        total += (double)engine->costs->work_ns[w] * (double)engine->graph->work_uses[w] *
                 stretch_of(engine, &plan->works[w]);
    return total * (double)engine->steps < (double)(INT64_MAX / 2);
}

static bool
check_rates(const struct mw_engine *engine)
{
    const struct mw_costs *costs = engine->costs;

    for (uint32_t i = 0; i < engine->plan->draw_count; i++) {
        double capacity = costs->capacity[engine->plan->draws[i].channel];
        double share = costs->draw_rate[i] == 0 ? 0 : costs->draw_rate[i] / capacity;

        if (!isfinite(share) || share < 0)
            return false;
    }
    return true;
}

static int64_t
place_of_number(const struct mw_engine_graph *graph, int64_t number, uint32_t *lane)
{
    struct mw_op_place place;

    if (!mw_plan_find_number(graph->plan, number, &place))
        return 0;
    *lane = graph->plan->ops[place.op].lane;
    return mw_lane_position(graph->plan, &graph->places, place);
}

static struct mw_wait
wait_of(struct mw_engine_graph *graph, uint32_t index)
{
    uint32_t dep = graph->plan->deps[index], number = MW_DEP_INDEX(dep), lane = 0;
    struct mw_wait wait = {.back = dep & MW_DEP_PREVIOUS_STEP ? 1 : 0};

    if (!graph->plan->section_count) {
        wait.lane = graph->plan->ops[number].lane;
        wait.done = (uint32_t)graph->places.first[number] + 1;
        return wait;
    }
    int64_t done = place_of_number(graph, number, &lane) + 1;
    wait.lane = lane;
    wait.done = (uint32_t)done;
    for (int level = 0; level < MW_SECTION_LEVELS; level++) {
        int32_t by = graph->plan->dep_strides[index].by[level];
        if (by)
            graph->wait_strides[index].by[level] =
                place_of_number(graph, (int64_t)number + by, &lane) + 1 - done;
    }
    return wait;
}

/* Ops of a lane end in order, so the number of ops that are done tells whether a given op is
 * done. */
static void
build_waits(struct mw_engine_graph *graph)
{
    graph->waits = g_new(struct mw_wait, graph->plan->dep_count);
    if (graph->plan->section_count)
        graph->wait_strides = g_new0(struct mw_wait_stride, graph->plan->dep_count);
    for (uint32_t i = 0; i < graph->plan->dep_count; i++)
        graph->waits[i] = wait_of(graph, i);
}

static void
list_ops(struct mw_engine_graph *graph)
{
    const struct mw_plan *plan = graph->plan;
    g_autofree uint32_t *next = g_new(uint32_t, plan->lane_count + 1);

    graph->lane_begin = g_new0(uint32_t, plan->lane_count + 1);
    graph->lane_ops = g_new(uint32_t, plan->op_count);
    for (uint32_t i = 0; i < plan->op_count; i++)
        graph->lane_begin[plan->ops[i].lane + 1]++;
    for (uint32_t l = 0; l < plan->lane_count; l++)
        graph->lane_begin[l + 1] += graph->lane_begin[l];
    memcpy(next, graph->lane_begin, (plan->lane_count + 1) * sizeof *next);
    for (uint32_t i = 0; i < plan->op_count; i++)
        graph->lane_ops[next[plan->ops[i].lane]++] = i;
}

/* Finds the op to which each lane goes back at the end of a round. */
static void
build_repeats(struct mw_engine_graph *graph)
{
    const struct mw_plan *plan = graph->plan;
    size_t cells = (size_t)plan->section_count * plan->lane_count;

    if (!plan->section_count)
        return;
    graph->repeats = g_new(uint32_t, plan->op_count);
    graph->section_first = g_new(uint32_t, cells);
    graph->section_last = g_new(uint32_t, cells);
    memset(graph->section_first, 0xff, cells * sizeof(uint32_t)); /* all MW_NONE */
    memset(graph->section_last, 0xff, cells * sizeof(uint32_t));
    for (uint32_t entry = 0; entry < plan->op_count; entry++) {
        uint32_t op = graph->lane_ops[entry], sections[MW_SECTION_LEVELS];
        int depth = mw_plan_sections_of(plan, op, sections);

        graph->repeats[entry] = depth ? sections[depth - 1] : MW_NONE;
        for (int level = 0; level < depth; level++) {
            size_t cell = (size_t)sections[level] * plan->lane_count + plan->ops[op].lane;
            if (graph->section_first[cell] == MW_NONE)
                graph->section_first[cell] = entry;
            graph->section_last[cell] = entry;
        }
    }
}

static bool
count_members(struct mw_engine_graph *graph)
{
    const struct mw_plan *plan = graph->plan;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t match = plan->ops[i].match;

        if (match == MW_NONE)
            continue;
        if (match >= plan->op_count)
            return false;
        graph->match_count = MAX(graph->match_count, match + 1);
    }
    graph->match_members = g_new0(uint32_t, graph->match_count);
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].match != MW_NONE)
            graph->match_members[plan->ops[i].match]++;
    return true;
}

struct mw_engine_graph *
mw_engine_graph_new(const struct mw_plan *plan, char *why, size_t why_size)
{
    struct mw_engine_graph *graph = g_new0(struct mw_engine_graph, 1);

    graph->plan = plan;
    if (!plan->checked || !count_members(graph)) {
        refuse(why, why_size,
               plan->checked ? "a match number is not below the number of ops"
                             : "the plan has not passed its check");
        mw_engine_graph_free(graph);
        return NULL;
    }
    count_uses(graph);
    graph->places = mw_lane_positions_new(plan);
    graph->step_ops = (uint64_t)mw_plan_unfolded_ops(plan);
    build_waits(graph);
    list_ops(graph);
    build_repeats(graph);
    mw_engine_find_periods(graph);
    return graph;
}

void
mw_engine_graph_free(struct mw_engine_graph *graph)
{
    if (!graph)
        return;
    g_free(graph->waits);
    g_free(graph->wait_strides);
    mw_lane_positions_clear(&graph->places);
    g_free(graph->lane_begin);
    g_free(graph->lane_ops);
    g_free(graph->repeats);
    g_free(graph->section_first);
    g_free(graph->section_last);
    g_free(graph->work_uses);
    g_free(graph->match_members);
    g_free(graph->periods);
    g_free(graph);
}

/* --- a run ------------------------------------------------------------------------------------ */

static void
begin_lanes(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;

    engine->lanes = g_new0(struct mw_lane_state, plan->lane_count);
    engine->lane_queue = g_new(uint32_t, plan->lane_count);
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        struct mw_lane_state *lane = &engine->lanes[l];

        lane->window_ops = plan->lanes[l].window_ops;
        lane->window_bytes = plan->lanes[l].window_bytes;
        lane->length = engine->graph->places.length[l];
        lane->waits_for = lane->first_waiter = MW_NONE;
        lane->begin = lane->next = engine->graph->lane_begin[l];
        lane->end = engine->graph->lane_begin[l + 1];
        lane->head = lane->begin < lane->end ? engine->graph->lane_ops[lane->begin] : MW_NONE;
    }
}

bool
mw_engine_prepare(struct mw_engine *engine, char *why, size_t why_size)
{
    if (!check_rates(engine))
        return refuse(why, why_size, "an op draws on a channel that has no capacity");
    if (!check_time(engine) || !check_shared_time(engine))
        return refuse(why, why_size, "time overflows: the ops' durations add up to over 73 years");
    engine->matches = g_new0(struct mw_match_state, engine->graph->match_count);
    begin_lanes(engine);
    mw_engine_rounds_init(engine);
    mw_engine_periods_init(engine);
    mw_engine_share_init(engine);
    engine->free_flow = MW_NONE;
    return true;
}

void
mw_engine_release(struct mw_engine *engine)
{
    mw_engine_share_clear(engine);
    mw_engine_periods_clear(engine);
    mw_engine_rounds_clear(engine);
    g_free(engine->lanes);
    g_free(engine->lane_queue);
    g_free(engine->flows);
    g_free(engine->matches);
}
