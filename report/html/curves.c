/* Memory in use over a step: below the lanes of its timeline. */
#include <math.h>

#include "base/format.h"
#include "report/html/internal.h"

/* The most that is in use within each unit across; g_free it. */
static double *
columns_of(const struct mw_page_curve *curve, int64_t span_ns, guint wide)
{
    double *columns = g_new0(double, wide);

    for (guint i = 0; i < curve->points->len; i++) {
        const struct mw_page_point *point = &g_array_index(curve->points, struct mw_page_point, i);
        int64_t end_ns = i + 1 < curve->points->len ? point[1].time_ns : span_ns;
        double scale = wide / (double)MAX(span_ns, 1);
        guint from = (guint)CLAMP((double)point->time_ns * scale, 0, wide - 1);
        guint to = (guint)CLAMP((double)end_ns * scale, 0, wide - 1);
        for (guint x = from; x <= to; x++)
            columns[x] = fmax(columns[x], (double)point->bytes);
    }
    return columns;
}

void
mw_page_curve_put(GString *page, const struct mw_page_curve *curve, int64_t span_ns, guint wide,
                  guint top)
{
    g_autofree double *columns = columns_of(curve, span_ns, wide);
    const int base = (int)top + MW_PAGE_CURVE_PX - 1, room = MW_PAGE_CURVE_PX - 6;
    int last = 0;

    g_string_append_printf(page, "<path class=\"memory\" d=\"M0 %d", base);
    for (guint x = 0; x < wide; x++) {
        int up = (int)lround(room * columns[x] / (double)curve->most_bytes);
        if (up != last)
            g_string_append_printf(page, "H%uV%d", x, base - up);
        last = up;
    }
    g_string_append_printf(page, "H%uV%dz\"/>\n", wide, base);
}

void
mw_page_curve_write(struct mw_json_writer *json, const struct mw_page_curve *curve, int64_t tick_ns)
{
    int64_t before = 0;

    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "name", curve->name);
    mw_json_integer(json, "most_bytes", curve->most_bytes);
    mw_json_begin(json, "gap", '[', true);
    for (guint i = 0; i < curve->points->len; i++) {
        int64_t at = g_array_index(curve->points, struct mw_page_point, i).time_ns / tick_ns;
        mw_json_integer(json, NULL, at - before);
        before = at;
    }
    mw_json_end(json, ']');
    mw_json_begin(json, "level", '[', true);
    for (guint i = 0; i < curve->points->len; i++) {
        int64_t bytes = g_array_index(curve->points, struct mw_page_point, i).bytes;
        mw_json_integer(json, NULL,
                        llround(MW_PAGE_LEVELS * (double)bytes / (double)curve->most_bytes));
    }
    mw_json_end(json, ']');
    mw_json_end(json, '}');
}
