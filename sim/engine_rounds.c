/*
 * engine_rounds.c - skips rounds of a section that repeat earlier rounds.
 *
 * The state at a moment decides everything after it: the positions of the lanes, the ops in flight
 * and their progress.  The state is recorded relative to now and to the round of one lane.  If the
 * state at the end of a round equals the state at the end of an earlier round, the rounds between
 * them repeat for as long as no lane leaves the section.  These rounds are skipped, and the result
 * equals that of a run that takes all of them.
 *
 * If no state recurs, the remaining rounds take the mean of the last rounds, and the result says
 * so.
 */
#include <string.h>

#include "sim/engine_internal.h"

/* A state is compared with this many earlier ones. */
#define STATES_COMPARED 64
/* The mean is taken when no state has recurred for ROUNDS_LOOKED_AT rounds.  It spans at least
 * ROUNDS_OF_MEAN and fewer than STATES_KEPT rounds, between two ends of rounds at which the lanes
 * stand alike.  So no lane runs away from the others; if one does, rounds run one by one until it
 * has finished. */
#define ROUNDS_LOOKED_AT 256
#define ROUNDS_OF_MEAN 192
#define STATES_KEPT 1024
/* Room for so many is made first.  STATES_KEPT is this, doubled some times. */
#define ROUNDS_FEW 16

struct state {
    GArray *words; /* uint64_t; NULL for a state that is too old to be compared */
    guint64 stand; /* hash of the lanes' positions */
    guint hash;
    uint32_t round;
    guint ended;
    int64_t now_ns;
    uint64_t reshares;
    int64_t *busy_ns, *done; /* [lane_count] */
};

struct mw_rounds {
    uint32_t lane, next_lane; /* lanes whose rounds are counted; the first is the one with most
                               * ops */
    int level;
    /* The fields below belong to one pass over a section: one step, and one round of the section
     * around it. */
    uint32_t step, outer;
    bool begun, over;
    uint32_t seen, kept;  /* states recorded up to this place */
    struct state *states; /* [allocated] the state of round n is at n % STATES_KEPT */
    uint32_t allocated;   /* at most STATES_KEPT; most sections need few */
};

void
mw_engine_rounds_init(struct mw_engine *engine)
{
    const struct mw_plan *plan = engine->plan;

    engine->round_of = MW_NONE;
    if (!plan->section_count || engine->graph->match_count || engine->skip_nothing)
        return;
    engine->rounds = g_new0(struct mw_rounds, plan->section_count);
    engine->ended_rows = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t s = 0; s < plan->section_count; s++) {
        const int64_t *span = engine->graph->places.span + (size_t)s * plan->lane_count;
        struct mw_rounds *rounds = &engine->rounds[s];

        rounds->level = plan->sections[s].parent == MW_NONE ? 0 : 1;
        for (uint32_t l = 1; l < plan->lane_count; l++)
            if (span[l] > span[rounds->lane])
                rounds->lane = l;
    }
}

static void
clear_state(struct state *state)
{
    if (state->words)
        g_array_unref(state->words);
    g_free(state->busy_ns);
    g_free(state->done);
    *state = (struct state){0};
}

static void
clear_states(struct mw_rounds *rounds)
{
    for (uint32_t i = 0; i < MIN(rounds->kept, STATES_KEPT); i++)
        clear_state(&rounds->states[i]);
    rounds->kept = 0;
}

void
mw_engine_rounds_clear(struct mw_engine *engine)
{
    for (uint32_t s = 0; engine->rounds && s < engine->plan->section_count; s++) {
        clear_states(&engine->rounds[s]);
        g_free(engine->rounds[s].states);
    }
    g_free(engine->rounds);
    g_clear_pointer(&engine->ended_rows, g_array_unref);
}

/* --- the state ------------------------------------------------------------------------------- */

static bool
is_within(const struct mw_section *section, uint32_t op)
{
    return op >= section->first_op && op - section->first_op < section->op_count;
}

/* Whether the lane takes part in the rounds under examination. */
static bool
takes_part(const struct mw_engine *engine, uint32_t section, const struct mw_lane_state *lane)
{
    const struct mw_rounds *rounds = &engine->rounds[section];

    return lane->head != MW_NONE && lane->step == rounds->step &&
           (rounds->level == 0 || lane->round[0] == rounds->outer) &&
           is_within(&engine->plan->sections[section], lane->head);
}

/* Called when the lane has finished; goes on with the unfinished lane that has most rounds left. */
static void
change_lane(struct mw_engine *engine, uint32_t section)
{
    struct mw_rounds *rounds = &engine->rounds[section];
    uint32_t least = UINT32_MAX;

    for (uint32_t l = 0; l < engine->plan->lane_count; l++) {
        const struct mw_lane_state *lane = &engine->lanes[l];
        if (l == rounds->lane || !takes_part(engine, section, lane) ||
            lane->round[rounds->level] >= least)
            continue;
        least = lane->round[rounds->level];
        rounds->next_lane = l;
    }
    if (least == UINT32_MAX)
        return;
    rounds->lane = rounds->next_lane;
    rounds->begun = false;
}

void
mw_engine_end_round(struct mw_engine *engine, uint32_t lane, uint32_t section, bool again)
{
    if (!engine->rounds || engine->rounds[section].lane != lane)
        return;
    if (again)
        engine->round_of = section;
    else
        change_lane(engine, section);
}

static void
add(GArray *words, int64_t word)
{
    g_array_append_val(words, word);
}

static void
add_double(GArray *words, double value)
{
    int64_t word;

    memcpy(&word, &value, sizeof word);
    add(words, word);
}

/* Time until the item is due; negative if it is not awaited. */
static int64_t
due_in(const struct mw_engine *engine, uint32_t item)
{
    uint32_t at = engine->heap.position[item];

    return at == MW_HEAP_ABSENT ? -1 : engine->heap.entries[at].time_ns - engine->now_ns;
}

static guint64
mix(guint64 hash, guint64 word)
{
    hash = (hash ^ word) * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* An op of the step before is none of these rounds: it ends that step. */
static void
add_flow(const struct mw_engine *engine, uint32_t section, const struct mw_flow *flow,
         GArray *words)
{
    add(words, flow->op);
    add(words, (int64_t)flow->step - engine->rounds[section].step);
}

/* Returns `stand`, extended by the lane's position. */
static guint64
add_lane(const struct mw_engine *engine, uint32_t section, uint32_t index, uint32_t round,
         guint64 stand, GArray *words)
{
    guint first = words->len;
    const struct mw_lane_state *lane = &engine->lanes[index];
    bool part = takes_part(engine, section, lane);
    int level = engine->rounds[section].level;

    add(words, part);
    add(words, (int64_t)lane->step - engine->rounds[section].step);
    for (int i = 0; i < MW_SECTION_LEVELS; i++)
        add(words, (int64_t)lane->round[i] - (part && i == level ? round : 0));
    add(words, lane->next);
    add(words, lane->in_flight);
    for (guint i = first; i < words->len; i++)
        stand = mix(stand, g_array_index(words, guint64, i));
    add(words, due_in(engine, engine->plan->work_count + index));
    if (engine->heap.position[engine->plan->work_count + index] != MW_HEAP_ABSENT) {
        /* In no stream yet; what it does behind its latency differs from op to op. */
        add_flow(engine, section, &engine->flows[lane->leading], words);
        add(words, engine->now_ns - engine->flows[lane->leading].since_ns);
    }
    for (uint32_t f = lane->waiting.head, n = 0; n < lane->waiting.count; n++) {
        add_flow(engine, section, &engine->flows[f], words);
        add(words, MAX(0, engine->flows[f].ready_ns - engine->now_ns));
        f = engine->flows[f].next;
    }
    return stand;
}

/* Starts progress over, so that equal states have equal numbers. */
static void
add_stream(struct mw_engine *engine, uint32_t section, uint32_t index, GArray *words)
{
    struct mw_stream *stream = &engine->streams[index];

    if (!stream->queue.count)
        return;
    mw_stream_advance(stream, engine->now_ns);
    mw_stream_rebase(engine, stream);
    add(words, index);
    add(words, stream->queue.count);
    add(words, due_in(engine, index));
    add_double(words, stream->speed);
    for (uint32_t f = stream->queue.head, n = 0; n < stream->queue.count; n++) {
        const struct mw_flow *flow = &engine->flows[f];
        add_flow(engine, section, flow, words);
        add(words, engine->now_ns - flow->since_ns);
        add_double(words, flow->finish);
        f = flow->next;
    }
}

static struct state
take_state(struct mw_engine *engine, uint32_t section, uint32_t round)
{
    uint32_t lanes = engine->plan->lane_count;
    struct state state = {.words = g_array_new(FALSE, FALSE, sizeof(int64_t)),
                          .round = round,
                          .now_ns = engine->now_ns,
                          .ended = engine->ended_rows ? engine->ended_rows->len : 0,
                          .reshares = engine->reshares,
                          .busy_ns = g_new(int64_t, lanes),
                          .done = g_new(int64_t, lanes)};

    add(state.words, (int64_t)engine->steps_done - engine->rounds[section].step);
    for (uint32_t l = 0; l < lanes; l++) {
        state.stand = add_lane(engine, section, l, round, state.stand, state.words);
        state.busy_ns[l] = engine->lanes[l].busy_ns;
        state.done[l] = engine->lanes[l].done;
    }
    for (uint32_t w = 0; w < engine->plan->work_count; w++)
        add_stream(engine, section, w, state.words);
    for (guint i = 0; i < state.words->len; i++)
        state.hash = state.hash * 31 + (guint)g_array_index(state.words, guint64, i) +
                     (guint)(g_array_index(state.words, guint64, i) >> 32);
    return state;
}

static bool
is_same(const struct state *a, const struct state *b)
{
    return a->words && b->words && a->hash == b->hash && a->words->len == b->words->len &&
           !memcmp(a->words->data, b->words->data, a->words->len * sizeof(int64_t));
}

/* --- going on -------------------------------------------------------------------------------- */

/* A lane that takes no part may still wait for one that does; it must start where it would have
 * started. */
static int64_t
rounds_until_woken(const struct mw_engine *engine, uint32_t section,
                   const struct mw_lane_state *lane)
{
    const struct mw_lane_state *other = &engine->lanes[lane->waits_for];
    int64_t span =
        engine->graph->places.span[(size_t)section * engine->plan->lane_count + lane->waits_for];

    return span && takes_part(engine, section, other) ? (lane->waits_until - 1 - other->done) / span
                                                      : INT64_MAX;
}

/* The op an op waits for either moves on with the rounds, or is done for all rounds to come.  Where
 * it moves back, this holds once it is done. */
static int64_t
rounds_until_held(const struct mw_engine *engine, uint32_t section, uint32_t op)
{
    const struct mw_op *it = &engine->plan->ops[op];
    const struct mw_lane_state *lane = &engine->lanes[it->lane];
    int level = engine->rounds[section].level;
    int64_t least = INT64_MAX;

    for (uint32_t d = 0; d < it->dep_count; d++) {
        const struct mw_wait *wait = &engine->graph->waits[it->dep_begin + d];
        const struct mw_lane_state *other = &engine->lanes[wait->lane];
        int64_t stride = engine->graph->wait_strides[it->dep_begin + d].by[level];
        int64_t span =
            engine->graph->places.span[(size_t)section * engine->plan->lane_count + wait->lane];

        if (stride < 0 && other->done < mw_wait_until(engine, lane, it->dep_begin + d))
            return 0;
        if (stride > 0 && (wait->back || stride != span || !takes_part(engine, section, other)))
            least =
                MIN(least, (other->done - mw_wait_until(engine, lane, it->dep_begin + d)) / stride);
    }
    return MAX(0, least);
}

static int64_t
rounds_to_skip(const struct mw_engine *engine, uint32_t section)
{
    const struct mw_section *it = &engine->plan->sections[section];
    int level = engine->rounds[section].level;
    int64_t most = INT64_MAX;

    for (uint32_t l = 0; l < engine->plan->lane_count; l++) {
        const struct mw_lane_state *lane = &engine->lanes[l];
        if (takes_part(engine, section, lane))
            most = MIN(most, (int64_t)it->rounds - 1 - lane->round[level]);
        else if (lane->waits_for != MW_NONE)
            most = MIN(most, rounds_until_woken(engine, section, lane));
    }
    for (uint32_t i = it->first_op; i < it->first_op + it->op_count && most > 0; i++)
        if (takes_part(engine, section, &engine->lanes[engine->plan->ops[i].lane]))
            most = MIN(most, rounds_until_held(engine, section, i));
    return most;
}

static int64_t
times(int64_t value, int64_t rounds, int64_t of)
{
    return value / of * rounds + value % of * rounds / of;
}

/* In the timeline, repeats `often` times the rows of the ops that have ended since `from`. */
static void
repeat_rows(struct mw_engine *engine, const struct state *from, int64_t often)
{
    for (guint i = from->ended; engine->ended_rows && i < engine->ended_rows->len; i++) {
        uint32_t *more = &engine->rows[g_array_index(engine->ended_rows, uint32_t, i)].more;
        *more += (uint32_t)often * (1 + *more);
    }
}

void
mw_engine_shift_times(struct mw_engine *engine, int64_t by_ns)
{
    for (uint32_t f = 0; f < engine->flow_count; f++) {
        engine->flows[f].ready_ns += by_ns;
        engine->flows[f].since_ns += by_ns;
    }
    for (uint32_t w = 0; w < engine->plan->work_count; w++)
        engine->streams[w].since_ns += by_ns;
    for (uint32_t i = 0; i < engine->heap.count; i++)
        engine->heap.entries[i].time_ns += by_ns;
    engine->now_ns += by_ns;
}

/* Moves on as if the rounds since `from` had happened so many times again. */
static void
skip(struct mw_engine *engine, uint32_t section, const struct state *from, uint32_t round,
     int64_t rounds)
{
    const struct mw_rounds *it = &engine->rounds[section];
    int64_t of = round - from->round;
    uint64_t ops = 0;

    for (uint32_t l = 0; l < engine->plan->lane_count; l++) {
        struct mw_lane_state *lane = &engine->lanes[l];
        int64_t span = engine->graph->places.span[(size_t)section * engine->plan->lane_count + l];

        lane->busy_ns += times(lane->busy_ns - from->busy_ns[l], rounds, of);
        if (!takes_part(engine, section, lane))
            continue;
        lane->round[it->level] += (uint32_t)rounds;
        lane->done += rounds * span;
        ops += (uint64_t)(rounds * span);
    }
    repeat_rows(engine, from, rounds / of);
    engine->done_in[it->step % MW_STEP_SLOTS] += ops;
    engine->ops_done += ops;
    engine->reshares += (uint64_t)times((int64_t)(engine->reshares - from->reshares), rounds, of);
    int64_t skipped_ns = times(engine->now_ns - from->now_ns, rounds, of);
    mw_engine_shift_times(engine, skipped_ns);
    engine->skipped_ns += skipped_ns;
    engine->rounds_skipped += rounds;
}

/* Finds anew what each lane waits for. */
static void
wait_anew(struct mw_engine *engine)
{
    for (uint32_t l = 0; l < engine->plan->lane_count; l++) {
        struct mw_lane_state *lane = &engine->lanes[l];
        lane->waits_for = lane->first_waiter = MW_NONE;
        lane->waits_met = 0;
    }
    mw_engine_run_lanes(engine);
}

/* Whether the lanes that take no part have been idle; work of theirs would not repeat in every
 * round. */
static bool
others_rest(const struct mw_engine *engine, uint32_t section, const struct state *from)
{
    for (uint32_t l = 0; l < engine->plan->lane_count; l++)
        if (!takes_part(engine, section, &engine->lanes[l]) &&
            (engine->lanes[l].done != from->done[l] || engine->lanes[l].in_flight))
            return false;
    return true;
}

static void
begin_rounds(struct mw_rounds *rounds, const struct mw_lane_state *lane)
{
    uint32_t outer = rounds->level ? lane->round[0] : 0;

    if (rounds->begun && rounds->step == lane->step && rounds->outer == outer)
        return;
    clear_states(rounds);
    rounds->begun = true;
    rounds->over = false;
    rounds->seen = 0;
    rounds->step = lane->step;
    rounds->outer = outer;
}

/* Returns true if an earlier state has recurred; otherwise keeps the newest. */
static bool
find_again(struct mw_engine *engine, uint32_t section, struct state *now)
{
    struct mw_rounds *rounds = &engine->rounds[section];

    for (uint32_t back = 1; back <= STATES_COMPARED && back <= now->round; back++) {
        const struct state *from = &rounds->states[(now->round - back) % STATES_KEPT];
        int64_t most;

        if (!from->done || from->round != now->round - back || !is_same(from, now))
            continue;
        most = rounds_to_skip(engine, section) / back * back;
        if (most <= 0)
            return false;
        skip(engine, section, from, now->round, most);
        return true;
    }
    rounds->seen++;
    for (uint32_t back = MIN(STATES_KEPT - 1, now->round);
         rounds->seen >= ROUNDS_LOOKED_AT && back >= ROUNDS_OF_MEAN; back--) {
        const struct state *from = &rounds->states[(now->round - back) % STATES_KEPT];
        int64_t most;

        if (!from->done || from->round != now->round - back || from->stand != now->stand ||
            !others_rest(engine, section, from))
            continue;
        most = rounds_to_skip(engine, section);
        if (most <= 0)
            return false;
        skip(engine, section, from, now->round, most);
        engine->rounds_by_mean += most;
        return true;
    }
    return false;
}

/* For the states up to this round's. */
static void
make_room(struct mw_rounds *rounds, uint32_t round)
{
    uint32_t wanted = MAX(ROUNDS_FEW, rounds->allocated);

    while (wanted < STATES_KEPT && wanted <= round)
        wanted *= 2;
    if (wanted == rounds->allocated)
        return;
    rounds->states = g_renew(struct state, rounds->states, wanted);
    memset(rounds->states + rounds->allocated, 0,
           (wanted - rounds->allocated) * sizeof *rounds->states);
    rounds->allocated = wanted;
}

void
mw_engine_look_back(struct mw_engine *engine)
{
    uint32_t section = engine->round_of;
    struct mw_rounds *rounds = &engine->rounds[section];
    const struct mw_lane_state *lane = &engine->lanes[rounds->lane];

    engine->round_of = MW_NONE;
    if (lane->head == MW_NONE || !is_within(&engine->plan->sections[section], lane->head))
        return;
    begin_rounds(rounds, lane);
    uint32_t round = lane->round[rounds->level];
    if (rounds->over || round + 2 >= engine->plan->sections[section].rounds)
        return;
    make_room(rounds, round);
    struct state now = take_state(engine, section, round);
    rounds->over = find_again(engine, section, &now);
    clear_state(&rounds->states[round % STATES_KEPT]);
    rounds->states[round % STATES_KEPT] = now;
    rounds->kept = MAX(rounds->kept, round + 1);
    if (round >= STATES_COMPARED)
        g_clear_pointer(&rounds->states[(round - STATES_COMPARED) % STATES_KEPT].words,
                        g_array_unref);
    if (rounds->over) {
        clear_states(rounds);
        wait_anew(engine);
    }
}
