#include "report/html/table.h"

#include <math.h>
#include <string.h>

#include "base/format.h"
#include "report/html/text.h"
#include "report/html/value.h"

#define COLUMNS_UPRIGHT 11 /* that paper has room for; tables of more lie across */

/* A column that some row has. */
struct shown {
    const struct mw_html_column *column;
    bool numbers; /* in every row that has it */
    double most;
};

static bool
look_at(const struct mw_html_column *column, GPtrArray *rows, struct shown *shown)
{
    bool found = false;

    *shown = (struct shown){column, true, 0};
    for (guint i = 0; i < rows->len; i++) {
        double value = mw_value_number(rows->pdata[i], column->key);
        bool is_there = mw_value_node(rows->pdata[i], column->key) != NULL;
        found = found || is_there;
        shown->numbers = shown->numbers && (!is_there || isfinite(value));
        shown->most = fmax(shown->most, value);
    }
    return found;
}

static void
put_bar(GString *page, double value, double most)
{
    if (most > 0 && value >= 0)
        mw_html_put(page,
                    "<svg class=\"bar\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" "
                    "aria-hidden=\"true\"><rect width=\"%s\" height=\"1\"/></svg>",
                    mw_format_fixed(100 * value / most, 1));
}

static void
put_cell(GString *page, const struct shown *shown, JsonObject *row, bool heads)
{
    g_autofree char *text = mw_value_shown(row, shown->column->key);
    double value = mw_value_number(row, shown->column->key);

    mw_html_put(page, heads ? "<th scope=\"row\"" : "<td");
    if (shown->numbers)
        mw_html_put(page, " class=\"n\"");
    if (isfinite(value))
        mw_html_put(page, " data-v=\"%s\"", mw_format_exact(value));
    mw_html_put(page, ">%s", text);
    if (shown->column->bar)
        put_bar(page, value, shown->most);
    mw_html_put(page, heads ? "</th>" : "</td>");
}

static void
put_rows(GString *page, const GArray *columns, GPtrArray *rows)
{
    for (guint i = 0; i < MIN(rows->len, MW_HTML_ROWS_MAX); i++) {
        mw_html_put(page, "<tr>");
        for (guint c = 0; c < columns->len; c++)
            put_cell(page, &g_array_index(columns, struct shown, c), rows->pdata[i], c == 0);
        mw_html_put(page, "</tr>\n");
    }
}

void
mw_html_table_begin(GString *page, const char *caption, guint columns)
{
    mw_html_put(page,
                "<div class=\"scroll%s\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">"
                "<table class=\"sortable\"><caption>%s</caption>\n",
                columns > COLUMNS_UPRIGHT ? " wide" : "", caption, caption);
}

/* Bars of one unit have one scale. */
static void
share_scales(GArray *columns)
{
    struct shown *all = (struct shown *)columns->data;

    for (guint i = 0; i < columns->len; i++)
        for (guint j = 0; j < columns->len; j++)
            if (all[i].column->bar && all[j].column->bar &&
                mw_value_unit(all[i].column->key) == mw_value_unit(all[j].column->key))
                all[i].most = fmax(all[i].most, all[j].most);
}

void
mw_html_table(GString *page, const char *caption, const struct mw_html_column *columns,
              size_t count, GPtrArray *rows)
{
    g_autoptr(GArray) shown = g_array_new(FALSE, FALSE, sizeof(struct shown));
    struct shown one;

    for (size_t c = 0; c < count; c++)
        if (look_at(&columns[c], rows, &one))
            g_array_append_val(shown, one);
    if (!shown->len)
        return;
    share_scales(shown);
    mw_html_table_begin(page, caption, shown->len);
    mw_html_put(page, "<thead><tr>");
    for (guint c = 0; c < shown->len; c++) {
        const struct shown *head = &g_array_index(shown, struct shown, c);
        mw_html_put(page,
                    head->numbers ? "<th scope=\"col\" class=\"n\">%s</th>"
                                  : "<th scope=\"col\">%s</th>",
                    head->column->title);
    }
    mw_html_put(page, "</tr></thead>\n<tbody>\n");
    put_rows(page, shown, rows);
    mw_html_put(page, "</tbody></table></div>\n");
    if (rows->len > MW_HTML_ROWS_MAX)
        mw_html_put(page, "<p class=\"note\">The first %d of %u rows.</p>\n", MW_HTML_ROWS_MAX,
                    rows->len);
}

void
mw_html_table_at(GString *page, JsonObject *it, const char *key, const char *caption,
                 const struct mw_html_column *columns, size_t count)
{
    g_autoptr(GPtrArray) rows = mw_value_objects(it, key);

    mw_html_table(page, caption, columns, count, rows);
}

/* --- any object ------------------------------------------------------------------------------- */

char *
mw_html_title_of(const char *key)
{
    static const char *const endings[] = {"_bytes", "_s", "_usd"};
    char *title = g_strdup(key);

    for (size_t i = 0; i < G_N_ELEMENTS(endings); i++)
        if (g_str_has_suffix(title, endings[i]) && !g_str_has_suffix(title, "per_s")) {
            title[strlen(title) - strlen(endings[i])] = '\0';
            break;
        }
    *title = g_ascii_toupper(*title);
    return g_strdelimit(title, "_.", ' ');
}

/* Keys of all rows in the order of their first, those of objects inside as "outer.inner".  `seen`
 * has the same keys, and owns none. */
static void
add_keys(JsonObject *it, const char *before, GHashTable *seen, GPtrArray *keys)
{
    g_autoptr(GList) names = json_object_get_members(it);

    for (GList *name = names; name; name = name->next) {
        g_autofree char *key = g_strconcat(before, name->data, NULL);
        JsonNode *node = json_object_get_member(it, name->data);
        if (JSON_NODE_HOLDS_OBJECT(node) && !*before) {
            g_autofree char *inside = g_strconcat(key, ".", NULL);
            add_keys(json_node_get_object(node), inside, seen, keys);
        } else if (!JSON_NODE_HOLDS_ARRAY(node) && !g_hash_table_contains(seen, key)) {
            g_ptr_array_add(keys, key);
            g_hash_table_add(seen, g_steal_pointer(&key));
        }
    }
}

void
mw_html_table_of(GString *page, const char *caption, GPtrArray *rows)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GPtrArray) keys = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) titles = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < rows->len; i++)
        add_keys(rows->pdata[i], "", seen, keys);
    g_autofree struct mw_html_column *columns = g_new0(struct mw_html_column, keys->len);
    for (guint i = 0; i < keys->len; i++) {
        g_ptr_array_add(titles, mw_html_title_of(keys->pdata[i]));
        columns[i] = (struct mw_html_column){keys->pdata[i], titles->pdata[i], false};
    }
    mw_html_table(page, caption, columns, keys->len, rows);
}

void
mw_html_list(GString *page, const struct mw_html_column *columns, size_t count, JsonObject *it)
{
    mw_html_put(page, "<dl class=\"facts\">\n");
    for (size_t c = 0; c < count; c++) {
        g_autofree char *shown = mw_value_shown(it, columns[c].key);
        if (*shown)
            mw_html_put(page, "<div><dt>%s</dt><dd>%s</dd></div>\n", columns[c].title, shown);
    }
    mw_html_put(page, "</dl>\n");
}

void
mw_html_object(GString *page, JsonObject *it)
{
    g_autoptr(GList) names = json_object_get_members(it);

    for (GList *name = names; name; name = name->next) {
        g_autofree char *title = mw_html_title_of(name->data);
        const struct mw_html_column column = {name->data, title, false};
        JsonNode *node = json_object_get_member(it, name->data);
        g_autoptr(GPtrArray) rows = mw_value_objects(it, name->data);
        if (JSON_NODE_HOLDS_OBJECT(node))
            g_ptr_array_add(rows, json_node_get_object(node));
        if (rows->len)
            mw_html_table_of(page, title, rows);
        else if (!JSON_NODE_HOLDS_NULL(node) && !JSON_NODE_HOLDS_ARRAY(node))
            mw_html_list(page, &column, 1, it);
    }
}
