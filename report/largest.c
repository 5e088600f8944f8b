/* The most layers that fit, for each strategy. */
#include "base/format.h"
#include "base/json_writer.h"
#include "base/schemas.h"
#include "report/report.h"

static void
print_row(FILE *out, const struct mw_largest *row)
{
    fprintf(out, "%-20s %10" G_GINT64_FORMAT " %14s %14s%s\n", mw_strategy_name(row->strategy),
            row->layers, mw_format_count(row->params), mw_format_count(row->paper_params),
            row->more ? "  or more" : "");
}

void
mw_table_largest(FILE *out, const struct mw_largest *rows, size_t count, const char *software,
                 int64_t ops_max)
{
    bool more = false;

    fprintf(out, "%-20s %10s %14s %14s\n", "strategy", "layers", "params", "12·nl·hd²");
    for (size_t i = 0; i < count; i++) {
        print_row(out, &rows[i]);
        more |= rows[i].more;
    }
    fprintf(out, "software %s\n", software);
    if (more)
        fprintf(out,
                "or more: memory has room, and a step of more layers has over %" G_GINT64_FORMAT
                " ops, which is more than memwall plans\n",
                ops_max);
}

static void
write_row(struct mw_json_writer *json, const struct mw_largest *row)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "strategy", mw_strategy_name(row->strategy));
    mw_json_integer(json, "layers", row->layers);
    mw_json_number(json, "params", row->params);
    mw_json_number(json, "paper_params", row->paper_params);
    mw_json_boolean(json, "more", row->more);
    mw_json_end(json, '}');
}

void
mw_json_largest_write(FILE *out, const struct mw_largest *rows, size_t count, const char *software)
{
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, MW_SCHEMA_LARGEST);
    mw_json_string(&json, "software", software);
    mw_json_begin(&json, "largest", '[', false);
    for (size_t i = 0; i < count; i++)
        write_row(&json, &rows[i]);
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}
