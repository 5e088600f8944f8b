#include "cli/export/pick.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/json.h"
#include "base/json_value.h"
#include "base/schemas.h"
#include "base/typed.h"
#include "cli/question.h"
#include "report/rows.h"

#define WANTED "what simulate, plan, run, advise or sweep print with --json"
#define BYTES_MAX 9e18 /* an int64_t holds more */

/* --- objects of the file ---------------------------------------------------------------------- */

/* A value as it is typed; NULL: it is none.  g_free it. */
static char *
typed_of(JsonObject *object, const char *name)
{
    JsonNode *node = mw_value_node(object, name);

    if (!node || !JSON_NODE_HOLDS_VALUE(node))
        return NULL;
    return json_node_get_value_type(node) == G_TYPE_STRING   ? g_strdup(json_node_get_string(node))
           : json_node_get_value_type(node) == G_TYPE_DOUBLE ? mw_typed(json_node_get_double(node))
                                                             : json_to_string(node, FALSE);
}

/* A number from 1 on; 0: it is none. */
static guint
number_of(const char *pick)
{
    char *end = NULL;
    guint64 number = pick && g_ascii_isdigit(*pick) ? g_ascii_strtoull(pick, &end, 10) : 0;

    return end && !*end && number <= G_MAXUINT / 2 ? (guint)number : 0;
}

/* An object of an array by its number, which messages call `what`. */
static JsonObject *
numbered(const char *path, JsonArray *array, const char *pick, const char *what, GError **error)
{
    guint count = array ? json_array_get_length(array) : 0, number = number_of(pick);
    JsonObject *found = number && number <= count ? mw_value_element(array, number - 1) : NULL;

    if (!found)
        mw_refuse(error, "%s: --pick %s: must be the number of a %s, from 1 to %u", path,
                  pick ? pick : "is missing", what, count);
    return found;
}

/* --- picks ------------------------------------------------------------------------------------ */

static bool
is_named(const char *strategy, const char *pick)
{
    return strategy && !strcmp(strategy, pick);
}

static JsonObject *
of_answers(const char *path, JsonObject *root, const char *pick, GError **error)
{
    JsonArray *answers = mw_value_array(root, "answers");
    guint count = answers ? json_array_get_length(answers) : 0;
    g_autoptr(GString) names = g_string_new(NULL);

    for (guint i = 0; i < count; i++) {
        JsonObject *one = mw_value_element(answers, i);
        const char *strategy = one ? mw_value_text(one, "strategy") : NULL;
        if (one && (pick ? is_named(strategy, pick) : count == 1))
            return one;
        g_string_append_printf(names, "%s%s", i ? ", " : "", strategy ? strategy : "?");
    }
    mw_refuse(error, "%s: --pick %s: must be one of its strategies: %s", path,
              pick ? pick : "is missing", names->str);
    return NULL;
}

/* "least-risk" is "least risk". */
static char *
spaced(const char *name)
{
    return g_strdelimit(g_strdup(name), "-", ' ');
}

static JsonObject *
of_advice(const char *path, JsonObject *root, const char *pick, GError **error)
{
    JsonObject *picks = mw_value_object(root, "picks");
    g_autofree char *name = spaced(pick ? pick : "cheapest");
    JsonObject *found = picks ? mw_value_object(picks, name) : NULL;
    JsonArray *front = mw_value_array(root, "front");

    if (!picks || !json_object_get_size(picks)) {
        mw_refuse(error, "%s: has no picks, as nothing is within its limits", path);
        return NULL;
    }
    if (found || number_of(pick))
        return found ? found : numbered(path, front, pick, "row of the front", error);
    mw_refuse(error,
              "%s: --pick %s: must be cheapest, fastest, least-risk, or the number of a row of the "
              "front, from 1 to %u",
              path, pick, front ? json_array_get_length(front) : 0);
    return NULL;
}

/* --- the question ----------------------------------------------------------------------------- */

static bool
set(struct memwall_question *question, const char *path, const char *name, const char *text,
    GError **error)
{
    GError *failed = NULL;

    if (cli_question_set(question, name, text, &failed))
        return true;
    mw_refuse(error, "%s: question: %s", path, failed->message);
    g_error_free(failed);
    return false;
}

static bool
ask(const char *path, JsonObject *asked, struct memwall_question *question, GError **error)
{
    g_autoptr(GList) names = json_object_get_members(asked);

    for (GList *name = names; name; name = name->next) {
        const char *text = mw_value_text(asked, name->data);
        if (!text)
            return mw_refuse(error, "%s: question.%s: must be a text", path, (char *)name->data);
        if (!set(question, path, name->data, text, error))
            return false;
    }
    return true;
}

/* The values of a sweep's axes; one that a point leaves open is null. */
static bool
ask_values(const char *path, JsonObject *over, struct memwall_question *question, GError **error)
{
    g_autoptr(GList) names = json_object_get_members(over);

    for (GList *name = names; name; name = name->next) {
        g_autofree char *text = typed_of(over, name->data);
        if (text && !set(question, path, name->data, text, error))
            return false;
    }
    return true;
}

/* What a row says of its plan: the columns, and the names that set them. */
static bool
ask_row(const char *path, JsonObject *row, struct memwall_question *question, GError **error)
{
    static const char *const columns[][2] = {
        {"strategy", "strategy"},
        {"micro_batch", "batch"},
        {"grad_accum", "grad-accum"},
        {"checkpoint_interval", "activation-checkpoint-interval"},
        {"tiles", "tiles"},
        {"logits_chunks", "logits-chunks"},
        {"param_device", "param-device"},
        {"optimizer_device", "optimizer-device"},
        {"gradient_device", "gradient-device"},
        {"activation_device", "activation-device"},
    };
    JsonObject *over = mw_value_object(row, "over");

    if (over && !ask_values(path, over, question, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(columns); i++) {
        if (!json_object_has_member(row, columns[i][0]))
            return mw_refuse(error,
                             "%s: rows have no %s, of which a plan is made: sweep without "
                             "--columns",
                             path, columns[i][0]);
        g_autofree char *text = typed_of(row, columns[i][0]);
        if (text && !set(question, path, columns[i][1], text, error))
            return false;
    }
    return true;
}

static bool
check_fits(const char *path, JsonObject *found, GError **error)
{
    const char *tier = mw_value_text(found, "limiting_tier"), *why = mw_value_text(found, "error");
    bool unfit = json_object_has_member(found, "feasible") && !mw_value_is(found, "feasible");

    if (why)
        return mw_refuse(error, "%s: the pick was refused: %s", path, why);
    return !unfit || mw_refuse(error, "%s: the pick does not fit (%s memory); pick one that does",
                               path, tier ? tier : "in");
}

static int64_t
peak_of(JsonObject *found)
{
    JsonObject *peaks = mw_value_object(found, "peak_bytes");
    double bytes = peaks ? mw_value_number(peaks, "gpu") : mw_value_number(found, "gpu_peak_bytes");

    return bytes >= 0 && bytes < BYTES_MAX ? (int64_t)bytes : -1;
}

/* Of a row of a sweep the question is that of all rows. */
static bool
take(const char *path, JsonObject *all, JsonObject *found, struct cli_pick *out, GError **error)
{
    bool is_row = all != NULL;
    JsonObject *asked = mw_value_object(is_row ? all : found, "question");

    if (!check_fits(path, found, error))
        return false;
    if (!asked)
        return mw_refuse(error,
                         "%s: question: is missing: must be " WANTED
                         ", of this version, and neither of a plan file nor of merged shards",
                         path);
    out->question = memwall_question_new();
    out->gpu_peak_bytes = peak_of(found);
    if (ask(path, asked, out->question, error) &&
        (!is_row || ask_row(path, found, out->question, error)) &&
        set(out->question, path, "deepspeed-notes", "on", error))
        return true;
    memwall_question_free(out->question);
    return false;
}

bool
cli_pick_read(const char *path, const char *pick, struct cli_pick *out, GError **error)
{
    static const struct mw_input_kind kind = {WANTED, MW_JSON_BYTES_MAX, NULL};
    const char *called = strcmp(path, "-") ? path : "standard input";
    gsize length;
    g_autofree char *text =
        mw_input_read(strcmp(path, "-") ? path : "/dev/stdin", &kind, &length, error);
    g_autoptr(JsonNode) node = text ? mw_json_parse(text, (gssize)length, called, error) : NULL;
    JsonObject *root = node ? json_node_get_object(node) : NULL, *found;

    if (!root)
        return false;
    const char *schema = mw_value_text(root, "schema");
    bool is_sweep = !g_strcmp0(schema, MW_SCHEMA_SWEEP);
    if (is_sweep)
        found = numbered(called, mw_value_array(root, "rows"), pick, "row", error);
    else if (!g_strcmp0(schema, MW_SCHEMA_ADVICE))
        found = of_advice(called, root, pick, error);
    else if (!g_strcmp0(schema, MW_SCHEMA_ANSWER) || !g_strcmp0(schema, MW_SCHEMA_RUN))
        found = of_answers(called, root, pick, error);
    else
        return mw_refuse(error, "%s: schema %s: must be " WANTED, called,
                         schema ? schema : "is missing");
    /* A pick of advice has its answer inside; a row of the front is one itself. */
    JsonObject *answer = found ? mw_value_object(found, "answer") : NULL;
    return found && take(called, is_sweep ? root : NULL, answer ? answer : found, out, error);
}
