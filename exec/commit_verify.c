#include <xxhash.h>

#include "exec/commit_internal.h"
#include "planner/error.h"

static bool
compare(const struct mw_commit_extent *extent, uint64_t checksum, GError **error)
{
    if (checksum == extent->checksum)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "extent %" PRId64 " (%" PRId64 " bytes at %" PRId64
                " of the NVMe tier) is damaged: checksum %016" PRIx64
                " instead of the committed %016" PRIx64,
                extent->id, extent->bytes, extent->offset_bytes, checksum, extent->checksum);
    return false;
}

bool
mw_commit_check(const struct mw_commit_extent *extent, const void *data, GError **error)
{
    return compare(extent, mw_commit_checksum(data, extent->bytes), error);
}

/* The last piece is read to the next border of the alignment; what lies behind does not count. */
static bool
digest(struct mw_nvme *nvme, const struct mw_commit_extent *extent, char *buffer,
       int64_t buffer_bytes, XXH3_state_t *state, GError **error)
{
    const int64_t unit_bytes = mw_nvme_alignment_bytes(nvme);

    for (int64_t at = 0; at < extent->bytes; at += buffer_bytes) {
        const int64_t bytes = MIN(buffer_bytes, extent->bytes - at);
        const int64_t read_bytes = (bytes + unit_bytes - 1) / unit_bytes * unit_bytes;

        if (!mw_nvme_transfer(nvme, MW_NVME_READ, extent->offset_bytes + at, read_bytes, buffer,
                              error))
            return false;
        XXH3_64bits_update(state, buffer, (size_t)bytes);
    }
    return true;
}

bool
mw_commit_verify(struct mw_nvme *nvme, const struct mw_commit_extent *extent, void *buffer,
                 int64_t buffer_bytes, GError **error)
{
    XXH3_state_t *state = XXH3_createState();

    XXH3_64bits_reset(state);
    const bool ok = digest(nvme, extent, buffer, buffer_bytes, state, error) &&
                    compare(extent, XXH3_64bits_digest(state), error);
    XXH3_freeState(state);
    return ok;
}
