#include "exec/nvme/internal.h"

/*
 * Stripe s of the logical space is stripe s / D of drive s % D.  With one drive the two spaces are
 * the same, and a block may cross stripes.
 */
static bool
next_of_one(const struct mw_nvme_layout *layout, int64_t from_bytes, int64_t end_bytes,
            struct mw_nvme_piece *piece)
{
    if (from_bytes >= end_bytes)
        return false;
    *piece = (struct mw_nvme_piece){from_bytes, from_bytes,
                                    MIN(layout->block_bytes, end_bytes - from_bytes)};
    return true;
}

bool
mw_nvme_stripe_next(const struct mw_nvme_layout *layout, int drive, int64_t from_bytes,
                    int64_t end_bytes, struct mw_nvme_piece *piece)
{
    const int64_t stripe_bytes = layout->stripe_bytes;

    if (layout->drives == 1)
        return next_of_one(layout, from_bytes, end_bytes, piece);

    int64_t stripe = from_bytes / stripe_bytes;
    int64_t skip = (drive - stripe % layout->drives + layout->drives) % layout->drives;
    if (skip) {
        stripe += skip;
        from_bytes = stripe * stripe_bytes;
    }
    if (from_bytes >= end_bytes)
        return false;
    int64_t within_bytes = from_bytes - stripe * stripe_bytes;
    int64_t bytes = MIN(stripe_bytes - within_bytes, end_bytes - from_bytes);
    *piece =
        (struct mw_nvme_piece){from_bytes, stripe / layout->drives * stripe_bytes + within_bytes,
                               MIN(layout->block_bytes, bytes)};
    return true;
}

char *
mw_nvme_stripe_where(const struct mw_nvme_layout *layout, const char *const *paths,
                     int64_t offset_bytes, int64_t bytes)
{
    GString *text = g_string_new(NULL);
    struct mw_nvme_piece piece;

    for (int drive = 0; drive < layout->drives; drive++)
        if (mw_nvme_stripe_next(layout, drive, offset_bytes, offset_bytes + bytes, &piece))
            g_string_append_printf(text, "%s%s at %" PRId64, text->len ? ", " : "", paths[drive],
                                   piece.drive_bytes);
    return g_string_free(text, FALSE);
}

int64_t
mw_nvme_stripe_file_bytes(const struct mw_nvme_layout *layout, int64_t capacity_bytes)
{
    if (layout->drives == 1)
        return capacity_bytes;
    int64_t stripes = (capacity_bytes + layout->stripe_bytes - 1) / layout->stripe_bytes;
    return (stripes + layout->drives - 1) / layout->drives * layout->stripe_bytes;
}
