/*
 * checkpoint_place.h - decides which checkpoint a new one may replace: none with more steps, none
 * of another model, and none that cannot be read, because its content is not known.
 */
#ifndef MW_CLI_RUN_CHECKPOINT_PLACE_H
#define MW_CLI_RUN_CHECKPOINT_PLACE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/trainer/checkpoint.h"

/* Why a checkpoint of `steps` steps must not replace what is at `path`, as words that follow the
 * path; NULL: it may.  g_free it. */
char *cli_checkpoint_place_keeps(const char *path, const struct mw_decoder *decoder, int64_t steps);

/* Checks that a checkpoint of `steps` steps can and may be written to `path`; false with *error,
 * which begins with `option`. */
bool cli_checkpoint_place_check(const char *option, const char *path,
                                const struct mw_decoder *decoder, int64_t steps, GError **error);

/* Repairs what a killed save left at PATH, and says so.  Call it before looking for a checkpoint
 * there. */
bool cli_checkpoint_place_repair(const char *path, GError **error);

/* The same as a callback: `keeps` of mw_checkpoint_options; its data is the decoder. */
char *cli_checkpoint_place_keeps_late(const char *path, int64_t steps, void *decoder);
/* Says where the checkpoint is if it was put beside its place. */
void cli_checkpoint_place_tell(const char *option, const char *path,
                               const struct mw_checkpoint_place *place);
/* A folder that does not exist yet, for a checkpoint that cannot be written to `path`: in the
 * working directory (`attempt` 1) or in the user's home (2); NULL: there is no other.  g_free
 * it. */
char *cli_checkpoint_place_other(const char *path, int64_t steps, int attempt);

#endif
