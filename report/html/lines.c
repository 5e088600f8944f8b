/* The rows of a sweep as lines of CSV, whether they were written as that or as JSON. */
#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/format.h"
#include "report/html/internal.h"
#include "report/report.h"

static void
rewind_lines(void *data)
{
    ((struct mw_page_lines *)data)->at = 0;
}

static char *
next_line(void *data)
{
    struct mw_page_lines *lines = data;

    return lines->at < lines->lines->len ? g_strdup(lines->lines->pdata[lines->at++]) : NULL;
}

struct mw_rows
mw_page_rows_of(struct mw_page_lines *lines)
{
    return (struct mw_rows){lines->names, rewind_lines, next_line, lines, NULL};
}

struct mw_page_lines *
mw_page_lines_new(const char *names)
{
    struct mw_page_lines *lines = g_new0(struct mw_page_lines, 1);

    lines->names = g_strdup(names);
    lines->lines = g_ptr_array_new_with_free_func(g_free);
    return lines;
}

void
mw_page_lines_free(struct mw_page_lines *lines)
{
    if (!lines)
        return;
    g_free(lines->names);
    g_ptr_array_unref(lines->lines);
    g_free(lines);
}

/* --- CSV -------------------------------------------------------------------------------------- */

/* What pictures and tables of rows look for. */
static bool
has_columns(const char *names)
{
    static const char *const needed[] = {"strategy",     "feasible", "step_time_s",
                                         "tokens_per_s", "nodes",    "gpus_per_node",
                                         "cost_usd",     "seq",      "global_batch"};
    g_auto(GStrv) cells = mw_csv_split(names);
    bool good = cells != NULL;

    for (size_t i = 0; good && i < G_N_ELEMENTS(needed); i++)
        good = g_strv_contains((const char *const *)cells, needed[i]);
    return good;
}

bool
mw_page_is_csv(const char *text)
{
    g_autofree char *first = g_strndup(text, strcspn(text, "\r\n"));

    return has_columns(first);
}

static bool
take_line(struct mw_page_lines *lines, char *line, guint columns, const char *path, GError **error)
{
    g_auto(GStrv) cells = mw_csv_split(line);

    if (!cells || g_strv_length(cells) != columns)
        return mw_fail(error, MW_ERROR_FORMAT,
                       "%s: line %u: must have %u cells, as the first line has (cut short?)", path,
                       lines->lines->len + 2, columns);
    g_ptr_array_add(lines->lines, g_strdup(line));
    return true;
}

struct mw_page_lines *
mw_page_lines_of_csv(const char *text, const char *path, GError **error)
{
    bool ends = g_str_has_suffix(text, "\n"), good = ends && g_utf8_validate(text, -1, NULL);
    g_auto(GStrv) split = g_strsplit(text, "\n", -1);
    g_auto(GStrv) names = mw_csv_split(g_strchomp(split[0]));

    if (!good || !names) {
        mw_fail(error, MW_ERROR_FORMAT, "%s: %s: must be rows of a sweep", path,
                ends ? "is not UTF-8" : "ends within a line (cut short?)");
        return NULL;
    }
    struct mw_page_lines *lines = mw_page_lines_new(split[0]);
    for (char **line = split + 1; good && *line && line[1]; line++)
        good = take_line(lines, g_strchomp(*line), g_strv_length(names), path, error);
    if (good)
        return lines;
    mw_page_lines_free(lines);
    return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void
append_cell(GString *line, const char *text) /* and the comma after it */
{
    char *cell = NULL;
    size_t length;
    FILE *out = open_memstream(&cell, &length);

    g_assert(out);
    mw_csv_cell_write(out, text);
    fclose(out);
    g_string_append_len(line, cell, (gssize)length);
    g_string_append_c(line, ',');
    free(cell);
}

static void
append_value(GString *line, JsonObject *it, const char *key)
{
    double value = mw_value_number(it, key);
    JsonNode *node = it ? json_object_get_member(it, key) : NULL;
    GType type = node && JSON_NODE_HOLDS_VALUE(node) ? json_node_get_value_type(node) : 0;

    if (type == G_TYPE_BOOLEAN)
        append_cell(line, json_node_get_boolean(node) ? "true" : "false");
    else if (isfinite(value))
        append_cell(line, mw_format_exact(value));
    else
        append_cell(line, mw_value_text(it, key));
}

static void
end_line(GString *line)
{
    g_string_truncate(line, line->len ? line->len - 1 : 0);
}

/* The keys of the first row are those of all. */
struct mw_page_lines *
mw_page_lines_of_json(GPtrArray *rows, const char *path, GError **error)
{
    JsonObject *first = rows->len ? rows->pdata[0] : NULL;
    JsonObject *axes = mw_value_object(first, "over");
    g_autoptr(GList) over = axes ? json_object_get_members(axes) : NULL;
    g_autoptr(GList) keys = first ? json_object_get_members(first) : NULL;
    g_autoptr(GString) line = g_string_new(NULL);

    for (GList *key = over; key; key = key->next) {
        g_autofree char *name = g_strconcat(MW_ROWS_OVER, key->data, NULL);
        append_cell(line, name);
    }
    for (GList *key = keys; key; key = key->next)
        if (strcmp(key->data, "over"))
            append_cell(line, key->data);
    end_line(line);
    if (!has_columns(line->str)) {
        mw_fail(error, MW_ERROR_FORMAT, "%s: key \"rows\": must be rows of a sweep, one at least",
                path);
        return NULL;
    }
    struct mw_page_lines *lines = mw_page_lines_new(line->str);
    for (guint i = 0; i < rows->len; i++) {
        g_string_truncate(line, 0);
        for (GList *key = over; key; key = key->next)
            append_value(line, mw_value_object(rows->pdata[i], "over"), key->data);
        for (GList *key = keys; key; key = key->next)
            if (strcmp(key->data, "over"))
                append_value(line, rows->pdata[i], key->data);
        end_line(line);
        g_ptr_array_add(lines->lines, g_strdup(line->str));
    }
    return lines;
}
