#include "cli/run/checkpoint_config.h"

#include <string.h>

/* A model from a config.json keeps that file, if it can still be read. */
static char *
copy_of(const char *model_name)
{
    g_autofree char *file = NULL;
    gsize length;
    bool path = strchr(model_name, '/') || g_str_has_suffix(model_name, ".json");

    return path ? mw_model_read_config(model_name, &file, &length, NULL) : NULL;
}

static const char *
activation(const struct mw_decoder *d)
{
    static const char *const names[] = {
        [MW_ACTIVATION_GELU_TANH] = "gelu_new",
        [MW_ACTIVATION_GELU_ERF] = "gelu",
        [MW_ACTIVATION_RELU] = "relu",
        [MW_ACTIVATION_SILU] = "silu",
    };
    return names[d->activation];
}

static const char *
truth(bool value)
{
    return value ? "true" : "false";
}

static char *
gpt2_config(const struct mw_decoder *d)
{
    return g_strdup_printf("{\n"
                           "  \"model_type\": \"gpt2\",\n"
                           "  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                           "  \"n_embd\": %" G_GINT64_FORMAT ",\n"
                           "  \"n_head\": %" G_GINT64_FORMAT ",\n"
                           "  \"n_inner\": %" G_GINT64_FORMAT ",\n"
                           "  \"n_layer\": %" G_GINT64_FORMAT ",\n"
                           "  \"n_positions\": %" G_GINT64_FORMAT ",\n"
                           "  \"vocab_size\": %" G_GINT64_FORMAT ",\n"
                           "  \"activation_function\": \"%s\",\n"
                           "  \"layer_norm_epsilon\": %.17g,\n"
                           "  \"attn_pdrop\": 0.0,\n"
                           "  \"embd_pdrop\": 0.0,\n"
                           "  \"resid_pdrop\": 0.0,\n"
                           "  \"tie_word_embeddings\": %s\n"
                           "}\n",
                           d->hidden, d->heads, d->ffn, d->layers, d->position_rows, d->vocab,
                           activation(d), d->norm_epsilon, truth(d->tied_embedding));
}

/* Biases on q, k and v alone are Qwen2's. */
static char *
llama_config(const struct mw_decoder *d)
{
    bool qwen = d->attention_bias && !d->projection_bias;

    return g_strdup_printf("{\n"
                           "  \"model_type\": \"%s\",\n"
                           "  \"architectures\": [\"%sForCausalLM\"],\n"
                           "  \"hidden_size\": %" G_GINT64_FORMAT ",\n"
                           "  \"intermediate_size\": %" G_GINT64_FORMAT ",\n"
                           "  \"num_hidden_layers\": %" G_GINT64_FORMAT ",\n"
                           "  \"num_attention_heads\": %" G_GINT64_FORMAT ",\n"
                           "  \"num_key_value_heads\": %" G_GINT64_FORMAT ",\n"
                           "  \"head_dim\": %" G_GINT64_FORMAT ",\n"
                           "  \"max_position_embeddings\": %" G_GINT64_FORMAT ",\n"
                           "  \"vocab_size\": %" G_GINT64_FORMAT ",\n"
                           "  \"hidden_act\": \"%s\",\n"
                           "  \"rms_norm_eps\": %.17g,\n"
                           "  \"rope_theta\": %.17g,\n"
                           "  \"attention_bias\": %s,\n"
                           "  \"mlp_bias\": %s,\n"
                           "  \"tie_word_embeddings\": %s\n"
                           "}\n",
                           qwen ? "qwen2" : "llama", qwen ? "Qwen2" : "Llama", d->hidden, d->ffn,
                           d->layers, d->heads, d->kv_heads, d->head_dim, d->positions, d->vocab,
                           activation(d), d->norm_epsilon, d->rope_theta, truth(d->attention_bias),
                           truth(d->mlp_bias), truth(d->tied_embedding));
}

char *
cli_checkpoint_config(const char *model_name, const struct mw_decoder *decoder)
{
    char *text = copy_of(model_name);

    if (text)
        return text;
    return decoder->kind == MW_DECODER_GPT2 ? gpt2_config(decoder) : llama_config(decoder);
}
