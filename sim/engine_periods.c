/*
 * engine_periods.c - moves on over micro-batches of a plan without sections that repeat earlier
 * ones.
 *
 * The ops of a lane come in rounds where each is like the one a round later: it has the same work,
 * it waits for lanes to have done as many more ops as they have in a round, and it meets the op of
 * another rank that is a round later too.  In a pipeline that is the part of a step in which every
 * stage takes one micro-batch forward and one back in turn.
 *
 * What a run does next depends on its state alone: where the lanes stand, the ops in flight and
 * their progress, who waits for whom, and the order of what is summed up.  The state is recorded
 * as each round of one lane begins, relative to now and to the round.  If it equals an earlier one,
 * all that happened since happens again, as long as the ops are alike: after `rounds` rounds and
 * `time_ns` the same state is there.  So the run moves on by a multiple of both.  An op that is
 * left out starts and ends when the one of the rounds before did, and so much later: all times are
 * whole ns, so the timeline is the one that running every op gives.
 */
#include <string.h>

#include "sim/engine_internal.h"

/* A state is compared with so many before it. */
#define STATES_KEPT 16
/* Fewer rounds are not worth looking at. */
#define ROUNDS_LEAST 2

/* --- rounds of a plan ------------------------------------------------------------------------- */

struct finder {
    struct mw_engine_graph *graph;
    uint32_t *met;          /* [2 * match_count] members of matches of two, or MW_NONE */
    uint32_t micro_batches; /* of a round */
};

static const struct mw_op *
op_at(const struct mw_engine_graph *graph, uint32_t lane, uint32_t position)
{
    return &graph->plan->ops[graph->lane_ops[graph->lane_begin[lane] + position]];
}

static uint32_t
length_of(const struct mw_engine_graph *graph, uint32_t lane)
{
    return graph->lane_begin[lane + 1] - graph->lane_begin[lane];
}

static uint32_t *
list_members(const struct mw_engine_graph *graph)
{
    size_t members = 2 * (size_t)graph->match_count;
    uint32_t *met = g_new(uint32_t, members + 1); /* there may be none */

    memset(met, 0xff, members * sizeof *met); /* all MW_NONE */
    for (uint32_t i = 0; i < graph->plan->op_count; i++) {
        uint32_t match = graph->plan->ops[i].match;
        if (match != MW_NONE && graph->match_members[match] == 2)
            met[2 * match + (met[2 * match] != MW_NONE)] = i;
    }
    return met;
}

/* The same op of a micro-batch that is a round later; 0: there is none near. */
static uint32_t
span_of(const struct finder *finder, uint32_t lane)
{
    uint32_t length = length_of(finder->graph, lane), middle = length / 2;

    if (length < ROUNDS_LEAST)
        return 0;
    const struct mw_op *op = op_at(finder->graph, lane, middle);
    for (uint32_t span = 1; span <= length / ROUNDS_LEAST && middle + span < length; span++) {
        const struct mw_op *later = op_at(finder->graph, lane, middle + span);
        if (later->micro_batch == op->micro_batch + finder->micro_batches &&
            later->work == op->work && later->phase == op->phase && later->layer == op->layer &&
            later->tile == op->tile && later->shard == op->shard)
            return span;
    }
    return 0;
}

/* Whether ops meet two that are a round apart. */
static bool
meet_alike(const struct finder *finder, const struct mw_op *op, const struct mw_op *later)
{
    const struct mw_engine_graph *graph = finder->graph;
    const struct mw_op *ops = graph->plan->ops;
    const uint32_t *a, *b;

    if (op->match == MW_NONE || later->match == MW_NONE)
        return op->match == later->match;
    a = &finder->met[2 * op->match];
    b = &finder->met[2 * later->match];
    if (a[0] == MW_NONE || b[0] == MW_NONE)
        return false;
    uint32_t other = a[op == &ops[a[0]]], other_later = b[later == &ops[b[0]]];
    return ops[other].lane == ops[other_later].lane &&
           graph->places.first[other_later] - graph->places.first[other] ==
               graph->periods[ops[other].lane].span;
}

/* Whether an op and the one a round later do the same, wait for the same and meet the same, each in
 * its round. */
static bool
are_alike(const struct finder *finder, const struct mw_op *op, const struct mw_op *later)
{
    const struct mw_engine_graph *graph = finder->graph;

    if (op->work != later->work || op->dep_count != later->dep_count)
        return false;
    for (uint32_t d = 0; d < op->dep_count; d++) {
        const struct mw_wait *a = &graph->waits[op->dep_begin + d];
        const struct mw_wait *b = &graph->waits[later->dep_begin + d];
        if (a->lane != b->lane || a->back != b->back ||
            (!a->back && b->done - a->done != graph->periods[a->lane].span))
            return false;
    }
    return meet_alike(finder, op, later);
}

static void
find_ends(const struct finder *finder, uint32_t lane)
{
    const struct mw_engine_graph *graph = finder->graph;
    struct mw_lane_period *period = &graph->periods[lane];
    uint32_t from = length_of(graph, lane) / 2, until = from;

    if (!period->span)
        return;
    while (from > 0 && are_alike(finder, op_at(graph, lane, from - 1),
                                 op_at(graph, lane, from - 1 + period->span)))
        from--;
    while (until + period->span < length_of(graph, lane) &&
           are_alike(finder, op_at(graph, lane, until), op_at(graph, lane, until + period->span)))
        until++;
    period->from = from;
    period->until = until + period->span;
}

static uint32_t
rounds_of(const struct mw_lane_period *period)
{
    return period->span ? (period->until - period->from) / period->span : 0;
}

/* Finds rounds of so many micro-batches; returns whether all lanes that have any have enough. */
static bool
find_rounds(struct finder *finder)
{
    struct mw_engine_graph *graph = finder->graph;
    uint32_t lanes = graph->plan->lane_count, most = 0;

    memset(graph->periods, 0, lanes * sizeof *graph->periods);
    for (uint32_t l = 0; l < lanes; l++)
        graph->periods[l].span = span_of(finder, l);
    for (uint32_t l = 0; l < lanes; l++) {
        find_ends(finder, l);
        if (graph->periods[l].span && rounds_of(&graph->periods[l]) < ROUNDS_LEAST)
            return false;
        if (graph->periods[l].span > most) {
            most = graph->periods[l].span;
            graph->period_lane = l;
        }
    }
    return most > 0;
}

/* Stages that take turns at stretches of the model have rounds of as many micro-batches as there
 * are stages. */
void
mw_engine_find_periods(struct mw_engine_graph *graph)
{
    const struct mw_plan *plan = graph->plan;
    uint32_t sizes[] = {1, plan->program_count};

    if (plan->section_count || !plan->barriered || plan->shape.micro_batches < ROUNDS_LEAST)
        return;
    struct finder finder = {.graph = graph, .met = list_members(graph)};
    graph->periods = g_new(struct mw_lane_period, plan->lane_count);
    bool found = false;
    for (int i = 0; i < 2 && !found && (i == 0 || sizes[i] > 1); i++) {
        finder.micro_batches = sizes[i];
        found = find_rounds(&finder);
    }
    g_free(finder.met);
    graph->round_micro_batches = finder.micro_batches;
    if (!found)
        g_clear_pointer(&graph->periods, g_free);
}

/* --- the state of a run ----------------------------------------------------------------------- */

struct state {
    GArray *words; /* uint64_t */
    uint64_t hash;
    uint32_t look; /* rounds that had begun */
    int64_t now_ns;
    uint64_t reshares;
    int64_t *busy_ns;   /* [lane_count] */
    uint32_t *position; /* [lane_count] */
};

struct mw_periods {
    uint32_t looks; /* states recorded so far: number n is at n % STATES_KEPT */
    struct state states[STATES_KEPT];
};

void
mw_engine_periods_init(struct mw_engine *engine)
{
    const struct mw_engine_graph *graph = engine->graph;

    engine->look_at = MW_NONE;
    if (!graph->periods || engine->steps != 1 || engine->skip_nothing)
        return;
    engine->periods = g_new0(struct mw_periods, 1);
    for (int i = 0; i < STATES_KEPT; i++) {
        struct state *state = &engine->periods->states[i];
        state->words = g_array_new(FALSE, FALSE, sizeof(uint64_t));
        state->busy_ns = g_new(int64_t, graph->plan->lane_count);
        state->position = g_new(uint32_t, graph->plan->lane_count);
    }
    engine->look_at =
        graph->lane_begin[graph->period_lane] + graph->periods[graph->period_lane].from;
}

void
mw_engine_periods_clear(struct mw_engine *engine)
{
    for (int i = 0; engine->periods && i < STATES_KEPT; i++) {
        g_array_unref(engine->periods->states[i].words);
        g_free(engine->periods->states[i].busy_ns);
        g_free(engine->periods->states[i].position);
    }
    g_clear_pointer(&engine->periods, g_free);
    engine->look_at = MW_NONE;
}

static void
add(GArray *words, int64_t word)
{
    g_array_append_val(words, word);
}

static void
add_double(GArray *words, double value)
{
    g_array_append_val(words, value);
}

static uint32_t
position_of(const struct mw_lane_state *lane)
{
    return lane->head == MW_NONE ? lane->end - lane->begin : lane->next - lane->begin;
}

/* Whether the lane is where its ops come in rounds; a lane that has none must rest, and wait for
 * another one or be at its end. */
static bool
is_within(const struct mw_engine *engine, uint32_t index)
{
    const struct mw_lane_period *period = &engine->graph->periods[index];
    const struct mw_lane_state *lane = &engine->lanes[index];

    if (!period->span)
        return !lane->in_flight && (lane->head == MW_NONE || lane->waits_for != MW_NONE);
    return position_of(lane) >= period->from + lane->in_flight && position_of(lane) < period->until;
}

static bool
all_are_within(const struct mw_engine *engine)
{
    for (uint32_t l = 0; l < engine->plan->lane_count; l++)
        if (!is_within(engine, l))
            return false;
    return true;
}

static void
add_flows(const struct mw_engine *engine, const struct mw_lane_state *lane, GArray *words)
{
    const struct mw_flow *first = &engine->flows[lane->leading];

    add(words, first->place);
    add(words, engine->now_ns - first->since_ns);
    if (engine->rows) /* it began to wait for its match when nothing else may tell */
        add(words, engine->now_ns - engine->rows[first->row].start_ns);
    add(words, first->place == MW_FLOW_LEADS ? first->ready_ns - engine->now_ns : 0);
    add(words, lane->waiting.count);
    for (uint32_t f = lane->waiting.head, n = 0; n < lane->waiting.count; n++) {
        add(words, MAX(0, engine->flows[f].ready_ns - engine->now_ns));
        f = engine->flows[f].next;
    }
}

/* `look`: the number of rounds that the lanes have begun. */
static void
add_lane(const struct mw_engine *engine, uint32_t index, uint32_t look, GArray *words)
{
    const struct mw_lane_state *lane = &engine->lanes[index];
    uint32_t span = engine->graph->periods[index].span;

    add(words, (int64_t)position_of(lane) - (int64_t)look * span);
    add(words, lane->in_flight);
    add(words, lane->bytes);
    add(words, lane->waits_met);
    add(words, lane->waits_for);
    add(words, lane->first_waiter);
    if (lane->waits_for != MW_NONE) {
        add(words, lane->next_waiter);
        add(words, span ? lane->waits_until - engine->lanes[lane->waits_for].done : 0);
    }
    if (lane->in_flight)
        add_flows(engine, lane, words);
}

static void
add_stream(const struct mw_engine *engine, uint32_t index, GArray *words)
{
    const struct mw_stream *stream = &engine->streams[index];
    uint32_t at = engine->heap.position[index];

    if (!stream->queue.count)
        return;
    add(words, index);
    add(words, stream->queue.count);
    add(words, stream->shared_count);
    add(words, stream->scheduled_head == stream->queue.head);
    add(words, at == MW_HEAP_ABSENT ? -1 : engine->heap.entries[at].time_ns - engine->now_ns);
    add(words, engine->now_ns - stream->since_ns);
    add_double(words, stream->progress);
    add_double(words, stream->speed);
    for (uint32_t f = stream->queue.head, n = 0; n < stream->queue.count; n++) {
        add(words, engine->flows[f].lane);
        add_double(words, engine->flows[f].finish);
        f = engine->flows[f].next;
    }
}

/* Shares are summed up in the order of the list. */
static void
add_link(const struct mw_engine *engine, uint32_t index, GArray *words)
{
    const struct mw_link *link = &engine->links[index];

    if (!link->count)
        return;
    add(words, index);
    add(words, link->count);
    add(words, link->over);
    for (uint32_t i = 0; i < link->count; i++)
        add(words, link->streams[i]);
}

static void
take_state(const struct mw_engine *engine, uint32_t look, struct state *state)
{
    const struct mw_plan *plan = engine->plan;

    g_array_set_size(state->words, 0);
    for (uint32_t l = 0; l < plan->lane_count; l++) {
        add_lane(engine, l, look, state->words);
        state->busy_ns[l] = engine->lanes[l].busy_ns;
        state->position[l] = position_of(&engine->lanes[l]);
    }
    for (uint32_t w = 0; w < plan->work_count; w++)
        add_stream(engine, w, state->words);
    for (uint32_t i = 0; i < engine->link_count; i++)
        add_link(engine, i, state->words);
    state->now_ns = engine->now_ns;
    state->reshares = engine->reshares;
    state->hash = 0;
    for (guint i = 0; i < state->words->len; i++) {
        uint64_t mixed = (state->hash ^ g_array_index(state->words, uint64_t, i)) *
                         G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
        state->hash = mixed ^ mixed >> 29;
    }
}

static bool
are_same(const struct state *a, const struct state *b)
{
    return a->hash == b->hash && a->words->len == b->words->len &&
           !memcmp(a->words->data, b->words->data, a->words->len * sizeof(uint64_t));
}

/* --- moving on -------------------------------------------------------------------------------- */

/* What a state that occurred before says of the time since, and how often that is left out. */
struct leap {
    uint32_t rounds; /* of the lanes, since then */
    int64_t time_ns;
    int64_t often;
};

/* Lanes stay among ops that are alike, and nobody wakes who did not wake since the state before. */
static int64_t
times_alike(const struct mw_engine *engine, uint32_t rounds)
{
    const struct mw_lane_period *periods = engine->graph->periods;
    int64_t most = INT64_MAX;

    for (uint32_t l = 0; l < engine->plan->lane_count; l++) {
        const struct mw_lane_state *lane = &engine->lanes[l];
        int64_t left = (int64_t)periods[l].until - 1 - position_of(lane);
        uint32_t span = periods[l].span;

        if (!span && lane->head != MW_NONE) {
            span = periods[lane->waits_for].span;
            left = lane->waits_until - 1 - engine->lanes[lane->waits_for].done;
        }
        if (span)
            most = MIN(most, left / ((int64_t)span * rounds));
    }
    return most;
}

static struct mw_timeline_row *
row_at(const struct mw_engine *engine, uint32_t lane, uint32_t position)
{
    return &engine->rows[engine->graph->lane_ops[engine->graph->lane_begin[lane] + position]];
}

/* Rows of the ops from the first one in flight on.  That one, and those started behind it, have
 * rows that are not complete, which go to the ops that are in flight afterwards. */
static void
repeat_rows(struct mw_engine *engine, uint32_t index, const struct leap *leap)
{
    const struct mw_lane_state *lane = &engine->lanes[index];
    uint32_t back = engine->graph->periods[index].span * leap->rounds;
    uint32_t more = (uint32_t)leap->often * back, first = position_of(lane) - lane->in_flight;

    for (uint32_t i = lane->in_flight; i-- > 0;) {
        struct mw_timeline_row *row = row_at(engine, index, first + more + i);
        *row = *row_at(engine, index, first + i);
        row->op = (uint32_t)(row - engine->rows);
        row->start_ns += i ? 0 : leap->often * leap->time_ns; /* the others have no start yet */
    }
    for (uint32_t i = first; i < first + more; i++) {
        struct mw_timeline_row *row = row_at(engine, index, i);
        *row = *row_at(engine, index, i - back);
        row->op = (uint32_t)(row - engine->rows);
        row->start_ns += leap->time_ns;
        row->end_ns += leap->time_ns;
    }
}

/* The op's match has those who wait for it. */
static void
move_match(struct mw_engine *engine, uint32_t from, uint32_t to)
{
    struct mw_match_state *a = &engine->matches[from];

    for (int parity = 0; parity < 2 && from != to; parity++) {
        if (a->arrived[parity].count)
            engine->matches[to].arrived[parity] = a->arrived[parity];
        if (a->finished[parity].count)
            engine->matches[to].finished[parity] = a->finished[parity];
        a->arrived[parity].count = a->finished[parity].count = 0;
    }
}

static void
move_flow(struct mw_engine *engine, uint32_t flow, uint32_t op)
{
    struct mw_flow *f = &engine->flows[flow];
    uint32_t from = engine->plan->ops[f->op].match, to = engine->plan->ops[op].match;

    if (from != MW_NONE)
        move_match(engine, from, to);
    f->row = f->row == MW_NONE ? MW_NONE : op;
    f->op = op;
}

static void
move_lane(struct mw_engine *engine, uint32_t index, const struct leap *leap)
{
    struct mw_lane_state *lane = &engine->lanes[index];
    uint32_t more = (uint32_t)leap->often * leap->rounds * engine->graph->periods[index].span;

    if (engine->rows) {
        repeat_rows(engine, index, leap);
        engine->row_count += more;
    }
    lane->next += more;
    lane->head = engine->graph->lane_ops[lane->next];
    lane->done += more;
    engine->done_in[0] += more;
    engine->ops_done += more;
    engine->ops_repeated += more;
    uint32_t entry = lane->next - lane->in_flight;
    if (lane->in_flight)
        move_flow(engine, lane->leading, engine->graph->lane_ops[entry++]);
    for (uint32_t f = lane->waiting.head, n = 0; n < lane->waiting.count; n++) {
        move_flow(engine, f, engine->graph->lane_ops[entry++]);
        f = engine->flows[f].next;
    }
}

static void
move_on(struct mw_engine *engine, const struct state *from, const struct leap *leap)
{
    const struct mw_lane_period *periods = engine->graph->periods;

    for (uint32_t l = 0; l < engine->plan->lane_count; l++) {
        struct mw_lane_state *lane = &engine->lanes[l];
        lane->busy_ns += leap->often * (lane->busy_ns - from->busy_ns[l]);
        if (periods[l].span && lane->waits_for != MW_NONE)
            lane->waits_until += leap->often * leap->rounds * periods[lane->waits_for].span;
        if (periods[l].span)
            move_lane(engine, l, leap);
    }
    engine->reshares += (uint64_t)leap->often * (engine->reshares - from->reshares);
    mw_engine_shift_times(engine, leap->often * leap->time_ns);
}

/* Returns whether an earlier state has recurred. */
static bool
find_again(struct mw_engine *engine, const struct state *now, uint32_t look)
{
    for (uint32_t back = 1; back < STATES_KEPT && back <= engine->periods->looks; back++) {
        const struct state *from =
            &engine->periods->states[(engine->periods->looks - back) % STATES_KEPT];
        uint32_t rounds = look - from->look;

        if (!are_same(from, now))
            continue;
        struct leap leap = {rounds, now->now_ns - from->now_ns, times_alike(engine, rounds)};
        engine->period_ns = leap.time_ns;
        engine->period_micro_batches = rounds * engine->graph->round_micro_batches;
        if (leap.often > 0)
            move_on(engine, from, &leap);
        return true;
    }
    return false;
}

void
mw_engine_look_for_period(struct mw_engine *engine)
{
    const struct mw_engine_graph *graph = engine->graph;
    const struct mw_lane_period *period = &graph->periods[graph->period_lane];
    uint32_t begin = graph->lane_begin[graph->period_lane] + period->from;
    uint32_t look = (engine->look_at - begin) / period->span;

    engine->looks = false;
    engine->look_at += period->span;
    if (engine->look_at >= begin - period->from + period->until)
        engine->look_at = MW_NONE;
    if (!all_are_within(engine))
        return;
    struct state *now = &engine->periods->states[engine->periods->looks % STATES_KEPT];
    take_state(engine, look, now);
    now->look = look;
    if (find_again(engine, now, look))
        mw_engine_periods_clear(engine);
    else
        engine->periods->looks++;
}
