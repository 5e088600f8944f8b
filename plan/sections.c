/* Sections: maps numbers of the unfolded plan, and unfolds it. */
#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

int
mw_plan_sections_of(const struct mw_plan *plan, uint32_t op, uint32_t sections[MW_SECTION_LEVELS])
{
    int depth = 0;

    for (int level = 0; level < MW_SECTION_LEVELS; level++)
        sections[level] = MW_NONE;
    for (uint32_t s = 0; s < plan->section_count && depth < MW_SECTION_LEVELS; s++) {
        if (op < plan->sections[s].first_op)
            break; /* as those behind it, which begin there or later */
        if (op < mw_section_end(&plan->sections[s]))
            sections[depth++] = s;
    }
    return depth;
}

int64_t
mw_plan_op_rounds(const struct mw_plan *plan, uint32_t op)
{
    uint32_t sections[MW_SECTION_LEVELS];
    int64_t rounds = 1;

    if (!plan->section_count)
        return 1;
    for (int depth = mw_plan_sections_of(plan, op, sections); depth-- > 0;)
        rounds *= plan->sections[sections[depth]].rounds;
    return rounds;
}

/* What sections that end before the op, or with it, add to the numbers after them. */
static int64_t
added_before(const struct mw_plan *plan, uint32_t op)
{
    int64_t added = 0;

    for (uint32_t s = 0; s < plan->section_count; s++)
        if (mw_section_end(&plan->sections[s]) <= op)
            added += (int64_t)(plan->sections[s].rounds - 1) * plan->sections[s].span;
    return added;
}

int64_t
mw_plan_unfolded_ops(const struct mw_plan *plan)
{
    return plan->op_count + added_before(plan, plan->op_count);
}

int64_t
mw_plan_unfolded_number(const struct mw_plan *plan, struct mw_op_place place)
{
    uint32_t sections[MW_SECTION_LEVELS];
    int depth = mw_plan_sections_of(plan, place.op, sections);
    int64_t number = place.op + added_before(plan, place.op);

    for (int level = 0; level < depth; level++)
        number += (int64_t)place.round[level] * plan->sections[sections[level]].span;
    return number;
}

/* Finds the last section below `parent` that begins at `number` or before.  `number` becomes a
 * number within it, or one that does not count these sections. */
static uint32_t
enter_section(const struct mw_plan *plan, uint32_t parent, int64_t *number, uint32_t *round)
{
    for (uint32_t s = 0; s < plan->section_count; s++) {
        const struct mw_section *section = &plan->sections[s];
        if (section->parent != parent)
            continue;
        int64_t all = (int64_t)section->rounds * section->span;
        if (*number < section->first_op)
            return MW_NONE;
        if (*number < section->first_op + all) {
            int64_t within = *number - section->first_op;
            *round = (uint32_t)(within / section->span);
            *number = section->first_op + within % section->span;
            return s;
        }
        *number -= all - section->op_count;
    }
    return MW_NONE;
}

bool
mw_plan_find_number(const struct mw_plan *plan, int64_t number, struct mw_op_place *place)
{
    uint32_t section = MW_NONE;

    *place = (struct mw_op_place){0};
    if (number < 0 || number >= mw_plan_unfolded_ops(plan))
        return false;
    for (int level = 0; level < MW_SECTION_LEVELS; level++) {
        section = enter_section(plan, section, &number, &place->round[level]);
        if (section == MW_NONE)
            break;
    }
    place->op = (uint32_t)number;
    return true;
}

uint32_t
mw_plan_use_slot(const struct mw_plan *plan, uint32_t use, const uint32_t round[MW_SECTION_LEVELS])
{
    uint32_t slot = plan->uses[use].slot;
    int64_t moved = 0;

    if (!plan->use_strides)
        return slot;
    const struct mw_use_stride *stride = &plan->use_strides[use];
    for (int level = 0; level < MW_SECTION_LEVELS; level++)
        moved += (int64_t)stride->by[level] * round[level];
    if (!stride->ring_count)
        return (uint32_t)(slot + moved);
    moved = (slot - stride->ring_first + moved) % stride->ring_count;
    return stride->ring_first + (uint32_t)(moved < 0 ? moved + stride->ring_count : moved);
}

struct mw_op
mw_plan_op_at(const struct mw_plan *plan, struct mw_op_place place)
{
    struct mw_op op = plan->ops[place.op];
    uint32_t sections[MW_SECTION_LEVELS];
    int depth = mw_plan_sections_of(plan, place.op, sections);

    for (int level = 0; level < depth; level++) {
        const struct mw_section *section = &plan->sections[sections[level]];
        int64_t round = place.round[level];
        op.micro_batch = (uint16_t)(op.micro_batch + round * section->micro_batch_step);
        op.layer = (int32_t)(op.layer + round * section->layer_step);
        op.shard = (uint32_t)(op.shard + round * section->shard_step);
        op.round[level] = place.round[level];
    }
    return op;
}

struct mw_op
mw_plan_numbered_op(const struct mw_plan *plan, uint32_t number)
{
    struct mw_op_place place;

    if (!plan->section_count)
        return plan->ops[number];
    mw_plan_find_number(plan, number, &place);
    return mw_plan_op_at(plan, place);
}

uint32_t
mw_plan_op_dep(const struct mw_plan *plan, const struct mw_op *op, uint32_t i)
{
    uint32_t index = op->dep_begin + i, dep = plan->deps[index];
    int64_t number = MW_DEP_INDEX(dep);

    for (int level = 0; plan->dep_strides && level < MW_SECTION_LEVELS; level++)
        number += (int64_t)plan->dep_strides[index].by[level] * op->round[level];
    return (uint32_t)number | (dep & MW_DEP_PREVIOUS_STEP);
}

struct mw_use
mw_plan_op_use(const struct mw_plan *plan, const struct mw_op *op, uint32_t i)
{
    struct mw_use use = plan->uses[op->use_begin + i];

    use.slot = mw_plan_use_slot(plan, op->use_begin + i, op->round);
    return use;
}

/* --- lanes ----------------------------------------------------------------------------------- */

struct mw_lane_positions
mw_lane_positions_new(const struct mw_plan *plan)
{
    size_t lanes = plan->lane_count;
    struct mw_lane_positions places = {
        .first = mw_plan_allocate(plan->op_count, sizeof *places.first),
        .span = mw_plan_allocate(plan->section_count * lanes, sizeof *places.span),
        .length = mw_plan_allocate(lanes, sizeof *places.length),
    };
    uint32_t ended = 0;    /* number of sections that have ended; inner ones end first */
    uint32_t next_end = 0; /* nothing ends before this op */
    bool *done = mw_plan_allocate(plan->section_count, sizeof *done);

    for (uint32_t i = 0; !plan->section_count && i < plan->op_count; i++)
        places.first[i] = places.length[plan->ops[i].lane]++;
    for (uint32_t i = 0; plan->section_count && i <= plan->op_count; i++) {
        bool ends = i >= next_end;
        next_end = ends ? UINT32_MAX : next_end;
        for (uint32_t s = plan->section_count; ends && s-- > 0 && ended < plan->section_count;) {
            const struct mw_section *section = &plan->sections[s];
            uint32_t end = mw_section_end(section);
            if (!done[s] && end > i)
                next_end = end < next_end ? end : next_end;
            if (done[s] || end > i)
                continue;
            done[s] = true;
            ended++;
            for (size_t l = 0; l < lanes; l++) {
                int64_t more = (section->rounds - 1) * places.span[s * lanes + l];
                places.length[l] += more;
                if (section->parent != MW_NONE)
                    places.span[section->parent * lanes + l] += more;
            }
        }
        if (i == plan->op_count)
            break;
        uint32_t lane = plan->ops[i].lane, sections[MW_SECTION_LEVELS];
        int depth = mw_plan_sections_of(plan, i, sections);
        places.first[i] = places.length[lane]++;
        for (int level = 0; level < depth; level++)
            places.span[sections[level] * lanes + lane]++;
    }
    free(done);
    return places;
}

void
mw_lane_positions_clear(struct mw_lane_positions *places)
{
    free(places->first);
    free(places->span);
    free(places->length);
}

int64_t
mw_lane_position(const struct mw_plan *plan, const struct mw_lane_positions *places,
                 struct mw_op_place place)
{
    uint32_t sections[MW_SECTION_LEVELS];
    int depth = mw_plan_sections_of(plan, place.op, sections);
    int64_t at = places->first[place.op];

    for (int level = 0; level < depth; level++)
        at += place.round[level] *
              places->span[(size_t)sections[level] * plan->lane_count + plan->ops[place.op].lane];
    return at;
}

/* --- unfolding ------------------------------------------------------------------------------- */

void
mw_plan_copy_works(struct mw_plan *to, const struct mw_plan *from)
{
    for (uint32_t i = 0; i < from->work_count; i++)
        mw_plan_add_work(to, from->works[i],
                         from->draws ? from->draws + from->works[i].draw_begin : NULL,
                         from->works[i].draw_count);
}

void
mw_plan_copy_head(struct mw_plan *to, const struct mw_plan *from)
{
    mw_plan_set_machine(to, from->machine);
    mw_plan_set_software(to, from->software);
    mw_plan_set_model(to, from->model);
    mw_plan_set_strategy(to, from->strategy);
    mw_plan_set_asked(to, from->asked);
    mw_plan_set_chosen(to, from->chosen);
    mw_plan_set_world(to, from->world_ranks, from->ranks_per_node, true);
    mw_plan_clear_programs(to);
    for (uint32_t i = 0; i < from->program_count; i++) {
        uint32_t program = mw_plan_add_program(to, from->programs[i].ranks);
        to->programs[program].in_flight = from->programs[i].in_flight;
        to->programs[program].apart_bytes = from->programs[i].apart_bytes;
        memcpy(to->programs[program].beside_bytes, from->programs[i].beside_bytes,
               sizeof to->programs[program].beside_bytes);
    }
    to->shape = from->shape;
    memcpy(to->tiers, from->tiers, sizeof to->tiers);
}

void
mw_plan_copy_tables(struct mw_plan *to, const struct mw_plan *from)
{
    mw_plan_copy_head(to, from);
    for (uint32_t i = 0; i < from->comm_count; i++)
        mw_plan_add_comm(to, from->comms[i]);
    for (uint32_t i = 0; i < from->lane_count; i++)
        mw_plan_add_lane(to, from->lanes[i]);
    for (uint32_t i = 0; i < from->channel_count; i++)
        mw_plan_add_channel(to, from->channels[i]);
    mw_plan_copy_works(to, from);
}

static void
copy_homes(struct mw_plan *to, const struct mw_plan *from)
{
    for (uint32_t i = 0; i < from->slot_count; i++)
        mw_plan_add_slot(to, from->slots[i]);
    for (uint32_t i = 0; i < from->tensor_count; i++)
        mw_plan_add_tensor(to, from->tensors[i]);
    for (uint32_t i = 0; i < from->chunk_count; i++)
        mw_plan_add_chunk(to, from->chunks[i]);
}

struct unfolding {
    const struct mw_plan *plan;
    struct mw_plan *flat;
    const struct mw_shortened *few;
    uint32_t *ring_of;    /* [slot_count] a use whose ring has the slot, or MW_NONE */
    uint32_t *ring_by;    /* [slot_count] section whose stride of the ring has been counted, or
                           * MW_NONE */
    int64_t *left_out_by; /* [slot_count] by a ring's first slot: how far the rounds left out so far
                           * would have moved the ring on */
};

/* Maps a round to one of fewer rounds.  Rounds in the middle are left out; those near an end keep
 * their distance from it. */
static bool
find_round(const struct unfolding *it, uint32_t section, uint32_t *round)
{
    uint32_t rounds = it->plan->sections[section].rounds;
    uint32_t few = it->few->plan.sections[section].rounds, left = rounds - *round;

    if (*round >= left)
        *round = left <= few ? few - left : MW_NONE;
    return *round < few;
}

static bool
find_place(const struct unfolding *it, struct mw_op_place *place)
{
    uint32_t sections[MW_SECTION_LEVELS];
    int depth = mw_plan_sections_of(it->plan, place->op, sections);

    for (int level = 0; level < depth; level++)
        if (!find_round(it, sections[level], &place->round[level]))
            return false;
    return true;
}

/* Finds the stride of a dependency in numbers of fewer rounds.  From round to round of `own`, the
 * dependency moves on by rounds of that section, or of one that contains the target. */
static bool
find_stride(const struct unfolding *it, uint32_t own, int64_t target, int64_t stride, int64_t *few)
{
    const struct mw_section *mine = &it->plan->sections[own];
    struct mw_op_place from, to;
    uint32_t sections[MW_SECTION_LEVELS];
    int differ = -1;

    *few = 0;
    if (!stride)
        return true;
    if (stride % (int64_t)mine->span == 0) {
        *few = stride / (int64_t)mine->span * it->few->plan.sections[own].span;
        return true;
    }
    if (!mw_plan_find_number(it->plan, target, &from) ||
        !mw_plan_find_number(it->plan, target + stride, &to) || from.op != to.op)
        return false;
    int depth = mw_plan_sections_of(it->plan, from.op, sections);
    for (int level = 0; level < depth; level++)
        if (from.round[level] != to.round[level]) {
            if (differ >= 0)
                return false;
            differ = level;
        }
    if (differ < 0)
        return false;
    *few = ((int64_t)to.round[differ] - from.round[differ]) *
           it->few->plan.sections[sections[differ]].span;
    return true;
}

/* Maps a number of the plan to a number with fewer rounds. */
static bool
few_number(const struct unfolding *it, int64_t number, int64_t *few)
{
    struct mw_op_place place;

    if (!mw_plan_find_number(it->plan, number, &place) || !find_place(it, &place))
        return false;
    *few = mw_plan_unfolded_number(&it->few->plan, place);
    return true;
}

/* Whether the stride with fewer rounds leads to the same target in the last round. */
static bool
is_same_in_last_round(const struct unfolding *it, uint32_t section, int64_t number, int64_t by,
                      int64_t few, int64_t few_by)
{
    int64_t last;

    return few_number(it, number + by * ((int64_t)it->plan->sections[section].rounds - 1), &last) &&
           last == few + few_by * ((int64_t)it->few->plan.sections[section].rounds - 1);
}

static bool
unfold_dep(struct unfolding *it, struct mw_op_place place, const uint32_t *sections, int depth,
           uint32_t index)
{
    uint32_t dep = it->plan->deps[index];
    int64_t number = MW_DEP_INDEX(dep), moved = 0, few, first;

    if (!few_number(it, number, &first))
        return false;
    for (int level = 0; level < depth; level++) {
        int64_t by = it->plan->dep_strides[index].by[level];
        if (!find_stride(it, sections[level], number, by, &few) ||
            !is_same_in_last_round(it, sections[level], number, by, first, few))
            return false;
        moved += few * place.round[level];
    }
    number = first + moved;
    if (number < 0 || number >= mw_plan_unfolded_ops(&it->few->plan))
        return false;
    mw_plan_add_dep(it->flat, (uint32_t)number | (dep & MW_DEP_PREVIOUS_STEP));
    return true;
}

static void
find_rings(struct unfolding *it)
{
    const struct mw_plan *plan = it->plan;

    it->left_out_by = mw_plan_allocate(plan->slot_count, sizeof *it->left_out_by);
    it->ring_of = mw_plan_allocate_nones(plan->slot_count);
    it->ring_by = mw_plan_allocate_nones(plan->slot_count);
    for (uint32_t u = 0; plan->use_strides && u < plan->use_count; u++) {
        const struct mw_use_stride *ring = &plan->use_strides[u];
        if (!ring->ring_count || it->ring_of[ring->ring_first] != MW_NONE)
            continue;
        for (uint32_t i = 0; i < ring->ring_count; i++)
            it->ring_of[ring->ring_first + i] = u;
    }
}

/* After a section, rings are where fewer rounds leave them. */
static uint32_t
move_ring(const struct unfolding *it, uint32_t slot)
{
    uint32_t use = slot < it->plan->slot_count ? it->ring_of[slot] : MW_NONE;

    if (use == MW_NONE)
        return slot;
    const struct mw_use_stride *ring = &it->plan->use_strides[use];
    int64_t at = (slot - ring->ring_first - it->left_out_by[ring->ring_first]) % ring->ring_count;
    return ring->ring_first + (uint32_t)(at < 0 ? at + ring->ring_count : at);
}

/* A slot of a row keeps its distance from the nearer end of the row; so must the slot of the last
 * round. */
static bool
find_slot(const struct unfolding *it, uint32_t use, struct mw_op_place place,
          const uint32_t *sections, int depth, uint32_t *slot)
{
    const struct mw_use_stride *stride = &it->plan->use_strides[use];
    int64_t first = it->plan->uses[use].slot, moved = 0;
    uint32_t few, last;

    if (stride->ring_count) {
        *slot = move_ring(it, mw_plan_use_slot(it->plan, use, place.round));
        return *slot < it->plan->slot_count;
    }
    if (!mw_shortened_slot(it->few, (uint32_t)first, &few))
        return false;
    for (int level = 0; level < depth; level++) {
        int64_t by = stride->by[level];
        int64_t end = first + by * ((int64_t)it->plan->sections[sections[level]].rounds - 1);
        if (!mw_shortened_slot(it->few, (uint32_t)end, &last) ||
            last != few + by * ((int64_t)it->few->plan.sections[sections[level]].rounds - 1))
            return false;
        moved += by * place.round[level];
    }
    *slot = move_ring(it, (uint32_t)(few + moved));
    return *slot < it->plan->slot_count;
}

/* Called after the last op of a section's last round. */
static void
leave_section(struct unfolding *it, uint32_t s, int level)
{
    const struct mw_plan *plan = it->plan;
    const struct mw_section *section = &plan->sections[s];
    int64_t left_out = (int64_t)section->rounds - it->few->plan.sections[s].rounds;
    const struct mw_op *last = &plan->ops[mw_section_end(section) - 1];

    for (uint32_t u = plan->ops[section->first_op].use_begin;
         left_out && u < last->use_begin + last->use_count; u++) {
        const struct mw_use_stride *ring = &plan->use_strides[u];
        /* All uses of a ring move on alike, so the first one counts for all. */
        if (ring->ring_count && it->ring_by[ring->ring_first] != s) {
            it->ring_by[ring->ring_first] = s;
            it->left_out_by[ring->ring_first] += left_out * ring->by[level] % ring->ring_count;
        }
    }
    for (uint32_t u = plan->ops[section->first_op].use_begin;
         left_out && u < last->use_begin + last->use_count; u++)
        if (plan->use_strides[u].ring_count)
            it->ring_by[plan->use_strides[u].ring_first] = MW_NONE;
}

static void
leave_sections(struct unfolding *it, struct mw_op_place place)
{
    uint32_t sections[MW_SECTION_LEVELS];

    for (int level = mw_plan_sections_of(it->plan, place.op, sections); level-- > 0;) {
        uint32_t s = sections[level];
        if (place.op + 1 != mw_section_end(&it->plan->sections[s]) ||
            place.round[level] + 1 < it->few->plan.sections[s].rounds)
            return;
        leave_section(it, s, level);
    }
}

static bool
unfold_op(struct unfolding *it, struct mw_op_place place)
{
    const struct mw_op *op = &it->plan->ops[place.op];
    uint32_t sections[MW_SECTION_LEVELS];
    int depth = mw_plan_sections_of(it->plan, place.op, sections);

    mw_plan_add_op(it->flat, mw_plan_op_at(it->plan, place));
    for (uint32_t d = 0; d < op->dep_count; d++)
        if (!unfold_dep(it, place, sections, depth, op->dep_begin + d))
            return false;
    for (uint32_t u = 0; u < op->use_count; u++) {
        const struct mw_use *use = &it->plan->uses[op->use_begin + u];
        uint32_t slot;
        if (!find_slot(it, op->use_begin + u, place, sections, depth, &slot))
            return false;
        mw_plan_add_use(it->flat, slot, use->mode, use->role);
    }
    return true;
}

static struct mw_plan *
unfold(const struct mw_plan *plan, const struct mw_shortened *few)
{
    struct unfolding it = {.plan = plan, .flat = mw_plan_new(plan->title), .few = few};
    bool good = true;

    mw_plan_copy_tables(it.flat, plan);
    find_rings(&it);
    for (int64_t i = 0, count = mw_plan_unfolded_ops(&few->plan); i < count && good; i++) {
        struct mw_op_place place;
        mw_plan_find_number(&few->plan, i, &place);
        good = unfold_op(&it, place);
        leave_sections(&it, place);
    }
    free(it.ring_of);
    free(it.ring_by);
    free(it.left_out_by);
    if (good)
        return it.flat;
    mw_plan_free(it.flat);
    return NULL;
}

struct mw_plan *
mw_plan_unfold(const struct mw_plan *plan)
{
    const struct mw_shortened all = {.plan = *plan};
    struct mw_plan *flat = unfold(plan, &all);

    if (flat)
        copy_homes(flat, plan);
    return flat;
}

struct mw_plan *
mw_shortened_unfold(const struct mw_shortened *few, const struct mw_plan *plan)
{
    struct mw_plan *flat = unfold(plan, few);

    if (!flat)
        return NULL;
    flat->slots = plan->slots;
    flat->slot_count = plan->slot_count;
    flat->tensors = plan->tensors;
    flat->tensor_count = plan->tensor_count;
    flat->chunks = plan->chunks;
    flat->chunk_count = plan->chunk_count;
    return flat;
}

void
mw_shortened_give_back(struct mw_plan *flat)
{
    flat->slots = NULL;
    flat->tensors = NULL;
    flat->chunks = NULL;
    flat->slot_count = flat->tensor_count = flat->chunk_count = 0;
}
