/*
 * axes.h - the axes of a space, as options name them: --over, --points, and lists of names.
 */
#ifndef MW_CLI_SWEEP_AXES_H
#define MW_CLI_SWEEP_AXES_H

#include "cli/cli.h"
#include "lib/space.h"

struct cli_axes {
    char **over, *points_file; /* of the two options; or NULL */
};

/* Fills the space.  Options of the request that are lists become axes, and are open then; a model
 * and a machine that only axes have are set to those of the first point.  For a verb's
 * cli_complete. */
bool cli_axes_fill(const struct cli_axes *axes, struct mw_space *space, struct cli_request *request,
                   char **strategies, GError **error);
/* How many have numbers alone, and not the same one everywhere. */
int cli_axes_of_numbers(const struct mw_space *space);

#endif
