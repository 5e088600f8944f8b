/* Which tensors an operator has: names, shapes, rows. */
#include "exec/data/weights.h"

#include <stdio.h>
#include <string.h>

struct list {
    const struct mw_decoder *decoder;
    struct mw_weight *out;
    enum mw_operator operator_;
    int64_t layer;
    int count;
};

static bool
is_gpt2(const struct mw_decoder *decoder)
{
    return decoder->kind == MW_DECODER_GPT2;
}

static void
set_name(const struct list *list, struct mw_weight *weight, const char *name)
{
    const char *base = is_gpt2(list->decoder) ? "transformer." : "model.";

    if (list->layer < 0)
        snprintf(weight->name, sizeof weight->name, "%s%s", strncmp(name, "lm_head", 7) ? base : "",
                 name);
    else
        snprintf(weight->name, sizeof weight->name, "%s%s.%lld.%s", base,
                 is_gpt2(list->decoder) ? "h" : "layers", (long long)list->layer, name);
}

static struct mw_weight *
add(struct list *list, const char *name, enum mw_weight_start start)
{
    struct mw_weight *weight = &list->out[list->count++];

    memset(weight, 0, sizeof *weight);
    set_name(list, weight, name);
    weight->operator_ = list->operator_;
    weight->start = start;
    return weight;
}

static struct mw_weight *
add_vector(struct list *list, const char *name, int64_t size, enum mw_weight_start start)
{
    struct mw_weight *weight = add(list, name, start);

    weight->rank = 1;
    weight->shape[0] = size;
    weight->elements = size;
    return weight;
}

/* An element for each of the rows of a matrix. */
static void
add_bias(struct list *list, const char *name, int64_t first_row, int64_t rows)
{
    struct mw_weight *weight = add_vector(list, name, rows, MW_WEIGHT_ZERO);

    weight->first_row = first_row;
    weight->rows = rows;
    weight->row_elements = 1;
}

/* Rows of the vector: output features; GPT-2's files have them as columns, save the tables. */
static void
add_matrix(struct list *list, const char *name, int64_t first_row, int64_t rows, int64_t columns,
           enum mw_weight_start start)
{
    struct mw_weight *weight = add(list, name, start);

    weight->rank = 2;
    weight->transposed = is_gpt2(list->decoder) && list->layer >= 0;
    weight->shape[0] = weight->transposed ? columns : rows;
    weight->shape[1] = weight->transposed ? rows : columns;
    weight->elements = rows * columns;
    weight->first_row = first_row;
    weight->rows = rows;
    weight->row_elements = columns;
}

static void
add_norm(struct list *list, const char *weight, const char *bias)
{
    add_vector(list, weight, list->decoder->hidden, MW_WEIGHT_ONE);
    if (is_gpt2(list->decoder))
        add_vector(list, bias, list->decoder->hidden, MW_WEIGHT_ZERO);
}

static void
add_product(struct list *list, const char *weight, const char *bias, int64_t rows, int64_t columns,
            enum mw_weight_start start)
{
    add_matrix(list, weight, 0, rows, columns, start);
    if (bias)
        add_bias(list, bias, 0, rows);
}

static void
list_llama_qkv(struct list *list)
{
    const struct mw_decoder *decoder = list->decoder;
    int64_t q = decoder->heads * decoder->head_dim, kv = decoder->kv_heads * decoder->head_dim;

    add_matrix(list, "self_attn.q_proj.weight", 0, q, decoder->hidden, MW_WEIGHT_NORMAL);
    add_matrix(list, "self_attn.k_proj.weight", q, kv, decoder->hidden, MW_WEIGHT_NORMAL);
    add_matrix(list, "self_attn.v_proj.weight", q + kv, kv, decoder->hidden, MW_WEIGHT_NORMAL);
    if (!decoder->attention_bias)
        return;
    add_bias(list, "self_attn.q_proj.bias", 0, q);
    add_bias(list, "self_attn.k_proj.bias", q, kv);
    add_bias(list, "self_attn.v_proj.bias", q + kv, kv);
}

static void
list_llama_up(struct list *list)
{
    const struct mw_decoder *decoder = list->decoder;

    add_matrix(list, "mlp.gate_proj.weight", 0, decoder->ffn, decoder->hidden, MW_WEIGHT_NORMAL);
    add_matrix(list, "mlp.up_proj.weight", 0, decoder->ffn, decoder->hidden, MW_WEIGHT_NORMAL);
    if (!decoder->mlp_bias)
        return;
    add_bias(list, "mlp.gate_proj.bias", 0, decoder->ffn);
    add_bias(list, "mlp.up_proj.bias", 0, decoder->ffn);
}

static void
list_gpt2(struct list *list, enum mw_operator operator_)
{
    const struct mw_decoder *decoder = list->decoder;
    int64_t hidden = decoder->hidden;

    switch (operator_) {
    case MW_OPERATOR_EMBEDDING:
        add_matrix(list, "wte.weight", 0, decoder->vocab, hidden, MW_WEIGHT_NORMAL);
        add_matrix(list, "wpe.weight", decoder->vocab, decoder->position_rows, hidden,
                   MW_WEIGHT_NORMAL);
        break;
    case MW_OPERATOR_NORM1:
        add_norm(list, "ln_1.weight", "ln_1.bias");
        break;
    case MW_OPERATOR_QKV:
        add_product(list, "attn.c_attn.weight", "attn.c_attn.bias", 3 * hidden, hidden,
                    MW_WEIGHT_NORMAL);
        break;
    case MW_OPERATOR_PROJECTION:
        add_product(list, "attn.c_proj.weight", "attn.c_proj.bias", hidden, hidden,
                    MW_WEIGHT_RESIDUAL);
        break;
    case MW_OPERATOR_NORM2:
        add_norm(list, "ln_2.weight", "ln_2.bias");
        break;
    case MW_OPERATOR_MLP_UP:
        add_product(list, "mlp.c_fc.weight", "mlp.c_fc.bias", decoder->ffn, hidden,
                    MW_WEIGHT_NORMAL);
        break;
    case MW_OPERATOR_MLP_DOWN:
        add_product(list, "mlp.c_proj.weight", "mlp.c_proj.bias", hidden, decoder->ffn,
                    MW_WEIGHT_RESIDUAL);
        break;
    case MW_OPERATOR_FINAL_NORM:
        add_norm(list, "ln_f.weight", "ln_f.bias");
        break;
    default:
        break;
    }
}

static void
list_llama(struct list *list, enum mw_operator operator_)
{
    const struct mw_decoder *decoder = list->decoder;
    int64_t hidden = decoder->hidden;

    switch (operator_) {
    case MW_OPERATOR_EMBEDDING:
        add_matrix(list, "embed_tokens.weight", 0, decoder->vocab, hidden, MW_WEIGHT_NORMAL);
        break;
    case MW_OPERATOR_NORM1:
        add_norm(list, "input_layernorm.weight", NULL);
        break;
    case MW_OPERATOR_QKV:
        list_llama_qkv(list);
        break;
    case MW_OPERATOR_PROJECTION:
        add_product(list, "self_attn.o_proj.weight",
                    decoder->projection_bias ? "self_attn.o_proj.bias" : NULL, hidden,
                    decoder->heads * decoder->head_dim, MW_WEIGHT_RESIDUAL);
        break;
    case MW_OPERATOR_NORM2:
        add_norm(list, "post_attention_layernorm.weight", NULL);
        break;
    case MW_OPERATOR_MLP_UP:
        list_llama_up(list);
        break;
    case MW_OPERATOR_MLP_DOWN:
        add_product(list, "mlp.down_proj.weight", decoder->mlp_bias ? "mlp.down_proj.bias" : NULL,
                    hidden, decoder->ffn, MW_WEIGHT_RESIDUAL);
        break;
    case MW_OPERATOR_FINAL_NORM:
        add_norm(list, "norm.weight", NULL);
        break;
    default:
        break;
    }
}

int
mw_weights_list(const struct mw_decoder *decoder, enum mw_operator operator_, int64_t layer,
                struct mw_weight out[MW_WEIGHTS_MAX])
{
    bool end = operator_ == MW_OPERATOR_EMBEDDING || operator_ == MW_OPERATOR_FINAL_NORM ||
               operator_ == MW_OPERATOR_LOGITS;
    struct list list = {
        .decoder = decoder, .out = out, .operator_ = operator_, .layer = end ? -1 : layer};

    if (is_gpt2(decoder))
        list_gpt2(&list, operator_);
    else
        list_llama(&list, operator_);
    if (operator_ == MW_OPERATOR_LOGITS && !decoder->tied_embedding)
        add_matrix(&list, "lm_head.weight", 0, decoder->vocab, decoder->hidden, MW_WEIGHT_NORMAL);
    return list.count;
}
