/* Slots that share bytes: what they take together. */
#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

/* Where those that lie over `at` end, or `at` where none does; and in *next the first begin of
 * others behind it. */
static int64_t
covered_to(const struct mw_extent *others, size_t count, int64_t at, int64_t *next)
{
    int64_t end = at;

    for (size_t i = 0; i < count; i++) {
        if (others[i].end <= at)
            continue;
        if (others[i].begin <= at)
            end = others[i].end > end ? others[i].end : end;
        else if (others[i].begin < *next)
            *next = others[i].begin;
    }
    return end;
}

int64_t
mw_extent_own_bytes(struct mw_extent extent, const struct mw_extent *others, size_t count)
{
    int64_t own = 0;

    for (int64_t at = extent.begin; at < extent.end;) {
        int64_t next = extent.end, covered = covered_to(others, count, at, &next);
        own += covered > at ? 0 : next - at;
        at = covered > at ? covered : next;
    }
    return own;
}

void
mw_plan_count_bytes(const struct mw_plan *plan, uint32_t program,
                    int64_t bytes[MW_TIER_COUNT][MW_PURPOSE_COUNT])
{
    struct mw_extent *shared[MW_TIER_COUNT];
    size_t count[MW_TIER_COUNT] = {0};

    memset(bytes, 0, sizeof(int64_t[MW_TIER_COUNT][MW_PURPOSE_COUNT]));
    for (int t = 0; t < MW_TIER_COUNT; t++)
        shared[t] = mw_plan_allocate(plan->slot_count, sizeof *shared[t]);
    for (uint32_t s = 0; s < plan->slot_count; s++) {
        const struct mw_slot *slot = &plan->slots[s];
        struct mw_extent extent = {slot->offset_bytes, slot->offset_bytes + slot->size_bytes};
        if (slot->program != program)
            continue;
        bytes[slot->tier][slot->purpose] +=
            slot->shares ? mw_extent_own_bytes(extent, shared[slot->tier], count[slot->tier])
                         : slot->size_bytes;
        if (slot->shares)
            shared[slot->tier][count[slot->tier]++] = extent;
    }
    for (int t = 0; t < MW_TIER_COUNT; t++)
        free(shared[t]);
}
