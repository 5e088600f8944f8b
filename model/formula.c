/* Evaluates the formulas of the table of families, by recursive descent. */
#include "model/formula.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* Formulas that name formulas: the table nests them a few deep. */
#define DEPTH_MAX 24

enum kind { NOTHING, NUMBER, STRING, NODE };

struct value {
    enum kind kind;
    double number;
    const char *string;
    JsonNode *node;             /* where it stands in the file; NULL: nowhere */
    bool flag;                  /* a number that the file has as true or false */
    const char *key;            /* whose value it is, for errors; NULL: nobody's */
    const struct mw_family *of; /* an object's: has the defaults of its keys */
};

struct parser {
    const struct mw_formula_scope *scope;
    const char *at;
    const char *excluded; /* the name that is being defined: stands for its key alone */
    int depth;
    bool skips; /* a branch that is not taken: no errors of values */
    GError **error;
    bool failed;
};

static struct value parse_choice(struct parser *p);

/* --- values ---------------------------------------------------------------------------------- */

static struct value
number(double value)
{
    return (struct value){.kind = NUMBER, .number = value};
}

/* `value`: what is wrong; shown where it stands in the file. */
static void
fail(struct parser *p, const struct value *value, const char *must)
{
    if (p->failed || p->skips)
        return;
    p->failed = true;
    const char *key = value->key ? value->key : p->scope->family->name;
    g_autofree char *shown = value->node ? mw_json_text(value->node) : NULL;
    if (value->kind == NOTHING)
        mw_refuse(p->error, "%s: key \"%s\": missing: %s", p->scope->origin, key, must);
    else if (shown)
        mw_refuse(p->error, "%s: key \"%s\": value %s: %s", p->scope->origin, key, shown, must);
    else
        mw_refuse(p->error, "%s: key \"%s\": %s", p->scope->origin, key, must);
}

/* Of what the file says: no size is negative or part of one, but what sizes are multiplied by. */
static void
check_range(struct parser *p, const struct value *value)
{
    if (!value->node || value->kind != NUMBER)
        return;
    bool whole = value->number == floor(value->number);
    if (!(value->number >= 0 && value->number <= (double)MW_FORMULA_MAX))
        fail(p, value, "must be a number from 0 to 2^40");
    else if (!whole && !mw_family_key_is_fraction(value->key))
        fail(p, value, "must be a whole number");
    else if (value->number == 0 && mw_family_key_is_positive(value->key))
        fail(p, value, "must be a whole number from 1 to 2^40");
}

static double
number_of(struct parser *p, const struct value *value)
{
    if (value->kind != NUMBER || value->flag) {
        fail(p, value, "must be a number");
        return value->number;
    }
    check_range(p, value);
    return value->number;
}

/* Files say -1 where there is none. */
static double
limit_of(struct parser *p, const struct value *value)
{
    return value->kind == NUMBER && value->number == -1 ? -1 : number_of(p, value);
}

static bool
is_true(struct parser *p, const struct value *value)
{
    if (value->kind == STRING && value->node)
        fail(p, value, "must be true or false");
    if (value->kind == NUMBER)
        return value->number != 0;
    if (value->kind == NODE && JSON_NODE_HOLDS_ARRAY(value->node))
        return json_array_get_length(json_node_get_array(value->node)) > 0;
    return value->kind != NOTHING;
}

/* What is compared with a number is one. */
static void
check_comparable(struct parser *p, const struct value *value, const struct value *with)
{
    if (with->kind == NUMBER && value->kind == NUMBER && !with->flag && !value->flag)
        check_range(p, value);
    if (!value->node || value->kind == NOTHING || with->kind == NOTHING ||
        value->kind == with->kind)
        return;
    if (with->kind == NUMBER) /* else a size or a word, such as "auto" */
        fail(p, value, "must be a number");
}

static bool
are_equal(const struct value *a, const struct value *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == STRING)
        return !strcmp(a->string, b->string);
    return a->kind == NOTHING || (a->kind == NUMBER && a->number == b->number);
}

static struct value
value_of_node(JsonNode *node, const char *key, const struct mw_family *of)
{
    struct value value = {.key = key, .node = node, .of = of};

    if (!node || JSON_NODE_HOLDS_NULL(node))
        return value;
    value.kind = NODE;
    if (!JSON_NODE_HOLDS_VALUE(node))
        return value;
    GType type = json_node_get_value_type(node);
    value.kind = type == G_TYPE_STRING ? STRING : NUMBER;
    value.flag = type == G_TYPE_BOOLEAN;
    if (type == G_TYPE_STRING)
        value.string = json_node_get_string(node);
    else
        value.number =
            type == G_TYPE_BOOLEAN ? json_node_get_boolean(node) : json_node_get_double(node);
    return value;
}

/* --- names ----------------------------------------------------------------------------------- */

static const struct mw_family_let *
find_let(const struct mw_family *family, const char *name)
{
    for (const struct mw_family_let *let = family->lets; let && let->name; let++)
        if (!strcmp(let->name, name))
            return let;
    return NULL;
}

static struct value
evaluate(const struct mw_formula_scope *scope, const char *formula, const char *excluded, int depth,
         struct parser *of)
{
    struct parser p = {.scope = scope,
                       .at = formula,
                       .excluded = excluded,
                       .depth = depth,
                       .skips = of && of->skips,
                       .failed = of && of->failed,
                       .error = of ? of->error : NULL};

    g_assert(depth < DEPTH_MAX);
    struct value value = parse_choice(&p);
    if (*p.at)
        g_error("the table of families: %s: formula \"%s\": cannot be read from \"%s\"",
                scope->family->name, formula, p.at);
    if (of)
        of->failed |= p.failed;
    return value;
}

/* Of a dimension that the file leaves out: what its row says, or nothing. */
static struct value
default_of(const struct mw_family *family, const char *name)
{
    const struct mw_family_key *key = family->keys;
    struct value value = {.key = g_intern_string(name)};

    while (key && key->name && strcmp(key->name, name))
        key++;
    if (!key || !key->name || key->meaning >= MW_DIMENSION_COUNT || !family->defaults[key->meaning])
        return value;
    value.kind = NUMBER;
    value.number = (double)family->defaults[key->meaning];
    return value;
}

static struct value
look_up_in(struct parser *p, const struct mw_formula_scope *scope, const char *name,
           const char *excluded)
{
    JsonNode *node = scope->object ? json_object_get_member(scope->object, name) : NULL;
    const struct mw_family_let *let = find_let(scope->family, name);
    const char *key = node ? g_intern_string(name) : let ? let->name : g_intern_string(name);
    struct value value = value_of_node(node, key, NULL);

    if (value.kind == NODE && JSON_NODE_HOLDS_OBJECT(value.node)) {
        for (const struct mw_family_tower *tower = scope->family->towers; tower && tower->key;
             tower++)
            if (!strcmp(tower->key, name))
                value.of = mw_family_find(tower->family);
        return value;
    }
    if (value.kind == NOTHING && !let)
        return default_of(scope->family, name);
    if (value.kind != NOTHING || (node && let->null_counts) ||
        (excluded && !strcmp(excluded, name)))
        return value;
    value = evaluate(scope, let->formula, name, p->depth + 1, p);
    if (!value.node)
        value.key = key;
    return value;
}

/* "task", "layer", and a number of classes, which files give as a table of names. */
static struct value
look_up(struct parser *p, const char *name)
{
    const struct mw_formula_scope *scope = p->scope;

    if (!strcmp(name, "layer"))
        return number((double)scope->layer);
    if (!strcmp(name, "task") || !strcmp(name, "type"))
        return (struct value){.kind = STRING,
                              .string = *name == 't' && name[1] == 'a' ? scope->task : scope->type};
    if (!strcmp(name, "num_labels") && scope->object) {
        JsonNode *names = json_object_get_member(scope->object, "id2label");
        if (names && JSON_NODE_HOLDS_OBJECT(names))
            return number(json_object_get_size(json_node_get_object(names)));
        struct value labels = value_of_node(names, "id2label", NULL);
        if (labels.kind != NOTHING)
            fail(p, &labels, "must be an object, with a name for each class");
    }
    struct value value = look_up_in(p, scope, name, p->excluded);
    return value.kind == NOTHING && !strcmp(name, "num_labels") ? number(2) : value;
}

const char *
mw_formula_type_of_part(JsonObject *part, const char *whole, const char *otherwise)
{
    JsonNode *type = part ? json_object_get_member(part, "model_type") : NULL;

    if (!type || json_node_get_value_type(type) != G_TYPE_STRING ||
        !g_strcmp0(json_node_get_string(type), whole))
        return otherwise;
    return json_node_get_string(type);
}

/* A member of a value that is an object; without the object the defaults of its family count. */
static struct value
look_into(struct parser *p, const struct value *value, const char *name)
{
    const struct mw_family *family = value->of;
    bool object = value->kind == NODE && JSON_NODE_HOLDS_OBJECT(value->node);
    static const struct mw_family none = {.name = "member"};
    struct mw_formula_scope inner = *p->scope;

    if (!family && value->key)
        for (const struct mw_family_tower *tower = p->scope->family->towers; tower && tower->key;
             tower++)
            if (!strcmp(tower->key, value->key))
                family = mw_family_find(tower->family);
    inner.object = object ? json_node_get_object(value->node) : NULL;
    const char *type = mw_formula_type_of_part(inner.object, p->scope->type, NULL);
    const struct mw_family *own = type ? mw_family_find(type) : NULL;
    inner.family = own ? own : family ? family : &none;
    return look_up_in(p, &inner, name, NULL);
}

/* --- reading --------------------------------------------------------------------------------- */

static void
skip_space(struct parser *p)
{
    while (*p->at == ' ')
        p->at++;
}

static bool
takes(struct parser *p, const char *token)
{
    size_t length = strlen(token);

    skip_space(p);
    if (strncmp(p->at, token, length))
        return false;
    if (g_ascii_isalpha(*token) && (g_ascii_isalnum(p->at[length]) || p->at[length] == '_'))
        return false;
    p->at += length;
    return true;
}

static char *
take_name(struct parser *p)
{
    const char *begin = p->at;

    while (g_ascii_isalnum(*p->at) || *p->at == '_')
        p->at++;
    return g_strndup(begin, (gsize)(p->at - begin));
}

/* The largest number of a list; of an empty one, or of what is none, 0. */
static double
most_of(struct parser *p, const struct value *list)
{
    bool array = list->kind == NODE && JSON_NODE_HOLDS_ARRAY(list->node);
    JsonArray *of = array ? json_node_get_array(list->node) : NULL;
    double most = 0;

    for (guint i = 0; of && i < json_array_get_length(of); i++) {
        struct value one = value_of_node(json_array_get_element(of, i), list->key, NULL);
        most = MAX(most, number_of(p, &one));
    }
    return most;
}

static struct value
parse_call(struct parser *p, const char *name)
{
    struct value first = parse_choice(p), second = {0};
    bool two = takes(p, ",");

    if (two)
        second = parse_choice(p);
    takes(p, ")");
    if (!strcmp(name, "most"))
        return number(most_of(p, &first));
    if (!strcmp(name, "len"))
        return number(first.kind == STRING ? (double)strlen(first.string)
                      : first.kind == NODE && JSON_NODE_HOLDS_ARRAY(first.node)
                          ? json_array_get_length(json_node_get_array(first.node))
                          : 0);
    double a = number_of(p, &first), b = two ? number_of(p, &second) : 0;
    if (!strcmp(name, "int"))
        return number(trunc(a));
    if (!strcmp(name, "ceil"))
        return number(ceil(a));
    if (!strcmp(name, "sqrt"))
        return number(sqrt(a));
    if (!strcmp(name, "min"))
        return number(MIN(a, b));
    if (!strcmp(name, "max"))
        return number(MAX(a, b));
    if (!strcmp(name, "up")) /* a rounded up to a multiple of b */
        return number(b > 0 ? ceil(a / b) * b : a);
    g_error("the table of families: function %s", name);
}

static struct value
parse_primary(struct parser *p)
{
    skip_space(p);
    if (takes(p, "(")) {
        struct value value = parse_choice(p);
        takes(p, ")");
        return value;
    }
    if (g_ascii_isdigit(*p->at)) {
        char *end;
        double value = g_ascii_strtod(p->at, &end);
        p->at = end;
        return number(value);
    }
    if (*p->at == '\'') {
        const char *begin = p->at + 1;
        p->at = strchr(begin, '\'') + 1;
        g_autofree char *text = g_strndup(begin, (gsize)(p->at - begin - 1));
        return (struct value){.kind = STRING, .string = g_intern_string(text)};
    }
    g_autofree char *name = take_name(p);
    if (!*name)
        g_error("the table of families: %s: formula ends before \"%s\"", p->scope->family->name,
                p->at);
    if (!strcmp(name, "null"))
        return (struct value){0};
    if (takes(p, "("))
        return parse_call(p, name);
    return look_up(p, name);
}

static struct value
element(struct parser *p, const struct value *list, const struct value *index)
{
    bool array = list->kind == NODE && JSON_NODE_HOLDS_ARRAY(list->node);
    JsonArray *of = array ? json_node_get_array(list->node) : NULL;
    double at = number_of(p, index), count = of ? json_array_get_length(of) : 0;

    if (list->kind == NOTHING)
        return (struct value){.key = list->key};
    if (list->kind == NUMBER) /* one for all */
        return *list;
    if (list->kind == STRING && at >= 0 && at < (double)strlen(list->string)) {
        char letter[2] = {list->string[(size_t)at]};
        return (struct value){.kind = STRING, .string = g_intern_string(letter)};
    }
    if (at < 0)
        at += count;
    if (!array || at < 0 || at >= count) {
        fail(p, list, "must be a list with an entry for each layer");
        return (struct value){0};
    }
    return value_of_node(json_array_get_element(of, (guint)at), list->key, NULL);
}

static struct value
parse_postfix(struct parser *p)
{
    struct value value = parse_primary(p);

    for (;;) {
        if (takes(p, "[")) {
            struct value index = parse_choice(p);
            takes(p, "]");
            value = element(p, &value, &index);
        } else if (*p->at == '.' && g_ascii_isalpha(p->at[1])) {
            p->at++;
            g_autofree char *name = take_name(p);
            value = look_into(p, &value, name);
        } else {
            return value;
        }
    }
}

static struct value
parse_unary(struct parser *p)
{
    if (takes(p, "not")) {
        struct value value = parse_unary(p);
        return number(!is_true(p, &value));
    }
    if (takes(p, "-")) {
        struct value value = parse_unary(p);
        return number(-number_of(p, &value));
    }
    return parse_postfix(p);
}

static struct value
divide(struct parser *p, const struct value *a, const struct value *b, char how)
{
    double over = number_of(p, a), under = number_of(p, b);

    if (under == 0) {
        fail(p, b, b->node ? "must be above 0" : "value 0: must be above 0");
        return number(0);
    }
    return number(how == '%' ? fmod(over, under) : how == '/' ? over / under : floor(over / under));
}

static struct value
parse_term(struct parser *p)
{
    struct value value = parse_unary(p);

    for (;;) {
        char how = takes(p, "//") ? 'f' : takes(p, "/") ? '/' : takes(p, "%") ? '%' : 0;
        bool times = !how && takes(p, "*");
        if (!how && !times)
            return value;
        struct value right = parse_unary(p);
        value = times ? number(number_of(p, &value) * number_of(p, &right))
                      : divide(p, &value, &right, how);
    }
}

static struct value
parse_sum(struct parser *p)
{
    struct value value = parse_term(p);

    for (;;) {
        bool plus = takes(p, "+"), minus = !plus && takes(p, "-");
        if (!plus && !minus)
            return value;
        struct value right = parse_term(p);
        double add = number_of(p, &right);
        value = number(number_of(p, &value) + (plus ? add : -add));
    }
}

GHashTable *
mw_formula_lists(void)
{
    return g_hash_table_new_full(NULL, NULL, (GDestroyNotify)json_array_unref,
                                 (GDestroyNotify)g_hash_table_unref);
}

/* The numbers of a list: asked for once per layer. */
static GHashTable *
numbers_in(struct parser *p, const struct value *list)
{
    JsonArray *array = json_node_get_array(list->node);
    GHashTable *numbers = g_hash_table_lookup(p->scope->lists, array);

    if (numbers)
        return numbers;
    numbers = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < json_array_get_length(array) && !p->failed; i++) {
        struct value one = value_of_node(json_array_get_element(array, i), list->key, NULL);
        g_hash_table_add(numbers, GSIZE_TO_POINTER((gsize)MAX(0, number_of(p, &one)) + 1));
    }
    g_hash_table_insert(p->scope->lists, json_array_ref(array), numbers);
    return numbers;
}

static bool
is_in(struct parser *p, const struct value *value, const struct value *list)
{
    bool array = list->kind == NODE && JSON_NODE_HOLDS_ARRAY(list->node);

    if (value->kind == NUMBER && list->kind != NOTHING && !array)
        fail(p, list, "must be a list");
    if (!array || p->failed || p->skips)
        return false;
    if (value->kind == NUMBER)
        return g_hash_table_contains(numbers_in(p, list),
                                     GSIZE_TO_POINTER((gsize)value->number + 1));
    JsonArray *of = json_node_get_array(list->node);
    for (guint i = 0; i < json_array_get_length(of); i++) {
        struct value one = value_of_node(json_array_get_element(of, i), NULL, NULL);
        if (are_equal(value, &one))
            return true;
    }
    return false;
}

static struct value
parse_comparison(struct parser *p)
{
    static const char *const tokens[] = {"==", "!=", "<=", ">=", "<", ">", "in"};
    struct value left = parse_sum(p);
    size_t i = 0;

    while (i < G_N_ELEMENTS(tokens) && !takes(p, tokens[i]))
        i++;
    if (i == G_N_ELEMENTS(tokens))
        return left;
    struct value right = parse_sum(p);
    if (i == 6)
        return number(is_in(p, &left, &right));
    if (i < 2) {
        check_comparable(p, &left, &right);
        check_comparable(p, &right, &left);
        return number(are_equal(&left, &right) == (i == 0));
    }
    double a = limit_of(p, &left), b = limit_of(p, &right);
    return number(i == 2 ? a <= b : i == 3 ? a >= b : i == 4 ? a < b : a > b);
}

static struct value
parse_and(struct parser *p)
{
    struct value value = parse_comparison(p);

    while (takes(p, "and")) {
        bool skipped = p->skips, so_far = is_true(p, &value);
        p->skips = skipped || !so_far;
        struct value right = parse_comparison(p);
        p->skips = skipped;
        value = number(so_far && is_true(p, &right));
    }
    return value;
}

static struct value
parse_or(struct parser *p)
{
    struct value value = parse_and(p);

    while (takes(p, "or")) {
        bool skipped = p->skips, so_far = is_true(p, &value);
        p->skips = skipped || so_far;
        struct value right = parse_and(p);
        p->skips = skipped;
        value = number(so_far || is_true(p, &right));
    }
    return value;
}

static struct value
parse_fallback(struct parser *p)
{
    struct value value = parse_or(p);

    while (takes(p, "??")) {
        bool skipped = p->skips;
        p->skips = skipped || value.kind != NOTHING;
        struct value right = parse_or(p);
        p->skips = skipped;
        value = value.kind == NOTHING ? right : value;
    }
    return value;
}

static struct value
parse_choice(struct parser *p)
{
    struct value condition = parse_fallback(p);

    if (!takes(p, "?"))
        return condition;
    bool skipped = p->skips, first = is_true(p, &condition);
    p->skips = skipped || !first;
    struct value yes = parse_choice(p);
    takes(p, ":");
    p->skips = skipped || first;
    struct value no = parse_choice(p);
    p->skips = skipped;
    return first ? yes : no;
}

/* --- results --------------------------------------------------------------------------------- */

/* A size that the file does not have itself follows from others: these are what is wrong. */
static void
fail_size(struct parser *p, struct value *value, const char *formula)
{
    static const char *const must = "must be a whole number from 0 to 2^40";
    const struct mw_family_let *let = value->key ? find_let(p->scope->family, value->key) : NULL;

    value->key = value->key ? value->key : formula;
    if (value->node || !let) {
        fail(p, value, must);
        return;
    }
    g_autofree char *why =
        g_strdup_printf("missing, and %s is %.7g: %s", let->formula, value->number, must);
    fail(p, value, why);
}

bool
mw_formula_number(const struct mw_formula_scope *scope, const char *formula, int64_t *out,
                  GError **error)
{
    struct parser p = {.scope = scope, .error = error};
    struct value value = evaluate(scope, formula, NULL, 0, &p);
    double number = p.failed ? 0 : number_of(&p, &value);

    if (!p.failed && !(number >= 0 && number <= (double)MW_FORMULA_MAX && number == floor(number)))
        fail_size(&p, &value, formula);
    *out = p.failed ? 0 : (int64_t)number;
    return !p.failed;
}

bool
mw_formula_condition(const struct mw_formula_scope *scope, const char *formula, bool *out,
                     GError **error)
{
    struct parser p = {.scope = scope, .error = error};
    struct value value = evaluate(scope, formula, NULL, 0, &p);

    bool yes = is_true(&p, &value);

    *out = !p.failed && yes;
    return !p.failed;
}
