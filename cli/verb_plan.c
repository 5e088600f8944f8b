/* `memwall plan`: what will be where and when; fits or not; --largest. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/output.h"

struct largest {
    enum mw_strategy strategy;
    int64_t layers;
    double params, paper_params; /* NAN: no layer fits */
    bool more;
};

static bool
find_largest(const struct cli_request *request, enum mw_strategy strategy, struct largest *largest,
             GError **error)
{
    struct mw_request planned = {&request->question.model,
                                 &request->question.hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings asked = request->question.settings, resolved;
    struct mw_model model = request->question.model;

    asked.strategy = strategy;
    if (!mw_settings_complete(&planned, &asked, &resolved, error))
        return false;
    bool more;
    model.layers = mw_planner_largest_layers(&planned, &resolved, &more, error);
    *largest = (struct largest){strategy, model.layers, NAN, NAN, more};
    if (model.layers > 0) {
        model.dense_layers = MIN(model.dense_layers, model.layers);
        largest->params = (double)mw_model_params(&model);
        largest->paper_params = (double)mw_model_params_paper(&model);
    }
    return model.layers >= 0;
}

static void
print_row(const struct largest *row)
{
    printf("%-20s %10" G_GINT64_FORMAT " %14s %14s%s\n", mw_strategy_name(row->strategy),
           row->layers, mw_format_count(row->params), mw_format_count(row->paper_params),
           row->more ? "  or more" : "");
}

static void
write_row(struct mw_json_writer *json, const struct largest *row)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "strategy", mw_strategy_name(row->strategy));
    mw_json_integer(json, "layers", row->layers);
    mw_json_number(json, "params", row->params);
    mw_json_number(json, "paper_params", row->paper_params);
    mw_json_boolean(json, "more", row->more);
    mw_json_end(json, '}');
}

/* The strategies that are asked for; auto is all that make sense with the other options. */
static GArray *
find_rows(const struct cli_request *request, GError **error)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct largest));

    for (int i = 0; i < request->question.strategy_count; i++) {
        const struct mw_strategies asked = mw_strategies_of(request->question.strategies[i]);
        for (int s = 0; s < asked.count; s++) {
            g_autoptr(GError) refused = NULL;
            struct largest row;
            mw_progress("most layers that fit: %s, strategy %d of %d",
                        mw_strategy_name(asked.one[s]), s + 1, asked.count);
            if (find_largest(request, asked.one[s], &row, &refused)) {
                g_array_append_val(rows, row);
            } else if (asked.count == 1 || (s + 1 == asked.count && !rows->len)) {
                g_propagate_error(error, g_steal_pointer(&refused));
                g_array_unref(rows);
                return NULL;
            }
        }
    }
    return rows;
}

static void
print_why_more(const struct cli_request *request, const GArray *rows)
{
    bool more = false;

    for (guint i = 0; i < rows->len; i++)
        more |= g_array_index(rows, struct largest, i).more;
    if (more)
        printf("or more: memory has room, and a step of more layers has over %" G_GINT64_FORMAT
               " ops, which are not planned\n",
               request->question.settings.ops_max);
}

static void
print_table(const struct cli_request *request, const GArray *rows)
{
    printf("%-20s %10s %14s %14s\n", "strategy", "layers", "params", "12·nl·hd²");
    for (guint i = 0; i < rows->len; i++)
        print_row(&g_array_index(rows, struct largest, i));
    print_why_more(request, rows);
}

static void
write_json(const GArray *rows)
{
    struct mw_json_writer json = {.out = stdout};

    mw_json_begin_answer(&json, "memwall-largest/1");
    mw_json_begin(&json, "largest", '[', false);
    for (guint i = 0; i < rows->len; i++)
        write_row(&json, &g_array_index(rows, struct largest, i));
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}

static int
print_largest(const struct cli_request *request)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GArray) rows = find_rows(request, &error);

    mw_progress_end();
    if (!rows)
        return cli_fail(error);
    cli_request_tell(request);
    if (request->json)
        write_json(rows);
    else
        print_table(request, rows);
    return cli_flush();
}

static int
answer(const struct cli_request *request)
{
    return request->largest ? print_largest(request) : cli_answer_request(request, MW_DEPTH_PLAN);
}

static int
run(int argc, char **argv)
{
    return cli_request_run(&cli_verb_plan, NULL, NULL, NULL, argc, argv, answer);
}

const struct cli_verb cli_verb_plan = {
    .name = "plan",
    .summary = "show what will be where, and whether it fits",
    .arguments = "-m MODEL [-H HW]",
    .examples = "memwall plan -m llama-3.1-8b -H rtx4090\n"
                "memwall plan -m gpt3-13b -H rtx4090 --largest",
    .run = run,
};
