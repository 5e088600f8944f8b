#include "report/measured.h"

#include <stdlib.h>

struct mw_measured *
mw_measured_new(uint32_t op_count)
{
    struct mw_measured *measured = g_new0(struct mw_measured, 1);

    measured->op_count = op_count;
    measured->stride = 1;
    return measured;
}

static void
clear_step(struct mw_measured_step *step)
{
    g_free(step->timeline.rows);
    *step = (struct mw_measured_step){0};
}

void
mw_measured_rank_clear(struct mw_measured_rank *rank)
{
    g_free(rank->busy_ns);
    g_free(rank->exposed_ns);
    g_free(rank->timeline.rows);
    *rank = (struct mw_measured_rank){0};
}

void
mw_measured_add_rank(struct mw_measured *measured, const struct mw_measured_rank *rank)
{
    g_assert(rank->timeline.row_count == measured->op_count);
    measured->ranks = g_renew(struct mw_measured_rank, measured->ranks, measured->rank_count + 1);
    measured->ranks[measured->rank_count++] = *rank;
}

void
mw_measured_free(struct mw_measured *measured)
{
    if (!measured)
        return;
    for (uint32_t i = 0; i < measured->rank_count; i++)
        mw_measured_rank_clear(&measured->ranks[i]);
    g_free(measured->ranks);
    clear_step(&measured->first);
    for (uint32_t i = 0; i < measured->count; i++)
        clear_step(&measured->later[i]);
    g_free(measured);
}

static int64_t
end_ns(const struct mw_timeline *timeline)
{
    int64_t end = 0;

    for (size_t i = 0; i < timeline->row_count; i++)
        end = MAX(end, timeline->rows[i].end_ns);
    return end;
}

/* Keeps every second step, and from now on every stride-th. */
static void
thin(struct mw_measured *measured)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < measured->count; i++) {
        if (i % 2)
            clear_step(&measured->later[i]);
        else
            measured->later[kept++] = measured->later[i];
    }
    measured->count = kept;
    measured->stride *= 2;
}

/* Where to keep the step, or NULL. */
static struct mw_measured_step *
place_for(struct mw_measured *measured, int64_t step)
{
    if (step == 0)
        return &measured->first;
    if (measured->count == MW_MEASURED_STEPS_MAX)
        thin(measured);
    return (step - 1) % measured->stride ? NULL : &measured->later[measured->count++];
}

/* Only one kind of step is kept: the first undisturbed step replaces all disturbed ones. */
static bool
is_worse(struct mw_measured *measured, int64_t step, bool stolen)
{
    if (step == 0 || !measured->count || measured->later[0].stolen == stolen)
        return false;
    if (stolen)
        return true;
    while ((step - 1) % measured->stride == 0 && measured->count)
        clear_step(&measured->later[--measured->count]);
    return false;
}

int64_t
mw_measured_add(struct mw_measured *measured, const struct mw_timeline *timeline)
{
    return mw_measured_add_step(measured, timeline, 0, false);
}

bool
mw_measured_all_stolen(const struct mw_measured *measured)
{
    return measured->stolen > 0 && measured->stolen == measured->seen - 1;
}

int64_t
mw_measured_add_step(struct mw_measured *measured, const struct mw_timeline *timeline,
                     int64_t let_in_ns, bool stolen)
{
    bool anew = timeline->row_count && timeline->rows[0].step == 0;
    int64_t end = end_ns(timeline), begin = MAX(anew ? 0 : measured->last_end_ns, let_in_ns);
    int64_t time_ns = end - begin;
    int64_t step = measured->seen++;
    struct mw_measured_step *place =
        is_worse(measured, step, stolen) ? NULL : place_for(measured, step);

    g_assert(timeline->row_count == measured->op_count);
    measured->last_end_ns = end;
    measured->stolen += stolen && step > 0;
    if (place) {
        size_t bytes = timeline->row_count * sizeof *timeline->rows;
        *place = (struct mw_measured_step){
            step, time_ns, stolen, {g_memdup2(timeline->rows, bytes), timeline->row_count}};
    }
    return time_ns;
}

const struct mw_measured_step *
mw_measured_steps(const struct mw_measured *measured, uint32_t *count)
{
    *count = measured->count ? measured->count : measured->seen > 0;
    return measured->count ? measured->later : *count ? &measured->first : NULL;
}

static int
compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

double
mw_measured_median_s(const struct mw_measured *measured)
{
    uint32_t count;
    const struct mw_measured_step *steps = mw_measured_steps(measured, &count);
    int64_t times[MW_MEASURED_STEPS_MAX];

    for (uint32_t i = 0; i < count; i++)
        times[i] = steps[i].time_ns;
    qsort(times, count, sizeof *times, compare_times);
    return count ? (times[count / 2] + times[(count - 1) / 2]) / 2e9 : 0;
}

const struct mw_measured_step *
mw_measured_typical(const struct mw_measured *measured)
{
    uint32_t count;
    const struct mw_measured_step *steps = mw_measured_steps(measured, &count), *best = steps;
    double median_ns = mw_measured_median_s(measured) * 1e9;

    for (uint32_t i = 1; i < count; i++)
        if (ABS(steps[i].time_ns - median_ns) < ABS(best->time_ns - median_ns))
            best = &steps[i];
    return best;
}
