#include "exec/commit/run_aside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/commit/run_files_internal.h"

static const char *const names[] = {
    [MW_RUN_ASIDE_MOVING] = "memwall-moving",
    [MW_RUN_ASIDE_REPLACED] = "memwall-replaced",
    [MW_RUN_ASIDE_DISCARDED] = "memwall-discarded",
};

/* A directory and one of our folders in it; -1: not open. */
struct place {
    const char *directory;
    int outer, inner;
    enum mw_run_aside which;
};

static bool
fail(const char *directory, enum mw_run_aside which, const char *name, GError **error)
{
    const int reason = errno;

    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s/%s%s%s: %s", directory, names[which],
                name ? "/" : "", name ? name : "", g_strerror(reason));
    return false;
}

/* --- places ---------------------------------------------------------------------------------- */

char *
mw_run_aside_path(const char *directory, enum mw_run_aside which)
{
    return g_build_filename(directory, names[which], NULL);
}

/* Follows no link, and accepts no other user's folder. */
static bool
is_ours(const char *directory, enum mw_run_aside which)
{
    g_autofree char *path = mw_run_aside_path(directory, which);
    struct stat info;

    return !lstat(path, &info) && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

enum mw_run_aside
mw_run_aside_look(const char *directory)
{
    for (int which = MW_RUN_ASIDE_MOVING; which <= MW_RUN_ASIDE_DISCARDED; which++)
        if (is_ours(directory, which))
            return which;
    return MW_RUN_ASIDE_NONE;
}

static void
close_place(struct place *place)
{
    if (place->inner >= 0)
        close(place->inner);
    if (place->outer >= 0)
        close(place->outer);
    place->inner = place->outer = -1;
}

static bool
open_place(struct place *place, const char *directory, enum mw_run_aside which, bool make,
           GError **error)
{
    *place = (struct place){directory, mw_own_open_folder(directory), -1, which};
    if (place->outer >= 0 && (!make || !mkdirat(place->outer, names[which], 0700)))
        place->inner =
            openat(place->outer, names[which], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place->inner >= 0)
        return true;
    fail(directory, which, NULL, error);
    close_place(place);
    return false;
}

static bool
sync_both(const struct place *place, GError **error)
{
    return mw_run_files_sync_folder(place->inner, place->directory, error) &&
           mw_run_files_sync_folder(place->outer, place->directory, error);
}

static bool
refuse_taken(const char *directory, enum mw_run_aside which, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s/%s: is in the way and belongs to no run: move it away", directory,
                names[which]);
    return false;
}

/* Makes the rename durable at once, since the next steps rely on it. */
static bool
turn_into(struct place *place, enum mw_run_aside which, GError **error)
{
    if (renameat(place->outer, names[place->which], place->outer, names[which]))
        return errno == ENOTDIR || errno == EEXIST || errno == ENOTEMPTY
                   ? refuse_taken(place->directory, which, error)
                   : fail(place->directory, which, NULL, error);
    place->which = which;
    return mw_run_files_sync_folder(place->outer, place->directory, error);
}

/* char *: names of the run's files in the folder, its description last; NULL with *error. */
static GPtrArray *
files_in(const struct place *place, GError **error)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
    int own = fcntl(place->inner, F_DUPFD_CLOEXEC, 0);
    DIR *stream = own < 0 ? NULL : fdopendir(own);
    bool described = false;

    if (!stream) {
        fail(place->directory, place->which, NULL, error);
        if (own >= 0)
            close(own);
        g_ptr_array_unref(list);
        return NULL;
    }
    rewinddir(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        bool description = !strcmp(entry->d_name, MW_RUN_DESCRIPTION);
        described |= description;
        if (mw_run_files_is_name(entry->d_name) && !description)
            g_ptr_array_add(list, g_strdup(entry->d_name));
    }
    closedir(stream);
    if (described)
        g_ptr_array_add(list, g_strdup(MW_RUN_DESCRIPTION));
    return list;
}

static bool
remove_folder(const struct place *place, GError **error)
{
    if (unlinkat(place->outer, names[place->which], AT_REMOVEDIR) && errno != ENOENT) {
        if (errno != EEXIST && errno != ENOTEMPTY)
            return fail(place->directory, place->which, NULL, error);
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s/%s: holds files that belong to no run: move them away", place->directory,
                    names[place->which]);
        return false;
    }
    return mw_run_files_sync_folder(place->outer, place->directory, error);
}

/* --- set aside ------------------------------------------------------------------------------- */

static bool
move_in(const struct place *place, const char *name, GError **error)
{
    if (!renameat(place->outer, name, place->inner, name) || errno == ENOENT)
        return true;
    return fail(place->directory, place->which, name, error);
}

/* Moves the description first: a description beside the folder is that of the replacing run. */
static bool
move_all_in(const struct place *place, const struct mw_run_files *files, GError **error)
{
    if (!move_in(place, MW_RUN_DESCRIPTION, error))
        return false;
    for (guint i = 0; i < files->names->len; i++) {
        const char *name = g_ptr_array_index(files->names, i);
        if (!mw_run_files_is_lock(name) && !move_in(place, name, error))
            return false;
    }
    return sync_both(place, error);
}

static bool
set_aside(const char *directory, const struct mw_run_files *files, GError **error)
{
    g_autoptr(GArray) held = g_array_new(FALSE, FALSE, sizeof(int));
    struct place place;

    if (!open_place(&place, directory, MW_RUN_ASIDE_MOVING, true, error))
        return false;
    bool good = mw_run_files_lock(files, place.outer, directory, true, held, error) &&
                move_all_in(&place, files, error) &&
                turn_into(&place, MW_RUN_ASIDE_REPLACED, error);
    for (guint i = 0; i < held->len; i++)
        close(g_array_index(held, int, i));
    close_place(&place);
    return good;
}

/* The lock of the whole run alone is no run. */
static bool
holds_files(const struct mw_run_files *files)
{
    for (guint i = 0; i < files->names->len; i++)
        if (!mw_run_files_is_lock(g_ptr_array_index(files->names, i)))
            return true;
    return false;
}

/* Refuses if a folder that is not ours has a name that would be in the way later, when the run is
 * in progress. */
static bool
are_names_free(const char *directory, GError **error)
{
    for (int which = MW_RUN_ASIDE_MOVING; which <= MW_RUN_ASIDE_DISCARDED; which++) {
        g_autofree char *path = mw_run_aside_path(directory, which);
        struct stat info;
        if (!lstat(path, &info) && !is_ours(directory, which))
            return refuse_taken(directory, which, error);
    }
    return true;
}

bool
mw_run_aside_begin(const char *directory, GError **error)
{
    struct mw_run_files files;

    if (!are_names_free(directory, error))
        return false;
    if (is_ours(directory, MW_RUN_ASIDE_DISCARDED) && !mw_run_aside_delete(directory, error))
        return false;
    bool good = mw_run_files_look(directory, &files, error);
    if (good && holds_files(&files))
        good = set_aside(directory, &files, error);
    mw_run_files_clear(&files);
    return good;
}

/* --- put back -------------------------------------------------------------------------------- */

/* Moves the description after all files that it describes. */
static bool
move_all_out(const struct place *place, GError **error)
{
    g_autoptr(GPtrArray) list = files_in(place, error);

    for (guint i = 0; list && i < list->len; i++) {
        const char *name = g_ptr_array_index(list, i);
        if (renameat(place->inner, name, place->outer, name) && errno != ENOENT)
            return fail(place->directory, place->which, name, error);
    }
    return list && sync_both(place, error) && remove_folder(place, error);
}

bool
mw_run_aside_return(const char *directory, GError **error)
{
    enum mw_run_aside which = mw_run_aside_look(directory);
    struct place place;

    if (which != MW_RUN_ASIDE_MOVING && which != MW_RUN_ASIDE_REPLACED)
        return true;
    if (which == MW_RUN_ASIDE_REPLACED && !mw_run_files_remove(directory, true, error))
        return false;
    if (!open_place(&place, directory, which, false, error))
        return false;
    bool good = (which == MW_RUN_ASIDE_MOVING || turn_into(&place, MW_RUN_ASIDE_MOVING, error)) &&
                move_all_out(&place, error);
    close_place(&place);
    return good;
}

/* --- delete ---------------------------------------------------------------------------------- */

bool
mw_run_aside_discard(const char *directory, GError **error)
{
    struct place place;

    if (!is_ours(directory, MW_RUN_ASIDE_REPLACED))
        return true;
    if (!open_place(&place, directory, MW_RUN_ASIDE_REPLACED, false, error))
        return false;
    g_autoptr(GError) why = NULL;
    bool good = turn_into(&place, MW_RUN_ASIDE_DISCARDED, &why) ||
                !is_ours(directory, MW_RUN_ASIDE_REPLACED);
    if (!good)
        g_propagate_error(error, g_steal_pointer(&why));
    close_place(&place);
    return good;
}

/* Several processes may do this at the same time. */
bool
mw_run_aside_delete(const char *directory, GError **error)
{
    struct place place;

    if (!is_ours(directory, MW_RUN_ASIDE_DISCARDED))
        return true;
    if (!open_place(&place, directory, MW_RUN_ASIDE_DISCARDED, false, error))
        return false;
    g_autoptr(GPtrArray) list = files_in(&place, error);
    bool good = list != NULL;
    for (guint i = 0; good && i < list->len; i++) {
        const char *name = g_ptr_array_index(list, i);
        good = !unlinkat(place.inner, name, 0) || errno == ENOENT ||
               fail(directory, MW_RUN_ASIDE_DISCARDED, name, error);
    }
    good = good && remove_folder(&place, error);
    close_place(&place);
    return good;
}
