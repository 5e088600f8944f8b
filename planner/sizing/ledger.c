/* Adds up what all slots take of each tier, and compares it with the tier's capacity. */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

#define FAR_TOO_LARGE (INT64_MAX / 2)

/* --- the slots of the table ------------------------------------------------------------------ */

static const uint8_t *
tiers_of_tensors(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    return kind == MW_BUFFER_PARAMETERS ? sizing->param_home : sizing->gradient_home;
}

static void
list_tensors(const struct mw_sizing *sizing, enum mw_buffer_kind kind, struct mw_sized_slot *slots)
{
    const uint8_t *tiers = tiers_of_tensors(sizing, kind);

    for (uint32_t u = 0; u < sizing->tensor_count; u++)
        slots[u] = (struct mw_sized_slot){
            tiers[u], mw_sizing_home_bytes(sizing, kind, mw_sizing_tensor(sizing, u))};
}

static void
list_sums(const struct mw_sizing *sizing, struct mw_sized_slot *slots)
{
    for (int64_t u = 0; u < sizing->buffers[MW_BUFFER_SUMS].count; u++) {
        const struct mw_unit_tensor *tensor = mw_sizing_tensor(sizing, (uint32_t)u);
        bool elsewhere = sizing->gradient_home[u] != MW_TIER_NVME;
        slots[u] = (struct mw_sized_slot){
            MW_TIER_CPU, elsewhere ? 0 : mw_sizing_home_bytes(sizing, MW_BUFFER_SUMS, tensor)};
    }
}

static void
list_checkpoints(const struct mw_sizing *sizing, struct mw_sized_slot *slots)
{
    for (int64_t c = 0; c < sizing->checkpoint_slots; c++)
        slots[c] = (struct mw_sized_slot){sizing->checkpoint_home[c],
                                          mw_sizing_checkpoint_bytes(sizing, c)};
}

static void
list_chunks(const struct mw_sizing *sizing, enum mw_buffer_kind kind, struct mw_sized_slot *slots)
{
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(sizing);

    for (uint32_t c = 0; c < sizing->chunk_count; c++)
        if (kind == MW_BUFFER_STATE || mw_sizing_commits_chunk(sizing, &chunks[c]))
            *slots++ = (struct mw_sized_slot){chunks[c].tier, chunks[c].state_bytes};
}

struct mw_sized_slot *
mw_sizing_slots(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    const struct mw_buffer *buffer = &sizing->buffers[kind];
    struct mw_sized_slot *slots = g_new(struct mw_sized_slot, buffer->count + 1);

    if (kind == MW_BUFFER_PARAMETERS || kind == MW_BUFFER_GRADIENTS)
        list_tensors(sizing, kind, slots);
    else if (kind == MW_BUFFER_SUMS)
        list_sums(sizing, slots);
    else if (kind == MW_BUFFER_CHECKPOINTS)
        list_checkpoints(sizing, slots);
    else if (kind == MW_BUFFER_STATE || kind == MW_BUFFER_STATE_OTHER)
        list_chunks(sizing, kind, slots);
    else
        for (int64_t i = 0; i < buffer->count; i++)
            slots[i] = (struct mw_sized_slot){buffer->tier, buffer->bytes};
    return slots;
}

/* --- their sum ------------------------------------------------------------------------------- */

static void
add_bytes(struct mw_sizing *sizing, enum mw_buffer_kind kind, enum mw_tier tier, int64_t bytes)
{
    enum mw_purpose purpose = sizing->buffers[kind].purpose;

    sizing->ledger[tier][purpose] = MIN(sizing->ledger[tier][purpose] + bytes, FAR_TOO_LARGE);
    sizing->need_bytes[tier] = MIN(sizing->need_bytes[tier] + bytes, FAR_TOO_LARGE);
}

static void
add_slots(struct mw_sizing *sizing, enum mw_buffer_kind kind, enum mw_tier tier, int64_t bytes,
          int64_t count)
{
    int64_t all;

    if (!count || !bytes)
        return;
    bytes = mw_round_up(bytes, MW_SLOT_ALIGNMENT_BYTES);
    /* So large that nothing holds it: the exact size does not matter. */
    if (__builtin_mul_overflow(bytes, count, &all) || all > FAR_TOO_LARGE)
        all = FAR_TOO_LARGE;
    add_bytes(sizing, kind, tier, all);
    sizing->largest_bytes[tier] = MAX(sizing->largest_bytes[tier], bytes);
}

int64_t
mw_sizing_buffer_bytes(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    const struct mw_buffer *buffer = &sizing->buffers[kind];
    int64_t all;

    if (__builtin_mul_overflow(mw_round_up(buffer->bytes, MW_SLOT_ALIGNMENT_BYTES), buffer->count,
                               &all))
        return FAR_TOO_LARGE;
    return MIN(all, FAR_TOO_LARGE);
}

/* Bytes that buffers share count once, with the one that comes first in the plan's order. */
static void
add_buffer(struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    const struct mw_buffer *buffer = &sizing->buffers[kind];
    int64_t *largest = &sizing->largest_bytes[buffer->tier];

    if (!buffer->shares) {
        add_slots(sizing, kind, buffer->tier, buffer->bytes, buffer->count);
        return;
    }
    add_slots(sizing, kind, buffer->tier, mw_sizing_own_bytes(sizing, kind), 1);
    *largest = MAX(*largest, mw_round_up(buffer->bytes, MW_SLOT_ALIGNMENT_BYTES));
}

/* The room for buffers that share bytes comes behind what lies apart: what only a run's trainer
 * places is last of all (exec/trainer/storage.c). */
static void
place_shared(struct mw_sizing *sizing)
{
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        struct mw_extent *shared = &sizing->shared[t];
        int64_t room = shared->end - shared->begin;
        shared->end = sizing->need_bytes[t];
        shared->begin = shared->end - room;
    }
}

/* A search does this thousands of times; the blocks of a class differ only in their tiers. */
static void
add_tensors(struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    const uint8_t *tiers = tiers_of_tensors(sizing, kind);
    bool splits = mw_sizing_splits(sizing, kind == MW_BUFFER_PARAMETERS ? MW_STATE_PARAMETERS
                                                                        : MW_STATE_GRADIENTS);

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int u = 0; u < class->tensor_count; u++) {
            int64_t bytes = mw_sizing_home_bytes(sizing, kind, &class->tensors[u]);
            int64_t blocks_in[MW_TIER_COUNT] = {0};
            if (!splits && class->blocks)
                blocks_in[tiers[u]] = class->blocks;
            for (int64_t block = 0; splits && block < class->blocks; block++)
                blocks_in[tiers[block * class->tensor_count + u]]++;
            for (int t = 0; t < MW_TIER_COUNT; t++)
                add_slots(sizing, kind, t, bytes, blocks_in[t]);
            if (kind == MW_BUFFER_GRADIENTS && sizing->sums_on_host)
                add_slots(sizing, MW_BUFFER_SUMS, MW_TIER_CPU,
                          mw_sizing_home_bytes(sizing, MW_BUFFER_SUMS, &class->tensors[u]),
                          blocks_in[MW_TIER_NVME]);
        }
        tiers += class->blocks * class->tensor_count;
    }
}

/* Those of all layers lie over each other in the sets of a few. */
static void
add_gradient_sets(struct mw_sizing *sizing)
{
    int64_t *largest = &sizing->largest_bytes[MW_TIER_GPU];

    add_bytes(sizing, MW_BUFFER_GRADIENTS, MW_TIER_GPU, mw_sizing_gradient_sets_bytes(sizing));
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int t = 0; sizing->classes[c].blocks && t < sizing->classes[c].tensor_count; t++) {
            int64_t bytes =
                mw_sizing_home_bytes(sizing, MW_BUFFER_GRADIENTS, &sizing->classes[c].tensors[t]);
            *largest = MAX(*largest, mw_round_up(bytes, MW_SLOT_ALIGNMENT_BYTES));
        }
}

static void
add_chunks(struct mw_sizing *sizing)
{
    for (uint32_t c = 0; c < sizing->run_chunk_count; c++) {
        const struct mw_chunk *chunk = &sizing->run_chunks[c];
        int64_t bytes = chunk->state_bytes;
        add_slots(sizing, MW_BUFFER_STATE, chunk->tier, bytes, chunk->times);
        if (mw_sizing_commits_chunk(sizing, chunk))
            add_slots(sizing, MW_BUFFER_STATE_OTHER, chunk->tier, bytes, chunk->times);
    }
}

static void
sum_slots(struct mw_sizing *sizing)
{
    struct mw_buffer *buffers = sizing->buffers, *checksums = &buffers[MW_BUFFER_CHECKSUMS];

    add_tensors(sizing, MW_BUFFER_PARAMETERS);
    if (sizing->gradient_sets)
        add_gradient_sets(sizing);
    else
        add_tensors(sizing, MW_BUFFER_GRADIENTS);
    bool alike =
        !mw_sizing_splits(sizing, MW_STATE_ACTIVATIONS) && !mw_sizing_mixes_checkpoints(sizing);
    int64_t count = alike ? sizing->checkpoint_slots : 1;
    for (int64_t c = 0; c < sizing->checkpoint_slots; c += count)
        add_slots(sizing, MW_BUFFER_CHECKPOINTS, sizing->checkpoint_home[c],
                  mw_sizing_checkpoint_bytes(sizing, c), count);
    add_chunks(sizing);
    for (int kind = MW_BUFFER_HOME_KINDS; kind < MW_BUFFER_VECTORS; kind++)
        add_buffer(sizing, kind);
    place_shared(sizing);
    add_buffer(sizing, MW_BUFFER_VECTORS);
    /* Every page read from drives is checked against the one written last. */
    checksums->bytes = mw_plan_checksum_bytes(sizing->need_bytes[MW_TIER_NVME]);
    checksums->count = checksums->bytes > 0;
    add_slots(sizing, MW_BUFFER_CHECKSUMS, checksums->tier, checksums->bytes, checksums->count);
}

/* --- verdict --------------------------------------------------------------------------------- */

static void
read_tiers(struct mw_sizing *sizing)
{
    const struct mw_hardware *hw = sizing->hardware;
    int64_t ranks = sizing->ranks_per_node;
    struct mw_tier_info *tiers = sizing->tiers;

    tiers[MW_TIER_GPU] =
        (struct mw_tier_info){hw->gpu_memory_bytes - hw->gpu_reserve_bytes, hw->gpu_reserve_bytes,
                              hw->gpu_largest_request_bytes};
    tiers[MW_TIER_CPU] =
        (struct mw_tier_info){(hw->host_memory_bytes - hw->host_reserve_bytes) / ranks,
                              hw->host_reserve_bytes / ranks, hw->host_largest_request_bytes};
    tiers[MW_TIER_NVME] =
        (struct mw_tier_info){MAX(0, hw->nvme_capacity_bytes - hw->nvme_reserve_bytes) / ranks,
                              hw->nvme_reserve_bytes / ranks, INT64_MAX};
    for (int t = 0; t < MW_TIER_COUNT; t++)
        if (tiers[t].largest_request_bytes <= 0 ||
            tiers[t].largest_request_bytes > tiers[t].capacity_bytes)
            tiers[t].largest_request_bytes = tiers[t].capacity_bytes;
}

int64_t
mw_sizing_peak(const struct mw_sizing *sizing, enum mw_tier tier)
{
    return sizing->need_bytes[tier] - (tier == MW_TIER_GPU ? sizing->apart_bytes : 0);
}

int64_t
mw_sizing_whole_need(const struct mw_sizing *sizing, enum mw_tier tier)
{
    return mw_sizing_peak(sizing, tier) + sizing->beside_bytes[tier];
}

static void
set_verdict(struct mw_sizing *sizing)
{
    double worst = 0;

    sizing->fits = true;
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        const struct mw_tier_info *tier = &sizing->tiers[t];
        int64_t sum = mw_sizing_whole_need(sizing, t) - tier->capacity_bytes;
        int64_t one = sizing->largest_bytes[t] - tier->largest_request_bytes;
        int64_t lack = sum > 0 ? sum : one;
        double relative = (double)lack / MAX(1, tier->capacity_bytes);
        if (lack <= 0 || (!sizing->fits && relative <= worst))
            continue;
        sizing->fits = false;
        sizing->limiting_tier = t;
        sizing->short_bytes = lack;
        sizing->fragmentation = sum <= 0;
        worst = relative;
    }
}

double
mw_sizing_lack(const struct mw_sizing *sizing)
{
    return (double)sizing->short_bytes /
           MAX(1, sizing->tiers[sizing->limiting_tier].capacity_bytes);
}

int64_t
mw_sizing_lack_of(const struct mw_sizing *sizing, enum mw_tier tier)
{
    const struct mw_tier_info *info = &sizing->tiers[tier];

    return MAX(0, MAX(mw_sizing_whole_need(sizing, tier) - info->capacity_bytes,
                      sizing->largest_bytes[tier] - info->largest_request_bytes));
}

/* The lack of all tiers, each relative to its capacity. */
static double
whole_lack(const struct mw_sizing *sizing)
{
    double sum = 0;

    for (int t = 0; t < MW_TIER_COUNT; t++)
        sum += (double)mw_sizing_lack_of(sizing, t) / MAX(1, sizing->tiers[t].capacity_bytes);
    return sum;
}

bool
mw_sizing_is_nearer(const struct mw_sizing *one, const struct mw_sizing *other)
{
    double lack = mw_sizing_lack(one), other_lack = mw_sizing_lack(other);

    return one->fits || lack < other_lack ||
           (lack == other_lack && whole_lack(one) < whole_lack(other));
}

void
mw_sizing_add_slots(struct mw_sizing *sizing, enum mw_buffer_kind kind, int64_t count)
{
    struct mw_buffer *buffer = &sizing->buffers[kind];

    buffer->count += count;
    add_slots(sizing, kind, buffer->tier, buffer->bytes, count);
}

void
mw_sizing_judge(struct mw_sizing *sizing)
{
    memset(sizing->beside_bytes, 0, sizeof sizing->beside_bytes);
    mw_sizing_set_beside(sizing);
    set_verdict(sizing);
}

void
mw_sizing_sum_ledger(struct mw_sizing *sizing)
{
    sum_slots(sizing);
    read_tiers(sizing);
    mw_sizing_judge(sizing);
}
