/*
 * description.h - rows of the table of families that are formulas; for model/ alone.
 */
#ifndef MW_MODEL_DESCRIPTION_H
#define MW_MODEL_DESCRIPTION_H

#include "model/config.h"
#include "model/formula.h"

/* What the class in "architectures" does: what follows "For" in its name, "Model" for a bare one;
 * as the family has it without such a key. */
const char *mw_task_of(const struct mw_family *family, const char *class_name);
/* It predicts tokens: with a product of the hidden states with the vocabulary. */
bool mw_task_is_language(const char *task);
/* Replaces the product with the vocabulary by the one that the task has.  `labels` classes. */
void mw_task_set_logits(struct mw_model *model, const char *task, int64_t labels);

/* Reads dimensions, flags, tensors and layers of a row of formulas; mw_model_complete comes after
 * it.  The model was begun for the row that says its dimensions. */
bool mw_description_read(const struct mw_config *config, const struct mw_formula_scope *scope);
/* Which layers have experts and windows, where the row says that in formulas. */
bool mw_description_sort(const struct mw_config *config, const struct mw_formula_scope *scope);
/* Lists with an entry for each of so many layers have no others, and say what the family has. */
bool mw_layer_lists_check(const struct mw_config *config, const struct mw_formula_scope *scope,
                          int64_t layers);
/* Adds what a row has beside dimensions and flags: tensors, stacks, towers. */
bool mw_description_add(const struct mw_config *config, const struct mw_formula_scope *scope);
/* Makes the layers of the model those of dimensions and flags and of its stacks. */
bool mw_description_mix(const struct mw_config *config);

/* Adds to what an answer says of the file. */
void mw_model_note(struct mw_model *model, const char *format, ...) G_GNUC_PRINTF(2, 3);

#endif
