/* Reads what memwall wrote, and knows it by its schema. */
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/format.h"
#include "base/input.h"
#include "base/json.h"
#include "base/schemas.h"
#include "report/html/internal.h"
#include "report/report.h"

#define BYTES_MAX (512 << 20) /* of a trace, or of the rows of a sweep; JSON has its own limit */
#define WANTED                                                                                     \
    "a result of memwall: JSON of simulate, plan, run, compare, advise, check or sweep, rows "     \
    "of a sweep as CSV, or a trace"

#define IN(section) (1U << MW_PAGE_##section)
#define ANSWERS                                                                                    \
    (IN(VERDICT) | IN(COMPARISON) | IN(TIMELINE) | IN(MEMORY) | IN(CHANGES) | IN(INPUTS))

/* What results there are, and the sections that each yields. */
static const struct mw_page_kind kinds[] = {
    {MW_SCHEMA_ANSWER, "answer of plan or simulate", "answers", ANSWERS},
    {MW_SCHEMA_RUN, "run beside its prediction", "answers", ANSWERS | IN(MEASURED)},
    {MW_SCHEMA_ADVICE, "advice on machines", "candidates", ANSWERS | IN(MACHINES)},
    {MW_SCHEMA_SWEEP, "rows of a sweep", "rows", IN(VERDICT) | IN(SWEEP) | IN(INPUTS)},
    {MW_SCHEMA_TRACE, "trace of a step", NULL, IN(TIMELINE) | IN(INPUTS)},
    {MW_SCHEMA_SERVING, "generation of tokens", "batches", IN(FIGURES) | IN(INPUTS)},
    {MW_SCHEMA_OBJECTIVE, "fine-tuning from preferences", "models", IN(FIGURES) | IN(INPUTS)},
    {MW_SCHEMA_LARGEST, "largest models that fit", "largest", IN(FIGURES) | IN(INPUTS)},
    {MW_SCHEMA_CUTS, "ways to divide a step", "front", IN(FIGURES) | IN(INPUTS)},
    {"memwall-purchases/1", "what to buy for a machine", "steps", IN(FIGURES) | IN(INPUTS)},
    {"memwall-parallel/1", "ways to divide a training", "rows", IN(FIGURES) | IN(INPUTS)},
    {"memwall-check/1", "verdict of a gate", NULL, IN(FIGURES) | IN(INPUTS)},
};

bool
mw_page_input_yields(const struct mw_page_input *input, enum mw_page_section section)
{
    return input->kind->sections & (1U << section);
}

static const struct mw_page_kind *
kind_of(const char *schema)
{
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
        if (!g_strcmp0(schema, kinds[k].schema))
            return &kinds[k];
    return NULL;
}

/* The same results of another version. */
static const char *
other_version(const char *schema)
{
    size_t name = strcspn(schema, "/");

    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
        if (!strncmp(schema, kinds[k].schema, name) && kinds[k].schema[name] == '/')
            return kinds[k].schema;
    return NULL;
}

static bool
find_kind(struct mw_page_input *input, const char *path, GError **error)
{
    const char *schema = mw_value_text(input->it, "schema");

    input->kind = kind_of(schema);
    if (input->kind)
        return true;
    if (schema && other_version(schema))
        return mw_fail(error, MW_ERROR_FORMAT, "%s: key \"schema\": \"%s\": this version reads %s",
                       path, schema, other_version(schema));
    return mw_fail(error, MW_ERROR_FORMAT, "%s: key \"schema\"%s%s%s: must be %s", path,
                   schema ? ": \"" : ": missing", schema ? schema : "", schema ? "\"" : "", WANTED);
}

static bool
check_rows(const struct mw_page_input *input, const char *path, GError **error)
{
    const char *key = input->kind->rows;
    JsonNode *rows = key ? mw_value_node(input->it, key) : NULL;
    bool good = !key || (rows && JSON_NODE_HOLDS_ARRAY(rows));
    JsonArray *array = good && rows ? json_node_get_array(rows) : NULL;

    for (guint i = 0; good && array && i < json_array_get_length(array); i++)
        good = JSON_NODE_HOLDS_OBJECT(json_array_get_element(array, i));
    return good || mw_fail(error, MW_ERROR_FORMAT, "%s: key \"%s\": must be an array of objects",
                           path, key);
}

static bool
read_json(struct mw_page_input *input, const char *text, gsize length, const char *path,
          GError **error)
{
    input->root = mw_json_parse(text, (gssize)length, path, error);
    if (!input->root)
        return false;
    input->it = json_node_get_object(input->root);
    if (!find_kind(input, path, error) || !check_rows(input, path, error))
        return false;
    if (input->kind == kind_of(MW_SCHEMA_TRACE))
        return mw_fail(error, MW_ERROR_FORMAT,
                       "%s: must be a trace as memwall wrote it, an event per line", path);
    if (!mw_page_input_yields(input, MW_PAGE_SWEEP))
        return true;
    g_autoptr(GPtrArray) rows = mw_value_objects(input->it, "rows");
    input->lines = mw_page_lines_of_json(rows, path, error);
    return input->lines != NULL;
}

static bool
read_text(struct mw_page_input *input, char *text, gsize length, const char *path, GError **error)
{
    const char *begin = text + strspn(text, " \t\r\n");

    if (!*begin)
        return mw_fail(error, MW_ERROR_FORMAT, "%s: is empty: must be %s", path, WANTED);
    if (mw_page_is_trace(text)) {
        input->kind = kind_of(MW_SCHEMA_TRACE);
        input->trace = mw_page_trace_read(text, path, error);
        return input->trace != NULL;
    }
    if (mw_page_is_csv(text)) {
        input->kind = kind_of(MW_SCHEMA_SWEEP);
        input->lines = mw_page_lines_of_csv(text, path, error);
        return input->lines != NULL;
    }
    if (*begin != '{' && !g_str_has_prefix(begin, "\xef\xbb\xbf"))
        return mw_fail(error, MW_ERROR_FORMAT, "%s: must be %s", path, WANTED);
    return read_json(input, text, length, path, error);
}

static bool
read_file(struct mw_page_input *input, const char *path, GError **error)
{
    static const struct mw_input_kind kind = {WANTED, BYTES_MAX, NULL};
    g_autofree char *base = g_path_get_basename(path);
    g_autofree char *text =
        mw_input_read_marked(path, &kind, MW_INPUT_PATIENCE_MS, &input->bytes, error);

    if (!text)
        return false;
    if (strlen(text) != input->bytes)
        return mw_fail(error, MW_ERROR_FORMAT, "%s: has a zero byte: must be %s", path, WANTED);
    input->name = mw_one_line(base);
    input->digest =
        g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, input->bytes);
    return read_text(input, text, input->bytes, path, error);
}

struct mw_page_input *
mw_page_input_read(const char *path, GError **error)
{
    struct mw_page_input *input = g_new0(struct mw_page_input, 1);

    if (read_file(input, path, error))
        return input;
    mw_page_input_free(input);
    return NULL;
}

void
mw_page_input_free(struct mw_page_input *input)
{
    if (!input)
        return;
    if (input->root)
        json_node_unref(input->root);
    mw_page_trace_free(input->trace);
    mw_page_lines_free(input->lines);
    g_free(input->name);
    g_free(input->digest);
    g_free(input);
}
