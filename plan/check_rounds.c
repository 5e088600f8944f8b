/*
 * Proves a plan with sections from few rounds of each, and from these for all rounds.
 *
 * The plan is unfolded with few rounds and checked as any other plan.  That covers the first and
 * the last rounds; induction covers those in the middle.  A row of the clock says which ops are
 * certain to be done before an op starts, as a number of ops for each lane.  A row follows from the
 * rows of the ops before it in its lane and of its dependencies, which are at most `reach` rounds
 * back.  Suppose that for `reach` rounds each row follows the row of the round before: every lane's
 * number stays the same or grows by the lane's ops of one round.  Then the rows of the next round
 * do so too, and so on.
 *
 * A use of a slot and the use before it move on together, round by round.  They are at most as many
 * rounds apart as a ring needs to turn.  So what one round proves of them holds in all rounds.  A
 * number that stays the same counts only ops before the section, and proves nothing of ops within
 * it.
 *
 * There are no cycles, since in a plan with sections each op depends only on earlier ones.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/check.h"
#include "plan/clock.h"
#include "plan/internal.h"

/* Rings that turn so slowly that they would need more rounds are refused. */
#define REACH_MAX 1000
/* A section with more uses of slots in a row is refused, too. */
#define ROW_USES_MAX 4096

struct induction {
    struct mw_plan_check *check, flat; /* check of the plan, and of the plan with few rounds */
    struct mw_shortened few;
    struct mw_lane_positions places; /* positions in the plan with few rounds */
    uint32_t section, outer;         /* section that is checked, in this round of the section around
                                      * it */
    int level;
};

/* --- reach of dependencies and slots --------------------------------------------------------- */

/* How many rounds the op's dependencies reach back, in rounds of its outermost or of its inner
 * section. */
static int64_t
rounds_back(const struct mw_plan *plan, uint32_t op)
{
    uint32_t sections[MW_SECTION_LEVELS];
    int depth = mw_plan_sections_of(plan, op, sections);
    int64_t mine = mw_plan_unfolded_number(plan, (struct mw_op_place){.op = op}), most = 0;
    const struct mw_op *it = &plan->ops[op];

    for (uint32_t d = it->dep_begin; d < it->dep_begin + it->dep_count; d++) {
        if (plan->deps[d] & MW_DEP_PREVIOUS_STEP)
            continue;
        for (int level = 0; level < depth; level++) {
            int64_t span = plan->sections[sections[level]].span;
            int64_t back = (mine - plan->deps[d] + span - 1) / span;
            /* A dependency with another stride, or one further back, is never in the same
             * section. */
            if (plan->dep_strides[d].by[level] == span && back > most &&
                back < plan->sections[sections[level]].rounds)
                most = back;
        }
    }
    return most;
}

/* Rounds until each slot of a ring has had its turn, if one round uses `used` slots. */
static int64_t
rounds_of_ring(const struct mw_use_stride *ring, int level, uint32_t used)
{
    int64_t count = ring->ring_count, by = ring->by[level] % count;
    int64_t ahead = by < 0 ? by + count : by, way = ahead < count - ahead ? ahead : count - ahead;

    return used >= count || !way ? 1 : 1 + (count - used + way - 1) / way;
}

/* The most rounds between two uses of one slot in a row, if the section has that many rounds.
 * Returns more than REACH_MAX if the section has too many uses of rows. */
static int64_t
rounds_of_rows(const struct mw_plan *plan, const struct mw_section *section, int level)
{
    const struct mw_op *end = &plan->ops[section->first_op + section->op_count - 1];
    uint32_t *uses = mw_plan_allocate(ROW_USES_MAX, sizeof *uses), count = 0;
    int64_t most = 1;

    for (uint32_t u = plan->ops[section->first_op].use_begin; u < end->use_begin + end->use_count;
         u++) {
        const struct mw_use_stride *stride = &plan->use_strides[u];
        if (stride->ring_count || !stride->by[level])
            continue;
        for (uint32_t i = 0; i < count; i++) {
            int64_t by = llabs(stride->by[level]);
            int64_t apart = llabs((int64_t)plan->uses[u].slot - plan->uses[uses[i]].slot);
            if (by == llabs(plan->use_strides[uses[i]].by[level]) && apart % by == 0 &&
                apart / by < section->rounds && apart / by > most)
                most = apart / by;
        }
        if (count == ROW_USES_MAX) {
            most = REACH_MAX + 1;
            break;
        }
        uses[count++] = u;
    }
    free(uses);
    return most;
}

static int64_t
find_reach(const struct mw_plan *plan)
{
    uint32_t *used = mw_plan_allocate(plan->slot_count, sizeof *used); /* indexed by the ring's
                                                                        * first slot */
    uint32_t *seen = mw_plan_allocate(plan->slot_count, sizeof *seen); /* section + 1 in which the
                                                                        * slot was last seen */
    int64_t reach = 1;

    for (uint32_t s = 0; s < plan->section_count; s++) {
        const struct mw_section *section = &plan->sections[s];
        int level = section->parent == MW_NONE ? 0 : 1;
        uint32_t begin = section->first_op, end = begin + section->op_count;

        int64_t rows = rounds_of_rows(plan, section, level);
        reach = rows > reach ? rows : reach;
        memset(used, 0, plan->slot_count * sizeof *used);
        for (int count = 1; count >= 0; count--) /* the first pass counts used slots, the second
                                                  * finds the reach */
            for (uint32_t i = begin; i < end; i++)
                for (uint32_t u = plan->ops[i].use_begin;
                     u < plan->ops[i].use_begin + plan->ops[i].use_count; u++) {
                    const struct mw_use_stride *ring = &plan->use_strides[u];
                    uint32_t slot = plan->uses[u].slot;
                    if (!ring->ring_count)
                        continue;
                    if (count) {
                        used[ring->ring_first] += seen[slot] != s + 1;
                        seen[slot] = s + 1;
                        continue;
                    }
                    int64_t rounds = rounds_of_ring(ring, level, used[ring->ring_first]);
                    reach = rounds > reach ? rounds : reach;
                }
    }
    for (uint32_t i = 0; i < plan->op_count; i++) {
        int64_t back = rounds_back(plan, i);
        reach = back > reach ? back : reach;
    }
    free(used);
    free(seen);
    return reach;
}

/* --- dependencies on earlier ops ------------------------------------------------------------- */

static bool
depends_on_earlier(const struct mw_plan *plan, uint32_t op)
{
    uint32_t sections[MW_SECTION_LEVELS];
    int depth = mw_plan_sections_of(plan, op, sections);
    int64_t mine = mw_plan_unfolded_number(plan, (struct mw_op_place){.op = op});
    const struct mw_op *it = &plan->ops[op];

    for (uint32_t d = it->dep_begin; d < it->dep_begin + it->dep_count; d++) {
        int64_t ahead = mine - MW_DEP_INDEX(plan->deps[d]), least = ahead;
        struct mw_op_place target;
        if (plan->deps[d] & MW_DEP_PREVIOUS_STEP)
            continue;
        mw_plan_find_number(plan, MW_DEP_INDEX(plan->deps[d]), &target);
        for (int level = 0; level < depth; level++) {
            const struct mw_section *section = &plan->sections[sections[level]];
            int64_t more = (int64_t)section->span - plan->dep_strides[d].by[level];
            least += more < 0 ? more * (section->rounds - 1) : 0;
            /* A dependency within the op's own section must move on with it; it may not stay in one
             * round. */
            if (section->rounds > 1 && more && target.op >= section->first_op &&
                target.op < section->first_op + section->op_count)
                return false;
        }
        if (least <= 0)
            return false;
    }
    return true;
}

static bool
check_earlier(struct mw_plan_check *check)
{
    for (uint32_t i = 0; i < check->plan->op_count; i++)
        if (!depends_on_earlier(check->plan, i))
            return mw_plan_refuse(check,
                                  "%s: depends on a later op, or on one round of its own section, "
                                  "in a plan with sections",
                                  mw_plan_label_op(check, i).text);
    return true;
}

/* --- from round to round --------------------------------------------------------------------- */

/* Whether every lane's number stays the same, or grows by the lane's ops of one round. */
static bool
row_follows(const struct induction *it, uint32_t before, uint32_t after)
{
    const struct mw_plan_clock *clock = it->flat.clock;
    const struct mw_plan *plan = it->flat.plan;
    uint32_t program = clock->program_of_lane[plan->ops[before].lane];
    const uint32_t *from = clock->done + (size_t)before * clock->width;
    const uint32_t *to = clock->done + (size_t)after * clock->width;

    for (uint32_t l = 0; l < plan->lane_count; l++) {
        if (clock->last[l] == MW_NONE || clock->program_of_lane[l] != program)
            continue;
        int64_t span = it->places.span[(size_t)it->section * plan->lane_count + l];
        int64_t on = (int64_t)to[clock->column[l]] - from[clock->column[l]];
        if (on && on != span)
            return false;
    }
    return true;
}

/* Whether each op of a round, inner sections included, has a row that the next round's row
 * follows. */
static bool
round_follows(const struct induction *it, uint32_t round)
{
    const struct mw_section *section = &it->few.plan.sections[it->section];
    struct mw_op_place place = {.op = section->first_op};

    if (it->level)
        place.round[0] = it->outer;
    place.round[it->level] = round;
    int64_t begin = mw_plan_unfolded_number(&it->few.plan, place);
    for (int64_t i = begin; i < begin + section->span; i++)
        if (!row_follows(it, (uint32_t)i, (uint32_t)(i + section->span)))
            return false;
    return true;
}

/* Checks the rounds in the middle, which stand for those that are left out. */
static bool
check_section(struct induction *it, int64_t reach)
{
    const struct mw_plan *plan = it->check->plan;
    uint32_t few = it->few.plan.sections[it->section].rounds;

    if (plan->sections[it->section].rounds == few)
        return true;
    for (uint32_t round = few - 1 - (uint32_t)reach; round + 1 < few; round++)
        if (!round_follows(it, round))
            return mw_plan_refuse(it->check,
                                  "section %u: the ops known to be done do not advance evenly "
                                  "from round to round",
                                  it->section);
    return true;
}

static bool
check_all(struct induction *it, int64_t reach)
{
    bool good = true;

    for (it->section = 0; it->section < it->few.plan.section_count && good; it->section++) {
        uint32_t parent = it->few.plan.sections[it->section].parent;
        uint32_t outer = parent == MW_NONE ? 1 : it->few.plan.sections[parent].rounds;
        it->level = parent == MW_NONE ? 0 : 1;
        for (it->outer = 0; it->outer < outer && good; it->outer++)
            good = check_section(it, reach);
    }
    return good;
}

static bool
check_rounds(struct induction *it, int64_t reach)
{
    struct mw_plan_check *check = it->check;
    const struct mw_plan *flat = it->flat.plan;

    if (!mw_plan_check_all(&it->flat))
        return false;
    if (!it->flat.clock)
        it->flat.clock = mw_plan_clock_new(flat, it->flat.order, 0, flat->op_count);
    it->places = mw_lane_positions_new(&it->few.plan);
    bool good = check_all(it, reach);
    mw_lane_positions_clear(&it->places);
    check->barriered = it->flat.barriered;
    for (uint32_t p = 0; p < flat->program_count; p++)
        memcpy(check->plan->programs[p].peak_bytes, flat->programs[p].peak_bytes,
               sizeof flat->programs[p].peak_bytes);
    return good;
}

static bool
check_few(struct mw_plan_check *check, int64_t reach)
{
    struct induction it = {.check = check};
    struct mw_plan *flat = NULL;
    bool good = false;

    if (mw_shortened_init(&it.few, check->plan, (uint32_t)(3 * reach + 2)))
        flat = mw_shortened_unfold(&it.few, check->plan);
    if (flat) {
        it.flat = (struct mw_plan_check){
            .plan = flat, .folded = &it.few.plan, .why = check->why, .why_size = check->why_size};
        good = check_rounds(&it, reach);
        mw_plan_check_clear(&it.flat);
        mw_shortened_give_back(flat);
        mw_plan_free(flat);
    } else {
        mw_plan_refuse(check, "its sections cannot be unfolded");
    }
    mw_shortened_clear(&it.few);
    return good;
}

bool
mw_plan_check_rounds(struct mw_plan_check *check)
{
    int64_t reach = find_reach(check->plan);

    if (reach > REACH_MAX)
        return mw_plan_refuse(check,
                              "its sections: an op depends on %" PRId64
                              " rounds back, or a ring takes as many to turn: at most %d",
                              reach, REACH_MAX);
    return check_earlier(check) && check_few(check, reach);
}
