/* Derives from a model the decoder that the executor runs. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/internal.h"

/* A list such as "gpt2, llama or qwen2". */
static char *
families_that_run(void)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (int i = 0; mw_family_runs_name(i); i++)
        g_string_append_printf(names, "%s%s",
                               !i                           ? ""
                               : mw_family_runs_name(i + 1) ? ", "
                                                            : " or ",
                               mw_family_runs_name(i));
    return g_string_free(g_steal_pointer(&names), FALSE);
}

static bool
refuse(const struct mw_model *model, const char *what, GError **error)
{
    g_autofree char *known = families_that_run();

    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "model %s: %s: must be a decoder of type %s to run here (it can be planned "
                "and simulated)",
                model->name, what, known);
    return false;
}

/* All layers have the same experts, and nothing beside them. */
static bool
is_plain_mixture(const struct mw_model *model)
{
    return model->family->run.tensors->of[MW_WEIGHT_ROUTER] && !model->dense_layers &&
           !model->by_turns && !model->shared_expert_ffn && !model->router_bias && !model->mlp_bias;
}

static bool
check(const struct mw_model *model, GError **error)
{
    if (model->family->why_not)
        return refuse(model, model->family->why_not, error);
    if (model->experts && !is_plain_mixture(model))
        return refuse(model, "a mixture of experts with layers or experts of other kinds", error);
    if (model->kv_lora)
        return refuse(model, "latent attention", error);
    if (model->qk_norm && !model->family->run.tensors->of[MW_WEIGHT_Q_NORM])
        return refuse(model, "norms of q and k", error);
    if (model->tensor_count || model->mixed)
        return refuse(model, "tensors beside those of such a decoder", error);
    if (model->bare || model->classes)
        return refuse(model, "no logits over the vocabulary", error);
    if (!model->vocab)
        return refuse(model, "a stack of blocks without a vocabulary", error);
    return true;
}

/* --- config.json ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum mw_decoder_activation activation;
    enum mw_decoder_kind kind;
} activations[] = {
    {"gelu_new", MW_ACTIVATION_GELU_TANH, MW_DECODER_GPT2},
    {"gelu_pytorch_tanh", MW_ACTIVATION_GELU_TANH, MW_DECODER_GPT2},
    {"gelu_fast", MW_ACTIVATION_GELU_TANH, MW_DECODER_GPT2},
    {"gelu", MW_ACTIVATION_GELU_ERF, MW_DECODER_GPT2},
    {"relu", MW_ACTIVATION_RELU, MW_DECODER_GPT2},
    {"silu", MW_ACTIVATION_SILU, MW_DECODER_LLAMA},
    {"swish", MW_ACTIVATION_SILU, MW_DECODER_LLAMA},
};

static bool
read_activation(JsonObject *object, const char *key, const char *origin, struct mw_decoder *decoder,
                GError **error)
{
    const char *name = NULL;

    if (!mw_json_get_string(object, key, origin, &name, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(activations); i++) {
        if (name && activations[i].kind == decoder->kind && !strcmp(name, activations[i].name)) {
            decoder->activation = activations[i].activation;
            return true;
        }
    }
    if (!name)
        return true;
    g_autofree char *shown = g_strescape(name, NULL);
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %s: must be %s", origin,
                key, shown, decoder->kind == MW_DECODER_GPT2 ? "gelu_new, gelu or relu" : "silu");
    return false;
}

/* Fails for variants of a model that the executor does not compute. */
static bool
expect_flag(JsonObject *object, const char *key, bool expected, const char *origin, GError **error)
{
    bool value = expected;

    if (!mw_json_get_bool(object, key, origin, &value, error))
        return false;
    if (value == expected)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %s: must be %s", origin,
                key, value ? "true" : "false", expected ? "true" : "false");
    return false;
}

static JsonObject *
child(JsonObject *object, const char *key)
{
    JsonNode *node = json_object_get_member(object, key);

    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

static bool
read_stretching(JsonObject *object, const char *origin, struct mw_rope_scaling *scaling,
                GError **error)
{
    const double least = MW_DECODER_STRETCH_MIN, most = MW_DECODER_STRETCH_MAX;

    return mw_json_get_number(object, "factor", 1, most, origin, &scaling->factor, error) &&
           mw_json_get_number(object, "low_freq_factor", least, most, origin,
                              &scaling->low_frequency_factor, error) &&
           mw_json_get_number(object, "high_freq_factor", least, most, origin,
                              &scaling->high_frequency_factor, error) &&
           mw_json_get_int(object, "original_max_position_embeddings", 1, MW_DECODER_POSITIONS_MAX,
                           origin, &scaling->original_positions, error);
}

/* Files have theta beside "rope_scaling", or both in "rope_parameters" (transformers 5). */
static bool
read_rotary(JsonObject *object, const char *key, const char *origin, struct mw_decoder *decoder,
            GError **error)
{
    JsonObject *inner = child(object, "rope_parameters");
    const char *type = "default";

    if (!inner)
        inner = child(object, "rope_scaling");
    if (!mw_json_get_number(object, key, 1, MW_DECODER_THETA_MAX, origin, &decoder->rope_theta,
                            error))
        return false;
    if (!inner)
        return true;
    if (!mw_json_get_number(inner, key, 1, MW_DECODER_THETA_MAX, origin, &decoder->rope_theta,
                            error) ||
        !mw_json_get_string(inner, "type", origin, &type, error) ||
        !mw_json_get_string(inner, "rope_type", origin, &type, error))
        return false;
    if (!strcmp(type, "default"))
        return true;
    if (!strcmp(type, "llama3"))
        return read_stretching(inner, origin, &decoder->rope_scaling, error);
    g_autofree char *shown = g_strescape(type, NULL);
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: key \"rope_type\": value %s: must be default or llama3", origin, shown);
    return false;
}

/* The key stands at the top, or in "rope_parameters" (transformers 5). */
static bool
expect_number(JsonObject *object, const char *key, double expected, const char *origin,
              GError **error)
{
    JsonObject *inner = child(object, "rope_parameters");
    double value = expected;

    if (!mw_json_get_number(object, key, 0, 1, origin, &value, error) ||
        (inner && !mw_json_get_number(inner, key, 0, 1, origin, &value, error)))
        return false;
    if (value == expected)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %g: must be %g", origin,
                key, value, expected);
    return false;
}

/* Stands before the losses' own keys, and says whether they count: else they stay below 0. */
static bool
read_losses(JsonObject *object, const char *key, const char *origin, struct mw_decoder *decoder,
            GError **error)
{
    bool asked = false;

    if (!mw_json_get_bool(object, key, origin, &asked, error))
        return false;
    decoder->router_losses_said = asked;
    decoder->router_aux_loss = asked ? decoder->family->run.router_aux_loss : -1;
    decoder->router_z_loss = asked ? 0 : -1;
    return true;
}

static bool
read_loss(JsonObject *object, const char *key, const char *origin, double *loss, GError **error)
{
    bool asked = *loss >= 0;

    *loss = MAX(*loss, 0);
    return !asked || mw_json_get_number(object, key, 0, MW_DECODER_LOSS_MAX, origin, loss, error);
}

static bool
read_key(JsonObject *object, const struct mw_family_key *key, const char *origin,
         struct mw_decoder *decoder, GError **error)
{
    switch (key->meaning) {
    case MW_KEY_ACTIVATION:
        return read_activation(object, key->name, origin, decoder, error);
    case MW_KEY_NORM_EPSILON:
        return mw_json_get_number(object, key->name, 0, MW_DECODER_EPSILON_MAX, origin,
                                  &decoder->norm_epsilon, error);
    case MW_KEY_ROPE_THETA:
        return read_rotary(object, key->name, origin, decoder, error);
    case MW_KEY_RUNS_IF_TRUE:
    case MW_KEY_RUNS_IF_FALSE:
        return expect_flag(object, key->name, key->meaning == MW_KEY_RUNS_IF_TRUE, origin, error);
    case MW_KEY_RUNS_IF_ONE:
    case MW_KEY_RUNS_IF_ZERO:
        return expect_number(object, key->name, key->meaning == MW_KEY_RUNS_IF_ONE, origin, error);
    case MW_KEY_ROUTER_RENORMALIZES:
        return mw_json_get_bool(object, key->name, origin, &decoder->router_renormalizes, error);
    case MW_KEY_ROUTER_LOSSES:
        return read_losses(object, key->name, origin, decoder, error);
    case MW_KEY_ROUTER_AUX_LOSS:
        return read_loss(object, key->name, origin, &decoder->router_aux_loss, error);
    case MW_KEY_ROUTER_Z_LOSS:
        return read_loss(object, key->name, origin, &decoder->router_z_loss, error);
    default:
        return true;
    }
}

static const struct mw_family_key *
keys_of(const struct mw_family *family)
{
    return family && family->run.keys ? family->run.keys : family ? family->keys : NULL;
}

static bool
read_object(const struct mw_model *model, JsonObject *object, const char *origin,
            struct mw_decoder *decoder, GError **error)
{
    for (const struct mw_family_key *key = keys_of(model->family); key && key->name; key++)
        if (!read_key(object, key, origin, decoder, error))
            return false;
    return true;
}

static bool
find(struct mw_model *model, JsonObject *object, const char *origin, GError **error)
{
    const struct mw_family_run *run = &model->family->run;

    if (!check(model, error))
        return false;
    model->constants = (struct mw_decoder){.family = model->family,
                                           .kind = run->kind,
                                           .activation = run->activation,
                                           .norm_epsilon = run->norm_epsilon,
                                           .rope_theta = run->rope_theta,
                                           .rope_scaling = MW_ROPE_UNSCALED,
                                           .router_renormalizes = run->router_renormalizes};
    return !object || read_object(model, object, origin, &model->constants, error);
}

bool
mw_model_check_losses(const struct mw_model *model, JsonObject *object, const char *origin,
                      GError **error)
{
    const struct mw_family *family = model->family;
    struct mw_decoder losses = {.family = family};

    for (const struct mw_family_key *key = keys_of(family); key && key->name; key++)
        if (key->meaning >= MW_KEY_ROUTER_LOSSES && key->meaning <= MW_KEY_ROUTER_Z_LOSS &&
            !read_key(object, key, origin, &losses, error))
            return false;
    return true;
}

void
mw_model_find_decoder(struct mw_model *model, JsonObject *object, const char *origin)
{
    g_autoptr(GError) error = NULL;

    model->runs = find(model, object, origin, &error);
    if (!model->runs)
        g_strlcpy(model->why_not, error->message, sizeof model->why_not);
}

bool
mw_model_decoder(const struct mw_model *model, struct mw_decoder *decoder, GError **error)
{
    if (!model->runs)
        return mw_refuse(error, "%s",
                         *model->why_not ? model->why_not : "the model is not known to run");
    *decoder = model->constants;
    decoder->layers = model->layers;
    decoder->hidden = model->hidden;
    decoder->heads = model->heads;
    decoder->kv_heads = model->kv_heads;
    decoder->head_dim = model->head_dim;
    decoder->ffn = model->experts ? model->expert_ffn : model->ffn;
    decoder->experts = model->experts;
    decoder->experts_per_token = model->experts ? model->experts_per_token : 0;
    decoder->vocab = model->vocab;
    decoder->positions = model->window ? MIN(model->window, model->seq) : model->seq;
    decoder->position_rows = model->position_rows;
    decoder->tied_embedding = model->tied_embedding;
    decoder->attention_bias = model->attention_bias;
    decoder->qk_norm = model->qk_norm;
    decoder->projection_bias = model->projection_bias;
    decoder->mlp_bias = model->mlp_bias;
    return true;
}

bool
mw_model_runs_seq(const struct mw_model *model, int64_t seq, GError **error)
{
    int64_t window = model->window;

    if (!window || seq <= window)
        return true;
    return mw_refuse(error,
                     "model %s: attention here has no window: a sequence must have at most "
                     "sliding_window (%" G_GINT64_FORMAT
                     ") tokens to run (longer ones can be planned and simulated)",
                     model->name, window);
}
