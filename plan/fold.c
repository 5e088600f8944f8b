/*
 * Folds rounds of equal ops into sections.
 *
 * The flat plan has only some of the rounds: it leaves out rounds at each cut.  An op, slot, layer
 * or chunk of the flat plan has a number in the folded plan: those after a cut are further on by
 * the number left out there.  Rounds around a cut become a section if they follow each other alike.
 * The numbers of the section's first round, moved on to its last round, must equal those of the
 * flat plan.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/check.h"
#include "plan/internal.h"

struct section {
    struct mw_fold_rounds rounds;
    uint32_t first, end;  /* the rounds that are alike */
    uint32_t begin, span; /* first op of the first such round, and number of ops in each */
    int64_t more;         /* unfolded ops that are left out */
    int64_t steps[3];     /* steps of micro-batch, layer and shard */
    int64_t *deps, *uses; /* strides from round to round, in numbers of the flat plan, for each
                           * dependency and use of a round */
    uint32_t *ring_by; /* [slot_count] indexed by a ring's first slot: the distance by which a round
                        * moves the ring on in the folded plan, or MW_NONE if the round does not use
                        * the ring */
};

struct fold {
    const struct mw_plan *flat;
    struct mw_plan *folded;
    const struct mw_fold *how;
    struct section *sections; /* [count] in the order of how->rounds */
    uint32_t count;
    uint32_t
        *index; /* [op_count + 1] number in the folded plan; for an op that is left out, the number
                 * of the next op */
};

/* --- rounds that are alike ------------------------------------------------------------------- */

static uint32_t
round_begin(const struct section *section, uint32_t round)
{
    return section->rounds.begins[round];
}

/* Whether the op's identity moves on as that of all ops of the round. */
static bool
is_same_op(const struct mw_op *a, const struct mw_op *b, const int64_t steps[3])
{
    return a->work == b->work && a->lane == b->lane && a->phase == b->phase && a->tile == b->tile &&
           (int64_t)b->micro_batch - a->micro_batch == steps[0] &&
           (int64_t)b->layer - a->layer == steps[1] && (int64_t)b->shard - a->shard == steps[2] &&
           a->match == MW_NONE && b->match == MW_NONE && a->dep_count == b->dep_count &&
           a->use_count == b->use_count;
}

/* An edge across the end of the step keeps its target. */
static bool
find_dep_step(uint32_t a, uint32_t b, int64_t *step)
{
    *step = (int64_t)MW_DEP_INDEX(b) - MW_DEP_INDEX(a);
    return (a & MW_DEP_PREVIOUS_STEP) == (b & MW_DEP_PREVIOUS_STEP) &&
           (!(a & MW_DEP_PREVIOUS_STEP) || a == b);
}

static bool
find_use_step(const struct fold *it, const struct mw_use *a, const struct mw_use *b, int64_t *step)
{
    struct mw_slot_ring ring = it->how->rings[a->slot], other = it->how->rings[b->slot];

    *step = (int64_t)b->slot - a->slot;
    if (ring.count && *step < 0)
        *step += ring.count;
    return a->mode == b->mode && a->role == b->role && ring.first == other.first &&
           ring.count == other.count;
}

/* `write` records the strides of the first pair; every other pair must have the same. */
static bool
op_follows(const struct fold *it, struct section *section, uint32_t a, uint32_t b, bool write,
           uint32_t *dep_at, uint32_t *use_at)
{
    const struct mw_plan *plan = it->flat;
    const struct mw_op *from = &plan->ops[a], *to = &plan->ops[b];
    int64_t step;

    if (!is_same_op(from, to, section->steps))
        return false;
    for (uint32_t i = 0; i < from->dep_count; i++) {
        int64_t *of = &section->deps[(*dep_at)++];
        if (!find_dep_step(plan->deps[from->dep_begin + i], plan->deps[to->dep_begin + i], &step) ||
            (!write && step != *of))
            return false;
        *of = step;
    }
    for (uint32_t i = 0; it->how->slots && i < from->use_count; i++) {
        int64_t *of = &section->uses[(*use_at)++];
        if (!find_use_step(it, &plan->uses[from->use_begin + i], &plan->uses[to->use_begin + i],
                           &step) ||
            (!write && step != *of))
            return false;
        *of = step;
    }
    return true;
}

/* Whether the next round is like `round`. */
static bool
round_follows(const struct fold *it, struct section *section, uint32_t round, bool write)
{
    uint32_t begin = round_begin(section, round), end = round_begin(section, round + 1);
    uint32_t dep_at = 0, use_at = 0;
    const struct mw_op *a = &it->flat->ops[begin], *b = &it->flat->ops[end];

    if (round_begin(section, round + 2) - end != end - begin)
        return false;
    if (write) {
        section->steps[0] = (int64_t)b->micro_batch - a->micro_batch;
        section->steps[1] = (int64_t)b->layer - a->layer;
        section->steps[2] = (int64_t)b->shard - a->shard;
    }
    for (uint32_t i = begin; i < end; i++)
        if (!op_follows(it, section, i, i + (end - begin), write, &dep_at, &use_at))
            return false;
    return true;
}

/* Finds the equal rounds around the cut: at least two before it and one after it. */
static bool
find_rounds(const struct fold *it, struct section *section)
{
    const struct mw_fold_rounds *rounds = &section->rounds;
    uint32_t cut = rounds->cut;

    if (cut < rounds->before + 2 || cut >= rounds->count)
        return false;
    section->span = round_begin(section, cut) - round_begin(section, cut - 1);
    const struct mw_op *first = &it->flat->ops[round_begin(section, cut - 1)];
    const struct mw_op *last = first + section->span - 1;
    section->deps = mw_plan_allocate(last->dep_begin + last->dep_count - first->dep_begin,
                                     sizeof *section->deps);
    section->uses = mw_plan_allocate(last->use_begin + last->use_count - first->use_begin,
                                     sizeof *section->uses);
    if (!round_follows(it, section, cut - 1, true))
        return false;
    section->first = cut - 1;
    section->end = cut + 1;
    while (section->first > rounds->before && round_follows(it, section, section->first - 1, false))
        section->first--;
    while (section->end < rounds->count && round_follows(it, section, section->end - 1, false))
        section->end++;
    section->begin = round_begin(section, section->first);
    return section->first + 1 < cut && section->end - section->first >= rounds->alike;
}

/* --- numbers of the folded plan -------------------------------------------------------------- */

static bool
is_behind_cut(const struct section *section, uint32_t op)
{
    return op >= round_begin(section, section->rounds.cut);
}

static int64_t
number_of(const struct fold *it, uint32_t op)
{
    int64_t number = op;

    for (uint32_t s = 0; s < it->count; s++)
        if (is_behind_cut(&it->sections[s], op))
            number += it->sections[s].more;
    return number;
}

/* The place in its ring of the slot that an op uses.  Rounds that are left out move rings on. */
static int64_t
place_in_ring(const struct fold *it, uint32_t op, uint32_t slot)
{
    struct mw_slot_ring ring = it->how->rings[slot];
    int64_t place = slot - ring.first;

    for (uint32_t s = 0; s < it->count; s++) {
        const struct section *section = &it->sections[s];
        if (section->ring_by && is_behind_cut(section, op) &&
            section->ring_by[ring.first] != MW_NONE)
            place += (int64_t)section->rounds.more * section->ring_by[ring.first];
    }
    return place % ring.count;
}

static uint32_t
slot_of(const struct fold *it, uint32_t op, uint32_t slot)
{
    struct mw_slot_ring ring = it->how->rings[slot];

    return ring.count ? it->how->slots[ring.first] + (uint32_t)place_in_ring(it, op, slot)
                      : it->how->slots[slot];
}

/* All uses of a ring move it on by the same distance.  Inner sections are handled before the outer
 * one. */
static bool
find_ring_steps(const struct fold *it, struct section *section)
{
    const struct mw_plan *plan = it->flat;
    uint32_t *ring_by = mw_plan_allocate(plan->slot_count, sizeof *ring_by);
    bool good = true;

    memset(ring_by, 0xff, plan->slot_count * sizeof *ring_by); /* all MW_NONE */
    for (uint32_t i = section->begin; i < section->begin + section->span; i++)
        for (uint32_t u = 0; u < plan->ops[i].use_count; u++) {
            uint32_t slot = plan->uses[plan->ops[i].use_begin + u].slot;
            uint32_t next = plan->uses[plan->ops[i + section->span].use_begin + u].slot;
            struct mw_slot_ring ring = it->how->rings[slot];
            if (!ring.count)
                continue;
            int64_t by = place_in_ring(it, i + section->span, next) - place_in_ring(it, i, slot);
            by += by < 0 ? ring.count : 0;
            good = good && (ring_by[ring.first] == MW_NONE || ring_by[ring.first] == by);
            ring_by[ring.first] = (uint32_t)by;
        }
    section->ring_by = ring_by;
    return good;
}

/* --- sections within rounds ------------------------------------------------------------------ */

static bool
is_within(const struct section *outer, uint32_t op)
{
    return op >= outer->begin && op < round_begin(outer, outer->end);
}

/* The n-th section within a round of the outer section, or NULL if it has fewer. */
static const struct section *
inner_section(const struct fold *it, const struct section *outer, uint32_t round, uint32_t n)
{
    for (uint32_t s = 1; s < it->count; s++)
        if (it->sections[s].begin >= round_begin(outer, round) &&
            it->sections[s].begin < round_begin(outer, round + 1) && !n--)
            return &it->sections[s];
    return NULL;
}

static bool
are_same_sections(const struct section *a, const struct section *b, uint32_t apart)
{
    return a->begin + apart == b->begin && a->span == b->span && a->more == b->more &&
           a->end - a->first == b->end - b->first;
}

/* Each round must have inner sections at the same places.  `more` is the number of ops that these
 * leave out in a round. */
static bool
find_inner_sections(const struct fold *it, const struct section *outer, int64_t *more)
{
    const struct section *first, *inner;

    *more = 0;
    for (uint32_t n = 0; (first = inner_section(it, outer, outer->first, n)); n++)
        *more += first->more;
    for (uint32_t round = outer->first + 1; round < outer->end; round++) {
        uint32_t n = 0;
        for (; (first = inner_section(it, outer, outer->first, n)); n++) {
            inner = inner_section(it, outer, round, n);
            if (!inner || !are_same_sections(first, inner, (round - outer->first) * outer->span))
                return false;
        }
        if (inner_section(it, outer, round, n))
            return false;
    }
    return true;
}

static bool
find_sections(struct fold *it)
{
    const struct mw_fold *how = it->how;
    uint32_t inner = how->has_outer ? 1 : 0;

    for (uint32_t r = 0; r < how->count; r++) {
        struct section *section = &it->sections[it->count++];
        section->rounds = how->rounds[r];
        if (!find_rounds(it, section))
            return false;
    }
    for (uint32_t s = inner; s < it->count; s++) {
        it->sections[s].more = (int64_t)it->sections[s].rounds.more * it->sections[s].span;
        if (how->slots && !find_ring_steps(it, &it->sections[s]))
            return false;
    }
    if (!inner)
        return true;
    int64_t more;
    if (!find_inner_sections(it, &it->sections[0], &more) ||
        (how->slots && !find_ring_steps(it, &it->sections[0])))
        return false;
    it->sections[0].more = it->sections[0].rounds.more * (it->sections[0].span + more);
    return true;
}

/* --- the folded plan ------------------------------------------------------------------------- */

/* The first round of a section stands for all. */
static bool
is_left_out(const struct fold *it, uint32_t op)
{
    for (uint32_t s = 0; s < it->count; s++)
        if (is_within(&it->sections[s], op) && op >= it->sections[s].begin + it->sections[s].span)
            return true;
    return false;
}

static struct mw_op
moved_op(const struct fold *it, uint32_t index)
{
    const struct mw_fold *how = it->how;
    struct mw_op op = it->flat->ops[index];

    if (how->has_outer) {
        const struct mw_fold_rounds *outer = &how->rounds[0];
        uint32_t of_cut = it->flat->ops[outer->begins[outer->cut]].micro_batch;
        op.micro_batch = (uint16_t)(op.micro_batch + (op.micro_batch >= of_cut ? outer->more : 0));
    }
    if (how->layers && op.layer >= 0)
        op.layer = how->layers[op.layer];
    if (how->chunks && op.phase == MW_PHASE_OPTIMIZER)
        op.shard = how->chunks[op.shard];
    return op;
}

static void
copy_ops(struct fold *it)
{
    const struct mw_plan *plan = it->flat;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        it->index[i] = it->folded->op_count;
        if (is_left_out(it, i))
            continue;
        mw_plan_add_op(it->folded, moved_op(it, i));
        for (uint32_t d = op->dep_begin; d < op->dep_begin + op->dep_count; d++)
            mw_plan_add_dep(it->folded, (uint32_t)number_of(it, MW_DEP_INDEX(plan->deps[d])) |
                                            (plan->deps[d] & MW_DEP_PREVIOUS_STEP));
        for (uint32_t u = op->use_begin; it->how->slots && u < op->use_begin + op->use_count; u++)
            mw_plan_add_use(it->folded, slot_of(it, i, plan->uses[u].slot), plan->uses[u].mode,
                            plan->uses[u].role);
    }
    it->index[plan->op_count] = it->folded->op_count;
}

/* Whether moving `first` on by `by` in each round leads to `last`. */
static bool
leads_to(int64_t first, int64_t by, int64_t last, int64_t rounds)
{
    return first + by * (rounds - 1) == last;
}

static int64_t
rounds_of(const struct section *section)
{
    return (int64_t)section->end - section->first + section->rounds.more;
}

static int64_t
dep_number(const struct fold *it, uint32_t op, uint32_t dep)
{
    return number_of(it, MW_DEP_INDEX(it->flat->deps[it->flat->ops[op].dep_begin + dep]));
}

/* Rounds of micro-batches have more ops in the folded plan than in the flat one.  Ops within other
 * rounds, or before all of them, are as far apart in both plans. */
static bool
is_outer(const struct fold *it, const struct section *section)
{
    return it->how->has_outer && section == it->sections;
}

static bool
set_dep_strides(struct fold *it, const struct section *section, int level, uint32_t op)
{
    const struct mw_plan *plan = it->flat;
    uint32_t last = op + (section->end - 1 - section->first) * section->span;
    const struct mw_op *folded = &it->folded->ops[it->index[op]];

    for (uint32_t d = 0; d < folded->dep_count; d++) {
        int64_t first = dep_number(it, op, d);
        int64_t by = is_outer(it, section)
                         ? dep_number(it, op + section->span, d) - first
                         : (int64_t)plan->deps[plan->ops[op + section->span].dep_begin + d] -
                               plan->deps[plan->ops[op].dep_begin + d];
        if (!leads_to(first, by, dep_number(it, last, d), rounds_of(section)))
            return false;
        it->folded->dep_strides[folded->dep_begin + d].by[level] = (int32_t)by;
    }
    return true;
}

static bool
set_use_strides(struct fold *it, const struct section *section, int level, uint32_t op)
{
    const struct mw_plan *plan = it->flat;
    uint32_t next = op + section->span;
    uint32_t last = op + (section->end - 1 - section->first) * section->span;
    const struct mw_op *folded = &it->folded->ops[it->index[op]];

    for (uint32_t u = 0; u < folded->use_count; u++) {
        uint32_t slot = plan->uses[plan->ops[op].use_begin + u].slot;
        uint32_t slot_next = plan->uses[plan->ops[next].use_begin + u].slot;
        struct mw_slot_ring ring = it->how->rings[slot];
        int64_t first = slot_of(it, op, slot);
        int64_t by = ring.count ? slot_of(it, next, slot_next) - first : (int64_t)slot_next - slot;
        int64_t to = slot_of(it, last, plan->uses[plan->ops[last].use_begin + u].slot);
        struct mw_use_stride *stride = &it->folded->use_strides[folded->use_begin + u];
        if (ring.count) {
            by += by < 0 ? ring.count : 0;
            stride->ring_first = it->how->slots[ring.first];
            stride->ring_count = ring.count;
        } else if (!leads_to(first, by, to, rounds_of(section))) {
            return false;
        }
        stride->by[level] = (int32_t)by;
    }
    return true;
}

static bool
add_section(struct fold *it, const struct section *section, uint32_t parent)
{
    const struct mw_section added = {
        .first_op = it->index[section->begin],
        .op_count = it->index[section->begin + section->span] - it->index[section->begin],
        .rounds = (uint32_t)rounds_of(section),
        .parent = parent,
        .micro_batch_step = (int32_t)section->steps[0],
        .layer_step = (int32_t)section->steps[1],
        .shard_step = (int32_t)section->steps[2],
    };
    int level = parent == MW_NONE ? 0 : 1;

    mw_plan_add_section(it->folded, added);
    for (uint32_t i = section->begin; i < section->begin + section->span; i++)
        if (!is_left_out(it, i) &&
            (!set_dep_strides(it, section, level, i) || !set_use_strides(it, section, level, i)))
            return false;
    return true;
}

/* Adds sections in the order of their ops, an outer section before those within it. */
static bool
add_sections(struct fold *it)
{
    const struct section *outer = it->how->has_outer ? &it->sections[0] : NULL;
    uint32_t outer_index = MW_NONE;

    for (uint32_t s = outer ? 1 : 0; s <= it->count; s++) {
        const struct section *inner = s < it->count ? &it->sections[s] : NULL;
        if (outer && outer_index == MW_NONE && (!inner || inner->begin >= outer->begin)) {
            outer_index = it->folded->section_count;
            if (!add_section(it, outer, MW_NONE))
                return false;
        }
        bool within = inner && outer && is_within(outer, inner->begin);
        if (inner && !is_left_out(it, inner->begin) &&
            !add_section(it, inner, within ? outer_index : MW_NONE))
            return false;
    }
    return true;
}

static bool
fold(struct fold *it)
{
    if (!find_sections(it) || number_of(it, it->flat->op_count) > MW_PLAN_MAX_OPS)
        return false;
    mw_plan_copy_works(it->folded, it->flat);
    copy_ops(it);
    if (!add_sections(it))
        return false;
    if (!it->how->slots) {
        struct mw_plan_check check = {.plan = it->folded};
        if (!mw_plan_check_section_deps(&check))
            return false;
        it->folded->checked = it->flat->checked;
        it->folded->barriered = it->flat->barriered;
    }
    return true;
}

bool
mw_plan_fold(const struct mw_plan *flat, const struct mw_fold *how, struct mw_plan *folded)
{
    struct fold it = {.flat = flat, .folded = folded, .how = how};
    it.sections = mw_plan_allocate(how->count, sizeof *it.sections);
    it.index = mw_plan_allocate((size_t)flat->op_count + 1, sizeof *it.index);
    bool good = fold(&it);

    for (uint32_t s = 0; s < it.count; s++) {
        free(it.sections[s].deps);
        free(it.sections[s].uses);
        free(it.sections[s].ring_by);
    }
    free(it.sections);
    free(it.index);
    return good;
}
