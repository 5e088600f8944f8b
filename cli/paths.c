#include "cli/paths.h"

#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "cli/paths_kept.h"
#include "exec/commit/run_files.h"
#include "hardware/hwprofile.h"

/* The file or folder that a path leads to. */
struct place {
    struct stat file, folder;
    bool there, in_folder; /* which of these are known */
    char *base;
};

static struct place
place_of(const char *path)
{
    g_autofree char *parent = g_path_get_dirname(path);
    struct place place = {.base = g_path_get_basename(path)};

    place.there = !stat(path, &place.file);
    place.in_folder = !stat(parent, &place.folder);
    return place;
}

bool
cli_path_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool
are_same(const struct place *a, const struct place *b)
{
    if (a->there != b->there)
        return false;
    if (a->there)
        return cli_path_is_same(&a->file, &b->file) && !S_ISCHR(a->file.st_mode);
    return a->in_folder && b->in_folder && cli_path_is_same(&a->folder, &b->folder) &&
           !strcmp(a->base, b->base);
}

static bool
is_in(const struct place *file, const struct place *folder)
{
    return file->in_folder && folder->there && cli_path_is_same(&file->folder, &folder->file);
}

/* Weights in several files are held by their folder, or by that of their index. */
static bool
is_of_weights(const struct place *file, const struct place *weights)
{
    bool with_index = weights->there && S_ISREG(weights->file.st_mode) &&
                      g_str_has_suffix(weights->base, ".json") && file->in_folder &&
                      cli_path_is_same(&file->folder, &weights->folder);

    return file->there &&
           (g_str_has_suffix(file->base, ".safetensors") ||
            g_str_has_suffix(file->base, ".index.json")) &&
           (with_index || is_in(file, weights));
}

static bool
is_file_of(const struct cli_path *path)
{
    const char *end = path->use == CLI_PATH_READS_MODEL ? ".json" : ".ini";
    bool may_be_name = path->use == CLI_PATH_READS_MODEL || path->use == CLI_PATH_READS_PROFILE;

    return !may_be_name || strchr(path->path, '/') || g_str_has_suffix(path->path, end);
}

static bool
reads_it(enum cli_path_use use, const struct place *one, const struct place *two)
{
    if (are_same(one, two))
        return true;
    if (use == CLI_PATH_READS_MODEL)
        return one->there && is_in(one, two) && !strcmp(one->base, "config.json");
    return use == CLI_PATH_READS_WEIGHTS && is_of_weights(one, two);
}

/* What `other` does with the file that `one` writes, or with its folder; NULL: nothing. */
static const char *
verdict(const struct cli_path *written, const struct place *one, const struct cli_path *other,
        const struct place *two)
{
    bool folder = written->use == CLI_PATH_REPLACES;

    switch (other->use) {
    case CLI_PATH_READS:
    case CLI_PATH_READS_MODEL:
    case CLI_PATH_READS_PROFILE:
    case CLI_PATH_READS_WEIGHTS:
        /* A checkpoint may be replaced by its own continuation. */
        return !folder && is_file_of(other) && reads_it(other->use, one, two) ? "reads that file"
                                                                              : NULL;
    case CLI_PATH_WRITES:
        return are_same(one, two) ? "writes that file" : NULL;
    case CLI_PATH_REPLACES:
        return are_same(one, two) || is_in(one, two) ? "replaces that folder" : NULL;
    case CLI_PATH_KEEPS:
        if (folder ? are_same(one, two) : is_in(one, two) && mw_run_files_is_name(one->base))
            return "keeps the run there";
    }
    return NULL;
}

static const char *
conflict_at(const struct cli_path *written, const char *at, const struct cli_path *other,
            const char *other_at)
{
    struct place one = place_of(at), two = place_of(other_at);
    const char *what = verdict(written, &one, other, &two);

    g_free(one.base);
    g_free(two.base);
    return what;
}

/* A folder to be made may be named "out/" or "out/.", or through a folder that does not exist: all
 * mean the same.  NULL: a file's name stays as it is. */
static char *
folder_of(const struct cli_path *path)
{
    return path->use == CLI_PATH_REPLACES ? g_canonicalize_filename(path->path, NULL) : NULL;
}

/* Compares both by name, and by what the names lead to. */
static const char *
conflict(const struct cli_path *written, const struct cli_path *asked)
{
    g_autofree char *named = asked->use == CLI_PATH_READS_PROFILE
                                 ? mw_profile_path(&mw_hwprofile_kind, asked->path)
                                 : NULL;
    const struct cli_path found = {asked->use, asked->option, named ? named : asked->path};
    const struct cli_path *other = &found;
    g_autofree char *end = mw_file_end_of_links(written->path),
                    *other_end = mw_file_end_of_links(other->path);
    g_autofree char *whole = folder_of(written), *other_whole = folder_of(other);
    const char *const at[] = {written->path, end, whole};
    const char *const other_at[] = {other->path, other_end, other_whole};
    const char *what = NULL;

    for (int i = 0; i < 9 && !what; i++)
        if (at[i / 3] && other_at[i % 3])
            what = conflict_at(written, at[i / 3], other, other_at[i % 3]);
    return what;
}

static bool
is_written(const struct cli_path *path)
{
    return path->use == CLI_PATH_WRITES || path->use == CLI_PATH_REPLACES;
}

static bool
is_given(const struct cli_path *path)
{
    return path->path && *path->path;
}

/* Of two written files the message names the later one first, and a folder after the file in it. */
static bool
is_asked(const struct cli_path *paths, size_t i, size_t j)
{
    if (i == j || !is_given(&paths[i]) || !is_given(&paths[j]) || !is_written(&paths[i]))
        return false;
    if (!is_written(&paths[j]))
        return true;
    return paths[i].use == paths[j].use ? j < i : paths[i].use == CLI_PATH_WRITES;
}

static bool
check_kept(const struct cli_path *path, GError **error)
{
    g_autofree char *end = mw_file_end_of_links(path->path);
    const char *whole = cli_path_part_of(path->path);

    if (whole)
        return mw_refuse(error, "%s %s: is a file of %s; give another", path->option, path->path,
                         whole);
    whole = end ? cli_path_part_of(end) : NULL;
    return !whole || mw_refuse(error, "%s %s: leads to %s, a file of %s; give another",
                               path->option, path->path, end, whole);
}

bool
cli_paths_check(const struct cli_path *paths, size_t count, GError **error)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            const char *what = is_asked(paths, i, j) ? conflict(&paths[i], &paths[j]) : NULL;
            if (what)
                return mw_refuse(error, "%s %s: %s %s; give another", paths[i].option,
                                 paths[i].path, paths[j].option, what);
        }
    for (size_t i = 0; i < count; i++)
        if (paths[i].use == CLI_PATH_WRITES && is_given(&paths[i]) && !check_kept(&paths[i], error))
            return false;
    return true;
}
