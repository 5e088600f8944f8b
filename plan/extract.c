/* Extracts one program of a plan, as the plan of one of its ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

struct extraction {
    const struct mw_plan *plan;
    uint32_t program;
    struct mw_plan *part;
    uint32_t *lanes, *slots, *tensors, *ops; /* new numbers of the entities that are kept, or
                                              * MW_NONE */
};

static void
copy_head(struct extraction *it, uint32_t rank)
{
    const struct mw_plan *plan = it->plan;

    it->part = mw_plan_new(plan->title);
    mw_plan_copy_head(it->part, plan);
    mw_plan_clear_programs(it->part);
    mw_plan_add_program(it->part, mw_members_of_one(rank));
    it->part->programs[0].in_flight = plan->programs[it->program].in_flight;
    it->part->programs[0].apart_bytes = plan->programs[it->program].apart_bytes;
    memcpy(it->part->programs[0].beside_bytes, plan->programs[it->program].beside_bytes,
           sizeof it->part->programs[0].beside_bytes);
}

/* Works, channels and communicators keep their numbers, since programs share them. */
static void
copy_shared(struct extraction *it)
{
    const struct mw_plan *plan = it->plan;

    for (uint32_t i = 0; i < plan->comm_count; i++)
        mw_plan_add_comm(it->part, plan->comms[i]);
    for (uint32_t i = 0; i < plan->channel_count; i++)
        mw_plan_add_channel(it->part, plan->channels[i]);
    mw_plan_copy_works(it->part, plan);
}

static void
copy_lanes_and_slots(struct extraction *it)
{
    const struct mw_plan *plan = it->plan;

    for (uint32_t i = 0; i < plan->lane_count; i++) {
        struct mw_lane lane = plan->lanes[i];
        if (lane.program != it->program)
            continue;
        lane.program = 0;
        it->lanes[i] = mw_plan_add_lane(it->part, lane);
    }
    for (uint32_t i = 0; i < plan->slot_count; i++) {
        struct mw_slot slot = plan->slots[i];
        if (slot.program != it->program)
            continue;
        slot.program = 0;
        it->slots[i] = mw_plan_add_slot(it->part, slot);
    }
}

static uint32_t
renumbered(const uint32_t *numbers, uint32_t index)
{
    return index == MW_NONE ? MW_NONE : numbers[index];
}

static void
copy_homes(struct extraction *it)
{
    const struct mw_plan *plan = it->plan;

    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        struct mw_tensor tensor = plan->tensors[i];
        if (tensor.program != it->program)
            continue;
        tensor.program = 0;
        tensor.param_slot = renumbered(it->slots, tensor.param_slot);
        tensor.gradient_slot = renumbered(it->slots, tensor.gradient_slot);
        it->tensors[i] = mw_plan_add_tensor(it->part, tensor);
    }
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        struct mw_chunk_content chunk = plan->chunks[i];
        if (chunk.program != it->program)
            continue;
        chunk.program = 0;
        chunk.first_tensor = chunk.tensor_count ? it->tensors[chunk.first_tensor] : 0;
        chunk.slot = renumbered(it->slots, chunk.slot);
        chunk.other_slot = renumbered(it->slots, chunk.other_slot);
        mw_plan_add_chunk(it->part, chunk);
    }
}

/* Numbers ops first, since a dependency of distance 1 may name a later op. */
static void
copy_ops(struct extraction *it)
{
    const struct mw_plan *plan = it->plan;
    uint32_t next = 0;

    for (uint32_t i = 0; i < plan->op_count; i++)
        if (it->lanes[plan->ops[i].lane] != MW_NONE)
            it->ops[i] = next++;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        struct mw_op op = plan->ops[i];
        if (it->ops[i] == MW_NONE)
            continue;
        op.lane = (uint16_t)it->lanes[op.lane];
        op.match = MW_NONE;
        mw_plan_add_op(it->part, op);
        for (uint32_t d = 0; d < plan->ops[i].dep_count; d++) {
            uint32_t dep = plan->deps[plan->ops[i].dep_begin + d];
            mw_plan_add_dep(it->part, it->ops[MW_DEP_INDEX(dep)] | (dep & MW_DEP_PREVIOUS_STEP));
        }
        for (uint32_t u = 0; u < plan->ops[i].use_count; u++) {
            const struct mw_use *use = &plan->uses[plan->ops[i].use_begin + u];
            mw_plan_add_use(it->part, it->slots[use->slot], use->mode, use->role);
        }
    }
}

struct mw_plan *
mw_plan_extract(const struct mw_plan *plan, uint32_t rank, char *why, size_t why_size)
{
    struct extraction it = {plan, mw_plan_program_of(plan, rank), NULL, NULL, NULL, NULL, NULL};

    if (plan->section_count) {
        snprintf(why, why_size, "the plan has sections: unfold it first");
        return NULL;
    }
    if (!plan->checked || it.program == MW_NONE) {
        snprintf(why, why_size,
                 plan->checked ? "no program is rank %u's" : "the plan of rank %u is not checked",
                 rank);
        return NULL;
    }
    it.lanes = mw_plan_allocate_nones(plan->lane_count);
    it.slots = mw_plan_allocate_nones(plan->slot_count);
    it.tensors = mw_plan_allocate_nones(plan->tensor_count);
    it.ops = mw_plan_allocate_nones(plan->op_count);
    copy_head(&it, rank);
    copy_shared(&it);
    copy_lanes_and_slots(&it);
    copy_homes(&it);
    copy_ops(&it);
    free(it.lanes);
    free(it.slots);
    free(it.tensors);
    free(it.ops);
    if (mw_plan_check(it.part, why, why_size))
        return it.part;
    mw_plan_free(it.part);
    return NULL;
}
