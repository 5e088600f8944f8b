/* What an answer depends on: one thing changed at a time. */
#include <math.h>
#include <string.h>

#include "base/format.h"
#include "report/html/internal.h"

#define FACTORS_MAX 8

static const struct mw_html_column changes[] = {
    {"what", "Change", false},
    {"flags", "Options", false},
    {"step_time_s", "Step time", false},
    {"tokens_per_s", "Tokens/s", false},
    {"times_tokens_per_usd", "Tokens per USD", false},
    {"micro_batch", "Batch per GPU", false},
    {"global_batch", "Global batch", false},
};
static const struct mw_html_column needs[] = {
    {"what", "Bandwidth", false},
    {"efficiency", "For an efficiency of", false},
    {"bytes_per_s", "it must be", false},
    {"present_bytes_per_s", "and is", false},
};
static const struct mw_html_column gains[] = {
    {"part", "Part of the software", false},
    {"factor", "With it ideal, faster", true},
};
static const struct mw_html_column terms[] = {
    {"what", "Term", false},
    {"paper_s", "By the paper's equations", true},
    {"plan_s", "By what the plan moves", true},
};

/* The row of a thing, which is added if it is new. */
static JsonObject *
row_of(GPtrArray *rows, const char *what)
{
    JsonObject *row = NULL;

    for (guint i = 0; i < rows->len && !row; i++)
        if (!g_strcmp0(mw_value_text(rows->pdata[i], "what"), what))
            row = rows->pdata[i];
    if (!row) {
        row = json_object_new();
        json_object_set_string_member(row, "what", what);
        g_ptr_array_add(rows, row);
    }
    return row;
}

static void
put_changes(GString *page, JsonObject *it)
{
    g_autoptr(GPtrArray) rows = g_ptr_array_new();

    for (const char *const *key = (const char *const[]){"change", "paid_change", NULL}; *key; key++)
        if (mw_value_object(it, *key))
            g_ptr_array_add(rows, mw_value_object(it, *key));
    mw_html_table(page, "The best single changes", changes, G_N_ELEMENTS(changes), rows);
}

/* A row for each thing, a column for each factor: "0.5_s" is the step time at half the rate. */
static void
put_what_ifs(GString *page, JsonObject *it)
{
    g_autoptr(GPtrArray) all = mw_value_objects(it, "what_if"), rows = mw_value_rows_new();
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    struct mw_html_column columns[1 + FACTORS_MAX] = {{"what", "If this were", false}};
    size_t count = 1;

    for (guint i = 0; i < all->len; i++) {
        const char *what = mw_value_text(all->pdata[i], "what");
        double factor = mw_value_number(all->pdata[i], "factor");
        if (!what || !isfinite(factor))
            continue;
        char *key = g_strdup_printf("%s_s", mw_format_exact(factor));
        size_t c = 1;
        g_ptr_array_add(names, key);
        while (c < count && strcmp(columns[c].key, key))
            c++;
        if (c == count && count <= FACTORS_MAX) {
            char *title = g_strdup_printf("%s times as fast: step", mw_format_exact(factor));
            g_ptr_array_add(names, title);
            columns[count++] = (struct mw_html_column){key, title, true};
        }
        json_object_set_double_member(row_of(rows, what), key,
                                      mw_value_number(all->pdata[i], "step_time_s"));
    }
    mw_html_table(page, "What if one thing were slower or faster", columns, count, rows);
}

bool
mw_page_changes(struct mw_page *page, GError **error)
{
    for (guint i = 0; i < page->answers->len; i++) {
        const struct mw_page_answer *answer = page->answers->pdata[i];
        g_autofree char *subject = mw_page_subject(answer);
        gsize before = page->out->len;
        mw_html_put(page->out, "<h3>%s</h3>\n", subject);
        gsize empty = page->out->len;
        put_changes(page->out, answer->it);
        put_what_ifs(page->out, answer->it);
        mw_html_table_at(page->out, answer->it, "needs",
                         "What an efficiency asks for (empty: more than this alone)", needs,
                         G_N_ELEMENTS(needs));
        mw_html_table_at(page->out, answer->it, "software_gains", "What ideal software would gain",
                         gains, G_N_ELEMENTS(gains));
        mw_html_table_at(page->out, answer->it, "terms", "Terms of the step's closed forms", terms,
                         G_N_ELEMENTS(terms));
        if (page->out->len == empty)
            g_string_truncate(page->out, before);
    }
    return true;
}
