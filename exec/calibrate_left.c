/* What a calibration that was killed left on the drives. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/calibrate_internal.h"

/* A regular file of this user's that has this one name. */
static bool
is_ours(int folder, const char *name)
{
    struct stat status;

    return !fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) && S_ISREG(status.st_mode) &&
           status.st_uid == geteuid() && status.st_nlink == 1;
}

/* Who measures holds the lock that the file's stem names (exec/nvme.h): then it is in use. */
static void
remove_unused(int folder, const char *name, int rank)
{
    g_autofree char *lock_name = g_strdup_printf(MW_CALIBRATE_STEM "%d.lock", rank);
    int lock = openat(folder, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (lock < 0)
        return;
    if (!flock(lock, LOCK_EX | LOCK_NB)) {
        if (is_ours(folder, name))
            unlinkat(folder, name, 0);
        unlinkat(folder, lock_name, 0);
    }
    close(lock);
}

/* "memwall-calibrate-RANK-IofN.data", and nothing behind it. */
static bool
rank_of(const char *name, int *rank)
{
    int index, count;
    g_autofree char *again = NULL;

    if (sscanf(name, MW_CALIBRATE_STEM "%d-%dof%d.data", rank, &index, &count) != 3)
        return false;
    again = g_strdup_printf(MW_CALIBRATE_STEM "%d-%dof%d.data", *rank, index, count);
    return !strcmp(name, again);
}

void
mw_calibrate_remove_left(const char *directory)
{
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g_autoptr(GDir) names = g_dir_open(directory, 0, NULL);
    const char *name;
    int rank;

    while (folder >= 0 && names && (name = g_dir_read_name(names)))
        if (rank_of(name, &rank) && is_ours(folder, name))
            remove_unused(folder, name, rank);
    if (folder >= 0)
        close(folder);
}
