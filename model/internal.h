/*
 * internal.h - the table of dimensions and the steps of reading a model; for model/ alone.
 */
#ifndef MW_MODEL_INTERNAL_H
#define MW_MODEL_INTERNAL_H

#include <json-glib/json-glib.h>
#include <stddef.h>

#include "base/arithmetic.h"
#include "model/model.h"

struct mw_dimension_info {
    const char *name; /* in presets */
    size_t offset;
    int64_t min, max;
};

extern const struct mw_dimension_info mw_dimensions[MW_DIMENSION_COUNT];

/* The names that a file has for the dimensions; NULL for one without a key. */
struct mw_dimension_names {
    const char *of[MW_DIMENSION_COUNT];
};
extern const struct mw_dimension_names mw_preset_names;

static inline int64_t *
mw_dimension_in(struct mw_model *model, int dimension)
{
    return (int64_t *)((char *)model + mw_dimensions[dimension].offset);
}

/* Initializes `model` from the row of its family.  Dimensions are 0 unless the family has a default
 * of its own.  False for an unknown family. */
bool mw_model_begin(struct mw_model *model, const char *architecture);
/* Sets absent dimensions to their defaults, then checks the whole model. */
bool mw_model_complete(struct mw_model *model, const struct mw_dimension_names *names,
                       const char *origin, GError **error);
/* Sets model->constants, or model->why_not if the executor does not run the model.  The constants
 * are those of the config.json `object` (`origin` names the file in errors); without an object they
 * are those of the family's published models. */
void mw_model_find_decoder(struct mw_model *model, JsonObject *object, const char *origin);
/* Whether the keys of losses of a router, which a plan counts too, are in order. */
bool mw_model_check_losses(const struct mw_model *model, JsonObject *object, const char *origin,
                           GError **error);
/* The type of the weights in a file, by torch's name; NULL or "auto": it says none. */
void mw_model_set_stored_type(struct mw_model *model, const char *name);
/* Cuts a `text` that is too long between two characters. */
void mw_model_set_name(struct mw_model *model, const char *text);

#endif
