/* What a record's file holds: read past the page cache, by a run that resumes and by those who are
 * not at one. */
#include <errno.h>
#include <stdlib.h>

#include "exec/commit_internal.h"
#include "planner/error.h"

/* Of a billion of parameters a record has some hundred kilobytes. */
#define SLOT_BYTES_MAX ((int64_t)1 << 30)

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

char *
mw_commit_slot_other(const char *path, enum mw_commit_state other, const char *why, int64_t step)
{
    if (other == MW_COMMIT_UNREADABLE)
        return g_strdup_printf("%s; its other record, step %" PRId64 ", is whole", why, step + 1);
    if (other == MW_COMMIT_TORN)
        return g_strdup_printf("%s: a commit was interrupted; the one before it, step %" PRId64
                               ", is whole",
                               path, step + 1);
    return NULL;
}

/* --- both, where no run is --- */

/* Both have been written from end to end since the file was made; 0: nobody knows what it is. */
static int64_t
slot_bytes(int64_t file_bytes)
{
    const int64_t bytes = file_bytes / MW_COMMIT_SLOTS;

    return file_bytes % (MW_COMMIT_SLOTS * MW_COMMIT_BLOCK_BYTES) || bytes > SLOT_BYTES_MAX ? 0
                                                                                            : bytes;
}

static bool
fail(const char *path, const char *why, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path, why);
    return false;
}

static bool
read_both(const struct mw_commit_file *file, struct mw_commit_slots *slots, GError **error)
{
    char *image = mw_commit_image_new(file->slot_bytes);
    bool good = mw_commit_file_forget(file, error);

    for (int i = 0; good && i < MW_COMMIT_SLOTS; i++)
        mw_commit_slot_read(file, i, image, &slots->at[i]);
    free(image);
    return good;
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
    slots->sized = (file.slot_bytes = slot_bytes(file.info.st_size)) > 0;
    return !slots->sized || read_both(&file, slots, error);
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

/* --- for others --- */

bool
mw_commit_look(int fd, const char *path, struct mw_commit_found *found, GError **error)
{
    const struct mw_commit_slot *newest;
    struct mw_commit_slots slots;
    bool good = mw_commit_slots_read(fd, path, NULL, &slots, error);

    *found = (struct mw_commit_found){.holds = !slots.sized && slots.file_bytes};
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
