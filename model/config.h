/*
 * config.h - a Hugging Face config.json on its way into a model; for model/config*.c alone.
 */
#ifndef MW_MODEL_CONFIG_H
#define MW_MODEL_CONFIG_H

#include <json-glib/json-glib.h>

#include "model/internal.h"

/* One file on its way into a model. */
struct mw_config {
    JsonObject *object;
    const char *origin;
    struct mw_model *model;
    GError **error;
};

/* Reads the keys of the model's family that are neither dimensions nor constants of a run. */
bool mw_config_read_keys(const struct mw_config *config);
/* Another name of a key that the family reads. */
bool mw_config_is_alias(const struct mw_family *family, const char *key);

/* Some formula of the row, or a meaning, names the key. */
bool mw_config_is_read(const struct mw_family *family, const char *key);
/* Notes the keys that nothing reads and that may change the answer.  `family` is the file's row,
 * which may have towers. */
void mw_config_note_unread(const struct mw_config *config, const struct mw_family *family);

#endif
