#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/nvme/internal.h"
#include "exec/nvme/run_names.h"

bool
mw_nvme_is_in_place(const char *path, int fd)
{
    struct stat named, opened;

    return !lstat(path, &named) && !fstat(fd, &opened) && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

/* Whether the directory takes files, although an open in it failed.  Something in the file's place,
 * or lack of space or descriptors, is not the directory's fault. */
static bool
takes_files(const char *path)
{
    int reason = errno;
    struct stat info;
    bool there = !lstat(path, &info);

    return there || (reason != ENOENT && reason != ENOTDIR && reason != EACCES && reason != EPERM &&
                     reason != EROFS);
}

/* Without a reason, says that the directory is in use. */
static bool
refuse(struct mw_nvme_lock *lock, const char *directory, const char *why, GError **error)
{
    if (!why)
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: in use by another run (%s is locked), or named twice: wait for that run "
                    "or stop it, or give another directory",
                    directory, lock->path);
    else
        g_set_error(error, MW_ERROR, takes_files(lock->path) ? MW_ERROR_IO : MW_ERROR_INVALID,
                    "%s: not a directory that can be written: %s: %s", directory, lock->path, why);
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
    g_clear_pointer(&lock->path, g_free);
    return false;
}

/* A run that ends removes the file before it releases the lock.  Then the name leads nowhere, or to
 * a newer file. */
bool
mw_nvme_lock_take(struct mw_nvme_lock *lock, const char *directory, const char *stem,
                  GError **error)
{
    const char *why;

    lock->path = mw_run_lock_path(directory, stem);
    for (int attempt = 0; attempt < 10; attempt++) {
        lock->fd = mw_own_open(lock->path, O_RDWR | O_CREAT, 0600, &why);
        if (lock->fd < 0)
            return refuse(lock, directory, why, error);
        if (!mw_run_lock_file(lock->fd, LOCK_EX))
            return refuse(lock, directory, errno == EWOULDBLOCK ? NULL : g_strerror(errno), error);
        if (mw_nvme_is_in_place(lock->path, lock->fd))
            return true;
        close(lock->fd);
        lock->fd = -1;
    }
    return refuse(lock, directory, NULL, error);
}

void
mw_nvme_lock_release(struct mw_nvme_lock *lock)
{
    if (lock->fd >= 0) {
        if (mw_nvme_is_in_place(lock->path, lock->fd))
            unlink(lock->path);
        close(lock->fd);
    }
    lock->fd = -1;
    g_clear_pointer(&lock->path, g_free);
}
