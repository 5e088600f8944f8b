#include "tests/sketch_internal.h"

#include <string.h>

uint64_t
sketch_bit(uint32_t op)
{
    return (uint64_t)1 << op;
}

uint32_t
sketch_rank_of(const struct sketch *sketch, uint32_t op)
{
    return sketch->lanes[sketch->ops[op].lane].program;
}

/* Closure. */

static void
add_all(struct sketch_set *to, const struct sketch_set *from)
{
    to->step[0] |= from->step[0];
    to->step[1] |= from->step[1];
}

/* An op that is done, and all before it in its lane. */
static void
add_done(const struct sketch *sketch, struct sketch_set *done, int step, uint32_t op)
{
    for (uint32_t i = 0; i < sketch->op_count; i++) {
        if (sketch->ops[i].lane != sketch->ops[op].lane)
            continue;
        if (i <= op)
            done->step[step] |= sketch_bit(i);
        if (step)
            done->step[0] |= sketch_bit(i);
    }
}

/* The op that has to be done for this one to have room: as many before it as the window holds. */
static void
add_window(const struct sketch *sketch, struct sketch_set *done, int step, uint32_t index)
{
    uint32_t lane = sketch->ops[index].lane, left = sketch->lanes[lane].window_ops, op = index;

    while (left) {
        if (op == 0) {
            if (!step--)
                return;
            op = sketch->op_count;
        }
        left -= sketch->ops[--op].lane == lane;
    }
    add_done(sketch, done, step, op);
}

/* `step` 0 looks at the step before: its ops know of no earlier one. */
static struct sketch_set
close_op(const struct sketch *sketch, uint32_t index, int step, const struct sketch_set *first,
         const struct sketch_set *own, const int *last, const int *last_of_step)
{
    const struct sketch_op *op = &sketch->ops[index];
    struct sketch_set done = {{0, 0}};

    if (last[op->lane] >= 0)
        add_all(&done, &own[last[op->lane]]);
    else if (step)
        add_all(&done, &first[last_of_step[op->lane]]);
    add_window(sketch, &done, step, index);
    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = MW_DEP_INDEX(op->deps[i]);
        bool previous = op->deps[i] & MW_DEP_PREVIOUS_STEP;

        if (previous && !step)
            continue;
        add_all(&done, previous ? &first[dep] : &own[dep]);
        add_done(sketch, &done, previous ? 0 : step, dep);
    }
    return done;
}

static void
close_step(const struct sketch *sketch, int step, const struct sketch_set *first,
           struct sketch_set *own, const int *last_of_step, int *last)
{
    memset(last, -1, SKETCH_MAX_LANES * sizeof *last);
    for (uint32_t i = 0; i < sketch->op_count; i++) {
        own[i] = close_op(sketch, i, step, first, own, last, last_of_step);
        last[sketch->ops[i].lane] = (int)i;
    }
}

void
sketch_close(const struct sketch *sketch, struct sketch_set done[SKETCH_MAX_OPS])
{
    struct sketch_set first[SKETCH_MAX_OPS];
    int last_of_step[SKETCH_MAX_LANES], last[SKETCH_MAX_LANES];

    close_step(sketch, 0, NULL, first, NULL, last_of_step);
    close_step(sketch, 1, first, done, last_of_step, last);
}

/* Oracle. */

int
sketch_mode_of(const struct sketch_op *op, uint32_t slot)
{
    for (uint32_t i = 0; i < op->use_count; i++)
        if (op->uses[i].slot == slot)
            return op->uses[i].mode;
    return -1;
}

bool
sketch_conflict(int a, int b)
{
    return a >= 0 && b >= 0 && (a != MW_USE_READ || b != MW_USE_READ);
}

static bool
pairs_are_ordered(const struct sketch *sketch, const struct sketch_set *done, uint32_t slot)
{
    for (uint32_t a = 0; a < sketch->op_count; a++)
        for (uint32_t b = 0; b < sketch->op_count; b++) {
            if (!sketch_conflict(sketch_mode_of(&sketch->ops[a], slot),
                                 sketch_mode_of(&sketch->ops[b], slot)))
                continue;
            if (a < b && !(done[b].step[1] & sketch_bit(a)))
                return false;
            if (!(done[b].step[0] & sketch_bit(a)))
                return false;
        }
    return true;
}

static bool
content_is_there(const struct sketch *sketch, const struct sketch_set *done, uint32_t slot)
{
    uint64_t defines = 0;

    for (uint32_t i = 0; i < sketch->op_count; i++)
        if (sketch_mode_of(&sketch->ops[i], slot) == MW_USE_DEFINE)
            defines |= sketch_bit(i);
    for (uint32_t i = 0; i < sketch->op_count; i++)
        if (sketch_mode_of(&sketch->ops[i], slot) > MW_USE_DEFINE && !(done[i].step[1] & defines))
            return false;
    return true;
}

bool
sketch_is_safe(const struct sketch *sketch)
{
    struct sketch_set done[SKETCH_MAX_OPS];

    sketch_close(sketch, done);
    for (uint32_t slot = 0; slot < sketch->slot_count; slot++)
        if (!pairs_are_ordered(sketch, done, slot) ||
            !(sketch->slots[slot].persistent || content_is_there(sketch, done, slot)))
            return false;
    return true;
}

/* All ops of the op's rank. */
static uint64_t
rank_set(const struct sketch *sketch, uint32_t op)
{
    uint64_t set = 0;

    for (uint32_t i = 0; i < sketch->op_count; i++)
        if (sketch_rank_of(sketch, i) == sketch_rank_of(sketch, op))
            set |= sketch_bit(i);
    return set;
}

/* Only sketches with one commit at most for each rank come here. */
bool
sketch_is_barriered(const struct sketch *sketch)
{
    struct sketch_set done[SKETCH_MAX_OPS];
    bool apart = sketch->op_count > 0;
    uint64_t commits = 0;

    sketch_close(sketch, done);
    for (uint32_t i = 0; i < sketch->op_count; i++) {
        if (sketch->ops[i].work == SKETCH_WORK_COMMIT) {
            commits |= sketch_bit(i);
            apart = apart && (done[i].step[1] | sketch_bit(i)) == rank_set(sketch, i);
        }
        apart = apart && done[i].step[0] == rank_set(sketch, i);
    }
    for (uint32_t i = 0; i < sketch->op_count; i++)
        apart = apart && (rank_set(sketch, i) & commits);
    return apart;
}
