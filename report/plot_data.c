#include "report/plot_data.h"

#include "base/format.h"
#include "report/memory_curve.h"
#include "study/lanes.h"

/* Half the height of a lane's box; lanes are 1 apart. */
#define HALF_HEIGHT 0.4

/* A stretch of one lane's time that belongs to one phase. */
struct segment {
    uint32_t lane;
    int phase;
    int64_t start_ns, end_ns;
};

/* Appends the part of `span` that adds to the lane's busy time; extends the previous segment if it
 * is of the same phase. */
static void
append_segment(GArray *segments, const struct mw_span *span, int phase, int64_t *covered_ns)
{
    struct segment segment = {span->lane, phase, MAX(span->start_ns, *covered_ns), span->end_ns};
    struct segment *last =
        segments->len ? &g_array_index(segments, struct segment, segments->len - 1) : NULL;

    if (segment.end_ns <= segment.start_ns)
        return;
    *covered_ns = segment.end_ns;
    if (last && last->lane == segment.lane && last->phase == phase &&
        last->end_ns == segment.start_ns)
        last->end_ns = segment.end_ns;
    else
        g_array_append_val(segments, segment);
}

/* Disjoint within a lane, in order of lane and time. */
static GArray *
find_segments(const struct mw_plan *plan, const struct mw_spans *spans)
{
    GArray *segments = g_array_new(FALSE, FALSE, sizeof(struct segment));

    for (uint32_t lane = 0; lane < plan->lane_count; lane++) {
        size_t count;
        const struct mw_span *span = mw_lane_spans_of(spans, lane, &count);
        int64_t covered_ns = 0;
        for (size_t i = 0; i < count && plan->lanes[lane].program == 0; i++)
            append_segment(segments, &span[i], plan->ops[span[i].op].phase, &covered_ns);
    }
    return segments;
}

static void
append_box(GString *rows, double start_ns, double end_ns, double low, double high)
{
    g_string_append_printf(rows, "%s %s", mw_format_exact((start_ns + end_ns) * 0.5e-9),
                           mw_format_fixed((low + high) / 2, 4));
    g_string_append_printf(rows, " %s %s %s %s\n", mw_format_exact(start_ns * 1e-9),
                           mw_format_exact(end_ns * 1e-9), mw_format_fixed(low, 4),
                           mw_format_fixed(high, 4));
}

static void
append_boxes(struct mw_plot_data *data, const GArray *segments, const double *lane_y)
{
    for (guint i = 0; i < segments->len; i++) {
        const struct segment *s = &g_array_index(segments, struct segment, i);
        double y = lane_y[s->lane];
        append_box(data->boxes[s->phase], s->start_ns, s->end_ns, y - HALF_HEIGHT, y + HALF_HEIGHT);
    }
}

typedef double busy_columns[MW_PLOT_COLUMNS][MW_PHASE_COUNT];

/* Spreads a segment's time over the columns that it touches, as shares of each column. */
static void
add_to_columns(busy_columns busy, const struct segment *segment, double column_ns)
{
    int first = (int)(segment->start_ns / column_ns);
    int last = MIN((int)(segment->end_ns / column_ns), MW_PLOT_COLUMNS - 1);

    for (int c = first; c <= last; c++) {
        double start = MAX(segment->start_ns, c * column_ns);
        double end = MIN(segment->end_ns, (c + 1) * column_ns);
        if (end > start)
            busy[c][segment->phase] += (end - start) / column_ns;
    }
}

/* Phases are stacked in a column; equal neighbours become one box. */
static void
append_bars(struct mw_plot_data *data, const busy_columns busy, double y, double column_ns)
{
    for (int c = 0, next; c < MW_PLOT_COLUMNS; c = next) {
        double low = y - HALF_HEIGHT;
        for (next = c + 1; next < MW_PLOT_COLUMNS; next++) {
            double difference = 0;
            for (int p = 0; p < MW_PHASE_COUNT; p++)
                difference = MAX(difference, ABS(busy[next][p] - busy[c][p]));
            if (difference > 1e-2)
                break;
        }
        for (int p = 0; p < MW_PHASE_COUNT; p++) {
            double height = 2 * HALF_HEIGHT * busy[c][p];
            if (height >= 1e-3)
                append_box(data->boxes[p], c * column_ns, next * column_ns, low, low + height);
            low += height;
        }
    }
}

static void
append_columns(struct mw_plot_data *data, const GArray *segments, const double *lane_y,
               int64_t span_ns)
{
    double column_ns = (double)span_ns / MW_PLOT_COLUMNS;
    double(*busy)[MW_PHASE_COUNT] = NULL;

    for (guint i = 0, next; i < segments->len; i = next) {
        uint32_t lane = g_array_index(segments, struct segment, i).lane;
        busy = g_malloc0(sizeof(busy_columns));
        for (next = i; next < segments->len; next++) {
            const struct segment *segment = &g_array_index(segments, struct segment, next);
            if (segment->lane != lane)
                break;
            add_to_columns(busy, segment, column_ns);
        }
        append_bars(data, (const double(*)[MW_PHASE_COUNT])busy, lane_y[lane], column_ns);
        g_free(busy);
    }
}

static bool
is_shown(const struct mw_plan *plan, const struct mw_spans *spans, uint32_t lane)
{
    size_t count;

    mw_lane_spans_of(spans, lane, &count);
    return plan->lanes[lane].program == 0 && count > 0;
}

/* Places the lanes of rank 0 that have ops, and labels them on the axis. */
static double *
place_lanes(struct mw_plot_data *data, const struct mw_plan *plan, const struct mw_spans *spans)
{
    double *lane_y = g_new0(double, plan->lane_count + 1);

    for (uint32_t i = 0; i < plan->lane_count; i++)
        data->lanes += is_shown(plan, spans, i);
    for (uint32_t i = 0, seen = 0; i < plan->lane_count; i++) {
        g_autofree char *title = mw_lane_title(&plan->lanes[i]);
        if (!is_shown(plan, spans, i))
            continue;
        lane_y[i] = data->lanes - ++seen;
        g_string_append_printf(data->lane_ticks, "%s'%s' %s", seen > 1 ? ", " : "", title,
                               mw_format_fixed(lane_y[i], 0));
    }
    return lane_y;
}

static void
init_lanes(struct mw_plot_data *data, const struct mw_plan *plan,
           const struct mw_timeline *timeline)
{
    struct mw_spans spans = mw_lane_spans_find(plan, timeline, MW_NONE);
    GArray *segments = find_segments(plan, &spans);
    g_autofree double *lane_y = place_lanes(data, plan, &spans);

    data->span_s = spans.span_ns * 1e-9;
    data->bars = segments->len > MW_PLOT_BOXES_MAX;
    if (data->bars)
        append_columns(data, segments, lane_y, spans.span_ns);
    else
        append_boxes(data, segments, lane_y);
    g_array_free(segments, TRUE);
    mw_lane_spans_clear(&spans);
}

/* A curve of many points keeps the maximum of each column of time, so that no peak is lost. */
static void
append_curve(struct mw_plot_data *data, const struct mw_memory_curve *curve, int tier,
             int64_t capacity_bytes, int64_t span_ns)
{
    double column_ns = (double)span_ns / (2 * MW_PLOT_COLUMNS);
    bool thin = curve->count > 2 * MW_PLOT_COLUMNS;
    int64_t previous = -1;

    for (size_t i = 0, next; i < curve->count; i = next) {
        int64_t time_ns = curve->point[i].time_ns, most = curve->point[i].bytes[tier];
        double percent;
        for (next = i + 1; thin && next < curve->count; next++) {
            if ((int)(curve->point[next].time_ns / column_ns) != (int)(time_ns / column_ns))
                break;
            most = MAX(most, curve->point[next].bytes[tier]);
        }
        if (most == previous && next < curve->count)
            continue;
        previous = most;
        percent = 100.0 * most / capacity_bytes;
        data->memory_percent_max = MAX(data->memory_percent_max, percent);
        g_string_append_printf(data->memory[tier], "%s %s\n", mw_format_exact(time_ns * 1e-9),
                               mw_format_fixed(percent, 3));
    }
}

static void
init_memory(struct mw_plot_data *data, const struct mw_plan *plan,
            const struct mw_timeline *timeline)
{
    struct mw_memory_lives lives = mw_memory_lives_find(plan, timeline, 0);
    struct mw_memory_curve curve = mw_memory_curve_find(plan, &lives, MW_PURPOSE_COUNT);

    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        bool used = false;
        for (size_t i = 0; i < curve.count && !used; i++)
            used = curve.point[i].bytes[tier] > 0;
        if (used && plan->tiers[tier].capacity_bytes > 0)
            append_curve(data, &curve, tier, plan->tiers[tier].capacity_bytes, lives.span_ns);
    }
    mw_memory_curve_clear(&curve);
    mw_memory_lives_clear(&lives);
}

void
mw_plot_data_init(struct mw_plot_data *data, const struct mw_plan *plan,
                  const struct mw_timeline *timeline)
{
    *data = (struct mw_plot_data){.lane_ticks = g_string_new(NULL)};
    for (int i = 0; i < MW_PHASE_COUNT; i++)
        data->boxes[i] = g_string_new(NULL);
    for (int i = 0; i < MW_TIER_COUNT; i++)
        data->memory[i] = g_string_new(NULL);
    init_lanes(data, plan, timeline);
    init_memory(data, plan, timeline);
}

void
mw_plot_data_clear(struct mw_plot_data *data)
{
    for (int i = 0; i < MW_PHASE_COUNT; i++)
        g_string_free(data->boxes[i], TRUE);
    for (int i = 0; i < MW_TIER_COUNT; i++)
        g_string_free(data->memory[i], TRUE);
    g_string_free(data->lane_ticks, TRUE);
}
