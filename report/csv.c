#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/csv.h"
#include "base/format.h"
#include "report/report.h"

enum kind { TEXT, NUMBER, POSITIVE, LOW, HIGH, INTEGER, BOOLEAN };

/* POSITIVE: an unknown number is 0 or NAN, and is left empty.  LOW, HIGH: the ends of a figure over
 * the outlooks; the profile's low outlook gives the high step time.  Columns of a prediction are
 * empty if there is none. */
static const struct column {
    const char *name;
    enum kind kind;
    bool predicted;
    size_t offset;
} columns[] = {
    {"model", TEXT, false, offsetof(struct mw_result, model)},
    {"hardware", TEXT, false, offsetof(struct mw_result, hardware)},
    {"strategy", TEXT, false, offsetof(struct mw_result, strategy)},
    {"params", INTEGER, false, offsetof(struct mw_result, params)},
    {"nodes", INTEGER, false, offsetof(struct mw_result, nodes)},
    {"gpus_per_node", INTEGER, false, offsetof(struct mw_result, gpus_per_node)},
    {"tp", INTEGER, false, offsetof(struct mw_result, tp)},
    {"micro_batch", NUMBER, false, offsetof(struct mw_result, micro_batch)},
    {"grad_accum", INTEGER, false, offsetof(struct mw_result, grad_accum)},
    {"global_batch", NUMBER, false, offsetof(struct mw_result, global_batch)},
    {"seq", INTEGER, false, offsetof(struct mw_result, seq)},
    {"checkpoint_interval", INTEGER, false, offsetof(struct mw_result, checkpoint_interval)},
    {"param_loads", INTEGER, false, offsetof(struct mw_result, param_loads)},
    {"tiles", INTEGER, false, offsetof(struct mw_result, tiles)},
    {"logits_chunks", INTEGER, false, offsetof(struct mw_result, logits_chunks)},
    {"prefetch", INTEGER, false, offsetof(struct mw_result, prefetch)},
    {"param_device", TEXT, false, offsetof(struct mw_result, param_device)},
    {"optimizer_device", TEXT, false, offsetof(struct mw_result, optimizer_device)},
    {"gradient_device", TEXT, false, offsetof(struct mw_result, gradient_device)},
    {"activation_device", TEXT, false, offsetof(struct mw_result, activation_device)},
    {"feasible", BOOLEAN, false, offsetof(struct mw_result, feasible)},
    {"limiting_tier", TEXT, false, offsetof(struct mw_result, limiting_tier)},
    {"short_bytes", INTEGER, false, offsetof(struct mw_result, short_bytes)},
    {"gpu_peak_bytes", INTEGER, false, offsetof(struct mw_result, tiers[MW_TIER_GPU].peak_bytes)},
    {"cpu_peak_bytes", INTEGER, false, offsetof(struct mw_result, tiers[MW_TIER_CPU].peak_bytes)},
    {"nvme_peak_bytes", INTEGER, false, offsetof(struct mw_result, tiers[MW_TIER_NVME].peak_bytes)},
    {"step_time_s", NUMBER, true, offsetof(struct mw_result, step_time_s[1])},
    {"step_time_s_low", LOW, true, offsetof(struct mw_result, step_time_s)},
    {"step_time_s_high", HIGH, true, offsetof(struct mw_result, step_time_s)},
    {"first_step_time_s", NUMBER, true, offsetof(struct mw_result, first_step_time_s)},
    {"tflops_per_gpu", NUMBER, true, offsetof(struct mw_result, tflops_per_gpu[1])},
    {"efficiency", NUMBER, true, offsetof(struct mw_result, efficiency[1])},
    {"mfu", NUMBER, true, offsetof(struct mw_result, mfu)},
    {"tokens_per_s", NUMBER, true, offsetof(struct mw_result, tokens_per_s)},
    {"bottleneck", TEXT, true, offsetof(struct mw_result, bottleneck)},
    {"closed_form_paper_s", NUMBER, true, offsetof(struct mw_result, closed_form_paper_s)},
    {"closed_form_plan_s", NUMBER, true, offsetof(struct mw_result, closed_form_plan_s)},
    {"nvme_written_bytes", INTEGER, true, offsetof(struct mw_result, nvme_written_bytes)},
    {"drive_life_steps", POSITIVE, true, offsetof(struct mw_result, drive_life_steps)},
    {"days", POSITIVE, true, offsetof(struct mw_result, days)},
    {"cost_usd", POSITIVE, true, offsetof(struct mw_result, cost_usd)},
    {"energy_kwh", POSITIVE, true, offsetof(struct mw_result, energy_kwh)},
    {"provenance", TEXT, false, offsetof(struct mw_result, provenance)},
    {"gpu_need_bytes", INTEGER, false, offsetof(struct mw_result, tiers[MW_TIER_GPU].need_bytes)},
    {"cpu_need_bytes", INTEGER, false, offsetof(struct mw_result, tiers[MW_TIER_CPU].need_bytes)},
    {"nvme_need_bytes", INTEGER, false, offsetof(struct mw_result, tiers[MW_TIER_NVME].need_bytes)},
};

#define COLUMN_COUNT (sizeof columns / sizeof columns[0])

static void
write_number(FILE *out, enum kind kind, const double *field)
{
    double value = kind == LOW    ? mw_result_ends(field).low
                   : kind == HIGH ? mw_result_ends(field).high
                                  : *field;

    if (isfinite(value) && (kind != POSITIVE || value > 0))
        fputs(mw_format_exact(value), out);
}

/* An unknown count is negative. */
static void
write_integer(FILE *out, int64_t value)
{
    if (value >= 0)
        fprintf(out, "%" PRId64, value);
}

static void
write_cell(FILE *out, const struct column *column, const struct mw_result *result)
{
    const void *field = (const char *)result + column->offset;

    if (column->predicted && !result->simulated)
        return;
    if (column->kind == TEXT)
        mw_csv_cell_write(out, *(char *const *)field);
    else if (column->kind == INTEGER)
        write_integer(out, *(const int64_t *)field);
    else if (column->kind == BOOLEAN)
        fputs(*(const bool *)field ? "true" : "false", out);
    else
        write_number(out, column->kind, field);
}

void
mw_csv_names_write(FILE *out)
{
    for (size_t c = 0; c < COLUMN_COUNT; c++)
        fprintf(out, "%s%s", c ? "," : "", columns[c].name);
}

void
mw_csv_row_write(FILE *out, const struct mw_result *result)
{
    for (size_t c = 0; c < COLUMN_COUNT; c++) {
        if (c)
            fputc(',', out);
        if (result)
            write_cell(out, &columns[c], result);
    }
}

bool
mw_csv_is_text(const char *name)
{
    for (size_t c = 0; c < COLUMN_COUNT; c++)
        if (!strcmp(columns[c].name, name))
            return columns[c].kind == TEXT;
    return true;
}

bool
mw_csv_write(FILE *out, struct mw_result *const *results, size_t count)
{
    mw_csv_names_write(out);
    fputc('\n', out);
    for (size_t i = 0; i < count; i++) {
        mw_csv_row_write(out, results[i]);
        fputc('\n', out);
    }
    return fflush(out) == 0 && !ferror(out);
}
