/*
 * formula.h - small formulas over the keys of a config.json; for model/ alone.
 *
 * Rows of the table of families say with them what dimensions and tensors a family has
 * (families/family.h, "formulas", has the language).  Whatever a file holds, the result is a whole
 * number from 0 to MW_FORMULA_MAX, or an error of one line that names the key.
 */
#ifndef MW_MODEL_FORMULA_H
#define MW_MODEL_FORMULA_H

#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "families/family.h"

#define MW_FORMULA_MAX (INT64_C(1) << 40)

/* Where names are looked up: the keys of `object`, then what the family says of absent ones.  The
 * caller owns all of it. */
struct mw_formula_scope {
    JsonObject *object;
    const struct mw_family *family;
    const char *task; /* the name "task" */
    const char *type; /* the name "type": the model's type as the file spells it */
    int64_t layer;    /* the name "layer" */
    const char *origin;
    GHashTable *lists; /* of numbers, seen before: mw_formula_lists() */
};

GHashTable *mw_formula_lists(void); /* the caller owns it */

/* The model type that a part of a file says, such as "vision_config"; `otherwise` where it says
 * none, or that of the `whole`, which some versions of transformers write into its parts. */
const char *mw_formula_type_of_part(JsonObject *part, const char *whole, const char *otherwise);

/* A name without a value counts as 0 where a condition is asked for, and is an error elsewhere. */
bool mw_formula_number(const struct mw_formula_scope *scope, const char *formula, int64_t *out,
                       GError **error);
bool mw_formula_condition(const struct mw_formula_scope *scope, const char *formula, bool *out,
                          GError **error);

#endif
