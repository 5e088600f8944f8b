/* The layers of a description as stacks of a model: kinds of them, and how often each comes. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/described.h"

struct block {
    bool between; /* layers: no layer of its own, but a part of all */
    int64_t visits, distinct;
    GArray *operators;
};

static void
clear_block(gpointer block)
{
    g_clear_pointer(&((struct block *)block)->operators, g_array_unref);
}

static const struct mw_described_operator *
at(const struct block *block, guint number)
{
    return &g_array_index(block->operators, struct mw_described_operator, number);
}

static bool
is_mix(const struct mw_described_operator *of)
{
    return of->kind == MW_DESCRIBED_ATTENTION || of->kind == MW_DESCRIBED_SCAN;
}

/* --- which operator of a layer ---------------------------------------------------------------- */

/* What is known of a block while its operators are sorted in order. */
struct sorting {
    int64_t hidden;
    guint last_mix;     /* its number, from 1; 0: there is none */
    guint last_product; /* the same */
    bool projects;      /* the next product takes what a mix gave */
    enum mw_operator so_far;
};

/* The width that a layer takes: that of its first norm, or of its first product's input. */
static int64_t
hidden_of(const struct block *block)
{
    int64_t width = 0;

    for (guint i = 0; i < block->operators->len; i++) {
        if (at(block, i)->kind == MW_DESCRIBED_NORM)
            return at(block, i)->width;
        if (at(block, i)->kind == MW_DESCRIBED_PRODUCT && !width)
            width = at(block, i)->k;
    }
    return MAX(1, width);
}

/* Products before the last mix make what it takes, save those right behind an earlier one; behind
 * it stand a projection and the MLP, whose last products give the layer's width again. */
static enum mw_operator
sort_product(struct sorting *sorting, const struct mw_described_operator *of, guint number)
{
    if (number < sorting->last_mix && !sorting->projects)
        return MW_OPERATOR_QKV;
    if (sorting->projects) {
        sorting->projects = false;
        return MW_OPERATOR_PROJECTION;
    }
    bool down = number == sorting->last_product || (of->n == sorting->hidden && of->k != of->n);
    return down ? MW_OPERATOR_MLP_DOWN : MW_OPERATOR_MLP_UP;
}

static enum mw_operator
sort_operator(struct sorting *sorting, const struct mw_described_operator *of, guint number)
{
    if (of->kind == MW_DESCRIBED_PRODUCT)
        return sorting->so_far = sort_product(sorting, of, number);
    if (of->kind == MW_DESCRIBED_NORM)
        return number < sorting->last_mix || sorting->so_far == MW_OPERATOR_NONE
                   ? MW_OPERATOR_NORM1
                   : MW_OPERATOR_NORM2;
    if (sorting->so_far == MW_OPERATOR_NONE)
        return MW_OPERATOR_NORM1;
    return sorting->so_far;
}

static struct sorting
begin_sorting(const struct block *block)
{
    struct sorting sorting = {.hidden = hidden_of(block)};

    for (guint i = 0; i < block->operators->len; i++) {
        if (is_mix(at(block, i)))
            sorting.last_mix = i + 1;
        if (at(block, i)->kind == MW_DESCRIBED_PRODUCT)
            sorting.last_product = i + 1;
    }
    return sorting;
}

/* --- a stack --------------------------------------------------------------------------------- */

static bool
refuse_many(struct mw_described *d, const char *what, int most)
{
    return mw_refuse(d->error, "%s: more %s than can be planned: must be at most %d", d->origin,
                     what, most);
}

static bool
add_mix(struct mw_described *d, const struct mw_described_operator *of, int stack)
{
    struct mw_model *model = d->model;
    struct mw_model_stack *its = &model->stacks[stack];

    if (model->mix_count == MW_MIXES_MAX)
        return refuse_many(d, "attentions and scans", MW_MIXES_MAX);
    struct mw_model_mix *mix = &model->mixes[model->mix_count++];
    *mix = of->mix;
    mix->stack = (uint8_t)stack;
    if (of->kind == MW_DESCRIBED_ATTENTION && !its->heads) {
        its->heads = mix->heads;
        its->kv_heads = mix->kv_heads;
        its->head_dim = of->head_dim;
        its->window = mix->window;
        its->causal = mix->causal;
    }
    return true;
}

/* The tokens of a layer are the rows of its first norm, or of its first product of that width. */
static struct mw_model_line
tokens_of(const struct block *block, int64_t hidden)
{
    for (guint i = 0; i < block->operators->len; i++) {
        const struct mw_described_operator *of = at(block, i);
        if (of->kind == MW_DESCRIBED_NORM ||
            (of->kind == MW_DESCRIBED_PRODUCT && of->k == hidden && of->count == 1))
            return of->rows;
    }
    return (struct mw_model_line){1, 1, 0};
}

static bool
add_stack(struct mw_described *d, const struct block *block)
{
    struct mw_model *model = d->model;
    struct sorting sorting = begin_sorting(block);
    int stack = model->stack_count;

    if (!block->visits && !block->distinct)
        return true;
    if (stack == MW_STACKS_MAX)
        return refuse_many(d, "kinds of layers", MW_STACKS_MAX);
    model->stacks[stack] = (struct mw_model_stack){
        .layers = block->visits,
        .distinct = block->distinct,
        .hidden = sorting.hidden,
        .line = tokens_of(block, sorting.hidden),
        .attentions = 1,
    };
    model->stack_count++;
    for (guint i = 0; i < block->operators->len; i++) {
        const struct mw_described_operator *of = at(block, i);
        if (is_mix(of)) {
            sorting.projects = true;
            if (!add_mix(d, of, stack))
                return false;
        }
        if (of->kind == MW_DESCRIBED_ACTIVATION || (is_mix(of) && !of->elements))
            continue;
        if (!mw_described_add(d, of, sort_operator(&sorting, of, i + 1), stack, block->distinct))
            return false;
    }
    return true;
}

/* --- the file -------------------------------------------------------------------------------- */

static bool
read_block(struct mw_described *d, JsonArray *list, guint number, struct block *out)
{
    g_autofree char *where = g_strdup_printf("%s: blocks[%u]", d->origin, number);
    const char *place = "layer";
    JsonObject *object;
    int64_t distinct = 0;

    if (!mw_described_object(list, number, where, &object, d->error) ||
        !mw_json_get_string(object, "place", where, &place, d->error) ||
        !mw_json_get_int(object, "distinct", 0, mw_dimensions[MW_DIMENSION_LAYERS].max, where,
                         &distinct, d->error))
        return false;
    if (strcmp(place, "layer") && strcmp(place, "between")) {
        g_autofree char *shown = mw_json_text(json_object_get_member(object, "place"));
        return mw_refuse(d->error, "%s: key \"place\": value %s: must be layer or between", where,
                         shown);
    }
    out->between = !strcmp(place, "between");
    out->distinct = distinct;
    out->operators = mw_described_operators(object, "operators", where, d->error);
    return out->operators != NULL;
}

static bool
read_visits(struct mw_described *d, JsonArray *pattern, GArray *blocks)
{
    for (guint i = 0; i < json_array_get_length(pattern); i++) {
        JsonNode *node = json_array_get_element(pattern, i);
        JsonArray *row = JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
        int64_t pair[2] = {-1, -1}, most = mw_dimensions[MW_DIMENSION_LAYERS].max;
        for (guint j = 0; j < 2 && row && json_array_get_length(row) == 2; j++)
            if (json_node_get_value_type(json_array_get_element(row, j)) == G_TYPE_INT64)
                pair[j] = json_array_get_int_element(row, j);
        if (pair[0] < 0 || pair[0] >= blocks->len || pair[1] < 1 || pair[1] > most) {
            g_autofree char *shown = mw_json_text(node);
            return mw_refuse(d->error,
                             "%s: pattern[%u]: value %s: must be [block, times], a number of "
                             "blocks below %u and whole times from 1 to %" G_GINT64_FORMAT,
                             d->origin, i, shown, blocks->len, most);
        }
        struct block *block = &g_array_index(blocks, struct block, pair[0]);
        block->visits += pair[1];
        if (block->visits > most)
            return refuse_many(d, "layers", (int)most);
    }
    return true;
}

/* The layers that hold most parameters say the dimensions by which a model is named. */
static void
set_dimensions(struct mw_model *model)
{
    const struct mw_model_stack *best = NULL;
    double most = -1;

    for (int i = 0; i < model->stack_count; i++) {
        double weight = 0;
        for (int t = 0; t < model->tensor_count; t++)
            if (model->tensors[t].stack == i)
                weight += (double)model->tensors[t].elements * (double)model->stacks[i].distinct;
        if (weight > most) {
            most = weight;
            best = &model->stacks[i];
        }
    }
    model->hidden = best->hidden;
    model->heads = MAX(1, best->heads);
    model->kv_heads = MAX(1, best->kv_heads);
    model->head_dim = model->value_dim = MAX(1, best->head_dim);
}

bool
mw_described_add_layers(struct mw_described *d)
{
    JsonArray *list = mw_described_list(d->object, "blocks", d->origin, d->error);
    JsonArray *pattern = list ? mw_described_list(d->object, "pattern", d->origin, d->error) : NULL;
    g_autoptr(GArray) blocks = g_array_new(false, true, sizeof(struct block));
    int64_t layers = 0, kinds = 0;

    g_array_set_clear_func(blocks, clear_block);
    for (guint i = 0; pattern && i < json_array_get_length(list); i++) {
        struct block block = {0};
        bool good = read_block(d, list, i, &block);
        g_array_append_val(blocks, block);
        if (!good)
            return false;
    }
    if (!pattern || !read_visits(d, pattern, blocks))
        return false;
    for (guint i = 0; i < blocks->len; i++) {
        const struct block *block = &g_array_index(blocks, struct block, i);
        if (block->distinct > MAX(1, block->visits) && block->visits)
            return mw_refuse(d->error,
                             "%s: blocks[%u]: key \"distinct\": value %" G_GINT64_FORMAT
                             ": must be at most its times in the pattern (%" G_GINT64_FORMAT ")",
                             d->origin, i, block->distinct, block->visits);
        layers += block->between ? 0 : block->visits;
        kinds += block->visits > 0;
        if (!add_stack(d, block))
            return false;
    }
    if (layers < 1 || layers > mw_dimensions[MW_DIMENSION_LAYERS].max)
        return mw_refuse(d->error,
                         "%s: key \"pattern\": %" G_GINT64_FORMAT
                         " layers: must be from 1 to %" G_GINT64_FORMAT,
                         d->origin, layers, mw_dimensions[MW_DIMENSION_LAYERS].max);
    d->model->layers = layers;
    set_dimensions(d->model);
    if (kinds > 1)
        g_strlcpy(d->model->note,
                  "layers of several kinds are planned as alike, each with the mean of their "
                  "parameters, FLOPs and bytes",
                  sizeof d->model->note);
    return true;
}
