#include "exec/commit/extents.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/host/checksum.h"
#include "exec/nvme/run_names.h"

#define BLOCK_BYTES ((int64_t)4 << 20)
#define BYTES_MAX (INT64_C(1) << 61) /* so that sums over drives fit */

/* --- files ----------------------------------------------------------------------------------- */

/* Opens without O_DIRECT where the file system has none, after dropping the file from the page
 * cache. */
static int
open_past_cache(const char *path, const struct mw_nvme_calls *calls, const char **why)
{
    int fd = mw_own_open(path, O_RDONLY | O_DIRECT, 0, why);

    if (fd < 0 && errno == EINVAL)
        fd = mw_own_open(path, O_RDONLY, 0, why);
    if (fd >= 0 && (calls->fdatasync(calls->data, fd) || calls->forget(calls->data, fd))) {
        const int reason = errno;
        *why = g_strerror(reason);
        close(fd);
        errno = reason;
        fd = -1;
    }
    return fd;
}

static bool
check_identity(const struct mw_commit_identity *identity, const char *record_path, GError **error)
{
    if (identity->drives >= 1 && identity->drives <= MW_NVME_DRIVES_MAX &&
        identity->stripe_bytes >= 1 && identity->stripe_bytes <= BYTES_MAX &&
        identity->stripe_bytes % MW_PAGE_BYTES == 0 && identity->capacity_bytes >= 0 &&
        identity->capacity_bytes <= BYTES_MAX)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: names %d director%s with stripes of %" PRId64 " bytes for %" PRId64
                " bytes, which no run has",
                record_path, identity->drives, identity->drives == 1 ? "y" : "ies",
                identity->stripe_bytes, identity->capacity_bytes);
    return false;
}

/* Describes a file size that a resume would take for that of other settings; NULL if the size is
 * right. */
static char *
resized(const struct mw_extents *extents, int64_t bytes)
{
    const int64_t wanted = mw_nvme_stripe_file_bytes(&extents->layout, extents->capacity_bytes);

    return bytes == wanted
               ? NULL
               : g_strdup_printf("holds %" PRId64 " bytes, its run %" PRId64
                                 ": it was %s, or is another run's",
                                 bytes, wanted, bytes < wanted ? "cut off" : "added to");
}

static void
open_data(struct mw_extents *extents, int d)
{
    const char *why = NULL;
    struct stat info;

    extents->data[d].fd = open_past_cache(extents->data[d].path, extents->calls, &why);
    extents->data[d].absent = extents->data[d].fd < 0 && (errno == ENOENT || errno == ENOTDIR);
    extents->data[d].missing = extents->data[d].fd < 0 ? g_strdup(why) : NULL;
    if (extents->data[d].fd >= 0 && !fstat(extents->data[d].fd, &info))
        extents->data[d].resized = resized(extents, info.st_size);
}

bool
mw_extents_open(struct mw_extents *extents, const char *const *directories, const char *stem,
                const struct mw_commit_identity *identity, const char *record_path,
                const struct mw_nvme_calls *calls, GError **error)
{
    void *block;

    *extents = (struct mw_extents){.calls = calls ? calls : &mw_nvme_system_calls};
    if (!check_identity(identity, record_path, error))
        return false;
    if (posix_memalign(&block, MW_PAGE_BYTES, BLOCK_BYTES))
        g_error("out of memory");
    extents->block = block;
    extents->drives = identity->drives;
    extents->capacity_bytes = identity->capacity_bytes;
    extents->layout =
        (struct mw_nvme_layout){identity->drives, identity->stripe_bytes, BLOCK_BYTES};
    for (int d = 0; d < extents->drives; d++) {
        extents->data[d].path = mw_run_data_path(directories[d], stem, d, extents->drives);
        open_data(extents, d);
    }
    return true;
}

void
mw_extents_close(struct mw_extents *extents)
{
    for (int d = 0; d < extents->drives; d++) {
        if (extents->data[d].fd >= 0)
            close(extents->data[d].fd);
        g_free(extents->data[d].path);
        g_free(extents->data[d].missing);
        g_free(extents->data[d].resized);
    }
    free(extents->block);
    *extents = (struct mw_extents){.drives = 0};
}

/* --- reading --------------------------------------------------------------------------------- */

/* Reads whole pages into the block.  Returns the system's reason, or NULL if all of it was read. */
static const char *
read_piece(const struct mw_extents *extents, int drive, const struct mw_nvme_piece *piece)
{
    const struct mw_nvme_calls *calls = extents->calls;
    const int fd = extents->data[drive].fd;

    if (extents->data[drive].missing)
        return extents->data[drive].missing;
    for (int64_t done = 0; done < piece->bytes;) {
        ssize_t got =
            calls->pread(calls->data, fd, extents->block + done,
                         (size_t)(mw_in_pages(piece->bytes) - done), piece->drive_bytes + done);
        const int reason = errno, flags = fcntl(fd, F_GETFL);
        if (got < 0 && reason == EINTR)
            continue;
        if (got < 0 && reason == EINVAL && flags & O_DIRECT &&
            !fcntl(fd, F_SETFL, flags & ~O_DIRECT))
            continue;
        if (got < 0)
            return g_strerror(reason);
        if (!got)
            return "the file ends before it";
        done += got;
    }
    return NULL;
}

/* Finds the piece that begins at `at`, which is before the end. */
static int
find_piece(const struct mw_extents *extents, int64_t at, int64_t end, struct mw_nvme_piece *piece)
{
    const struct mw_nvme_layout *layout = &extents->layout;
    int drive = layout->drives == 1 ? 0 : (int)(at / layout->stripe_bytes % layout->drives);

    mw_nvme_stripe_next(layout, drive, at, end, piece);
    return drive;
}

/* A record with a right checksum may still name a place that no run has. */
static bool
is_inside(const struct mw_extents *extents, const struct mw_commit_extent *extent)
{
    return extent->offset_bytes >= 0 && extent->bytes >= 0 &&
           extent->offset_bytes % MW_PAGE_BYTES == 0 && extent->bytes <= extents->capacity_bytes &&
           extent->offset_bytes <= extents->capacity_bytes - extent->bytes;
}

struct mw_extent_read
mw_extents_read(const struct mw_extents *extents, const struct mw_commit_extent *extent, char *out)
{
    struct mw_extent_read read = {.drive = -1};
    struct mw_nvme_piece piece;

    if (!is_inside(extents, extent)) {
        read.why = "lies outside of the run's space";
        return read;
    }
    const int64_t begin = extent->offset_bytes, end = begin + extent->bytes;
    struct mw_checksum *sum = mw_checksum_begin();
    for (int64_t at = begin; at < end; at += piece.bytes) {
        int drive = find_piece(extents, at, end, &piece);
        read.why = read_piece(extents, drive, &piece);
        read.drive = read.why ? drive : -1;
        if (read.why)
            break;
        mw_checksum_add(sum, extents->block, piece.bytes);
        if (out)
            memcpy(out + (at - begin), extents->block, (size_t)piece.bytes);
    }
    read.checksum = mw_checksum_end(sum);
    return read;
}

static char *
where(const struct mw_extents *extents, const struct mw_commit_extent *extent)
{
    const char *paths[MW_NVME_DRIVES_MAX];

    for (int d = 0; d < extents->drives; d++)
        paths[d] = extents->data[d].path;
    return mw_nvme_stripe_where(&extents->layout, paths, extent->offset_bytes, extent->bytes);
}

bool
mw_extents_check(const struct mw_extents *extents, const struct mw_commit_extent *extent, char *out,
                 GError **error)
{
    struct mw_extent_read read = mw_extents_read(extents, extent, out);

    if (!read.why && mw_commit_same_checksum(extent, read.checksum, error))
        return true;
    if (read.why)
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "extent %" PRId64 " (%" PRId64 " bytes at %" PRId64 " of the NVMe tier): %s",
                    extent->id, extent->bytes, extent->offset_bytes, read.why);
    g_autofree char *files = read.drive >= 0 ? g_strdup(extents->data[read.drive].path)
                             : read.why      ? g_strdup(extents->data[0].path)
                                             : where(extents, extent);
    g_prefix_error(error, "%s: ", files);
    return false;
}
