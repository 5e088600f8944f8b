#include "exec/nvme/run_names.h"

#include <errno.h>
#include <glib.h>
#include <sys/file.h>

char *
mw_run_stem(const char *base, int rank, int ranks)
{
    return ranks > 1 ? g_strdup_printf("%s-rank%d", base, rank) : g_strdup(base);
}

char *
mw_run_record_path(const char *directory, const char *stem)
{
    return g_strdup_printf("%s/%s" MW_RUN_RECORD, directory, stem);
}

char *
mw_run_lock_path(const char *directory, const char *stem)
{
    return g_strdup_printf("%s/%s" MW_RUN_LOCK, directory, stem);
}

char *
mw_run_data_path(const char *directory, const char *stem, int drive, int drives)
{
    return g_strdup_printf("%s/%s-%dof%d" MW_RUN_DATA, directory, stem, drive + 1, drives);
}

bool
mw_run_lock_file(int fd, int how)
{
    for (int left = MW_RUN_LOCK_LOOKS; flock(fd, how | LOCK_NB); left--) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || !left)
            return false;
        g_usleep(MW_RUN_LOCK_LOOK_US);
    }
    return true;
}
