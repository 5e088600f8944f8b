/* Memory per tier: how full it is, and of what. */
#include <math.h>

#include "base/format.h"
#include "report/html/internal.h"

#define COLORS 8 /* of page.css: c0, c1, ... */

struct part {
    const char *what;
    double bytes;
};

/* Those of a list that are of the tier. */
static void
add_parts(GArray *parts, JsonObject *it, const char *list, const char *named, const char *tier)
{
    g_autoptr(GPtrArray) rows = mw_value_objects(it, list);

    for (guint i = 0; i < rows->len; i++)
        if (!g_strcmp0(mw_value_text(rows->pdata[i], "tier"), tier)) {
            struct part part = {mw_value_text(rows->pdata[i], named),
                                mw_value_number(rows->pdata[i], "bytes")};
            g_array_append_val(parts, part);
        }
}

/* What is in a tier, in the order of the ledger; then what the software takes of it. */
static GArray *
parts_of(JsonObject *it, const char *tier)
{
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(struct part));

    add_parts(parts, it, "ledger", "purpose", tier);
    add_parts(parts, it, "software_memory", "what", tier);
    return parts;
}

/* To the scale of the capacity, or of all parts where they do not fit; then a line marks it. */
static void
put_bar(GString *page, const GArray *parts, double sum, double capacity, const char *title)
{
    double at = 0, whole = fmax(sum, capacity);

    mw_html_put(page,
                "<svg class=\"stack\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" "
                "role=\"img\"><title>%s</title>\n",
                title);
    for (guint i = 0; i < parts->len; i++) {
        double width = g_array_index(parts, struct part, i).bytes / whole * 1000;
        if (!(width > 0))
            continue;
        mw_html_put(page, "<rect class=\"c%u\" x=\"%s\" width=\"%s\" height=\"10\"/>\n", i % COLORS,
                    mw_format_fixed(at, 1), mw_format_fixed(width, 1));
        at += width;
    }
    if (sum > capacity)
        mw_html_put(page, "<rect class=\"limit\" x=\"%s\" width=\"3\" height=\"10\"/>\n",
                    mw_format_fixed(capacity / whole * 1000, 1));
    mw_html_put(page, "</svg>\n");
}

static void
put_parts(GString *page, const GArray *parts)
{
    mw_html_put(page, "<ul class=\"key\">\n");
    for (guint i = 0; i < parts->len; i++) {
        const struct part *part = &g_array_index(parts, struct part, i);
        if (part->what && part->bytes > 0)
            mw_html_put(page, "<li><span class=\"swatch c%u\"></span>%s %s</li>\n", i % COLORS,
                        part->what, mw_format_gib(part->bytes));
    }
    mw_html_put(page, "</ul>\n");
}

static void
put_tier(GString *page, JsonObject *it, const char *tier, const char *name)
{
    g_autofree char *need_key = g_strdup_printf("tiers.%s.need_bytes", tier);
    g_autofree char *capacity_key = g_strdup_printf("tiers.%s.capacity_bytes", tier);
    double need = mw_value_number(it, need_key), capacity = mw_value_number(it, capacity_key);
    g_autoptr(GArray) parts = parts_of(it, tier);
    double sum = 0;

    for (guint i = 0; i < parts->len; i++)
        sum += fmax(0, g_array_index(parts, struct part, i).bytes);
    if (!(need > 0) || !(capacity > 0))
        return;
    g_autofree char *title =
        g_strdup_printf("%s: %s of %s, %s", name, mw_format_gib(need), mw_format_gib(capacity),
                        mw_format_percent(need / capacity));
    mw_html_put(page, "<div class=\"tier\"><h4>%s</h4>\n", title);
    put_bar(page, parts, sum, capacity, title);
    put_parts(page, parts);
    mw_html_put(page, "</div>\n");
}

bool
mw_page_memory(struct mw_page *page, GError **error)
{
    static const struct mw_html_column stages[] = {
        {"first_layer", "From layer", false},
        {"layers", "Layers", false},
        {"gpus", "GPUs", false},
        {"params", "Parameters", false},
        {"micro_batches_in_flight", "Micro-batches in flight", false},
        {"gpu_bytes", "GPU memory", true},
        {"cpu_bytes", "Host memory", false},
        {"nvme_bytes", "Drives", false},
        {"compute_s", "Computes", true},
    };

    for (guint i = 0; i < page->answers->len; i++) {
        const struct mw_page_answer *answer = page->answers->pdata[i];
        g_autofree char *subject = mw_page_subject(answer);
        mw_html_put(page->out, "<h3>%s</h3>\n", subject);
        put_tier(page->out, answer->it, "gpu", "Memory of a GPU");
        put_tier(page->out, answer->it, "cpu", "Host memory per GPU");
        put_tier(page->out, answer->it, "nvme", "Drives per GPU");
        mw_html_table_at(page->out, answer->it, "stages", "Stages of the pipeline", stages,
                         G_N_ELEMENTS(stages));
    }
    return true;
}
