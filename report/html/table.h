/*
 * table.h - tables of a page: a row for each object, a column for each key that any of them has.
 */
#ifndef MW_REPORT_HTML_TABLE_H
#define MW_REPORT_HTML_TABLE_H

#include <glib.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>

#define MW_HTML_ROWS_MAX 2000 /* of a table: a browser gets slow beyond */

struct mw_html_column {
    const char *key; /* of report/html/value.h */
    const char *title;
    bool bar; /* the figure is drawn too, as a share of the largest in bars of its unit */
};

/* `rows` are of JsonObject *.  A column that no row has is left out, and the table if none is left.
 * The script sorts by data-v, which numbers have, else by text. */
void mw_html_table(GString *page, const char *caption, const struct mw_html_column *columns,
                   size_t count, GPtrArray *rows);
/* Of the objects of an array of `it`. */
void mw_html_table_at(GString *page, JsonObject *it, const char *key, const char *caption,
                      const struct mw_html_column *columns, size_t count);
/* With a column for each key of the rows, named after it. */
void mw_html_table_of(GString *page, const char *caption, GPtrArray *rows);
/* Only the beginning, up to the caption, of so many columns; "</table></div>" ends it. */
void mw_html_table_begin(GString *page, const char *caption, guint columns);

/* The figures of one object that it has, with their names. */
void mw_html_list(GString *page, const struct mw_html_column *columns, size_t count,
                  JsonObject *it);

/* All of any object: its figures as lists, its objects and arrays of objects as tables. */
void mw_html_object(GString *page, JsonObject *it);

/* "step_time_s" -> "Step time".  g_free it. */
char *mw_html_title_of(const char *key);

#endif
