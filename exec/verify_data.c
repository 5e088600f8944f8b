/* Extents as the drives have them: read past the page cache, a block at a time. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include "exec/verify_internal.h"
#include "planner/error.h"
#include "planner/own_file.h"

#define BLOCK_BYTES ((int64_t)4 << 20)

/* --- files ----------------------------------------------------------------------------------- */

/* Through the page cache, which has let go of the file, where there is no O_DIRECT. */
static int
open_past_cache(const char *directory, const char *name, const char **why)
{
    int folder = mw_own_open_folder(directory);

    if (folder < 0) {
        *why = g_strerror(errno);
        return -1;
    }
    int fd = mw_own_open_at(folder, name, O_RDONLY | O_DIRECT, 0, NULL, why);
    if (fd < 0 && errno == EINVAL)
        fd = mw_own_open_at(folder, name, O_RDONLY, 0, NULL, why);
    close(folder);
    if (fd >= 0 && (fdatasync(fd) || mw_nvme_system_calls.forget(NULL, fd))) {
        *why = g_strerror(errno);
        close(fd);
        fd = -1;
    }
    return fd;
}

bool
mw_verify_open_data(const struct mw_verify_options *options, struct mw_verify_rank *rank,
                    GError **error)
{
    const struct mw_commit_identity *identity = &rank->identity;

    if (!rank->identified)
        return true;
    if (identity->drives < 1 || identity->drives > MW_NVME_DRIVES_MAX ||
        identity->stripe_bytes < 1 || identity->stripe_bytes % MW_COMMIT_BLOCK_BYTES) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: names %d directories with stripes of %" PRId64 " bytes, which no run has",
                    rank->file.path, identity->drives, identity->stripe_bytes);
        return false;
    }
    rank->drives = identity->drives;
    rank->layout = (struct mw_nvme_layout){identity->drives, identity->stripe_bytes, BLOCK_BYTES};
    for (int i = 0; i < rank->drives; i++) {
        const char *why = NULL;
        g_autofree char *name =
            g_strdup_printf("%s-%dof%d.data", rank->stem, i + 1, identity->drives);
        rank->data[i].path = g_build_filename(options->directories[i], name, NULL);
        rank->data[i].fd = open_past_cache(options->directories[i], name, &why);
        rank->data[i].missing = rank->data[i].fd < 0 ? g_strdup(why) : NULL;
    }
    return true;
}

void
mw_verify_close_data(struct mw_verify_rank *rank)
{
    for (int i = 0; i < rank->drives; i++) {
        if (rank->data[i].fd >= 0)
            close(rank->data[i].fd);
        g_free(rank->data[i].path);
        g_free(rank->data[i].missing);
    }
    rank->drives = 0;
}

/* --- reading --------------------------------------------------------------------------------- */

static int64_t
in_pages(int64_t bytes)
{
    return (bytes + MW_COMMIT_BLOCK_BYTES - 1) / MW_COMMIT_BLOCK_BYTES * MW_COMMIT_BLOCK_BYTES;
}

/* The system's reason; NULL: all of it is there. */
static const char *
read_piece(int fd, char *block, int64_t offset_bytes, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        const int64_t wanted = in_pages(bytes) - done;
        ssize_t got = pread(fd, block + done, (size_t)wanted, offset_bytes + done);
        const int flags = fcntl(fd, F_GETFL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EINVAL && flags & O_DIRECT &&
            !fcntl(fd, F_SETFL, flags & ~O_DIRECT))
            continue;
        if (got < 0)
            return g_strerror(errno);
        if (!got)
            return "the file ends before it";
        done += got;
    }
    return NULL;
}

/* The drive whose piece of the logical space comes first. */
static int
next_piece(const struct mw_verify_rank *rank, int64_t from, int64_t end,
           struct mw_nvme_piece *piece)
{
    int drive = (int)(from / rank->layout.stripe_bytes % rank->drives);

    return mw_nvme_stripe_next(&rank->layout, rank->drives == 1 ? 0 : drive, from, end, piece)
               ? (rank->drives == 1 ? 0 : drive)
               : -1;
}

struct checked {
    const char *why; /* what was read is not it; NULL: it was read */
    int drive;       /* that could not be read; -1: none */
    uint64_t checksum;
};

static struct checked
read_extent(const struct mw_verify_rank *rank, const struct mw_commit_extent *extent)
{
    const int64_t end = extent->offset_bytes + extent->bytes;
    struct checked checked = {.drive = -1};
    XXH3_state_t *state = XXH3_createState();
    struct mw_nvme_piece piece;
    void *block;

    if (!state || posix_memalign(&block, MW_COMMIT_BLOCK_BYTES, BLOCK_BYTES))
        g_error("out of memory");
    XXH3_64bits_reset(state);
    for (int64_t at = extent->offset_bytes; at < end && !checked.why; at += piece.bytes) {
        int drive = next_piece(rank, at, end, &piece);
        checked.why = rank->data[drive].missing
                          ? rank->data[drive].missing
                          : read_piece(rank->data[drive].fd, block, piece.drive_bytes, piece.bytes);
        checked.drive = checked.why ? drive : -1;
        if (!checked.why)
            XXH3_64bits_update(state, block, (size_t)piece.bytes);
    }
    checked.checksum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    free(block);
    return checked;
}

/* --- damage ---------------------------------------------------------------------------------- */

void
mw_verify_damage_free(void *data)
{
    struct mw_verify_damage *damage = data;

    g_free(damage->file);
    g_free(damage->tensors);
    g_free(damage->what);
    g_free(damage);
}

/* From the first byte that a drive has of the extent to its last. */
static bool
range_on(const struct mw_verify_rank *rank, int drive, const struct mw_commit_extent *extent,
         int64_t *first, int64_t *bytes)
{
    const int64_t end = extent->offset_bytes + extent->bytes;
    struct mw_nvme_piece piece;
    int64_t last = -1;

    for (int64_t at = extent->offset_bytes;
         mw_nvme_stripe_next(&rank->layout, drive, at, end, &piece);
         at = piece.logical_bytes + piece.bytes) {
        if (last < 0)
            *first = piece.drive_bytes;
        last = piece.drive_bytes + piece.bytes;
    }
    *bytes = last - *first;
    return last >= 0;
}

static void
add_damage(const struct mw_verify_options *options, const struct mw_verify_rank *rank,
           const struct mw_commit_extent *extent, int drive, const char *what, GPtrArray *damage)
{
    int64_t first = 0, bytes = 0;

    if (!range_on(rank, drive, extent, &first, &bytes))
        return;
    struct mw_verify_damage *it = g_new0(struct mw_verify_damage, 1);
    *it = (struct mw_verify_damage){
        .rank = rank->identity.rank,
        .file = g_strdup(rank->data[drive].path),
        .tensors = options->tensors ? options->tensors(options->data, rank->identity.rank,
                                                       rank->identity.ranks, extent)
                                    : NULL,
        .offset_bytes = first,
        .bytes = bytes,
        .extent = extent->id,
        .what = g_strdup(what),
    };
    g_ptr_array_add(damage, it);
}

/* A checksum is of the whole extent: where it is another, each of its drives may have the damage.
 */
bool
mw_verify_extent(const struct mw_verify_options *options, const struct mw_verify_rank *rank,
                 const struct mw_commit_extent *extent, GPtrArray *damage)
{
    const int64_t capacity = rank->identity.capacity_bytes;
    bool inside = extent->offset_bytes >= 0 && extent->bytes >= 0 &&
                  extent->offset_bytes % MW_COMMIT_BLOCK_BYTES == 0 && extent->bytes <= capacity &&
                  extent->offset_bytes <= capacity - extent->bytes;
    const struct mw_commit_extent nowhere = {.id = extent->id, .bytes = MW_COMMIT_BLOCK_BYTES};
    struct checked checked = {.why = "lies outside of the run's space", .drive = 0};

    if (inside)
        checked = read_extent(rank, extent);
    if (!checked.why && checked.checksum == extent->checksum)
        return true;
    g_autofree char *what = checked.why ? g_strdup(checked.why)
                                        : g_strdup_printf("checksum %016" PRIx64
                                                          " instead of the committed %016" PRIx64,
                                                          checked.checksum, extent->checksum);
    for (int drive = 0; drive < rank->drives; drive++)
        if (checked.drive < 0 || checked.drive == drive)
            add_damage(options, rank, inside ? extent : &nowhere, drive, what, damage);
    return false;
}
