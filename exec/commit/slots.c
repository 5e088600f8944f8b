/* Reads a record's file past the page cache, for a run that resumes and for processes that are not
 * part of a run. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "exec/commit/internal.h"

#define SCANNED_BYTES ((int64_t)1 << 20) /* bytes read at a time */

static const char *const names[] = {"empty", "whole", "torn", "not readable"};

/* --- one --- */

void
mw_commit_slot_read(const struct mw_commit_file *file, int index, char *image,
                    struct mw_commit_slot *slot)
{
    g_autoptr(GError) error = NULL;

    *slot = (struct mw_commit_slot){.state = MW_COMMIT_UNREADABLE};
    if (mw_commit_file_read(file, index, image, &error))
        slot->state = mw_commit_decode(image, file->slot_bytes, &slot->record, &slot->identity,
                                       &slot->identified);
    else
        slot->why = g_strdup(error->message);
}

void
mw_commit_slot_clear(struct mw_commit_slot *slot)
{
    mw_commit_record_clear(&slot->record);
    g_clear_pointer(&slot->why, g_free);
}

/* Describes a file whose other record is as it was made, or was made so again. */
static char *
empty_other(const char *path, const struct mw_commit_slot *whole)
{
    if (whole->identity.commits < 2)
        return NULL;
    return g_strdup_printf("%s: its other record is empty, and the run had committed %" PRId32
                           " times: it was wiped, or a resume that took it back was interrupted; "
                           "step %" PRId64 " is whole",
                           path, whole->identity.commits, whole->record.step + 1);
}

char *
mw_commit_slot_other(const char *path, const struct mw_commit_slot *whole,
                     const struct mw_commit_slot *other)
{
    const int64_t step = whole->record.step;

    if (other->state == MW_COMMIT_EMPTY)
        return empty_other(path, whole);
    if (other->state == MW_COMMIT_UNREADABLE)
        return g_strdup_printf("%s; its other record, step %" PRId64 ", is whole", other->why,
                               step + 1);
    if (other->state == MW_COMMIT_TORN)
        return g_strdup_printf("%s: one of its records is torn: a commit was interrupted, or it is "
                               "damaged; step %" PRId64 " is whole",
                               path, step + 1);
    if (other->record.step == step)
        return g_strdup_printf("%s: both of its records are of step %" PRId64
                               ": the one before it was written over",
                               path, step + 1);
    return NULL;
}

/* --- both --- */

static bool
fail(const char *path, const char *why, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path, why);
    return false;
}

bool
mw_commit_slots_refuse(const struct mw_commit_slots *slots, const char *path, GError **error)
{
    const char *why = slots->at[0].why ? slots->at[0].why : slots->at[1].why;

    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: no whole commit record: the first is %s, the second %s%s%s", path,
                names[slots->at[0].state], names[slots->at[1].state], why ? ": " : "",
                why ? why : "");
    return false;
}

void
mw_commit_slots_load(const struct mw_commit_file *file, char *image, struct mw_commit_slots *slots)
{
    slots->slot_bytes = file->slot_bytes;
    for (int i = 0; i < MW_COMMIT_SLOTS; i++)
        mw_commit_slot_read(file, i, image, &slots->at[i]);
}

/* --- outside of a run --- */

/* Where a second record's header stands; 0 if there is none.  Bytes that cannot be read count as
 * none.  *first: bytes of the first record, or 0. */
static int64_t
find_second(const struct mw_commit_file *file, int64_t *first)
{
    const int64_t end = MIN(file->info.st_size, mw_commit_record_bytes(MW_COMMIT_EXTENTS_MAX) + 1);
    struct mw_commit_file scanned = *file;
    char *block = mw_commit_image_new(SCANNED_BYTES);
    int64_t found = 0;

    scanned.slot_bytes = SCANNED_BYTES;
    *first = 0;
    for (int64_t at = 0; !found && at < end; at += MW_COMMIT_BLOCK_BYTES) {
        const int64_t within = at % SCANNED_BYTES;
        if (!within && !mw_commit_file_read(&scanned, (int)(at / SCANNED_BYTES), block, NULL)) {
            at += SCANNED_BYTES - MW_COMMIT_BLOCK_BYTES;
            continue;
        }
        const int64_t bytes = mw_commit_header_bytes(block + within);
        if (!at)
            *first = bytes;
        else if (bytes)
            found = at;
    }
    free(block);
    return found;
}

/* A run knows the slot size from its plan.  Both slots were written from end to end when the file
 * was made.  So if only one record is there, a slot is half of the file, unless the file was
 * cut. */
static int64_t
find_slot_bytes(const struct mw_commit_file *file)
{
    const int64_t half = mw_in_pages(file->info.st_size / MW_COMMIT_SLOTS);
    int64_t first, second = find_second(file, &first);

    return second ? second
                  : CLAMP(half, MAX(first, MW_COMMIT_BLOCK_BYTES),
                          mw_commit_record_bytes(MW_COMMIT_EXTENTS_MAX));
}

bool
mw_commit_slots_read(int fd, const char *path, const struct mw_nvme_calls *calls,
                     struct mw_commit_slots *slots, GError **error)
{
    g_autofree char *own = g_strdup(path);
    struct mw_commit_file file = {
        .path = own, .fd = fd, .calls = calls ? calls : &mw_nvme_system_calls};

    *slots = (struct mw_commit_slots){0};
    if (fstat(fd, &file.info))
        return fail(path, g_strerror(errno), error);
    slots->file_bytes = file.info.st_size;
    if (!mw_commit_file_forget(&file, error))
        return false;
    file.slot_bytes = find_slot_bytes(&file);
    char *image = mw_commit_image_new(file.slot_bytes);
    mw_commit_slots_load(&file, image, slots);
    free(image);
    return true;
}

void
mw_commit_slots_clear(struct mw_commit_slots *slots)
{
    for (int i = 0; i < MW_COMMIT_SLOTS; i++)
        mw_commit_slot_clear(&slots->at[i]);
}

const struct mw_commit_slot *
mw_commit_slots_newest(const struct mw_commit_slots *slots, int64_t before)
{
    const struct mw_commit_slot *newest = NULL;

    for (int i = 0; i < MW_COMMIT_SLOTS; i++) {
        const struct mw_commit_slot *slot = &slots->at[i];
        if (slot->state == MW_COMMIT_WHOLE && slot->record.step < before &&
            (!newest || slot->record.step > newest->record.step))
            newest = slot;
    }
    return newest;
}

bool
mw_commit_load(int fd, const char *path, int64_t step, struct mw_commit_record *record,
               struct mw_commit_identity *identity, GError **error)
{
    struct mw_commit_slots slots;
    bool good = mw_commit_slots_read(fd, path, NULL, &slots, error), found = false;

    *record = (struct mw_commit_record){0};
    for (int i = 0; good && !found && i < MW_COMMIT_SLOTS; i++) {
        struct mw_commit_slot *slot = &slots.at[i];
        found = slot == mw_commit_slots_newest(&slots, step < 0 ? INT64_MAX : step + 1) &&
                (step < 0 || slot->record.step == step);
        if (found) {
            *identity = slot->identity;
            *record = slot->record;
            slot->record = (struct mw_commit_record){0};
        }
    }
    mw_commit_slots_clear(&slots);
    return found || (good && fail(path, "no whole record of that step", error));
}

/* --- for other files --- */

bool
mw_commit_look(int fd, const char *path, struct mw_commit_found *found, GError **error)
{
    const struct mw_commit_slot *newest;
    struct mw_commit_slots slots;
    bool good = mw_commit_slots_read(fd, path, NULL, &slots, error);

    *found = (struct mw_commit_found){0};
    for (int i = 0; i < MW_COMMIT_SLOTS; i++) {
        const struct mw_commit_slot *slot = &slots.at[i];
        found->holds |= slot->state != MW_COMMIT_EMPTY;
        found->rank = slot->identified ? slot->identity.rank : found->rank;
        found->ranks = slot->identified ? slot->identity.ranks : found->ranks;
    }
    for (int64_t before = INT64_MAX; (newest = mw_commit_slots_newest(&slots, before));)
        before = found->steps[found->whole++] = newest->record.step;
    mw_commit_slots_clear(&slots);
    return good;
}
