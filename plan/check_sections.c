/*
 * Checks that sections are valid, and that the dependencies and uses of their ops move on within
 * the plan.
 *
 * A dependency moves on along the lane of its target.  From round to round its target is an op of
 * the same lane, always the same number of places further on.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/check.h"
#include "plan/internal.h"

/* Targets outside of sections are checked one by one, in at most this many rounds. */
#define ROUNDS_BEFORE 4096

static bool
is_placed(const struct mw_plan *plan, uint32_t s)
{
    const struct mw_section *section = &plan->sections[s];
    const struct mw_section *parent = section->parent < s ? &plan->sections[section->parent] : NULL;
    uint32_t before = s; /* the previous section with the same parent */

    if (!section->rounds || !section->op_count || section->op_count > plan->op_count ||
        section->first_op > plan->op_count - section->op_count)
        return false;
    if (s && section->first_op < plan->sections[s - 1].first_op)
        return false;
    if (section->parent != MW_NONE &&
        (!parent || parent->parent != MW_NONE || section->first_op < parent->first_op ||
         mw_section_end(section) > mw_section_end(parent)))
        return false;
    while (before-- > 0)
        if (plan->sections[before].parent == section->parent)
            return section->first_op >= mw_section_end(&plan->sections[before]);
    return true;
}

bool
mw_plan_check_section_ranges(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    uint64_t ops = plan->op_count;

    for (uint32_t s = 0; s < plan->section_count; s++) {
        const struct mw_section *section = &plan->sections[s];
        if (!is_placed(plan, s))
            return mw_plan_refuse(check,
                                  "section %u: expected ops of the plan, behind those of the "
                                  "section before and within the one around it, and rounds",
                                  s);
        uint64_t rounds = section->rounds - 1, around = 1;
        if (section->parent != MW_NONE)
            around = plan->sections[section->parent].rounds;
        /* Each factor is below 2^32, and the product before the last factor is below 2^31. */
        uint64_t more = rounds * section->op_count;
        if (more <= MW_PLAN_MAX_OPS)
            more *= around;
        ops += more;
        if (more > MW_PLAN_MAX_OPS || ops > MW_PLAN_MAX_OPS)
            return mw_plan_refuse(check, "section %u: more than %u ops, unfolded", s,
                                  MW_PLAN_MAX_OPS);
    }
    return true;
}

/* --- identities and slots -------------------------------------------------------------------- */

struct look {
    struct mw_plan_check *check;
    struct mw_lane_positions places;
    uint32_t op;
    uint32_t sections[MW_SECTION_LEVELS];
    int depth;
};

static int64_t
last_of(const struct look *look, int level)
{
    return look->check->plan->sections[look->sections[level]].rounds - 1;
}

static bool
check_identity(const struct look *look)
{
    const struct mw_plan *plan = look->check->plan;
    const struct mw_op *op = &plan->ops[look->op];
    int64_t least[3] = {op->micro_batch, op->layer, op->shard};
    int64_t most[3] = {op->micro_batch, op->layer, op->shard};
    const int64_t least_of[3] = {0, -1, 0}, most_of[3] = {UINT16_MAX, INT32_MAX, UINT32_MAX};

    for (int level = 0; level < look->depth; level++) {
        const struct mw_section *section = &plan->sections[look->sections[level]];
        const int64_t steps[3] = {section->micro_batch_step, section->layer_step,
                                  section->shard_step};
        for (int i = 0; i < 3; i++) {
            int64_t moved = steps[i] * last_of(look, level);
            least[i] += moved < 0 ? moved : 0;
            most[i] += moved > 0 ? moved : 0;
        }
    }
    for (int i = 0; i < 3; i++)
        if (least[i] < least_of[i] || most[i] > most_of[i])
            return mw_plan_refuse(look->check, "%s: its identity leaves its range in a later round",
                                  mw_plan_label_op(look->check, look->op).text);
    if (op->match != MW_NONE)
        return mw_plan_refuse(look->check, "%s: has a match, and is in a section",
                              mw_plan_label_op(look->check, look->op).text);
    return true;
}

static bool
ring_turns(const struct mw_use_stride *stride)
{
    for (int level = 0; level < MW_SECTION_LEVELS; level++)
        if (stride->by[level] % (int64_t)stride->ring_count)
            return true;
    return false;
}

/* Of slots that share bytes, two uses are a fixed number of rounds apart only if both slots stay
 * the same: none of them may be in a ring that turns, or in a row. */
static bool
is_ring(const struct mw_plan *plan, const struct mw_use_stride *stride, uint32_t slot)
{
    if (stride->ring_count > plan->slot_count ||
        stride->ring_first > plan->slot_count - stride->ring_count || slot < stride->ring_first ||
        slot - stride->ring_first >= stride->ring_count)
        return false;
    for (uint32_t i = 0; i < stride->ring_count; i++)
        if (plan->slots[stride->ring_first + i].program != plan->slots[slot].program ||
            (plan->slots[stride->ring_first + i].shares && ring_turns(stride)))
            return false;
    return true;
}

/* The slots of a program need not be adjacent, so each slot of a row is checked.  Few rounds stand
 * for many, so either all of the slots hold a content before the step begins, or none does. */
static bool
is_row(const struct look *look, const struct mw_use_stride *stride, uint32_t slot)
{
    const struct mw_plan *plan = look->check->plan;
    int64_t least = slot, most = slot, apart = 0;

    if (stride->ring_first) /* of no ring */
        return false;
    for (int level = 0; level < look->depth; level++) {
        int64_t moved = stride->by[level] * last_of(look, level);
        least += moved < 0 ? moved : 0;
        most += moved > 0 ? moved : 0;
        apart = !moved ? apart : apart ? 1 : llabs(stride->by[level]);
    }
    if (least < 0 || most >= plan->slot_count)
        return false;
    for (int64_t i = least; apart && i <= most; i += apart)
        if (plan->slots[i].program != plan->slots[slot].program ||
            plan->slots[i].persistent != plan->slots[slot].persistent || plan->slots[i].shares)
            return false;
    return true;
}

static bool
check_use_strides(const struct look *look)
{
    const struct mw_plan *plan = look->check->plan;
    const struct mw_op *op = &plan->ops[look->op];

    for (uint32_t i = op->use_begin; i < op->use_begin + op->use_count; i++) {
        const struct mw_use_stride *stride = &plan->use_strides[i];
        uint32_t slot = plan->uses[i].slot;
        if (stride->ring_count ? !is_ring(plan, stride, slot) : !is_row(look, stride, slot))
            return mw_plan_refuse(
                look->check,
                "%s: its slot %u leaves the slots of its program, or its ring, in "
                "a later round, or moves on while it shares bytes",
                mw_plan_label_op(look->check, look->op).text, slot);
    }
    return true;
}

/* In a section, two uses of one slot are always the same number of rounds apart: all slots of a
 * ring, or in a row, move on alike.  Rows that move on differently must not overlap. */
struct moves {
    uint32_t ring_first, ring_count; /* ring of the slot; count 0: it is in no ring */
    int32_t by;
    bool known;
};

struct row {
    int32_t by;
    int64_t least, most;
};

#define ROWS_MAX 64

static bool
add_row(struct row *rows, uint32_t *count, int32_t by, int64_t first, int64_t last)
{
    int64_t least = first < last ? first : last, most = first < last ? last : first;
    uint32_t r = 0;

    while (r < *count && rows[r].by != by)
        r++;
    if (r == ROWS_MAX)
        return false;
    if (r == *count)
        rows[(*count)++] = (struct row){by, least, most};
    rows[r].least = least < rows[r].least ? least : rows[r].least;
    rows[r].most = most > rows[r].most ? most : rows[r].most;
    return true;
}

static bool
rows_lie_apart(const struct row *rows, uint32_t count)
{
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = a + 1; b < count; b++)
            if (rows[a].least <= rows[b].most && rows[b].least <= rows[a].most)
                return false;
    return true;
}

static bool
move_alike(const struct mw_plan *plan, uint32_t s, struct moves *moves)
{
    const struct mw_section *section = &plan->sections[s];
    int level = section->parent == MW_NONE ? 0 : 1;
    struct row rows[ROWS_MAX];
    uint32_t row_count = 0;
    const struct mw_op *last = &plan->ops[section->first_op + section->op_count - 1];

    memset(moves, 0, plan->slot_count * sizeof *moves);
    for (uint32_t u = plan->ops[section->first_op].use_begin; u < last->use_begin + last->use_count;
         u++) {
        const struct mw_use_stride *stride = &plan->use_strides[u];
        uint32_t slot = plan->uses[u].slot;
        struct moves mine = {stride->ring_first, stride->ring_count, stride->by[level], true};
        if (!stride->ring_count) {
            mine.ring_first = 0;
            if (mine.by && !add_row(rows, &row_count, mine.by, slot,
                                    slot + (int64_t)mine.by * (section->rounds - 1)))
                return false;
            mine.by = 0;
        }
        for (uint32_t i = 0; i < (mine.ring_count ? mine.ring_count : 1); i++) {
            struct moves *of = &moves[mine.ring_count ? mine.ring_first + i : slot];
            if (of->known && memcmp(of, &mine, sizeof mine))
                return false;
            if (mine.ring_count && of->known)
                break; /* the other slots of the ring are known, too */
            *of = mine;
        }
    }
    /* A slot that stays, or that is in a ring, must not be in a row of other slots. */
    for (uint32_t u = plan->ops[section->first_op].use_begin; u < last->use_begin + last->use_count;
         u++) {
        const struct mw_use_stride *stride = &plan->use_strides[u];
        uint32_t slot = plan->uses[u].slot;
        for (uint32_t r = 0; r < row_count; r++)
            if ((stride->ring_count || !stride->by[level]) && rows[r].least <= slot &&
                slot <= rows[r].most)
                return false;
    }
    return rows_lie_apart(rows, row_count);
}

static bool
check_moves(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    struct moves *moves = mw_plan_allocate(plan->slot_count, sizeof *moves);
    bool good = true;

    for (uint32_t s = 0; s < plan->section_count && good; s++)
        if (!move_alike(plan, s, moves))
            good = mw_plan_refuse(check, "section %u: slots of one ring, or row, do not move alike",
                                  s);
    free(moves);
    return good;
}

/* --- dependencies ---------------------------------------------------------------------------- */

/* Whether both are the same op, some rounds of one section apart. */
static bool
is_rounds_on(const struct mw_plan *plan, struct mw_op_place from, struct mw_op_place to,
             uint32_t *section, int64_t *rounds)
{
    uint32_t sections[MW_SECTION_LEVELS];
    int depth = mw_plan_sections_of(plan, from.op, sections), differ = 0;

    if (from.op != to.op)
        return false;
    for (int level = 0; level < depth; level++)
        if (from.round[level] != to.round[level]) {
            *section = sections[level];
            *rounds = (int64_t)to.round[level] - from.round[level];
            differ++;
        }
    return differ == 1;
}

/* Whether a number, moved on by the stride up to `last` times, names ops of one lane that are
 * equally far apart in it. */
static bool
moves_evenly(const struct look *look, int64_t number, int64_t stride, int64_t last)
{
    const struct mw_plan *plan = look->check->plan;
    struct mw_op_place from, to;
    int64_t apart = 0;

    if (!stride || last < 1)
        return mw_plan_find_number(plan, number, &from);
    for (int64_t r = 0, looks = 0; r < last; r++, number += stride) {
        uint32_t section = MW_NONE;
        int64_t rounds = 0;
        if (looks++ >= ROUNDS_BEFORE || !mw_plan_find_number(plan, number, &from) ||
            !mw_plan_find_number(plan, number + stride, &to) ||
            plan->ops[from.op].lane != plan->ops[to.op].lane)
            return false;
        int64_t way =
            mw_lane_position(plan, &look->places, to) - mw_lane_position(plan, &look->places, from);
        if (r && way != apart)
            return false;
        apart = way;
        /* The section repeats this step for as many rounds as it has left. */
        if (is_rounds_on(plan, from, to, &section, &rounds)) {
            int level = plan->sections[section].parent == MW_NONE ? 0 : 1;
            int64_t ahead = rounds > 0 ? plan->sections[section].rounds - 1 - from.round[level]
                                       : from.round[level];
            int64_t times = ahead / llabs(rounds) - 1;
            times = times < last - r - 1 ? times : last - r - 1;
            r += times;
            number += times * stride;
        }
    }
    return true;
}

static bool
check_dep_strides(const struct look *look)
{
    const struct mw_plan *plan = look->check->plan;
    const struct mw_op *op = &plan->ops[look->op];
    int64_t mine = mw_plan_unfolded_number(plan, (struct mw_op_place){.op = look->op});

    for (uint32_t i = op->dep_begin; i < op->dep_begin + op->dep_count; i++) {
        const int32_t *by = plan->dep_strides[i].by;
        int64_t number = MW_DEP_INDEX(plan->deps[i]);
        bool good = number != mine;
        for (int level = look->depth; level < MW_SECTION_LEVELS; level++)
            good = good && !by[level];
        for (int level = 0; level < look->depth && good; level++) {
            /* Check it with the other level in its first round and in its last round. */
            int other = 1 - level;
            int64_t moved = other < look->depth ? by[other] * last_of(look, other) : 0;
            good = moves_evenly(look, number, by[level], last_of(look, level)) &&
                   (!moved || moves_evenly(look, number + moved, by[level], last_of(look, level)));
        }
        if (!good)
            return mw_plan_refuse(look->check,
                                  "%s: what it depends on does not move on evenly in one lane",
                                  mw_plan_label_op(look->check, look->op).text);
    }
    return true;
}

/* An op in no section comes once: it has no round to move on in. */
static bool
check_no_strides(const struct look *look)
{
    static const struct mw_dep_stride no_dep;
    static const struct mw_use_stride no_use;
    const struct mw_plan *plan = look->check->plan;
    const struct mw_op *op = &plan->ops[look->op];
    bool none = true;

    for (uint32_t i = op->dep_begin; i < op->dep_begin + op->dep_count; i++)
        none = none && !memcmp(&plan->dep_strides[i], &no_dep, sizeof no_dep);
    for (uint32_t i = op->use_begin; i < op->use_begin + op->use_count; i++)
        none = none && !memcmp(&plan->use_strides[i], &no_use, sizeof no_use);
    return none || mw_plan_refuse(look->check, "%s: has strides, and is in no section",
                                  mw_plan_label_op(look->check, look->op).text);
}

static bool
check_op(struct look *look)
{
    const struct mw_plan *plan = look->check->plan;

    look->depth = mw_plan_sections_of(plan, look->op, look->sections);
    if (!look->depth)
        return check_no_strides(look);
    return check_identity(look) && check_use_strides(look) && check_dep_strides(look);
}

bool
mw_plan_check_sections(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    struct look look = {.check = check};
    bool good = true;

    if (!plan->section_count)
        return true;
    look.places = mw_lane_positions_new(plan);
    for (look.op = 0; look.op < plan->op_count && good; look.op++)
        good = check_op(&look);
    mw_lane_positions_clear(&look.places);
    return good && check_moves(check);
}

bool
mw_plan_check_section_deps(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    struct look look = {.check = check, .places = mw_lane_positions_new(plan)};
    bool good = true;

    for (look.op = 0; look.op < plan->op_count && good; look.op++) {
        look.depth = mw_plan_sections_of(plan, look.op, look.sections);
        good = !look.depth || check_dep_strides(&look);
    }
    mw_lane_positions_clear(&look.places);
    return good;
}
