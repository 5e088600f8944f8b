#include "exec/trainer/storage.h"

#include <stdatomic.h>
#include <string.h>

/* What the plan counts and is reserved apart, since another variant may have buffers there. */
static bool
is_apart(const struct mw_slot *slot)
{
    return slot->purpose == MW_PURPOSE_CHECKSUMS || slot->purpose == MW_PURPOSE_OPTIMIZER_VECTORS;
}

/* Bytes for the variant that needs most.  In host memory checksums and vectors follow everything
 * else. */
static int64_t
tier_bytes(const struct mw_variants *variants, enum mw_tier tier)
{
    int64_t end = 0;

    for (uint32_t v = 0; v < variants->plan_count; v++) {
        const struct mw_plan *plan = variants->plans[v];
        for (uint32_t s = 0; s < plan->slot_count; s++)
            if (plan->slots[s].tier == tier && !is_apart(&plan->slots[s]))
                end = MAX(end, plan->slots[s].offset_bytes + plan->slots[s].size_bytes);
    }
    return end;
}

G_STATIC_ASSERT(MW_SLOT_ALIGNMENT_BYTES == (int)MW_NVME_PAGE_BYTES &&
                MW_PAGE_CHECKSUM_BYTES == sizeof(uint32_t));

bool
mw_storage_open_drives(struct mw_storage *storage, const struct mw_nvme_options *drives,
                       GError **error)
{
    struct mw_nvme_options options = *drives;

    options.capacity_bytes = tier_bytes(storage->variants, MW_TIER_NVME);
    if (!options.capacity_bytes)
        return true;
    if (drives->whose && !mw_arena_reserve(&storage->sums, "checksums of what is on NVMe",
                                           mw_plan_checksum_bytes(options.capacity_bytes), error))
        return false;
    options.sums = (uint32_t *)(void *)storage->sums.base;
    storage->nvme = mw_nvme_open(&options, error);
    return storage->nvme != NULL;
}

bool
mw_storage_pin(const struct mw_storage *storage, struct mw_arena *arena, GError **error)
{
    if (!arena->base || !storage->backend->pin)
        return true;
    arena->pinned = storage->backend->pin(storage->device, arena->base, arena->bytes, error);
    return arena->pinned;
}

void
mw_storage_unpin(const struct mw_storage *storage, struct mw_arena *arena)
{
    if (arena->pinned)
        storage->backend->unpin(storage->device, arena->base);
    arena->pinned = false;
}

/* Each slot stands for itself; homes have the same numbers in all variants. */
static uint32_t *
new_stands_for(const struct mw_variants *variants)
{
    uint32_t count = 0;

    for (uint32_t v = 0; v < variants->plan_count; v++)
        count = MAX(count, variants->plans[v]->slot_count);
    uint32_t *stands_for = g_new(uint32_t, count + 1);
    for (uint32_t s = 0; s < count; s++)
        stands_for[s] = s;
    return stands_for;
}

bool
mw_storage_open(struct mw_storage *storage, const struct mw_variants *variants,
                const struct mw_backend *backend, const struct mw_backend_options *device,
                GError **error)
{
    *storage = (struct mw_storage){.variants = variants,
                                   .plan = variants->plans[0],
                                   .backend = backend,
                                   .stands_for = new_stands_for(variants)};
    int64_t host_bytes = tier_bytes(variants, MW_TIER_CPU);
    void *memory = NULL;
    storage->device = backend->open(device, tier_bytes(variants, MW_TIER_GPU), &memory, error);
    storage->device_memory = memory;
    if (!storage->device ||
        (host_bytes && !mw_arena_reserve(&storage->host, "host memory", host_bytes, error)) ||
        !mw_storage_pin(storage, &storage->host, error)) {
        mw_storage_close(storage);
        return false;
    }
    return true;
}

void
mw_storage_close(struct mw_storage *storage)
{
    mw_nvme_close(storage->nvme);
    mw_arena_release(&storage->sums);
    mw_storage_unpin(storage, &storage->host);
    mw_arena_release(&storage->host);
    if (storage->device)
        storage->backend->close(storage->device);
    g_free(storage->stands_for);
    memset(storage, 0, sizeof *storage);
}

int64_t
mw_storage_reserved_bytes(const struct mw_storage *storage, enum mw_tier tier)
{
    if (tier == MW_TIER_NVME)
        return storage->nvme ? mw_nvme_capacity_bytes(storage->nvme) : 0;
    return tier == MW_TIER_CPU ? storage->host.bytes + storage->sums.bytes
                               : tier_bytes(storage->variants, tier);
}

static const struct mw_slot *
slot_of(const struct mw_storage *storage, uint32_t slot)
{
    return &storage->plan->slots[storage->stands_for[slot]];
}

void *
mw_storage_address(const struct mw_storage *storage, uint32_t slot, int64_t at_bytes)
{
    const struct mw_slot *s = slot_of(storage, slot);

    g_assert(s->tier != MW_TIER_NVME && at_bytes >= 0 && at_bytes <= s->size_bytes);
    return (s->tier == MW_TIER_GPU ? storage->device_memory : storage->host.base) +
           s->offset_bytes + at_bytes;
}

/* --- moves ----------------------------------------------------------------------------------- */

static bool
on_drives(const struct mw_storage *storage, struct mw_place place)
{
    return slot_of(storage, place.slot)->tier == MW_TIER_NVME;
}

static void
submit(struct mw_storage *storage, const struct mw_move *move, struct mw_nvme_request *request)
{
    bool reads = on_drives(storage, move->from);
    struct mw_place drive = reads ? move->from : move->to, memory = reads ? move->to : move->from;
    const struct mw_slot *slot = slot_of(storage, drive.slot);
    int64_t bytes = mw_in_pages(move->bytes);

    g_assert(drive.at_bytes + bytes <= slot->size_bytes &&
             memory.at_bytes + bytes <= slot_of(storage, memory.slot)->size_bytes);
    mw_nvme_submit(storage->nvme, request, reads ? MW_NVME_READ : MW_NVME_WRITE,
                   slot->offset_bytes + drive.at_bytes, bytes,
                   mw_storage_address(storage, memory.slot, memory.at_bytes));
}

static bool
copy(struct mw_storage *storage, const struct mw_move *move, GError **error)
{
    void *to = mw_storage_address(storage, move->to.slot, move->to.at_bytes);
    const void *from = mw_storage_address(storage, move->from.slot, move->from.at_bytes);
    bool device = slot_of(storage, move->from.slot)->tier == MW_TIER_GPU ||
                  slot_of(storage, move->to.slot)->tier == MW_TIER_GPU;

    if (device)
        return storage->backend->copy(storage->device, to, from, move->bytes, error);
    memcpy(to, from, move->bytes);
    return true;
}

static bool
is_transfer(const struct mw_storage *storage, const struct mw_move *move)
{
    return on_drives(storage, move->from) || on_drives(storage, move->to);
}

bool
mw_storage_move(struct mw_storage *storage, const struct mw_move *moves, int64_t count,
                GError **error)
{
    g_autofree struct mw_nvme_request *requests = g_new0(struct mw_nvme_request, count + 1);
    bool good = true;

    for (int64_t i = 0; i < count; i++)
        if (is_transfer(storage, &moves[i]))
            submit(storage, &moves[i], &requests[i]);
    for (int64_t i = 0; i < count; i++) {
        GError **where = good ? error : NULL;
        if (requests[i].nvme)
            good &= mw_nvme_wait(&requests[i], where);
        else if (good)
            good = copy(storage, &moves[i], where);
    }
    return good;
}

struct mw_transfers {
    atomic_llong left; /* requests that are not done, plus one for the thread that began them */
    mw_transfers_done done;
    void *data;
    int64_t count;
    struct mw_nvme_request requests[];
};

/* The last request to end takes the results of all. */
static void
end_one(void *data)
{
    struct mw_transfers *transfers = data;
    GError *error = NULL;

    if (atomic_fetch_sub(&transfers->left, 1) > 1)
        return;
    for (int64_t i = 0; i < transfers->count; i++)
        mw_nvme_wait(&transfers->requests[i], error ? NULL : &error);
    transfers->done(transfers->data, error);
    g_free(transfers);
}

struct mw_transfers *
mw_storage_begin_moves(struct mw_storage *storage, const struct mw_move *moves, int64_t count,
                       mw_transfers_done done, void *data)
{
    struct mw_transfers *transfers =
        g_malloc0(sizeof *transfers + count * sizeof *transfers->requests);

    transfers->done = done;
    transfers->data = data;
    transfers->count = count;
    atomic_init(&transfers->left, count + 1);
    for (int64_t i = 0; i < count; i++) {
        g_assert(is_transfer(storage, &moves[i]));
        transfers->requests[i].on_done = end_one;
        transfers->requests[i].on_done_data = transfers;
        submit(storage, &moves[i], &transfers->requests[i]);
    }
    return transfers;
}

void
mw_transfers_let_go(struct mw_transfers *transfers)
{
    end_one(transfers);
}
