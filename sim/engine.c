#include "sim/engine_internal.h"

#include <stdio.h>
#include <string.h>

/* Beyond this, a double resolves progress to less than a thousandth of the slack. */
#define PROGRESS_REBASE 1073741824.0

static void
queue_lane(struct mw_engine *engine, uint32_t index)
{
    if (!engine->lanes[index].queued) {
        engine->lanes[index].queued = true;
        engine->lane_queue[engine->lane_queue_count++] = index;
    }
}

static uint32_t
new_flow(struct mw_engine *engine)
{
    uint32_t flow = engine->free_flow;

    if (flow != MW_NONE) {
        engine->free_flow = engine->flows[flow].next;
        return flow;
    }
    if (engine->flow_count == engine->flows_allocated) {
        engine->flows_allocated = engine->flows_allocated ? 2 * engine->flows_allocated : 64;
        engine->flows = g_renew(struct mw_flow, engine->flows, engine->flows_allocated);
    }
    return engine->flow_count++;
}

/* Progress counts from the stream's first op.  A stream that never falls idle starts its count
 * over. */
void
mw_stream_rebase(struct mw_engine *engine, struct mw_stream *stream)
{
    for (uint32_t f = stream->queue.head, n = 0; n < stream->queue.count; n++) {
        engine->flows[f].finish -= stream->progress;
        f = engine->flows[f].next;
    }
    stream->progress = 0;
}

static void
join_stream(struct mw_engine *engine, uint32_t index, uint32_t flow)
{
    struct mw_stream *stream = &engine->streams[index];

    if (stream->queue.count == 0) {
        stream->progress = 0;
        stream->since_ns = engine->now_ns;
        if (stream->shared_count == 0)
            stream->speed = 1;
    } else {
        mw_stream_advance(stream, engine->now_ns);
        if (stream->progress > PROGRESS_REBASE)
            mw_stream_rebase(engine, stream);
    }
    engine->flows[flow].finish = stream->progress + (double)stream->work_ns;
    engine->flows[flow].place = MW_FLOW_MOVES;
    mw_flow_push(engine, &stream->queue, flow);
    mw_stream_touch(engine, index);
}

/* The op starts to use its channels. */
static void
move_flow(struct mw_engine *engine, uint32_t flow)
{
    uint32_t work = engine->plan->ops[engine->flows[flow].op].work;

    if (engine->streams[work].work_ns == 0)
        mw_flow_push(engine, &engine->instant, flow);
    else
        join_stream(engine, work, flow);
}

static void
arrive_at_match(struct mw_engine *engine, uint32_t index, uint32_t flow)
{
    struct mw_match_state *match = &engine->matches[index];
    struct mw_flow_queue *arrived = &match->arrived[engine->flows[flow].step % 2];

    mw_flow_push(engine, arrived, flow);
    engine->flows[flow].place = MW_FLOW_ARRIVED;
    if (arrived->count < engine->graph->match_members[index])
        return;
    while (arrived->count > 0) {
        uint32_t member = mw_flow_pop(engine, arrived);
        engine->flows[member].since_ns = engine->now_ns;
        move_flow(engine, member);
    }
}

/* The op's latency has passed. */
static void
end_latency(struct mw_engine *engine, uint32_t flow)
{
    uint32_t match = engine->plan->ops[engine->flows[flow].op].match;

    if (match == MW_NONE)
        move_flow(engine, flow);
    else
        arrive_at_match(engine, match, flow);
}

/* The op is now first in its lane. */
static void
take_turn(struct mw_engine *engine, uint32_t flow)
{
    struct mw_flow *f = &engine->flows[flow];

    f->since_ns = engine->now_ns;
    engine->lanes[f->lane].leading = flow;
    if (engine->rows && f->last_step)
        engine->rows[f->row].start_ns = engine->now_ns - engine->skipped_ns;
    if (f->ready_ns <= engine->now_ns) {
        end_latency(engine, flow);
        return;
    }
    f->place = MW_FLOW_LEADS;
    mw_heap_set(&engine->heap, engine->plan->work_count + f->lane, f->ready_ns);
}

/* In a plan without sections, an op's row is the one with its number. */
static uint32_t
new_row(struct mw_engine *engine, const struct mw_lane_state *lane, uint32_t op)
{
    struct mw_timeline_row row = {.op = op, .step = lane->step};

    if (!engine->rows || lane->step + 1 < engine->steps)
        return MW_NONE;
    for (int level = 0; level < MW_SECTION_LEVELS; level++)
        row.round[level] = lane->round[level];
    if (engine->plan->section_count && engine->row_count == engine->rows_allocated) {
        engine->rows_allocated *= 2;
        engine->rows = g_renew(struct mw_timeline_row, engine->rows, engine->rows_allocated);
    }
    uint32_t index = engine->plan->section_count ? engine->row_count : op;
    engine->row_count++;
    engine->rows[index] = row;
    return index;
}

static void
start_op(struct mw_engine *engine, uint32_t lane_index, uint32_t op_index)
{
    const struct mw_op *op = &engine->plan->ops[op_index];
    struct mw_lane_state *lane = &engine->lanes[lane_index];
    uint32_t flow = new_flow(engine);
    bool last_step = lane->step + 1 == engine->steps;

    engine->flows[flow] =
        (struct mw_flow){.op = op_index,
                         .lane = lane_index,
                         .step = lane->step,
                         .step_slot = lane->step_slot,
                         .last_step = last_step,
                         .row = new_row(engine, lane, op_index),
                         .ready_ns = engine->now_ns + engine->streams[op->work].lead_ns};
    lane->bytes += engine->streams[op->work].bytes;
    if (lane->in_flight++ == 0)
        take_turn(engine, flow);
    else
        mw_flow_push(engine, &lane->waiting, flow);
}

static bool
window_is_open(const struct mw_engine *engine, const struct mw_lane_state *lane)
{
    if (lane->in_flight == 0)
        return true;
    if (lane->in_flight >= lane->window_ops)
        return false;
    return lane->window_bytes == 0 || engine->streams[engine->plan->ops[lane->head].work].bytes <=
                                          lane->window_bytes - lane->bytes;
}

/* At the end of a round the lane goes back to its first op of the section. */
static bool
repeat(struct mw_engine *engine, uint32_t index, struct mw_lane_state *lane)
{
    const struct mw_plan *plan = engine->plan;
    uint32_t entry = lane->next, s = engine->graph->repeats[entry];

    while (s != MW_NONE &&
           engine->graph->section_last[(size_t)s * plan->lane_count + index] == entry) {
        const struct mw_section *section = &plan->sections[s];
        int level = section->parent == MW_NONE ? 0 : 1;
        bool again = ++lane->round[level] < section->rounds;

        mw_engine_end_round(engine, index, s, again);
        if (again) {
            lane->next = engine->graph->section_first[(size_t)s * plan->lane_count + index];
            return true;
        }
        lane->round[level] = 0;
        s = section->parent;
    }
    return false;
}

/* Hundreds of lanes each walk a row of their own, too many for the processor to foresee: asks now
 * for what the lane's next ops need.  Two ahead, as the next one's waits are found by its op.
 * Inlined by force: to the compiler a function that only prefetches does nothing. */
static inline __attribute__((always_inline)) void
prefetch_next(const struct mw_engine *engine, const struct mw_lane_state *lane)
{
    const struct mw_op *ops = engine->plan->ops;

    if (lane->next + 2 >= lane->end)
        return;
    __builtin_prefetch(&ops[engine->graph->lane_ops[lane->next + 2]]);
    __builtin_prefetch(&ops[engine->graph->lane_ops[lane->next + 2]].dep_begin);
    __builtin_prefetch(
        &engine->graph->waits[ops[engine->graph->lane_ops[lane->next + 1]].dep_begin]);
}

static void
next_op(struct mw_engine *engine, uint32_t index)
{
    struct mw_lane_state *lane = &engine->lanes[index];

    if (!engine->graph->repeats || !repeat(engine, index, lane))
        lane->next++;
    if (lane->next == lane->end) {
        lane->next = lane->begin;
        lane->step++;
        lane->step_slot = lane->step_slot + 1 == MW_STEP_SLOTS ? 0 : lane->step_slot + 1;
    }
    lane->head = lane->step < engine->steps ? engine->graph->lane_ops[lane->next] : MW_NONE;
    lane->waits_met = 0;
    engine->looks |= lane->next == engine->look_at;
    prefetch_next(engine, lane);
}

/* Whether the head's dependencies are done.  If not, the lane waits for the first that is not. */
static bool
head_is_ready(struct mw_engine *engine, uint32_t index)
{
    struct mw_lane_state *lane = &engine->lanes[index];
    const struct mw_op *op = &engine->plan->ops[lane->head];

    if (lane->waits_for != MW_NONE)
        return false;
    for (; lane->waits_met < op->dep_count; lane->waits_met++) {
        const struct mw_wait *wait = &engine->graph->waits[op->dep_begin + lane->waits_met];
        struct mw_lane_state *other = &engine->lanes[wait->lane];
        int64_t until = mw_wait_until(engine, lane, op->dep_begin + lane->waits_met);

        if (other->done >= until)
            continue;
        lane->waits_for = wait->lane;
        lane->waits_until = until;
        lane->next_waiter = other->first_waiter;
        other->first_waiter = index;
        return false;
    }
    return true;
}

static void
run_lane(struct mw_engine *engine, uint32_t index)
{
    struct mw_lane_state *lane = &engine->lanes[index];

    lane->queued = false;
    while (lane->head != MW_NONE && lane->step < engine->steps_done + 2 &&
           head_is_ready(engine, index) && window_is_open(engine, lane)) {
        start_op(engine, index, lane->head);
        next_op(engine, index);
    }
}

/* Ends every step whose ops, and whose previous step, are done. */
static void
end_steps(struct mw_engine *engine)
{
    uint64_t *done = engine->done_in;

    while (done[engine->steps_done % MW_STEP_SLOTS] == engine->graph->step_ops) {
        done[engine->steps_done % MW_STEP_SLOTS] = 0;
        if (engine->steps_done++ == 0)
            engine->first_end_ns = engine->now_ns;
        engine->previous_end_ns = engine->last_end_ns;
        engine->last_end_ns = engine->now_ns;
        for (uint32_t l = 0; l < engine->plan->lane_count; l++)
            queue_lane(engine, l);
    }
}

/* Wakes the lanes that wait for this one; the lane has done one more op. */
static void
wake_waiters(struct mw_engine *engine, struct mw_lane_state *lane)
{
    uint32_t *from = &lane->first_waiter;

    while (*from != MW_NONE) {
        uint32_t index = *from;
        struct mw_lane_state *waiter = &engine->lanes[index];

        if (waiter->waits_until > lane->done) {
            from = &waiter->next_waiter;
            continue;
        }
        *from = waiter->next_waiter;
        waiter->waits_for = MW_NONE;
        queue_lane(engine, index);
    }
}

static void
complete_flow(struct mw_engine *engine, uint32_t flow)
{
    struct mw_flow *f = &engine->flows[flow];
    struct mw_lane_state *lane = &engine->lanes[f->lane];
    uint32_t op = f->op, slot = f->step_slot;

    if (f->last_step)
        lane->busy_ns += engine->now_ns - f->since_ns;
    if (f->last_step && engine->rows) {
        engine->rows[f->row].end_ns = engine->now_ns - engine->skipped_ns;
        engine->rows[f->row].skipped_ns = engine->skipped_ns;
        if (engine->ended_rows)
            g_array_append_val(engine->ended_rows, f->row);
    }
    lane->in_flight--;
    lane->bytes -= engine->streams[engine->plan->ops[op].work].bytes;
    queue_lane(engine, f->lane);
    f->next = engine->free_flow;
    engine->free_flow = flow;
    if (lane->waiting.count > 0)
        take_turn(engine, mw_flow_pop(engine, &lane->waiting));
    lane->done++;
    wake_waiters(engine, lane);
    engine->ops_done++;
    if (++engine->done_in[slot] == engine->graph->step_ops)
        end_steps(engine);
}

/* Finishes a flow that has moved all its bytes.  A collective is done when all its members have. */
static void
finish_flow(struct mw_engine *engine, uint32_t flow)
{
    uint32_t index = engine->plan->ops[engine->flows[flow].op].match;
    struct mw_flow_queue *finished;

    if (index == MW_NONE) {
        complete_flow(engine, flow);
        return;
    }
    finished = &engine->matches[index].finished[engine->flows[flow].step % 2];
    mw_flow_push(engine, finished, flow);
    engine->flows[flow].place = MW_FLOW_FINISHED;
    if (finished->count < engine->graph->match_members[index])
        return;
    while (finished->count > 0)
        complete_flow(engine, mw_flow_pop(engine, finished));
}

/* Runs everything that can happen at this instant. */
static void
drain(struct mw_engine *engine)
{
    for (;;) {
        if (engine->instant.count > 0)
            finish_flow(engine, mw_flow_pop(engine, &engine->instant));
        else if (engine->lane_queue_count > 0)
            run_lane(engine, engine->lane_queue[--engine->lane_queue_count]);
        else
            return;
    }
}

/* The stream's head is done.  So are the ops after it with equal progress. */
static void
fire_stream(struct mw_engine *engine, uint32_t index)
{
    struct mw_stream *stream = &engine->streams[index];

    mw_stream_advance(stream, engine->now_ns);
    stream->scheduled_head = MW_NONE;
    mw_stream_touch(engine, index);
    do
        mw_flow_push(engine, &engine->instant, mw_flow_pop(engine, &stream->queue));
    while (stream->queue.count > 0 &&
           engine->flows[stream->queue.head].finish - stream->progress <= MW_PROGRESS_SLACK);
}

static void
fire(struct mw_engine *engine, uint32_t item)
{
    uint32_t works = engine->plan->work_count;

    if (item < works)
        fire_stream(engine, item);
    else
        end_latency(engine, engine->lanes[item - works].leading);
}

void
mw_engine_run_lanes(struct mw_engine *engine)
{
    for (uint32_t l = 0; l < engine->plan->lane_count; l++)
        queue_lane(engine, l);
    drain(engine);
    mw_engine_update_rates(engine);
}

static void
run(struct mw_engine *engine)
{
    mw_engine_run_lanes(engine);
    while (engine->heap.count > 0) {
        engine->now_ns = engine->heap.entries[0].time_ns;
        while (engine->heap.count > 0 && engine->heap.entries[0].time_ns == engine->now_ns)
            fire(engine, mw_heap_pop(&engine->heap));
        drain(engine);
        mw_engine_update_rates(engine);
        if (engine->round_of != MW_NONE)
            mw_engine_look_back(engine);
        if (engine->looks)
            mw_engine_look_for_period(engine);
    }
}

/* Checks that every op of every step ran; if not, says where the plan is stuck. */
static bool
check_end(const struct mw_engine *engine, char *why, size_t why_size)
{
    if (engine->steps_done == engine->steps)
        return true;
    for (uint32_t l = 0; l < engine->plan->lane_count; l++) {
        const struct mw_lane_state *lane = &engine->lanes[l];

        if (lane->head == MW_NONE && lane->in_flight == 0)
            continue;
        if (why_size > 0)
            snprintf(
                why, why_size,
                "deadlock: lane %u (%s of program %u) is stuck in step %u before op %d, with %u "
                "ops in flight",
                l, mw_lane_kind_name(engine->plan->lanes[l].kind), engine->plan->lanes[l].program,
                lane->step + 1, (int)lane->head, lane->in_flight);
        return false;
    }
    return false;
}

static void
fill_result(struct mw_engine *engine, struct mw_engine_result *result)
{
    const struct mw_plan *plan = engine->plan;

    result->first_step_ns = engine->first_end_ns;
    result->step_ns = engine->last_end_ns - engine->previous_end_ns;
    result->ops_done = engine->ops_done;
    result->reshares = engine->reshares;
    result->lane_busy_ns = g_new(int64_t, plan->lane_count);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        result->lane_busy_ns[l] = engine->lanes[l].busy_ns;
    result->channel_busy_ns = g_new(double, plan->channel_count);
    mw_engine_channels_busy(engine, result->channel_busy_ns);
    result->rounds_skipped = engine->rounds_skipped;
    result->rounds_by_mean = engine->rounds_by_mean;
    result->ops_repeated = engine->ops_repeated;
    result->period_ns = engine->period_ns;
    result->period_micro_batches = engine->period_micro_batches;
    result->timeline.rows = engine->rows;
    result->timeline.row_count = engine->rows ? engine->row_count : 0;
    engine->rows = NULL;
}

bool
mw_engine_run_graph(const struct mw_engine_graph *graph, const struct mw_costs *costs,
                    struct mw_engine_options options, struct mw_engine_result *result, char *why,
                    size_t why_size)
{
    const struct mw_plan *plan = graph->plan;
    struct mw_engine engine = {
        .graph = graph, .plan = plan, .costs = costs, .steps = options.steps};

    memset(result, 0, sizeof *result);
    if (engine.steps == 0)
        engine.steps = plan->barriered ? 1 : 3;
    engine.skip_nothing = options.skip_nothing;
    bool ok = mw_engine_prepare(&engine, why, why_size);
    if (ok) {
        if (options.keep_timeline) {
            engine.rows_allocated = MAX(1, plan->op_count);
            engine.rows = g_new0(struct mw_timeline_row, engine.rows_allocated);
        }
        if (plan->op_count > 0)
            run(&engine);
        ok = plan->op_count == 0 || check_end(&engine, why, why_size);
    }
    if (ok)
        fill_result(&engine, result);
    g_free(engine.rows);
    mw_engine_release(&engine);
    return ok;
}

bool
mw_engine_run(const struct mw_plan *plan, const struct mw_costs *costs,
              struct mw_engine_options options, struct mw_engine_result *result, char *why,
              size_t why_size)
{
    struct mw_engine_graph *graph = mw_engine_graph_new(plan, why, why_size);
    bool ok = graph && mw_engine_run_graph(graph, costs, options, result, why, why_size);

    if (!graph)
        memset(result, 0, sizeof *result);
    mw_engine_graph_free(graph);
    return ok;
}

void
mw_engine_result_clear(struct mw_engine_result *result)
{
    g_free(result->lane_busy_ns);
    g_free(result->channel_busy_ns);
    g_free(result->timeline.rows);
    memset(result, 0, sizeof *result);
}
