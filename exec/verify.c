#include "exec/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "exec/run_files.h"
#include "exec/verify_internal.h"
#include "planner/error.h"
#include "planner/own_file.h"

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

static bool
decode_slot(struct work *work, struct mw_verify_rank *rank, int slot, char *image, GError **error)
{
    struct mw_commit_identity identity;
    bool identified;

    if (!mw_commit_file_read(&rank->file, slot, image, error))
        return false;
    rank->states[slot] = mw_commit_decode(image, rank->file.slot_bytes, &rank->records[slot],
                                          &identity, &identified);
    if (identified) {
        rank->identity = identity;
        rank->identified = true;
    }
    if (rank->states[slot] == MW_COMMIT_TORN)
        note(work->verified,
             g_strdup_printf("%s: record %d of 2 is torn: its commit was interrupted, or it is "
                             "damaged",
                             rank->file.path, slot + 1));
    return true;
}

/* Both slots have been written from end to end since the file was made. */
static bool
read_records(struct work *work, struct mw_verify_rank *rank, GError **error)
{
    void *image;
    const int64_t slot_bytes = rank->file.info.st_size / 2;
    bool good = true;

    if (slot_bytes < MW_COMMIT_BLOCK_BYTES || slot_bytes % MW_COMMIT_BLOCK_BYTES ||
        slot_bytes > MW_VERIFY_SLOT_BYTES_MAX) {
        note(work->verified, g_strdup_printf("%s: has %" PRId64 " bytes, which no record has",
                                             rank->file.path, (int64_t)rank->file.info.st_size));
        return true;
    }
    rank->file.slot_bytes = slot_bytes;
    if (!mw_commit_file_forget(&rank->file, error))
        return false;
    if (posix_memalign(&image, MW_COMMIT_BLOCK_BYTES, (size_t)slot_bytes))
        g_error("out of memory");
    for (int slot = 0; good && slot < 2; slot++)
        good = decode_slot(work, rank, slot, image, error);
    free(image);
    return good;
}

/* A run holds its records' locks: this one is shared, and keeps runs away until it is done. */
static bool
open_rank(struct work *work, int folder, const char *name, GError **error)
{
    const char *directory = work->options->directories[0], *why;
    struct mw_verify_rank *rank = g_new0(struct mw_verify_rank, 1);

    g_ptr_array_add(work->ranks, rank);
    rank->stem = g_strndup(name, strlen(name) - strlen(".record"));
    rank->file.path = g_build_filename(directory, name, NULL);
    rank->file.calls = &mw_nvme_system_calls;
    rank->file.fd = mw_own_open_at(folder, name, O_RDONLY, 0, &rank->file.info, &why);
    if (rank->file.fd < 0)
        return fail(error, MW_ERROR_IO, rank->file.path, why);
    if (flock(rank->file.fd, LOCK_SH | LOCK_NB))
        return fail(error, MW_ERROR_IO, rank->file.path,
                    errno == EWOULDBLOCK ? "a run is using it: verify it after the run has ended"
                                         : g_strerror(errno));
    return read_records(work, rank, error);
}

static bool
find_records(struct work *work, GError **error)
{
    const char *directory = work->options->directories[0];
    struct mw_run_files files;
    bool good = mw_run_files_look(directory, &files, error);

    if (good && files.running)
        good = fail(error, MW_ERROR_IO, directory,
                    "a run is using it: verify it after the run has ended");
    int folder = good ? mw_own_open_folder(directory) : -1;
    for (guint i = 0; good && folder >= 0 && i < files.names->len; i++) {
        const char *name = g_ptr_array_index(files.names, i);
        if (g_str_has_suffix(name, ".record"))
            good = open_rank(work, folder, name, error);
    }
    if (good && !work->ranks->len)
        good = fail(error, MW_ERROR_INVALID, directory,
                    "holds no run whose steps are durable: no record is there");
    if (folder >= 0)
        close(folder);
    mw_run_files_clear(&files);
    return good;
}

/* --- of one run ------------------------------------------------------------------------------ */

static bool
check_directories(const struct work *work, const struct mw_verify_rank *rank, GError **error)
{
    const int given = work->options->directory_count, wanted = rank->identity.drives;

    if (!rank->identified || wanted == given)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: the run has %d director%s, %d %s given: name all of them, in the order of "
                "--nvme",
                rank->file.path, wanted, wanted == 1 ? "y" : "ies", given,
                given == 1 ? "is" : "are");
    return false;
}

/* A rank whose data is here has lost its record; one without has its files on another machine. */
static void
tell_missing(struct work *work)
{
    int missing = 0, first = 0;

    for (int r = work->verified->ranks - 1; r >= 0; r--) {
        bool here = false;
        for (guint i = 0; i < work->ranks->len; i++) {
            const struct mw_verify_rank *rank = g_ptr_array_index(work->ranks, i);
            here |= rank->identified && rank->identity.rank == r;
        }
        missing += !here;
        first = here ? first : r;
    }
    if (missing)
        note(work->verified,
             g_strdup_printf("%d of %d ranks have no record here, the first of them rank %d: they "
                             "are lost, or on another machine, where they are to be verified",
                             missing, work->verified->ranks, first));
}

static bool
settle_ranks(struct work *work, GError **error)
{
    struct mw_verified *verified = work->verified;

    for (guint i = 0; i < work->ranks->len; i++) {
        const struct mw_verify_rank *rank = g_ptr_array_index(work->ranks, i);
        if (!check_directories(work, rank, error))
            return false;
        if (rank->identified)
            verified->ranks = MAX(verified->ranks, rank->identity.ranks);
    }
    verified->ranks = MIN(verified->ranks, MW_VERIFY_RANKS_MAX);
    verified->ranks_here = (int)work->ranks->len;
    tell_missing(work);
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
    /* Ranks differ by one commit: what is older than three was never one run's. */
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

static void
count_steps(struct work *work)
{
    struct mw_verified *verified = work->verified;

    for (guint i = 0; i < 2 * work->ranks->len; i++) {
        const struct mw_verify_rank *rank = g_ptr_array_index(work->ranks, i / 2);
        const struct mw_commit_record *record = &rank->records[i % 2];
        struct mw_verify_step *step =
            rank->states[i % 2] == MW_COMMIT_WHOLE ? step_of(verified, record->step) : NULL;
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

static void
check_record(struct work *work, struct mw_verify_rank *rank, const struct mw_commit_record *record)
{
    const struct mw_verify_options *options = work->options;
    struct mw_verify_step *step = step_of(work->verified, record->step);

    for (int64_t i = 0; step && i < record->extent_count; i++) {
        step->damaged_extents +=
            !mw_verify_extent(options, rank, &record->extents[i], step->damage);
        work->done_bytes += record->extents[i].bytes;
        if (options->progress)
            options->progress(options->data, work->done_bytes, work->all_bytes);
    }
}

static bool
check_rank(struct work *work, struct mw_verify_rank *rank, GError **error)
{
    if (!mw_verify_open_data(work->options, rank, error))
        return false;
    for (int slot = 0; slot < 2; slot++)
        if (rank->states[slot] == MW_COMMIT_WHOLE)
            check_record(work, rank, &rank->records[slot]);
    mw_verify_close_data(rank);
    return true;
}

/* --- the whole ------------------------------------------------------------------------------- */

static void
free_rank(void *data)
{
    struct mw_verify_rank *rank = data;

    for (int slot = 0; slot < 2; slot++)
        mw_commit_record_clear(&rank->records[slot]);
    mw_verify_close_data(rank);
    mw_commit_file_close(&rank->file);
    g_free(rank->stem);
    g_free(rank);
}

bool
mw_verify(const struct mw_verify_options *options, struct mw_verified *verified, GError **error)
{
    struct work work = {.options = options, .verified = verified};

    *verified = (struct mw_verified){.newest = -1};
    verified->notes = g_ptr_array_new_with_free_func(g_free);
    work.ranks = g_ptr_array_new_with_free_func(free_rank);
    bool good = find_records(&work, error) && settle_ranks(&work, error);
    if (good)
        count_steps(&work);
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
    g_clear_pointer(&verified->notes, g_ptr_array_unref);
}

bool
mw_verify_is_whole(const struct mw_verified *verified, int step)
{
    return verified->steps[step].ranks == verified->ranks_here &&
           !verified->steps[step].damage->len;
}
