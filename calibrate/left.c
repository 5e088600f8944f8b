/* Removes what a killed calibration left on the drives. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own_file.h"
#include "calibrate/internal.h"
#include "exec/nvme/internal.h"

/* A process that measures holds the lock that the file's stem names (exec/nvme/nvme.h). */
static void
remove_unused(const char *directory, int folder, const char *name, int rank)
{
    g_autofree char *stem = g_strdup_printf(MW_CALIBRATE_STEM "%d", rank);
    struct mw_nvme_lock lock;
    struct stat info;

    if (!mw_nvme_lock_take(&lock, directory, stem, NULL))
        return;
    if (mw_own_is_file(folder, name, &info))
        unlinkat(folder, name, 0);
    mw_nvme_lock_release(&lock);
}

/* "memwall-calibrate-RANK-IofN.data", and nothing after it. */
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
    int folder = mw_own_open_folder(directory);
    g_autoptr(GDir) names = g_dir_open(directory, 0, NULL);
    struct stat info;
    const char *name;
    int rank;

    while (folder >= 0 && names && (name = g_dir_read_name(names)))
        if (rank_of(name, &rank) && mw_own_is_file(folder, name, &info))
            remove_unused(directory, folder, name, rank);
    if (folder >= 0)
        close(folder);
}
