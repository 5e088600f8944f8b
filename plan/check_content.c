#include <stdlib.h>

#include "plan/check.h"
#include "plan/clock.h"
#include "plan/internal.h"

/*
 * Walks the ops in a topological order.  For each slot it keeps the last writer (DEFINE and MODIFY
 * write) and the readers since then.  A reader must start after the writer is done.  A writer must
 * start after these readers are done, or after the last writer if there were none.  All other
 * orders of two users follow from these, so any topological order gives the same answer.
 *
 * Where slots share bytes, a writer of one ends the content of the others: it must start after
 * their users, as if they were its own, and nobody may use what they held.  A reader of one follows
 * its writer, so what holds of writers holds of readers.
 *
 * Across the end of the step, the step's last writer and readers come before the next step's first
 * ones.  A plan without ops is the homes of a run: no step of it writes over anything.
 */

/* Readers form linked lists of uses. */
struct slot_state {
    uint32_t last_user;
    uint32_t writer;        /* op, or MW_NONE */
    uint32_t readers;       /* use, or MW_NONE: readers since the writer */
    uint32_t first_writer;  /* op, or MW_NONE */
    uint32_t first_readers; /* use, or MW_NONE: readers before the first writer */
    uint32_t lost_to;       /* op that wrote over its content since, or MW_NONE */
};

struct walk {
    struct mw_plan_check *check;
    struct mw_plan_clock *clock; /* of the programs that are looked at */
    struct slot_state *slots;    /* [slot_count] */
    uint32_t *next_reader;       /* [use_count] next use in the list */
    uint32_t *reader;            /* [use_count] op of the use */
};

static const char *
purpose_of(const struct mw_plan *plan, uint32_t slot)
{
    return mw_purpose_name(plan->slots[slot].purpose);
}

static bool
require_done(const struct walk *walk, uint32_t slot, uint32_t first, uint32_t second)
{
    const struct mw_plan *plan = walk->check->plan;

    if (mw_plan_clock_done_before(walk->clock, first, second))
        return true;
    return mw_plan_refuse(walk->check, "slot %u (%s): %s uses it without waiting for %s", slot,
                          purpose_of(plan, slot), mw_plan_label_op(walk->check, second).text,
                          mw_plan_label_op(walk->check, first).text);
}

static bool
require_done_next(const struct walk *walk, uint32_t slot, uint32_t first, uint32_t second)
{
    const struct mw_plan *plan = walk->check->plan;

    if (mw_plan_clock_done_before_next(walk->clock, first, second))
        return true;
    return mw_plan_refuse(walk->check,
                          "slot %u (%s): %s uses it without waiting for %s of the step before",
                          slot, purpose_of(plan, slot), mw_plan_label_op(walk->check, second).text,
                          mw_plan_label_op(walk->check, first).text);
}

static bool
add_reader(struct walk *walk, uint32_t op, uint32_t use, uint32_t slot)
{
    struct slot_state *state = &walk->slots[slot];

    walk->reader[use] = op;
    walk->next_reader[use] = state->readers;
    state->readers = use;
    return state->writer == MW_NONE || require_done(walk, slot, state->writer, op);
}

/* The users of a slot's present content are done before an op writes to its bytes. */
static bool
require_users_done(const struct walk *walk, uint32_t slot, uint32_t op)
{
    const struct slot_state *state = &walk->slots[slot];

    for (uint32_t use = state->readers; use != MW_NONE; use = walk->next_reader[use])
        if (!require_done(walk, slot, walk->reader[use], op))
            return false;
    return state->readers != MW_NONE || state->writer == MW_NONE ||
           require_done(walk, slot, state->writer, op);
}

static bool
write_over(struct walk *walk, uint32_t op, uint32_t slot)
{
    const struct mw_plan_overlaps *overlaps = &walk->check->overlaps;

    if (!overlaps->begin)
        return true;
    for (uint32_t i = overlaps->begin[slot]; i < overlaps->begin[slot + 1]; i++) {
        if (walk->slots[overlaps->others[i]].last_user == op)
            return mw_plan_refuse(walk->check, "slots %u and %u share bytes: %s uses both", slot,
                                  overlaps->others[i], mw_plan_label_op(walk->check, op).text);
        if (!require_users_done(walk, overlaps->others[i], op))
            return false;
        walk->slots[overlaps->others[i]].lost_to = op;
    }
    return true;
}

static bool
add_writer(struct walk *walk, uint32_t op, uint32_t slot)
{
    struct slot_state *state = &walk->slots[slot];

    if (!require_users_done(walk, slot, op) || !write_over(walk, op, slot))
        return false;
    state->lost_to = MW_NONE;
    if (state->writer == MW_NONE) {
        state->first_writer = op;
        state->first_readers = state->readers;
    }
    state->writer = op;
    state->readers = MW_NONE;
    return true;
}

static bool
add_use(struct walk *walk, uint32_t op, uint32_t index)
{
    const struct mw_plan *plan = walk->check->plan;
    const struct mw_use *use = &plan->uses[index];
    struct slot_state *state = &walk->slots[use->slot];

    if (state->last_user == op)
        return mw_plan_refuse(walk->check, "slot %u (%s): %s uses it twice", use->slot,
                              purpose_of(plan, use->slot), mw_plan_label_op(walk->check, op).text);
    state->last_user = op;
    if (use->mode != MW_USE_DEFINE && state->writer == MW_NONE &&
        !plan->slots[use->slot].persistent)
        return mw_plan_refuse(walk->check, "slot %u (%s): %s would %s it, but it holds nothing yet",
                              use->slot, purpose_of(plan, use->slot),
                              mw_plan_label_op(walk->check, op).text, mw_use_mode_name(use->mode));
    if (use->mode != MW_USE_DEFINE && state->lost_to != MW_NONE)
        return mw_plan_refuse(
            walk->check, "slot %u (%s): %s would %s it, but %s wrote over bytes that it shares",
            use->slot, purpose_of(plan, use->slot), mw_plan_label_op(walk->check, op).text,
            mw_use_mode_name(use->mode), mw_plan_label_op(walk->check, state->lost_to).text);
    if (use->mode == MW_USE_READ)
        return add_reader(walk, op, index, use->slot);
    return add_writer(walk, op, use->slot);
}

static bool
walk_step(struct walk *walk)
{
    const struct mw_plan *plan = walk->check->plan;

    for (uint32_t i = 0; i < walk->clock->op_count; i++) {
        uint32_t index = walk->clock->order[i];
        const struct mw_op *op = &plan->ops[index];

        for (uint32_t j = 0; j < op->use_count; j++)
            if (!add_use(walk, index, op->use_begin + j))
                return false;
    }
    return true;
}

/* Checks that this step's last users of a slot come before the next step's first users. */
static bool
check_next_step(struct walk *walk, uint32_t slot)
{
    const struct slot_state *state = &walk->slots[slot];

    if (state->writer == MW_NONE)
        return true;
    for (uint32_t use = state->first_readers; use != MW_NONE; use = walk->next_reader[use])
        if (!require_done_next(walk, slot, state->writer, walk->reader[use]))
            return false;
    for (uint32_t use = state->readers; use != MW_NONE; use = walk->next_reader[use])
        if (!require_done_next(walk, slot, walk->reader[use], state->first_writer))
            return false;
    return state->first_readers != MW_NONE || state->readers != MW_NONE ||
           require_done_next(walk, slot, state->writer, state->first_writer);
}

/* --- programs, one after the other ------------------------------------------------------------ */

/* Programs share no op and no slot.  Where they lie apart each has a clock of its own, which stays
 * in a core's caches while it is needed; else all are one part. */
static uint32_t
part_count(const struct mw_plan_check *check)
{
    return check->program_begin ? check->plan->program_count : 1;
}

/* Returns false with a refusal if a program has too many lanes. */
static bool
begin_part(struct walk *walk, uint32_t part)
{
    struct mw_plan_check *check = walk->check;
    uint32_t first = check->program_begin ? check->program_begin[part] : 0;
    uint32_t end = check->program_begin ? check->program_begin[part + 1] : check->plan->op_count;

    walk->clock = check->clock;
    if (walk->clock)
        return true;
    walk->clock = mw_plan_clock_new(check->plan, check->order + first, first, end - first);
    return walk->clock ||
           mw_plan_refuse(check, "a rank has more than %d lanes with ops", MW_MAX_LANES_PER_RANK);
}

/* The clock of all programs is kept for the checks behind this one. */
static void
end_part(struct walk *walk)
{
    if (walk->check->program_begin)
        mw_plan_clock_free(walk->clock);
    else
        walk->check->clock = walk->clock;
    walk->clock = NULL;
}

static bool
walk_parts(struct walk *walk)
{
    struct mw_plan_barrier barrier = {MW_NONE};
    bool good = true, met = true;

    for (uint32_t part = 0; part < part_count(walk->check) && good; part++) {
        good = begin_part(walk, part) && walk_step(walk);
        met = met && good && mw_plan_finds_barrier(walk->check->plan, walk->clock, &barrier);
        end_part(walk);
    }
    walk->check->barriered = good && met && barrier.commit != MW_NONE;
    return good;
}

static bool
check_next_steps(struct walk *walk)
{
    struct mw_plan_check *check = walk->check;
    bool good = true;

    for (uint32_t part = 0; part < part_count(check) && good; part++) {
        good = begin_part(walk, part);
        if (good)
            mw_plan_clock_add_previous(walk->clock);
        for (uint32_t i = 0; i < check->plan->slot_count && good; i++)
            if (!check->program_begin || check->plan->slots[i].program == part)
                good = check_next_step(walk, i);
        end_part(walk);
    }
    return good;
}

static bool
check_steps(struct walk *walk)
{
    struct mw_plan_check *check = walk->check;

    if (check->barriered)
        return true;
    if (check->overlaps.begin && check->plan->op_count)
        return mw_plan_refuse(check, "slots share bytes, and no barrier is between two steps: "
                                     "expected a begin op that waits for a commit");
    return check_next_steps(walk);
}

bool
mw_plan_check_content(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    struct walk walk = {.check = check};
    bool good;

    walk.slots = mw_plan_allocate(plan->slot_count, sizeof *walk.slots);
    walk.next_reader = mw_plan_allocate(plan->use_count, sizeof *walk.next_reader);
    walk.reader = mw_plan_allocate(plan->use_count, sizeof *walk.reader);
    for (uint32_t i = 0; i < plan->slot_count; i++)
        walk.slots[i] = (struct slot_state){MW_NONE, MW_NONE, MW_NONE, MW_NONE, MW_NONE, MW_NONE};
    good = walk_parts(&walk) && check_steps(&walk);
    free(walk.slots);
    free(walk.next_reader);
    free(walk.reader);
    return good;
}
