/* Cases: what predictions are made of, and how they differ. */
#include "study/gate.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "study/lanes.h"

const struct mw_gate_figure mw_gate_figures[MW_GATE_FIGURES] = {
    {"feasible", "fits", MW_GATE_FITS, false, NULL},
    {"step_time_s", "step time", MW_GATE_SECONDS, true, NULL},
    {"first_step_time_s", "first step", MW_GATE_SECONDS, true, NULL},
    {"tokens_per_s", "tokens/s", MW_GATE_COUNT, false, NULL},
    {"gpu_peak_bytes", "gpu peak", MW_GATE_BYTES, true, "gpu"},
    {"cpu_peak_bytes", "cpu peak", MW_GATE_BYTES, true, "cpu"},
    {"nvme_peak_bytes", "nvme peak", MW_GATE_BYTES, true, "nvme"},
    {"nvme_written_bytes", "written", MW_GATE_BYTES, true, NULL},
    {"days", "days", MW_GATE_COUNT, true, NULL},
    {"cost_usd", "cost in USD", MW_GATE_USD, true, NULL},
    {"energy_kwh", "energy in kWh", MW_GATE_COUNT, true, NULL},
};

int
mw_gate_figure_find(const char *name)
{
    for (int i = 0; i < MW_GATE_FIGURES; i++)
        if (!strcmp(mw_gate_figures[i].name, name))
            return i;
    return -1;
}

static void
clear_lane(void *lane)
{
    g_free(((struct mw_gate_lane *)lane)->name);
}

static void
clear_memory(void *memory)
{
    g_free(((struct mw_gate_memory *)memory)->tier);
    g_free(((struct mw_gate_memory *)memory)->purpose);
}

struct mw_gate_case *
mw_gate_case_new(void)
{
    struct mw_gate_case *one = g_new0(struct mw_gate_case, 1);

    for (int i = 0; i < MW_GATE_FIGURES; i++)
        one->figures[i] = NAN;
    one->gpus = one->global_batch = one->tokens_per_step = NAN;
    one->lanes = g_array_new(FALSE, TRUE, sizeof(struct mw_gate_lane));
    g_array_set_clear_func(one->lanes, clear_lane);
    one->memory = g_array_new(FALSE, TRUE, sizeof(struct mw_gate_memory));
    g_array_set_clear_func(one->memory, clear_memory);
    return one;
}

void
mw_gate_case_free(void *one)
{
    struct mw_gate_case *it = one;

    if (!it)
        return;
    g_free(it->name);
    g_free(it->error);
    g_free(it->strategy);
    g_free(it->bottleneck);
    g_array_unref(it->lanes);
    g_array_unref(it->memory);
    g_strfreev(it->question);
    g_free(it);
}

/* --- what moved it --------------------------------------------------------------------------- */

static const struct mw_gate_lane *
lane_of(const struct mw_gate_case *one, const char *name)
{
    for (guint i = 0; i < one->lanes->len; i++) {
        const struct mw_gate_lane *lane = &g_array_index(one->lanes, struct mw_gate_lane, i);
        if (!strcmp(lane->name, name))
            return lane;
    }
    return NULL;
}

/* Of the step: compute for as long as it runs, another lane while compute waits for it. */
static double
part_of_step(const struct mw_gate_lane *lane)
{
    return !lane ? 0 : mw_lane_computes(lane->name) ? lane->busy_s : lane->exposed_s;
}

/* The lane whose part of the step changed most in the step's direction. */
static char *
lane_that_moved(const struct mw_gate_case *before, const struct mw_gate_case *after, double by_s)
{
    const struct mw_gate_lane *most = NULL;
    double most_s = 0;

    for (guint i = 0; i < after->lanes->len + before->lanes->len; i++) {
        bool gone = i >= after->lanes->len;
        const struct mw_gate_lane *lane =
            gone ? &g_array_index(before->lanes, struct mw_gate_lane, i - after->lanes->len)
                 : &g_array_index(after->lanes, struct mw_gate_lane, i);
        double change = part_of_step(gone ? lane_of(after, lane->name) : lane) -
                        part_of_step(gone ? lane : lane_of(before, lane->name));
        if (change * by_s > 0 && fabs(change) > fabs(most_s)) {
            most = lane;
            most_s = change;
        }
    }
    if (!most)
        return NULL;
    return g_strdup_printf("%s lane %s %s%s", most->name,
                           mw_lane_computes(most->name) ? "busy" : "waited for",
                           most_s > 0 ? "+" : "-", mw_format_seconds(fabs(most_s)));
}

static int64_t
bytes_of(const struct mw_gate_case *one, const struct mw_gate_memory *like)
{
    for (guint i = 0; i < one->memory->len; i++) {
        const struct mw_gate_memory *row = &g_array_index(one->memory, struct mw_gate_memory, i);
        if (!strcmp(row->tier, like->tier) && !strcmp(row->purpose, like->purpose))
            return row->bytes;
    }
    return 0;
}

/* The purpose whose bytes in the tier of a peak changed most in the peak's direction. */
static char *
purpose_that_moved(const struct mw_gate_case *before, const struct mw_gate_case *after, int figure)
{
    bool more = after->figures[figure] > before->figures[figure];
    const struct mw_gate_case *larger = more ? after : before, *smaller = more ? before : after;
    const struct mw_gate_memory *most = NULL;
    int64_t most_bytes = 0;

    for (guint i = 0; i < larger->memory->len; i++) {
        const struct mw_gate_memory *row = &g_array_index(larger->memory, struct mw_gate_memory, i);
        int64_t bytes = row->bytes - bytes_of(smaller, row);
        if (!g_strcmp0(mw_gate_figures[figure].tier, row->tier) && bytes > most_bytes) {
            most = row;
            most_bytes = bytes;
        }
    }
    return most ? g_strdup_printf("%s %s%s", most->purpose, more ? "+" : "-",
                                  mw_format_gib((double)most_bytes))
                : NULL;
}

static char *
renamed(const char *what, const char *before, const char *after)
{
    return before && after && strcmp(before, after)
               ? g_strdup_printf("%s %s, was %s", what, after, before)
               : NULL;
}

/* What explains a figure: another strategy; else the lane of times, or the purpose of bytes; else
 * the bottleneck. */
static char *
because_of(const struct mw_gate_case *before, const struct mw_gate_case *after, int figure)
{
    bool of_speed = mw_gate_figures[figure].unit != MW_GATE_BYTES;
    int step = mw_gate_figure_find("step_time_s");
    char *strategy = renamed("strategy", before->strategy, after->strategy);

    if (strategy)
        return strategy;
    if (!of_speed)
        return purpose_that_moved(before, after, figure);
    char *lane = lane_that_moved(before, after, after->figures[step] - before->figures[step]);
    return lane ? lane : renamed("bottleneck", before->bottleneck, after->bottleneck);
}

/* --- comparing ------------------------------------------------------------------------------- */

static void
clear_moved(void *moved)
{
    g_free(((struct mw_gate_moved *)moved)->because);
}

static void
add_moved(struct mw_gate_verdict *verdict, struct mw_gate_moved moved, bool either_way)
{
    g_array_append_val(verdict->moved, moved);
    verdict->failed = verdict->failed || moved.worse || either_way;
}

/* By how much a figure grew; INFINITY from 0. */
static double
growth(double before, double after)
{
    return before == after ? 0 : before > 0 ? after / before - 1 : INFINITY;
}

/* A figure that the baseline alone has is missing, unless the plan does not fit and so has none;
 * one that it does not have is not compared. */
static void
compare_figure(struct mw_gate_verdict *verdict, const struct mw_gate_case *before,
               const struct mw_gate_case *after, int figure, const struct mw_gate_limits *limits)
{
    double was = before->figures[figure], is = after->figures[figure];
    struct mw_gate_moved moved = {before, after, figure, NAN, false, NULL};

    if (isnan(is) && !isnan(was) && after->figures[mw_gate_figure_find("feasible")] > 0) {
        moved.worse = true;
        moved.because = g_strdup("missing now");
        add_moved(verdict, moved, false);
    }
    if (isnan(was) || isnan(is))
        return;
    moved.change = growth(was, is);
    moved.worse = mw_gate_figures[figure].more_is_worse ? is > was : is < was;
    if (fabs(moved.change) <= limits->worse[figure] || (!moved.worse && !limits->either_way))
        return;
    moved.because = because_of(before, after, figure);
    add_moved(verdict, moved, limits->either_way);
}

static void
compare_case(struct mw_gate_verdict *verdict, const struct mw_gate_case *before,
             const struct mw_gate_case *after, const struct mw_gate_limits *limits)
{
    struct mw_gate_moved whole = {before, after, -1, NAN, true, NULL};

    if (!after)
        whole.because = g_strdup("is missing now");
    else if (after->error && !before->error)
        whole.because = g_strdup_printf("is refused now: %s", after->error);
    if (whole.because) {
        add_moved(verdict, whole, false);
        return;
    }
    for (int figure = 0; figure < MW_GATE_FIGURES; figure++)
        compare_figure(verdict, before, after, figure, limits);
}

static GHashTable *
by_name(GPtrArray *cases)
{
    GHashTable *table = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < cases->len; i++) {
        struct mw_gate_case *one = cases->pdata[i];
        g_hash_table_insert(table, one->name, one);
    }
    return table;
}

struct mw_gate_verdict *
mw_gate_cases(GPtrArray *before, GPtrArray *after, const struct mw_gate_limits *limits,
              GError **error)
{
    g_autoptr(GHashTable) now = by_name(after);
    struct mw_gate_verdict *verdict = g_new0(struct mw_gate_verdict, 1);

    verdict->moved = g_array_new(FALSE, TRUE, sizeof(struct mw_gate_moved));
    g_array_set_clear_func(verdict->moved, clear_moved);
    for (guint i = 0; i < before->len; i++) {
        const struct mw_gate_case *one = before->pdata[i];
        const struct mw_gate_case *same = g_hash_table_lookup(now, one->name);
        verdict->compared += same != NULL;
        compare_case(verdict, one, same, limits);
    }
    verdict->added = after->len - verdict->compared;
    if (verdict->compared)
        return verdict;
    const struct mw_gate_case *was = before->pdata[0], *is = after->pdata[0];
    mw_refuse(error,
              "the two have no question in common: the baseline begins with \"%s\", the "
              "other with \"%s\"",
              was->name, is->name);
    mw_gate_verdict_free(verdict);
    return NULL;
}

void
mw_gate_verdict_free(struct mw_gate_verdict *verdict)
{
    if (!verdict)
        return;
    g_array_unref(verdict->moved);
    g_free(verdict);
}
