/*
 * internal.h - shared within model/ alone: the dimensions as a table, architecture
 * templates.
 */
#ifndef MW_MODEL_INTERNAL_H
#define MW_MODEL_INTERNAL_H

#include <json-glib/json-glib.h>
#include <stddef.h>

#include "base/arithmetic.h"
#include "model/model.h"

enum mw_dimension {
    MW_DIMENSION_LAYERS,
    MW_DIMENSION_HIDDEN,
    MW_DIMENSION_HEADS,
    MW_DIMENSION_KV_HEADS,
    MW_DIMENSION_HEAD_DIM,
    MW_DIMENSION_VALUE_DIM,
    MW_DIMENSION_FFN,
    MW_DIMENSION_VOCAB,
    MW_DIMENSION_SEQ,
    MW_DIMENSION_EMBEDDING_DIM,
    MW_DIMENSION_EXPERTS,
    MW_DIMENSION_EXPERTS_PER_TOKEN,
    MW_DIMENSION_EXPERT_FFN,
    MW_DIMENSION_SHARED_EXPERT_FFN,
    MW_DIMENSION_DENSE_LAYERS,
    MW_DIMENSION_Q_LORA,
    MW_DIMENSION_KV_LORA,
    MW_DIMENSION_ROPE_DIM,
    MW_DIMENSION_COUNT
};

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

/* Starts `model` as its architecture's template, dimensions 0 save where the architecture has a
 * default of its own.  False for an unknown architecture. */
bool mw_model_begin(struct mw_model *model, const char *architecture);
/* Gives absent dimensions their defaults, which must divide, then checks the whole. */
bool mw_model_complete(struct mw_model *model, const struct mw_dimension_names *names,
                       const char *origin, GError **error);
/* Fills in model->constants, from the object of a config.json where there is one (`origin` names
 * it), else as models of the architecture were published; or says why there is none. */
void mw_model_find_decoder(struct mw_model *model, JsonObject *object, const char *origin);
/* `text` cut at a character's boundary. */
void mw_model_set_name(struct mw_model *model, const char *text);

#endif
