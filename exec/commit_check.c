/* What drives have of an extent, against its checksum. */
#include <stdlib.h>
#include <xxhash.h>

#include "exec/commit_internal.h"

#define BLOCK_BYTES ((int64_t)4 << 20)

/* The tier moves whole pages. */
static int64_t
in_pages(int64_t bytes)
{
    return (bytes + MW_COMMIT_BLOCK_BYTES - 1) / MW_COMMIT_BLOCK_BYTES * MW_COMMIT_BLOCK_BYTES;
}

bool
mw_commit_check_at(struct mw_nvme *nvme, const struct mw_commit_extent *extent, GError **error)
{
    XXH3_state_t *state = XXH3_createState();
    void *block = NULL;
    bool good = true;

    if (!state || posix_memalign(&block, MW_COMMIT_BLOCK_BYTES, BLOCK_BYTES))
        g_error("out of memory");
    XXH3_64bits_reset(state);
    for (int64_t at = 0; good && at < extent->bytes; at += BLOCK_BYTES) {
        int64_t bytes = MIN(BLOCK_BYTES, extent->bytes - at);
        good = mw_nvme_transfer(nvme, MW_NVME_READ, extent->offset_bytes + at, in_pages(bytes),
                                block, error);
        if (good)
            XXH3_64bits_update(state, block, (size_t)bytes);
    }
    good = good && mw_commit_same_checksum(extent, XXH3_64bits_digest(state), error);
    XXH3_freeState(state);
    free(block);
    return good;
}
