/* The decoder that the executor runs, of a model. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/internal.h"

static const struct {
    const char *architecture;
    enum mw_decoder_kind kind;
    enum mw_decoder_activation activation;
    double norm_epsilon, rope_theta;
} architectures[] = {
    {"gpt2", MW_DECODER_GPT2, MW_ACTIVATION_GELU_TANH, 1e-5, 0},
    {"llama", MW_DECODER_LLAMA, MW_ACTIVATION_SILU, 1e-5, 10000},
    {"mistral", MW_DECODER_LLAMA, MW_ACTIVATION_SILU, 1e-5, 10000},
    {"qwen2", MW_DECODER_LLAMA, MW_ACTIVATION_SILU, 1e-6, 1000000},
};

static bool
refuse(const struct mw_model *model, const char *what, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "model %s: %s: must be a dense decoder like GPT-2, Llama, Mistral or Qwen2 to run "
                "here (it can be planned and simulated)",
                model->name, what);
    return false;
}

static bool
check(const struct mw_model *model, GError **error)
{
    if (model->experts)
        return refuse(model, "a mixture of experts", error);
    if (model->kv_lora)
        return refuse(model, "latent attention", error);
    if (model->qk_norm)
        return refuse(model, "norms of q and k", error);
    if (!model->vocab)
        return refuse(model, "a stack of blocks without a vocabulary", error);
    return true;
}

static bool
start(const struct mw_model *model, struct mw_decoder *decoder, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(architectures); i++) {
        if (strcmp(model->architecture, architectures[i].architecture))
            continue;
        decoder->kind = architectures[i].kind;
        decoder->activation = architectures[i].activation;
        decoder->norm_epsilon = architectures[i].norm_epsilon;
        decoder->rope_theta = architectures[i].rope_theta;
        return true;
    }
    g_autofree char *what = g_strdup_printf("architecture %s", model->architecture);
    return refuse(model, what, error);
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
read_activation(JsonObject *object, const char *origin, struct mw_decoder *decoder, GError **error)
{
    const char *key = decoder->kind == MW_DECODER_GPT2 ? "activation_function" : "hidden_act";
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

/* GPT-2's variants that scale the scores in another way. */
static bool
read_gpt2(JsonObject *object, const char *origin, struct mw_decoder *decoder, GError **error)
{
    bool scaled = true, by_layer = false;

    if (!mw_json_get_number(object, "layer_norm_epsilon", 0, MW_DECODER_EPSILON_MAX, origin,
                            &decoder->norm_epsilon, error) ||
        !mw_json_get_bool(object, "scale_attn_weights", origin, &scaled, error) ||
        !mw_json_get_bool(object, "scale_attn_by_inverse_layer_idx", origin, &by_layer, error))
        return false;
    if (scaled && !by_layer)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %s: must be %s", origin,
                scaled ? "scale_attn_by_inverse_layer_idx" : "scale_attn_weights",
                scaled ? "true" : "false", scaled ? "false" : "true");
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

/* "rope_theta" and "rope_scaling", or both in "rope_parameters" (transformers 5). */
static bool
read_rotary(JsonObject *object, const char *origin, struct mw_decoder *decoder, GError **error)
{
    JsonObject *inner = child(object, "rope_parameters");
    const char *type = "default";

    if (!inner)
        inner = child(object, "rope_scaling");
    if (!mw_json_get_number(object, "rope_theta", 1, MW_DECODER_THETA_MAX, origin,
                            &decoder->rope_theta, error))
        return false;
    if (!inner)
        return true;
    if (!mw_json_get_number(inner, "rope_theta", 1, MW_DECODER_THETA_MAX, origin,
                            &decoder->rope_theta, error) ||
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

static bool
read_object(JsonObject *object, const char *origin, struct mw_decoder *decoder, GError **error)
{
    if (!read_activation(object, origin, decoder, error))
        return false;
    if (decoder->kind == MW_DECODER_GPT2)
        return read_gpt2(object, origin, decoder, error);
    return mw_json_get_number(object, "rms_norm_eps", 0, MW_DECODER_EPSILON_MAX, origin,
                              &decoder->norm_epsilon, error) &&
           read_rotary(object, origin, decoder, error);
}

static bool
find(struct mw_model *model, JsonObject *object, const char *origin, GError **error)
{
    struct mw_decoder *constants = &model->constants;

    *constants = (struct mw_decoder){.rope_scaling.factor = 1,
                                     .rope_scaling.low_frequency_factor = 1,
                                     .rope_scaling.high_frequency_factor = 4,
                                     .rope_scaling.original_positions = 8192};
    return check(model, error) && start(model, constants, error) &&
           (!object || read_object(object, origin, constants, error));
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
    decoder->ffn = model->ffn;
    decoder->vocab = model->vocab;
    decoder->positions = model->seq;
    decoder->position_rows = model->position_rows;
    decoder->tied_embedding = model->tied_embedding;
    decoder->attention_bias = model->attention_bias;
    decoder->projection_bias = model->projection_bias;
    decoder->mlp_bias = model->mlp_bias;
    return true;
}
