#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/format.h"
#include "cli/sweep/sweep.h"
#include "lib/answer.h"
#include "report/report.h"
#include "report/rows.h"

static void
write_values(const struct cli_sweep *sweep, int64_t point, FILE *out)
{
    for (size_t column = 0; column < mw_space_columns(sweep->space); column++) {
        mw_csv_cell_write(out, mw_space_value(sweep->space, point, column));
        fputc(',', out);
    }
}

char *
cli_sweep_names(const struct cli_sweep *sweep)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    for (size_t column = 0; column < mw_space_columns(sweep->space); column++)
        fprintf(out, MW_ROWS_OVER "%s,", mw_space_name(sweep->space, column));
    fputs(sweep->closed_form ? MW_ROWS_ERROR "," MW_ROWS_ENGINE "," : MW_ROWS_ERROR ",", out);
    if (sweep->measure)
        cli_measure_names_write(out);
    mw_csv_names_write(out);
    fclose(out);
    return text;
}

static void
write_engine(FILE *out, const struct mw_result *result)
{
    if (result && isfinite(result->engine_step_time_s))
        fputs(mw_format_exact(result->engine_step_time_s), out);
    fputc(',', out);
}

/* A point that is refused has a row too, which says why; so has one whose run failed. */
static void
write_answer(const struct cli_sweep *sweep, const struct memwall_question *question,
             const struct memwall_answer *answer, const struct memwall_error *refused, FILE *out)
{
    const struct mw_result *result = answer && answer->count ? answer->answers[0]->result : NULL;
    bool runs = sweep->measure && result && result->feasible;
    struct cli_measured measured;
    g_autoptr(GError) failed = NULL;

    runs = runs && cli_measure_point(sweep->measure, question, result, &measured, &failed);
    if (refused || failed) {
        g_autofree char *line =
            mw_one_line(refused ? memwall_error_message(refused) : failed->message);
        mw_csv_cell_write(out, line);
    }
    fputc(',', out);
    if (sweep->closed_form)
        write_engine(out, result);
    if (sweep->measure)
        cli_measure_cells_write(out, runs ? &measured : NULL);
    mw_csv_row_write(out, result);
}

char *
cli_sweep_row(const struct cli_sweep *sweep, int64_t point, bool simulates,
              struct memwall_question *question)
{
    enum memwall_depth depth = !sweep->closed_form ? MEMWALL_ROW
                               : simulates         ? MEMWALL_ESTIMATE_CHECKED
                                                   : MEMWALL_ESTIMATE;
    struct memwall_error *refused = NULL;
    struct memwall_answer *answer =
        mw_space_set(sweep->space, point, sweep->base, question, &refused)
            ? memwall_ask(question, depth, &refused)
            : NULL;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    write_values(sweep, point, out);
    write_answer(sweep, question, answer, refused, out);
    fclose(out);
    memwall_answer_free(answer);
    memwall_error_free(refused);
    return text;
}

static size_t
cells_of(const char *line)
{
    g_auto(GStrv) cells = mw_csv_split(line);

    return cells ? g_strv_length(cells) : 0;
}

bool
cli_sweep_is_row(const struct cli_sweep *sweep, int64_t point, const char *row)
{
    g_auto(GStrv) cells = mw_csv_split(row);
    g_autofree char *names = cli_sweep_names(sweep);
    bool same = cells && g_strv_length(cells) == cells_of(names);

    for (size_t column = 0; same && column < mw_space_columns(sweep->space); column++)
        same = !strcmp(cells[column], mw_space_value(sweep->space, point, column));
    return same;
}
