/*
 * internal.h - shared within model/ alone: the dimensions as a table, a model on its way.
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

/* What a file calls the dimensions; NULL where it has no key. */
struct mw_dimension_names {
    const char *of[MW_DIMENSION_COUNT];
};
extern const struct mw_dimension_names mw_preset_names;

static inline int64_t *
mw_dimension_in(struct mw_model *model, int dimension)
{
    return (int64_t *)((char *)model + mw_dimensions[dimension].offset);
}

/* Starts `model` as the row of its family says, dimensions 0 save where the family has a default of
 * its own.  False for an unknown family. */
bool mw_model_begin(struct mw_model *model, const char *architecture);
/* Gives absent dimensions their defaults, which must divide, then checks the whole. */
bool mw_model_complete(struct mw_model *model, const struct mw_dimension_names *names,
                       const char *origin, GError **error);
/* Fills in model->constants, from the object of a config.json where there is one (`origin` names
 * it), else as models of the family were published; or says why there is none. */
void mw_model_find_decoder(struct mw_model *model, JsonObject *object, const char *origin);
/* `text` cut at a character's boundary. */
void mw_model_set_name(struct mw_model *model, const char *text);

#endif
