#include <inttypes.h>
#include <stdlib.h>

#include "plan/check.h"
#include "plan/internal.h"

struct extent {
    uint32_t rank;
    uint32_t slot;
    uint8_t tier;
    int64_t begin, end;
};

static int
compare_extents(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->tier != y->tier)
        return x->tier < y->tier ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static bool
check_slot(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_slot *slot = &check->plan->slots[index];
    const struct mw_tier_info *tier = &check->plan->tiers[slot->tier];
    const char *name = mw_tier_name(slot->tier);

    if (slot->size_bytes > tier->largest_request_bytes)
        return mw_plan_refuse(check,
                              "fragmentation: slot %u (%s) takes %" PRId64 " bytes of tier %s in "
                              "one piece, at most %" PRId64 " can be had",
                              index, mw_purpose_name(slot->purpose), slot->size_bytes, name,
                              tier->largest_request_bytes);
    if (slot->size_bytes > tier->capacity_bytes - slot->offset_bytes)
        return mw_plan_refuse(check,
                              "over capacity: slot %u (%s) takes %" PRId64
                              " bytes at offset %" PRId64 " of tier %s, which has %" PRId64
                              " bytes",
                              index, mw_purpose_name(slot->purpose), slot->size_bytes,
                              slot->offset_bytes, name, tier->capacity_bytes);
    return true;
}

/* `extents` are sorted; the sum cannot overflow, as they lie apart within a capacity. */
static bool
check_overlaps(struct mw_plan_check *check, const struct extent *extents, uint32_t count)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct extent *last = i ? &extents[i - 1] : NULL;
        bool together = last && last->rank == extents[i].rank && last->tier == extents[i].tier;

        if (together && extents[i].begin < last->end)
            return mw_plan_refuse(
                check, "slots %u and %u of rank %u overlap in tier %s at offset %" PRId64,
                last->slot, extents[i].slot, last->rank, mw_tier_name(last->tier),
                extents[i].begin);
        sum = (together ? sum : 0) + (extents[i].end - extents[i].begin);
        if (sum > check->peak_bytes[extents[i].tier])
            check->peak_bytes[extents[i].tier] = sum;
    }
    return true;
}

bool
mw_plan_check_memory(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    struct extent *extents = mw_plan_allocate(plan->slot_count, sizeof *extents);
    uint32_t count = 0;
    bool fits = true;

    for (uint32_t i = 0; i < plan->slot_count && fits; i++) {
        const struct mw_slot *slot = &plan->slots[i];

        fits = check_slot(check, i);
        /* An empty slot lies nowhere. */
        if (fits && slot->size_bytes)
            extents[count++] = (struct extent){.rank = slot->rank,
                                               .slot = i,
                                               .tier = slot->tier,
                                               .begin = slot->offset_bytes,
                                               .end = slot->offset_bytes + slot->size_bytes};
    }
    if (fits && count > 1)
        qsort(extents, count, sizeof *extents, compare_extents);
    fits = fits && check_overlaps(check, extents, count);
    free(extents);
    return fits;
}
