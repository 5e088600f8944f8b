/*
 * decoder.h - from the planner's model to the one that the executor runs.
 *
 * The planner's model has the dimensions; what it has no need of (norm epsilon, rotary base,
 * activation function) is in the config.json that it was read from.  A preset gets the values that
 * the models of its architecture were published with, rotary positions unstretched.
 */
#ifndef MW_CLI_RUN_DECODER_H
#define MW_CLI_RUN_DECODER_H

#include <glib.h>
#include <stdbool.h>

#include "exec/data/decoder.h"
#include "model/model.h"

/* What config.json may say, and so what a record of a run can have. */
#define MW_DECODER_EPSILON_MAX 1.0
#define MW_DECODER_THETA_MAX 1e12
#define MW_DECODER_STRETCH_MIN 1e-3 /* of the factors of frequencies; that of all: 1 */
#define MW_DECODER_STRETCH_MAX 1e6
#define MW_DECODER_POSITIONS_MAX (INT64_C(1) << 40)

/* `name_or_path` is what `model` was loaded from.  False with `error` set for a model that the
 * executor cannot run: which part of it, and what it can. */
bool mw_decoder_read(const struct mw_model *model, const char *name_or_path,
                     struct mw_decoder *decoder, GError **error);
/* Of the text of a config.json; `origin` names it in errors. */
bool mw_decoder_parse(const char *text, const char *origin, struct mw_decoder *decoder,
                      GError **error);

#endif
