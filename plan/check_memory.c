#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/check.h"
#include "plan/internal.h"

struct extent {
    uint32_t program;
    uint32_t slot;
    uint8_t tier;
    int64_t begin, end;
};

static int
compare_extents(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    if (x->tier != y->tier)
        return x->tier < y->tier ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static bool
all_are_alike(const struct mw_plan *plan)
{
    return mw_members_count(&plan->programs[0].ranks) == plan->world_ranks;
}

/* The most bytes that a rank may use.  A program may use more than a rank's share of its node's
 * host memory and drives if others use less. */
static int64_t
most_bytes(const struct mw_plan *plan, int tier)
{
    int64_t share = plan->tiers[tier].capacity_bytes;
    int64_t shares = tier == MW_TIER_GPU || all_are_alike(plan) ? 1 : plan->ranks_per_node;

    return share > INT64_MAX / shares ? INT64_MAX : share * shares;
}

static bool
check_slot(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_slot *slot = &check->plan->slots[index];
    const struct mw_tier_info *tier = &check->plan->tiers[slot->tier];
    int64_t most = most_bytes(check->plan, slot->tier);
    const char *name = mw_tier_name(slot->tier);

    if (slot->size_bytes > tier->largest_request_bytes)
        return mw_plan_refuse(check,
                              "fragmentation: slot %u (%s) takes %" PRId64 " bytes of tier %s as "
                              "one slot; the limit is %" PRId64,
                              index, mw_purpose_name(slot->purpose), slot->size_bytes, name,
                              tier->largest_request_bytes);
    if (slot->size_bytes > most - slot->offset_bytes)
        return mw_plan_refuse(check,
                              "over capacity: slot %u (%s) takes %" PRId64
                              " bytes at offset %" PRId64 " of tier %s, which has %" PRId64
                              " bytes",
                              index, mw_purpose_name(slot->purpose), slot->size_bytes,
                              slot->offset_bytes, name, most);
    return true;
}

/* `extents` are sorted.  Their sum cannot overflow, since they lie apart within a capacity. */
static bool
check_overlaps(struct mw_plan_check *check, const struct extent *extents, uint32_t count)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct extent *last = i ? &extents[i - 1] : NULL;
        bool together =
            last && last->program == extents[i].program && last->tier == extents[i].tier;

        if (together && extents[i].begin < last->end)
            return mw_plan_refuse(
                check, "slots %u and %u of program %u overlap in tier %s at offset %" PRId64,
                last->slot, extents[i].slot, last->program, mw_tier_name(last->tier),
                extents[i].begin);
        sum = (together ? sum : 0) + (extents[i].end - extents[i].begin);
        check->plan->programs[extents[i].program].peak_bytes[extents[i].tier] = sum;
    }
    return true;
}

/* The ranks of a node share its host memory and drives, so their use is summed. */
static bool
check_nodes(struct mw_plan_check *check, enum mw_tier tier)
{
    const struct mw_plan *plan = check->plan;
    int64_t most = most_bytes(plan, tier), taken = 0;

    for (uint32_t r = 0; r < plan->world_ranks; r++) {
        uint32_t node = r / plan->ranks_per_node, program = check->program_of[r];
        int64_t bytes = program == MW_NONE ? 0 : plan->programs[program].peak_bytes[tier];

        if (r % plan->ranks_per_node == 0)
            taken = 0;
        if (bytes > most - taken)
            return mw_plan_refuse(check,
                                  "over capacity: the ranks of node %u together take more than the "
                                  "%" PRId64 " bytes of its tier %s",
                                  node, most, mw_tier_name(tier));
        taken += bytes;
    }
    return true;
}

/* The planner lays slots out one behind the other; then nothing needs to be sorted. */
static bool
are_in_order(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    int64_t(*end)[MW_TIER_COUNT] = mw_plan_allocate(plan->program_count, sizeof *end);
    bool good = true;

    for (uint32_t i = 0; i < plan->slot_count && good; i++) {
        const struct mw_slot *slot = &plan->slots[i];
        if (!slot->size_bytes)
            continue; /* an empty slot has no place */
        good = slot->offset_bytes >= end[slot->program][slot->tier];
        end[slot->program][slot->tier] = slot->offset_bytes + slot->size_bytes;
        check->plan->programs[slot->program].peak_bytes[slot->tier] += slot->size_bytes;
    }
    free(end);
    return good;
}

static bool
check_extents(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    struct extent *extents = mw_plan_allocate(plan->slot_count, sizeof *extents);
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan->slot_count; i++) {
        const struct mw_slot *slot = &plan->slots[i];
        if (slot->size_bytes)
            extents[count++] = (struct extent){.program = slot->program,
                                               .slot = i,
                                               .tier = slot->tier,
                                               .begin = slot->offset_bytes,
                                               .end = slot->offset_bytes + slot->size_bytes};
    }
    if (count > 1)
        qsort(extents, count, sizeof *extents, compare_extents);
    bool good = check_overlaps(check, extents, count);
    free(extents);
    return good;
}

bool
mw_plan_check_memory(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    for (uint32_t p = 0; p < plan->program_count; p++)
        memset(check->plan->programs[p].peak_bytes, 0, sizeof plan->programs[p].peak_bytes);
    for (uint32_t i = 0; i < plan->slot_count; i++)
        if (!check_slot(check, i))
            return false;
    if (!are_in_order(check) && !check_extents(check))
        return false;
    if (all_are_alike(plan))
        return true; /* each rank uses its own share */
    return check_nodes(check, MW_TIER_CPU) && check_nodes(check, MW_TIER_NVME);
}
