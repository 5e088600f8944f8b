/* A sweep: its pictures, which gnuplot draws, and its rows. */
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "report/front.h"
#include "report/html/internal.h"
#include "report/plot_rows.h"

#define DRAWN_MAX 4000 /* rows of pictures */
#define ROWS_MAX 500   /* in the table: those of the front, and the first others */

/* --- pictures --------------------------------------------------------------------------------- */

/* Colours of report/plot_rows_script.c, as gnuplot writes them, and what page.css calls those that
 * stand for them in light and dark.  Those of a heat map stay. */
static const char *const colors[][2] = {
    {"rgb( 34,  34,  34)", "text"}, {"rgb(34,34,34)", "text"},       {"rgb(102, 102, 102)", "line"},
    {"rgb(221, 221, 221)", "grid"}, {"rgb(153, 153, 153)", "muted"}, {"rgb(  0, 114, 178)", "c0"},
    {"rgb(213,  94,   0)", "c1"},   {"rgb(  0, 158, 115)", "c2"},    {"rgb(204, 121, 167)", "c3"},
    {"rgb(230, 159,   0)", "c4"},   {"rgb( 86, 180, 233)", "c5"},    {"rgb( 68,  68,  68)", "c6"},
};

/* Numbers of the rows on the front, from 1. */
static GHashTable *
rows_on(const struct mw_front *front)
{
    GHashTable *on = g_hash_table_new(g_direct_hash, g_direct_equal);

    for (guint i = 0; i < front->rows->len; i++)
        g_hash_table_add(on, GUINT_TO_POINTER((guint)g_array_index(front->rows, int64_t, i) + 1));
    return on;
}

static void
replace(GString *text, const char *from, const char *to)
{
    g_auto(GStrv) parts = g_strsplit(text->str, from, -1);
    g_autofree char *joined = g_strjoinv(to, parts);

    g_string_assign(text, joined);
}

/* gnuplot calls the parts of its picture gnuplot_plot_1, which browsers would show. */
static void
drop_titles(GString *text)
{
    g_auto(GStrv) parts = g_strsplit(text->str, "<title>", -1);

    g_string_assign(text, parts[0] ? parts[0] : "");
    for (char **part = parts; *part && part[1]; part++) {
        const char *end = strstr(part[1], "</title>");
        g_string_append(text, end ? end + strlen("</title>") : part[1]);
    }
}

/* The picture as an element of the page: with ids of its own, a title, and the page's colours. */
static void
put_picture(struct mw_page *page, const char *svg, const char *title)
{
    const char *begin = strstr(svg, "<g id=\"gnuplot_canvas\">");
    g_autoptr(GString) text = g_string_new(begin ? begin : "");
    g_autofree char *prefix = g_strdup_printf("p%u-", ++page->pictures);

    for (const char *const *id =
             (const char *const[]){"id=\"", "id='", "href='#", "href=\"#", "url(#", NULL};
         *id; id++) {
        g_autofree char *own = g_strconcat(*id, prefix, NULL);
        replace(text, *id, own);
    }
    replace(text, "xlink:href", "href");
    for (size_t c = 0; c < G_N_ELEMENTS(colors); c++) {
        g_autofree char *color = g_strdup_printf("var(--%s)", colors[c][1]);
        replace(text, colors[c][0], color);
    }
    replace(text, "color=\"black\"", "color=\"currentColor\"");
    replace(text, "fill=\"#ffffff\"", "fill=\"none\"");
    drop_titles(text);
    if (!text->len)
        return;
    mw_html_put(page->out,
                "<figure class=\"plot\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                "aria-label=\"%s\"><svg viewBox=\"0 0 1400 800\" role=\"img\"><title>%s</title>\n",
                title, title);
    g_string_append(page->out, text->str);
    mw_html_put(page->out, "</div></figure>\n");
}

/* A kind that these rows do not have the axes for is left out. */
static bool
draw(struct mw_page *page, struct mw_page_lines *lines, const char *folder, const char *kind,
     const char *title, GError **error)
{
    g_autofree char *path = g_build_filename(folder, "plot.svg", NULL);
    g_autofree char *plot = g_strdup_printf("%s:%s", kind, path);
    g_autofree char *svg = NULL;
    g_autoptr(GError) failed = NULL;
    struct mw_rows rows = mw_page_rows_of(lines);

    if (mw_plot_rows_write(plot, &rows, &failed) && g_file_get_contents(path, &svg, NULL, NULL))
        put_picture(page, svg, title);
    g_unlink(path);
    if (!failed || g_error_matches(failed, MW_ERROR, MW_ERROR_INVALID))
        return true;
    if (mw_page_stops(page, error)) /* Ctrl-C ends gnuplot too */
        return false;
    const char *why = strstr(failed->message, path);
    return mw_fail(error, MW_ERROR_IO, "cannot draw pictures of a sweep: %s",
                   why ? why + strlen(path) + strlen(": ") : failed->message);
}

static const struct {
    const char *kind, *title;
    bool of_all; /* it shows no part of the rows */
} pictures[] = {
    {"lines", "Tokens per second over the last axis", false},
    {"heat", "Tokens per second over the last two axes", true},
    {"pareto", "Step time against cost", false},
};

static bool
put_pictures(struct mw_page *page, struct mw_page_lines *lines, bool all, GError **error)
{
    g_autofree char *folder = g_dir_make_tmp("memwall-page-XXXXXX", NULL);
    bool good = folder != NULL;

    if (!folder)
        return mw_fail(error, MW_ERROR_IO, "no temporary folder can be made");
    for (size_t k = 0; k < G_N_ELEMENTS(pictures) && good; k++)
        if (all || !pictures[k].of_all)
            good = !mw_page_stops(page, error) &&
                   draw(page, lines, folder, pictures[k].kind, pictures[k].title, error);
    g_rmdir(folder);
    return good;
}

/* Rows of the front, and every n-th other. */
static struct mw_page_lines *
thinned(struct mw_page_lines *lines)
{
    struct mw_page_lines *some = mw_page_lines_new(lines->names);
    struct mw_rows rows = mw_page_rows_of(lines);
    struct mw_front front = mw_front_of(&rows);
    g_autoptr(GHashTable) on = rows_on(&front);
    guint every = lines->lines->len / DRAWN_MAX + 1;

    for (guint i = 0; i < lines->lines->len; i++)
        if (i % every == 0 || g_hash_table_contains(on, GUINT_TO_POINTER(i + 1)))
            g_ptr_array_add(some->lines, g_strdup(lines->lines->pdata[i]));
    mw_front_clear(&front);
    return some;
}

/* A mark for each of many rows would make a large page, in which nobody tells them apart. */
static bool
put_all_pictures(struct mw_page *page, struct mw_page_lines *lines, GError **error)
{
    if (lines->lines->len <= DRAWN_MAX)
        return put_pictures(page, lines, true, error);
    struct mw_page_lines *some = thinned(lines);
    bool good = put_pictures(page, some, false, error);

    mw_html_put(page->out,
                "<p class=\"note\">The pictures show %u of %u rows: those of the front, and "
                "every %uth other; the sweep itself can draw all of them, and heat maps.</p>\n",
                some->lines->len, lines->lines->len, lines->lines->len / DRAWN_MAX + 1);
    mw_page_lines_free(some);
    return good;
}

/* --- rows ------------------------------------------------------------------------------------- */

static JsonObject *
row_of(char **names, char **cells)
{
    JsonObject *row = json_object_new();

    for (guint c = 0; names[c] && cells && cells[c]; c++) {
        double value = mw_rows_number(cells[c]);
        if (!strcmp(cells[c], "true") || !strcmp(cells[c], "false"))
            json_object_set_boolean_member(row, names[c], *cells[c] == 't');
        else if (isfinite(value))
            json_object_set_double_member(row, names[c], value);
        else if (*cells[c])
            json_object_set_string_member(row, names[c], cells[c]);
    }
    return row;
}

static int
compare_rows(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Indexes of the rows that the table has, in the order of the points. */
static GArray *
chosen(const struct mw_page_lines *lines, const struct mw_front *front)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(int64_t));
    g_autoptr(GHashTable) on = rows_on(front);

    for (guint i = 0; i < front->rows->len && rows->len < ROWS_MAX; i++)
        g_array_append_val(rows, g_array_index(front->rows, int64_t, i));
    for (guint i = 0; i < lines->lines->len && rows->len < ROWS_MAX; i++) {
        int64_t row = i;
        if (!g_hash_table_contains(on, GUINT_TO_POINTER(i + 1)))
            g_array_append_val(rows, row);
    }
    g_array_sort(rows, compare_rows);
    return rows;
}

/* Titles of the axes, then those of figures. */
static void
put_table(GString *page, char **names, GPtrArray *rows, const char *caption)
{
    static const struct mw_html_column figures[] = {
        {"front", "On the front", false},
        {"strategy", "Strategy", false},
        {"feasible", "Fits", false},
        {"step_time_s", "Step time", true},
        {"tokens_per_s", "Tokens/s", true},
        {"mfu", "MFU", false},
        {"bottleneck", "Bottleneck", false},
        {"gpu_need_bytes", "GPU memory", false},
        {"cpu_need_bytes", "Host memory", false},
        {"nvme_need_bytes", "Drives", false},
        {"days", "Training takes", false},
        {"cost_usd", "Costs", false},
        {"energy_kwh", "Energy", false},
        {"limiting_tier", "Lacks", false},
        {"short_bytes", "by", false},
        {"error", "Refused", false},
    };
    guint axes = 0, count = 0;

    while (names[axes] && g_str_has_prefix(names[axes], MW_ROWS_OVER))
        axes++;
    g_autofree struct mw_html_column *columns =
        g_new0(struct mw_html_column, axes + G_N_ELEMENTS(figures));
    for (; count < axes; count++)
        columns[count] =
            (struct mw_html_column){names[count], names[count] + strlen(MW_ROWS_OVER), false};
    for (size_t f = 0; f < G_N_ELEMENTS(figures); f++)
        columns[count++] = figures[f];
    mw_html_table(page, caption, columns, count, rows);
}

static void
put_rows(GString *page, const struct mw_page_input *input)
{
    struct mw_rows all = mw_page_rows_of(input->lines);
    struct mw_front front = mw_front_of(&all);
    g_autoptr(GPtrArray) rows = mw_value_rows_new();
    g_autoptr(GArray) indexes = chosen(input->lines, &front);
    g_autoptr(GHashTable) on = rows_on(&front);
    g_auto(GStrv) names = mw_csv_split(input->lines->names);
    g_autofree char *caption =
        indexes->len < input->lines->lines->len
            ? g_strdup_printf("%u of %u rows of %s: those of the front, and the first others",
                              indexes->len, input->lines->lines->len, input->name)
            : g_strdup_printf("Rows of %s", input->name);

    for (guint i = 0; i < indexes->len; i++) {
        int64_t row = g_array_index(indexes, int64_t, i);
        g_auto(GStrv) cells = mw_csv_split(input->lines->lines->pdata[row]);
        JsonObject *it = row_of(names, cells);
        if (g_hash_table_contains(on, GUINT_TO_POINTER((guint)row + 1)))
            json_object_set_string_member(it, "front", "yes");
        g_ptr_array_add(rows, it);
    }
    put_table(page, names, rows, caption);
    mw_front_clear(&front);
}

/* A page without pictures is better than none. */
static bool
draws(struct mw_page *page)
{
    g_autofree char *program = g_find_program_in_path("gnuplot");

    if (program)
        return true;
    page->lacks = "no pictures of the sweep: gnuplot was not found; it is in the package "
                  "gnuplot-nox";
    mw_html_put(page->out, "<p class=\"note\">There are %s.</p>\n", page->lacks);
    return false;
}

bool
mw_page_sweep(struct mw_page *page, GError **error)
{
    for (guint i = 0; i < page->inputs->len; i++) {
        const struct mw_page_input *input = page->inputs->pdata[i];
        if (!input->lines)
            continue;
        if (draws(page) && !put_all_pictures(page, input->lines, error))
            return false;
        put_rows(page->out, input);
    }
    return true;
}
