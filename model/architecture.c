/* The table of dimensions, and how a model starts from the row of its family. */
#include "model/internal.h"

#define DIMENSION(field, min, max)                                                                 \
    {                                                                                              \
#field, offsetof(struct mw_model, field), min, max                                         \
    }

/* The maxima exceed every published model: ZeRO-Infinity's largest, 100T, has 315 layers of hidden
 * size 163840. */
const struct mw_dimension_info mw_dimensions[MW_DIMENSION_COUNT] = {
    [MW_DIMENSION_LAYERS] = DIMENSION(layers, 1, 100000),
    [MW_DIMENSION_HIDDEN] = DIMENSION(hidden, 1, 1 << 21),
    [MW_DIMENSION_HEADS] = DIMENSION(heads, 1, 1 << 16),
    [MW_DIMENSION_KV_HEADS] = DIMENSION(kv_heads, 1, 1 << 16),
    [MW_DIMENSION_HEAD_DIM] = DIMENSION(head_dim, 1, 1 << 16),
    [MW_DIMENSION_VALUE_DIM] = DIMENSION(value_dim, 1, 1 << 16),
    [MW_DIMENSION_FFN] = DIMENSION(ffn, 1, 1 << 24),
    [MW_DIMENSION_VOCAB] = DIMENSION(vocab, 0, 1 << 26),
    [MW_DIMENSION_SEQ] = DIMENSION(seq, 1, 1 << 28),
    [MW_DIMENSION_EMBEDDING_DIM] = DIMENSION(embedding_dim, 1, 1 << 21),
    [MW_DIMENSION_EXPERTS] = DIMENSION(experts, 0, 1 << 16),
    [MW_DIMENSION_EXPERTS_PER_TOKEN] = DIMENSION(experts_per_token, 0, 1 << 16),
    [MW_DIMENSION_EXPERT_FFN] = DIMENSION(expert_ffn, 0, 1 << 24),
    [MW_DIMENSION_SHARED_EXPERT_FFN] = DIMENSION(shared_expert_ffn, 0, 1 << 24),
    [MW_DIMENSION_DENSE_LAYERS] = DIMENSION(dense_layers, 0, 100000),
    [MW_DIMENSION_Q_LORA] = DIMENSION(q_lora, 0, 1 << 21),
    [MW_DIMENSION_KV_LORA] = DIMENSION(kv_lora, 0, 1 << 21),
    [MW_DIMENSION_ROPE_DIM] = DIMENSION(rope_dim, 0, 1 << 16),
    [MW_DIMENSION_WINDOW] = DIMENSION(window, 0, 1 << 28),
    [MW_DIMENSION_WINDOW_PERIOD] = DIMENSION(window_period, 0, 100000),
};

bool
mw_model_begin(struct mw_model *model, const char *architecture)
{
    const struct mw_family *family = mw_family_find(architecture);

    if (!family)
        return false;
    const struct mw_family_traits *traits = &family->traits;
    *model = (struct mw_model){
        .family = family,
        .mlp_matrices = traits->mlp_matrices,
        .norms_per_layer = traits->norms_per_layer,
        .position_rows = traits->unused_positions,
        .learned_positions = traits->learned_positions,
        .rotary = traits->rotary,
        .tied_embedding = traits->tied_embedding,
        .attention_bias = traits->attention_bias,
        .projection_bias = traits->projection_bias,
        .mlp_bias = traits->mlp_bias,
        .norm_bias = traits->norm_bias,
        .logits_bias = traits->logits_bias,
        .router_bias = traits->router_bias,
        .final_norm = traits->final_norm,
        .embedding_norm = traits->embedding_norm,
        .qk_norm = traits->qk_norm,
        .parallel_block = traits->parallel_block,
        .dropout = traits->dropout,
        .plain_norms = traits->plain_norms,
        .capped_logits = traits->capped_logits,
        .capped_scores = traits->capped_scores,
    };
    g_strlcpy(model->architecture, family->name, sizeof model->architecture);
    for (int i = 0; i < MW_DIMENSION_COUNT; i++)
        *mw_dimension_in(model, i) = family->defaults[i];
    return true;
}

const char *
mw_model_type(int number, const char **lacks)
{
    const struct mw_family *family = mw_family_at(number);

    if (!family)
        return NULL;
    *lacks = mw_family_find(family->name)->why_not;
    return family->name;
}

void
mw_model_set_name(struct mw_model *model, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    const char *end;

    g_strlcpy(model->name, valid, sizeof model->name);
    if (!g_utf8_validate(model->name, -1, &end))
        model->name[end - model->name] = '\0';
}
