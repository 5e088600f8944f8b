#include "exec/commit/run_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/commit/internal.h"
#include "exec/commit/run_aside.h"
#include "exec/commit/run_files_internal.h"
#include "exec/nvme/internal.h"
#include "exec/nvme/run_names.h"

static bool
fail(const char *directory, const char *name, const char *why, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s%s%s: %s", directory, name ? "/" : "",
                name ? name : "", why);
    return false;
}

/* --- names ----------------------------------------------------------------------------------- */

static bool
take(const char **at, const char *text)
{
    if (!g_str_has_prefix(*at, text))
        return false;
    *at += strlen(text);
    return true;
}

static bool
take_number(const char **at)
{
    size_t digits = strspn(*at, "0123456789");

    *at += digits;
    return digits > 0;
}

static bool
is_end(const char *at, const char *text)
{
    return !strcmp(at, text);
}

#define LOCK_STEM "memwall-run"
#define LOCK_NAME LOCK_STEM MW_RUN_LOCK

bool
mw_run_files_is_lock(const char *name)
{
    return !strcmp(name, LOCK_NAME);
}

/* memwall[-null][-rankR], then .record, .lock or -IofN.data; and the names of the whole run. */
bool
mw_run_files_is_name(const char *name)
{
    const char *at = name;

    if (!strcmp(name, MW_RUN_DESCRIPTION) || mw_run_files_is_lock(name))
        return true;
    if (!take(&at, MW_RUN_BASE))
        return false;
    take(&at, "-null");
    if (take(&at, "-rank") && !take_number(&at))
        return false;
    if (is_end(at, MW_RUN_RECORD) || is_end(at, MW_RUN_LOCK))
        return true;
    return take(&at, "-") && take_number(&at) && take(&at, "of") && take_number(&at) &&
           is_end(at, MW_RUN_DATA);
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* --- look ------------------------------------------------------------------------------------ */

/* A run holds its locks; a process that takes one waits for as long as this look may take
 * (exec/nvme/lock.c). */
static bool
is_locked(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB))
        return errno == EWOULDBLOCK;
    flock(fd, LOCK_UN);
    return false;
}

/* The steps that all ranks so far have in common. */
struct common {
    int64_t steps[2];
    int count;
};

static void
keep_common(struct common *common, const struct mw_commit_found *found, bool first)
{
    struct common both = {{0}, 0};

    for (int i = 0; i < found->whole; i++)
        for (int j = 0; j < (first ? 1 : common->count); j++)
            if (both.count < 2 && (first || found->steps[i] == common->steps[j]))
                both.steps[both.count++] = found->steps[i];
    *common = both;
}

static bool
look_at_record(struct mw_run_files *files, int fd, const char *path, const char *name,
               struct common *common, GError **error)
{
    struct mw_commit_found found;

    if (!mw_commit_look(fd, path, &found, error))
        return false;
    if (!found.holds)
        return true;
    keep_common(common, &found, files->records == 0);
    files->records++;
    files->ranks = MAX(files->ranks, found.ranks);
    if (!files->record)
        files->record = g_strdup(name);
    return true;
}

static bool
look_at(struct mw_run_files *files, int folder, const char *directory, const char *name,
        struct common *common, GError **error)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    bool record = g_str_has_suffix(name, MW_RUN_RECORD);
    bool lock = g_str_has_suffix(name, MW_RUN_LOCK);
    struct stat info;
    const char *why;

    if (!mw_own_is_file(folder, name, &info)) /* it has disappeared */
        return true;
    g_ptr_array_add(files->names, g_strdup(name));
    files->bytes += (int64_t)info.st_blocks * 512;
    int64_t changed_ns = info.st_mtim.tv_sec * INT64_C(1000000000) + info.st_mtim.tv_nsec;
    files->changed_ns = MAX(files->changed_ns, changed_ns);
    files->has_record |= info.st_size > 0 && record;
    files->has_data |= info.st_size > 0 && g_str_has_suffix(name, MW_RUN_DATA);
    if (!record && !lock)
        return true;
    int fd = mw_own_open_at(folder, name, O_RDONLY, 0, NULL, &why);
    if (fd < 0)
        return errno == ENOENT || fail(directory, name, why, error);
    files->running |= lock && is_locked(fd);
    bool good = !record || look_at_record(files, fd, path, name, common, error);
    close(fd);
    return good;
}

/* Something that can be overwritten is noted before something that cannot. */
static void
note_stranger(struct mw_run_files *files, const char *name, const char *why, bool plain)
{
    if (files->stranger && files->stranger_is_plain >= plain)
        return;
    g_free(files->stranger);
    files->stranger = g_strdup(name);
    files->stranger_why = why;
    files->stranger_is_plain = plain;
}

/* Notes a file with a name of a run's; adds it to `names` if it is ours. */
static void
take_name(struct mw_run_files *files, int folder, const char *name, GPtrArray *names)
{
    const char *why = mw_own_why_not(folder, name);
    struct stat info;

    if (mw_own_is_file(folder, name, &info))
        g_ptr_array_add(names, g_strdup(name));
    else if (why)
        note_stranger(files, name, why, false);
}

/* Collects the names of our files, sorted. */
static bool
names_in(struct mw_run_files *files, int folder, const char *directory, GPtrArray *names,
         GError **error)
{
    int own = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    DIR *list = own < 0 ? NULL : fdopendir(own);

    if (!list) {
        int reason = errno;
        if (own >= 0)
            close(own);
        return fail(directory, NULL, g_strerror(reason), error);
    }
    errno = 0;
    for (struct dirent *entry; (entry = readdir(list)); errno = 0)
        if (mw_run_files_is_name(entry->d_name))
            take_name(files, folder, entry->d_name, names);
    int reason = errno;
    closedir(list);
    g_ptr_array_sort(names, compare_names);
    return !reason || fail(directory, NULL, g_strerror(reason), error);
}

static bool
has_name(const GPtrArray *names, const char *name)
{
    return g_ptr_array_find_with_equal_func((GPtrArray *)names, name, g_str_equal, NULL);
}

/* A data file does not tell whose it is.  A killed run leaves the lock of its stem beside it; data
 * that is kept has a record or a description. */
static bool
is_claimed(const GPtrArray *names, const char *name)
{
    if (!g_str_has_suffix(name, MW_RUN_DATA) || has_name(names, MW_RUN_DESCRIPTION))
        return true;
    g_autofree char *stem = g_strndup(name, (gsize)(strrchr(name, '-') - name));
    g_autofree char *record = g_strconcat(stem, MW_RUN_RECORD, NULL);
    g_autofree char *lock = g_strconcat(stem, MW_RUN_LOCK, NULL);
    return has_name(names, record) || has_name(names, lock);
}

bool
mw_run_files_look(const char *directory, struct mw_run_files *files, GError **error)
{
    struct common common = {{0}, 0};
    struct stat info;

    *files = (struct mw_run_files){.step = -1};
    files->names = g_ptr_array_new_with_free_func(g_free);
    int folder = mw_own_open_folder(directory);
    if (folder < 0)
        return errno == ENOENT || fail(directory, NULL, g_strerror(errno), error);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    bool good = names_in(files, folder, directory, names, error);
    for (guint i = 0; good && i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        if (is_claimed(names, name))
            good = look_at(files, folder, directory, name, &common, error);
        else if (mw_own_is_file(folder, name, &info) && info.st_size > 0)
            note_stranger(files, name, "nothing beside it says that a run has left it", true);
    }
    close(folder);
    for (int i = 0; i < common.count; i++)
        files->step = MAX(files->step, common.steps[i]);
    return good;
}

void
mw_run_files_clear(struct mw_run_files *files)
{
    g_clear_pointer(&files->names, g_ptr_array_unref);
    g_clear_pointer(&files->record, g_free);
    g_clear_pointer(&files->stranger, g_free);
}

/* --- a record -------------------------------------------------------------------------------- */

static bool
load(int fd, const char *path, bool previous, struct mw_run_record *out)
{
    struct mw_commit_identity identity;
    struct mw_commit_found found;
    int which = previous ? 1 : 0;

    if (!mw_commit_look(fd, path, &found, NULL) || found.whole <= which ||
        !mw_commit_load(fd, path, found.steps[which], &out->record, &identity, NULL))
        return false;
    out->rank = identity.rank;
    out->ranks = identity.ranks;
    out->stripe_bytes = identity.stripe_bytes;
    return true;
}

bool
mw_run_files_record(const char *directory, const char *stem, bool previous,
                    struct mw_run_record *out)
{
    g_autofree char *path = mw_run_record_path(directory, stem);
    const char *why;
    int fd = mw_own_open(path, O_RDONLY, 0, &why);

    *out = (struct mw_run_record){0};
    bool good = fd >= 0 && load(fd, path, previous, out);
    if (fd >= 0)
        close(fd);
    return good;
}

/* --- removal --------------------------------------------------------------------------------- */

bool
mw_run_files_lock(const struct mw_run_files *files, int folder, const char *directory, bool locked,
                  GArray *held, GError **error)
{
    const char *why;

    for (guint i = 0; i < files->names->len; i++) {
        const char *name = g_ptr_array_index(files->names, i);
        if (!g_str_has_suffix(name, MW_RUN_RECORD) && !g_str_has_suffix(name, MW_RUN_LOCK))
            continue;
        if (locked && mw_run_files_is_lock(name))
            continue;
        int fd = mw_own_open_at(folder, name, O_RDONLY, 0, NULL, &why);
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0)
            return fail(directory, name, why, error);
        g_array_append_val(held, fd);
        if (!mw_run_lock_file(fd, LOCK_EX))
            return fail(directory, name,
                        errno == EWOULDBLOCK ? "a run is using it: nothing is deleted"
                                             : g_strerror(errno),
                        error);
    }
    return true;
}

/* Some file systems have no fsync of a folder. */
bool
mw_run_files_sync_folder(int folder, const char *directory, GError **error)
{
    return !fsync(folder) || errno == EINVAL || fail(directory, NULL, g_strerror(errno), error);
}

static bool
unlink_kind(const struct mw_run_files *files, int folder, const char *directory, const char *ending,
            bool locked, GError **error)
{
    struct stat info;

    for (guint i = 0; i < files->names->len; i++) {
        const char *name = g_ptr_array_index(files->names, i);
        if (!g_str_has_suffix(name, ending) || !mw_own_is_file(folder, name, &info) ||
            (locked && mw_run_files_is_lock(name)))
            continue;
        if (unlinkat(folder, name, 0) && errno != ENOENT)
            return fail(directory, name, g_strerror(errno), error);
    }
    return mw_run_files_sync_folder(folder, directory, error);
}

/* Removes the record first, since a resume of a record without its data would fail. */
static bool
remove_all(const struct mw_run_files *files, int folder, const char *directory, bool locked,
           GError **error)
{
    static const char *const order[] = {MW_RUN_RECORD, MW_RUN_DATA, ".json", MW_RUN_LOCK};
    g_autoptr(GArray) held = g_array_new(FALSE, FALSE, sizeof(int));
    bool good = mw_run_files_lock(files, folder, directory, locked, held, error);

    for (size_t i = 0; good && i < G_N_ELEMENTS(order); i++)
        good = unlink_kind(files, folder, directory, order[i], locked, error);
    if (good)
        mw_own_sweep(folder, MW_RUN_DESCRIPTION);
    for (guint i = 0; i < held->len; i++)
        close(g_array_index(held, int, i));
    return good;
}

bool
mw_run_files_remove(const char *directory, bool locked, GError **error)
{
    struct mw_run_files files;
    bool good = mw_run_files_look(directory, &files, error);

    if (good && mw_run_aside_look(directory) == MW_RUN_ASIDE_MOVING)
        good = fail(directory, NULL, "a part of the run is set aside there: nothing is deleted",
                    error);
    if (good && files.names->len) {
        int folder = mw_own_open_folder(directory);
        good = folder < 0 ? fail(directory, NULL, g_strerror(errno), error)
                          : remove_all(&files, folder, directory, locked, error);
        if (folder >= 0)
            close(folder);
    }
    mw_run_files_clear(&files);
    return good;
}

/* --- the lock -------------------------------------------------------------------------------- */

struct mw_run_lock {
    struct mw_nvme_lock lock;
};

struct mw_run_lock *
mw_run_lock_take(const char *directory, GError **error)
{
    struct mw_run_lock *lock = g_new0(struct mw_run_lock, 1);

    if (mw_nvme_lock_take(&lock->lock, directory, LOCK_STEM, error))
        return lock;
    g_free(lock);
    return NULL;
}

void
mw_run_lock_release(struct mw_run_lock *lock)
{
    if (!lock)
        return;
    mw_nvme_lock_release(&lock->lock);
    g_free(lock);
}
