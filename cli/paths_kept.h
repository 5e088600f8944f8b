/*
 * paths_kept.h - files that are part of what is kept to be gone on with, whichever command has left
 * it: a run's state, a checkpoint.  What replaces one of them ends the whole.
 */
#ifndef MW_CLI_PATHS_KEPT_H
#define MW_CLI_PATHS_KEPT_H

/* What a file of this name is part of, or would be, as "a run"; NULL: nothing.  No link is
 * followed but those of its folder. */
const char *cli_path_part_of(const char *path);

#endif
