#include "report/memory_ledger.h"

#include <glib.h>
#include <math.h>

#include "report/memory_curve.h"

/* The most bytes in use in a tier from `start_ns` on and before `end_ns`. */
static int64_t
most_between(const struct mw_memory_curve *curve, int tier, int64_t start_ns, int64_t end_ns)
{
    int64_t most = 0;

    for (size_t i = 0; i < curve->count && curve->point[i].time_ns < end_ns; i++) {
        bool over = i + 1 < curve->count && curve->point[i + 1].time_ns <= start_ns;
        if (!over)
            most = MAX(most, curve->point[i].bytes[tier]);
    }
    return most;
}

static void
append_row(GArray *rows, const struct mw_result *result, const struct mw_memory_curve *curve,
           int tier, enum mw_purpose purpose)
{
    struct mw_memory_row row = {(enum mw_tier)tier, purpose, g_new0(int64_t, result->phase_count)};
    int64_t most = 0;

    for (size_t i = 0; i < result->phase_count; i++) {
        const struct mw_result_phase *phase = &result->phases[i];
        row.most_bytes[i] =
            most_between(curve, tier, llround(phase->start_s * 1e9), llround(phase->end_s * 1e9));
        most = MAX(most, row.most_bytes[i]);
    }
    if (most > 0)
        g_array_append_val(rows, row);
    else
        g_free(row.most_bytes);
}

struct mw_memory_ledger
mw_memory_ledger_find(const struct mw_result *result)
{
    struct mw_memory_curve curves[MW_PURPOSE_COUNT + 1];
    struct mw_memory_ledger ledger = {0};
    struct mw_memory_lives lives;
    GArray *rows;

    if (!result->plan || !result->timeline || !result->phase_count)
        return ledger;
    rows = g_array_new(FALSE, FALSE, sizeof(struct mw_memory_row));
    lives = mw_memory_lives_find(result->plan, result->timeline, 0);
    for (int p = 0; p <= MW_PURPOSE_COUNT; p++)
        curves[p] = mw_memory_curve_find(result->plan, &lives, (enum mw_purpose)p);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        for (int p = 0; p <= MW_PURPOSE_COUNT; p++)
            append_row(rows, result, &curves[p], tier, (enum mw_purpose)p);
    for (int p = 0; p <= MW_PURPOSE_COUNT; p++)
        mw_memory_curve_clear(&curves[p]);
    mw_memory_lives_clear(&lives);
    ledger.count = rows->len;
    ledger.row = (struct mw_memory_row *)g_array_free(rows, FALSE);
    return ledger;
}

void
mw_memory_ledger_clear(struct mw_memory_ledger *ledger)
{
    for (size_t i = 0; i < ledger->count; i++)
        g_free(ledger->row[i].most_bytes);
    g_free(ledger->row);
    *ledger = (struct mw_memory_ledger){0};
}
