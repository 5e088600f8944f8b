/*
 * Checksums of the data written last, one per page: a drive returns what it was given, or the read
 * fails.  A page that was neither written nor vouched for since open has no checksum, since nothing
 * needs its content.
 */
#include "base/error.h"
#include "exec/host/checksum.h"
#include "exec/nvme/internal.h"

enum { PAGE_BYTES = MW_NVME_PAGE_BYTES };

/* 0 means "none". */
static uint32_t
sum_of(const char *page)
{
    uint32_t sum = (uint32_t)mw_checksum(page, PAGE_BYTES);

    return sum ? sum : 1;
}

void
mw_nvme_sums_take(const struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes, const char *data)
{
    if (!nvme->sums)
        return;
    for (int64_t at = 0; at < bytes; at += PAGE_BYTES)
        nvme->sums[(offset_bytes + at) / PAGE_BYTES] = sum_of(data + at);
}

void
mw_nvme_vouch(struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes, const void *data)
{
    g_assert((offset_bytes | bytes) % PAGE_BYTES == 0);
    mw_nvme_sums_take(nvme, offset_bytes, bytes, data);
}

int64_t
mw_nvme_sums_agree(const struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes,
                   const char *data, int64_t *other_bytes)
{
    int64_t first = -1;

    *other_bytes = 0;
    for (int64_t at = 0; nvme->sums && at < bytes; at += PAGE_BYTES) {
        uint32_t wanted = nvme->sums[(offset_bytes + at) / PAGE_BYTES];
        bool same = !wanted || sum_of(data + at) == wanted;
        if (same && first >= 0)
            break;
        if (!same && first < 0)
            first = at;
        if (!same)
            *other_bytes += PAGE_BYTES;
    }
    return first;
}
