#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/commit/internal.h"
#include "exec/nvme/run_names.h"

static bool
fail(GError **error, const struct mw_commit_file *file, const char *what)
{
    const int reason = errno;

    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s: %s", file->path, what, g_strerror(reason));
    return false;
}

bool
mw_commit_file_open(struct mw_commit_file *file, const char *directory, const char *stem,
                    bool resume, GError **error)
{
    const char *why;

    file->path = mw_run_record_path(directory, stem);
    file->fd = mw_own_open(file->path, O_RDWR | (resume ? 0 : O_CREAT), 0600, &why);
    if (file->fd < 0) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s: %s", file->path,
                    resume ? "no commit record to resume from" : "cannot be created", why);
        return false;
    }
    if (!mw_run_lock_file(file->fd, LOCK_EX)) {
        if (errno != EWOULDBLOCK)
            return fail(error, file, "flock");
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: in use by another run: wait for it or stop it, or give another directory",
                    file->path);
        return false;
    }
    return !fstat(file->fd, &file->info) || fail(error, file, "fstat");
}

char *
mw_commit_image_new(int64_t bytes)
{
    void *image;

    if (posix_memalign(&image, MW_COMMIT_BLOCK_BYTES, (size_t)bytes))
        g_error("out of memory");
    return memset(image, 0, (size_t)bytes);
}

bool
mw_commit_file_forget(const struct mw_commit_file *file, GError **error)
{
    const struct mw_nvme_calls *calls = file->calls;

    if (calls->fdatasync(calls->data, file->fd))
        return fail(error, file, "fdatasync");
    return !calls->forget(calls->data, file->fd) || fail(error, file, "posix_fadvise");
}

/* After a failed fdatasync the page cache may hold a record that the drive does not. */
static bool
set_direct(const struct mw_commit_file *file, bool direct)
{
    const int flags = fcntl(file->fd, F_GETFL) & ~O_DIRECT;

    return !fcntl(file->fd, F_SETFL, direct ? flags | O_DIRECT : flags);
}

static bool
read_all(const struct mw_commit_file *file, int slot, char *image, GError **error)
{
    int64_t done_bytes = 0;

    while (done_bytes < file->slot_bytes) {
        ssize_t bytes = file->calls->pread(file->calls->data, file->fd, image + done_bytes,
                                           (size_t)(file->slot_bytes - done_bytes),
                                           slot * file->slot_bytes + done_bytes);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes < 0 && errno == EINVAL && fcntl(file->fd, F_GETFL) & O_DIRECT &&
            set_direct(file, false))
            continue;
        if (bytes < 0)
            return fail(error, file, "reading a commit record");
        if (!bytes)
            break;
        done_bytes += bytes;
    }
    memset(image + done_bytes, 0, (size_t)(file->slot_bytes - done_bytes));
    return true;
}

bool
mw_commit_file_read(const struct mw_commit_file *file, int slot, char *image, GError **error)
{
    set_direct(file, true); /* if that fails, the file has been dropped from the page cache */
    const bool good = read_all(file, slot, image, error);

    return (set_direct(file, false) || (good && fail(error, file, "fcntl"))) && good;
}

static bool
write_all(const struct mw_commit_file *file, int slot, const char *image, int64_t bytes,
          GError **error)
{
    int64_t done_bytes = 0;

    while (done_bytes < bytes) {
        ssize_t written =
            file->calls->pwrite(file->calls->data, file->fd, image + done_bytes,
                                (size_t)(bytes - done_bytes), slot * file->slot_bytes + done_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (!written)
            errno = ENOSPC;
        if (written <= 0)
            return fail(error, file, "writing a commit record");
        done_bytes += written;
    }
    return true;
}

/* A file that has lost its name cannot be resumed from. */
static bool
is_in_place(const struct mw_commit_file *file, GError **error)
{
    struct stat info;

    if (!lstat(file->path, &info) && info.st_dev == file->info.st_dev &&
        info.st_ino == file->info.st_ino)
        return true;
    return mw_fail(
        error, MW_ERROR_IO,
        "%s: vanished during the run, or its directory was moved: no further step "
        "could be resumed; put it back, and {resume} continues from the last durable one",
        file->path);
}

bool
mw_commit_file_write(const struct mw_commit_file *file, int slot, const char *image, int64_t bytes,
                     GError **error)
{
    if (!is_in_place(file, error) || !write_all(file, slot, image, bytes, error))
        return false;
    return !file->calls->fdatasync(file->calls->data, file->fd) || fail(error, file, "fdatasync");
}

bool
mw_commit_file_cut(const struct mw_commit_file *file, GError **error)
{
    return file->info.st_size <= MW_COMMIT_SLOTS * file->slot_bytes ||
           !ftruncate(file->fd, MW_COMMIT_SLOTS * file->slot_bytes) ||
           fail(error, file, "ftruncate");
}

bool
mw_commit_file_sync_directory(const struct mw_commit_file *file, GError **error)
{
    g_autofree char *directory = g_path_get_dirname(file->path);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool ok = fd >= 0 && !fsync(fd);

    if (!ok)
        fail(error, file, "fsync of its directory");
    if (fd >= 0)
        close(fd);
    return ok;
}

void
mw_commit_file_close(struct mw_commit_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    g_free(file->path);
}
