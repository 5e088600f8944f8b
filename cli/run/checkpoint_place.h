/*
 * checkpoint_place.h - which checkpoint a new one may replace, whoever writes it: none of more
 * steps, none of another model, and none that cannot be read, for nobody knows what that holds.
 */
#ifndef MW_CLI_RUN_CHECKPOINT_PLACE_H
#define MW_CLI_RUN_CHECKPOINT_PLACE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/trainer/checkpoint.h"

/* Why one of so many steps must not replace what is at `path`, in words that go behind it; NULL: it
 * may.  g_free it. */
char *cli_checkpoint_place_keeps(const char *path, const struct mw_decoder *decoder, int64_t steps);

/* Whether one of so many steps can be written to `path`, and may; false with *error, which begins
 * with `option` where it may not. */
bool cli_checkpoint_place_check(const char *option, const char *path,
                                const struct mw_decoder *decoder, int64_t steps, GError **error);

/* Before a checkpoint is looked for at PATH: what a save that was killed has left of its place is
 * put right, with a line. */
bool cli_checkpoint_place_mend(const char *path, GError **error);

/* The same as the `keeps` of mw_checkpoint_options; its data is the decoder. */
char *cli_checkpoint_place_keeps_late(const char *path, int64_t steps, void *decoder);
/* Where a checkpoint was put beside its place, that is said. */
void cli_checkpoint_place_tell(const char *option, const char *path,
                               const struct mw_checkpoint_place *place);
/* A folder that is not there yet, for one that cannot be written to `path`: in the working
 * directory (`attempt` 1), in the user's home (2); NULL: there is no other.  g_free it. */
char *cli_checkpoint_place_other(const char *path, int64_t steps, int attempt);

#endif
