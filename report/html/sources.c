/* What the page is of: files, settings, where figures come from; and results without sections of
 * their own. */
#include <string.h>

#include "base/format.h"
#include "report/html/internal.h"

#define DIGITS_SHOWN 16 /* of a SHA-256 */

bool
mw_page_figures(struct mw_page *page, GError **error)
{
    for (guint i = 0; i < page->inputs->len; i++) {
        const struct mw_page_input *input = page->inputs->pdata[i];
        if (!mw_page_input_yields(input, MW_PAGE_FIGURES))
            continue;
        mw_html_put(page->out, "<h3>%s: %s</h3>\n", input->name, input->kind->what);
        mw_html_object(page->out, input->it);
    }
    return true;
}

static void
put_files(struct mw_page *page)
{
    mw_html_table_begin(page->out, "Files that this page was made of", 5);
    mw_html_put(page->out, "<thead><tr><th scope=\"col\">File</th><th scope=\"col\">What</th>"
                           "<th scope=\"col\">Form</th><th scope=\"col\" class=\"n\">Size</th>"
                           "<th scope=\"col\">SHA-256</th></tr></thead>\n<tbody>\n");
    for (guint i = 0; i < page->inputs->len; i++) {
        const struct mw_page_input *input = page->inputs->pdata[i];
        g_autofree char *digest = g_strndup(input->digest, DIGITS_SHOWN);
        mw_html_put(page->out,
                    "<tr><th scope=\"row\">%s</th><td>%s</td><td>%s</td>"
                    "<td class=\"n\" data-v=\"%" G_GSIZE_FORMAT
                    "\">%s</td><td><code title=\"%s\">%s</code></td></tr>\n",
                    input->name, input->kind->what, input->kind->schema, input->bytes,
                    mw_format_bytes((double)input->bytes), input->digest, digest);
    }
    mw_html_put(page->out, "</tbody></table></div>\n");
}

/* Where the figures of an answer come from. */
static void
put_origin(GString *page, JsonObject *it)
{
    static const struct mw_html_column origin[] = {
        {"params", "Parameters", false},
        {"hardware", "Machine", false},
        {"hardware_description", "Its description", false},
        {"hardware_date", "Its figures are of", false},
        {"hardware_set", "Set by hand", false},
        {"provenance", "Least certain figure", false},
        {"calibrated", "Measured on the machine", false},
        {"software", "Software", false},
        {"software_date", "Its figures are of", false},
        {"software_set", "Set by hand", false},
        {"cost_basis", "Cost is that of", false},
        {"owned_cost.amortisation_years", "Years to write it off", false},
        {"owned_cost.amortisation_provenance", "Years are by", false},
        {"owned_cost.electricity_usd_per_kwh", "Electricity, USD per kWh", false},
        {"owned_cost.electricity_provenance", "Electricity is by", false},
        {"owned_cost.drives_price_usd", "Price of the drives, USD", false},
        {"owned_cost.drives_price_from", "Drives' price is by", false},
    };

    mw_html_list(page, origin, G_N_ELEMENTS(origin), it);
}

static void
put_settings(GString *page, JsonObject *settings)
{
    g_autoptr(GList) names = settings ? json_object_get_members(settings) : NULL;
    g_autoptr(GPtrArray) titles = g_ptr_array_new_with_free_func(g_free);
    guint count = 0;

    g_autofree struct mw_html_column *columns =
        g_new0(struct mw_html_column, g_list_length(names) + 1);
    for (GList *name = names; name; name = name->next) {
        g_ptr_array_add(titles, mw_html_title_of(name->data));
        columns[count] = (struct mw_html_column){name->data, titles->pdata[count], false};
        count++;
    }
    if (!count)
        return;
    mw_html_put(page, "<h4>Settings, as planned</h4>\n");
    mw_html_list(page, columns, count, settings);
}

bool
mw_page_inputs(struct mw_page *page, GError **error)
{
    put_files(page);
    for (guint i = 0; i < page->answers->len; i++) {
        const struct mw_page_answer *answer = page->answers->pdata[i];
        g_autofree char *subject = mw_page_subject(answer);
        mw_html_put(page->out, "<h3>%s</h3>\n", subject);
        put_origin(page->out, answer->it);
        put_settings(page->out, mw_value_object(answer->it, "settings"));
        mw_page_texts(page->out, answer->it, "notes", "notes");
    }
    return true;
}
