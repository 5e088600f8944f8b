/* From rounds of equal ops to a section. */
#include <stdlib.h>

#include "plan/internal.h"

struct fold {
    const struct mw_plan *plan;
    const uint32_t *begins;
    const struct mw_slot_ring *rings;
    uint32_t count, more;
    uint32_t first, end, span;         /* rounds that are alike, and the ops of one */
    struct mw_dep_stride *dep_strides; /* of the first of them, from its first dependency on */
    struct mw_use_stride *use_strides;
    uint32_t *ring_strides; /* by a ring's first slot: how far it is on after a round, or MW_NONE */
    struct mw_plan *folded;
};

static bool
is_same_op(const struct mw_op *a, const struct mw_op *b)
{
    return a->work == b->work && a->lane == b->lane && a->phase == b->phase &&
           a->layer == b->layer && a->tile == b->tile && a->shard == b->shard &&
           a->micro_batch + 1 == b->micro_batch && a->match == MW_NONE && b->match == MW_NONE &&
           a->dep_count == b->dep_count && a->use_count == b->use_count;
}

/* From a round to the next.  False: neither what it was nor one round on. */
static bool
find_dep_stride(uint32_t a, uint32_t b, uint32_t span, struct mw_dep_stride *stride)
{
    *stride = (struct mw_dep_stride){{a == b ? 0 : (int32_t)span}};
    return a == b || (!(a & MW_DEP_PREVIOUS_STEP) && b == a + span);
}

static bool
find_use_stride(const struct fold *it, const struct mw_use *a, const struct mw_use *b,
                struct mw_use_stride *stride)
{
    struct mw_slot_ring ring = it->rings[a->slot], other = it->rings[b->slot];

    *stride = (struct mw_use_stride){{0}, 0, 0};
    if (a->mode != b->mode || a->role != b->role)
        return false;
    if (ring.count) {
        uint32_t by = (b->slot + ring.count - a->slot) % ring.count;
        *stride = (struct mw_use_stride){{(int32_t)by}, ring.first, ring.count};
        return other.first == ring.first && other.count == ring.count;
    }
    return a->slot == b->slot;
}

static bool
is_same_dep_stride(const struct mw_dep_stride *a, const struct mw_dep_stride *b)
{
    return a->by[0] == b->by[0];
}

static bool
is_same_use_stride(const struct mw_use_stride *a, const struct mw_use_stride *b)
{
    return a->by[0] == b->by[0] && a->ring_first == b->ring_first && a->ring_count == b->ring_count;
}

/* Whether op `a` becomes op `b` a round later.  Strides are written down for the first round, and
 * those of later ones have to be the same. */
static bool
follows(struct fold *it, uint32_t a, uint32_t b, bool write, uint32_t *dep_at, uint32_t *use_at)
{
    const struct mw_plan *plan = it->plan;
    const struct mw_op *from = &plan->ops[a], *to = &plan->ops[b];

    if (!is_same_op(from, to))
        return false;
    for (uint32_t i = 0; i < from->dep_count; i++, (*dep_at)++) {
        struct mw_dep_stride stride;
        if (!find_dep_stride(plan->deps[from->dep_begin + i], plan->deps[to->dep_begin + i], b - a,
                             &stride))
            return false;
        if (write)
            it->dep_strides[*dep_at] = stride;
        else if (!is_same_dep_stride(&stride, &it->dep_strides[*dep_at]))
            return false;
    }
    for (uint32_t i = 0; i < from->use_count; i++, (*use_at)++) {
        struct mw_use_stride stride;
        if (!find_use_stride(it, &plan->uses[from->use_begin + i], &plan->uses[to->use_begin + i],
                             &stride))
            return false;
        if (write)
            it->use_strides[*use_at] = stride;
        else if (!is_same_use_stride(&stride, &it->use_strides[*use_at]))
            return false;
    }
    return true;
}

static bool
round_follows(struct fold *it, uint32_t round, bool write)
{
    uint32_t begin = it->begins[round], end = it->begins[round + 1];
    uint32_t dep_at = 0, use_at = 0;

    if (begin == end || it->begins[round + 2] - end != end - begin)
        return false;
    for (uint32_t i = begin; i < end; i++)
        if (!follows(it, i, i + (end - begin), write, &dep_at, &use_at))
            return false;
    return true;
}

/* The first row of several rounds that are alike. */
static bool
find_rounds(struct fold *it, uint32_t alike, uint32_t before)
{
    for (it->first = before; it->first + alike <= it->count; it->first++) {
        if (!round_follows(it, it->first, true))
            continue;
        for (it->end = it->first + 2; it->end < it->count; it->end++)
            if (!round_follows(it, it->end - 1, false))
                break;
        if (it->end - it->first >= alike)
            return true;
    }
    return false;
}

/* A ring moves on as a whole: after the rounds its slots are those that more rounds would leave. */
static bool
find_ring_strides(struct fold *it)
{
    const struct mw_plan *plan = it->plan;
    uint32_t use = 0;

    for (uint32_t s = 0; s < plan->slot_count; s++)
        it->ring_strides[s] = MW_NONE;
    for (uint32_t i = it->begins[it->first]; i < it->begins[it->first + 1]; i++)
        for (uint32_t u = 0; u < plan->ops[i].use_count; u++, use++) {
            const struct mw_use_stride *stride = &it->use_strides[use];
            uint32_t *by = &it->ring_strides[stride->ring_first];
            if (!stride->ring_count)
                continue;
            if (*by != MW_NONE && *by != (uint32_t)stride->by[0])
                return false;
            *by = (uint32_t)stride->by[0];
        }
    return true;
}

static uint32_t
move_slot(const struct fold *it, uint32_t op, uint32_t slot)
{
    struct mw_slot_ring ring = it->rings[slot];
    uint32_t by = ring.count ? it->ring_strides[ring.first] : MW_NONE;

    if (op < it->begins[it->end] || by == MW_NONE)
        return slot;
    return ring.first + (uint32_t)((slot - ring.first + (uint64_t)by * it->more) % ring.count);
}

/* A number of the flat plan with more rounds: after the rounds, or as seen from there, numbers
 * count from the end. */
static uint32_t
move_number(const struct fold *it, uint32_t op, uint32_t dep)
{
    uint32_t target = MW_DEP_INDEX(dep), begin = it->begins[it->first], end = it->begins[it->end];
    bool from_end = op >= end || (dep & MW_DEP_PREVIOUS_STEP);

    return target >= end || (from_end && target >= begin) ? dep + it->more * it->span : dep;
}

static void
copy_op(struct fold *it, uint32_t index)
{
    const struct mw_plan *plan = it->plan;
    struct mw_op op = plan->ops[index];
    uint32_t of_rounds = plan->ops[it->begins[it->first]].micro_batch;

    if (index >= it->begins[it->end] && op.micro_batch > of_rounds)
        op.micro_batch = (uint16_t)(op.micro_batch + it->more);
    mw_plan_add_op(it->folded, op);
    op = plan->ops[index];
    for (uint32_t d = 0; d < op.dep_count; d++)
        mw_plan_add_dep(it->folded, move_number(it, index, plan->deps[op.dep_begin + d]));
    for (uint32_t u = 0; u < op.use_count; u++) {
        const struct mw_use *use = &plan->uses[op.use_begin + u];
        mw_plan_add_use(it->folded, move_slot(it, index, use->slot), use->mode, use->role);
    }
}

static void
copy_ops(struct fold *it)
{
    uint32_t begin = it->begins[it->first], end = begin + it->span, dep = 0, use = 0;

    for (uint32_t i = 0; i < it->plan->op_count; i++)
        if (i < end || i >= it->begins[it->end])
            copy_op(it, i);
    mw_plan_add_section(it->folded, (struct mw_section){.first_op = begin,
                                                        .op_count = it->span,
                                                        .rounds = it->end - it->first + it->more,
                                                        .parent = MW_NONE,
                                                        .micro_batch_step = 1});
    for (uint32_t i = begin; i < end; i++) {
        const struct mw_op *op = &it->folded->ops[i];
        for (uint32_t d = 0; d < op->dep_count; d++)
            it->folded->dep_strides[op->dep_begin + d] = it->dep_strides[dep++];
        for (uint32_t u = 0; u < op->use_count; u++)
            it->folded->use_strides[op->use_begin + u] = it->use_strides[use++];
    }
}

struct mw_plan *
mw_plan_fold(const struct mw_plan *plan, const uint32_t *begins, uint32_t count,
             const struct mw_slot_ring *rings, uint32_t alike, uint32_t more, uint32_t before)
{
    struct fold it = {.plan = plan, .begins = begins, .rings = rings, .count = count, .more = more};

    if (alike < 2 || plan->section_count)
        return NULL;
    it.dep_strides = mw_plan_allocate(plan->dep_count, sizeof *it.dep_strides);
    it.use_strides = mw_plan_allocate(plan->use_count, sizeof *it.use_strides);
    it.ring_strides = mw_plan_allocate(plan->slot_count, sizeof *it.ring_strides);
    if (find_rounds(&it, alike, before) && find_ring_strides(&it)) {
        it.span = begins[it.first + 1] - begins[it.first];
        if (plan->op_count + (uint64_t)more * it.span <= MW_PLAN_MAX_OPS) {
            it.folded = mw_plan_new(plan->title);
            mw_plan_copy_tables(it.folded, plan);
            it.folded->shape.micro_batches += more;
            copy_ops(&it);
        }
    }
    free(it.dep_strides);
    free(it.use_strides);
    free(it.ring_strides);
    return it.folded;
}
