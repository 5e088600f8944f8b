/* The tensors of an operator: names, shapes, rows. */
#include <stdio.h>
#include <string.h>

#include "exec/data/weights_internal.h"
#include "families/family.h"

#define WEIGHT ".weight"

struct list {
    struct mw_operator_dims dims;
    const struct mw_family_tensors *tensors;
    struct mw_weight *out;
    enum mw_operator operator_;
    int64_t layer, first_expert;
    bool apart; /* each role by itself, whatever tensors share */
    int count;
};

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

    if (list->count < 2 || list->apart || strcmp(last->name, next->name) ||
        next->first_row != last->first_row + last->rows)
        return false;
    last->rows += next->rows;
    last->elements += next->elements;
    last->shape[row_axis(last)] += next->rows;
    list->count--;
    return true;
}

/* "base_model.model.NAME.lora_A.weight", as PEFT writes it. */
static void
name_adapter(struct mw_weight *weight)
{
    g_autofree char *own = g_strdup(weight->name);

    if (g_str_has_suffix(own, WEIGHT))
        own[strlen(own) - strlen(WEIGHT)] = '\0';
    g_snprintf(weight->name, sizeof weight->name, MW_LORA_BASE "%s.lora_%c" WEIGHT, own,
               weight->lora == MW_LORA_IN ? 'A' : 'B');
}

static struct mw_weight *
add(struct list *list, enum mw_weight_role role, enum mw_weight_start start)
{
    struct mw_weight *weight = &list->out[list->count++];

    memset(weight, 0, sizeof *weight);
    set_name(list, weight, role);
    weight->base = list->tensors->base;
    weight->operator_ = list->operator_;
    weight->role = role;
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
add_matrix(struct list *list, const struct mw_operator_parameter *parameter, int64_t first_row)
{
    int64_t rows = list->dims.width[parameter->rows];
    int64_t columns = list->dims.width[parameter->columns];

    struct mw_weight *weight = add(list, parameter->role, parameter->start);

    weight->rank = 2;
    weight->transposed =
        list->tensors->transposed && list->layer >= 0 && !mw_operator_row(list->operator_)->adapts;
    if (mw_operator_row(list->operator_)->adapts) {
        weight->lora = parameter->rows == MW_WIDTH_RANK ? MW_LORA_IN : MW_LORA_OUT;
        name_adapter(weight);
    }
    if (parameter->kind == MW_PARAMETER_EXPERTS || parameter->kind == MW_PARAMETER_EXPERTS_TWIN) {
        weight->experts = list->dims.width[MW_WIDTH_EXPERTS_HERE];
        weight->first_expert = list->first_expert;
    }
    weight->shape[0] = weight->transposed ? columns : rows;
    weight->shape[1] = weight->transposed ? rows : columns;
    weight->first_row = first_row;
    weight->rows = MAX(1, weight->experts) * rows;
    weight->elements = weight->rows * columns;
    weight->row_elements = columns;
    if (!weight->experts && !extend_last(list))
        join_tensor(list, weight);
}

/* --- slices ---------------------------------------------------------------------------------- */

static bool
is_copy(const struct mw_decoder *decoder, const struct mw_weight *weight)
{
    return decoder->copies_embedding && weight->role == MW_WEIGHT_LOGITS;
}

/* The weight of the whole model that this one is, or is a part of. */
static struct mw_weight
whole_weight(const struct mw_decoder *decoder, const struct mw_weight *weight, int64_t layer)
{
    struct mw_decoder whole = mw_decoder_whole(decoder);
    struct mw_weight all[MW_WEIGHTS_MAX], *it = all;
    bool copy = is_copy(decoder, weight);
    enum mw_weight_role role = copy ? MW_WEIGHT_TOKENS : weight->role;

    mw_weights_list_apart(&whole, copy ? MW_OPERATOR_EMBEDDING : weight->operator_, layer, all);
    while (it->role != role || it->lora != weight->lora)
        it++;
    return *it;
}

/* Which rows and columns of the file's tensor the weight is. */
static void
place_in_file(const struct mw_decoder *decoder, struct mw_weight *weight, int64_t layer)
{
    const struct mw_weight whole = whole_weight(decoder, weight, layer);
    int64_t index = decoder->slice.index;
    int64_t before = index * weight->elements;

    memcpy(weight->name, whole.name, sizeof weight->name);
    memcpy(weight->shape, whole.shape, sizeof weight->shape);
    weight->file_row = whole.file_row;
    if (weight->row_elements != whole.row_elements) {
        weight->file_column = index * weight->row_elements;
    } else if (weight->rows != whole.rows) {
        weight->file_row += index * weight->rows;
        weight->padding = CLAMP(before + weight->elements - whole.elements, 0, weight->elements);
    }
}

/* --- operators ------------------------------------------------------------------------------- */

static void
add_parameter(struct list *list, const struct mw_operator_parameter *parameter, int64_t first_row)
{
    int64_t rows = list->dims.width[parameter->rows];

    if (parameter->kind == MW_PARAMETER_VECTOR)
        add_vector(list, parameter->role, rows, parameter->start);
    else if (parameter->columns)
        add_matrix(list, parameter, first_row);
    else
        add_bias(list, parameter->role, first_row, rows);
}

/* Rows of parameters that are more of the one before begin where its rows end. */
static void
add_parameters(struct list *list, const struct mw_operator_parameter *parameters)
{
    int64_t end_row = 0;

    for (const struct mw_operator_parameter *p = parameters; p && p->kind; p++) {
        bool more = p->kind == MW_PARAMETER_MORE || p->kind == MW_PARAMETER_MORE_BIAS ||
                    p->kind == MW_PARAMETER_MORE_TABLE;
        int64_t first_row = more ? end_row : 0;
        bool empty = !list->dims.width[p->rows] || (p->columns && !list->dims.width[p->columns]);
        if (!mw_dims_have(&list->dims, p->when | p->owned) || empty)
            continue;
        end_row = first_row + list->dims.width[p->rows];
        add_parameter(list, p, first_row);
    }
}

static int
list_weights(const struct mw_decoder *decoder, enum mw_operator operator_, int64_t layer,
             bool apart, struct mw_weight out[MW_WEIGHTS_MAX])
{
    const struct mw_operator_row *row = mw_operator_row(operator_);
    struct list list = {.dims = mw_decoder_dims(decoder),
                        .tensors = decoder->family->run.tensors,
                        .out = out,
                        .operator_ = operator_,
                        .layer = row->place == MW_PLACE_BLOCK ? layer : -1,
                        .first_expert = decoder->spread.index * mw_decoder_experts_here(decoder),
                        .apart = apart};

    if (mw_dims_adapt(&list.dims, row))
        add_parameters(&list, row->parameters);
    for (int i = 0; i < list.count; i++)
        if (mw_decoder_is_slice(decoder) || is_copy(decoder, &out[i]))
            place_in_file(decoder, &out[i], layer);
    return list.count;
}

/* Rows of a slice that are neighbours are none in the whole. */
int
mw_weights_list(const struct mw_decoder *decoder, enum mw_operator operator_, int64_t layer,
                struct mw_weight out[MW_WEIGHTS_MAX])
{
    return list_weights(decoder, operator_, layer, mw_decoder_is_slice(decoder), out);
}

int
mw_weights_list_apart(const struct mw_decoder *decoder, enum mw_operator operator_, int64_t layer,
                      struct mw_weight out[MW_WEIGHTS_MAX])
{
    return list_weights(decoder, operator_, layer, true, out);
}

bool
mw_weight_is_of_all_slices(const struct mw_decoder *slice, const struct mw_weight *weight)
{
    return whole_weight(slice, weight, 0).elements == weight->elements;
}

bool
mw_weight_is_written_elsewhere(const struct mw_decoder *decoder, const struct mw_weight *weight)
{
    return is_copy(decoder, weight) ||
           (!mw_decoder_is_first_slice(decoder) && mw_weight_is_of_all_slices(decoder, weight));
}

int64_t
mw_weight_expert_at(const struct mw_weight *weight, int64_t element)
{
    return weight->experts ? element / (weight->elements / weight->experts) : 0;
}

struct mw_weight
mw_weight_of_expert(const struct mw_weight *weight, int64_t expert)
{
    struct mw_weight one = *weight;
    const char *number = strchr(weight->name, MW_EXPERT_NUMBER);

    if (!weight->experts || !number)
        return one;
    g_snprintf(one.name, sizeof one.name, "%.*s%" G_GINT64_FORMAT "%s",
               (int)(number - weight->name), weight->name, weight->first_expert + expert,
               number + 1);
    one.elements /= weight->experts;
    one.rows /= weight->experts;
    one.experts = 0;
    return one;
}

int64_t
mw_weight_file_element(const struct mw_weight *weight, int64_t element)
{
    if (weight->rank == 1)
        return weight->file_row * weight->row_elements + element;
    int64_t row = weight->file_row + element / weight->row_elements;
    int64_t column = weight->file_column + element % weight->row_elements;
    return weight->transposed ? column * weight->shape[1] + row : row * weight->shape[1] + column;
}
