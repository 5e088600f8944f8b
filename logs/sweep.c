/* What sweep writes: a case for each row, named by the values of its axes. */
#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/schemas.h"
#include "logs/formats.h"
#include "logs/values.h"
#include "report/rows.h"

/* " batch=2" behind what there is. */
static void
append_value(GString *name, const char *axis, const char *value)
{
    g_string_append_printf(name, "%s%s=%s", name->len ? " " : "", axis, value);
}

/* Of a text that is a row's value; NULL: it is empty. */
static char *
filled(const char *text)
{
    return text && *text ? g_strdup(text) : NULL;
}

static void
set_size(struct mw_gate_case *one, double nodes, double gpus_per_node, double global_batch,
         double seq)
{
    one->gpus = nodes * gpus_per_node;
    one->global_batch = global_batch;
    one->tokens_per_step = global_batch * seq;
}

/* --- CSV ------------------------------------------------------------------------------------- */

bool
mw_log_is_sweep_csv(const struct mw_log_text *in)
{
    g_autofree char *line = g_strndup(in->text, strcspn(in->text, "\r\n"));

    return (g_str_has_prefix(line, MW_ROWS_OVER) || g_str_has_prefix(line, "model,")) &&
           strstr(line, ",feasible,") && strstr(line, ",step_time_s,");
}

/* The cell of a column; NULL: there is no such column. */
static const char *
cell_of(char **names, char **cells, const char *name)
{
    for (size_t i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return cells[i];
    return NULL;
}

static double
number_of(char **names, char **cells, const char *name)
{
    const char *cell = cell_of(names, cells, name);

    return cell ? mw_rows_number(cell) : NAN;
}

/* As mw_log_figure. */
static double
figure_of(char **names, char **cells, const char *name)
{
    const char *cell = cell_of(names, cells, name);
    double value = number_of(names, cells, name);

    return cell && *cell && isnan(value) ? INFINITY : value;
}

static struct mw_gate_case *
case_of_cells(char **names, char **cells)
{
    struct mw_gate_case *one = mw_gate_case_new();
    GString *name = g_string_new(NULL);

    for (size_t i = 0; names[i]; i++)
        if (g_str_has_prefix(names[i], MW_ROWS_OVER))
            append_value(name, names[i] + strlen(MW_ROWS_OVER), cells[i]);
    if (!name->len) /* of simulate */
        g_string_printf(name, "%s on %s with %s", cell_of(names, cells, "model"),
                        cell_of(names, cells, "hardware"), cell_of(names, cells, "strategy"));
    one->name = g_utf8_make_valid(name->str, (gssize)name->len);
    g_string_free(name, TRUE);
    one->error = filled(cell_of(names, cells, MW_ROWS_ERROR));
    for (int i = 0; i < MW_GATE_FIGURES; i++)
        one->figures[i] = figure_of(names, cells, mw_gate_figures[i].name);
    one->strategy = filled(cell_of(names, cells, "strategy"));
    one->bottleneck = filled(cell_of(names, cells, "bottleneck"));
    set_size(one, number_of(names, cells, "nodes"), number_of(names, cells, "gpus_per_node"),
             number_of(names, cells, "global_batch"), number_of(names, cells, "seq"));
    return one;
}

bool
mw_log_read_sweep_csv(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    g_auto(GStrv) lines = g_strsplit(in->text, "\n", -1);
    guint last = g_strv_length(lines) - 1; /* what follows the last line's end */
    g_auto(GStrv) names = mw_csv_split(g_strchomp(lines[0]));

    if (!names || last < 2 || *lines[last])
        return mw_fail(error, MW_ERROR_FORMAT, "%s: line %u is cut off, or there are no rows",
                       in->path, last + 1);
    for (guint i = 1; i < last; i++) {
        g_auto(GStrv) cells = mw_csv_split(g_strchomp(lines[i]));
        guint have = cells ? g_strv_length(cells) : 0, want = g_strv_length(names);
        if (have != want)
            return mw_fail(error, MW_ERROR_FORMAT, "%s:%u: has %u cells; the first line has %u",
                           in->path, i + 1, have, want);
        mw_log_add_case(case_of_cells(names, cells), out);
    }
    return true;
}

/* --- JSON ------------------------------------------------------------------------------------ */

bool
mw_log_is_sweep_json(const struct mw_log_text *in)
{
    return mw_log_has_schema(in, MW_SCHEMA_SWEEP);
}

static char *
name_of_values(JsonObject *row)
{
    GString *name = g_string_new(NULL);
    JsonObject *over = mw_value_object(row, "over");
    GList *axes = over ? json_object_get_members(over) : NULL;

    for (GList *axis = axes; axis; axis = axis->next) {
        JsonNode *node = json_object_get_member(over, axis->data);
        g_autofree char *text = JSON_NODE_HOLDS_NULL(node) ? g_strdup("") : mw_log_text_of(node);
        append_value(name, axis->data, text);
    }
    g_list_free(axes);
    return g_string_free(name, FALSE);
}

static struct mw_gate_case *
case_of_row(JsonObject *row)
{
    struct mw_gate_case *one = mw_gate_case_new();

    one->name = name_of_values(row);
    one->error = filled(mw_value_text(row, MW_ROWS_ERROR));
    for (int i = 0; i < MW_GATE_FIGURES; i++)
        one->figures[i] = mw_log_figure(row, mw_gate_figures[i].name);
    one->strategy = filled(mw_value_text(row, "strategy"));
    one->bottleneck = filled(mw_value_text(row, "bottleneck"));
    set_size(one, mw_value_number(row, "nodes"), mw_value_number(row, "gpus_per_node"),
             mw_value_number(row, "global_batch"), mw_value_number(row, "seq"));
    return one;
}

bool
mw_log_read_sweep_json(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    JsonObject *object = mw_log_object(in, MW_SCHEMA_SWEEP, error);
    JsonArray *rows = object ? mw_value_array(object, "rows") : NULL;
    guint count = rows ? json_array_get_length(rows) : 0;
    bool good = object && (count || mw_fail(error, MW_ERROR_FORMAT,
                                            "%s: rows: must have at least one", in->path));

    for (guint i = 0; good && i < count; i++) {
        JsonObject *row = mw_value_element(rows, i);
        good =
            row || mw_fail(error, MW_ERROR_FORMAT, "%s: rows.%u: must be an object", in->path, i);
        if (good)
            mw_log_add_case(case_of_row(row), out);
    }
    g_clear_pointer(&object, json_object_unref);
    return good;
}
