/* Reads memwall's own description of a model: its head, its layers, its tail, and what they sum to.
 */
#include "model/described.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/description.h"
#include "model/walk.h"

#define SCHEMA "memwall-description"
#define VERSION 1

/* Nobody looks it up: a description names no type of a config.json. */
static const struct mw_family family = {
    .name = "described",
    .why_not = "a description, which says how much a model computes and not what",
};

static bool
check_schema(struct mw_described *d)
{
    const char *schema = NULL;
    int64_t version = 0;

    if (!mw_json_get_string(d->object, "schema", d->origin, &schema, d->error) ||
        !mw_json_get_int(d->object, "version", 1, G_MAXINT32, d->origin, &version, d->error))
        return false;
    if (!schema || strcmp(schema, SCHEMA)) {
        g_autofree char *shown = mw_json_text(json_object_get_member(d->object, "schema"));
        return mw_refuse(d->error, "%s: key \"schema\": value %s: must be " SCHEMA, d->origin,
                         shown);
    }
    if (version == VERSION)
        return true;
    return mw_refuse(d->error,
                     "%s: key \"version\": value %" G_GINT64_FORMAT ": must be %d for this memwall",
                     d->origin, version, VERSION);
}

/* --- tensors --------------------------------------------------------------------------------- */

static struct mw_model_tensor *
vector_in(struct mw_model *model, enum mw_operator as, int stack)
{
    for (int i = 0; i < model->tensor_count; i++) {
        struct mw_model_tensor *tensor = &model->tensors[i];
        if (tensor->stack == stack && tensor->operator_ == as && !tensor->columns)
            return tensor;
    }
    return NULL;
}

/* How many of its matrices a token of the stack meets: of experts few, of the groups of a
 * convolution all. */
static int32_t
met_of(const struct mw_model *model, const struct mw_described_operator *of, int stack)
{
    struct mw_model_line tokens =
        stack < MW_STACKS_MAX ? model->stacks[stack].line : (struct mw_model_line){1, 1, 0};
    int64_t rows = mw_model_line_at(&of->rows, model->seq);
    int64_t met = mw_divide_up(rows, MAX(1, mw_model_line_at(&tokens, model->seq)));

    return (int32_t)CLAMP(met, 1, of->count);
}

bool
mw_described_add(struct mw_described *d, const struct mw_described_operator *of,
                 enum mw_operator as, int stack, int64_t distinct)
{
    struct mw_model *model = d->model;
    bool multiplies = of->kind == MW_DESCRIBED_PRODUCT;
    struct mw_model_tensor *vector = multiplies ? NULL : vector_in(model, as, stack);

    d->params = MW_SUM(d->params, MW_PRODUCT(distinct, of->elements));
    if (vector) {
        vector->elements = MW_SUM(vector->elements, of->elements);
        return true;
    }
    if (model->tensor_count == MW_TENSORS_MAX)
        return mw_refuse(d->error, "%s: more products than can be planned: must be at most %d",
                         d->origin, MW_TENSORS_MAX);
    model->tensors[model->tensor_count++] = (struct mw_model_tensor){
        .rows = multiplies ? of->n : 1,
        .columns = multiplies ? of->k : 0,
        .count = multiplies ? (int32_t)of->count : 1,
        .met = multiplies ? met_of(model, of, stack) : 1,
        .stack = (uint8_t)stack,
        .operator_ = (uint8_t)as,
        .line = multiplies ? of->rows : (struct mw_model_line){0, 1, 0},
        .elements = of->elements,
    };
    return true;
}

/* --- ends ------------------------------------------------------------------------------------ */

static bool
add_head(struct mw_described *d)
{
    g_autoptr(GArray) head = mw_described_operators(d->object, "head", d->origin, d->error);

    for (guint i = 0; head && i < head->len; i++) {
        const struct mw_described_operator *of =
            &g_array_index(head, struct mw_described_operator, i);
        if (of->kind == MW_DESCRIBED_EMBEDDING)
            d->table_rows = MAX(d->table_rows, of->table);
        if (of->kind != MW_DESCRIBED_ACTIVATION && of->kind != MW_DESCRIBED_ATTENTION &&
            of->kind != MW_DESCRIBED_SCAN &&
            !mw_described_add(d, of, MW_OPERATOR_EMBEDDING, MW_STACK_ENDS, 1))
            return false;
    }
    return head != NULL;
}

/* The last product of a language model gives its logits; what stands before it goes with the last
 * norm. */
static bool
add_tail(struct mw_described *d)
{
    g_autoptr(GArray) tail = mw_described_operators(d->object, "tail", d->origin, d->error);
    struct mw_model *model = d->model;
    guint last = 0;

    for (guint i = 0; tail && i < tail->len; i++)
        if (g_array_index(tail, struct mw_described_operator, i).kind == MW_DESCRIBED_PRODUCT)
            last = i + 1;
    model->bare = !last || !model->vocab;
    for (guint i = 0; tail && i < tail->len; i++) {
        const struct mw_described_operator *of =
            &g_array_index(tail, struct mw_described_operator, i);
        bool logits = i + 1 == last && !model->bare;
        if (of->kind == MW_DESCRIBED_ACTIVATION || of->kind == MW_DESCRIBED_ATTENTION ||
            of->kind == MW_DESCRIBED_SCAN)
            continue;
        if (!mw_described_add(d, of, logits ? MW_OPERATOR_LOGITS : MW_OPERATOR_FINAL_NORM,
                              MW_STACK_ENDS, 1))
            return false;
        if (!logits)
            continue;
        model->classes = of->n == model->vocab ? 0 : of->n;
        model->tied_embedding = of->shares && !of->elements && d->table_rows;
    }
    return tail != NULL;
}

bool
mw_described_add_ends(struct mw_described *d)
{
    return add_head(d) && add_tail(d);
}

/* --- the whole ------------------------------------------------------------------------------- */

static bool
read_top(struct mw_described *d)
{
    struct mw_model *model = d->model;
    const char *class_name = "described", *dtype = NULL;
    int64_t longest = 0;

    if (!mw_json_get_string(d->object, "class", d->origin, &class_name, d->error) ||
        !mw_json_get_string(d->object, "dtype", d->origin, &dtype, d->error) ||
        !mw_json_get_int(d->object, "seq", 1, mw_dimensions[MW_DIMENSION_SEQ].max, d->origin,
                         &model->seq, d->error) ||
        !mw_json_get_int(d->object, "longest", 1, mw_dimensions[MW_DIMENSION_SEQ].max, d->origin,
                         &longest, d->error) ||
        !mw_json_get_int(d->object, "vocab", 0, mw_dimensions[MW_DIMENSION_VOCAB].max, d->origin,
                         &model->vocab, d->error) ||
        !mw_json_get_int(d->object, "positions", 1, mw_dimensions[MW_DIMENSION_SEQ].max, d->origin,
                         &d->positions, d->error) ||
        !mw_json_get_bool(d->object, "rotary", d->origin, &model->rotary, d->error) ||
        !mw_json_get_bool(d->object, "dropout", d->origin, &model->dropout, d->error))
        return false;
    model->seq = MAX(model->seq, longest);
    if (!model->seq)
        return mw_refuse(d->error, "%s: key \"seq\": missing: must be a whole number from 1",
                         d->origin);
    g_autofree char *shown = g_strescape(class_name, NULL);
    g_strlcpy(model->architecture, shown, sizeof model->architecture);
    mw_model_set_stored_type(model, dtype);
    return true;
}

static bool
check_params(struct mw_described *d)
{
    JsonNode *node = json_object_get_member(d->object, "totals");
    int64_t said = 0;

    if (node && !JSON_NODE_HOLDS_OBJECT(node))
        return mw_refuse(d->error, "%s: key \"totals\": must be an object", d->origin);
    if (node && !mw_json_get_int(json_node_get_object(node), "parameters", 0, G_MAXINT64, d->origin,
                                 &said, d->error))
        return false;
    if (!node || said == d->params)
        return true;
    return mw_refuse(d->error,
                     "%s: key \"parameters\" of totals: value %" G_GINT64_FORMAT
                     ": must be the sum over the operators, %" G_GINT64_FORMAT,
                     d->origin, said, d->params);
}

static bool
read_notes(struct mw_described *d)
{
    JsonNode *node = json_object_get_member(d->object, "notes");
    JsonArray *list = node ? mw_described_list(d->object, "notes", d->origin, d->error) : NULL;

    for (guint i = 0; list && i < json_array_get_length(list); i++) {
        JsonNode *note = json_array_get_element(list, i);
        if (json_node_get_value_type(note) != G_TYPE_STRING)
            return mw_refuse(d->error, "%s: notes[%u]: must be a text", d->origin, i);
        g_autofree char *shown = g_strescape(json_node_get_string(note), NULL);
        mw_model_note(d->model, "%.200s", shown);
    }
    return !node || list;
}

bool
mw_described_read(JsonObject *object, const char *origin, struct mw_model *model, GError **error)
{
    static const struct mw_dimension_names no_names = {0};
    struct mw_described d = {.object = object, .origin = origin, .model = model, .error = error};

    *model = (struct mw_model){.family = &family,
                               .mlp_matrices = 2,
                               .norms_per_layer = 2,
                               .final_norm = true,
                               .mixed = true,
                               .described = true};
    if (!check_schema(&d) || !read_top(&d) || !mw_described_add_layers(&d) ||
        !mw_described_add_ends(&d) || !check_params(&d) || !read_notes(&d) ||
        !mw_model_complete(model, &no_names, origin, error))
        return false;
    model->position_rows = d.positions;
    return true;
}
