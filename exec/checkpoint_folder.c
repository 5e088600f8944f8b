/* A folder that is whole at any time: written beside its place, then renamed. */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/checkpoint_internal.h"
#include "planner/error.h"

static const char *const files[] = {
    MW_CHECKPOINT_MODEL,         MW_CHECKPOINT_OPTIMIZER,         MW_CHECKPOINT_CONFIG,
    MW_CHECKPOINT_MODEL ".part", MW_CHECKPOINT_OPTIMIZER ".part", MW_CHECKPOINT_CONFIG ".part",
};

static bool
fail(const char *path, const char *what, GError **error)
{
    int number = errno;

    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s: %s", path, what, g_strerror(number));
    return false;
}

static bool
is_ours(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        if (!strcmp(files[i], name))
            return true;
    return false;
}

/* What is replaced is removed: it must be a checkpoint and nothing else. */
static bool
check_place(const char *path, GError **error)
{
    g_autoptr(GDir) folder = NULL;

    if (!g_file_test(path, G_FILE_TEST_EXISTS) && !g_file_test(path, G_FILE_TEST_IS_SYMLINK))
        return true;
    folder = g_dir_open(path, 0, NULL);
    for (const char *name; folder && (name = g_dir_read_name(folder));) {
        if (is_ours(name))
            continue;
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: holds %s, so it is no checkpoint to be replaced: give a folder that is "
                    "empty or not there",
                    path, name);
        return false;
    }
    if (folder)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: a checkpoint is a folder, this is none", path);
    return false;
}

/* A rename would replace a link; what is meant is the folder that it names. */
char *
mw_checkpoint_folder_place(const char *path)
{
    char *real = realpath(path, NULL);
    char *place = real ? g_strdup(real) : g_canonicalize_filename(path, NULL);

    free(real);
    return place;
}

bool
mw_checkpoint_check(const char *path, GError **error)
{
    g_autofree char *whole = mw_checkpoint_folder_place(path);
    g_autofree char *parent = g_path_get_dirname(whole);

    if (!check_place(whole, error))
        return false;
    return !access(parent, W_OK | X_OK) || fail(parent, "a checkpoint cannot be written", error);
}

void
mw_checkpoint_folder_remove(const char *path)
{
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *file = g_build_filename(path, files[i], NULL);
        unlink(file);
    }
    rmdir(path);
}

char *
mw_checkpoint_folder_begin(const char *path, GError **error)
{
    g_autofree char *part = g_strconcat(path, ".part", NULL);

    if (!check_place(path, error) || !check_place(part, error))
        return NULL;
    mw_checkpoint_folder_remove(part);
    if (!g_mkdir(part, 0777))
        return g_steal_pointer(&part);
    fail(part, "cannot be made", error);
    return NULL;
}

static bool
sync_folder(const char *path, GError **error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems have no fsync of a folder: EINVAL. */
    bool good = fd >= 0 && (!fsync(fd) || errno == EINVAL);

    if (!good)
        fail(path, "fsync", error);
    if (fd >= 0)
        close(fd);
    return good;
}

/* Where the two cannot change places at once, the old one steps aside as PATH.old. */
static bool
replace(const char *path, const char *part, GError **error)
{
    g_autofree char *old = g_strconcat(path, ".old", NULL);

    if (!renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_EXCHANGE)) {
        mw_checkpoint_folder_remove(part);
        return true;
    }
    mw_checkpoint_folder_remove(old);
    if (rename(path, old) || rename(part, path))
        return fail(path, "cannot be replaced", error);
    mw_checkpoint_folder_remove(old);
    return true;
}

bool
mw_checkpoint_folder_commit(const char *path, const char *part, GError **error)
{
    g_autofree char *parent = g_path_get_dirname(path);

    if (!sync_folder(part, error))
        return false;
    if (g_file_test(path, G_FILE_TEST_EXISTS)) {
        if (!replace(path, part, error))
            return false;
    } else if (rename(part, path))
        return fail(path, "cannot be renamed into place", error);
    return sync_folder(parent, error);
}
