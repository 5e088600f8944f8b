#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/typed.h"

#define INT64_DIGITS 19
#define SHOWN_CHARACTERS 48

struct scan {
    const char *at, *end;
    int depth;
    bool closed;              /* the outermost value has ended */
    const char *wrong;        /* the error at `at` */
    const char *string, *key; /* where the last string, and the last key, begin; NULL: none yet */
    const char *large;        /* a whole number that is beyond int64 */
};

static void
scan_string(struct scan *scan)
{
    scan->string = scan->at + 1;
    for (scan->at++; scan->at < scan->end && *scan->at != '"'; scan->at++) {
        if (*scan->at != '\\' || scan->at + 1 >= scan->end)
            continue;
        if (scan->end - scan->at >= 6 && !memcmp(scan->at, "\\u0000", 6)) {
            scan->wrong = "a string has \\u0000, which ends it here";
            return;
        }
        scan->at++;
    }
    if (scan->at >= scan->end)
        scan->wrong = "ends inside a string (cut short?)";
    else
        scan->at++;
}

static void
skip_digits(struct scan *scan)
{
    while (scan->at < scan->end && g_ascii_isdigit(*scan->at))
        scan->at++;
}

static bool
next_is(const struct scan *scan, const char *characters)
{
    return scan->at < scan->end && *scan->at && strchr(characters, *scan->at);
}

static bool
fits_int64(const char *digits, ptrdiff_t count)
{
    return count < INT64_DIGITS ||
           (count == INT64_DIGITS && strncmp(digits, "9223372036854775807", INT64_DIGITS) <= 0);
}

/* json-glib reads 007 as octal and 0x10 as hexadecimal, and lets 2^64 and more wrap. */
static void
scan_number(struct scan *scan)
{
    const char *begin = scan->at;

    skip_digits(scan);
    ptrdiff_t whole = scan->at - begin;
    bool fraction = next_is(scan, ".eE");
    if (*begin == '0' && (whole > 1 || next_is(scan, "xX")))
        scan->wrong = "a number starts with 0";
    else if (!fraction && !fits_int64(begin, whole))
        scan->large = begin;
    if (next_is(scan, "."))
        scan->at++;
    skip_digits(scan);
    if (next_is(scan, "eE"))
        scan->at++;
    if (next_is(scan, "+-"))
        scan->at++;
    skip_digits(scan);
}

static void
scan_one(struct scan *scan)
{
    char c = *scan->at;

    if (scan->closed && !g_ascii_isspace(c)) {
        scan->wrong = "something follows the last brace";
    } else if (c == '"') {
        scan_string(scan);
    } else if (g_ascii_isdigit(c)) {
        scan_number(scan);
    } else if (c && strchr("{}[]", c)) {
        scan->depth += c == '{' || c == '[' ? 1 : -1;
        if (scan->depth > MW_JSON_DEPTH_MAX)
            scan->wrong = "nested more than 64 deep";
        scan->closed = scan->depth == 0;
        scan->at++;
    } else if (g_ascii_isalpha(c) || (c && strchr(" \t\r\n:,+-.", c))) {
        scan->key = c == ':' ? scan->string : scan->key;
        scan->at++;
    } else {
        scan->wrong = "a character that JSON does not have here";
    }
}

static int
line_of(const char *text, const char *at)
{
    int line = 1;

    for (const char *c = text; c < at; c++)
        line += *c == '\n';
    return line;
}

/* The characters up to `end`, cut to a few; g_free it. */
static char *
shown(const char *begin, const char *end)
{
    bool cut = end - begin > SHOWN_CHARACTERS;
    g_autofree char *part = g_strndup(begin, cut ? SHOWN_CHARACTERS : (gsize)(end - begin));
    g_autofree char *escaped = g_strescape(part, NULL);

    return g_strconcat(escaped, cut ? "..." : "", NULL);
}

static bool
refuse_large(const struct scan *scan, const char *text, const char *origin, GError **error)
{
    bool negative = scan->large > text && scan->large[-1] == '-';
    g_autofree char *value = shown(scan->large - negative, scan->at);
    const char *end = scan->key ? memchr(scan->key, '"', (gsize)(scan->end - scan->key)) : NULL;
    g_autofree char *key = end ? shown(scan->key, end) : NULL;

    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: line %d: %s%s%svalue %s: must be a whole number from %" G_GINT64_FORMAT
                " to %" G_GINT64_FORMAT,
                origin, line_of(text, scan->large), key ? "key \"" : "", key ? key : "",
                key ? "\": " : "", value, -G_MAXINT64, G_MAXINT64);
    return false;
}

static bool
scan_text(const char *text, gsize length, const char *origin, GError **error)
{
    struct scan scan = {.at = text, .end = text + length};

    while (scan.at < scan.end && !scan.wrong && !scan.large)
        scan_one(&scan);
    if (scan.large)
        return refuse_large(&scan, text, origin, error);
    if (!scan.wrong && scan.depth > 0)
        scan.wrong = "ends before its last brace (cut short?)";
    if (!scan.wrong)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: line %d: %s: must be JSON", origin,
                line_of(text, MIN(scan.at, scan.end)), scan.wrong);
    return false;
}

static bool
check_size(gsize length, const char *origin, GError **error)
{
    if (length <= MW_JSON_BYTES_MAX)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: must be at most %d bytes of JSON", origin,
                MW_JSON_BYTES_MAX);
    return false;
}

struct twice {
    GHashTable *members; /* JsonObject -> number of members read */
    char *name;          /* the first name that its object already had */
};

/* json-glib lets the last of two equal keys win; the object then has fewer members than were
 * read. */
static void
count_member(JsonParser *parser, JsonObject *object, const char *name, struct twice *twice)
{
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(twice->members, object)) + 1;

    g_hash_table_insert(twice->members, object, GUINT_TO_POINTER(count));
    if (count > json_object_get_size(object) && !twice->name)
        twice->name = g_strescape(name, NULL);
}

/* json-glib names a word that is no value correctly, but the sign that it names varies. */
static char *
word_of(const char *message)
{
    static const char before[] = "identifier `";
    const char *at = strstr(message, before), *end = at ? strchr(at, '\'') : NULL;

    /* If the message quotes a string that contains these very words, the text after them is no
     * word, and may have several lines. */
    if (end && at + strcspn(at, "\n\r\t\v\f") < end)
        return NULL;
    return end ? g_strndup(at + strlen(before), (gsize)(end - at) - strlen(before)) : NULL;
}

static void
refuse_text(const char *text, gsize length, const char *message, const char *origin, GError **error)
{
    g_autofree char *word = word_of(message);
    int line, column;

    if (sscanf(message, "<data>:%d:%d:", &line, &column) == 2)
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: line %d, column %d: not JSON%s%s%s",
                    origin, line, column, word ? ": \"" : "", word ? word : "", word ? "\"" : "");
    else
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: not JSON%s", origin,
                    g_utf8_validate(text, (gssize)length, NULL) ? "" : ": must be UTF-8");
}

static bool
load(JsonParser *parser, const char *text, gsize length, const char *origin, GError **error)
{
    g_autoptr(GHashTable) members = g_hash_table_new(NULL, NULL);
    struct twice twice = {.members = members};
    g_autoptr(GError) cause = NULL;

    g_signal_connect(parser, "object-member", G_CALLBACK(count_member), &twice);
    bool good = json_parser_load_from_data(parser, text, (gssize)length, &cause);
    g_autofree char *name = twice.name;
    if (!good) {
        refuse_text(text, length, cause->message, origin, error);
    } else if (name) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: key \"%s\": value given twice: must be given once", origin, name);
    }
    return good && !name;
}

JsonNode *
mw_json_parse(const char *text, gssize length, const char *origin, GError **error)
{
    gsize size = length < 0 ? strlen(text) : (gsize)length;

    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
        text += 3;
        size -= 3;
    }
    if (!check_size(size, origin, error) || !scan_text(text, size, origin, error))
        return NULL;

    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    if (!load(parser, text, size, origin, error))
        return NULL;
    JsonNode *root = json_parser_get_root(parser);
    if (!root || !JSON_NODE_HOLDS_OBJECT(root)) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: must hold one JSON object: {...}",
                    origin);
        return NULL;
    }
    return json_node_ref(root);
}

char *
mw_json_from_python(const char *text, gsize length, const char **nan)
{
    static const char *const names[][2] = {
        {"-Infinity", "null     "}, {"Infinity", "null    "}, {"NaN", "\"\" "}};
    char *copy = g_malloc0(length + 1);
    bool quoted = false;

    if (nan)
        *nan = NULL;
    memcpy(copy, text, length);
    for (gsize at = 0; at < length; at++) {
        if (copy[at] == '\\' && quoted && at + 1 < length)
            at++;
        else if (copy[at] == '"')
            quoted = !quoted;
        for (size_t i = 0; i < G_N_ELEMENTS(names) && !quoted; i++) {
            size_t bytes = strlen(names[i][0]);
            if (strncmp(copy + at, names[i][0], bytes) != 0)
                continue;
            if (copy[at] == 'N' && nan && !*nan)
                *nan = text + at;
            memcpy(copy + at, names[i][1], bytes);
            at += bytes - 1;
            break;
        }
    }
    return copy;
}

/* The number as a user would write it: json-glib makes -1.0000000000000001e+300 of -1e300. */
static char *
real_text(double value)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];

    g_ascii_formatd(text, sizeof text, "%.15g", value);
    if (g_ascii_strtod(text, NULL) != value)
        g_ascii_dtostr(text, sizeof text, value);
    return g_strdup(text);
}

char *
mw_json_text(JsonNode *node)
{
    bool real = JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_DOUBLE;

    if (real && isinf(json_node_get_double(node))) /* the parser has not kept its text */
        return g_strdup(json_node_get_double(node) > 0 ? "above 1.8e308" : "below -1.8e308");
    if (real)
        return real_text(json_node_get_double(node));
    g_autofree char *whole = json_to_string(node, FALSE);

    if (g_utf8_strlen(whole, -1) <= SHOWN_CHARACTERS)
        return g_steal_pointer(&whole);
    g_autofree char *cut = g_utf8_substring(whole, 0, SHOWN_CHARACTERS);
    return g_strconcat(cut, "...", NULL);
}

static JsonNode *
find(JsonObject *object, const char *key)
{
    JsonNode *node = json_object_get_member(object, key);

    return node && !JSON_NODE_HOLDS_NULL(node) ? node : NULL;
}

static bool
refuse(JsonNode *node, const char *key, const char *origin, const char *accepted, GError **error)
{
    g_autofree char *value = mw_json_text(node);

    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: key \"%s\": value %s: must be %s", origin,
                key, value, accepted);
    return false;
}

/* 96.0 too: JSON has one kind of numbers, and some writers give all of them a point. */
static bool
is_whole(JsonNode *node, int64_t *out)
{
    GType type = json_node_get_value_type(node);
    double value = type == G_TYPE_DOUBLE ? json_node_get_double(node) : NAN;

    if (type == G_TYPE_INT64)
        *out = json_node_get_int(node);
    else if (fabs(value) <= 0x1p53 && value == floor(value))
        *out = (int64_t)value;
    else
        return false;
    return true;
}

bool
mw_json_get_int(JsonObject *object, const char *key, int64_t min, int64_t max, const char *origin,
                int64_t *out, GError **error)
{
    JsonNode *node = find(object, key);

    if (!node)
        return true;
    int64_t value;
    if (is_whole(node, &value) && value >= min && value <= max) {
        *out = value;
        return true;
    }
    g_autofree char *accepted =
        g_strdup_printf("a whole number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, min, max);
    return refuse(node, key, origin, accepted, error);
}

bool
mw_json_get_number(JsonObject *object, const char *key, double min, double max, const char *origin,
                   double *out, GError **error)
{
    JsonNode *node = find(object, key);

    if (!node)
        return true;
    GType type = json_node_get_value_type(node);
    if (type == G_TYPE_INT64 || type == G_TYPE_DOUBLE) {
        double value = json_node_get_double(node);
        if (isfinite(value) && value >= min && value <= max) {
            *out = value;
            return true;
        }
    }
    g_autofree char *least = mw_typed(min);
    g_autofree char *most = mw_typed(max);
    g_autofree char *accepted = g_strdup_printf("a number from %s to %s", least, most);
    return refuse(node, key, origin, accepted, error);
}

bool
mw_json_get_bool(JsonObject *object, const char *key, const char *origin, bool *out, GError **error)
{
    JsonNode *node = find(object, key);

    if (!node)
        return true;
    if (json_node_get_value_type(node) != G_TYPE_BOOLEAN)
        return refuse(node, key, origin, "true or false", error);
    *out = json_node_get_boolean(node);
    return true;
}

bool
mw_json_get_string(JsonObject *object, const char *key, const char *origin, const char **out,
                   GError **error)
{
    JsonNode *node = find(object, key);

    if (!node)
        return true;
    if (json_node_get_value_type(node) != G_TYPE_STRING)
        return refuse(node, key, origin, "a string", error);
    *out = json_node_get_string(node);
    return true;
}
