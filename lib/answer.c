/* An answer: figures by the names of the JSON, and texts. */
#include <json-glib/json-glib.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "lib/question.h"
#include "report/report.h"

struct memwall_answer {
    struct mw_question question; /* that the answer refers to */
    struct mw_answer *answer;
    enum memwall_depth depth;
    char *json, *text, *plan; /* plan: NULL where it does not fit */
    JsonNode *figures;        /* the one answer of `json` */
};

/* --- texts ----------------------------------------------------------------------------------- */

static void
write_json(FILE *out, const struct memwall_answer *answer)
{
    mw_json_write(out, &answer->answer->result, 1);
}

static void
write_text(FILE *out, const struct memwall_answer *answer)
{
    if (answer->depth == MEMWALL_PLAN)
        mw_table_plan(out, answer->answer->result);
    else
        mw_table_simulate(out, answer->answer->result, false);
}

static void
write_plan(FILE *out, const struct memwall_answer *answer)
{
    mw_plan_write(answer->answer->plan, out);
}

/* g_free it. */
static char *
written(const struct memwall_answer *answer,
        void (*write)(FILE *out, const struct memwall_answer *answer))
{
    size_t length = 0;
    char *text = NULL;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return g_strdup("");
    write(out, answer);
    fclose(out);
    char *copy = g_strdup(text);
    free(text);
    return copy;
}

static void
fill_texts(struct memwall_answer *answer)
{
    answer->json = written(answer, write_json);
    answer->text = written(answer, write_text);
    answer->plan = answer->answer->plan ? written(answer, write_plan) : NULL;
    answer->figures = mw_json_parse(answer->json, -1, "answer", NULL);
}

/* --- asking ---------------------------------------------------------------------------------- */

static struct memwall_answer *
ask(const struct memwall_question *question, enum memwall_depth depth, const char **blamed,
    GError **error)
{
    static const enum mw_depth depths[] = {MW_DEPTH_PLAN, MW_DEPTH_VERDICT, MW_DEPTH_FULL};
    struct memwall_answer *answer = g_new0(struct memwall_answer, 1);

    answer->depth = depth;
    if (mw_lib_read(question, &answer->question, blamed, error)) {
        if (depth == MEMWALL_WHAT_IF)
            answer->question.settings.ops_max = MW_WHAT_IF_OPS_MAX;
        answer->answer = mw_answer_new(&answer->question, answer->question.strategies[0],
                                       depths[depth], false, error);
    }
    if (!answer->answer) {
        memwall_answer_free(answer);
        return NULL;
    }
    fill_texts(answer);
    return answer;
}

/* Numbers have a point in them, whatever the caller's locale: for this thread, meanwhile. */
static struct memwall_answer *
ask_with_points(const struct memwall_question *question, enum memwall_depth depth,
                const char **blamed, GError **error)
{
    locale_t points = newlocale(LC_NUMERIC_MASK, "C", duplocale(uselocale((locale_t)0)));
    locale_t before = points ? uselocale(points) : (locale_t)0;
    struct memwall_answer *answer = ask(question, depth, blamed, error);

    if (points) {
        uselocale(before);
        freelocale(points);
    }
    return answer;
}

/* Within a question the listener hears of what is done; its end is the return. */
struct hearing {
    memwall_listener listener;
    void *data;
};

static void
hear(void *data, const char *doing, int simulated)
{
    const struct hearing *hearing = data;

    if (doing)
        hearing->listener(hearing->data, doing, simulated);
}

struct memwall_answer *
memwall_ask(const struct memwall_question *question, enum memwall_depth depth,
            struct memwall_error **error)
{
    struct hearing hearing = {question->listener, question->data};
    const char *blamed = NULL;
    GError *failed = NULL;

    if (depth < MEMWALL_PLAN || depth > MEMWALL_WHAT_IF) {
        mw_refuse(&failed, "depth %d: must be MEMWALL_PLAN, MEMWALL_SIMULATE or MEMWALL_WHAT_IF",
                  (int)depth);
        mw_lib_fail(failed, blamed, error);
        return NULL;
    }
    if (hearing.listener)
        mw_progress_listen(hear, &hearing);
    struct memwall_answer *answer = ask_with_points(question, depth, &blamed, &failed);
    mw_progress_end();
    if (hearing.listener)
        mw_progress_listen(NULL, NULL);
    if (!answer)
        mw_lib_fail(failed, blamed, error);
    return answer;
}

void
memwall_answer_free(struct memwall_answer *answer)
{
    if (!answer)
        return;
    mw_answer_free(answer->answer);
    mw_lib_clear(&answer->question);
    if (answer->figures)
        json_node_unref(answer->figures);
    g_free(answer->json);
    g_free(answer->text);
    g_free(answer->plan);
    g_free(answer);
}

/* --- reading --------------------------------------------------------------------------------- */

bool
memwall_answer_fits(const struct memwall_answer *answer)
{
    return answer->answer->result->feasible;
}

/* What a name of one level leads to; NULL: nothing. */
static JsonNode *
step(JsonNode *node, const char *name)
{
    if (JSON_NODE_HOLDS_OBJECT(node))
        return json_object_get_member(json_node_get_object(node), name);
    if (!JSON_NODE_HOLDS_ARRAY(node) || !*name || strspn(name, "0123456789") != strlen(name))
        return NULL;
    JsonArray *array = json_node_get_array(node);
    guint64 index = g_ascii_strtoull(name, NULL, 10);
    return index < json_array_get_length(array) ? json_array_get_element(array, (guint)index)
                                                : NULL;
}

static JsonNode *
figure(const struct memwall_answer *answer, const char *name)
{
    g_auto(GStrv) path = g_strsplit(name, ".", -1);
    JsonNode *node = answer->figures;

    node = node ? step(node, "answers") : NULL;
    node = node ? step(node, "0") : NULL;
    for (char **level = path; node && *level; level++)
        node = step(node, *level);
    return node;
}

bool
memwall_answer_number(const struct memwall_answer *answer, const char *name, double *value)
{
    JsonNode *node = figure(answer, name);

    if (node && JSON_NODE_HOLDS_NULL(node)) {
        *value = NAN;
        return true;
    }
    if (!node || !JSON_NODE_HOLDS_VALUE(node) || json_node_get_value_type(node) == G_TYPE_STRING)
        return false;
    *value = json_node_get_value_type(node) == G_TYPE_BOOLEAN ? json_node_get_boolean(node)
                                                              : json_node_get_double(node);
    return true;
}

const char *
memwall_answer_string(const struct memwall_answer *answer, const char *name)
{
    JsonNode *node = figure(answer, name);

    return node && JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING
               ? json_node_get_string(node)
               : NULL;
}

const char *
memwall_answer_json(const struct memwall_answer *answer)
{
    return answer->json;
}

const char *
memwall_answer_text(const struct memwall_answer *answer)
{
    return answer->text;
}

const char *
memwall_answer_plan(const struct memwall_answer *answer)
{
    return answer->plan;
}
