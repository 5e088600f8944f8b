#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "exec/nvme_internal.h"
#include "planner/error.h"

bool
mw_nvme_is_in_place(const char *path, int fd)
{
    struct stat named, opened;

    return !stat(path, &named) && !fstat(fd, &opened) && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

static bool
refuse(struct mw_nvme_lock *lock, const char *directory, int reason, GError **error)
{
    if (reason == EWOULDBLOCK)
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: in use by another run (%s is locked), or named twice: give another "
                    "directory",
                    directory, lock->path);
    else
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: not a directory that can be written: %s: %s",
                    directory, lock->path, g_strerror(reason));
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
    g_clear_pointer(&lock->path, g_free);
    return false;
}

/* A run that ends removes the file before it lets go of the lock: then there is nothing behind the
 * name, or a newer file. */
bool
mw_nvme_lock_take(struct mw_nvme_lock *lock, const char *directory, const char *stem,
                  GError **error)
{
    lock->path = g_strdup_printf("%s/%s.lock", directory, stem);
    for (int attempt = 0; attempt < 10; attempt++) {
        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (lock->fd < 0 || flock(lock->fd, LOCK_EX | LOCK_NB))
            return refuse(lock, directory, errno, error);
        if (mw_nvme_is_in_place(lock->path, lock->fd))
            return true;
        close(lock->fd);
        lock->fd = -1;
    }
    return refuse(lock, directory, EWOULDBLOCK, error);
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
