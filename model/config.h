/*
 * config.h - the kinds of Hugging Face config.json; for model/config*.c alone.
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

struct mw_config_kind {
    const char *type;         /* model_type */
    const char *prefix;       /* of the class in "architectures"; NULL: never found by it */
    const char *architecture; /* of mw_model_begin */
    const struct mw_dimension_names *names;
    bool (*read)(const struct mw_config *config); /* the rest, after the dimensions; may be NULL */
};

extern const struct mw_config_kind mw_config_kinds[];
extern const int mw_config_kind_count;

#endif
