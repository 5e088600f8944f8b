/*
 * paths.h - checks the files of a command line against each other.  A command must not write what
 * it reads, where a run keeps its state, the same file twice, or a part of what a resume needs
 * (paths_kept.h), whatever the names.  Files are the same if device and inode are, or folder and
 * name for files that do not exist yet; a link stands for itself and for its target.
 */
#ifndef MW_CLI_PATHS_H
#define MW_CLI_PATHS_H

#include <glib.h>
#include <stdbool.h>
#include <sys/stat.h>

enum cli_path_use {
    CLI_PATH_READS,
    CLI_PATH_READS_MODEL,   /* a preset, which is not a file, or a config.json */
    CLI_PATH_READS_PROFILE, /* a name, which leads to a file, or an .ini */
    CLI_PATH_READS_WEIGHTS, /* a file of weights, its index, or their folder */
    CLI_PATH_WRITES,
    CLI_PATH_REPLACES, /* a folder, with all that is in it */
    CLI_PATH_KEEPS,    /* a folder in which a run has its files */
};

struct cli_path {
    enum cli_path_use use;
    const char *option; /* with its dashes; or what else names the file */
    const char *path;   /* NULL: not given */
};

/* Whether both lead to the same file or folder. */
bool cli_path_is_same(const struct stat *a, const struct stat *b);

/* False with *error, one line that names both options.  Several options may write to a device, such
 * as /dev/null. */
bool cli_paths_check(const struct cli_path *paths, size_t count, GError **error);

#endif
