#include "exec/trainer/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/commit/run_files.h"
#include "exec/nvme/run_names.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/verify_internal.h"

struct work {
    const struct mw_verify_options *options;
    struct mw_verified *verified;
    GPtrArray *ranks; /* struct mw_verify_rank * */
    int64_t done_bytes, all_bytes;
};

/* --- records --------------------------------------------------------------------------------- */

static bool
fail(GError **error, int code, const char *path, const char *why)
{
    g_set_error(error, MW_ERROR, code, "%s: %s", path, why);
    return false;
}

static void
note(struct mw_verified *verified, char *line)
{
    g_ptr_array_add(verified->notes, line);
}

/* Describes a slot that is not whole.  If the other slot is whole, or both are whole and of one
 * step, describes it by the other. */
static char *
line_of(const struct mw_verify_rank *rank, int index)
{
    const struct mw_commit_slot *slot = &rank->slots.at[index], *other = &rank->slots.at[!index];
    const char *what = NULL;

    if (slot->state == MW_COMMIT_UNREADABLE)
        return g_strdup(slot->why);
    if (slot->state == MW_COMMIT_TORN)
        what = "torn: its commit was interrupted, or it is damaged";
    else if (other->state == MW_COMMIT_WHOLE)
        return slot->state == MW_COMMIT_EMPTY || index
                   ? mw_commit_slot_other(rank->path, other, slot)
                   : NULL;
    else if (slot->state == MW_COMMIT_EMPTY && other->state != MW_COMMIT_EMPTY)
        what = "empty: no step was recorded there, or it was wiped";
    return what ? g_strdup_printf("%s: record %d of %d is %s", rank->path, index + 1,
                                  MW_COMMIT_SLOTS, what)
                : NULL;
}

/* Reads a record's file and notes what else there is to say of it. */
static bool
read_records(struct work *work, struct mw_verify_rank *rank, GError **error)
{
    const struct mw_commit_slots *slots = &rank->slots;

    if (!mw_commit_slots_read(rank->fd, rank->path, work->options->calls, &rank->slots, error))
        return false;
    const int64_t both = MW_COMMIT_SLOTS * slots->slot_bytes;
    if (slots->file_bytes != both)
        note(work->verified, g_strdup_printf("%s: has %" PRId64 " byte%s, two records have %" PRId64
                                             ": it was cut off or added to",
                                             rank->path, slots->file_bytes,
                                             slots->file_bytes == 1 ? "" : "s", both));
    for (int i = 0; i < MW_COMMIT_SLOTS; i++) {
        char *line = line_of(rank, i);
        if (slots->at[i].identified)
            rank->identity = &slots->at[i].identity;
        work->verified->unreadable += slots->at[i].state == MW_COMMIT_UNREADABLE;
        if (line)
            note(work->verified, line);
    }
    return true;
}

/* A run holds its records' locks.  This lock is shared, and keeps runs away until verification
 * ends. */
static bool
open_rank(struct work *work, int folder, const char *name, GError **error)
{
    const char *directory = work->options->directories[0], *why;
    struct mw_verify_rank *rank = g_new0(struct mw_verify_rank, 1);

    g_ptr_array_add(work->ranks, rank);
    rank->stem = g_strndup(name, strlen(name) - strlen(MW_RUN_RECORD));
    rank->path = mw_run_record_path(directory, rank->stem);
    rank->fd = mw_own_open_at(folder, name, O_RDONLY, 0, NULL, &why);
    if (rank->fd < 0)
        return fail(error, MW_ERROR_IO, rank->path, why);
    if (!mw_run_lock_file(rank->fd, LOCK_SH))
        return fail(error, MW_ERROR_IO, rank->path,
                    errno == EWOULDBLOCK ? "a run is using it: verify it after the run has ended"
                                         : g_strerror(errno));
    return read_records(work, rank, error);
}

static void
add_missing(struct work *work, char *file, const char *why, bool absent, bool resized)
{
    struct mw_verify_missing *it = g_new(struct mw_verify_missing, 1);

    *it = (struct mw_verify_missing){file, g_strdup(why), absent, resized};
    g_ptr_array_add(work->verified->missing, it);
}

/* A rank whose data is in the directory ran on this machine, and has lost its record. */
static void
find_lost_record(struct work *work, const GPtrArray *names, const char *name)
{
    const char *dash = g_str_has_suffix(name, MW_RUN_DATA) ? strrchr(name, '-') : NULL;
    g_autofree char *stem = dash ? g_strndup(name, (size_t)(dash - name)) : NULL;
    g_autofree char *record = stem ? g_strconcat(stem, MW_RUN_RECORD, NULL) : NULL;

    if (!record || g_ptr_array_find_with_equal_func((GPtrArray *)names, record, g_str_equal, NULL))
        return;
    add_missing(work, mw_run_record_path(work->options->directories[0], stem),
                "it is not there, and the rank's data is", false, false);
}

static bool
find_records(struct work *work, GError **error)
{
    const char *directory = work->options->directories[0];
    struct mw_run_files files;
    bool good = mw_run_files_look(directory, &files, error);

    for (int left = MW_RUN_LOCK_LOOKS; good && files.running && left; left--) {
        mw_run_files_clear(&files);
        g_usleep(MW_RUN_LOCK_LOOK_US);
        good = mw_run_files_look(directory, &files, error);
    }
    if (good && files.running)
        good = fail(error, MW_ERROR_IO, directory,
                    "a run is using it: verify it after the run has ended");
    int folder = good ? mw_own_open_folder(directory) : -1;
    for (guint i = 0; good && folder >= 0 && i < files.names->len; i++) {
        const char *name = g_ptr_array_index(files.names, i);
        if (g_str_has_suffix(name, MW_RUN_RECORD))
            good = open_rank(work, folder, name, error);
        else
            find_lost_record(work, files.names, name);
    }
    if (good && !work->ranks->len)
        good = fail(error, MW_ERROR_INVALID, directory,
                    "holds no run whose steps are durable: no record is there");
    if (folder >= 0)
        close(folder);
    mw_run_files_clear(&files);
    return good;
}

/* --- one run --------------------------------------------------------------------------------- */

static bool
check_directories(const struct work *work, const struct mw_verify_rank *rank, GError **error)
{
    const int given = work->options->directory_count;
    const int wanted = rank->identity ? rank->identity->drives : given;

    if (wanted == given)
        return true;
    /* With too few directories, one may be on a drive that is not mounted; with too many, one was
     * typed wrong. */
    for (int i = 0; wanted < given && i < given; i++)
        if (!g_file_test(work->options->directories[i], G_FILE_TEST_IS_DIR))
            return mw_refuse(error,
                             "%s: there is no directory of this name, and the run in %s has %d",
                             work->options->directories[i], work->options->directories[0], wanted);
    return mw_refuse(error,
                     "%s: the run has %d director%s, %d %s given: name all of them, in the order "
                     "of {nvme}",
                     rank->path, wanted, wanted == 1 ? "y" : "ies", given,
                     given == 1 ? "is" : "are");
}

/* A rank whose data is here has lost its record; a rank without data here has its files on another
 * machine. */
static void
tell_missing(struct work *work)
{
    int missing = 0, first = 0;

    for (int r = work->verified->ranks - 1; r >= 0; r--) {
        bool here = false;
        for (guint i = 0; i < work->ranks->len; i++) {
            const struct mw_verify_rank *rank = g_ptr_array_index(work->ranks, i);
            here |= rank->identity && rank->identity->rank == r;
        }
        missing += !here;
        first = here ? first : r;
    }
    if (missing == 1)
        note(work->verified,
             g_strdup_printf("1 of %d ranks has no record here, rank %d: it is lost, or on another "
                             "machine, where it is to be verified",
                             work->verified->ranks, first));
    else if (missing)
        note(work->verified,
             g_strdup_printf("%d of %d ranks have no record here, the first of them rank %d: they "
                             "are lost, or on another machine, where they are to be verified",
                             missing, work->verified->ranks, first));
}

static bool
has_record(const struct work *work, const char *stem)
{
    for (guint i = 0; i < work->ranks->len; i++)
        if (!strcmp(((const struct mw_verify_rank *)g_ptr_array_index(work->ranks, i))->stem, stem))
            return true;
    return false;
}

static bool
is_missed(const struct mw_verified *verified, const char *file)
{
    for (guint i = 0; i < verified->missing->len; i++)
        if (!strcmp(
                ((const struct mw_verify_missing *)g_ptr_array_index(verified->missing, i))->file,
                file))
            return true;
    return false;
}

/* All ranks of the run were on this machine, so one without a record has lost it, with or without
 * its data. */
static void
find_lost_ranks(struct work *work)
{
    const int ranks = work->verified->ranks;

    for (int r = 0; r < ranks; r++) {
        g_autofree char *stem = mw_run_stem(MW_RUN_BASE, r, ranks);
        g_autofree char *record = mw_run_record_path(work->options->directories[0], stem);
        if (!has_record(work, stem) && !is_missed(work->verified, record))
            add_missing(work, g_steal_pointer(&record),
                        "it is not there, nor is the rank's data: all ranks ran on this machine",
                        false, false);
    }
}

/* It is unknown which ranks ran on a machine with only some of them.  Their numbers are inferred
 * from the ranks that are here, or whose data is. */
static void
count_lost_ranks(struct work *work)
{
    const int noted = work->options->noted_ranks;
    const int lost = noted - work->verified->ranks_here - (int)work->verified->missing->len;

    if (lost <= 0)
        return;
    g_autofree char *why =
        g_strdup_printf("the record%s of %d of the %d ranks that ran on this machine %s not there",
                        lost == 1 ? "" : "s", lost, noted, lost == 1 ? "is" : "are");
    add_missing(work, g_strdup(work->options->directories[0]), why, false, false);
}

static bool
check_ranks(struct work *work, GError **error)
{
    struct mw_verified *verified = work->verified;

    for (guint i = 0; i < work->ranks->len; i++) {
        const struct mw_verify_rank *rank = g_ptr_array_index(work->ranks, i);
        if (!check_directories(work, rank, error))
            return false;
        if (rank->identity)
            verified->ranks = MAX(verified->ranks, rank->identity->ranks);
    }
    verified->ranks = MIN(verified->ranks, MW_VERIFY_RANKS_MAX);
    verified->ranks_here = (int)work->ranks->len;
    verified->ranks_ran = MAX(verified->ranks_here, work->options->noted_ranks);
    const bool all_ran_here = verified->ranks && work->options->noted_ranks == verified->ranks;
    if (all_ran_here)
        find_lost_ranks(work);
    else {
        count_lost_ranks(work);
        tell_missing(work);
    }
    return true;
}

/* --- steps ----------------------------------------------------------------------------------- */

static struct mw_verify_step *
step_of(struct mw_verified *verified, int64_t number)
{
    int at = 0;

    while (at < verified->step_count && verified->steps[at].step > number)
        at++;
    if (at < verified->step_count && verified->steps[at].step == number)
        return &verified->steps[at];
    /* Ranks differ by one commit at most, so more than three steps are never of one run. */
    if (at == (int)G_N_ELEMENTS(verified->steps))
        return NULL;
    if (verified->step_count == (int)G_N_ELEMENTS(verified->steps))
        g_ptr_array_unref(verified->steps[--verified->step_count].damage);
    memmove(&verified->steps[at + 1], &verified->steps[at],
            (size_t)(verified->step_count - at) * sizeof *verified->steps);
    verified->step_count++;
    verified->steps[at] = (struct mw_verify_step){
        .step = number, .damage = g_ptr_array_new_with_free_func(mw_verify_damage_free)};
    return &verified->steps[at];
}

/* Whether the second record is of the same step as the first.  No run has both, and a resume takes
 * the first. */
static bool
is_again(const struct mw_verify_rank *rank)
{
    const struct mw_commit_slot *at = rank->slots.at;

    return at[0].state == MW_COMMIT_WHOLE && at[1].state == MW_COMMIT_WHOLE &&
           at[0].record.step == at[1].record.step;
}

static void
count_steps(struct work *work)
{
    struct mw_verified *verified = work->verified;

    for (guint i = 0; i < MW_COMMIT_SLOTS * work->ranks->len; i++) {
        const struct mw_verify_rank *rank = g_ptr_array_index(work->ranks, i / MW_COMMIT_SLOTS);
        const struct mw_commit_slot *slot = &rank->slots.at[i % MW_COMMIT_SLOTS];
        const struct mw_commit_record *record = &slot->record;
        const bool again = i % MW_COMMIT_SLOTS && is_again(rank);
        struct mw_verify_step *step =
            slot->state == MW_COMMIT_WHOLE && !again ? step_of(verified, record->step) : NULL;
        if (!step)
            continue;
        step->ranks++;
        step->extents += record->extent_count;
        for (int64_t e = 0; e < record->extent_count; e++)
            step->bytes += record->extents[e].bytes;
    }
    for (int i = 0; i < verified->step_count; i++)
        work->all_bytes += verified->steps[i].bytes;
    verified->newest = -1;
    for (int i = verified->step_count - 1; i >= 0; i--)
        if (verified->steps[i].ranks == verified->ranks_here)
            verified->newest = i;
}

/* A kill leaves a torn or an empty record.  But if its step had been durable, the record was
 * damaged, wiped, or never reached the drive. */
static void
find_lost(struct mw_verified *verified, int64_t noted_step)
{
    int64_t newest = verified->newest < 0 ? 0 : verified->steps[verified->newest].step + 1;

    if (noted_step > newest)
        verified->lost_step = noted_step;
}

/* A whole record may still have fields that a resume refuses. */
static void
check_fields(const struct mw_verify_options *options, const struct mw_verify_rank *rank, int slot,
             struct mw_verify_step *step)
{
    const struct mw_commit_record *record = &rank->slots.at[slot].record;
    g_autoptr(GError) why = NULL;

    if (mw_trainer_check_fields(record, &why) &&
        (!options->takes || options->takes(options->data, record, &why)))
        return;
    struct mw_verify_damage *it = g_new0(struct mw_verify_damage, 1);
    *it = (struct mw_verify_damage){
        .rank = rank->identity->rank,
        .file = g_strdup(rank->path),
        .offset_bytes = slot * rank->slots.slot_bytes,
        .bytes = mw_commit_record_bytes(record->extent_count),
        .extent = -1,
        .what = g_strdup(why->message),
    };
    g_ptr_array_add(step->damage, it);
}

static void
check_record(struct work *work, struct mw_verify_rank *rank, int slot)
{
    const struct mw_verify_options *options = work->options;
    const struct mw_commit_record *record = &rank->slots.at[slot].record;
    struct mw_verify_step *step = step_of(work->verified, record->step);

    if (step)
        check_fields(options, rank, slot, step);
    for (int64_t i = 0; step && i < record->extent_count; i++) {
        enum mw_verify_state state =
            mw_verify_extent(options, rank, &record->extents[i], step->damage);
        step->damaged_extents += state == MW_VERIFY_DAMAGED;
        step->missing_extents += state == MW_VERIFY_MISSING;
        work->done_bytes += record->extents[i].bytes;
        if (options->progress)
            options->progress(options->data, work->done_bytes, work->all_bytes);
    }
}

static void
note_missing(struct work *work, const struct mw_extents *extents)
{
    for (int d = 0; d < extents->drives; d++) {
        const char *resized = extents->data[d].resized;
        if (extents->data[d].missing || resized)
            add_missing(work, g_strdup(extents->data[d].path),
                        resized ? resized : extents->data[d].missing, extents->data[d].absent,
                        resized != NULL);
    }
}

static bool
check_rank(struct work *work, struct mw_verify_rank *rank, GError **error)
{
    if (!rank->identity)
        return true;
    if (!mw_extents_open(&rank->extents, work->options->directories, rank->stem, rank->identity,
                         rank->path, work->options->calls, error))
        return false;
    note_missing(work, &rank->extents);
    for (int i = 0; i < MW_COMMIT_SLOTS; i++)
        if (rank->slots.at[i].state == MW_COMMIT_WHOLE && !(i && is_again(rank)))
            check_record(work, rank, i);
    mw_extents_close(&rank->extents);
    return true;
}

/* --- result ---------------------------------------------------------------------------------- */

static void
free_rank(void *data)
{
    struct mw_verify_rank *rank = data;

    mw_commit_slots_clear(&rank->slots);
    mw_extents_close(&rank->extents);
    if (rank->fd >= 0)
        close(rank->fd);
    g_free(rank->path);
    g_free(rank->stem);
    g_free(rank);
}

static void
free_missing(void *data)
{
    struct mw_verify_missing *missing = data;

    g_free(missing->file);
    g_free(missing->why);
    g_free(missing);
}

bool
mw_verify(const struct mw_verify_options *options, struct mw_verified *verified, GError **error)
{
    struct work work = {.options = options, .verified = verified};

    *verified = (struct mw_verified){.newest = -1};
    verified->missing = g_ptr_array_new_with_free_func(free_missing);
    verified->notes = g_ptr_array_new_with_free_func(g_free);
    work.ranks = g_ptr_array_new_with_free_func(free_rank);
    bool good = find_records(&work, error) && check_ranks(&work, error);
    if (good)
        count_steps(&work);
    if (good)
        find_lost(verified, options->noted_step);
    for (guint i = 0; good && i < work.ranks->len; i++)
        good = check_rank(&work, g_ptr_array_index(work.ranks, i), error);
    g_ptr_array_unref(work.ranks);
    return good;
}

void
mw_verified_clear(struct mw_verified *verified)
{
    for (int i = 0; i < verified->step_count; i++)
        g_ptr_array_unref(verified->steps[i].damage);
    verified->step_count = 0;
    g_clear_pointer(&verified->missing, g_ptr_array_unref);
    g_clear_pointer(&verified->notes, g_ptr_array_unref);
}

bool
mw_verify_is_whole(const struct mw_verified *verified, int step)
{
    return verified->steps[step].ranks == verified->ranks_here &&
           !verified->steps[step].damage->len;
}

bool
mw_verify_resumes(const struct mw_verified *verified)
{
    return verified->newest >= 0 && mw_verify_is_whole(verified, verified->newest) &&
           !verified->unreadable && !verified->lost_step && !verified->missing->len;
}
