/*
 * launch.h - a pick as a folder that carries it out with other software.
 */
#ifndef MW_CLI_EXPORT_LAUNCH_H
#define MW_CLI_EXPORT_LAUNCH_H

#include <glib.h>
#include <stdbool.h>

/* Plans the pick again, writes the target's files to `folder`, and says on standard output what is
 * in there and the line that starts it.  A folder that is there is refused unless it is empty, or
 * unless `replace` and it has such files alone.  False with *error: nothing has changed. */
bool cli_export_pick(const char *path, const char *pick, const char *target, const char *folder,
                     bool replace, GError **error);

#endif
