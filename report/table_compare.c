#include <inttypes.h>

#include "base/format.h"
#include "report/grid.h"
#include "report/report.h"
#include "report/table.h"
#include "report/wrap.h"

#define COLUMNS 11
#define PER_STEP 3 /* the column of sequences per step, which is there only where they differ */

static void
add_row(struct mw_grid *grid, bool per_step, const char *const cells[COLUMNS])
{
    const char *row[COLUMNS + 1] = {NULL};
    int count = 0;

    for (int i = 0; i < COLUMNS; i++)
        if (i != PER_STEP || per_step)
            row[count++] = cells[i];
    mw_grid_row_array(grid, row);
}

static void
add_result(struct mw_grid *grid, bool per_step, const struct mw_result *r)
{
    bool simulated = r->simulated;
    g_autofree char *last = simulated ? g_strdup(mw_table_text(r->bottleneck))
                            : r->feasible
                                ? g_strdup("not simulated")
                                : g_strdup_printf("%s short by %s", mw_table_text(r->limiting_tier),
                                                  mw_format_gib(r->short_bytes));
    const char *cells[COLUMNS] = {
        mw_table_text(r->strategy),
        r->feasible ? "yes" : "no",
        mw_format_batch(r->micro_batch * (double)mw_result_sharers(r)),
        simulated ? mw_format_batch(r->global_batch) : "-",
        simulated ? mw_format_seconds(r->step_time_s[1]) : "-",
        simulated ? mw_format_significant(r->tflops_per_gpu[1]) : "-",
        simulated ? mw_format_count(r->tokens_per_s) : "-",
        mw_format_gib(r->tiers[MW_TIER_GPU].need_bytes),
        mw_format_gib(r->tiers[MW_TIER_CPU].need_bytes),
        mw_format_gib(r->tiers[MW_TIER_NVME].need_bytes),
        last,
    };

    add_row(grid, per_step, cells);
}

/* Between those that were simulated: then a step's time says nothing of the speed. */
static bool
batches_differ(struct mw_result *const *results, size_t count)
{
    double first = 0;
    bool differ = false;

    for (size_t i = 0; i < count; i++) {
        if (!results[i]->simulated)
            continue;
        differ = differ || (first && results[i]->global_batch != first);
        first = results[i]->global_batch;
    }
    return differ;
}

/* With --tokens, prints a line for each strategy that was simulated. */
static void
print_trainings(FILE *out, struct mw_result *const *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        g_autofree char *training = mw_table_training(results[i], true);
        if (training)
            mw_wrap_line(out, 2, "%s: %s", mw_table_text(results[i]->strategy), training);
    }
}

void
mw_table_compare(FILE *out, struct mw_result *const *results, size_t count)
{
    static const char *const titles[COLUMNS] = {"strategy", "fits",    "batch",     "per step",
                                                "step",     "TFLOP/s", "tokens/s",  "gpu",
                                                "cpu",      "nvme",    "bottleneck"};
    bool per_step = batches_differ(results, count);
    struct mw_grid *grid = mw_grid_new(per_step ? "llrrrrrrrrl" : "llrrrrrrrl");
    const char *uncalibrated = NULL; /* provenance of the first such prediction */

    add_row(grid, per_step, titles);
    for (size_t i = 0; i < count; i++) {
        if (results[i]->simulated && !results[i]->calibrated && !uncalibrated)
            uncalibrated = mw_table_text(results[i]->provenance);
        add_result(grid, per_step, results[i]);
    }
    if (count) {
        g_autofree char *machines = mw_table_machines(results[0]);
        g_autofree char *share = mw_table_batch_share(results[0]);
        g_autofree char *per = mw_result_sharers(results[0]) > 1
                                   ? g_strdup_printf("batch per %s, memory per GPU", share)
                                   : g_strdup("batch and memory per GPU");
        g_autofree char *software =
            results[0]->software ? g_strdup_printf(" with %s", results[0]->software) : g_strdup("");
        mw_wrap_line(out, 2, "%s on %s%s, sequences of %" PRId64 " tokens; %s%s",
                     mw_table_text(results[0]->model), machines, software, results[0]->seq, per,
                     per_step ? ", sequences per step" : "");
    }
    mw_grid_print(grid, out, 2);
    for (size_t i = 0; i < count; i++) {
        g_autofree char *smaller = mw_table_smaller_batch(results[i]);
        if (smaller)
            mw_wrap_line(out, 2, "%s: %s", mw_table_text(results[i]->strategy), smaller);
    }
    print_trainings(out, results, count);
    if (count && results[0]->hardware_set)
        mw_wrap_line(out, 2, "set: %s", results[0]->hardware_set);
    if (uncalibrated)
        mw_wrap_line(out, 2, "profile not measured on this machine; its least certain figures: %s",
                     uncalibrated);
}
