#include "tests/plan_run.h"

#define NOBODY UINT64_MAX

/* An event is one op of one step: step * op_count + op. */
enum { WAITS, ARRIVED, RUNS, DONE };

struct expectation {
    uint64_t users_before;
    uint64_t writer_before; /* event */
};

struct slot_state {
    uint64_t users_done, writer_done, active, active_writers;
};

struct run {
    const struct mw_plan *plan;
    uint64_t event_count;
    uint8_t *states;
    struct expectation *expected; /* [steps * use_count] */
    struct slot_state *slots;
    uint64_t *next; /* [lane_count] event to start next, or event_count */
    uint32_t *in_flight;
    int64_t *bytes_in_flight;
};

static const struct mw_op *
op_of(const struct run *run, uint64_t event)
{
    return &run->plan->ops[event % run->plan->op_count];
}

static struct expectation *
expectation_of(const struct run *run, uint64_t event, uint32_t use)
{
    uint64_t step = event / run->plan->op_count;

    return &run->expected[step * run->plan->use_count + op_of(run, event)->use_begin + use];
}

static const struct mw_use *
use_of(const struct run *run, uint64_t event, uint32_t use)
{
    return &run->plan->uses[op_of(run, event)->use_begin + use];
}

static void
expect(struct run *run)
{
    g_autofree struct slot_state *slots = g_new0(struct slot_state, run->plan->slot_count + 1);

    for (uint32_t i = 0; i < run->plan->slot_count; i++)
        slots[i].writer_done = NOBODY;
    for (uint64_t event = 0; event < run->event_count; event++)
        for (uint32_t i = 0; i < op_of(run, event)->use_count; i++) {
            const struct mw_use *use = use_of(run, event, i);
            struct slot_state *slot = &slots[use->slot];

            *expectation_of(run, event, i) =
                (struct expectation){slot->users_done, slot->writer_done};
            slot->users_done++;
            if (use->mode != MW_USE_READ)
                slot->writer_done = event;
        }
}

static void
begin_uses(struct run *run, uint64_t event)
{
    for (uint32_t i = 0; i < op_of(run, event)->use_count; i++) {
        const struct mw_use *use = use_of(run, event, i);
        struct slot_state *slot = &run->slots[use->slot];

        g_assert_cmpuint(slot->active_writers, ==, 0);
        g_assert_cmpuint(slot->writer_done, ==, expectation_of(run, event, i)->writer_before);
        if (use->mode != MW_USE_READ) {
            g_assert_cmpuint(slot->active, ==, 0);
            g_assert_cmpuint(slot->users_done, ==, expectation_of(run, event, i)->users_before);
            slot->active_writers++;
        }
        slot->active++;
    }
}

static void
end_uses(struct run *run, uint64_t event)
{
    for (uint32_t i = 0; i < op_of(run, event)->use_count; i++) {
        const struct mw_use *use = use_of(run, event, i);
        struct slot_state *slot = &run->slots[use->slot];

        slot->active--;
        slot->users_done++;
        if (use->mode != MW_USE_READ) {
            slot->active_writers--;
            slot->writer_done = event;
        }
    }
}

static bool
deps_are_done(const struct run *run, uint64_t event)
{
    const struct mw_op *op = op_of(run, event);
    uint64_t step = event / run->plan->op_count;

    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = run->plan->deps[op->dep_begin + i];
        bool previous = dep & MW_DEP_PREVIOUS_STEP;

        if (previous && !step)
            continue;
        if (run->states[(step - previous) * run->plan->op_count + MW_DEP_INDEX(dep)] != DONE)
            return false;
    }
    return true;
}

static bool
is_member(const struct run *run, uint64_t a, uint64_t b)
{
    if (a == b)
        return true;
    return op_of(run, a)->match != MW_NONE && op_of(run, a)->match == op_of(run, b)->match &&
           a / run->plan->op_count == b / run->plan->op_count;
}

/* All members of a match move to the next state together. */
static void
start_if_all_arrived(struct run *run, uint64_t event)
{
    for (uint64_t i = 0; i < run->event_count; i++)
        if (is_member(run, event, i) && run->states[i] != ARRIVED)
            return;
    for (uint64_t i = 0; i < run->event_count; i++)
        if (is_member(run, event, i))
            run->states[i] = RUNS;
}

static uint64_t
find_next(const struct run *run, uint64_t event)
{
    uint32_t lane = op_of(run, event)->lane;

    while (++event < run->event_count && op_of(run, event)->lane != lane)
        ;
    return event;
}

static bool
start(struct run *run, uint32_t lane)
{
    uint64_t event = run->next[lane];
    const struct mw_lane *rule = &run->plan->lanes[lane];
    int64_t bytes;

    if (event >= run->event_count || run->in_flight[lane] >= rule->window_ops ||
        !deps_are_done(run, event))
        return false;
    bytes = run->plan->works[op_of(run, event)->work].bytes;
    if (rule->window_bytes && run->in_flight[lane] &&
        run->bytes_in_flight[lane] + bytes > rule->window_bytes)
        return false;
    run->in_flight[lane]++;
    run->bytes_in_flight[lane] += bytes;
    run->states[event] = ARRIVED;
    begin_uses(run, event);
    run->next[lane] = find_next(run, event);
    start_if_all_arrived(run, event);
    return true;
}

static void
start_all(struct run *run)
{
    bool progress = true;

    while (progress) {
        progress = false;
        for (uint32_t lane = 0; lane < run->plan->lane_count; lane++)
            while (start(run, lane))
                progress = true;
    }
}

/* Nothing of its lane is before it. */
static bool
is_oldest(const struct run *run, uint64_t event)
{
    uint32_t lane = op_of(run, event)->lane;

    for (uint64_t i = 0; i < event; i++)
        if (op_of(run, i)->lane == lane && run->states[i] != DONE)
            return false;
    return true;
}

/* And so it is for all that end with it. */
static bool
can_end(const struct run *run, uint64_t event)
{
    if (run->states[event] != RUNS)
        return false;
    for (uint64_t i = 0; i < run->event_count; i++)
        if (is_member(run, event, i) && !is_oldest(run, i))
            return false;
    return true;
}

static uint64_t
pick_running(const struct run *run, GRand *random)
{
    uint64_t picked = NOBODY;
    int count = 0;

    for (uint64_t i = 0; i < run->event_count; i++)
        if (can_end(run, i) && g_rand_int_range(random, 0, ++count) == 0)
            picked = i;
    return picked;
}

static void
finish(struct run *run, uint64_t event)
{
    for (uint64_t i = 0; i < run->event_count; i++)
        if (is_member(run, event, i)) {
            const struct mw_op *op = op_of(run, i);

            run->states[i] = DONE;
            run->in_flight[op->lane]--;
            run->bytes_in_flight[op->lane] -= run->plan->works[op->work].bytes;
            end_uses(run, i);
        }
}

static void
run_init(struct run *run, const struct mw_plan *plan, uint32_t steps)
{
    run->plan = plan;
    run->event_count = (uint64_t)steps * plan->op_count;
    run->states = g_new0(uint8_t, run->event_count + 1);
    run->expected = g_new0(struct expectation, (gsize)steps * plan->use_count + 1);
    run->slots = g_new0(struct slot_state, plan->slot_count + 1);
    run->next = g_new0(uint64_t, plan->lane_count + 1);
    run->in_flight = g_new0(uint32_t, plan->lane_count + 1);
    run->bytes_in_flight = g_new0(int64_t, plan->lane_count + 1);
    for (uint32_t i = 0; i < plan->slot_count; i++)
        run->slots[i].writer_done = NOBODY;
    for (uint32_t lane = 0; lane < plan->lane_count; lane++)
        while (run->next[lane] < run->event_count && op_of(run, run->next[lane])->lane != lane)
            run->next[lane]++;
    expect(run);
}

static void
run_clear(struct run *run)
{
    g_free(run->states);
    g_free(run->expected);
    g_free(run->slots);
    g_free(run->next);
    g_free(run->in_flight);
    g_free(run->bytes_in_flight);
}

void
plan_run(const struct mw_plan *plan, GRand *random, uint32_t steps)
{
    struct run run;
    uint64_t done = 0;

    g_assert_true(plan->checked);
    run_init(&run, plan, steps);
    start_all(&run);
    for (uint64_t event; (event = pick_running(&run, random)) != NOBODY;) {
        finish(&run, event);
        start_all(&run);
    }
    for (uint64_t i = 0; i < run.event_count; i++)
        done += run.states[i] == DONE;
    g_assert_cmpuint(done, ==, run.event_count);
    run_clear(&run);
}
