/* Writes the config.json of a decoder that runs, with the keys of its family.
 * mw_model_parse_config reads it back. */
#include <string.h>

#include "model/model.h"

static int64_t
dimension_of(const struct mw_decoder *d, enum mw_key_meaning meaning)
{
    switch (meaning) {
    case MW_DIMENSION_LAYERS:
        return d->layers;
    case MW_DIMENSION_HIDDEN:
        return d->hidden;
    case MW_DIMENSION_HEADS:
        return d->heads;
    case MW_DIMENSION_KV_HEADS:
        return d->kv_heads;
    case MW_DIMENSION_HEAD_DIM:
        return d->head_dim;
    case MW_DIMENSION_FFN:
        return d->ffn;
    case MW_DIMENSION_VOCAB:
        return d->vocab;
    case MW_DIMENSION_SEQ:
        return d->position_rows ? d->position_rows : d->positions;
    case MW_DIMENSION_EXPERTS:
        return d->experts;
    case MW_DIMENSION_EXPERTS_PER_TOKEN:
        return d->experts_per_token;
    case MW_DIMENSION_EXPERT_FFN:
        return d->experts ? d->ffn : 0;
    default: /* latents and windows, which no decoder that runs has */
        return 0;
    }
}

static void
put_flag(GString *text, const char *key, bool value)
{
    g_string_append_printf(text, "  \"%s\": %s,\n", key, value ? "true" : "false");
}

static void
put_rotary(GString *text, const char *key, const struct mw_decoder *d)
{
    const struct mw_rope_scaling *scaling = &d->rope_scaling;

    g_string_append_printf(text, "  \"%s\": %.17g,\n", key, d->rope_theta);
    if (scaling->factor != 1)
        g_string_append_printf(text,
                               "  \"rope_scaling\": {\n"
                               "    \"rope_type\": \"llama3\",\n"
                               "    \"factor\": %.17g,\n"
                               "    \"low_freq_factor\": %.17g,\n"
                               "    \"high_freq_factor\": %.17g,\n"
                               "    \"original_max_position_embeddings\": %" G_GINT64_FORMAT "\n"
                               "  },\n",
                               scaling->factor, scaling->low_frequency_factor,
                               scaling->high_frequency_factor, scaling->original_positions);
}

static void
put_key(GString *text, const struct mw_family_key *key, const struct mw_decoder *d)
{
    switch (key->meaning) {
    case MW_KEY_ATTENTION_BIAS:
    case MW_KEY_BIAS:
        put_flag(text, key->name, d->attention_bias);
        break;
    case MW_KEY_MLP_BIAS:
        put_flag(text, key->name, d->mlp_bias);
        break;
    case MW_KEY_DROPOUT:
    case MW_KEY_EMBEDDING_DROPOUT:
        g_string_append_printf(text, "  \"%s\": 0.0,\n", key->name);
        break;
    case MW_KEY_ACTIVATION:
        g_string_append_printf(text, "  \"%s\": \"%s\",\n", key->name,
                               mw_activation_name(d->activation));
        break;
    case MW_KEY_NORM_EPSILON:
        g_string_append_printf(text, "  \"%s\": %.17g,\n", key->name, d->norm_epsilon);
        break;
    case MW_KEY_ROPE_THETA:
        put_rotary(text, key->name, d);
        break;
    case MW_KEY_ROUTER_RENORMALIZES:
        put_flag(text, key->name, d->router_renormalizes);
        break;
    case MW_KEY_ROUTER_LOSSES:
        if (mw_decoder_has_router_losses(d))
            put_flag(text, key->name, true);
        break;
    case MW_KEY_ROUTER_AUX_LOSS: /* not 0 where no file has it */
        if (mw_decoder_has_router_losses(d))
            g_string_append_printf(text, "  \"%s\": %.17g,\n", key->name, d->router_aux_loss);
        break;
    case MW_KEY_ROUTER_Z_LOSS:
        if (d->router_z_loss > 0)
            g_string_append_printf(text, "  \"%s\": %.17g,\n", key->name, d->router_z_loss);
        break;
    default:
        if (key->meaning < MW_DIMENSION_COUNT && dimension_of(d, key->meaning))
            g_string_append_printf(text, "  \"%s\": %" G_GINT64_FORMAT ",\n", key->name,
                                   dimension_of(d, key->meaning));
    }
}

/* With another meaning of the same value. */
static bool
stands_before(const struct mw_family_key *keys, const struct mw_family_key *key)
{
    for (; keys < key; keys++)
        if (!strcmp(keys->name, key->name))
            return true;
    return false;
}

char *
mw_model_write_config(const struct mw_decoder *decoder)
{
    const struct mw_family *family = decoder->family;
    GString *text = g_string_new(NULL);

    g_string_append_printf(text,
                           "{\n"
                           "  \"model_type\": \"%s\",\n"
                           "  \"architectures\": [\"%s\"],\n",
                           family->name, family->run.class_name);
    const struct mw_family_key *keys = family->run.keys ? family->run.keys : family->keys;
    for (const struct mw_family_key *key = keys; key && key->name; key++)
        if (!stands_before(keys, key))
            put_key(text, key, decoder);
    g_string_append_printf(text, "  \"tie_word_embeddings\": %s\n}\n",
                           decoder->tied_embedding ? "true" : "false");
    return g_string_free(text, FALSE);
}
