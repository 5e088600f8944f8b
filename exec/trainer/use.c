/* Memory and drives that a run holds. */
#include "exec/trainer/internal.h"

static int64_t
reserved_bytes(const struct mw_trainer *trainer, enum mw_tier tier)
{
    return mw_storage_reserved_bytes(&trainer->storage, tier) +
           (tier == MW_TIER_CPU ? trainer->vectors.memory.bytes : 0);
}

/* All that is reserved in host memory is resident at once (exec/memory/memory.h), and scratch of
 * kernels and of saves is not until they run. */
void
mw_trainer_find_program(struct mw_trainer *trainer)
{
    int64_t resident = mw_memory_resident_bytes(), reserved = reserved_bytes(trainer, MW_TIER_CPU);

    if (!trainer->storage.backend->apart)
        reserved += reserved_bytes(trainer, MW_TIER_GPU);
    trainer->program_bytes = resident < 0 ? -1 : MAX(resident - reserved, 0);
}

struct mw_trainer_use
mw_trainer_use(const struct mw_trainer *trainer)
{
    const struct mw_storage *storage = &trainer->storage;
    struct mw_trainer_use use = {.program_bytes = trainer->program_bytes};

    for (int t = 0; t < MW_TIER_COUNT; t++)
        use.reserved_bytes[t] = reserved_bytes(trainer, t);
    if (storage->backend->scratch_bytes)
        use.scratch_bytes = storage->backend->scratch_bytes(storage->device);
    if (trainer->durable.block)
        use.scratch_bytes += MW_TRAINER_SAVE_BYTES;
    if (storage->nvme) {
        use.nvme_read_bytes = mw_nvme_moved_bytes(storage->nvme, MW_NVME_READ);
        use.nvme_written_bytes = mw_nvme_moved_bytes(storage->nvme, MW_NVME_WRITE);
    }
    return use;
}

/* Line 0 is about changed instructions, line 1 about the arena; lines of the drives follow. */
static const char *
line_at(const struct mw_trainer *trainer, int at)
{
    const struct mw_storage *storage = &trainer->storage;

    if (at == 0)
        return trainer->durable.change;
    return at == 1 ? storage->host.notice : mw_nvme_drive(storage->nvme, at - 2).notice;
}

const char *
mw_trainer_lack(const struct mw_trainer *trainer, int index)
{
    const struct mw_storage *storage = &trainer->storage;
    int lines = 2 + (storage->nvme ? mw_nvme_drive_count(storage->nvme) : 0);

    for (int at = 0; at < lines; at++)
        if (line_at(trainer, at) && index-- == 0)
            return line_at(trainer, at);
    return NULL;
}
