/* Defaults of absent dimensions, and the conditions that a model must satisfy. */
#include <string.h>

#include "base/error.h"
#include "model/internal.h"

const struct mw_dimension_names mw_preset_names = {
    {"layers",       "hidden",
     "heads",        "kv_heads",
     "head_dim",     "value_dim",
     "ffn",          "vocab",
     "seq",          "embedding_dim",
     "experts",      "experts_per_token",
     "expert_ffn",   "shared_expert_ffn",
     "dense_layers", "q_lora",
     "kv_lora",      "rope_dim",
     "window",       "window_period"},
};

struct check {
    struct mw_model *model;
    const struct mw_dimension_names *names;
    const char *origin;
    GError **error;
};

static const char *
name_of(const struct check *check, int dimension)
{
    const char *name = check->names->of[dimension];

    return name ? name : mw_dimensions[dimension].name;
}

static int64_t
value_of(const struct check *check, int dimension)
{
    return *mw_dimension_in(check->model, dimension);
}

static bool G_GNUC_PRINTF(3, 4)
    refuse(const struct check *check, int dimension, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *accepted = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(check->error, MW_ERROR, MW_ERROR_INVALID,
                "%s: key \"%s\": value %" G_GINT64_FORMAT ": must %s", check->origin,
                name_of(check, dimension), value_of(check, dimension), accepted);
    return false;
}

static bool
refuse_missing(const struct check *check, int dimension)
{
    g_set_error(check->error, MW_ERROR, MW_ERROR_INVALID,
                "%s: key \"%s\": missing: must be a whole number from 1 to %" G_GINT64_FORMAT,
                check->origin, name_of(check, dimension), mw_dimensions[dimension].max);
    return false;
}

static bool
check_divides(const struct check *check, int dimension, int whole)
{
    if (value_of(check, dimension) > 0 && value_of(check, whole) % value_of(check, dimension) == 0)
        return true;
    return refuse(check, dimension, "divide %s (%" G_GINT64_FORMAT ")", name_of(check, whole),
                  value_of(check, whole));
}

static bool
check_at_most(const struct check *check, int dimension, int other)
{
    if (value_of(check, dimension) <= value_of(check, other))
        return true;
    return refuse(check, dimension, "be at most %s (%" G_GINT64_FORMAT ")", name_of(check, other),
                  value_of(check, other));
}

/* Includes rows that no position uses. */
#define POSITION_ROWS_MAX (INT64_C(1) << 29)

int64_t
mw_model_dimension_max(const char *name)
{
    for (int i = 0; i < MW_DIMENSION_COUNT; i++)
        if (!strcmp(mw_dimensions[i].name, name))
            return mw_dimensions[i].max;
    return strcmp(name, "position_rows") ? 0 : POSITION_ROWS_MAX;
}

static bool
check_ranges(const struct check *check)
{
    for (int i = 0; i < MW_DIMENSION_COUNT; i++) {
        const struct mw_dimension_info *info = &mw_dimensions[i];
        int64_t value = value_of(check, i);

        if (value < info->min || value > info->max)
            return refuse(check, i,
                          "be a whole number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                          info->min, info->max);
    }
    return true;
}

static bool
check_structure(const struct check *check)
{
    const struct mw_model *model = check->model;
    const char *wrong = NULL;

    if (model->mlp_matrices != 2 && model->mlp_matrices != 3)
        wrong = "key \"mlp_matrices\": must be 2 or 3";
    else if (model->norms_per_layer != 4 &&
             model->norms_per_layer != (model->parallel_block ? 1 : 2))
        wrong = "key \"norms_per_layer\": must be 2 or 4, in a parallel block 1";
    else if (model->position_rows < 0 || model->position_rows > POSITION_ROWS_MAX)
        wrong = "key \"position_rows\": must be a whole number from 0 to 536870912";
    if (wrong)
        g_set_error(check->error, MW_ERROR, MW_ERROR_INVALID, "%s: %s", check->origin, wrong);
    return !wrong;
}

static bool
check_experts(const struct check *check)
{
    const struct mw_model *model = check->model;

    if (!model->experts) {
        for (int i = MW_DIMENSION_EXPERTS_PER_TOKEN; i <= MW_DIMENSION_DENSE_LAYERS; i++)
            if (value_of(check, i))
                return refuse(check, i, "be absent without %s",
                              name_of(check, MW_DIMENSION_EXPERTS));
        return true;
    }
    if (!model->experts_per_token)
        return refuse_missing(check, MW_DIMENSION_EXPERTS_PER_TOKEN);
    if (!model->expert_ffn)
        return refuse_missing(check, MW_DIMENSION_EXPERT_FFN);
    return check_at_most(check, MW_DIMENSION_EXPERTS_PER_TOKEN, MW_DIMENSION_EXPERTS) &&
           check_at_most(check, MW_DIMENSION_DENSE_LAYERS, MW_DIMENSION_LAYERS);
}

static bool
check_latents(const struct check *check)
{
    if (check->model->kv_lora)
        return check_at_most(check, MW_DIMENSION_ROPE_DIM, MW_DIMENSION_HEAD_DIM);
    if (check->model->q_lora)
        return refuse(check, MW_DIMENSION_Q_LORA, "be absent without %s",
                      name_of(check, MW_DIMENSION_KV_LORA));
    if (check->model->rope_dim)
        return refuse(check, MW_DIMENSION_ROPE_DIM, "be absent without %s",
                      name_of(check, MW_DIMENSION_KV_LORA));
    return true;
}

static bool
check_params(const struct check *check)
{
    if (mw_model_params(check->model) <= MW_MODEL_PARAMS_MAX &&
        mw_model_params_paper(check->model) <= MW_MODEL_PARAMS_MAX)
        return true;
    g_set_error(check->error, MW_ERROR, MW_ERROR_INVALID,
                "%s: the dimensions make more than 10^17 parameters: must be at most 10^17",
                check->origin);
    return false;
}

static bool
check_all(const struct mw_model *model, const struct mw_dimension_names *names, const char *origin,
          GError **error)
{
    struct mw_model copy = *model;
    struct check check = {&copy, names, origin, error};

    return check_ranges(&check) && check_structure(&check) &&
           check_divides(&check, MW_DIMENSION_KV_HEADS, MW_DIMENSION_HEADS) &&
           check_experts(&check) && check_latents(&check) && check_params(&check);
}

bool
mw_model_validate(const struct mw_model *model, const char *origin, GError **error)
{
    return check_all(model, &mw_preset_names, origin, error);
}

static bool
complete_heads(const struct check *check)
{
    struct mw_model *model = check->model;

    if (!model->kv_heads)
        model->kv_heads = model->heads;
    if (!model->head_dim) {
        if (!check_divides(check, MW_DIMENSION_HEADS, MW_DIMENSION_HIDDEN))
            return false;
        model->head_dim = model->hidden / model->heads;
    }
    if (!model->value_dim)
        model->value_dim = model->head_dim;
    return true;
}

bool
mw_model_complete(struct mw_model *model, const struct mw_dimension_names *names,
                  const char *origin, GError **error)
{
    static const int required[] = {MW_DIMENSION_LAYERS, MW_DIMENSION_HIDDEN, MW_DIMENSION_HEADS,
                                   MW_DIMENSION_SEQ};
    struct check check = {model, names, origin, error};

    for (size_t i = 0; i < G_N_ELEMENTS(required); i++)
        if (!value_of(&check, required[i]))
            return refuse_missing(&check, required[i]);
    if (!complete_heads(&check))
        return false;
    if (!model->ffn)
        model->ffn = MW_PRODUCT(4, model->hidden);
    if (!model->embedding_dim)
        model->embedding_dim = model->hidden;
    if (model->learned_positions && model->vocab)
        model->position_rows += model->seq;
    else
        model->position_rows = 0;
    return check_all(model, names, origin, error);
}
