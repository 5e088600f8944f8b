/*
 * paths.h - the files of a command line: what it writes is neither what it reads, nor where a run
 * keeps its state, nor another thing that it writes, nor part of what other commands have left to
 * be gone on with (paths_kept.h), by whatever name: files are the same by device and inode, those
 * that are not there yet by folder and name, and a link is also what it leads to.
 */
#ifndef MW_CLI_PATHS_H
#define MW_CLI_PATHS_H

#include <glib.h>
#include <stdbool.h>
#include <sys/stat.h>

enum cli_path_use {
    CLI_PATH_READS,
    CLI_PATH_READS_MODEL,   /* a preset, which is no file, or a config.json */
    CLI_PATH_READS_PROFILE, /* a name, which leads to a file, or an .ini */
    CLI_PATH_READS_WEIGHTS, /* a file of weights, its index, or their folder */
    CLI_PATH_WRITES,
    CLI_PATH_REPLACES, /* a folder, with all that is in it */
    CLI_PATH_KEEPS,    /* a folder in which a run has its files */
};

struct cli_path {
    enum cli_path_use use;
    const char *option; /* as it is written, with its dashes; or what else names the file */
    const char *path;   /* NULL: not given */
};

/* Whether both are of the same file or folder. */
bool cli_path_is_same(const struct stat *a, const struct stat *b);

/* False with *error, one line that has both options.  A device, such as /dev/null, may be written
 * by several. */
bool cli_paths_check(const struct cli_path *paths, size_t count, GError **error);

#endif
