/* Memory and drives that a run holds. */
#include "exec/trainer/internal.h"

struct mw_trainer_use
mw_trainer_use(const struct mw_trainer *trainer)
{
    const struct mw_nvme *nvme = trainer->storage.nvme;
    struct mw_trainer_use use = {{0}, 0, 0};

    for (int t = 0; t < MW_TIER_COUNT; t++)
        use.reserved_bytes[t] = mw_storage_reserved_bytes(&trainer->storage, t);
    if (nvme) {
        use.nvme_read_bytes = mw_nvme_moved_bytes(nvme, MW_NVME_READ);
        use.nvme_written_bytes = mw_nvme_moved_bytes(nvme, MW_NVME_WRITE);
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
