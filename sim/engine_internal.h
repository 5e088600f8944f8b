/*
 * engine_internal.h - the engine's state; only sim/engine*.c include it.
 *
 * Ops of the same work are alike: they have the same duration and the same draws, hence the same
 * speed at any moment, and they finish in the order in which they began.  So sharing is computed
 * per work, not per op.  A `stream` holds the ops in flight of one work as a queue, with one
 * progress for all; only its head has a completion time.  The same op of many ranks then costs no
 * more than that of one.
 */
#ifndef MW_SIM_ENGINE_INTERNAL_H
#define MW_SIM_ENGINE_INTERNAL_H

#include "sim/engine.h"
#include "sim/engine_heap.h"

/* Steps s and s+1 are in flight together. */
#define MW_STEP_SLOTS 2

/* Absorbs rounding errors of progress, in ns: a completion is rounded up only beyond it. */
#define MW_PROGRESS_SLACK 1e-6

/* An op in flight, first in its lane's queue, then in its stream. */
struct mw_flow {
    double finish;    /* the stream's progress at which it is done */
    int64_t ready_ns; /* time when its latency has passed */
    int64_t since_ns; /* time since when it keeps its lane busy */
    uint32_t op, lane;
    uint32_t next; /* next flow in the lane's queue, the stream, the match, or the free list */
    uint32_t step;
    uint32_t row; /* row of the timeline, or MW_NONE */
    uint8_t step_slot;
    uint8_t place; /* enum mw_flow_place */
    bool last_step;
};

/* Where a flow is. */
enum mw_flow_place {
    MW_FLOW_WAITS,    /* behind others of its lane */
    MW_FLOW_LEADS,    /* its latency passes */
    MW_FLOW_ARRIVED,  /* its match waits for other members */
    MW_FLOW_MOVES,    /* in its stream */
    MW_FLOW_FINISHED, /* its match waits for other members to finish */
};

struct mw_flow_queue {
    uint32_t head, tail, count;
};

/* The draw of a stream on one link at full speed, as a share of the link's capacity. */
struct mw_pull {
    uint32_t link;
    uint32_t position; /* position in the link's list, while the stream is listed there */
    double ranks;      /* ranks that draw, times their weight; each has a fair share */
    double share;      /* share of one rank */
    uint64_t units;    /* the share of all ranks as an integer, so that sums of shares that come and
                        * go stay exact */
};
#define MW_LINK_FULL (UINT64_C(1) << 40)

struct mw_stream {
    int64_t lead_ns, work_ns; /* latency before the op draws on anything; time after it */
    int64_t bytes;
    double progress, speed; /* ns of uncontended work done up to `since_ns`; speed in (0, 1] */
    int64_t since_ns;
    struct mw_flow_queue queue;
    uint32_t shared_count;   /* queue.count when speeds were last fixed */
    uint32_t scheduled_head; /* flow whose completion is in the heap, or MW_NONE */
    uint32_t pull_begin, pull_count;
    bool touched;
    bool in_component, fixed; /* used by the solver */
    double limit, next_speed;
};

/* A channel, one direction of it, or one of the lines that limit two directions together. */
struct mw_link {
    uint64_t load;   /* sum of units of all flows at full speed */
    uint32_t *pulls; /* pulls of the listed streams */
    uint32_t *streams;
    uint32_t count, allocated;
    bool touched, over;
    bool in_component, fixed, final; /* used by the solver */
    double level;
};

/* The condition an op waits for: a lane has done this many ops of a step, counted in round 0 of
 * each section that contains the op.  `back` is 1 for the previous step. */
struct mw_wait {
    uint32_t lane : 31, back : 1;
    uint32_t done; /* a step has at most 2^31 ops */
};

/* The growth of that number from round to round. */
struct mw_wait_stride {
    int64_t by[MW_SECTION_LEVELS];
};

struct mw_lane_state {
    uint32_t begin, end, next;         /* indices in lane_ops */
    uint32_t round[MW_SECTION_LEVELS]; /* rounds of the op at `next` */
    uint32_t step;
    uint8_t step_slot;
    bool queued;
    int64_t length;     /* ops of one step */
    int64_t done;       /* ops done, over all steps */
    uint32_t waits_met; /* met waits of the head */
    uint32_t waits_for; /* the lane that this one waits for, or MW_NONE, until that has done this
                         * many ops: */
    int64_t waits_until;
    uint32_t first_waiter, next_waiter; /* lanes */
    uint32_t in_flight, window_ops;
    int64_t bytes, window_bytes;
    uint32_t head;                /* op at `next`; MW_NONE when the program has ended */
    uint32_t leading;             /* flow that is first in the lane */
    struct mw_flow_queue waiting; /* flows behind the op that is in flight */
    int64_t busy_ns;
};

struct mw_match_state {
    struct mw_flow_queue arrived[2], finished[2]; /* indexed by the parity of the step */
};

/* A lane in the plan's rounds (engine_periods.c): from op `from` of the lane on, each op up to
 * `until - span` is like the one `span` ops later, in the next round.  span 0: the lane has no
 * rounds. */
struct mw_lane_period {
    uint32_t from, until, span;
};

/* What all runs of a plan have in common. */
struct mw_engine_graph {
    const struct mw_plan *plan;
    struct mw_wait *waits;               /* [plan->dep_count] */
    struct mw_wait_stride *wait_strides; /* [plan->dep_count] NULL without sections */
    struct mw_lane_positions places;     /* without sections only `length` */
    uint32_t *lane_begin;                /* [lane_count + 1] */
    uint32_t *lane_ops;
    uint32_t *repeats; /* [op_count] innermost section whose round ends with this entry of lane_ops,
                        * in its lane, or MW_NONE; NULL without sections */
    uint32_t *section_first, *section_last; /* [section_count * lane_count] entries of lane_ops */
    uint64_t *work_uses;                    /* number of ops of the plan that have this work */
    uint64_t step_ops;                      /* ops of one step */
    uint32_t *match_members;                /* [match_count] */
    uint32_t match_count;
    struct mw_lane_period *periods; /* [lane_count] NULL: the plan has no rounds */
    uint32_t period_lane;           /* lane whose rounds are counted */
    uint32_t round_micro_batches;
};

struct mw_engine {
    const struct mw_engine_graph *graph;
    const struct mw_plan *plan;
    const struct mw_costs *costs;
    uint32_t steps, steps_done;
    bool skip_nothing;
    int64_t now_ns;
    uint64_t ops_done, reshares;
    uint64_t done_in[MW_STEP_SLOTS];
    int64_t first_end_ns, previous_end_ns, last_end_ns;

    struct mw_rounds *rounds; /* [section_count], owned by engine_rounds.c; NULL: no rounds are
                               * skipped */
    uint32_t round_of;        /* section whose round has just ended, or MW_NONE */
    int64_t skipped_ns;       /* rounds' time that the timeline leaves out */
    int64_t rounds_skipped, rounds_by_mean;
    struct mw_periods *periods; /* owned by engine_periods.c; NULL: nothing is skipped */
    uint32_t look_at;           /* entry of lane_ops at which a round of it begins, or MW_NONE */
    bool looks;                 /* that round has just begun */
    uint64_t ops_repeated;
    int64_t period_ns;
    uint32_t period_micro_batches;
    struct mw_lane_state *lanes;
    uint32_t *lane_queue, lane_queue_count;

    struct mw_flow *flows;
    uint32_t flow_count, flows_allocated, free_flow;
    struct mw_flow_queue instant; /* flows that are done now */

    struct mw_stream *streams; /* [work_count] */
    struct mw_pull *pulls;
    uint32_t *touched_streams, touched_stream_count;
    struct mw_link *links; /* channels first, then directions */
    uint32_t link_count;
    uint32_t *one_way_link; /* [channel_count] first of two links, reads and writes or the two
                             * lines of mixed traffic, or MW_NONE */
    uint32_t *touched_links, touched_link_count;
    uint32_t *component_links, component_link_count;
    uint32_t *component_streams, component_stream_count;
    struct mw_heap heap; /* completions of works, then ends of latency of lanes */

    struct mw_match_state *matches;
    struct mw_timeline_row *rows; /* or NULL */
    uint32_t row_count, rows_allocated;
    GArray *ended_rows; /* uint32_t, rows in the order in which their ops ended; NULL without
                         * rounds */
};

/* engine_graph.c: what a run begins with.  Refuses with a line in `why`. */
bool mw_engine_prepare(struct mw_engine *engine, char *why, size_t why_size);
void mw_engine_release(struct mw_engine *engine);

/* engine_links.c, engine_share.c: streams and links. */
void mw_engine_share_init(struct mw_engine *engine);
void mw_engine_share_clear(struct mw_engine *engine);
/* Brings speeds and completion times up to date.  Call it after everything that happens at
 * now_ns. */
void mw_engine_update_rates(struct mw_engine *engine);
/* [channel_count] busy time of one step.  For a channel with directions, the busiest of the whole
 * and of each direction. */
void mw_engine_channels_busy(const struct mw_engine *engine, double *busy_ns);

/* engine.c: starts every op that can start now. */
void mw_engine_run_lanes(struct mw_engine *engine);
void mw_stream_rebase(struct mw_engine *engine, struct mw_stream *stream);

/* engine_rounds.c: skips rounds of a section that repeat earlier rounds. */
void mw_engine_rounds_init(struct mw_engine *engine);
void mw_engine_rounds_clear(struct mw_engine *engine);
/* Notes that a lane has started the last op of a round.  `again`: it is not the last round. */
void mw_engine_end_round(struct mw_engine *engine, uint32_t lane, uint32_t section, bool again);
/* Moves on to a later round if this state has occurred before.  Call it after everything that
 * happens at now_ns. */
void mw_engine_look_back(struct mw_engine *engine);
/* Moves now, and all that is under way, on by so much. */
void mw_engine_shift_times(struct mw_engine *engine, int64_t by_ns);

/* engine_periods.c: moves on over rounds of a plan without sections that repeat earlier ones. */
void mw_engine_find_periods(struct mw_engine_graph *graph);
void mw_engine_periods_init(struct mw_engine *engine);
void mw_engine_periods_clear(struct mw_engine *engine);
/* Moves on to a later round if this state has occurred before.  Call it after everything that
 * happens at now_ns, if a round has begun. */
void mw_engine_look_for_period(struct mw_engine *engine);

/* The number of ops that the other lane must have done before the head of `lane` can start. */
static inline int64_t
mw_wait_until(const struct mw_engine *engine, const struct mw_lane_state *lane, uint32_t index)
{
    const struct mw_wait *wait = &engine->graph->waits[index];
    int64_t until =
        ((int64_t)lane->step - (int64_t)wait->back) * engine->lanes[wait->lane].length + wait->done;

    for (int level = 0; engine->graph->wait_strides && level < MW_SECTION_LEVELS; level++)
        until += engine->graph->wait_strides[index].by[level] * lane->round[level];
    return until;
}

static inline bool
mw_engine_mixed(const struct mw_costs *costs, uint32_t channel)
{
    return costs->mixed && costs->mixed[channel].read > 0;
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
