#include "report/rows.h"

#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/json_writer.h"
#include "base/number.h"
#include "base/schemas.h"
#include "report/json_result.h"
#include "report/report.h"

#define EXACT_BELOW 9007199254740992.0 /* 2^53: whole numbers that a double holds */

double
mw_rows_number(const char *cell)
{
    double value;
    const char *end = mw_number_scan(cell, &value);

    if (!strcmp(cell, "true") || !strcmp(cell, "false"))
        return *cell == 't';
    return end && !*end ? value : NAN;
}

/* Text where the column has text, or where an axis's value is no number. */
static void
write_cell(struct mw_json_writer *json, const char *name, bool is_text, const char *cell)
{
    double value = mw_rows_number(cell);

    if (!*cell)
        mw_json_string(json, name, NULL);
    else if (is_text || isnan(value))
        mw_json_string(json, name, cell);
    else if (!strcmp(cell, "true") || !strcmp(cell, "false"))
        mw_json_boolean(json, name, *cell == 't');
    else if (rint(value) == value && fabs(value) < EXACT_BELOW)
        mw_json_integer(json, name, (int64_t)value);
    else
        mw_json_number(json, name, value);
}

/* The engine's step time and what runs measured are columns of sweeps alone. */
static bool
is_text(const char *name)
{
    return mw_csv_is_text(name) && strcmp(name, MW_ROWS_ENGINE) != 0 &&
           !g_str_has_prefix(name, MW_ROWS_MEASURED);
}

static void
write_row(struct mw_json_writer *json, char **names, char **cells)
{
    size_t i = 0, prefix = strlen(MW_ROWS_OVER);

    mw_json_begin(json, NULL, '{', true);
    mw_json_begin(json, "over", '{', true);
    for (; names[i] && g_str_has_prefix(names[i], MW_ROWS_OVER); i++)
        write_cell(json, names[i] + prefix, false, cells[i]);
    mw_json_end(json, '}');
    for (; names[i]; i++)
        write_cell(json, names[i], is_text(names[i]), cells[i]);
    mw_json_end(json, '}');
}

void
mw_json_rows_write(FILE *out, const struct mw_rows *rows)
{
    struct mw_json_writer json = {.out = out};
    g_auto(GStrv) names = mw_csv_split(rows->names);

    mw_json_begin_answer(&json, MW_SCHEMA_SWEEP);
    mw_json_asked(&json, rows->asked);
    mw_json_begin(&json, "rows", '[', false);
    rows->rewind(rows->data);
    for (char *row; (row = rows->next(rows->data)); g_free(row)) {
        g_auto(GStrv) cells = mw_csv_split(row);
        if (cells && g_strv_length(cells) == g_strv_length(names))
            write_row(&json, names, cells);
    }
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}
