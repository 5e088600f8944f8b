#include "base/csv.h"

#include <stdbool.h>
#include <string.h>

void
mw_csv_cell_write(FILE *out, const char *text)
{
    if (!text)
        return;
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* The text after the cell that begins at `at`; NULL: its quotes are wrong. */
static const char *
take_cell(const char *at, GString *cell)
{
    if (*at != '"') {
        size_t length = strcspn(at, ",");
        g_string_append_len(cell, at, (gssize)length);
        return at + length;
    }
    for (at++; *at; at++) {
        if (*at == '"' && at[1] != '"')
            return !at[1] || at[1] == ',' ? at + 1 : NULL;
        at += *at == '"';
        g_string_append_c(cell, *at);
    }
    return NULL;
}

char **
mw_csv_split(const char *line)
{
    GPtrArray *cells = g_ptr_array_new_with_free_func(g_free);
    const char *at = line;

    for (bool more = true; more;) {
        GString *cell = g_string_new(NULL);
        at = take_cell(at, cell);
        g_ptr_array_add(cells, g_string_free(cell, FALSE));
        if (!at) {
            g_ptr_array_unref(cells);
            return NULL;
        }
        more = *at == ',';
        at += more;
    }
    g_ptr_array_add(cells, NULL);
    return (char **)g_ptr_array_free(cells, FALSE);
}
