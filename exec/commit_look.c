/* What a record's file says to those who are not at the run. */
#include <errno.h>
#include <unistd.h>

#include "exec/commit_internal.h"
#include "planner/error.h"

/* Of a billion of parameters a record has some hundred kilobytes. */
#define IMAGE_BYTES_MAX ((int64_t)1 << 30)

static bool
fail(const char *path, const char *why, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path, why);
    return false;
}

static void
look_at_slot(char *image, int64_t bytes, struct mw_commit_found *found)
{
    struct mw_commit_record record = {0};
    struct mw_commit_identity identity;
    bool identified;
    enum mw_commit_state state = mw_commit_decode(image, bytes, &record, &identity, &identified);

    found->holds |= state != MW_COMMIT_EMPTY;
    if (identified) {
        found->rank = identity.rank;
        found->ranks = identity.ranks;
    }
    if (state != MW_COMMIT_WHOLE)
        return;
    int at = found->whole && found->steps[0] > record.step ? 1 : 0;
    if (found->whole && !at)
        found->steps[1] = found->steps[0];
    found->steps[at] = record.step;
    found->whole++;
    mw_commit_record_clear(&record);
}

static bool
read_slot(int fd, const char *path, int64_t at_bytes, char *image, int64_t bytes, GError **error)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, image + done, (size_t)(bytes - done), at_bytes + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(path, g_strerror(errno), error);
        if (!got)
            return fail(path, "was cut short while it was read", error);
        done += got;
    }
    return true;
}

/* Both slots have been written from end to end since the file was made; 0: nobody knows what it
 * is. */
static int64_t
slot_bytes(int64_t file_bytes)
{
    int64_t bytes = file_bytes / 2 / MW_COMMIT_BLOCK_BYTES * MW_COMMIT_BLOCK_BYTES;

    return bytes > IMAGE_BYTES_MAX ? 0 : bytes;
}

bool
mw_commit_look(int fd, const char *path, struct mw_commit_found *found, GError **error)
{
    struct stat info;

    *found = (struct mw_commit_found){0};
    if (fstat(fd, &info))
        return fail(path, g_strerror(errno), error);
    int64_t bytes = slot_bytes(info.st_size);
    if (!bytes) {
        found->holds = info.st_size > 0;
        return true;
    }
    g_autofree char *image = g_malloc((gsize)bytes);
    for (int slot = 0; slot < 2; slot++) {
        if (!read_slot(fd, path, slot * bytes, image, bytes, error))
            return false;
        look_at_slot(image, bytes, found);
    }
    return true;
}

bool
mw_commit_load(int fd, const char *path, int64_t step, struct mw_commit_record *record,
               struct mw_commit_identity *identity, GError **error)
{
    struct mw_commit_identity theirs;
    struct stat info;
    bool identified;

    *record = (struct mw_commit_record){.step = -1};
    if (fstat(fd, &info))
        return fail(path, g_strerror(errno), error);
    int64_t bytes = slot_bytes(info.st_size);
    g_autofree char *image = g_malloc((gsize)bytes + 1);
    for (int slot = 0; bytes && slot < 2; slot++) {
        struct mw_commit_record found = {.step = -1};
        if (!read_slot(fd, path, slot * bytes, image, bytes, error))
            return false;
        bool whole =
            mw_commit_decode(image, bytes, &found, &theirs, &identified) == MW_COMMIT_WHOLE;
        if (whole && found.step > record->step && (step < 0 || found.step == step)) {
            mw_commit_record_clear(record);
            *record = found;
            *identity = theirs;
        } else
            mw_commit_record_clear(&found);
    }
    return record->step >= 0 || fail(path,
                                     step < 0 ? "no whole record"
                                              : "no whole record of the "
                                                "step that the first rank has",
                                     error);
}
