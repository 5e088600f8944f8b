/* Reads what the rows of formulas say of a config.json. */
#include "model/description.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"

void
mw_model_note(struct mw_model *model, const char *format, ...)
{
    size_t used = strlen(model->note);
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    if (strstr(model->note, text))
        return;
    g_snprintf(model->note + used, sizeof model->note - used, "%s%s", used ? "; " : "", text);
}

/* --- tasks ----------------------------------------------------------------------------------- */

const char *
mw_task_of(const struct mw_family *family, const char *class_name)
{
    const char *task = family->task ? family->task : "CausalLM";
    const char *found = class_name ? strstr(class_name, "For") : NULL;

    for (const char *next = found; next; next = strstr(next + 1, "For"))
        found = next;
    /* What a family is pretrained for need not be words: ELECTRA tells replaced ones. */
    if (found && !strcmp(found, "ForPreTraining") && !mw_task_is_language(task))
        return task;
    if (found)
        return found + strlen("For");
    if (class_name && g_str_has_suffix(class_name, "LMHeadModel"))
        return "CausalLM";
    if (class_name && g_str_has_suffix(class_name, "MTModel"))
        return "ConditionalGeneration";
    if (class_name && g_str_has_suffix(class_name, "EncoderModel"))
        return "Encoder";
    if (class_name && g_str_has_suffix(class_name, "WithProjection"))
        return "Projection";
    if (class_name && g_str_has_suffix(class_name, "Model"))
        return "Model";
    return task;
}

bool
mw_task_is_language(const char *task)
{
    static const char *const tasks[] = {"CausalLM", "ConditionalGeneration", "MaskedLM",
                                        "PreTraining"};

    for (size_t i = 0; i < G_N_ELEMENTS(tasks); i++)
        if (!strcmp(task, tasks[i]))
            return true;
    return false;
}

void
mw_task_set_logits(struct mw_model *model, const char *task, int64_t labels)
{
    bool sequences = !strcmp(task, "SequenceClassification");
    bool tokens = !strcmp(task, "TokenClassification");
    bool answers = !strcmp(task, "QuestionAnswering");

    if (mw_task_is_language(task))
        return;
    model->tied_embedding = model->logits_bias = false;
    model->bare = model->family->traits.own_heads || !(sequences || tokens || answers);
    if (model->family->traits.own_heads)
        return;
    model->classes = answers ? 2 : sequences || tokens ? labels : 0;
    model->logits_bias = tokens || answers;
    if (!sequences && !tokens && !answers) {
        g_autofree char *shown = g_strescape(task, NULL);
        mw_model_note(model, "%.48s: counted as the bare model, without a loss", shown);
    }
}

/* --- dimensions and flags -------------------------------------------------------------------- */

/* What a formula sets: a size, or a flag.  Both are NULL for what rows of formulas do not say. */
struct place {
    int64_t *number;
    bool *flag;
};

static struct place
place_of(struct mw_model *model, enum mw_key_meaning meaning)
{
    if (meaning < MW_DIMENSION_COUNT)
        return (struct place){.number = mw_dimension_in(model, (int)meaning)};
    switch (meaning) {
    case MW_FLAG_MLP_MATRICES:
        return (struct place){.number = &model->mlp_matrices};
    case MW_FLAG_NORMS_PER_LAYER:
        return (struct place){.number = &model->norms_per_layer};
    case MW_FLAG_UNUSED_POSITIONS:
        return (struct place){.number = &model->position_rows};
    case MW_FLAG_LEARNED_POSITIONS:
        return (struct place){.flag = &model->learned_positions};
    case MW_FLAG_ROTARY:
        return (struct place){.flag = &model->rotary};
    case MW_FLAG_TIED_EMBEDDING:
        return (struct place){.flag = &model->tied_embedding};
    case MW_FLAG_QKV_BIAS:
        return (struct place){.flag = &model->attention_bias};
    case MW_FLAG_PROJECTION_BIAS:
        return (struct place){.flag = &model->projection_bias};
    case MW_FLAG_MLP_BIAS:
        return (struct place){.flag = &model->mlp_bias};
    case MW_FLAG_NORM_BIAS:
        return (struct place){.flag = &model->norm_bias};
    case MW_FLAG_LOGITS_BIAS:
        return (struct place){.flag = &model->logits_bias};
    case MW_FLAG_ROUTER_BIAS:
        return (struct place){.flag = &model->router_bias};
    case MW_FLAG_FINAL_NORM:
        return (struct place){.flag = &model->final_norm};
    case MW_FLAG_EMBEDDING_NORM:
        return (struct place){.flag = &model->embedding_norm};
    case MW_FLAG_QK_NORM:
        return (struct place){.flag = &model->qk_norm};
    case MW_FLAG_PARALLEL_BLOCK:
        return (struct place){.flag = &model->parallel_block};
    case MW_FLAG_DROPOUT:
        return (struct place){.flag = &model->dropout};
    case MW_FLAG_PLAIN_NORMS:
        return (struct place){.flag = &model->plain_norms};
    default:
        return (struct place){0};
    }
}

/* Without these there is no model; others may be 0, such as experts. */
static bool
must_be_positive(enum mw_key_meaning meaning)
{
    return meaning == MW_DIMENSION_LAYERS || meaning == MW_DIMENSION_HIDDEN ||
           meaning == MW_DIMENSION_HEADS || meaning == MW_DIMENSION_KV_HEADS ||
           meaning == MW_DIMENSION_HEAD_DIM || meaning == MW_DIMENSION_FFN ||
           meaning == MW_DIMENSION_VOCAB || meaning == MW_DIMENSION_SEQ;
}

/* A size that the file itself says to be 0. */
static bool
check_positive(const struct mw_config *config, const struct mw_formula_scope *scope,
               const struct mw_family_key *key, int64_t value)
{
    if (value || !must_be_positive(key->meaning) || !scope->object ||
        !json_object_has_member(scope->object, key->name) ||
        json_object_get_null_member(scope->object, key->name))
        return true;
    return mw_refuse(config->error,
                     "%s: key \"%s\": value 0: must be a whole number from 1 to 2^40",
                     config->origin, key->name);
}

/* Not a key of files, but a name for what follows from others. */
static bool
is_derived(const struct mw_family *family, const char *name)
{
    const struct mw_family_let *let = family->lets;

    while (let && let->name && strcmp(let->name, name))
        let++;
    return let && let->name && !g_ascii_isdigit(*let->formula);
}

/* Files leave out what transformers' class has: of the length one should know that it is not the
 * file's.  Its row begins with its key, but for lengths that no key has. */
static void
note_length(const struct mw_config *config, const struct mw_formula_scope *scope, const char *row)
{
    g_autofree char *key = g_strndup(row, strspn(row, "abcdefghijklmnopqrstuvwxyz_"));

    if (!*key || !scope->object || strchr(row, '.') || is_derived(scope->family, key))
        return;
    if (!json_object_has_member(scope->object, key) ||
        json_object_get_null_member(scope->object, key))
        mw_model_note(config->model,
                      "no %s: sequences of at most %" G_GINT64_FORMAT " tokens, as in transformers",
                      key, config->model->seq);
}

static bool
read_keys(const struct mw_config *config, const struct mw_formula_scope *scope)
{
    for (const struct mw_family_key *key = scope->family->keys; key && key->name; key++) {
        struct place place = place_of(config->model, key->meaning);
        if (!place.number && !place.flag)
            g_error("the table of families: %s: meaning of \"%s\"", scope->family->name, key->name);
        if (!(place.number ? mw_formula_number(scope, key->name, place.number, config->error)
                           : mw_formula_condition(scope, key->name, place.flag, config->error)))
            return false;
        if (place.number && !check_positive(config, scope, key, *place.number))
            return false;
        if (key->meaning == MW_DIMENSION_SEQ)
            note_length(config, scope, key->name);
    }
    return true;
}

/* --- tensors --------------------------------------------------------------------------------- */

static const enum mw_operator operators[MW_PART_COUNT] = {
    [MW_PART_EMBEDDING] = MW_OPERATOR_EMBEDDING,
    [MW_PART_NORM1] = MW_OPERATOR_NORM1,
    [MW_PART_QKV] = MW_OPERATOR_QKV,
    [MW_PART_PROJECTION] = MW_OPERATOR_PROJECTION,
    [MW_PART_NORM2] = MW_OPERATOR_NORM2,
    [MW_PART_UP] = MW_OPERATOR_MLP_UP,
    [MW_PART_DOWN] = MW_OPERATOR_MLP_DOWN,
    [MW_PART_FINAL_NORM] = MW_OPERATOR_FINAL_NORM,
    [MW_PART_LOGITS] = MW_OPERATOR_LOGITS,
};

static bool
number_or(const struct mw_formula_scope *scope, const char *formula, int64_t without, int64_t *out,
          GError **error)
{
    *out = without;
    return !formula || mw_formula_number(scope, formula, out, error);
}

static bool
holds(const struct mw_formula_scope *scope, const char *formula, bool without, bool *out,
      GError **error)
{
    *out = without;
    return !formula || mw_formula_condition(scope, formula, out, error);
}

static bool
refuse_many(const struct mw_config *config, const char *what)
{
    g_set_error(config->error, MW_ERROR, MW_ERROR_INVALID, "%s: more %s than can be described here",
                config->origin, what);
    return false;
}

static uint8_t
stack_of(const struct mw_family_tensor *tensor, int stack)
{
    static const uint8_t common[] = {[MW_LAYERS_ALL] = MW_STACK_BLOCKS,
                                     [MW_LAYERS_OF_EXPERTS] = MW_STACK_EXPERTS,
                                     [MW_LAYERS_DENSE] = MW_STACK_DENSE};

    if (mw_operator_row(operators[tensor->part])->place != MW_PLACE_BLOCK)
        return MW_STACK_ENDS;
    return stack < 0 ? common[tensor->in] : (uint8_t)stack;
}

static bool
add_tensor(const struct mw_config *config, const struct mw_formula_scope *scope,
           const struct mw_family_tensor *tensor, int stack)
{
    struct mw_model *model = config->model;
    struct mw_model_tensor it = {.operator_ = operators[tensor->part],
                                 .stack = stack_of(tensor, stack),
                                 .table = tensor->table};
    int64_t count = 1, met = 0;
    bool there;

    if (!holds(scope, tensor->when, true, &there, config->error))
        return false;
    if (!there)
        return true;
    if (!mw_formula_number(scope, tensor->rows, &it.rows, config->error) ||
        !number_or(scope, tensor->columns, 0, &it.columns, config->error) ||
        !number_or(scope, tensor->count, 1, &count, config->error) ||
        !number_or(scope, tensor->met, count, &met, config->error) ||
        !holds(scope, tensor->bias, false, &it.bias, config->error))
        return false;
    if (!it.rows || !count || (tensor->columns && !it.columns))
        return true;
    bool visits = tensor->met && json_object_has_member(scope->object, tensor->met);
    if (visits && (met > count || !met))
        return mw_refuse(config->error,
                         "%s: key \"%s\": value %" G_GINT64_FORMAT
                         ": must be a whole number from 1 to %" G_GINT64_FORMAT ", as there are %s",
                         config->origin, tensor->met, met, count, tensor->count);
    if (count > G_MAXINT32 || met > count || model->tensor_count == MW_TENSORS_MAX)
        return refuse_many(config, "tensors");
    it.count = (int32_t)count;
    it.met = (int32_t)met;
    model->tensors[model->tensor_count++] = it;
    return true;
}

static bool
add_tensors(const struct mw_config *config, const struct mw_formula_scope *scope,
            const struct mw_family_tensor *tensors, int stack)
{
    for (const struct mw_family_tensor *tensor = tensors; tensor && tensor->part; tensor++)
        if (!add_tensor(config, scope, tensor, stack))
            return false;
    return true;
}

/* --- stacks ---------------------------------------------------------------------------------- */

static const char *
formula_of(const struct mw_family *family, enum mw_key_meaning meaning)
{
    const struct mw_family_key *key = family->keys;

    while (key->name && key->meaning != meaning)
        key++;
    return key->name;
}

static bool
own_layers(const struct mw_config *config, const struct mw_formula_scope *scope, int64_t *layers)
{
    if (!mw_formula_number(scope, formula_of(scope->family, MW_DIMENSION_LAYERS), layers,
                           config->error))
        return false;
    if (*layers <= mw_dimensions[MW_DIMENSION_LAYERS].max)
        return true;
    return mw_refuse(config->error,
                     "%s: key \"%s\": value %" G_GINT64_FORMAT
                     ": must be a whole number from 1 to %" G_GINT64_FORMAT,
                     config->origin, formula_of(scope->family, MW_DIMENSION_LAYERS), *layers,
                     mw_dimensions[MW_DIMENSION_LAYERS].max);
}

static bool
stack_has(const struct mw_formula_scope *scope, const struct mw_family_stack *stack, int64_t layer,
          bool *has, GError **error)
{
    struct mw_formula_scope at = *scope;

    at.layer = layer;
    return holds(&at, stack->when, true, has, error);
}

/* Of a layer of the model: the number of its stack, or its kind. */
static void
take_turn(struct mw_model *model, int64_t layer, int64_t kind)
{
    if (layer < MW_TURNS_MAX && kind <= UINT8_MAX)
        model->turns[layer] = (uint8_t)kind;
}

/* Of the family's layers those that are of this stack and of none before it. */
static bool
count_layers(const struct mw_config *config, const struct mw_formula_scope *scope,
             const struct mw_family_stack *stack, int64_t *layers)
{
    int64_t all = 0;

    *layers = 0;
    if (!own_layers(config, scope, &all))
        return false;
    for (int64_t layer = 0; layer < all; layer++) {
        const struct mw_family_stack *of = scope->family->stacks;
        bool has = false;
        for (; of <= stack && !has; of++)
            if (!of->layers && !stack_has(scope, of, layer, &has, config->error))
                return false;
        bool its = has && of == stack + 1;
        *layers += its;
        if (its)
            take_turn(config->model, config->model->turn_count + layer, config->model->stack_count);
    }
    return true;
}

static bool
fill_stack(const struct mw_config *config, const struct mw_formula_scope *scope,
           const struct mw_family_stack *stack, struct mw_model_stack *out)
{
    GError **error = config->error;
    const char *hidden =
        stack->hidden ? stack->hidden : formula_of(scope->family, MW_DIMENSION_HIDDEN);

    if (!(stack->layers ? mw_formula_number(scope, stack->layers, &out->layers, error)
                        : count_layers(config, scope, stack, &out->layers)))
        return false;
    out->distinct = out->layers;
    out->causal = !stack->bidirectional;
    if (!number_or(scope, stack->shared, out->layers, &out->distinct, error) ||
        !mw_formula_number(scope, hidden, &out->hidden, error) ||
        !number_or(scope, stack->tokens, 0, &out->tokens, error) ||
        !number_or(scope, stack->heads, 0, &out->heads, error) ||
        !number_or(scope, stack->kv_heads, out->heads, &out->kv_heads, error) ||
        !number_or(scope, stack->head_dim, out->heads ? out->hidden / MAX(1, out->heads) : 0,
                   &out->head_dim, error) ||
        !number_or(scope, stack->attentions, 1, &out->attentions, error) ||
        !number_or(scope, stack->window, 0, &out->window, error))
        return false;
    if (out->layers > mw_dimensions[MW_DIMENSION_LAYERS].max || out->distinct > out->layers)
        return refuse_many(config, "layers");
    if (stack->heads && (!out->heads || !out->kv_heads || !out->head_dim))
        return mw_refuse(config->error, "%s: key \"%s\": must be at least 1", config->origin,
                         !out->heads                         ? stack->heads
                         : !out->kv_heads && stack->kv_heads ? stack->kv_heads
                                                             : hidden);
    return true;
}

/* Behind stacks whose layers take turns. */
static bool
end_turns(const struct mw_config *config, const struct mw_formula_scope *scope)
{
    const struct mw_family_stack *stack = scope->family->stacks;
    int64_t layers = 0;

    while (stack->name && stack->layers)
        stack++;
    if (stack->name && !own_layers(config, scope, &layers))
        return false;
    config->model->turn_count += layers;
    return true;
}

static bool
add_stack(const struct mw_config *config, const struct mw_formula_scope *scope,
          const struct mw_family_stack *stack)
{
    struct mw_model *model = config->model;
    struct mw_model_stack it = {0};
    struct mw_formula_scope first = *scope;
    bool has = false;

    if (!fill_stack(config, scope, stack, &it))
        return false;
    if (!it.layers)
        return true;
    if (model->stack_count == MW_STACKS_MAX)
        return refuse_many(config, "kinds of layers");
    /* Tensors whose formulas name a layer are those of the first one. */
    for (; stack->when && !stack->layers && !has; first.layer += !has)
        if (!stack_has(scope, stack, first.layer, &has, config->error))
            return false;
    for (int64_t i = 0; stack->layers && i < it.layers; i++)
        take_turn(model, model->turn_count++, model->stack_count);
    model->stacks[model->stack_count] = it;
    return add_tensors(config, &first, stack->tensors, model->stack_count++);
}

/* --- towers ---------------------------------------------------------------------------------- */

static bool
add_tower(const struct mw_config *config, const struct mw_formula_scope *scope,
          const struct mw_family_tower *tower)
{
    JsonNode *node = scope->object ? json_object_get_member(scope->object, tower->key) : NULL;
    JsonObject *object = node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
    const char *type = mw_formula_type_of_part(object, scope->type, tower->family);
    bool there;

    if (!holds(scope, tower->when, true, &there, config->error))
        return false;
    if (node && !JSON_NODE_HOLDS_NULL(node) && !object)
        return mw_refuse(config->error, "%s: key \"%s\": must be an object", config->origin,
                         tower->key);
    if (!there || tower->is_text)
        return true;
    const char *said = NULL;
    if (object && !mw_json_get_string(object, "model_type", config->origin, &said, config->error))
        return false;
    const struct mw_family *family = mw_family_find(type);
    if (!family || !family->lets) {
        g_autofree char *shown = g_strescape(type, NULL);
        return mw_refuse(config->error, "%s: key \"%s\": model type %.48s is not supported there",
                         config->origin, tower->key, shown);
    }
    struct mw_formula_scope inner = *scope;
    inner.object = object;
    inner.family = family;
    inner.type = type;
    inner.task = "Tower";
    return mw_description_add(config, &inner);
}

/* --- layers of dimensions and flags ---------------------------------------------------------- */

/* How often each kind occurs, and whether window and dense_layers say the order. */
bool
mw_description_sort(const struct mw_config *config, const struct mw_formula_scope *scope)
{
    const struct mw_family *family = scope->family;
    struct mw_model *model = config->model;
    struct mw_formula_scope at = *scope;
    int64_t counts[4] = {0}, full_first = -1, dense = 0, windowed_count = 0;
    bool regular = true;

    if (!mw_layer_lists_check(config, scope, model->layers))
        return false;
    if (!family->experts_in && !family->windowed_in)
        return true;
    if (model->layers > mw_dimensions[MW_DIMENSION_LAYERS].max)
        return refuse_many(config, "layers");
    g_autofree uint8_t *kinds = g_malloc0((gsize)model->layers);
    for (at.layer = 0; at.layer < model->layers; at.layer++) {
        bool experts, windowed;
        if (!holds(&at, family->experts_in, at.layer >= model->dense_layers, &experts,
                   config->error) ||
            !holds(&at, family->windowed_in, true, &windowed, config->error))
            return false;
        experts = experts && model->experts;
        windowed = windowed && model->window;
        int kind = 2 * experts + windowed;
        kinds[at.layer] = (uint8_t)kind;
        counts[kind]++;
        windowed_count += windowed;
        dense += !experts && dense == at.layer;
        if (!windowed && full_first < 0)
            full_first = at.layer;
    }
    if (!windowed_count)
        model->window = 0;
    model->window_period = model->window && full_first >= 0 ? full_first + 1 : 0;
    if (model->experts)
        model->dense_layers = dense;
    for (int64_t layer = 0; layer < model->layers && regular; layer++)
        regular = (int)mw_model_block_kind(model, layer) == kinds[layer];
    if (regular)
        return true;
    memcpy(model->mixed_layers, counts, sizeof counts);
    model->mixed = true;
    for (; model->turn_count < model->layers; model->turn_count++)
        take_turn(model, model->turn_count, kinds[model->turn_count]);
    model->window_period = model->dense_layers = 0;
    return true;
}

/* --- the whole ------------------------------------------------------------------------------- */

/* Layers that a plan may have one by one: of no more kinds than it has, all between the same widths
 * and of the same tokens, each with parameters of its own. */
static bool
take_turns(const struct mw_model *model, int64_t kinds)
{
    int64_t of_stacks = 0;

    for (int i = 0; i < model->stack_count; i++) {
        const struct mw_model_stack *stack = &model->stacks[i];
        if (stack->distinct != stack->layers || stack->hidden != model->hidden || stack->tokens)
            return false;
        of_stacks += stack->layers;
    }
    return kinds > 1 && kinds <= MW_BLOCK_KIND_COUNT && model->layers <= MW_TURNS_MAX &&
           model->turn_count == model->layers && (!of_stacks || of_stacks == model->layers);
}

bool
mw_description_mix(const struct mw_config *config)
{
    struct mw_model *model = config->model;
    bool blocks = !model->family->stacks;
    int64_t layers = 0, kinds = model->stack_count;

    /* Without logits, what stands behind the layers goes with the last norm. */
    for (int i = 0; i < model->tensor_count && !mw_model_logits(model); i++)
        if (model->tensors[i].operator_ == MW_OPERATOR_LOGITS)
            model->tensors[i].operator_ = MW_OPERATOR_FINAL_NORM;
    if (!model->stack_count && !model->mixed)
        return true;
    for (int kind = 0; blocks && !model->mixed && kind < MW_BLOCK_KIND_COUNT; kind++)
        model->mixed_layers[kind] =
            mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers);
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
        layers += model->mixed_layers[kind], kinds += model->mixed_layers[kind] > 0;
    for (int i = 0; i < model->stack_count; i++)
        layers += model->stacks[i].layers;
    model->mixed = true;
    model->layers = layers;
    model->by_turns = take_turns(model, kinds);
    if (model->by_turns)
        mw_model_note(model,
                      "layers of several kinds are planned as what they are, those of a kind "
                      "one after the other");
    else if (kinds > 1)
        mw_model_note(model, "layers of several kinds are planned as alike, each with the mean of "
                             "their parameters, FLOPs and bytes");
    return true;
}

bool
mw_description_add(const struct mw_config *config, const struct mw_formula_scope *scope)
{
    const struct mw_family *family = scope->family;

    if (!add_tensors(config, scope, family->tensors, -1))
        return false;
    for (const struct mw_family_stack *stack = family->stacks; stack && stack->name; stack++)
        if (!add_stack(config, scope, stack))
            return false;
    if (family->stacks && !end_turns(config, scope))
        return false;
    for (const struct mw_family_tower *tower = family->towers; tower && tower->key; tower++)
        if (!add_tower(config, scope, tower))
            return false;
    if (family->approximates)
        mw_model_note(config->model, "%s", family->approximates);
    return true;
}

bool
mw_description_read(const struct mw_config *config, const struct mw_formula_scope *scope)
{
    bool refused;

    if (!holds(scope, scope->family->refused, false, &refused, config->error))
        return false;
    if (refused)
        return mw_refuse(config->error, "%s: type %s: %s", config->origin, scope->type,
                         scope->family->refused_why);
    return read_keys(config, scope) && mw_description_sort(config, scope);
}
