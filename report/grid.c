#include "report/grid.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/format.h"

struct mw_grid {
    char *align;
    GPtrArray *rows; /* of char ** */
};

struct mw_grid *
mw_grid_new(const char *align)
{
    struct mw_grid *grid = g_new(struct mw_grid, 1);

    grid->align = g_strdup(align);
    grid->rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
    return grid;
}

void
mw_grid_row_array(struct mw_grid *grid, const char *const *cells)
{
    size_t columns = strlen(grid->align);
    char **row = g_new0(char *, columns + 1);

    for (size_t i = 0; i < columns && cells[i]; i++)
        row[i] = mw_one_line(cells[i]);
    g_ptr_array_add(grid->rows, row);
}

void
mw_grid_row(struct mw_grid *grid, ...)
{
    g_autoptr(GPtrArray) cells = g_ptr_array_new();
    const char *cell;
    va_list list;

    va_start(list, grid);
    while ((cell = va_arg(list, const char *)))
        g_ptr_array_add(cells, (gpointer)cell);
    va_end(list);
    g_ptr_array_add(cells, NULL);
    mw_grid_row_array(grid, (const char *const *)cells->pdata);
}

static long
column_width(const struct mw_grid *grid, guint column)
{
    long width = 0;

    for (guint i = 0; i < grid->rows->len; i++) {
        char **cells = g_ptr_array_index(grid->rows, i);
        if (g_strv_length(cells) > column)
            width = MAX(width, g_utf8_strlen(cells[column], -1));
    }
    return width;
}

/* Lines have no trailing blanks. */
static void
print_row(char **cells, const char *align, const long *widths, FILE *out, int indent)
{
    GString *line = g_string_new(NULL);

    g_string_append_printf(line, "%*s", indent, "");
    for (guint i = 0; cells[i]; i++) {
        int pad = (int)(widths[i] - g_utf8_strlen(cells[i], -1));
        if (align[i] == 'r')
            g_string_append_printf(line, "%*s%s  ", pad, "", cells[i]);
        else
            g_string_append_printf(line, "%s%*s  ", cells[i], pad, "");
    }
    fprintf(out, "%s\n", g_strchomp(line->str));
    g_string_free(line, TRUE);
}

void
mw_grid_print(struct mw_grid *grid, FILE *out, int indent)
{
    size_t columns = strlen(grid->align);
    g_autofree long *widths = g_new(long, columns + 1);

    for (guint c = 0; c < columns; c++)
        widths[c] = column_width(grid, c);
    for (guint i = 0; out && i < grid->rows->len; i++)
        print_row(g_ptr_array_index(grid->rows, i), grid->align, widths, out, indent);
    g_ptr_array_free(grid->rows, TRUE);
    g_free(grid->align);
    g_free(grid);
}

const char *
mw_grid_bar(double ratio, int width)
{
    static _Thread_local char bar[64];
    int full = isfinite(ratio) ? (int)lround(CLAMP(ratio, 0.0, 1.0) * width) : 0;

    g_assert(width + 3 <= (int)sizeof bar);
    /* Anything in use fills at least one cell, and only what is full fills all cells. */
    if (ratio > 0 && full == 0)
        full = 1;
    else if (ratio < 1 && full == width)
        full = width - 1;
    bar[0] = '[';
    memset(bar + 1, '#', full);
    memset(bar + 1 + full, '-', width - full);
    bar[width + 1] = ']';
    bar[width + 2] = '\0';
    return bar;
}
