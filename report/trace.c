#include <inttypes.h>

#include "base/json_writer.h"
#include "base/schemas.h"
#include "base/whole_file.h"
#include "report/memory_curve.h"
#include "report/report.h"
#include "report/run.h"
#include "study/lanes.h"

/* A timeline of the trace, and its processes: `name` precedes the rank's name; NULL if there is
 * only one timeline. */
struct part {
    const struct mw_plan *plan;
    const struct mw_timeline *timeline;
    uint32_t first_pid;
    const char *name;
    int rank; /* the rank that measured it; -1: the plan's ranks */
};

/* The format counts microseconds, the plan nanoseconds. */
static void
write_time(struct mw_json_writer *json, const char *key, int64_t ns)
{
    char text[40];

    g_snprintf(text, sizeof text, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
    mw_json_raw(json, key, text);
}

static void
write_name(struct mw_json_writer *json, const char *what, uint32_t pid, int64_t tid,
           const char *name)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "ph", "M");
    mw_json_string(json, "name", what);
    mw_json_integer(json, "pid", pid);
    mw_json_integer(json, "tid", tid);
    mw_json_begin(json, "args", '{', true);
    mw_json_string(json, "name", name);
    mw_json_end(json, '}');
    mw_json_end(json, '}');
}

static void
write_sort_index(struct mw_json_writer *json, uint32_t pid, int64_t tid)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "ph", "M");
    mw_json_string(json, "name", "thread_sort_index");
    mw_json_integer(json, "pid", pid);
    mw_json_integer(json, "tid", tid);
    mw_json_begin(json, "args", '{', true);
    mw_json_integer(json, "sort_index", tid);
    mw_json_end(json, '}');
    mw_json_end(json, '}');
}

static void
write_args(struct mw_json_writer *json, const struct mw_span *span, const struct mw_op *op,
           const struct mw_work *work)
{
    mw_json_begin(json, "args", '{', true);
    mw_json_integer(json, "op", span->op);
    mw_json_string(json, "phase", mw_phase_name(op->phase));
    mw_json_integer(json, "micro_batch", op->micro_batch);
    mw_json_integer(json, "layer", op->layer);
    mw_json_string(json, "operator", mw_work_name(work));
    mw_json_string(json, "object", mw_object_name(work->object));
    mw_json_integer(json, "tile", op->tile);
    mw_json_integer(json, "shard", op->shard);
    mw_json_integer(json, "bytes", work->bytes);
    mw_json_integer(json, "flops", work->flops);
    if (span->times > 1)
        mw_json_integer(json, "times", span->times);
    mw_json_end(json, '}');
}

static void
write_op(struct mw_json_writer *json, const struct part *part, const struct mw_span *span,
         int64_t tid)
{
    const struct mw_plan *plan = part->plan;
    /* The same text as where the sections are unfolded. */
    const struct mw_op op =
        mw_plan_op_at(plan, (struct mw_op_place){span->op, {span->round[0], span->round[1]}});
    const struct mw_work *work = &plan->works[op.work];
    g_autofree char *name = mw_op_title(plan, &op);

    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "ph", "X");
    mw_json_string(json, "name", name);
    mw_json_string(json, "cat", mw_op_kind_name(work->kind));
    mw_json_integer(json, "pid", part->first_pid + plan->lanes[span->lane].program);
    mw_json_integer(json, "tid", tid);
    write_time(json, "ts", span->start_ns);
    write_time(json, "dur", span->end_ns - span->start_ns);
    write_args(json, span, &op, work);
    mw_json_end(json, '}');
}

/* The first row that is free at the start of `span`, or a new one. */
static guint
find_row(GArray *row_end_ns, const struct mw_span *span)
{
    guint row = 0;

    while (row < row_end_ns->len && g_array_index(row_end_ns, int64_t, row) > span->start_ns)
        row++;
    if (row == row_end_ns->len)
        g_array_append_val(row_end_ns, span->end_ns);
    else
        g_array_index(row_end_ns, int64_t, row) = span->end_ns;
    return row;
}

static void
write_row(struct mw_json_writer *json, uint32_t pid, int64_t tid, const char *title, guint row)
{
    g_autofree char *name = row ? g_strdup_printf("%s (%u)", title, row + 1) : g_strdup(title);

    write_name(json, "thread_name", pid, tid, name);
    write_sort_index(json, pid, tid);
}

/* Slices of one track may not overlap, so ops in flight together get rows, and thread ids, of their
 * own.  Returns the last id in use. */
static int64_t
write_lane(struct mw_json_writer *json, const struct part *part, const struct mw_spans *spans,
           uint32_t lane, int64_t last_tid)
{
    g_autofree char *title = mw_lane_title(&part->plan->lanes[lane]);
    uint32_t pid = part->first_pid + part->plan->lanes[lane].program;
    GArray *row_end_ns = g_array_new(FALSE, FALSE, sizeof(int64_t));
    size_t count;
    const struct mw_span *span = mw_lane_spans_of(spans, lane, &count);

    for (size_t i = 0; i < count; i++) {
        guint rows = row_end_ns->len, row = find_row(row_end_ns, &span[i]);
        if (row == rows)
            write_row(json, pid, last_tid + 1 + row, title, row);
        write_op(json, part, &span[i], last_tid + 1 + row);
    }
    last_tid += row_end_ns->len;
    g_array_free(row_end_ns, TRUE);
    return last_tid;
}

static void
write_counter(struct mw_json_writer *json, uint32_t pid, const char *name, int64_t time_ns,
              int64_t bytes)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "ph", "C");
    mw_json_string(json, "name", name);
    mw_json_integer(json, "pid", pid);
    write_time(json, "ts", time_ns);
    mw_json_begin(json, "args", '{', true);
    mw_json_integer(json, "bytes", bytes);
    mw_json_end(json, '}');
    mw_json_end(json, '}');
}

/* A track for every tier that the purpose uses: "gpu memory: activations". */
static void
write_purpose(struct mw_json_writer *json, const struct part *part,
              const struct mw_memory_lives *lives, uint32_t rank, enum mw_purpose purpose)
{
    struct mw_memory_curve curve = mw_memory_curve_find(part->plan, lives, purpose);
    const char *what = purpose == MW_PURPOSE_COUNT ? "in use" : mw_purpose_name(purpose);

    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        g_autofree char *name = g_strdup_printf("%s memory: %s", mw_tier_name(tier), what);
        int64_t last = 0;
        bool used = false;
        for (size_t i = 0; i < curve.count; i++)
            used = used || curve.point[i].bytes[tier] > 0;
        for (size_t i = 0; used && i < curve.count; i++) {
            int64_t bytes = curve.point[i].bytes[tier];
            if (i == 0 || bytes != last)
                write_counter(json, part->first_pid + rank, name, curve.point[i].time_ns, bytes);
            last = bytes;
        }
    }
    mw_memory_curve_clear(&curve);
}

static void
write_process(struct mw_json_writer *json, const struct part *part, uint32_t program)
{
    const struct mw_members *ranks = &part->plan->programs[program].ranks;
    uint32_t alike = mw_members_count(ranks);
    g_autofree char *name = part->rank >= 0 ? g_strdup_printf("rank %d", (int)part->rank)
                            : alike > 1
                                ? g_strdup_printf("rank %u (of %u alike)", ranks->base, alike)
                                : g_strdup_printf("rank %u", ranks->base);
    g_autofree char *full =
        part->name ? g_strdup_printf("%s: %s", part->name, name) : g_strdup(name);

    write_name(json, "process_name", part->first_pid + program, 0, full);
}

/* Returns the last thread id in use. */
static int64_t
write_part(struct mw_json_writer *json, const struct part *part, int64_t last_tid)
{
    const struct mw_plan *plan = part->plan;
    struct mw_spans spans = mw_lane_spans_find(plan, part->timeline, MW_NONE);

    for (uint32_t i = 0; i < plan->program_count; i++)
        write_process(json, part, i);
    for (uint32_t i = 0; i < plan->lane_count; i++)
        last_tid = write_lane(json, part, &spans, i, last_tid);
    for (uint32_t i = 0; i < plan->program_count; i++) {
        struct mw_memory_lives lives = mw_memory_lives_find(plan, part->timeline, i);
        for (int purpose = MW_PURPOSE_COUNT; purpose >= 0; purpose--)
            write_purpose(json, part, &lives, i, (enum mw_purpose)purpose);
        mw_memory_lives_clear(&lives);
    }
    mw_lane_spans_clear(&spans);
    return last_tid;
}

static void
write_origin(struct mw_json_writer *json, const struct mw_result *result)
{
    mw_json_begin(json, "otherData", '{', true);
    mw_json_string(json, "model", result->model);
    mw_json_string(json, "hardware", result->hardware);
    mw_json_string(json, "strategy", result->strategy);
    mw_json_string(json, "provenance", result->provenance);
    mw_json_string(json, "plan", result->plan->title);
    mw_json_end(json, '}');
}

static bool
write_parts(const char *path, const struct mw_result *result, const struct part *parts,
            uint32_t count, GError **error)
{
    struct mw_json_writer json = {0};
    struct mw_file *file;
    int64_t last_tid = 0;

    if (!mw_lane_has_timeline(result, path, error) || !(file = mw_file_open(path, error)))
        return false;
    json.out = file->stream;
    mw_json_begin_answer(&json, MW_SCHEMA_TRACE);
    mw_json_string(&json, "displayTimeUnit", "ms");
    write_origin(&json, result);
    mw_json_begin(&json, "traceEvents", '[', false);
    for (uint32_t i = 0; i < count; i++)
        last_tid = write_part(&json, &parts[i], last_tid);
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
    return mw_file_commit(file, error);
}

bool
mw_trace_write(const char *path, const struct mw_result *result, GError **error)
{
    const struct part part = {result->plan, result->timeline, 0, NULL, -1};

    return write_parts(path, result, &part, 1, error);
}

bool
mw_trace_run_write(const char *path, const struct mw_run *run, GError **error)
{
    const struct mw_result *r = run->predicted;
    const struct mw_measured *measured = run->measured;
    uint32_t pid = r->plan->program_count, count = 2 + measured->rank_count;
    g_autofree struct part *parts = g_new(struct part, count);

    parts[0] = (struct part){r->plan, r->timeline, 0, "predicted", -1};
    parts[1] = (struct part){r->plan, &mw_measured_typical(measured)->timeline, pid, "measured", 0};
    for (uint32_t i = 0; i < measured->rank_count; i++)
        parts[2 + i] = (struct part){r->plan, &measured->ranks[i].timeline, pid + 1 + i, "measured",
                                     (int)i + 1};
    return write_parts(path, r, parts, count, error);
}
