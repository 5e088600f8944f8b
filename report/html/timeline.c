/* A trace as a picture that needs no script, and its ops for the script that zooms into it. */
#include <gio/gio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "report/html/internal.h"

#define WIDE 2000     /* the picture's units across */
#define TICKS_MAX 1e9 /* of the script's clock in a step */

/* --- the picture ------------------------------------------------------------------------------ */

/* Bars that touch, at this resolution, are one. */
static void
put_phase(GString *page, const struct mw_page_trace *trace, guint row, int phase)
{
    const struct mw_page_lane *lane = trace->lanes->pdata[row];
    int64_t from = -1, to = -1;
    double scale = WIDE / (double)MAX(trace->span_ns, 1);

    for (guint i = 0; i <= lane->ops->len; i++) {
        const struct mw_page_op *op =
            i < lane->ops->len ? &g_array_index(lane->ops, struct mw_page_op, i) : NULL;
        if (op && op->phase != phase)
            continue;
        int64_t x = op ? (int64_t)((double)op->start_ns * scale) : INT64_MAX;
        if (x > to && from >= 0)
            g_string_append_printf(page, "M%d %dh%dv%dh-%dz", (int)from,
                                   (int)(row * MW_PAGE_LANE_PX + 3), (int)(to - from),
                                   MW_PAGE_LANE_PX - 6, (int)(to - from));
        if (x > to)
            from = x;
        if (op)
            to = MAX(to, MAX(x + 1, (int64_t)((double)op->end_ns * scale)));
    }
}

static void
put_lane(GString *page, const struct mw_page_trace *trace, guint row)
{
    for (int phase = 0; phase < MW_PHASE_COUNT; phase++) {
        g_autoptr(GString) path = g_string_new(NULL);
        put_phase(path, trace, row, phase);
        if (path->len)
            mw_html_put(page, "<path class=\"%s\" d=\"%s\"/>\n", mw_phase_name(phase), path->str);
    }
}

static void
put_picture(GString *page, const struct mw_page_trace *trace, const char *title)
{
    const guint lanes_px = trace->lanes->len * MW_PAGE_LANE_PX;
    const guint height = lanes_px + trace->curves->len * MW_PAGE_CURVE_PX;

    mw_html_put(
        page,
        "<svg viewBox=\"0 0 %d %u\" preserveAspectRatio=\"none\" height=\"%u\" "
        "role=\"img\"><title>%s</title>\n<desc>A row for each lane, a bar for each op, and below "
        "the memory in use of each tier; %u ops in %s.</desc>\n",
        WIDE, height, height, title, trace->op_count,
        mw_format_seconds((double)trace->span_ns / 1e9));
    for (guint row = 0; row < trace->lanes->len; row++)
        put_lane(page, trace, row);
    for (guint i = 0; i < trace->curves->len; i++)
        mw_page_curve_put(page, trace->curves->pdata[i], trace->span_ns, WIDE,
                          lanes_px + i * MW_PAGE_CURVE_PX);
    g_string_append(page, "</svg>\n");
}

/* --- ops for the script ----------------------------------------------------------------------- */

/* A power of ten of nanoseconds, so that figures are short and a step has enough of them. */
static int64_t
tick_ns(int64_t span_ns)
{
    int64_t tick = 1;

    while ((double)span_ns / (double)tick > TICKS_MAX)
        tick *= 10;
    return tick;
}

static void
write_ops(struct mw_json_writer *json, const struct mw_page_lane *lane, const char *key,
          int64_t tick)
{
    int64_t before = 0;

    mw_json_begin(json, key, '[', true);
    for (guint i = 0; i < lane->ops->len; i++) {
        const struct mw_page_op *op = &g_array_index(lane->ops, struct mw_page_op, i);
        int64_t start = op->start_ns / tick, end = op->end_ns / tick;
        mw_json_integer(json, NULL,
                        *key == 'g'   ? start - before
                        : *key == 't' ? end - start
                        : *key == 'p' ? op->phase
                                      : (int64_t)op->name);
        before = end;
    }
    mw_json_end(json, ']');
}

/* {"tick_s", "phases": [...], "names": [...], "lanes": [{"name", and for each op "gap" since the
 * one before and "time" in ticks, "phase", "op": which name}], "curves": [{"name",
 * "most_bytes", and for each change "gap" since the one before and "level"}]} */
static void
write_trace(FILE *out, const struct mw_page_trace *trace)
{
    struct mw_json_writer json = {.out = out};
    int64_t tick = tick_ns(trace->span_ns);

    mw_json_begin(&json, NULL, '{', true);
    mw_json_number(&json, "tick_s", (double)tick / 1e9);
    mw_json_begin(&json, "phases", '[', true);
    for (int phase = 0; phase < MW_PHASE_COUNT; phase++)
        mw_json_string(&json, NULL, mw_phase_name(phase));
    mw_json_end(&json, ']');
    mw_json_begin(&json, "names", '[', true);
    for (guint i = 0; i < trace->names->len; i++)
        mw_json_string(&json, NULL, trace->names->pdata[i]);
    mw_json_end(&json, ']');
    mw_json_begin(&json, "lanes", '[', true);
    for (guint i = 0; i < trace->lanes->len; i++) {
        const struct mw_page_lane *lane = trace->lanes->pdata[i];
        mw_json_begin(&json, NULL, '{', true);
        mw_json_string(&json, "name", lane->name);
        for (const char *const *key = (const char *const[]){"gap", "time", "phase", "op", NULL};
             *key; key++)
            write_ops(&json, lane, *key, tick);
        mw_json_end(&json, '}');
    }
    mw_json_end(&json, ']');
    mw_json_begin(&json, "curves", '[', true);
    for (guint i = 0; i < trace->curves->len; i++)
        mw_page_curve_write(&json, trace->curves->pdata[i], tick);
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}

/* Compressed, as ops are alike; the browser's DecompressionStream reads it. */
static bool
append_compressed(GString *page, const char *text, size_t length, GError **error)
{
    g_autoptr(GZlibCompressor) zlib = g_zlib_compressor_new(G_ZLIB_COMPRESSOR_FORMAT_ZLIB, 9);
    g_autoptr(GOutputStream) memory = g_memory_output_stream_new_resizable();
    g_autoptr(GOutputStream) stream = g_converter_output_stream_new(memory, G_CONVERTER(zlib));

    if (!g_output_stream_write_all(stream, text, length, NULL, NULL, error) ||
        !g_output_stream_close(stream, NULL, error))
        return false;
    GMemoryOutputStream *bytes = G_MEMORY_OUTPUT_STREAM(memory);
    g_autofree char *base64 = g_base64_encode(g_memory_output_stream_get_data(bytes),
                                              g_memory_output_stream_get_data_size(bytes));
    g_string_append(page, base64);
    return true;
}

static bool
put_ops(GString *page, const struct mw_page_trace *trace, GError **error)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return mw_fail(error, MW_ERROR_IO, "a timeline: no memory");
    write_trace(out, trace);
    fclose(out);
    mw_html_put(page, "<script type=\"application/zlib\" class=\"ops\">");
    bool good = append_compressed(page, text, length, error);
    mw_html_put(page, "</script>\n");
    free(text);
    return good;
}

/* --- the section ------------------------------------------------------------------------------ */

static void
put_key(GString *page, const struct mw_page_trace *trace)
{
    bool seen[MW_PHASE_COUNT] = {false};

    for (guint row = 0; row < trace->lanes->len; row++) {
        const GArray *ops = ((struct mw_page_lane *)trace->lanes->pdata[row])->ops;
        for (guint i = 0; i < ops->len; i++)
            seen[g_array_index(ops, struct mw_page_op, i).phase] = true;
    }
    mw_html_put(page, "<ul class=\"key\">");
    for (int phase = 0; phase < MW_PHASE_COUNT; phase++)
        if (seen[phase])
            mw_html_put(page, "<li><span class=\"swatch %s\"></span>%s</li>", mw_phase_name(phase),
                        mw_phase_name(phase));
    mw_html_put(page, "</ul>\n");
}

static void
put_axis(GString *page, const struct mw_page_trace *trace)
{
    mw_html_put(page, "<ol class=\"axis\">");
    for (int i = 0; i <= 4; i++)
        mw_html_put(page, "<li>%s</li>", mw_format_seconds((double)trace->span_ns / 4e9 * i));
    mw_html_put(page, "</ol>\n");
}

static bool
put_trace(struct mw_page *page, const struct mw_page_trace *trace, GError **error)
{
    JsonObject *of = trace->origin ? json_node_get_object(trace->origin) : NULL;
    const char *model = mw_value_text(of, "model"), *machine = mw_value_text(of, "hardware");
    const char *strategy = mw_value_text(of, "strategy");
    g_autofree char *title = g_strdup_printf(
        "What runs when: %s on %s%s%s", model ? model : "a plan", machine ? machine : "a machine",
        strategy ? ", " : "", strategy ? strategy : "");

    mw_html_put(page->out, "<figure class=\"timeline\"><figcaption>%s</figcaption>\n", title);
    put_key(page->out, trace);
    mw_html_put(page->out, "<div class=\"lanes\"><ul class=\"names\">\n");
    for (guint row = 0; row < trace->lanes->len; row++)
        mw_html_put(page->out, "<li>%s</li>\n",
                    ((struct mw_page_lane *)trace->lanes->pdata[row])->name);
    for (guint i = 0; i < trace->curves->len; i++) {
        const struct mw_page_curve *curve = trace->curves->pdata[i];
        mw_html_put(page->out, "<li class=\"tall\">%s<br><small>at most %s</small></li>\n",
                    curve->name, mw_format_gib((double)curve->most_bytes));
    }
    mw_html_put(page->out, "</ul><div class=\"track\">\n");
    put_picture(page->out, trace, title);
    mw_html_put(page->out, "</div>\n");
    put_axis(page->out, trace);
    mw_html_put(page->out, "</div>\n");
    bool good = put_ops(page->out, trace, error);
    mw_html_put(page->out, "</figure>\n");
    return good;
}

/* What lanes, channels and phases of an answer do. */
static void
put_lanes(GString *page, const struct mw_page_answer *answer)
{
    static const struct mw_html_column lanes[] = {
        {"name", "Lane", false},
        {"busy_s", "Busy", true},
        {"exposed_s", "of it, compute waits", true},
    };
    static const struct mw_html_column channels[] = {{"name", "Channel", false},
                                                     {"busy_s", "Busy", true}};
    static const struct mw_html_column phases[] = {
        {"name", "Phase", false}, {"start_s", "from", false}, {"end_s", "to", false}};
    g_autofree char *subject = mw_page_subject(answer);

    if (!mw_value_is(answer->it, "simulated"))
        return;
    mw_html_put(page, "<h3>%s</h3>\n<div class=\"beside\">\n", subject);
    mw_html_table_at(page, answer->it, "lanes", "Lanes", lanes, G_N_ELEMENTS(lanes));
    mw_html_table_at(page, answer->it, "channels", "Channels", channels, G_N_ELEMENTS(channels));
    mw_html_table_at(page, answer->it, "phases", "Phases", phases, G_N_ELEMENTS(phases));
    mw_html_put(page, "</div>\n");
}

bool
mw_page_timeline(struct mw_page *page, GError **error)
{
    bool good = true;

    for (guint i = 0; i < page->inputs->len && good; i++) {
        const struct mw_page_input *input = page->inputs->pdata[i];
        if (input->trace)
            good = put_trace(page, input->trace, error);
    }
    for (guint i = 0; i < page->answers->len; i++)
        put_lanes(page->out, page->answers->pdata[i]);
    return good;
}
