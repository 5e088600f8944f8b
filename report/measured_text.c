/* A measured run as text: the plan, then for every step a line per op. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/spell.h"
#include "plan/reader.h"
#include "report/measured.h"

/* --- writing ---------------------------------------------------------------------------------- */

static void
write_rows(FILE *out, const struct mw_timeline *timeline)
{
    for (size_t i = 0; i < timeline->row_count; i++)
        fprintf(out, "%zu %" PRId64 " %" PRId64 "\n", i, timeline->rows[i].start_ns,
                timeline->rows[i].end_ns);
}

static void
write_step(FILE *out, const struct mw_measured_step *step)
{
    fprintf(out, "step %" PRId64 " time %" PRId64 "\n", step->step, step->time_ns);
    write_rows(out, &step->timeline);
}

static void
write_rank(FILE *out, const struct mw_measured_rank *rank, uint32_t number)
{
    fprintf(out, "rank %" PRIu32 "\n", number);
    for (uint32_t i = 0; i < rank->lane_count; i++)
        fprintf(out, "lane busy %" PRId64 " exposed %" PRId64 "\n", rank->busy_ns[i],
                rank->exposed_ns[i]);
    write_rows(out, &rank->timeline);
}

/* `machine` as one line without control characters. */
static void
write_machine(FILE *out, const char *machine)
{
    fputs("machine ", out);
    for (const char *c = machine; *c; c++)
        fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
    fputc('\n', out);
}

bool
mw_measured_write(const struct mw_measured *measured, const struct mw_plan *plan,
                  const char *machine, FILE *out)
{
    if (!mw_plan_write(plan, out))
        return false;
    fprintf(out, "memwall-run 1\n");
    write_machine(out, machine);
    fprintf(out, "seen %" PRId64 " later %" PRIu32 "\n", measured->seen, measured->count);
    write_step(out, &measured->first);
    for (uint32_t i = 0; i < measured->count; i++)
        write_step(out, &measured->later[i]);
    if (measured->stolen)
        fprintf(out, "stolen %" PRId64 "\n", measured->stolen);
    for (uint32_t i = 0; i < measured->rank_count; i++)
        write_rank(out, &measured->ranks[i], i + 1);
    fputs("end\n", out);
    return !ferror(out);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A clock obeys the rule of plan.h: no op starts before what it waits for has ended, or before an
 * earlier op of its lane. */
static void
check_row(struct mw_plan_reader *reader, const struct mw_plan *plan,
          const struct mw_timeline_row *rows, uint32_t op, int64_t *lane_start_ns)
{
    const struct mw_op it = mw_plan_numbered_op(plan, op);
    char expected[64];

    for (uint32_t d = 0; d < it.dep_count; d++) {
        uint32_t dep = mw_plan_op_dep(plan, &it, d);
        if (dep & MW_DEP_PREVIOUS_STEP || rows[dep].end_ns <= rows[op].start_ns)
            continue;
        g_snprintf(expected, sizeof expected, "a start of op %" PRIu32 " after op %" PRIu32, op,
                   dep);
        mw_plan_reader_fail(reader, expected);
    }
    if (rows[op].start_ns < lane_start_ns[it.lane])
        mw_plan_reader_fail(reader, "ops of a lane that start in their order");
    lane_start_ns[it.lane] = rows[op].start_ns;
}

static void
check_rows(struct mw_plan_reader *reader, const struct mw_plan *plan,
           const struct mw_timeline_row *rows)
{
    g_autofree int64_t *lane_start_ns = g_new0(int64_t, plan->lane_count + 1);

    for (uint32_t op = 0; op < mw_plan_unfolded_ops(plan) && !reader->failed; op++)
        check_row(reader, plan, rows, op, lane_start_ns);
}

static void
read_row(struct mw_plan_reader *reader, const struct mw_plan *plan, uint32_t op,
         struct mw_timeline_row *row)
{
    struct mw_op_place place;
    char expected[32];

    mw_plan_reader_begin_line(reader, "a line for every op");
    if (mw_plan_reader_number(reader, NULL, UINT32_MAX) != op) {
        g_snprintf(expected, sizeof expected, "the op %" PRIu32, op);
        mw_plan_reader_fail(reader, expected);
    }
    mw_plan_find_number(plan, op, &place);
    row->op = place.op;
    memcpy(row->round, place.round, sizeof row->round);
    row->start_ns = (int64_t)mw_plan_reader_number(reader, NULL, INT64_MAX / 2);
    row->end_ns = (int64_t)mw_plan_reader_number(reader, NULL, INT64_MAX / 2);
    mw_plan_reader_end_line(reader);
    if (row->end_ns < row->start_ns)
        mw_plan_reader_fail(reader, "an end that is not before the start");
}

static struct mw_timeline
read_rows(struct mw_plan_reader *reader, const struct mw_plan *plan, int64_t step)
{
    uint32_t count = (uint32_t)mw_plan_unfolded_ops(plan);
    struct mw_timeline timeline = {g_new0(struct mw_timeline_row, count), count};

    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        read_row(reader, plan, i, &timeline.rows[i]);
        timeline.rows[i].step = (uint32_t)MIN(step, UINT32_MAX);
    }
    check_rows(reader, plan, timeline.rows);
    return timeline;
}

/* Steps must come in order. */
static void
read_step(struct mw_plan_reader *reader, const struct mw_plan *plan, int64_t least, int64_t most,
          struct mw_measured_step *step)
{
    mw_plan_reader_begin_line(reader, "a step");
    mw_plan_reader_key(reader, "step");
    step->step = (int64_t)mw_plan_reader_number(reader, NULL, (uint64_t)most);
    if (step->step < least)
        mw_plan_reader_fail(reader, "a later step");
    step->time_ns = (int64_t)mw_plan_reader_number(reader, "time", INT64_MAX / 2);
    if (!step->time_ns)
        mw_plan_reader_fail(reader, "a time above 0");
    mw_plan_reader_end_line(reader);
    step->timeline = read_rows(reader, plan, step->step);
}

static void
read_lane(struct mw_plan_reader *reader, struct mw_measured_rank *rank, uint32_t lane)
{
    mw_plan_reader_begin_line(reader, "a line for every lane");
    mw_plan_reader_key(reader, "lane");
    rank->busy_ns[lane] = (int64_t)mw_plan_reader_number(reader, "busy", INT64_MAX / 2);
    rank->exposed_ns[lane] = (int64_t)mw_plan_reader_number(reader, "exposed", INT64_MAX / 2);
    mw_plan_reader_end_line(reader);
}

/* The rest of a line that begins with the number. */
static void
read_rank(struct mw_plan_reader *reader, const struct mw_plan *plan, struct mw_measured *measured)
{
    struct mw_measured_rank rank = {.lane_count = plan->lane_count};
    char expected[32];

    if (mw_plan_reader_number(reader, "rank", UINT32_MAX) != measured->rank_count + 1) {
        g_snprintf(expected, sizeof expected, "the rank %" PRIu32, measured->rank_count + 1);
        mw_plan_reader_fail(reader, expected);
    }
    mw_plan_reader_end_line(reader);
    rank.busy_ns = g_new0(int64_t, plan->lane_count + 1);
    rank.exposed_ns = g_new0(int64_t, plan->lane_count + 1);
    for (uint32_t i = 0; i < plan->lane_count && !reader->failed; i++)
        read_lane(reader, &rank, i);
    rank.timeline = read_rows(reader, plan, mw_measured_typical(measured)->step);
    mw_measured_add_rank(measured, &rank);
}

static void
read_steps(struct mw_plan_reader *reader, const struct mw_plan *plan, struct mw_measured *measured)
{
    uint32_t later;
    int64_t last = 0;

    mw_plan_reader_begin_line(reader, "'seen'");
    measured->seen = (int64_t)mw_plan_reader_number(reader, "seen", INT64_MAX / 2);
    if (!measured->seen)
        mw_plan_reader_fail(reader, "at least one step");
    later = (uint32_t)mw_plan_reader_number(reader, "later", MW_MEASURED_STEPS_MAX);
    mw_plan_reader_end_line(reader);
    if (reader->failed)
        return;
    read_step(reader, plan, 0, 0, &measured->first);
    while (measured->count < later && !reader->failed) {
        struct mw_measured_step *step = &measured->later[measured->count++];
        read_step(reader, plan, last + 1, measured->seen - 1, step);
        last = step->step;
    }
}

static void
read_run(struct mw_plan_reader *reader, const struct mw_plan *plan, struct mw_measured *measured,
         char **machine)
{
    mw_plan_reader_begin_line(reader, "'memwall-run 1'");
    mw_plan_reader_key(reader, "memwall-run");
    mw_plan_reader_key(reader, "1");
    mw_plan_reader_end_line(reader);
    mw_plan_reader_begin_line(reader, "'machine'");
    mw_plan_reader_key(reader, "machine");
    if (!reader->failed)
        *machine = g_utf8_make_valid(reader->rest, -1);
    read_steps(reader, plan, measured);
    mw_plan_reader_begin_line(reader, "'end'");
    if (!reader->failed && mw_plan_reader_sees(reader, "stolen")) {
        measured->stolen =
            (int64_t)mw_plan_reader_number(reader, "stolen", (uint64_t)MAX(measured->seen - 1, 0));
        mw_plan_reader_end_line(reader);
        mw_plan_reader_begin_line(reader, "'end'");
    }
    while (!reader->failed && mw_plan_reader_sees(reader, "rank")) {
        read_rank(reader, plan, measured);
        mw_plan_reader_begin_line(reader, "'end'");
    }
    mw_plan_reader_key(reader, "end");
    mw_plan_reader_end_line(reader);
    if (mw_plan_reader_next_line(reader))
        mw_plan_reader_fail(reader, "nothing after 'end'");
}

/* Length of the plan's text, up to and including its line "end"; all bytes if there is none. */
static size_t
plan_length(const char *text, size_t length)
{
    static const char mark[] = "\nend\n";
    const char *found = memmem(text, length, mark, strlen(mark));

    return found ? (size_t)(found - text) + strlen(mark) : length;
}

/* NULL if there are no bytes. */
static FILE *
open_text(const char *text, size_t length)
{
    return length ? fmemopen((char *)text, length, "r") : NULL;
}

static struct mw_plan *
parse_plan(const char *text, size_t length, char *why, size_t why_size)
{
    struct mw_plan *plan = mw_plan_parse(text, length, why, why_size);

    if (!plan || plan->program_count == 1)
        return plan;
    g_strlcpy(why, "is of several ranks' programs; a process runs one", why_size);
    mw_plan_free(plan);
    return NULL;
}

static unsigned long
count_lines(const char *text, size_t length)
{
    unsigned long lines = 0;

    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

static struct mw_measured *
parse_run(const char *text, size_t length, size_t begin, const struct mw_plan *plan, char **machine,
          char *why, size_t why_size)
{
    struct mw_measured *measured = mw_measured_new((uint32_t)mw_plan_unfolded_ops(plan));
    struct mw_plan_reader reader = {
        .in = open_text(text + begin, length - begin),
        .line_number = count_lines(text, begin),
        .word = "",
        .why = why,
        .why_size = why_size,
    };

    if (reader.in) {
        read_run(&reader, plan, measured, machine);
        fclose(reader.in);
    } else {
        mw_plan_reader_fail(&reader,
                            "'memwall-run 1' after the plan: a run is wanted here, not a plan");
    }
    mw_plan_reader_clear(&reader);
    if (!reader.failed)
        return measured;
    mw_measured_free(measured);
    return NULL;
}

struct mw_measured *
mw_measured_parse(const char *text, size_t length, const char *path, struct mw_plan **plan,
                  char **machine, GError **error)
{
    size_t begin = plan_length(text, length);
    g_autofree char *where = NULL;
    struct mw_measured *measured = NULL;
    char why[256];

    *plan = parse_plan(text, begin, why, sizeof why);
    if (*plan)
        measured = parse_run(text, length, begin, *plan, &where, why, sizeof why);
    if (measured) {
        *machine = g_steal_pointer(&where);
        return measured;
    }
    mw_plan_free(*plan);
    *plan = NULL;
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: %s", path, why);
    return NULL;
}

const char *
mw_run_wanted(void)
{
    g_autofree char *text = mw_spelled("a run, as `memwall run {save-timeline}` writes it");

    return g_intern_string(text);
}

struct mw_measured *
mw_measured_read(const char *path, struct mw_plan **plan, char **machine, GError **error)
{
    const struct mw_input_kind kind = {mw_run_wanted(), MW_PLAN_TEXT_BYTES_MAX, MW_PLAN_TEXT_BEGIN};
    gsize length;
    g_autofree char *text = mw_input_read(path, &kind, &length, error);

    return text ? mw_measured_parse(text, length, path, plan, machine, error) : NULL;
}
