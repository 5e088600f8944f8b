#include "base/own_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

/* Returns NULL if the file is ours; otherwise sets errno. */
static const char *
why_not(const struct stat *info)
{
    errno = EPERM;
    if (!S_ISREG(info->st_mode))
        return "is not a regular file";
    if (info->st_uid != geteuid())
        return "belongs to another user";
    if (info->st_nlink > 1)
        return "has a second name (a hard link)";
    return NULL;
}

/* O_NONBLOCK, since opening a pipe would wait for its other end. */
int
mw_own_open_at(int folder, const char *name, int flags, mode_t mode, struct stat *info,
               const char **why)
{
    struct stat own, *found = info ? info : &own;
    int fd = openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);

    if (fd < 0 || fstat(fd, found)) {
        *why =
            errno == ELOOP ? "is a symbolic link, which is not followed here" : g_strerror(errno);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *why = why_not(found);
    if (!*why && !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK))
        return fd;
    if (!*why)
        *why = g_strerror(errno);
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

int
mw_own_open(const char *path, int flags, mode_t mode, const char **why)
{
    return mw_own_open_at(AT_FDCWD, path, flags, mode, NULL, why);
}

bool
mw_own_is_file(int folder, const char *name, struct stat *info)
{
    return !fstatat(folder, name, info, AT_SYMLINK_NOFOLLOW) && !why_not(info);
}

const char *
mw_own_why_not(int folder, const char *name)
{
    struct stat info;

    return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) ? NULL : why_not(&info);
}

int
mw_own_open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

#define DRAWN 6 /* number of characters that mkstemp draws */

static bool
is_unfinished(const char *name, const char *base)
{
    const char *at = name + (*name == '.');
    size_t length = strlen(base);

    if (strncmp(at, base, length) || at[length] != '.' || strlen(at + length + 1) != DRAWN)
        return false;
    for (at += length + 1; *at; at++)
        if (!g_ascii_isalnum(*at))
            return false;
    return true;
}

void
mw_own_sweep(int folder, const char *base)
{
    int own = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    DIR *list = own < 0 ? NULL : fdopendir(own);
    struct stat info;

    if (!list && own >= 0)
        close(own);
    if (!list)
        return;
    rewinddir(list); /* another reader of the folder has moved the position */
    for (struct dirent *entry; (entry = readdir(list));)
        if (is_unfinished(entry->d_name, base) && mw_own_is_file(folder, entry->d_name, &info))
            unlinkat(folder, entry->d_name, 0);
    closedir(list);
}
