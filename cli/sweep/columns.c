#include "cli/sweep/columns.h"

#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/nearest.h"

#define ALL_AXES "over"

struct cli_columns {
    const struct mw_rows *all;
    GArray *indexes; /* of guint, into the cells of a row */
    char *names;
};

static bool
is_axis(const char *name)
{
    return g_str_has_prefix(name, MW_ROWS_OVER);
}

static bool
is_called(const char *name, const char *called)
{
    return !strcmp(name, called) ||
           (is_axis(name) &&
            (!strcmp(called, ALL_AXES) || !strcmp(name + strlen(MW_ROWS_OVER), called)));
}

/* Adds the columns of that name, each once. */
static bool
add(GArray *indexes, char **names, const char *called)
{
    bool found = false;

    for (guint i = 0; names[i]; i++) {
        bool twice = false;
        if (!is_called(names[i], called))
            continue;
        found = true;
        for (guint n = 0; n < indexes->len; n++)
            twice = twice || g_array_index(indexes, guint, n) == i;
        if (!twice)
            g_array_append_val(indexes, i);
    }
    return found;
}

bool
cli_columns_check(const char *list, const char *names, GError **error)
{
    g_auto(GStrv) known = mw_csv_split(names), wanted = g_strsplit(list, ",", -1);
    g_autoptr(GArray) indexes = g_array_new(FALSE, FALSE, sizeof(guint));

    if (!*wanted)
        return mw_refuse(error, "--columns: must be names of columns with commas between them");
    for (char **name = wanted; *name; name++)
        if (!add(indexes, known, *name)) {
            g_autofree char *like = mw_names_like(*name, (const char *const *)known, "");
            return mw_refuse(error, "--columns: there is no column '%s'%s%s%s", *name,
                             like ? "; did you mean " : "; the first line of a sweep names all",
                             like ? like : "", like ? "?" : "");
        }
    return true;
}

static char *
chosen(const struct cli_columns *columns, const char *line)
{
    g_auto(GStrv) cells = mw_csv_split(line);
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    for (guint i = 0; i < columns->indexes->len; i++) {
        if (i)
            fputc(',', out);
        mw_csv_cell_write(out, cells[g_array_index(columns->indexes, guint, i)]);
    }
    fclose(out);
    return text;
}

struct cli_columns *
cli_columns_new(const char *list, const struct mw_rows *all)
{
    struct cli_columns *columns = g_new0(struct cli_columns, 1);
    g_auto(GStrv) known = mw_csv_split(all->names), wanted = g_strsplit(list, ",", -1);

    columns->all = all;
    columns->indexes = g_array_new(FALSE, FALSE, sizeof(guint));
    for (char **name = wanted; *name; name++)
        add(columns->indexes, known, *name);
    columns->names = chosen(columns, all->names);
    return columns;
}

void
cli_columns_free(struct cli_columns *columns)
{
    if (!columns)
        return;
    g_array_unref(columns->indexes);
    free(columns->names);
    g_free(columns);
}

static void
rewind_all(void *data)
{
    const struct cli_columns *columns = data;

    columns->all->rewind(columns->all->data);
}

static char *
next(void *data)
{
    const struct cli_columns *columns = data;
    g_autofree char *row = columns->all->next(columns->all->data);

    return row ? chosen(columns, row) : NULL;
}

struct mw_rows
cli_columns_rows(struct cli_columns *columns)
{
    return (struct mw_rows){columns->names, rewind_all, next, columns, columns->all->asked};
}
