#include "sim/engine_internal.h"

#include <stdio.h>
#include <string.h>

/* Beyond this a double holds progress to less than a thousandth of the slack. */
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
    if (engine->flow_count == engine->flow_room) {
        engine->flow_room = engine->flow_room ? 2 * engine->flow_room : 64;
        engine->flows = g_renew(struct mw_flow, engine->flows, engine->flow_room);
    }
    return engine->flow_count++;
}

/* Progress counts from the stream's first op; a stream that never falls idle starts over. */
static void
rebase_stream(struct mw_engine *engine, struct mw_stream *stream)
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
            rebase_stream(engine, stream);
    }
    engine->flows[flow].finish = stream->progress + (double)stream->work_ns;
    mw_flow_push(engine, &stream->queue, flow);
    mw_stream_touch(engine, index);
}

/* From here on the op uses its channels. */
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
    if (arrived->count < match->members)
        return;
    while (arrived->count > 0) {
        uint32_t member = mw_flow_pop(engine, arrived);
        engine->flows[member].since_ns = engine->now_ns;
        move_flow(engine, member);
    }
}

/* Its latency is behind it. */
static void
go_on(struct mw_engine *engine, uint32_t flow)
{
    uint32_t match = engine->plan->ops[engine->flows[flow].op].match;

    if (match == MW_NONE)
        move_flow(engine, flow);
    else
        arrive_at_match(engine, match, flow);
}

/* Nothing stands before it in its lane any more. */
static void
take_turn(struct mw_engine *engine, uint32_t flow)
{
    struct mw_flow *f = &engine->flows[flow];

    f->since_ns = engine->now_ns;
    if (engine->rows && f->last_step)
        engine->rows[f->op] =
            (struct mw_timeline_row){.op = f->op, .step = f->step, .start_ns = engine->now_ns};
    if (f->ready_ns <= engine->now_ns) {
        go_on(engine, flow);
        return;
    }
    engine->lanes[f->lane].leading = flow;
    mw_heap_set(&engine->heap, engine->plan->work_count + f->lane, f->ready_ns);
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
                         .ready_ns = engine->now_ns + engine->streams[op->work].lead_ns};
    engine->pending[lane->step_slot][op_index] = op->dep_count; /* of the step three on */
    lane->bytes += engine->streams[op->work].bytes;
    if (lane->in_flight++ == 0)
        take_turn(engine, flow);
    else
        mw_flow_push(engine, &lane->waiting, flow);
}

static bool
window_has_room(const struct mw_engine *engine, const struct mw_lane_state *lane)
{
    if (lane->in_flight == 0)
        return true;
    if (lane->in_flight >= lane->window_ops)
        return false;
    return lane->window_bytes == 0 || engine->streams[engine->plan->ops[lane->head].work].bytes <=
                                          lane->window_bytes - lane->bytes;
}

static void
next_op(struct mw_engine *engine, struct mw_lane_state *lane)
{
    if (++lane->next == lane->end) {
        lane->next = lane->begin;
        lane->step++;
        lane->step_slot = lane->step_slot + 1 == MW_STEP_SLOTS ? 0 : lane->step_slot + 1;
    }
    lane->head = lane->step < engine->steps ? engine->lane_ops[lane->next] : MW_NONE;
}

static void
run_lane(struct mw_engine *engine, uint32_t index)
{
    struct mw_lane_state *lane = &engine->lanes[index];

    lane->queued = false;
    while (lane->head != MW_NONE && lane->step < engine->steps_done + 2 &&
           engine->pending[lane->step_slot][lane->head] == 0 && window_has_room(engine, lane)) {
        uint32_t op = lane->head;
        start_op(engine, index, op);
        next_op(engine, lane);
    }
}

/* A step has ended when all its ops and the step before are done. */
static void
end_steps(struct mw_engine *engine)
{
    uint64_t *done = engine->done_in;

    while (done[engine->steps_done % MW_STEP_SLOTS] == engine->plan->op_count) {
        done[engine->steps_done % MW_STEP_SLOTS] = 0;
        if (engine->steps_done++ == 0)
            engine->first_end_ns = engine->now_ns;
        engine->previous_end_ns = engine->last_end_ns;
        engine->last_end_ns = engine->now_ns;
        for (uint32_t l = 0; l < engine->plan->lane_count; l++)
            queue_lane(engine, l);
    }
}

static void
release_successors(struct mw_engine *engine, uint32_t op, uint32_t slot)
{
    uint32_t next_slot = slot + 1 == MW_STEP_SLOTS ? 0 : slot + 1;

    for (uint32_t i = engine->successor_begin[op]; i < engine->successor_begin[op + 1]; i++) {
        uint32_t successor = MW_DEP_INDEX(engine->successors[i]);
        uint32_t in = engine->successors[i] & MW_DEP_PREVIOUS_STEP ? next_slot : slot;
        uint32_t lane;

        if (--engine->pending[in][successor] > 0)
            continue;
        lane = engine->plan->ops[successor].lane;
        if (engine->lanes[lane].head == successor && engine->lanes[lane].step_slot == in)
            queue_lane(engine, lane);
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
    if (f->last_step && engine->rows)
        engine->rows[op].end_ns = engine->now_ns;
    lane->in_flight--;
    lane->bytes -= engine->streams[engine->plan->ops[op].work].bytes;
    queue_lane(engine, f->lane);
    f->next = engine->free_flow;
    engine->free_flow = flow;
    if (lane->waiting.count > 0)
        take_turn(engine, mw_flow_pop(engine, &lane->waiting));
    release_successors(engine, op, slot);
    engine->ops_done++;
    if (++engine->done_in[slot] == engine->plan->op_count)
        end_steps(engine);
}

/* A flow has made its way; a collective is done when all its members have. */
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
    if (finished->count < engine->matches[index].members)
        return;
    while (finished->count > 0)
        complete_flow(engine, mw_flow_pop(engine, finished));
}

/* Lets everything happen that can happen now. */
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

/* The stream's head is done, and those behind it that are level with it. */
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
        go_on(engine, engine->lanes[item - works].leading);
}

static void
run(struct mw_engine *engine)
{
    for (uint32_t l = 0; l < engine->plan->lane_count; l++)
        queue_lane(engine, l);
    drain(engine);
    mw_engine_settle(engine);
    while (engine->heap.count > 0) {
        engine->now_ns = engine->heap.entries[0].time_ns;
        while (engine->heap.count > 0 && engine->heap.entries[0].time_ns == engine->now_ns)
            fire(engine, mw_heap_pop(&engine->heap));
        drain(engine);
        mw_engine_settle(engine);
    }
}

/* Every op of every step was run; else says where the plan is stuck. */
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
    result->timeline.rows = engine->rows;
    result->timeline.row_count = engine->rows ? plan->op_count : 0;
    engine->rows = NULL;
}

bool
mw_engine_run(const struct mw_plan *plan, const struct mw_costs *costs,
              struct mw_engine_options options, struct mw_engine_result *result, char *why,
              size_t why_size)
{
    struct mw_engine engine = {.plan = plan, .costs = costs, .steps = options.steps};
    bool ok;

    memset(result, 0, sizeof *result);
    if (!plan->checked) {
        if (why_size > 0)
            snprintf(why, why_size, "the plan has not passed its check");
        return false;
    }
    if (engine.steps == 0)
        engine.steps = plan->barriered ? 1 : 3;
    ok = mw_engine_prepare(&engine, why, why_size);
    if (ok) {
        if (options.keep_timeline)
            engine.rows = g_new0(struct mw_timeline_row, plan->op_count);
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

void
mw_engine_result_clear(struct mw_engine_result *result)
{
    g_free(result->lane_busy_ns);
    g_free(result->channel_busy_ns);
    g_free(result->timeline.rows);
    memset(result, 0, sizeof *result);
}
