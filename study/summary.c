#include <glib.h>
#include <stdlib.h>

#include "study/lanes.h"
#include "study/stages.h"

struct interval {
    int64_t start_ns, end_ns;
};

static int
compare_intervals(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static bool
in_order(const GArray *intervals)
{
    const struct interval *all = (const struct interval *)intervals->data;

    for (guint i = 1; i < intervals->len; i++)
        if (all[i].start_ns < all[i - 1].start_ns)
            return false;
    return true;
}

/* Sorts and merges in place, so that the intervals are disjoint. */
static void
merge_intervals(GArray *intervals)
{
    struct interval *all = (struct interval *)intervals->data;
    guint kept = 0;

    if (!in_order(intervals))
        g_array_sort(intervals, compare_intervals);
    for (guint i = 0; i < intervals->len; i++) {
        if (kept && all[i].start_ns <= all[kept - 1].end_ns)
            all[kept - 1].end_ns = MAX(all[kept - 1].end_ns, all[i].end_ns);
        else
            all[kept++] = all[i];
    }
    g_array_set_size(intervals, kept);
}

/* Appends the times of one lane's ops. */
static void
append_lane(GArray *intervals, const struct mw_spans *spans, uint32_t lane)
{
    size_t count;
    const struct mw_span *span = mw_lane_spans_of(spans, lane, &count);

    for (size_t i = 0; i < count; i++) {
        struct interval interval = {span[i].start_ns, span[i].end_ns};
        g_array_append_val(intervals, interval);
    }
}

static int64_t
total_ns(const GArray *intervals)
{
    int64_t total = 0;

    for (guint i = 0; i < intervals->len; i++) {
        const struct interval *interval = &g_array_index(intervals, struct interval, i);
        total += interval->end_ns - interval->start_ns;
    }
    return total;
}

/* The time that two sets of disjoint intervals have in common. */
static int64_t
common_ns(const GArray *a, const GArray *b)
{
    int64_t common = 0;
    guint i = 0, j = 0;

    while (i < a->len && j < b->len) {
        const struct interval *x = &g_array_index(a, struct interval, i);
        const struct interval *y = &g_array_index(b, struct interval, j);
        common += MAX(MIN(x->end_ns, y->end_ns) - MAX(x->start_ns, y->start_ns), 0);
        if (x->end_ns < y->end_ns)
            i++;
        else
            j++;
    }
    return common;
}

/* The times at which the compute lanes of the first program have an op. */
static GArray *
compute_time(const struct mw_plan *plan, const struct mw_spans *spans)
{
    GArray *intervals = g_array_new(FALSE, FALSE, sizeof(struct interval));

    for (uint32_t i = 0; i < plan->lane_count; i++)
        if (plan->lanes[i].program == 0 && plan->lanes[i].kind == MW_LANE_COMPUTE)
            append_lane(intervals, spans, i);
    merge_intervals(intervals);
    return intervals;
}

/* Time of skipped rounds: each op counts as often as it ran; a lane runs one at a time. */
static int64_t
skipped_ns_of(const struct mw_spans *spans, uint32_t lane, const GArray *compute,
              int64_t *exposed_ns)
{
    size_t count, first = 0;
    const struct mw_span *span = mw_lane_spans_of(spans, lane, &count);
    int64_t busy_ns = 0;

    for (size_t i = 0; i < count; i++) {
        struct interval interval = {span[i].start_ns, span[i].end_ns};
        int64_t length_ns = interval.end_ns - interval.start_ns, common = 0;
        if (span[i].times == 1)
            continue;
        while (first < compute->len &&
               g_array_index(compute, struct interval, first).end_ns <= interval.start_ns)
            first++;
        for (size_t c = first; c < compute->len; c++) {
            const struct interval *other = &g_array_index(compute, struct interval, c);
            if (other->start_ns >= interval.end_ns)
                break;
            common += MIN(other->end_ns, interval.end_ns) - MAX(other->start_ns, interval.start_ns);
        }
        busy_ns += (span[i].times - 1) * length_ns;
        *exposed_ns += (span[i].times - 1) * (length_ns - common);
    }
    return busy_ns;
}

static struct mw_result_lane
summarize_lane(const struct mw_plan *plan, const struct mw_spans *spans, uint32_t lane,
               const GArray *compute)
{
    GArray *busy = g_array_new(FALSE, FALSE, sizeof(struct interval));
    struct mw_result_lane summary = {.name = mw_lane_title(&plan->lanes[lane])};
    int64_t busy_ns;

    append_lane(busy, spans, lane);
    merge_intervals(busy);
    busy_ns = total_ns(busy);
    int64_t exposed_ns = busy_ns - common_ns(busy, compute);
    busy_ns += skipped_ns_of(spans, lane, compute, &exposed_ns);
    summary.busy_s = busy_ns * 1e-9;
    summary.exposed_s = exposed_ns * 1e-9;
    g_array_free(busy, TRUE);
    return summary;
}

static void
fill_lanes(const struct mw_plan *plan, const struct mw_spans *spans, struct mw_result *result)
{
    GArray *compute = compute_time(plan, spans);
    GArray *lanes = g_array_new(FALSE, FALSE, sizeof(struct mw_result_lane));

    for (uint32_t i = 0; i < plan->lane_count; i++) {
        struct mw_result_lane lane;
        if (plan->lanes[i].program != 0)
            continue;
        lane = summarize_lane(plan, spans, i, compute);
        g_array_append_val(lanes, lane);
    }
    g_array_free(compute, TRUE);
    for (size_t i = 0; i < result->lane_count; i++)
        g_free(result->lanes[i].name);
    g_free(result->lanes);
    result->lane_count = lanes->len;
    result->lanes = (struct mw_result_lane *)g_array_free(lanes, FALSE);
}

/* Forward ends with its last compute; backward with the last op of backward or recompute. */
static bool
is_last_of(const struct mw_plan *plan, const struct mw_op *op, bool forward)
{
    return forward ? op->phase == MW_PHASE_FORWARD && plan->works[op->work].kind == MW_OP_COMPUTE
                   : op->phase == MW_PHASE_BACKWARD || op->phase == MW_PHASE_RECOMPUTE;
}

static void
fill_phases(const struct mw_plan *plan, const struct mw_timeline *timeline, int64_t begin_ns,
            struct mw_result *result)
{
    const char *names[] = {"forward", "backward", "optimizer"};
    int64_t ends[] = {0, 0, 0};
    int64_t start = 0;
    bool several = false;

    for (size_t i = 0; i < timeline->row_count; i++) {
        const struct mw_timeline_row *row = &timeline->rows[i];
        const struct mw_op *op = &plan->ops[row->op];
        int64_t end_ns = row->end_ns - begin_ns + row->skipped_ns;
        several = several || op->micro_batch > 0;
        for (int forward = 0; forward < 2; forward++)
            if (end_ns > ends[!forward] && is_last_of(plan, op, forward))
                ends[!forward] = end_ns;
        ends[2] = MAX(ends[2], end_ns);
    }
    if (several) { /* forward and backward take turns */
        ends[0] = 0;
        names[1] = "passes";
    }
    for (size_t i = 0; i < result->phase_count; i++)
        g_free(result->phases[i].name);
    g_free(result->phases);
    result->phases = g_new0(struct mw_result_phase, G_N_ELEMENTS(names));
    result->phase_count = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (ends[i] <= start)
            continue;
        result->phases[result->phase_count++] =
            (struct mw_result_phase){g_strdup(names[i]), start * 1e-9, ends[i] * 1e-9};
        start = ends[i];
    }
}

void
mw_summary_lanes(const struct mw_plan *plan, const struct mw_timeline *timeline,
                 struct mw_result *result)
{
    struct mw_spans spans = mw_lane_spans_find(plan, timeline, 0);

    fill_lanes(plan, &spans, result);
    fill_phases(plan, timeline, spans.begin_ns, result);
    mw_result_set_stage_times(plan, timeline, result);
    mw_lane_spans_clear(&spans);
}
