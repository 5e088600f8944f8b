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

static bool
in_one_tier(const struct extent *a, const struct extent *b)
{
    return a->program == b->program && a->tier == b->tier;
}

/* Slots that may be live at once lie apart. */
static bool
check_overlap(struct mw_plan_check *check, const struct extent *a, const struct extent *b)
{
    const struct mw_slot *slots = check->plan->slots;

    return (slots[a->slot].shares && slots[b->slot].shares) ||
           mw_plan_refuse(check,
                          "slots %u and %u of program %u overlap in tier %s at offset %" PRId64,
                          a->slot, b->slot, a->program, mw_tier_name(a->tier), b->begin);
}

/* `extents` are sorted.  Bytes that are shared count once, so the sum is within the capacity. */
static bool
check_overlaps(struct mw_plan_check *check, const struct extent *extents, uint32_t count)
{
    const struct extent *furthest = NULL; /* of those of its tier the one that ends last */
    int64_t sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct extent *it = &extents[i];
        if (!furthest || !in_one_tier(furthest, it)) {
            furthest = NULL;
            sum = 0;
        }
        if (furthest && it->begin < furthest->end && !check_overlap(check, furthest, it))
            return false;
        int64_t from = furthest && furthest->end > it->begin ? furthest->end : it->begin;
        if (!furthest || it->end > furthest->end) {
            sum += it->end - from;
            furthest = it;
        }
        check->plan->programs[it->program].peak_bytes[it->tier] = sum;
    }
    return true;
}

/* --- slots that share bytes ------------------------------------------------------------------ */

/* The extents that may be shared, sorted. */
static uint32_t
find_shared(const struct mw_plan *plan, struct extent *extents, uint32_t count)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        if (plan->slots[extents[i].slot].shares)
            extents[found++] = extents[i];
    return found;
}

static void
add_overlap(struct mw_plan_overlaps *overlaps, uint32_t *count, uint32_t slot, uint32_t other)
{
    if (overlaps->others)
        overlaps->others[overlaps->begin[slot] + count[slot]] = other;
    count[slot]++;
}

/* Counts each slot's others, and notes them where there is room for them.  False: they are more
 * pairs than MW_PLAN_SHARED_PAIRS_MAX. */
static bool
walk_overlaps(struct mw_plan_overlaps *overlaps, const struct extent *shared, uint32_t found,
              uint32_t *count)
{
    uint32_t pairs = 0;

    for (uint32_t i = 0; i < found; i++)
        for (uint32_t j = i + 1;
             j < found && in_one_tier(&shared[i], &shared[j]) && shared[j].begin < shared[i].end;
             j++) {
            if (pairs++ == MW_PLAN_SHARED_PAIRS_MAX)
                return false;
            add_overlap(overlaps, count, shared[i].slot, shared[j].slot);
            add_overlap(overlaps, count, shared[j].slot, shared[i].slot);
        }
    return true;
}

static bool
list_overlaps(struct mw_plan_check *check, struct extent *extents, uint32_t extent_count)
{
    const struct mw_plan *plan = check->plan;
    struct mw_plan_overlaps *overlaps = &check->overlaps;
    uint32_t found = find_shared(plan, extents, extent_count);

    if (!found)
        return true;
    uint32_t *count = mw_plan_allocate(plan->slot_count, sizeof *count);
    if (!walk_overlaps(overlaps, extents, found, count)) {
        free(count);
        return mw_plan_refuse(check, "more than %d pairs of slots share bytes",
                              MW_PLAN_SHARED_PAIRS_MAX);
    }
    overlaps->begin = mw_plan_allocate((size_t)plan->slot_count + 1, sizeof *overlaps->begin);
    for (uint32_t s = 0; s < plan->slot_count; s++)
        overlaps->begin[s + 1] = overlaps->begin[s] + count[s];
    overlaps->others =
        mw_plan_allocate(overlaps->begin[plan->slot_count], sizeof *overlaps->others);
    memset(count, 0, plan->slot_count * sizeof *count);
    walk_overlaps(overlaps, extents, found, count);
    free(count);
    return true;
}

/* --- all slots ------------------------------------------------------------------------------- */

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

static void
clear_peaks(struct mw_plan *plan)
{
    for (uint32_t p = 0; p < plan->program_count; p++)
        memset(plan->programs[p].peak_bytes, 0, sizeof plan->programs[p].peak_bytes);
}

/* The planner lays slots out one behind the other; then nothing needs to be sorted. */
static bool
are_in_order(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    int64_t(*end)[MW_TIER_COUNT] = mw_plan_allocate(plan->program_count, sizeof *end);
    bool good = true;

    clear_peaks(check->plan);

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

    clear_peaks(check->plan);
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
    bool good = check_overlaps(check, extents, count) && list_overlaps(check, extents, count);
    free(extents);
    return good;
}

bool
mw_plan_check_memory(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    for (uint32_t i = 0; i < plan->slot_count; i++)
        if (!check_slot(check, i))
            return false;
    if (!are_in_order(check) && !check_extents(check))
        return false;
    if (all_are_alike(plan))
        return true; /* each rank uses its own share */
    return check_nodes(check, MW_TIER_CPU) && check_nodes(check, MW_TIER_NVME);
}
