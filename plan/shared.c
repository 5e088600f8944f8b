/* Slots that share bytes: what they take together. */
#include <string.h>

#include "plan/plan.h"

static bool
share(const struct mw_slot *a, const struct mw_slot *b)
{
    return a->shares && b->shares && a->program == b->program && a->tier == b->tier;
}

/* Of a slot's bytes from `at` on: the end of those that earlier slots lie over, or `at` where none
 * does; and in *next the begin of the next ones that some do. */
static int64_t
covered_to(const struct mw_plan *plan, uint32_t index, int64_t at, int64_t *next)
{
    const struct mw_slot *slot = &plan->slots[index];
    int64_t end = at;

    *next = slot->offset_bytes + slot->size_bytes;
    for (uint32_t s = 0; s < index; s++) {
        const struct mw_slot *other = &plan->slots[s];
        int64_t other_end = other->offset_bytes + other->size_bytes;
        if (!share(slot, other) || other_end <= at)
            continue;
        if (other->offset_bytes <= at)
            end = other_end > end ? other_end : end;
        else if (other->offset_bytes < *next)
            *next = other->offset_bytes;
    }
    return end;
}

/* Those of its bytes that no earlier slot lies over. */
static int64_t
own_bytes(const struct mw_plan *plan, uint32_t index)
{
    const struct mw_slot *slot = &plan->slots[index];
    int64_t at = slot->offset_bytes, end = at + slot->size_bytes, own = 0, next;

    if (!slot->shares)
        return slot->size_bytes;
    while (at < end) {
        int64_t covered = covered_to(plan, index, at, &next);
        own += covered > at ? 0 : next - at;
        at = covered > at ? covered : next;
    }
    return own;
}

void
mw_plan_count_bytes(const struct mw_plan *plan, uint32_t program,
                    int64_t bytes[MW_TIER_COUNT][MW_PURPOSE_COUNT])
{
    memset(bytes, 0, sizeof(int64_t[MW_TIER_COUNT][MW_PURPOSE_COUNT]));
    for (uint32_t s = 0; s < plan->slot_count; s++)
        if (plan->slots[s].program == program)
            bytes[plan->slots[s].tier][plan->slots[s].purpose] += own_bytes(plan, s);
}
