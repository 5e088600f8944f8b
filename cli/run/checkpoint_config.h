/* checkpoint_config.h - the config.json beside the weights that a run writes. */
#ifndef MW_CLI_RUN_CHECKPOINT_CONFIG_H
#define MW_CLI_RUN_CHECKPOINT_CONFIG_H

#include <glib.h>

#include "plan/decoder.h"
#include "model/model.h"

/* The file that the model was read from; for a preset, one made from its dimensions.  g_free it. */
char *cli_checkpoint_config(const char *model_name, const struct mw_decoder *decoder);

#endif
