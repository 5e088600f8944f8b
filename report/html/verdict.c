/* What a decision needs: fits or not, how fast, how long and for how much, what limits it, and what
 * would lift that. */
#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/format.h"
#include "report/front.h"
#include "report/html/internal.h"

char *
mw_page_machines_of(JsonObject *it)
{
    double nodes = mw_value_number(it, "settings.nodes");
    double gpus = nodes * mw_value_number(it, "settings.gpus_per_node");
    const char *hardware = mw_value_text(it, "hardware");

    if (!isfinite(gpus))
        return g_strdup(hardware ? hardware : "a machine");
    return g_strdup_printf("%s \xc3\x97 %s (%s GPU%s)", mw_format_batch(nodes),
                           hardware ? hardware : "a machine", mw_format_batch(gpus),
                           gpus == 1 ? "" : "s");
}

char *
mw_page_subject(const struct mw_page_answer *answer)
{
    const char *model = mw_value_text(answer->it, "model");
    const char *strategy = mw_value_text(answer->it, "strategy");
    g_autofree char *machines = mw_page_machines_of(answer->it);

    return g_strdup_printf("%s%s%s on %s%s%s", answer->pick ? answer->pick : "",
                           answer->pick ? ": " : "", model ? model : "the plan", machines,
                           strategy ? ", " : "", strategy ? strategy : "");
}

/* " <small>372 s to 459 s</small>" where the result has the ends of its range. */
static void
put_range(GString *page, JsonObject *it, const char *key)
{
    g_autofree char *low_key = g_strdup_printf("range.%s.low", key);
    g_autofree char *high_key = g_strdup_printf("range.%s.high", key);
    g_autofree char *low = mw_value_shown(it, low_key), *high = mw_value_shown(it, high_key);

    if (*low && *high && strcmp(low, high))
        mw_html_put(page, " <small>%s to %s</small>", low, high);
}

static void
put_figures(GString *page, JsonObject *it)
{
    static const struct mw_html_column figures[] = {
        {"step_time_s", "Step time", false},       {"tokens_per_s", "Tokens per second", false},
        {"mfu", "Model FLOPs utilization", false}, {"days", "Training takes", false},
        {"cost_usd", "Training costs", false},     {"energy_kwh", "Energy", false},
    };

    mw_html_put(page, "<dl class=\"big\">\n");
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        g_autofree char *shown = mw_value_shown(it, figures[i].key);
        if (!*shown)
            continue;
        mw_html_put(page, "<div><dt>%s</dt><dd>%s", figures[i].title, shown);
        put_range(page, it, figures[i].key);
        mw_html_put(page, "</dd></div>\n");
    }
    mw_html_put(page, "</dl>\n");
}

static void
put_limit(GString *page, JsonObject *it)
{
    const char *bottleneck = mw_value_text(it, "bottleneck");
    g_autofree char *share = mw_value_shown(it, "bottleneck_share");

    if (bottleneck)
        mw_html_put(page, "<div><dt>What limits it</dt><dd>%s%s%s%s</dd></div>\n", bottleneck,
                    *share ? ", " : "", share, *share ? " of the step" : "");
}

/* "64 times the micro-batches per step: step 6.16 hours, 3.11 times as many tokens per second". */
static void
put_change(GString *page, JsonObject *it, const char *key, const char *title)
{
    JsonObject *change = mw_value_object(it, key);
    const char *what = mw_value_text(change, "what"), *flags = mw_value_text(change, "flags");
    g_autofree char *step = mw_value_shown(change, "step_time_s");
    double times = mw_value_number(change, "tokens_per_s") / mw_value_number(it, "tokens_per_s");

    if (!what)
        return;
    mw_html_put(page, "<div><dt>%s</dt><dd>%s: step %s", title, what, step);
    if (isfinite(times))
        mw_html_put(page, ", %s \xc3\x97 the tokens per second", mw_format_significant(times));
    if (flags && *flags)
        mw_html_put(page, " <code>%s</code>", flags);
    mw_html_put(page, "</dd></div>\n");
}

static void
put_lack(GString *page, JsonObject *it)
{
    const char *tier = mw_value_text(it, "limiting_tier"), *remedy = mw_value_text(it, "remedy");
    g_autofree char *lack = mw_value_shown(it, "short_bytes");

    if (tier)
        mw_html_put(page, "<div><dt>What limits it</dt><dd>%s memory: %s too little</dd></div>\n",
                    tier, lack);
    if (remedy)
        mw_html_put(page, "<div><dt>What would make it fit</dt><dd>%s</dd></div>\n", remedy);
}

void
mw_page_texts(GString *page, JsonObject *it, const char *key, const char *class_name)
{
    JsonNode *node = mw_value_node(it, key);
    JsonArray *texts = node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    guint count = texts ? json_array_get_length(texts) : 0;

    if (!count)
        return;
    mw_html_put(page, "<ul class=\"%s\">\n", class_name);
    for (guint i = 0; i < count; i++) {
        JsonNode *text = json_array_get_element(texts, i);
        if (JSON_NODE_HOLDS_VALUE(text) && json_node_get_value_type(text) == G_TYPE_STRING)
            mw_html_put(page, "<li>%s</li>\n", json_node_get_string(text));
    }
    mw_html_put(page, "</ul>\n");
}

static void
put_card(GString *page, const struct mw_page_answer *answer)
{
    JsonObject *it = answer->it;
    bool fits = mw_value_is(it, "feasible"), measured = mw_value_object(it, "compare") != NULL;
    g_autofree char *subject = mw_page_subject(answer);

    mw_html_put(page, "<article class=\"card %s\"><h3><span class=\"badge\">%s</span> %s</h3>\n",
                fits ? "fits" : "short",
                measured ? "Measured"
                : fits   ? "Fits"
                         : "Does not fit",
                subject);
    if (fits)
        put_figures(page, it);
    mw_html_put(page, "<dl class=\"why\">\n");
    if (fits)
        put_limit(page, it);
    else
        put_lack(page, it);
    put_change(page, it, "change", "What would help most");
    put_change(page, it, "paid_change", "What helps most for money");
    mw_html_put(page, "</dl>\n");
    mw_page_texts(page, it, "cautions", "cautions");
    mw_html_put(page, "</article>\n");
}

/* --- of several answers ----------------------------------------------------------------------- */

/* Of answers of one file that are no picks: the one that trains fastest, or lacks least. */
static bool
is_better(const struct mw_page_answer *a, const struct mw_page_answer *b)
{
    bool fits = mw_value_is(a->it, "feasible");

    if (fits != mw_value_is(b->it, "feasible"))
        return fits;
    if (fits)
        return mw_value_number(a->it, "tokens_per_s") > mw_value_number(b->it, "tokens_per_s");
    return mw_value_number(a->it, "short_bytes") < mw_value_number(b->it, "short_bytes");
}

static void
put_best(struct mw_page *page, const struct mw_page_input *input)
{
    const struct mw_page_answer *best = NULL;
    guint count = 0;

    for (guint i = 0; i < page->answers->len; i++) {
        const struct mw_page_answer *answer = page->answers->pdata[i];
        if (answer->input != input)
            continue;
        if (answer->pick)
            put_card(page->out, answer);
        count += !answer->pick;
        if (!answer->pick && (!best || is_better(answer, best)))
            best = answer;
    }
    if (best)
        put_card(page->out, best);
    if (count > 1)
        mw_html_put(page->out,
                    "<p class=\"note\">The %s of %u strategies in %s; all are compared "
                    "below.</p>\n",
                    mw_value_is(best->it, "feasible") ? "fastest" : "nearest", count, input->name);
}

/* --- of other results ------------------------------------------------------------------------- */

static void
put_advice(GString *page, const struct mw_page_input *input)
{
    static const struct mw_html_column limits[] = {
        {"tokens", "Tokens to train on", false},   {"limits.days", "At most", false},
        {"limits.cost_usd", "For at most", false}, {"limits.power_kw", "At most kW", false},
        {"limits.nodes", "Nodes at most", false},
    };
    const char *model = mw_value_text(input->it, "model");

    mw_html_put(page, "<h3>%s: where to train it</h3>\n", model ? model : input->name);
    mw_html_list(page, limits, G_N_ELEMENTS(limits), input->it);
    if (!mw_value_is(input->it, "feasible"))
        mw_html_put(page,
                    "<article class=\"card short\"><h3><span class=\"badge\">Nothing is within "
                    "the limits</span></h3></article>\n");
}

/* "hardware=rtx5090, batch=8": where a row of a sweep lies.  g_free it. */
static char *
point_of(char **names, char **cells)
{
    GString *point = g_string_new(NULL);

    for (guint c = 0; names[c] && g_str_has_prefix(names[c], MW_ROWS_OVER); c++)
        g_string_append_printf(point, "%s%s=%s", c ? ", " : "", names[c] + strlen(MW_ROWS_OVER),
                               cells[c]);
    return g_string_free(point, FALSE);
}

static void
put_fastest(GString *page, const struct mw_page_lines *lines)
{
    g_auto(GStrv) names = mw_csv_split(lines->names);
    g_autofree char *point = NULL;
    double most = 0;
    guint rate = 0;

    while (strcmp(names[rate], "tokens_per_s"))
        rate++;
    for (guint i = 0; i < lines->lines->len; i++) {
        g_auto(GStrv) cells = mw_csv_split(lines->lines->pdata[i]);
        double value = mw_rows_number(cells[rate]);
        if (!(value > most))
            continue;
        most = value;
        g_free(point);
        point = point_of(names, cells);
    }
    if (point)
        mw_html_put(page, "<div><dt>Fastest</dt><dd>%s tokens per second%s%s</dd></div>\n",
                    mw_format_count(most), *point ? ", with " : "", point);
}

static void
put_sweep(GString *page, const struct mw_page_input *input)
{
    struct mw_rows rows = mw_page_rows_of(input->lines);
    struct mw_front front = mw_front_of(&rows);
    guint all = input->lines->lines->len, fit = front.fitting->len;

    mw_html_put(page,
                "<article class=\"card %s\"><h3><span class=\"badge\">%s</span> %u of %u points of "
                "%s</h3>\n<dl class=\"why\">\n",
                fit ? "fits" : "short", fit ? "Fit" : "None fits:", fit, all, input->name);
    put_fastest(page, input->lines);
    if (fit)
        mw_html_put(
            page, "<div><dt>Not beaten in both step time and cost</dt><dd>%u point%s</dd></div>\n",
            front.rows->len, front.rows->len == 1 ? "" : "s");
    mw_html_put(page, "</dl></article>\n");
    mw_front_clear(&front);
}

bool
mw_page_verdict(struct mw_page *page, GError **error)
{
    for (guint i = 0; i < page->inputs->len; i++) {
        const struct mw_page_input *input = page->inputs->pdata[i];
        if (mw_page_input_yields(input, MW_PAGE_MACHINES))
            put_advice(page->out, input);
        if (input->lines)
            put_sweep(page->out, input);
        put_best(page, input);
    }
    return true;
}
