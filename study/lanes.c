#include "study/lanes.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"

static int
compare_spans(const void *a, const void *b)
{
    const struct mw_span *x = a, *y = b;

    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static int64_t
first_start(const struct mw_timeline *timeline)
{
    int64_t first = timeline->row_count ? INT64_MAX : 0;

    for (size_t i = 0; i < timeline->row_count; i++)
        first = MIN(first, timeline->rows[i].start_ns);
    return first;
}

static bool
in_order(const struct mw_spans *spans)
{
    for (size_t i = 1; i < spans->count; i++)
        if (compare_spans(&spans->span[i - 1], &spans->span[i]) > 0)
            return false;
    return true;
}

static bool
is_of(const struct mw_plan *plan, uint32_t lane, uint32_t program)
{
    return program == MW_NONE || plan->lanes[lane].program == program;
}

/* Sorts rows by lane, each lane's in the order of its ops; first[lane] is where the lane begins,
 * and the last entry where all end. */
static size_t *
find_places(const struct mw_plan *plan, const struct mw_timeline *timeline, uint32_t program)
{
    size_t *first = g_new0(size_t, plan->lane_count + 1);

    for (size_t i = 0; i < timeline->row_count; i++)
        first[plan->ops[timeline->rows[i].op].lane + 1]++;
    for (uint32_t l = 0; l < plan->lane_count; l++)
        first[l + 1] = first[l] + (is_of(plan, l, program) ? first[l + 1] : 0);
    return first;
}

/* A lane starts its ops in order, so a timeline that obeys the rule is sorted already. */
struct mw_spans
mw_lane_spans_find(const struct mw_plan *plan, const struct mw_timeline *timeline, uint32_t program)
{
    g_autofree size_t *place = find_places(plan, timeline, program);
    size_t count = place[plan->lane_count];
    struct mw_spans spans = {.span = g_new(struct mw_span, count + 1), .count = count};
    int64_t begin_ns = spans.begin_ns = first_start(timeline);

    for (size_t i = 0; i < timeline->row_count; i++) {
        const struct mw_timeline_row *row = &timeline->rows[i];
        uint32_t lane = plan->ops[row->op].lane;
        spans.span_ns = MAX(spans.span_ns, row->end_ns - begin_ns);
        if (!is_of(plan, lane, program))
            continue;
        struct mw_span *span = &spans.span[place[lane]++];
        *span = (struct mw_span){.lane = lane,
                                 .op = row->op,
                                 .round = {row->round[0], row->round[1]},
                                 .start_ns = row->start_ns - begin_ns,
                                 .end_ns = row->end_ns - begin_ns,
                                 .times = 1 + (int64_t)row->more,
                                 .skipped_ns = row->skipped_ns};
    }
    if (!in_order(&spans))
        qsort(spans.span, spans.count, sizeof *spans.span, compare_spans);
    return spans;
}

void
mw_lane_spans_clear(struct mw_spans *spans)
{
    g_free(spans->span);
    *spans = (struct mw_spans){0};
}

/* The index of the first span whose lane is not below `lane`. */
static size_t
lower_bound(const struct mw_spans *spans, uint32_t lane)
{
    size_t low = 0, high = spans->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->span[middle].lane < lane)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct mw_span *
mw_lane_spans_of(const struct mw_spans *spans, uint32_t lane, size_t *count)
{
    size_t first = lower_bound(spans, lane);

    *count = lower_bound(spans, lane + 1) - first;
    return spans->span + first;
}

char *
mw_lane_title(const struct mw_lane *lane)
{
    const char *kind = mw_lane_kind_name(lane->kind);

    return lane->index ? g_strdup_printf("%s-%d", kind, lane->index) : g_strdup(kind);
}

bool
mw_lane_computes(const char *title)
{
    return g_str_has_prefix(title, mw_lane_kind_name(MW_LANE_COMPUTE));
}

char *
mw_op_title(const struct mw_plan *plan, const struct mw_op *op)
{
    static const char *const phases[MW_PHASE_COUNT] = {
        [MW_PHASE_FORWARD] = "fwd",   [MW_PHASE_RECOMPUTE] = "rec", [MW_PHASE_BACKWARD] = "bwd",
        [MW_PHASE_OPTIMIZER] = "opt", [MW_PHASE_COMMIT] = "commit",
    };
    const struct mw_work *work = &plan->works[op->work];
    GString *name = g_string_new(work->object == MW_OBJECT_NONE ? mw_op_kind_name(work->kind)
                                                                : mw_work_name(work));

    g_string_append_printf(name, " %s", phases[op->phase]);
    if (op->layer >= 0)
        g_string_append_printf(name, " L%" PRId32, op->layer);
    if (op->micro_batch)
        g_string_append_printf(name, " mb%d", op->micro_batch);
    if (op->tile)
        g_string_append_printf(name, " t%d", op->tile);
    if (op->shard)
        g_string_append_printf(name, " s%" PRIu32, op->shard);
    return g_string_free(name, FALSE);
}

bool
mw_lane_has_timeline(const struct mw_result *result, const char *path, GError **error)
{
    if (result->plan && result->timeline && result->timeline->row_count)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "cannot write %s: the result has no timeline; simulate a plan that fits", path);
    return false;
}
