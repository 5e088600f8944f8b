/* What a picture of a sweep shows: its axes of numbers, series and cells. */
#include "report/plot_rows.h"

#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "report/plot_rows_data.h"
#include "report/plot_run.h"

#define MEASURED "measured" /* the kind that needs runs */

static const struct {
    const char *name;
    mw_plot_script_of script;
    int axes; /* of numbers that it needs */
} kinds[] = {
    {"lines", mw_plot_rows_lines, 1},
    {"heat", mw_plot_rows_heat, 2},
    {"pareto", mw_plot_rows_pareto, 0},
    {MEASURED, mw_plot_rows_measured, 0},
};

/* The kind of "KIND:FILE", and its file; -1: there is none. */
static int
kind_of(const char *plot, const char **path)
{
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
        size_t length = strlen(kinds[k].name);
        *path = plot + length + 1;
        if (!strncmp(plot, kinds[k].name, length) && plot[length] == ':')
            return (int)k;
    }
    return -1;
}

bool
mw_plot_rows_check(const char *const *plots, GError **error)
{
    for (; plots && *plots; plots++) {
        const char *path;
        bool svg;
        if (kind_of(*plots, &path) < 0)
            return mw_refuse(error,
                             "{plot=%s}: must be lines:FILE, heat:FILE, pareto:FILE or "
                             "measured:FILE, with a FILE that ends in .png or .svg",
                             *plots);
        if (!mw_plot_format(path, &svg, error) || !mw_file_check(path, error))
            return false;
    }
    return true;
}

static bool
check_kind(int kind, const char *path, int axes, bool measured, GError **error)
{
    if (axes < kinds[kind].axes)
        return mw_refuse(error, "cannot plot to %s: %s need%s %d axes of numbers; the sweep has %d",
                         path, kinds[kind].name, kind ? "s" : "", kinds[kind].axes, axes);
    return measured || strcmp(kinds[kind].name, MEASURED) != 0 ||
           mw_refuse(error, "cannot plot to %s: no row was measured, as {measure} does", path);
}

bool
mw_plot_rows_check_axes(const char *const *plots, int axes, bool measures, GError **error)
{
    bool good = true;

    for (; good && plots && *plots; plots++) {
        const char *path;
        int kind = kind_of(*plots, &path);
        good = check_kind(kind, path, axes, measures, error);
    }
    return good;
}

/* --- the table ------------------------------------------------------------------------------- */

static guint
column_of(char **names, const char *name)
{
    guint column = 0;

    while (names[column] && strcmp(names[column], name))
        column++;
    return column;
}

static void
add_row(struct mw_plot_rows *table, char **cells, guint rate)
{
    char **values = g_new0(char *, table->axis_count + 1);
    double tokens_per_s = mw_rows_number(cells[rate]);

    for (guint a = 0; a < table->axis_count; a++)
        values[a] = g_strdup(cells[a]);
    g_ptr_array_add(table->values, values);
    g_array_append_val(table->rates, tokens_per_s);
}

/* The columns of a pair, in the order of its fields. */
static const char *const pair_names[] = {
    "step_time_s",
    "step_time_s_low",
    "step_time_s_high",
    MW_ROWS_MEASURED "step_time_s",
    MW_ROWS_MEASURED "step_time_s_low",
    MW_ROWS_MEASURED "step_time_s_high",
};

static void
add_pair(struct mw_plot_rows *table, char **cells)
{
    double all[G_N_ELEMENTS(pair_names)];
    bool whole = true;

    for (size_t i = 0; i < G_N_ELEMENTS(pair_names); i++) {
        guint column = column_of(table->names, pair_names[i]);
        all[i] = table->names[column] ? mw_rows_number(cells[column]) : NAN;
        whole = whole && all[i] > 0;
    }
    struct mw_plot_pair pair = {all[0], all[1], all[2], all[3], all[4], all[5]};
    if (whole)
        g_array_append_val(table->pairs, pair);
}

static bool
varies(const struct mw_plot_rows *table, guint axis)
{
    bool differs = false;

    for (guint i = 1; !differs && i < table->values->len; i++)
        differs =
            strcmp(mw_plot_rows_value(table, i, axis), mw_plot_rows_value(table, 0, axis)) != 0;
    return differs;
}

static bool
is_of_numbers(const struct mw_plot_rows *table, guint axis)
{
    bool numbers = true;

    for (guint i = 0; numbers && i < table->values->len; i++)
        numbers = isfinite(mw_rows_number(mw_plot_rows_value(table, i, axis)));
    return numbers;
}

static void
find_axes(struct mw_plot_rows *table)
{
    int found = 0;

    table->varies = g_new(bool, table->axis_count);
    for (guint a = 0; a < table->axis_count; a++)
        table->varies[a] = varies(table, a);
    for (guint a = table->axis_count; a-- > 0 && found < MW_PLOT_ROWS_AXES;)
        if (table->varies[a] && is_of_numbers(table, a))
            table->axes[found++] = (int)a;
    while (found < MW_PLOT_ROWS_AXES)
        table->axes[found++] = -1;
}

static void
read_table(const struct mw_rows *rows, struct mw_plot_rows *table)
{
    guint rate = column_of(table->names, "tokens_per_s"), count = g_strv_length(table->names);
    bool measures = table->names[column_of(table->names, pair_names[3])] != NULL;

    while (g_str_has_prefix(table->names[table->axis_count], MW_ROWS_OVER))
        table->axis_count++;
    rows->rewind(rows->data);
    for (char *row; (row = rows->next(rows->data)); g_free(row)) {
        g_auto(GStrv) cells = mw_csv_split(row);
        if (cells && g_strv_length(cells) == count)
            add_row(table, cells, rate);
        if (measures && cells && g_strv_length(cells) == count)
            add_pair(table, cells);
    }
    find_axes(table);
}

static bool
can_draw(const struct mw_plot_rows *table, int kind, const char *path, GError **error)
{
    int axes = 0;

    while (axes < MW_PLOT_ROWS_AXES && table->axes[axes] >= 0)
        axes++;
    return check_kind(kind, path, axes, table->pairs->len > 0, error) &&
           (table->front.fitting->len ||
            mw_refuse(error, "cannot plot to %s: no point fits", path));
}

/* Draws, or says only whether it could. */
static bool
draw(const char *plot, const struct mw_rows *rows, bool draws, GError **error)
{
    struct mw_plot_rows table = {.names = mw_csv_split(rows->names),
                                 .values =
                                     g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev),
                                 .rates = g_array_new(FALSE, FALSE, sizeof(double)),
                                 .pairs = g_array_new(FALSE, FALSE, sizeof(struct mw_plot_pair)),
                                 .front = mw_front_of(rows)};
    const char *path;
    int kind = kind_of(plot, &path);

    read_table(rows, &table);
    bool good = can_draw(&table, kind, path, error) &&
                (!draws || mw_plot_draw(path, kinds[kind].script, &table, error));
    g_strfreev(table.names);
    g_ptr_array_unref(table.values);
    g_array_unref(table.rates);
    g_array_unref(table.pairs);
    g_free(table.varies);
    mw_front_clear(&table.front);
    return good;
}

bool
mw_plot_rows_check_rows(const char *plot, const struct mw_rows *rows, GError **error)
{
    return draw(plot, rows, false, error);
}

bool
mw_plot_rows_write(const char *plot, const struct mw_rows *rows, GError **error)
{
    return draw(plot, rows, true, error);
}
