/* Predicted beside measured: the step, its lanes, phases, operators and ops. */
#include <math.h>

#include "base/format.h"
#include "report/html/internal.h"

static const struct mw_html_column pairs[] = {
    {"what", "What", false},
    {"it.predicted_s", "Predicted", true},
    {"it.measured_s", "Measured", true},
    {"it.error", "Prediction is off by", false},
};
static const struct mw_html_column lanes[] = {
    {"name", "Lane", false},
    {"ops", "Ops", false},
    {"busy.predicted_s", "Busy, predicted", true},
    {"busy.measured_s", "Busy, measured", true},
    {"busy.error", "off by", false},
    {"exposed.predicted_s", "Exposed, predicted", false},
    {"exposed.measured_s", "Exposed, measured", false},
};
static const struct mw_html_column operators[] = {
    {"operator", "Operator", false},
    {"phase", "Phase", false},
    {"kind", "Kind", false},
    {"ops", "Ops", false},
    {"predicted_s", "Predicted", true},
    {"measured_s", "Measured", true},
    {"error", "off by", false},
};
static const struct mw_html_column phases[] = {
    {"name", "Phase", false},
    {"predicted_s", "Predicted", true},
    {"measured_s", "Measured", true},
    {"error", "off by", false},
};
static const struct mw_html_column ops[] = {
    {"name", "Op", false},
    {"lane", "Lane", false},
    {"kind", "Kind", false},
    {"rounds", "Rounds", false},
    {"predicted_s", "Predicted", false},
    {"measured_s", "Measured", false},
    {"error", "off by", false},
};
static const struct mw_html_column facts[] = {
    {"machine", "Machine", false},       {"backend", "Backend", false},
    {"steps", "Steps", false},           {"skipped_steps", "Skipped steps", false},
    {"first_loss", "First loss", false}, {"last_loss", "Last loss", false},
    {"seconds", "Seconds", false},       {"resident_peak_bytes", "Resident memory", false},
};

static void
put_pairs(GString *page, JsonObject *compare)
{
    static const char *const found[][2] = {
        {"step", "Step, the median"},
        {"first_step", "First step"},
        {"flops_alone", "FLOPs over the rate of products alone"}};
    g_autoptr(GPtrArray) rows = mw_value_rows_new();

    for (size_t i = 0; i < G_N_ELEMENTS(found); i++) {
        JsonObject *pair = mw_value_object(compare, found[i][0]);
        if (!pair || !mw_value_node(pair, "measured_s"))
            continue;
        mw_value_rows_add(rows, "what", found[i][1], pair);
    }
    mw_html_table(page, "The step", pairs, G_N_ELEMENTS(pairs), rows);
}

/* A bar from the low to the high end of the prediction, its typical value and what was measured. */
static void
put_range(GString *page, JsonObject *it)
{
    double low = mw_value_number(it, "predicted.range.step_time_s.low");
    double high = mw_value_number(it, "predicted.range.step_time_s.high");
    double typical = mw_value_number(it, "compare.step.predicted_s");
    double measured = mw_value_number(it, "compare.step.measured_s");
    double most = 1.1 * fmax(high, measured);

    if (!(low > 0) || !(high >= low) || !(measured > 0) || !isfinite(typical))
        return;
    bool within = measured >= low && measured <= high;
    g_autofree char *text = g_strdup_printf("Measured %s, predicted %s (%s to %s): %s the range",
                                            mw_format_seconds(measured), mw_format_seconds(typical),
                                            mw_format_seconds(low), mw_format_seconds(high),
                                            within ? "within" : "outside");
    mw_html_put(page,
                "<figure class=\"range\"><figcaption>%s</figcaption><svg viewBox=\"0 0 1000 10\" "
                "preserveAspectRatio=\"none\" role=\"img\"><title>%s</title>\n",
                text, text);
    mw_html_put(page, "<rect class=\"ends\" x=\"%s\" width=\"%s\" y=\"3\" height=\"4\"/>\n",
                mw_format_fixed(1000 * low / most, 1),
                mw_format_fixed(1000 * (high - low) / most, 1));
    mw_html_put(page, "<rect class=\"typical\" x=\"%s\" width=\"3\" y=\"3\" height=\"4\"/>\n",
                mw_format_fixed(1000 * typical / most, 1));
    mw_html_put(page,
                "<rect class=\"measured\" x=\"%s\" width=\"4\" height=\"10\"/></svg></figure>\n",
                mw_format_fixed(1000 * measured / most, 1));
}

bool
mw_page_measured(struct mw_page *page, GError **error)
{
    for (guint i = 0; i < page->answers->len; i++) {
        const struct mw_page_answer *answer = page->answers->pdata[i];
        JsonObject *compare = mw_value_object(answer->it, "compare");
        g_autofree char *subject = mw_page_subject(answer);
        if (!compare)
            continue;
        mw_html_put(page->out, "<h3>%s</h3>\n", subject);
        if (mw_value_object(answer->it, "run"))
            mw_html_list(page->out, facts, G_N_ELEMENTS(facts), mw_value_object(answer->it, "run"));
        put_range(page->out, answer->it);
        put_pairs(page->out, compare);
        mw_html_table_at(page->out, compare, "lanes", "Lanes", lanes, G_N_ELEMENTS(lanes));
        mw_html_table_at(page->out, compare, "phases", "Phases", phases, G_N_ELEMENTS(phases));
        mw_html_table_at(page->out, compare, "operators", "Operators, all layers and micro-batches",
                         operators, G_N_ELEMENTS(operators));
        mw_html_table_at(page->out, compare, "ops", "Ops", ops, G_N_ELEMENTS(ops));
    }
    return true;
}
