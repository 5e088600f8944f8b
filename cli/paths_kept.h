/*
 * paths_kept.h - files that a resume needs, whichever command wrote them: parts of a run's state or
 * of a checkpoint.  Replacing one of them destroys the whole.
 */
#ifndef MW_CLI_PATHS_KEPT_H
#define MW_CLI_PATHS_KEPT_H

/* What a file of this name is a part of, or would be: "a run", "a checkpoint"; NULL: neither.
 * Follows links of its folder only. */
const char *cli_path_part_of(const char *path);

#endif
