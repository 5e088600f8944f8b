/* Reads extents from the drives, and finds the ranges of files with damage. */
#include "exec/trainer/verify_internal.h"

void
mw_verify_damage_free(void *data)
{
    struct mw_verify_damage *damage = data;

    g_free(damage->file);
    g_free(damage->tensors);
    g_free(damage->what);
    g_free(damage);
}

/* The range from the first byte of the extent on a drive to its last. */
static bool
range_on(const struct mw_nvme_layout *layout, int drive, const struct mw_commit_extent *extent,
         int64_t *first, int64_t *bytes)
{
    const int64_t end = extent->offset_bytes + extent->bytes;
    struct mw_nvme_piece piece;
    int64_t last = -1;

    for (int64_t at = extent->offset_bytes; mw_nvme_stripe_next(layout, drive, at, end, &piece);
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

    if (!range_on(&rank->extents.layout, drive, extent, &first, &bytes))
        return;
    struct mw_verify_damage *it = g_new0(struct mw_verify_damage, 1);
    *it = (struct mw_verify_damage){
        .rank = rank->identity->rank,
        .file = g_strdup(rank->extents.data[drive].path),
        .tensors = options->tensors ? options->tensors(options->data, rank->identity->rank,
                                                       rank->identity->ranks, extent)
                                    : NULL,
        .offset_bytes = first,
        .bytes = bytes,
        .extent = extent->id,
        .what = g_strdup(what),
        .missing = rank->extents.data[drive].missing,
    };
    g_ptr_array_add(damage, it);
}

/* A checksum covers a whole extent.  If it differs, the damage may be on each of its drives. */
enum mw_verify_state
mw_verify_extent(const struct mw_verify_options *options, const struct mw_verify_rank *rank,
                 const struct mw_commit_extent *extent, GPtrArray *damage)
{
    const struct mw_commit_extent nowhere = {.id = extent->id, .bytes = MW_PAGE_BYTES};
    const struct mw_extent_read read = mw_extents_read(&rank->extents, extent, NULL);

    if (!read.why && read.checksum == extent->checksum)
        return MW_VERIFY_WHOLE;
    g_autofree char *what =
        read.why ? g_strdup(read.why)
                 : g_strdup_printf("checksum %016" PRIx64 " instead of the committed %016" PRIx64,
                                   read.checksum, extent->checksum);
    if (read.why && read.drive < 0) { /* it lies at no place of a file */
        add_damage(options, rank, &nowhere, 0, what, damage);
        return MW_VERIFY_DAMAGED;
    }
    for (int drive = 0; drive < rank->extents.drives; drive++)
        if (read.drive < 0 || read.drive == drive)
            add_damage(options, rank, extent, drive, what, damage);
    return read.drive >= 0 && rank->extents.data[read.drive].missing ? MW_VERIFY_MISSING
                                                                     : MW_VERIFY_DAMAGED;
}
