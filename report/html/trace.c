/* Reads a trace line by line, an event each, as it is written: whole in memory as JSON it would
 * take a hundred times its text. */
#include "report/html/trace.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/schemas.h"
#include "report/html/value.h"
#include "report/report.h"

#define TIME_MAX_US 1e15 /* thirty years */
#define BYTES_MAX 1e18
#define CURVES_MAX 1000
#define IN_USE ": in use" /* ends the names of what report/trace.c writes of all memory of a tier */

static const char beginning[] = "{\n  \"schema\": \"" MW_SCHEMA_TRACE "\"";

struct reading {
    struct mw_page_trace *trace;
    const char *path;
    guint line;
    GHashTable *processes; /* pid -> name */
    GHashTable *lanes;     /* "pid tid" -> lane */
    GHashTable *names;     /* name -> index + 1 */
};

bool
mw_page_is_trace(const char *text)
{
    return g_str_has_prefix(text, beginning);
}

static bool
refuse(const struct reading *reading, const char *what, GError **error)
{
    return mw_fail(error, MW_ERROR_FORMAT,
                   "%s: line %u: %s: must be a trace as memwall wrote it, an event per line",
                   reading->path, reading->line, what);
}

static void
free_lane(void *data)
{
    struct mw_page_lane *lane = data;

    g_free(lane->name);
    g_array_unref(lane->ops);
    g_free(lane);
}

static void
free_curve(void *data)
{
    struct mw_page_curve *curve = data;

    g_free(curve->name);
    g_array_unref(curve->points);
    g_free(curve);
}

/* --- events ----------------------------------------------------------------------------------- */

static struct mw_page_lane *
lane_of(struct reading *reading, JsonObject *event)
{
    double pid = mw_value_number(event, "pid"), tid = mw_value_number(event, "tid");
    g_autofree char *key = g_strdup_printf("%.0f %.0f", pid, tid);
    struct mw_page_lane *lane = g_hash_table_lookup(reading->lanes, key);

    if (lane || !isfinite(pid) || !isfinite(tid))
        return lane;
    lane = g_new0(struct mw_page_lane, 1);
    lane->pid = (int64_t)CLAMP(pid, 0, 1e9);
    lane->tid = (int64_t)CLAMP(tid, 0, 1e9);
    lane->ops = g_array_new(FALSE, FALSE, sizeof(struct mw_page_op));
    g_hash_table_insert(reading->lanes, g_steal_pointer(&key), lane);
    g_ptr_array_add(reading->trace->lanes, lane);
    return lane;
}

/* The name of a process or a lane. */
static bool
take_name(struct reading *reading, JsonObject *event, GError **error)
{
    const char *what = mw_value_text(event, "name"), *name = mw_value_text(event, "args.name");
    double pid = mw_value_number(event, "pid");

    if (!g_strcmp0(what, "process_name") && name && isfinite(pid))
        g_hash_table_insert(reading->processes, g_strdup_printf("%.0f", pid), g_strdup(name));
    if (g_strcmp0(what, "thread_name") || !name)
        return true;
    struct mw_page_lane *lane = lane_of(reading, event);
    if (!lane)
        return refuse(reading, "a lane without a number", error);
    g_free(lane->name);
    lane->name = g_strdup(name);
    return true;
}

static guint
name_of(struct reading *reading, const char *name)
{
    guint index = GPOINTER_TO_UINT(g_hash_table_lookup(reading->names, name));

    if (index)
        return index - 1;
    char *own = g_strdup(name);
    g_ptr_array_add(reading->trace->names, own);
    g_hash_table_insert(reading->names, own, GUINT_TO_POINTER(reading->trace->names->len));
    return reading->trace->names->len - 1;
}

static uint8_t
phase_of(JsonObject *event)
{
    const char *name = mw_value_text(event, "args.phase");
    int phase = 0;

    while (phase < MW_PHASE_COUNT && g_strcmp0(name, mw_phase_name(phase)))
        phase++;
    return (uint8_t)(phase < MW_PHASE_COUNT ? phase : 0);
}

static bool
take_op(struct reading *reading, JsonObject *event, GError **error)
{
    struct mw_page_trace *trace = reading->trace;
    const char *name = mw_value_text(event, "name");
    double start = mw_value_number(event, "ts"), takes = mw_value_number(event, "dur");
    struct mw_page_lane *lane = lane_of(reading, event);

    if (!name || !lane || !(start >= 0 && start < TIME_MAX_US) ||
        !(takes >= 0 && takes < TIME_MAX_US))
        return refuse(reading, "an op without name, lane or time", error);
    if (++trace->op_count > MW_PAGE_OPS_MAX)
        return refuse(reading, "more than a million ops", error);
    struct mw_page_op op = {llround(start * 1000), llround((start + takes) * 1000),
                            name_of(reading, name), phase_of(event)};
    const struct mw_page_op *last =
        lane->ops->len ? &g_array_index(lane->ops, struct mw_page_op, lane->ops->len - 1) : NULL;
    if (last && op.start_ns < last->end_ns)
        return refuse(reading, "ops of a lane overlap", error);
    g_array_append_val(lane->ops, op);
    trace->span_ns = MAX(trace->span_ns, op.end_ns);
    return true;
}

static struct mw_page_curve *
curve_of(struct reading *reading, int64_t pid, const char *name)
{
    GPtrArray *curves = reading->trace->curves;
    struct mw_page_curve *curve = NULL;

    for (guint i = 0; i < curves->len && !curve; i++) {
        struct mw_page_curve *one = curves->pdata[i];
        curve = one->pid == pid && !strcmp(one->name, name) ? one : NULL;
    }
    if (curve || curves->len == CURVES_MAX)
        return curve;
    curve = g_new0(struct mw_page_curve, 1);
    curve->pid = pid;
    curve->name = g_strdup(name);
    curve->points = g_array_new(FALSE, FALSE, sizeof(struct mw_page_point));
    g_ptr_array_add(curves, curve);
    return curve;
}

/* Of the memory of each tier all that is in use is shown, not its purposes. */
static bool
take_memory(struct reading *reading, JsonObject *event, GError **error)
{
    const char *name = mw_value_text(event, "name");
    double time = mw_value_number(event, "ts"), bytes = mw_value_number(event, "args.bytes");
    double pid = mw_value_number(event, "pid");

    if (!name || !g_str_has_suffix(name, IN_USE))
        return true;
    if (!(time >= 0 && time < TIME_MAX_US) || !(bytes >= 0 && bytes < BYTES_MAX) ||
        !(pid >= 0 && pid < 1e9))
        return refuse(reading, "memory without process, time or bytes", error);
    g_autofree char *what = g_strndup(name, strlen(name) - strlen(IN_USE));
    struct mw_page_curve *curve = curve_of(reading, (int64_t)pid, what);
    if (!curve)
        return refuse(reading, "memory of too many processes", error);
    struct mw_page_point point = {llround(time * 1000), (int64_t)bytes};
    guint count = curve->points->len;
    if (count &&
        g_array_index(curve->points, struct mw_page_point, count - 1).time_ns > point.time_ns)
        return refuse(reading, "memory goes back in time", error);
    g_array_append_val(curve->points, point);
    curve->most_bytes = MAX(curve->most_bytes, point.bytes);
    return true;
}

static bool
take_event(struct reading *reading, JsonObject *event, GError **error)
{
    const char *kind = mw_value_text(event, "ph");

    if (!g_strcmp0(kind, "M"))
        return take_name(reading, event, error);
    if (!g_strcmp0(kind, "C"))
        return take_memory(reading, event, error);
    return g_strcmp0(kind, "X") || take_op(reading, event, error);
}

/* --- lines ------------------------------------------------------------------------------------ */

/* The object on a line, without the comma after it. */
static JsonNode *
object_of(const struct reading *reading, char *line, GError **error)
{
    size_t length = strlen(line);

    if (length && line[length - 1] == ',')
        length--;
    g_autofree char *origin = g_strdup_printf("%s: event of line %u", reading->path, reading->line);
    return mw_json_parse(line, (gssize)length, origin, error);
}

/* Of the lines before the events. */
static bool
take_head(struct reading *reading, char *line, GError **error)
{
    static const char origin[] = "\"otherData\": ";

    if (!g_str_has_prefix(line, origin))
        return true;
    g_clear_pointer(&reading->trace->origin, json_node_unref);
    reading->trace->origin = object_of(reading, line + strlen(origin), error);
    return reading->trace->origin != NULL;
}

static bool
take_line(struct reading *reading, char *line, bool head, GError **error)
{
    if (head)
        return take_head(reading, line, error);
    JsonNode *event = object_of(reading, line, error);
    bool good = event && take_event(reading, json_node_get_object(event), error);

    if (event)
        json_node_unref(event);
    return good;
}

/* Of what is behind the events: the end of the object, and nothing else. */
static bool
is_end(const char *text)
{
    static const char space[] = " \t\r\n";
    const char *at = text + strspn(text, space);

    return *at == '}' && !at[1 + strspn(at + 1, space)];
}

static bool
take_lines(struct reading *reading, char *text, GError **error)
{
    enum { HEAD, EVENTS, DONE } state = HEAD;
    char *line = text;

    while (*line && state != DONE) {
        char *end = strchrnul(line, '\n'), was = *end;
        reading->line++;
        *end = '\0';
        char *from = line + strspn(line, " ");
        bool good = true;
        if (state == EVENTS && !strcmp(from, "]"))
            state = DONE;
        else if (state == HEAD && !strcmp(from, "\"traceEvents\": ["))
            state = EVENTS;
        else
            good = take_line(reading, from, state == HEAD, error);
        *end = was;
        line = end + (was != '\0');
        if (!good)
            return false;
    }
    if (state != DONE)
        return refuse(reading, "ends before its last event (cut short?)", error);
    reading->line++;
    return is_end(line) || refuse(reading, "the events' end is not that of the file", error);
}

/* "predicted: rank 0, compute": with the process where there are several.  Takes the name. */
static char *
full_name(const struct reading *reading, int64_t pid, char *name)
{
    g_autofree char *key = g_strdup_printf("%" G_GINT64_FORMAT, pid);
    const char *process = g_hash_table_lookup(reading->processes, key);

    if (!process || g_hash_table_size(reading->processes) == 1)
        return name;
    char *full = g_strdup_printf("%s, %s", process, name);
    g_free(name);
    return full;
}

/* Lanes without ops, and tiers without bytes, go. */
static void
finish(struct reading *reading)
{
    GPtrArray *lanes = reading->trace->lanes, *curves = reading->trace->curves;

    for (guint i = lanes->len; i-- > 0;) {
        struct mw_page_lane *lane = lanes->pdata[i];
        lane->name = full_name(reading, lane->pid, lane->name ? lane->name : g_strdup("lane"));
        if (!lane->ops->len)
            g_ptr_array_remove_index(lanes, i);
    }
    for (guint i = curves->len; i-- > 0;) {
        struct mw_page_curve *curve = curves->pdata[i];
        curve->name = full_name(reading, curve->pid, curve->name);
        if (!curve->most_bytes)
            g_ptr_array_remove_index(curves, i);
    }
}

struct mw_page_trace *
mw_page_trace_read(char *text, const char *path, GError **error)
{
    struct mw_page_trace *trace = g_new0(struct mw_page_trace, 1);
    struct reading reading = {
        .trace = trace,
        .path = path,
        .processes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free),
        .lanes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
        .names = g_hash_table_new(g_str_hash, g_str_equal),
    };

    trace->lanes = g_ptr_array_new_with_free_func(free_lane);
    trace->names = g_ptr_array_new_with_free_func(g_free);
    trace->curves = g_ptr_array_new_with_free_func(free_curve);
    bool good = take_lines(&reading, text, error);
    if (good)
        finish(&reading);
    if (good && !trace->op_count)
        good = refuse(&reading, "no ops", error);
    g_hash_table_unref(reading.processes);
    g_hash_table_unref(reading.lanes);
    g_hash_table_unref(reading.names);
    if (good)
        return trace;
    mw_page_trace_free(trace);
    return NULL;
}

void
mw_page_trace_free(struct mw_page_trace *trace)
{
    if (!trace)
        return;
    if (trace->origin)
        json_node_unref(trace->origin);
    g_ptr_array_unref(trace->lanes);
    g_ptr_array_unref(trace->names);
    g_ptr_array_unref(trace->curves);
    g_free(trace);
}
