/* The tensors of an operator: names, shapes, rows. */
#include "exec/data/weights.h"

#include <stdio.h>
#include <string.h>

#include "families/family.h"

struct list {
    const struct mw_decoder *decoder;
    const struct mw_family_tensors *tensors;
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
set_name(const struct list *list, struct mw_weight *weight, enum mw_weight_role role)
{
    const struct mw_family_tensors *tensors = list->tensors;
    const char *name = tensors->of[role];

    if (list->layer < 0)
        snprintf(weight->name, sizeof weight->name, "%s%s",
                 role == MW_WEIGHT_LOGITS ? "" : tensors->base, name);
    else
        snprintf(weight->name, sizeof weight->name, "%s%s.%lld.%s", tensors->base, tensors->layer,
                 (long long)list->layer, name);
}

/* The dimension of the shape that counts rows. */
static int
row_axis(const struct mw_weight *weight)
{
    return weight->transposed ? 1 : 0;
}

/* A tensor that several roles share holds the rows of all of them. */
static void
join_tensor(struct list *list, struct mw_weight *weight)
{
    int64_t rows = weight->rows;

    for (int i = 0; i < list->count - 1; i++)
        if (!strcmp(list->out[i].name, weight->name))
            rows += list->out[i].rows;
    weight->file_row = rows - weight->rows;
    for (int i = 0; i < list->count; i++)
        if (!strcmp(list->out[i].name, weight->name))
            list->out[i].shape[row_axis(weight)] = rows;
}

/* Joins the last two weights if they are neighbours in the operator's rows and in one tensor. */
static bool
extend_last(struct list *list)
{
    struct mw_weight *next = &list->out[list->count - 1], *last = next - 1;

    if (list->count < 2 || strcmp(last->name, next->name) ||
        next->first_row != last->first_row + last->rows)
        return false;
    last->rows += next->rows;
    last->elements += next->elements;
    last->shape[row_axis(last)] += next->rows;
    list->count--;
    return true;
}

static struct mw_weight *
add(struct list *list, enum mw_weight_role role, enum mw_weight_start start)
{
    struct mw_weight *weight = &list->out[list->count++];

    memset(weight, 0, sizeof *weight);
    set_name(list, weight, role);
    weight->base = list->tensors->base;
    weight->operator_ = list->operator_;
    weight->start = start;
    return weight;
}

static struct mw_weight *
add_vector(struct list *list, enum mw_weight_role role, int64_t size, enum mw_weight_start start)
{
    struct mw_weight *weight = add(list, role, start);

    weight->rank = 1;
    weight->shape[0] = size;
    weight->elements = size;
    return weight;
}

/* One element per row of a matrix. */
static void
add_bias(struct list *list, enum mw_weight_role role, int64_t first_row, int64_t rows)
{
    struct mw_weight *weight = add_vector(list, role, rows, MW_WEIGHT_ZERO);

    weight->first_row = first_row;
    weight->rows = rows;
    weight->row_elements = 1;
    if (!extend_last(list))
        join_tensor(list, weight);
}

/* A row of the vector is an output feature.  Files of some families store the features of a layer's
 * matrices as columns. */
static void
add_matrix(struct list *list, enum mw_weight_role role, int64_t first_row, int64_t rows,
           int64_t columns, enum mw_weight_start start)
{
    struct mw_weight *weight = add(list, role, start);

    weight->rank = 2;
    weight->transposed = list->tensors->transposed && list->layer >= 0;
    weight->shape[0] = weight->transposed ? columns : rows;
    weight->shape[1] = weight->transposed ? rows : columns;
    weight->elements = rows * columns;
    weight->first_row = first_row;
    weight->rows = rows;
    weight->row_elements = columns;
    if (!extend_last(list))
        join_tensor(list, weight);
}

/* --- operators ------------------------------------------------------------------------------- */

static void
add_norm(struct list *list, enum mw_weight_role weight, enum mw_weight_role bias)
{
    add_vector(list, weight, list->decoder->hidden, MW_WEIGHT_ONE);
    if (is_gpt2(list->decoder))
        add_vector(list, bias, list->decoder->hidden, MW_WEIGHT_ZERO);
}

static void
add_tables(struct list *list)
{
    const struct mw_decoder *decoder = list->decoder;

    add_matrix(list, MW_WEIGHT_TOKENS, 0, decoder->vocab, decoder->hidden, MW_WEIGHT_NORMAL);
    if (is_gpt2(decoder))
        add_matrix(list, MW_WEIGHT_POSITIONS, decoder->vocab, decoder->position_rows,
                   decoder->hidden, MW_WEIGHT_NORMAL);
}

static void
add_qkv(struct list *list)
{
    const struct mw_decoder *decoder = list->decoder;
    int64_t q = decoder->heads * decoder->head_dim, kv = decoder->kv_heads * decoder->head_dim;

    add_matrix(list, MW_WEIGHT_Q, 0, q, decoder->hidden, MW_WEIGHT_NORMAL);
    add_matrix(list, MW_WEIGHT_K, q, kv, decoder->hidden, MW_WEIGHT_NORMAL);
    add_matrix(list, MW_WEIGHT_V, q + kv, kv, decoder->hidden, MW_WEIGHT_NORMAL);
    if (!decoder->attention_bias && !is_gpt2(decoder))
        return;
    add_bias(list, MW_WEIGHT_Q_BIAS, 0, q);
    add_bias(list, MW_WEIGHT_K_BIAS, q, kv);
    add_bias(list, MW_WEIGHT_V_BIAS, q + kv, kv);
}

/* A tile has the same rows of gate and up. */
static void
add_up(struct list *list)
{
    const struct mw_decoder *decoder = list->decoder;
    bool gated = !is_gpt2(decoder);

    if (gated)
        add_matrix(list, MW_WEIGHT_GATE, 0, decoder->ffn, decoder->hidden, MW_WEIGHT_NORMAL);
    add_matrix(list, MW_WEIGHT_UP, 0, decoder->ffn, decoder->hidden, MW_WEIGHT_NORMAL);
    if (!decoder->mlp_bias && gated)
        return;
    if (gated)
        add_bias(list, MW_WEIGHT_GATE_BIAS, 0, decoder->ffn);
    add_bias(list, MW_WEIGHT_UP_BIAS, 0, decoder->ffn);
}

static void
add_residual(struct list *list, enum mw_weight_role weight, enum mw_weight_role bias, bool biased,
             int64_t columns)
{
    int64_t hidden = list->decoder->hidden;

    add_matrix(list, weight, 0, hidden, columns, MW_WEIGHT_RESIDUAL);
    if (biased || is_gpt2(list->decoder))
        add_bias(list, bias, 0, hidden);
}

int
mw_weights_list(const struct mw_decoder *decoder, enum mw_operator operator_, int64_t layer,
                struct mw_weight out[MW_WEIGHTS_MAX])
{
    bool end = operator_ == MW_OPERATOR_EMBEDDING || operator_ == MW_OPERATOR_FINAL_NORM ||
               operator_ == MW_OPERATOR_LOGITS;
    struct list list = {.decoder = decoder,
                        .tensors = decoder->family->run.tensors,
                        .out = out,
                        .operator_ = operator_,
                        .layer = end ? -1 : layer};

    switch (operator_) {
    case MW_OPERATOR_EMBEDDING:
        add_tables(&list);
        break;
    case MW_OPERATOR_NORM1:
        add_norm(&list, MW_WEIGHT_NORM1, MW_WEIGHT_NORM1_BIAS);
        break;
    case MW_OPERATOR_QKV:
        add_qkv(&list);
        break;
    case MW_OPERATOR_PROJECTION:
        add_residual(&list, MW_WEIGHT_PROJECTION, MW_WEIGHT_PROJECTION_BIAS,
                     decoder->projection_bias, decoder->heads * decoder->head_dim);
        break;
    case MW_OPERATOR_NORM2:
        add_norm(&list, MW_WEIGHT_NORM2, MW_WEIGHT_NORM2_BIAS);
        break;
    case MW_OPERATOR_MLP_UP:
        add_up(&list);
        break;
    case MW_OPERATOR_MLP_DOWN:
        add_residual(&list, MW_WEIGHT_DOWN, MW_WEIGHT_DOWN_BIAS, decoder->mlp_bias, decoder->ffn);
        break;
    case MW_OPERATOR_FINAL_NORM:
        add_norm(&list, MW_WEIGHT_FINAL_NORM, MW_WEIGHT_FINAL_NORM_BIAS);
        break;
    case MW_OPERATOR_LOGITS:
        if (!decoder->tied_embedding)
            add_matrix(&list, MW_WEIGHT_LOGITS, 0, decoder->vocab, decoder->hidden,
                       MW_WEIGHT_NORMAL);
        break;
    default:
        break;
    }
    return list.count;
}

int64_t
mw_weight_file_element(const struct mw_weight *weight, int64_t element)
{
    if (!weight->transposed)
        return weight->file_row * weight->row_elements + element;
    return element % weight->shape[0] * weight->shape[1] + weight->file_row +
           element / weight->shape[0];
}
