/* The fastest ways to divide a training over GPUs: study/parallel.h. */
#include <math.h>
#include <string.h>

#include "base/format.h"
#include "base/json_writer.h"
#include "base/spell.h"
#include "report/grid.h"
#include "report/report.h"
#include "report/table.h"

/* Rows that are printed as text, the fastest first. */
#define PRINTED 12

static const char *
software_of(const struct mw_question *question)
{
    return question->software ? mw_profile_name(question->software) : "ideal";
}

/* --- numbers of points ------------------------------------------------------------------------ */

static void
add_count(struct mw_grid *grid, int64_t count, const char *text)
{
    g_autofree char *number = g_strdup_printf("%" G_GINT64_FORMAT, count);

    if (count)
        mw_grid_row(grid, number, text, NULL);
}

static void
print_counts(FILE *out, const struct mw_question *question, const struct mw_parallel *it)
{
    struct mw_grid *grid = mw_grid_new("rl");
    g_autofree char *lacking =
        g_strdup_printf("are of what %s does not have", software_of(question));

    mw_table_heading(out, "Points");
    add_count(grid, it->refused, "make no sense for this model, machine and batch");
    add_count(grid, it->lacking, lacking);
    add_count(grid, it->no_room, "have no room, by the bound of memory");
    add_count(grid, it->too_slow,
              "cannot be faster than the row of their kind, by the bound of time");
    add_count(grid, it->unfit, "have no room, sized in full");
    add_count(grid, it->survivors, "fit, and their step was computed");
    mw_grid_print(grid, out, 2);
}

/* --- rows ------------------------------------------------------------------------------------- */

static char *
order_text(const struct mw_settings *s)
{
    if (s->pp == 1)
        return g_strdup("-");
    if (s->schedule == MW_SCHEDULE_INTERLEAVED)
        return g_strdup_printf("interleaved x%" G_GINT64_FORMAT, mw_settings_stretches(s));
    return g_strdup(s->schedule == MW_SCHEDULE_GPIPE ? "gpipe" : "1f1b");
}

static char *
recomputed_text(const struct mw_settings *s)
{
    if (!s->checkpoint_interval || s->whole_checkpoints == 1)
        return g_strdup("none");
    if (s->recompute_layers > 0)
        return g_strdup_printf("%" G_GINT64_FORMAT " layers", s->recompute_layers);
    return s->checkpoint_interval > 1
               ? g_strdup_printf("all, by %" G_GINT64_FORMAT, s->checkpoint_interval)
               : g_strdup("all");
}

/* What rests off the GPU. */
static char *
offloaded_text(const struct mw_settings *s)
{
    static const char *const states[MW_STATE_COUNT] = {
        [MW_STATE_PARAMETERS] = "parameters",
        [MW_STATE_GRADIENTS] = "gradients",
        [MW_STATE_OPTIMIZER] = "optimizer",
        [MW_STATE_ACTIVATIONS] = "checkpoints",
    };
    GString *text = g_string_new(NULL);

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        enum mw_tier tier = s->placement[state].part[0].tier;
        bool none = state == MW_STATE_ACTIVATIONS && !s->checkpoint_interval;
        bool whole = state == MW_STATE_ACTIVATIONS && s->whole_checkpoints == 1;
        if (tier != MW_TIER_GPU && !none)
            g_string_append_printf(text, "%s%s %s", text->len ? ", " : "",
                                   whole ? "activations" : states[state],
                                   tier == MW_TIER_CPU ? "cpu" : "nvme");
    }
    return g_string_free(text, FALSE);
}

static char *
engine_text(const struct mw_parallel *it, int i)
{
    double step_s = it->rows[i].engine_s;

    return isnan(step_s) ? g_strdup("")
           : isinf(step_s)
               ? g_strdup("too large")
               : g_strdup_printf("%s%s", mw_format_seconds(step_s), i == it->fastest ? " *" : "");
}

static void
add_row(struct mw_grid *grid, const struct mw_parallel *it, int i, int64_t gpus)
{
    const struct mw_parallel_row *row = &it->rows[i];
    const struct mw_settings *s = &row->settings;
    g_autofree char *degrees =
        g_strdup_printf("%" G_GINT64_FORMAT " x %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT, s->tp,
                        s->pp, gpus / s->tp / s->pp);
    g_autofree char *number = g_strdup_printf("%d", i + 1);
    g_autofree char *batch =
        g_strdup_printf("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT, s->grad_accum,
                        it->batch / s->grad_accum / (gpus / s->tp / s->pp));
    g_autofree char *order = order_text(s), *recomputed = recomputed_text(s);
    g_autofree char *offloaded = offloaded_text(s), *engine = engine_text(it, i);
    g_autofree char *strategy =
        g_strdup_printf("%s%s", mw_strategy_name((int)s->strategy),
                        s->shard_group == MW_SHARD_NODE ? " of a node" : "");

    mw_grid_row(grid, number, degrees, strategy, batch, order, recomputed,
                mw_format_gib((double)row->gpu_bytes), mw_format_seconds(row->step_s), engine,
                offloaded, NULL);
}

static void
print_rows(FILE *out, const struct mw_parallel *it, int64_t gpus)
{
    struct mw_grid *grid = mw_grid_new("rllrllrrll");
    int count = MIN(it->row_count, PRINTED);

    mw_table_heading(out, "The fastest of each number of slices and stages and each strategy");
    mw_grid_row(grid, "row", "tp x pp x dp", "strategy", "micro-batches", "order", "recomputed",
                "GPU", "step", "simulated", "off the GPU", NULL);
    for (int i = 0; i < count; i++)
        add_row(grid, it, i, gpus);
    mw_grid_print(grid, out, 2);
    if (it->row_count > count)
        fprintf(out, "  and %d slower rows, which the JSON has\n", it->row_count - count);
    fputs("  tensor slices x stages x data-parallel GPUs; micro-batches of a step of so many "
          "sequences;\n  layers of each stage recomputed; GPU memory of the fullest stage, with "
          "what the software takes;\n  step by the closed form, and simulated\n",
          out);
}

/* --- the verdict ------------------------------------------------------------------------------ */

/* The bound is of the closed form; what the engine would say of a point that it has not run is
 * unknown. */
static void
print_certificate(FILE *out, const struct mw_parallel *it)
{
    g_autofree char *gap = g_strdup(mw_format_fixed(100 * mw_parallel_gap(it), 2));

    mw_table_line(out, "fastest",
                  "%.6g s by the closed form, the least of %" G_GINT64_FORMAT " point%s that fit%s",
                  it->rows[0].step_s, it->survivors, it->survivors == 1 ? "" : "s",
                  it->survivors == 1 ? "s" : "");
    if (isfinite(it->bound_s))
        mw_table_line(out, "certificate",
                      "by the closed form no point is faster: those cut by time take %.6g s or "
                      "more, so the gap is %s%%",
                      it->bound_s, gap);
    else
        mw_table_line(out, "certificate",
                      "by the closed form no point is faster: none was cut by time, so the gap is "
                      "%s%%",
                      gap);
}

/* How far the row that is the fastest as simulated may be above the fastest of all, in per cent. */
static const char *
above(const struct mw_parallel *it, double least_s)
{
    return mw_format_fixed(100 * fmax(0, it->rows[it->fastest].engine_s / least_s - 1), 1);
}

/* What is known of all points in the engine's terms, and what its runs suggest. */
static void
print_evidence(FILE *out, const struct mw_parallel *it)
{
    const struct mw_parallel_evidence seen = mw_parallel_evidence_of(it);
    g_autofree char *least = g_strdup(mw_format_fixed(seen.least, 3));
    g_autofree char *most = g_strdup(mw_format_fixed(seen.most, 3));
    g_autofree char *bound = g_strdup(mw_format_seconds(it->engine_bound_s));
    bool same = !strcmp(least, most);

    mw_table_line(out, "bound",
                  "simulated, no plan of such steps takes less than %s, so row %d is at most %s%% "
                  "above the fastest",
                  bound, it->fastest + 1, above(it, it->engine_bound_s));
    mw_table_line(out, "evidence",
                  "simulated, %s %s%s%s times %s closed form; if no point takes less than %s "
                  "times its own, row %d is at most %s%% above the fastest (no proof)",
                  seen.simulated > 1 ? "rows take" : "the row takes", least, same ? "" : " to ",
                  same ? "" : most, seen.simulated > 1 ? "their" : "its", least, it->fastest + 1,
                  above(it, seen.floor_s));
    if (isfinite(seen.untried_s))
        mw_table_line(
            out, "not tried",
            "%d row%s, from %s on by the closed form, may be faster than row %d: too many "
            "ops to simulate, or after the %dth row",
            seen.untried, seen.untried == 1 ? "" : "s", mw_format_seconds(seen.untried_s),
            it->fastest + 1, MW_PARALLEL_SIMULATED);
}

/* Of the fastest row; NAN: nobody said for how many tokens. */
static double
days_of(const struct mw_question *question, const struct mw_parallel *it)
{
    double tokens = question->settings.tokens;

    return tokens > 0 && it->fastest >= 0
               ? ceil(tokens / it->tokens) * it->rows[it->fastest].engine_s / 86400
               : NAN;
}

static void
print_engine(FILE *out, const struct mw_question *question, const struct mw_parallel *it)
{
    int simulated = mw_parallel_evidence_of(it).simulated;

    if (it->fastest < 0) {
        g_autofree char *options = mw_parallel_options(it, &it->rows[0]);
        mw_table_line(out, "simulated", "none: a step has too many ops; options are of row 1");
        mw_table_line(out, "options", "%s", options);
        return;
    }
    const struct mw_parallel_row *best = &it->rows[it->fastest];
    g_autofree char *options = mw_parallel_options(it, best);
    g_autofree char *closed = g_strdup(mw_format_seconds(best->step_s));
    g_autofree char *engine = g_strdup(mw_format_seconds(best->engine_s));
    mw_table_line(out, "simulated",
                  "%d row%s; row %d is the fastest of them: step %s, %s by the closed form, %s "
                  "tokens/s",
                  simulated, simulated == 1 ? "" : "s", it->fastest + 1, engine, closed,
                  mw_format_count(it->tokens / best->engine_s));
    if (isfinite(days_of(question, it)))
        mw_table_line(out, "takes", "%s for %s tokens",
                      mw_format_duration(days_of(question, it) * 86400),
                      mw_format_count(question->settings.tokens));
    print_evidence(out, it);
    mw_table_line(out, "options", "%s", options);
}

void
mw_table_parallel(FILE *out, const struct mw_question *question, const struct mw_parallel *it)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    int64_t nodes = question->settings.nodes, each = question->settings.gpus_per_node;
    int64_t gpus = nodes * (each == MW_AUTO ? hw->gpus_per_node : each);

    mw_table_line(out, "training", "%s, steps of %" G_GINT64_FORMAT " sequence%s (%s tokens)",
                  question->model.name, it->batch, it->batch == 1 ? "" : "s",
                  mw_format_count(it->tokens));
    mw_table_line(out, "machine",
                  "%" G_GINT64_FORMAT " x %s (%" G_GINT64_FORMAT " GPU%s), software %s", nodes,
                  mw_profile_name(question->profile), gpus, gpus == 1 ? "" : "s",
                  software_of(question));
    mw_table_line(out, "searched",
                  "%" G_GINT64_FORMAT " points in %" G_GINT64_FORMAT
                  " groups: slices, stages, micro-batches, order, recomputation, ZeRO, offload",
                  it->points, it->blocks);
    if (it->row_count) {
        print_certificate(out, it);
        print_engine(out, question, it);
    } else {
        mw_table_line(out, "fits",
                      "no point: each has no room, makes no sense, or is of what %s "
                      "does not have",
                      software_of(question));
    }
    print_counts(out, question, it);
    if (it->row_count)
        print_rows(out, it, gpus);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void
write_row(struct mw_json_writer *json, const struct mw_parallel *it, int i)
{
    const struct mw_parallel_row *row = &it->rows[i];
    g_autofree char *options = mw_parallel_options(it, row);

    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "options", options);
    mw_json_string(json, "strategy", mw_strategy_name((int)row->settings.strategy));
    mw_json_integer(json, "tp", row->settings.tp);
    mw_json_integer(json, "pp", row->settings.pp);
    mw_json_number(json, "batch", row->settings.micro_batch);
    mw_json_integer(json, "micro_batches", row->settings.grad_accum);
    mw_json_number(json, "closed_form_s", row->step_s);
    mw_json_number(json, "bound_s", row->bound_s);
    mw_json_number(json, "step_time_s", isfinite(row->engine_s) ? row->engine_s : NAN);
    mw_json_integer(json, "gpu_bytes", row->gpu_bytes);
    mw_json_integer(json, "gpu_capacity_bytes", row->capacity_bytes);
    mw_json_end(json, '}');
}

static void
write_evidence(struct mw_json_writer *json, const struct mw_parallel *it)
{
    const struct mw_parallel_evidence seen = mw_parallel_evidence_of(it);
    double of = it->fastest >= 0 ? 1 : NAN;

    mw_json_begin(json, "evidence", '{', false);
    mw_json_integer(json, "simulated", seen.simulated);
    mw_json_number(json, "least_ratio", of * seen.least);
    mw_json_number(json, "most_ratio", of * seen.most);
    mw_json_number(json, "floor_s", seen.floor_s);
    mw_json_number(json, "untried_s", seen.untried_s);
    mw_json_number(json, "proven_floor_s", it->engine_bound_s);
    mw_json_end(json, '}');
}

void
mw_json_parallel_write(FILE *out, const struct mw_question *question, const struct mw_parallel *it)
{
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, "memwall-parallel/1");
    mw_json_string(&json, "model", question->model.name);
    mw_json_string(&json, "hardware", mw_profile_name(question->profile));
    mw_json_string(&json, "software", software_of(question));
    mw_json_integer(&json, "nodes", question->settings.nodes);
    mw_json_integer(&json, "global_batch", it->batch);
    mw_json_number(&json, "tokens_per_step", it->tokens);
    mw_json_boolean(&json, "feasible", it->row_count > 0);
    mw_json_begin(&json, "points", '{', false);
    mw_json_integer(&json, "all", it->points);
    mw_json_integer(&json, "refused", it->refused);
    mw_json_integer(&json, "not_offered", it->lacking);
    mw_json_integer(&json, "cut_by_memory", it->no_room);
    mw_json_integer(&json, "cut_by_time", it->too_slow);
    mw_json_integer(&json, "do_not_fit", it->unfit);
    mw_json_integer(&json, "survivors", it->survivors);
    mw_json_end(&json, '}');
    mw_json_integer(&json, "groups", it->blocks);
    mw_json_number(&json, "bound_s", isfinite(it->bound_s) ? it->bound_s : NAN);
    mw_json_number(&json, "gap", mw_parallel_gap(it));
    if (it->fastest >= 0)
        mw_json_integer(&json, "fastest", it->fastest);
    mw_json_number(&json, "days", days_of(question, it));
    write_evidence(&json, it);
    mw_json_begin(&json, "rows", '[', false);
    for (int i = 0; i < it->row_count; i++)
        write_row(&json, it, i);
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}
