/* The profile of this machine, `here`: where it is, who measures it, and a lock against measuring
 * twice at a time. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/homedir.h"
#include "base/own_file.h"
#include "calibrate/calibrate.h"
#include "cli/calibration/calibrate.h"
#include "cli/cli.h"

char *
cli_here_path(void)
{
    g_autofree char *config = mw_homedir_path(MW_HOMEDIR_CONFIG);

    return g_build_filename(config, "hwprofiles", "here.ini", NULL);
}

bool
cli_here_is_measured(void)
{
    g_autofree char *path = cli_here_path();

    return g_file_test(path, G_FILE_TEST_EXISTS);
}

bool
cli_here_make_folder(const char *otherwise, GError **error)
{
    g_autofree char *path = cli_here_path(), *folder = g_path_get_dirname(path);

    return mw_homedir_make(MW_HOMEDIR_CONFIG, folder, otherwise, error);
}

/* The lock belongs to the process: if the process is killed, the lock is released, though its file
 * may stay. If no lock can be had, none is taken: two processes that measure at once get wrong
 * figures, nothing worse. */
int
cli_here_lock(void)
{
    g_autofree char *folder = mw_homedir_path(MW_HOMEDIR_CONFIG);
    g_autofree char *path = g_build_filename(folder, "calibrate.lock", NULL);

    mw_homedir_make(MW_HOMEDIR_CONFIG, folder, "", NULL);
    const char *why;
    int lock = mw_own_open(path, O_RDWR | O_CREAT, 0600, &why);
    if (lock < 0 || !flock(lock, LOCK_EX | LOCK_NB))
        return lock;
    if (errno == EWOULDBLOCK) {
        cli_say("another memwall is measuring this machine (it holds %s): waiting until it is done",
                path);
        while (flock(lock, LOCK_EX) && errno == EINTR)
            continue;
    }
    return lock;
}

void
cli_here_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

static bool
measure(GError **error)
{
    const struct mw_backend_place place = {.ranks = 1, .node_ranks = 1};
    const struct cli_calibrate_wish wish = {
        .silent = true, .alone = true, .backend = mw_backend_best(&place, NULL)};
    g_autofree char *path = cli_here_path();

    cli_say("there is no profile of this machine (%s): measuring its products, memory and drives "
            "for it first, once, in %.0f s at most; `memwall list hwprofiles` names others for -H",
            path, MW_CALIBRATION_BUDGET_S);
    return cli_calibrate(&wish, error);
}

bool
cli_here_ensure(GError **error)
{
    if (cli_here_is_measured())
        return true;
    if (!cli_here_make_folder("-H with a name of `memwall list hwprofiles`", error))
        return false;
    int lock = cli_here_lock();
    bool good = cli_here_is_measured() || measure(error);
    cli_here_unlock(lock);
    return good;
}
