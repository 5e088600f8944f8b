#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/nvme/internal.h"
#include "exec/nvme/run_names.h"

static bool
fail(GError **error, const struct mw_nvme_file *file, const char *what)
{
    const int reason = errno;

    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s: %s", file->path, what, g_strerror(reason));
    return false;
}

static void
add_notice(struct mw_nvme_file *file, const char *text)
{
    char *both = file->notice ? g_strdup_printf("%s; %s", file->notice, text)
                              : g_strdup_printf("%s: %s", file->directory, text);

    g_free(file->notice);
    file->notice = both;
}

/* Falls back to the page cache if the file system refuses O_DIRECT. */
static bool
open_path(struct mw_nvme_file *file, const struct mw_nvme_file_wish *wish, GError **error)
{
    const int flags = O_RDWR | (wish->resume ? 0 : O_CREAT);
    const char *why = NULL;

    file->direct = !wish->buffered;
    file->fd = file->direct ? mw_own_open(file->path, flags | O_DIRECT, 0600, &why) : -1;
    if (file->fd < 0 && (!file->direct || errno == EINVAL)) {
        file->direct = false;
        file->fd = mw_own_open(file->path, flags, 0600, &why);
    }
    if (file->fd >= 0)
        return true;
    if (errno == ENOENT && wish->resume) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: is missing: there is nothing to resume in this directory, or the run had "
                    "other directories, or these in another order",
                    file->path);
        return false;
    }
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: cannot be opened for reading and writing: %s",
                file->path, why);
    return false;
}

/* The kernel may accept O_DIRECT at open and still report that the file cannot use it. */
static void
learn_alignment(struct mw_nvme_file *file, bool buffered)
{
    int64_t bytes = mw_nvme_align_direct(file->fd);

    if (file->direct && !bytes) {
        file->direct = false;
        fcntl(file->fd, F_SETFL, fcntl(file->fd, F_GETFL) & ~O_DIRECT);
    }
    file->alignment_bytes = bytes ? bytes : 4096;
    if (buffered)
        add_notice(file, "I/O goes through the page cache, as requested");
    else if (!file->direct)
        add_notice(file, "no O_DIRECT on this file system: I/O goes through the page cache, slower "
                         "and in memory that the plan does not count");
    file->ram = mw_nvme_align_is_ram(file->fd);
    if (file->ram)
        add_notice(file, "a RAM disk: what is placed here takes memory, not storage");
}

bool
mw_nvme_file_open(struct mw_nvme_file *file, const struct mw_nvme_file_wish *wish, GError **error)
{
    struct stat info;

    *file = (struct mw_nvme_file){.fd = -1, .lock.fd = -1};
    file->directory = g_strdup(wish->directory);
    file->path = mw_run_data_path(wish->directory, wish->stem, wish->index, wish->count);
    if (!mw_nvme_lock_take(&file->lock, wish->directory, wish->stem, error) ||
        !open_path(file, wish, error)) {
        mw_nvme_file_close(file, true);
        return false;
    }
    file->created = !fstat(file->fd, &info) && info.st_size == 0;
    learn_alignment(file, wish->buffered);
    return true;
}

static int64_t
free_bytes(const struct mw_nvme_file *file)
{
    struct statvfs system;

    if (fstatvfs(file->fd, &system) || !system.f_blocks) /* some file systems do not count blocks */
        return INT64_MAX;
    return (int64_t)MIN((double)system.f_bavail * (double)system.f_frsize, 0x1p62);
}

/* Bytes that the file system still has to provide for a file of `bytes`. */
static int64_t
missing_bytes(const struct mw_nvme_file *file, int64_t bytes)
{
    struct stat info;
    int64_t own_bytes = fstat(file->fd, &info) ? 0 : (int64_t)info.st_blocks * 512;

    return bytes - MIN(own_bytes, bytes);
}

static bool
too_small(struct mw_nvme_file *file, int64_t bytes, GError **error)
{
    file->lacks_space = true;
    const double need_mb = (double)missing_bytes(file, bytes) / 1e6;
    const double free_mb = (double)free_bytes(file) / 1e6;

    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: needs %.1f MB more on its file system, where %.1f MB are free: %.1f MB short: "
                "make room, or keep state in another directory",
                file->path, need_mb, free_mb, MAX(need_mb - free_mb, 0.1));
    return false;
}

/* After a failed fdatasync the page cache may hold data that the drive does not.  Reads that do not
 * bypass the cache with O_DIRECT must find it empty. */
static bool
forget(const struct mw_nvme_file *file, const struct mw_nvme_calls *calls, GError **error)
{
    if (calls->fdatasync(calls->data, file->fd))
        return fail(error, file, "fdatasync");
    return !calls->forget(calls->data, file->fd) || fail(error, file, "posix_fadvise");
}

static bool
check_resumed(const struct mw_nvme_file *file, int64_t bytes, GError **error)
{
    struct stat info;

    if (fstat(file->fd, &info))
        return fail(error, file, "fstat");
    if (info.st_size == bytes)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: holds %" PRId64 " bytes, this run needs %" PRId64
                ": it was written by a run with other settings, or is cut off",
                file->path, (int64_t)info.st_size, bytes);
    return false;
}

bool
mw_nvme_file_size(const struct mw_nvme_file *file, int64_t bytes, GError **error)
{
    return !ftruncate(file->fd, bytes) || fail(error, file, "ftruncate");
}

static bool
allocate(struct mw_nvme_file *file, int64_t bytes, const struct mw_nvme_calls *calls,
         GError **error)
{
    if (!mw_nvme_file_size(file, bytes, error))
        return false;
    if (!calls->fallocate(calls->data, file->fd, bytes))
        return true;
    if (errno == ENOSPC || errno == EDQUOT)
        return too_small(file, bytes, error);
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return fail(error, file, "fallocate");
    add_notice(file, "this file system cannot reserve space: it may run full during the run");
    return true;
}

bool
mw_nvme_file_reserve(struct mw_nvme_file *file, int64_t bytes, bool resume,
                     const struct mw_nvme_calls *calls, GError **error)
{
    if (resume)
        return check_resumed(file, bytes, error) && forget(file, calls, error);
    file->lacks_space = false;
    if (missing_bytes(file, bytes) > free_bytes(file))
        return too_small(file, bytes, error);
    return allocate(file, bytes, calls, error);
}

bool
mw_nvme_file_sync(const struct mw_nvme_file *file, bool keep, const struct mw_nvme_calls *calls,
                  GError **error)
{
    if (calls->fdatasync(calls->data, file->fd))
        return fail(error, file, "fdatasync");
    if (keep && !mw_nvme_is_in_place(file->path, file->fd))
        return mw_fail(error, MW_ERROR_IO,
                       "%s: vanished during the run, or its directory was moved: nothing written "
                       "now could be resumed; put it back, and {resume} continues from the last "
                       "durable step",
                       file->path);
    return true;
}

/* Removes the file while the lock is held, so that no other run's file of this name is removed. */
void
mw_nvme_file_close(struct mw_nvme_file *file, bool keep)
{
    if (file->fd >= 0) {
        if (!keep && mw_nvme_is_in_place(file->path, file->fd))
            unlink(file->path);
        close(file->fd);
    }
    mw_nvme_lock_release(&file->lock);
    g_free(file->directory);
    g_free(file->path);
    g_free(file->notice);
    *file = (struct mw_nvme_file){.fd = -1, .lock.fd = -1};
}
