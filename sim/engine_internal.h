/*
 * engine_internal.h - the engine's state; included by sim/engine*.c alone.
 *
 * Ops of the same work are alike: same duration, same draws, hence the same speed at any moment,
 * and they finish in the order in which they began.  So sharing is computed per work, not per op:
 * a `stream` holds the ops on their way of one work as a queue, with one progress for all, and only
 * its head has a completion time.  The same op of many ranks then costs no more than of one.
 */
#ifndef MW_SIM_ENGINE_INTERNAL_H
#define MW_SIM_ENGINE_INTERNAL_H

#include "sim/engine.h"
#include "sim/engine_heap.h"

/* Steps s and s+1 are in flight together. */
#define MW_STEP_SLOTS 2

/* Absorbs rounding errors of progress, in ns: a completion is rounded up only beyond it. */
#define MW_PROGRESS_SLACK 1e-6

/* An op in flight: in its lane's queue, then on its way. */
struct mw_flow {
    double finish;    /* the stream's progress at which it is done */
    int64_t ready_ns; /* when its latency has passed */
    int64_t since_ns; /* since when it keeps its lane busy */
    uint32_t op, lane;
    uint32_t next; /* in the lane's queue, the stream, the match, or the free list */
    uint32_t step;
    uint32_t row; /* or MW_NONE */
    uint8_t step_slot;
    bool last_step;
};

struct mw_flow_queue {
    uint32_t head, tail, count;
};

/* What a stream draws at full speed from one link, as a share of the link's capacity. */
struct mw_pull {
    uint32_t link;
    uint32_t position; /* in the link's list, while the stream is listed there */
    double ranks;      /* that draw, each its fair share */
    double share;      /* of one of them */
    uint64_t units;    /* the share of all in integers: sums that come and go stay exact */
};
#define MW_LINK_FULL (UINT64_C(1) << 40)

struct mw_stream {
    int64_t lead_ns, work_ns; /* latency before it draws on anything; from there on */
    int64_t bytes;
    double progress, speed; /* ns of uncontended work, up to `since_ns`; in (0, 1] */
    int64_t since_ns;
    struct mw_flow_queue queue;
    uint32_t shared_count;   /* queue.count when speeds were last settled */
    uint32_t scheduled_head; /* flow whose completion is in the heap, or MW_NONE */
    uint32_t pull_begin, pull_count;
    bool touched;
    bool in_component, fixed; /* of the solver */
    double limit, next_speed;
};

/* A channel, or one direction of it. */
struct mw_link {
    uint64_t load;   /* sum of units of all flows at full speed */
    uint32_t *pulls; /* pulls of the listed streams */
    uint32_t *streams;
    uint32_t count, allocated;
    bool touched, over;
    bool in_component, settled, final; /* of the solver */
    double level;
};

/* What an op waits for: that a lane has done this many ops of a step, counted in rounds 0 of the
 * sections that contain the op; of the previous step if `back` is 1. */
struct mw_wait {
    uint32_t lane, back;
    int64_t done;
};

/* How that moves on from round to round. */
struct mw_wait_stride {
    int64_t by[MW_SECTION_LEVELS];
};

struct mw_lane_state {
    uint32_t begin, end, next;         /* in lane_ops */
    uint32_t round[MW_SECTION_LEVELS]; /* of the op at `next` */
    uint32_t step;
    uint8_t step_slot;
    bool queued;
    int64_t length;     /* ops of a step */
    int64_t done;       /* ops, of all steps together */
    uint32_t waits_met; /* of the head's */
    uint32_t waits_for; /* a lane, or MW_NONE; until that has done this many ops: */
    int64_t waits_until;
    uint32_t first_waiter, next_waiter; /* lanes */
    uint32_t in_flight, window_ops;
    int64_t bytes, window_bytes;
    uint32_t head;                /* op at `next`; MW_NONE when the program is over */
    uint32_t leading;             /* flow whose latency passes while nothing is before it */
    struct mw_flow_queue waiting; /* after the op that is on its way */
    int64_t busy_ns;
};

struct mw_match_state {
    uint32_t members;
    struct mw_flow_queue arrived[2], finished[2]; /* by parity of the step */
};

struct mw_engine {
    const struct mw_plan *plan;
    const struct mw_costs *costs;
    uint32_t steps, steps_done;
    int64_t now_ns;
    uint64_t ops_done, reshares;
    uint64_t done_in[MW_STEP_SLOTS];
    uint64_t step_ops; /* of a step */
    int64_t first_end_ns, previous_end_ns, last_end_ns;

    struct mw_wait *waits;               /* [plan->dep_count] */
    struct mw_wait_stride *wait_strides; /* the same; NULL without sections */
    struct mw_lane_positions places;
    uint32_t *lane_ops;
    uint32_t *repeats; /* [op_count] innermost section whose round ends with this entry of lane_ops,
                          in its lane; MW_NONE; NULL without sections */
    uint32_t *section_first, *section_last; /* [section_count * lane_count] entries of lane_ops */
    struct mw_rounds *rounds; /* [section_count], of engine_rounds.c; NULL: none are skipped */
    uint32_t round_of;        /* section whose round has just ended, or MW_NONE */
    int64_t skipped_ns;       /* of the timeline */
    int64_t rounds_skipped, rounds_by_mean;
    struct mw_lane_state *lanes;
    uint32_t *lane_queue, lane_queue_count;

    struct mw_flow *flows;
    uint32_t flow_count, flows_allocated, free_flow;
    struct mw_flow_queue instant; /* flows that are done now */

    struct mw_stream *streams; /* [work_count] */
    uint64_t *work_uses;       /* ops of the plan with this work */
    struct mw_pull *pulls;
    uint32_t *touched_streams, touched_stream_count;
    struct mw_link *links; /* channels first, then directions */
    uint32_t link_count;
    uint32_t *one_way_link; /* [channel_count] first of two, or MW_NONE */
    uint32_t *touched_links, touched_link_count;
    uint32_t *component_links, component_link_count;
    uint32_t *component_streams, component_stream_count;
    struct mw_heap heap; /* completions of works; after them, ends of latency of lanes */

    struct mw_match_state *matches;
    uint32_t match_count;
    struct mw_timeline_row *rows; /* or NULL */
    uint32_t row_count, rows_allocated;
    GArray *ended_rows; /* uint32_t, in the order in which their ops ended; NULL without rounds */
};

/* engine_graph.c: what is built once.  Refuses with a line in `why`. */
bool mw_engine_prepare(struct mw_engine *engine, char *why, size_t why_size);
void mw_engine_release(struct mw_engine *engine);

/* engine_links.c, engine_share.c: streams and links. */
void mw_engine_share_init(struct mw_engine *engine);
void mw_engine_share_clear(struct mw_engine *engine);
/* Call after all that happens at now_ns: brings speeds and completion times up to date. */
void mw_engine_update_rates(struct mw_engine *engine);
/* [channel_count] of one step; of a channel with directions, the busiest of all and each way. */
void mw_engine_channels_busy(const struct mw_engine *engine, double *busy_ns);

/* engine.c: starts all that can start now. */
void mw_engine_run_lanes(struct mw_engine *engine);
void mw_stream_rebase(struct mw_engine *engine, struct mw_stream *stream);

/* engine_rounds.c: rounds of a section that take their turns alike are not run one by one. */
void mw_engine_rounds_init(struct mw_engine *engine);
void mw_engine_rounds_clear(struct mw_engine *engine);
/* A lane has started the last op of a round; `again`: not of the last one. */
void mw_engine_end_round(struct mw_engine *engine, uint32_t lane, uint32_t section, bool again);
/* After everything that happens at now_ns: moves on to a later round if this state was there
 * before. */
void mw_engine_look_back(struct mw_engine *engine);

/* How many ops the other lane has done when the head of `lane` need not wait for it. */
static inline int64_t
mw_wait_until(const struct mw_engine *engine, const struct mw_lane_state *lane, uint32_t index)
{
    const struct mw_wait *wait = &engine->waits[index];
    int64_t until =
        ((int64_t)lane->step - wait->back) * engine->lanes[wait->lane].length + wait->done;

    for (int level = 0; engine->wait_strides && level < MW_SECTION_LEVELS; level++)
        until += engine->wait_strides[index].by[level] * lane->round[level];
    return until;
}

static inline void
mw_flow_push(struct mw_engine *engine, struct mw_flow_queue *queue, uint32_t flow)
{
    engine->flows[flow].next = MW_NONE;
    if (queue->count++ == 0)
        queue->head = flow;
    else
        engine->flows[queue->tail].next = flow;
    queue->tail = flow;
}

static inline uint32_t
mw_flow_pop(struct mw_engine *engine, struct mw_flow_queue *queue)
{
    uint32_t flow = queue->head;

    queue->head = engine->flows[flow].next;
    queue->count--;
    return flow;
}

static inline void
mw_stream_advance(struct mw_stream *stream, int64_t now_ns)
{
    stream->progress += (double)(now_ns - stream->since_ns) * stream->speed;
    stream->since_ns = now_ns;
}

static inline void
mw_stream_touch(struct mw_engine *engine, uint32_t index)
{
    if (!engine->streams[index].touched) {
        engine->streams[index].touched = true;
        engine->touched_streams[engine->touched_stream_count++] = index;
    }
}

#endif
