#include "exec/commit/commit.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/commit/internal.h"
#include "exec/nvme/run_names.h"

enum { SLOTS = MW_COMMIT_SLOTS };

struct mw_commit {
    struct mw_commit_file file;
    struct mw_commit_identity identity;
    int64_t extents_max;
    char *image, *check, *notice; /* each as large as a slot; free() the first two */
    enum mw_commit_state states[SLOTS];
    int64_t steps[SLOTS];   /* steps of whole records */
    int32_t commits[SLOTS]; /* number of commits of the run, up to each record */
    int current;            /* the slot that must not be overwritten, or -1 */
    bool renewed;           /* nothing was resumed, or the resumed record is known to be on the
                             * drive */
    bool failed;            /* a write or sync has failed: the content of the drive is unknown */
};

static bool
invalid(GError **error, const char *what, int64_t value, int64_t most)
{
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "commit record: %s is %" PRId64 ": at most %" PRId64, what, value, most);
    return false;
}

/* --- open --- */

static bool
check_number(GError **error, const char *path, const char *what, int64_t theirs, int64_t ours)
{
    if (theirs == ours)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: written with %" PRId64 " as %s, this run has %" PRId64, path, theirs, what,
                ours);
    return false;
}

static bool
check_identity(const struct mw_commit *commit, const struct mw_commit_identity *theirs,
               GError **error)
{
    const struct mw_commit_identity *ours = &commit->identity;
    const char *path = commit->file.path;

    if (theirs->fingerprint != ours->fingerprint) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: of another model or other settings (fingerprint %016" PRIx64
                    ", this run has %016" PRIx64 "): nothing is resumed",
                    path, theirs->fingerprint, ours->fingerprint);
        return false;
    }
    return check_number(error, path, "its rank", theirs->rank, ours->rank) &&
           check_number(error, path, "the number of ranks", theirs->ranks, ours->ranks) &&
           check_number(error, path, "the number of NVMe directories", theirs->drives,
                        ours->drives) &&
           check_number(error, path, "the stripe size in bytes", theirs->stripe_bytes,
                        ours->stripe_bytes) &&
           check_number(error, path, "the NVMe capacity in bytes", theirs->capacity_bytes,
                        ours->capacity_bytes);
}

static bool
take_slot(struct mw_commit *commit, int slot, const struct mw_commit_slot *it, GError **error)
{
    commit->states[slot] = it->state;
    commit->steps[slot] = it->record.step;
    commit->commits[slot] = it->identity.commits;
    return !it->identified || check_identity(commit, &it->identity, error);
}

static void
choose_current(struct mw_commit *commit)
{
    commit->current = -1;
    for (int slot = 0; slot < SLOTS; slot++)
        if (commit->states[slot] == MW_COMMIT_WHOLE &&
            (commit->current < 0 || commit->steps[slot] > commit->steps[commit->current]))
            commit->current = slot;
}

/* Also notes what is wrong with the slot that is not the newest whole one. */
static bool
take_slots(struct mw_commit *commit, const struct mw_commit_slots *slots, GError **error)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (!take_slot(commit, slot, &slots->at[slot], error))
            return false;
    choose_current(commit);
    if (commit->current < 0)
        return mw_commit_slots_refuse(slots, commit->file.path, error);
    commit->notice = mw_commit_slot_other(commit->file.path, &slots->at[commit->current],
                                          &slots->at[!commit->current]);
    return true;
}

static bool
load_slots(struct mw_commit *commit, GError **error)
{
    struct mw_commit_slots slots;

    if (!mw_commit_file_forget(&commit->file, error))
        return false;
    mw_commit_slots_load(&commit->file, commit->image, &slots);
    bool good = take_slots(commit, &slots, error);
    mw_commit_slots_clear(&slots);
    return good;
}

/* After a failure the drive may have either record, or neither, so nothing more is written. */
static bool
write_slot(struct mw_commit *commit, int slot, int64_t bytes, GError **error)
{
    commit->states[slot] = MW_COMMIT_TORN;
    commit->failed = !mw_commit_file_write(&commit->file, slot, commit->image, bytes, error);
    return !commit->failed;
}

static bool
void_slot(struct mw_commit *commit, int slot, GError **error)
{
    memset(commit->image, 0, (size_t)commit->file.slot_bytes);
    if (!write_slot(commit, slot, commit->file.slot_bytes, error))
        return false;
    commit->states[slot] = MW_COMMIT_EMPTY;
    return true;
}

/* Writes both slots once, so that later commits need no new space and nothing follows the slots:
 * the file's length then tells where the second begins. */
static bool
start_empty(struct mw_commit *commit, GError **error)
{
    return mw_commit_file_cut(&commit->file, error) && void_slot(commit, 0, error) &&
           void_slot(commit, 1, error) && mw_commit_file_sync_directory(&commit->file, error);
}

static void
identify(struct mw_commit *commit, const struct mw_commit_options *options)
{
    commit->identity = (struct mw_commit_identity){
        .fingerprint = options->fingerprint,
        .rank = options->rank,
        .ranks = options->ranks,
    };
    if (!options->nvme)
        return;
    commit->identity.drives = mw_nvme_drive_count(options->nvme);
    commit->identity.stripe_bytes = mw_nvme_stripe_bytes(options->nvme);
    commit->identity.capacity_bytes = mw_nvme_capacity_bytes(options->nvme);
}

struct mw_commit *
mw_commit_open(const struct mw_commit_options *options, GError **error)
{
    if (options->extents_max < 0 || options->extents_max > MW_COMMIT_EXTENTS_MAX) {
        invalid(error, "number of extents", options->extents_max, MW_COMMIT_EXTENTS_MAX);
        return NULL;
    }

    struct mw_commit *commit = g_new0(struct mw_commit, 1);
    commit->current = -1;
    commit->extents_max = options->extents_max;
    commit->file.fd = -1;
    commit->file.slot_bytes = mw_commit_record_bytes(options->extents_max);
    commit->file.calls = options->calls ? options->calls : &mw_nvme_system_calls;
    commit->image = mw_commit_image_new(commit->file.slot_bytes);
    commit->renewed = !options->resume;
    identify(commit, options);
    if (mw_commit_file_open(&commit->file, options->directory,
                            options->stem ? options->stem : MW_RUN_BASE, options->resume, error) &&
        (options->resume ? load_slots(commit, error) : start_empty(commit, error)))
        return commit;
    mw_commit_close(commit);
    return NULL;
}

void
mw_commit_close(struct mw_commit *commit)
{
    if (!commit)
        return;
    mw_commit_file_close(&commit->file);
    free(commit->image);
    free(commit->check);
    g_free(commit->notice);
    g_free(commit);
}

/* --- resume --- */

int
mw_commit_steps(const struct mw_commit *commit, int64_t steps[2])
{
    int count = 0;

    if (commit->current < 0)
        return 0;
    steps[count++] = commit->steps[commit->current];
    if (commit->states[!commit->current] == MW_COMMIT_WHOLE)
        steps[count++] = commit->steps[!commit->current];
    return count;
}

const char *
mw_commit_path(const struct mw_commit *commit)
{
    return commit->file.path;
}

const struct mw_commit_identity *
mw_commit_identity(const struct mw_commit *commit)
{
    return &commit->identity;
}

const char *
mw_commit_notice(const struct mw_commit *commit)
{
    return commit->notice;
}

static int
find_step(const struct mw_commit *commit, int64_t step)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (commit->states[slot] == MW_COMMIT_WHOLE && commit->steps[slot] == step)
            return slot;
    return -1;
}

static bool
missing(const struct mw_commit *commit, int64_t step, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: no whole record of step %" PRId64,
                commit->file.path, step + 1);
    return false;
}

bool
mw_commit_resume(struct mw_commit *commit, int64_t step, struct mw_commit_record *record,
                 GError **error)
{
    const int slot = find_step(commit, step);
    struct mw_commit_slot it;

    *record = (struct mw_commit_record){0};
    if (slot < 0)
        return missing(commit, step, error);
    mw_commit_slot_read(&commit->file, slot, commit->image, &it);
    if (it.state != MW_COMMIT_WHOLE) {
        mw_commit_slot_clear(&it);
        return missing(commit, step, error);
    }
    *record = it.record;
    commit->current = slot;
    commit->renewed = false;
    return true;
}

/* The content of the drive is unknown, or it is unknown whether it has the resumed record. */
static bool
refuse_write(const struct mw_commit *commit, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: nothing is written after %s", commit->file.path,
                commit->failed ? "a failure" : "a resume, before its record is renewed");
    return false;
}

static bool
differs(const struct mw_commit *commit, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: the record of step %" PRId64 " was written anew and synced, and reads "
                "otherwise: the drive loses writes",
                commit->file.path, commit->steps[commit->current] + 1);
    return false;
}

/* What could be read may still be only in a drive's cache, or only on one of two mirrors. */
bool
mw_commit_renew(struct mw_commit *commit, GError **error)
{
    const int64_t bytes = commit->file.slot_bytes;
    const int slot = commit->current;

    if (commit->failed)
        return refuse_write(commit, error);
    if (!commit->check)
        commit->check = mw_commit_image_new(bytes);
    if (!mw_commit_file_read(&commit->file, slot, commit->image, error) ||
        !write_slot(commit, slot, bytes, error) || !mw_commit_file_forget(&commit->file, error) ||
        !mw_commit_file_read(&commit->file, slot, commit->check, error))
        return false;
    if (memcmp(commit->image, commit->check, (size_t)bytes))
        return differs(commit, error);
    commit->states[slot] = MW_COMMIT_WHOLE;
    commit->renewed = true;
    return true;
}

bool
mw_commit_void_newer(struct mw_commit *commit, GError **error)
{
    const int other = !commit->current;

    return commit->states[other] != MW_COMMIT_WHOLE ||
           commit->steps[other] < commit->steps[commit->current] || void_slot(commit, other, error);
}

/* --- write --- */

static bool
check_record(const struct mw_commit *commit, const struct mw_commit_record *record, GError **error)
{
    if (record->field_count < 0 || record->field_count > MW_COMMIT_FIELDS_MAX)
        return invalid(error, "number of fields", record->field_count, MW_COMMIT_FIELDS_MAX);
    if (record->extent_count < 0 || record->extent_count > commit->extents_max)
        return invalid(error, "number of extents", record->extent_count, commit->extents_max);
    if (commit->failed || !commit->renewed)
        return refuse_write(commit, error);
    if (commit->current < 0 || record->step > commit->steps[commit->current])
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "commit record: step %" PRId64 " is not after step %" PRId64, record->step + 1,
                commit->steps[commit->current] + 1);
    return false;
}

bool
mw_commit_write(struct mw_commit *commit, struct mw_nvme *nvme,
                const struct mw_commit_record *record, GError **error)
{
    const int slot = commit->current == 0 ? 1 : 0;

    if (!check_record(commit, record, error))
        return false;
    if (nvme && !mw_nvme_sync(nvme, error)) {
        commit->failed = true;
        return false;
    }
    const int64_t bytes = mw_commit_record_bytes(record->extent_count);
    const int32_t before = commit->current < 0 ? 0 : commit->commits[commit->current];
    commit->identity.commits = before < INT32_MAX ? before + 1 : before;
    memset(commit->image, 0, (size_t)bytes);
    mw_commit_encode(record, &commit->identity, commit->image);
    if (!write_slot(commit, slot, bytes, error)) {
        if (nvme)
            mw_nvme_stop(nvme, "a commit record could not be written");
        return false;
    }
    commit->states[slot] = MW_COMMIT_WHOLE;
    commit->steps[slot] = record->step;
    commit->commits[slot] = commit->identity.commits;
    commit->current = slot;
    return true;
}
