/* ZeRO-Offload's cuts, and placements over three tiers: study/cuts.h. */
#include "base/format.h"
#include "base/json_writer.h"
#include "base/schemas.h"
#include "report/grid.h"
#include "report/report.h"
#include "report/wrap.h"

#define ROWS_MAX 12 /* of the placements; JSON has all */

static const char *
side(bool on_host)
{
    return on_host ? "CPU" : "GPU";
}

/* --- as tables -------------------------------------------------------------------------------- */

static void
print_paragraph(FILE *out, const char *text)
{
    mw_wrap_text(out, text, 0, 0, mw_wrap_columns(out));
}

static void
print_cuts(FILE *out, const struct mw_cuts *cuts)
{
    struct mw_grid *grid = mw_grid_new("lllllrrr");

    mw_grid_row(grid, "forward, backward", "p16", "g16", "p32, m32, v32", "update, cast", "GPU",
                "less", "link", NULL);
    for (int i = 0; i < cuts->least_count; i++) {
        const struct mw_cut *cut = &cuts->least[i];
        g_autofree char *held = g_strdup_printf("%" G_GINT64_FORMAT " B", cut->gpu_bytes);
        g_autofree char *less =
            g_strdup_printf("%.3gx", (double)cuts->least[0].gpu_bytes / (double)cut->gpu_bytes);
        g_autofree char *carried = g_strdup_printf("%" G_GINT64_FORMAT " B", cut->link_bytes);
        mw_grid_row(grid, side(false), side(cut->on_host[MW_CUT_P16]),
                    side(cut->on_host[MW_CUT_G16]), side(cut->on_host[MW_CUT_P32]),
                    side(cut->on_host[MW_CUT_UPDATE]), held, less, carried, NULL);
    }
    mw_grid_print(grid, out, 0);
}

static void
print_graph(FILE *out)
{
    const struct mw_cuts cuts = mw_cuts_count();
    g_autofree char *head = g_strdup_printf(
        "ZeRO-Offload (arXiv 2101.06840, Sec. 3): %d ways to divide the graph of a step between "
        "GPU and host, %d of them with forward and backward on the GPU. Bytes per parameter; the "
        "link's in both directions, per step.",
        cuts.all, cuts.passes_on_gpu);
    g_autoptr(GString) front = g_string_new(NULL);

    for (int i = 0; i < cuts.front_count; i++)
        g_string_append_printf(front, "%s%" G_GINT64_FORMAT " with %" G_GINT64_FORMAT,
                               i ? ", " : "", cuts.front[i].gpu_bytes, cuts.front[i].link_bytes);
    g_autofree char *tail = g_strdup_printf(
        "No cut that frees memory carries less than %" G_GINT64_FORMAT
        " bytes; of the %d that carry no more, the "
        "last leaves least on the GPU: zero-offload. Nothing else holds less and carries as "
        "little: bytes held with bytes carried are %s.",
        cuts.least_link_bytes, cuts.least_count - 1, front->str);
    print_paragraph(out, head);
    fputc('\n', out);
    print_cuts(out, &cuts);
    fputc('\n', out);
    print_paragraph(out, tail);
}

static void
print_placement(struct mw_grid *grid, const struct mw_cut_placement *it)
{
    const char *cells[MW_CUT_NODES + 8] = {0};
    const char *strategy = mw_cut_placement_strategy(it);
    g_autofree char *gpu = g_strdup(mw_format_bytes((int64_t)it->bytes[MW_TIER_GPU]));
    g_autofree char *cpu = g_strdup(mw_format_bytes((int64_t)it->bytes[MW_TIER_CPU]));
    g_autofree char *nvme = g_strdup(mw_format_bytes((int64_t)it->bytes[MW_TIER_NVME]));
    g_autofree char *least = g_strdup(mw_format_seconds(it->least_s));
    int n = 0;

    for (int node = MW_CUT_P16; node < MW_CUT_NODES; node++)
        cells[n++] = mw_tier_name((int)it->in[node]);
    cells[n++] = mw_tier_name((int)it->in[MW_CUT_UPDATE]);
    cells[n++] = mw_tier_name((int)it->in[MW_CUT_CAST]);
    cells[n++] = gpu;
    cells[n++] = cpu;
    cells[n++] = nvme;
    cells[n++] = least;
    cells[n++] = mw_cut_lane_name(it->limit);
    cells[n++] = strategy ? strategy : "";
    mw_grid_row_array(grid, cells);
}

static struct mw_grid *
placements_grid(void)
{
    struct mw_grid *grid = mw_grid_new("lllllllrrrrll");

    mw_grid_row(grid, "p16", "g16", "p32", "m32", "v32", "update", "cast", "GPU", "CPU", "NVMe",
                "at least", "limit", "strategy", NULL);
    return grid;
}

static void
print_placements(FILE *out, const struct mw_cut_placements *all, const struct mw_result *result)
{
    const struct mw_settings *settings = &all->sizing->settings;
    g_autofree char *head = g_strdup_printf(
        "%s on %s, micro-batches of %g x %" G_GINT64_FORMAT " tokens, %" G_GINT64_FORMAT
        " per step, as %s has them: %" G_GINT64_FORMAT
        " placements over GPU, CPU and NVMe, %" G_GINT64_FORMAT
        " of them with room for their state and activations. Per GPU; the step takes at least the "
        "busiest lane of its passes and of its update.",
        result->model, result->hardware, settings->micro_batch, settings->seq, settings->grad_accum,
        mw_strategy_name((int)settings->strategy), all->count, all->fitting);

    print_paragraph(out, head);
    if (!all->front_count)
        return;
    fputc('\n', out);
    struct mw_grid *grid = placements_grid();
    for (int i = 0; i < MIN(all->front_count, ROWS_MAX); i++)
        print_placement(grid, &all->front[i]);
    mw_grid_print(grid, out, 0);
    if (all->front_count > ROWS_MAX)
        fprintf(out, "%d more hold less in memory and take longer: JSON has them\n",
                all->front_count - ROWS_MAX);
    if (!all->named_count)
        return;
    fprintf(out, "\nThe fastest of each strategy that has room:\n");
    grid = placements_grid();
    for (int i = 0; i < all->named_count; i++)
        print_placement(grid, &all->named[i]);
    mw_grid_print(grid, out, 0);
}

void
mw_table_cuts(FILE *out, const struct mw_cut_placements *placements, const struct mw_result *result)
{
    print_graph(out);
    fputc('\n', out);
    print_placements(out, placements, result);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void
write_cuts(struct mw_json_writer *json, const char *key, const struct mw_cut *cuts, int count)
{
    mw_json_begin(json, key, '[', false);
    for (int i = 0; i < count; i++) {
        mw_json_begin(json, NULL, '{', true);
        for (int n = 0; n < MW_CUT_NODES; n++)
            mw_json_string(json, mw_cut_node_name((enum mw_cut_node)n),
                           cuts[i].on_host[n] ? "cpu" : "gpu");
        mw_json_integer(json, "gpu_bytes_per_parameter", cuts[i].gpu_bytes);
        mw_json_integer(json, "link_bytes_per_parameter", cuts[i].link_bytes);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_placement(struct mw_json_writer *json, const struct mw_cut_placement *it)
{
    const char *strategy = mw_cut_placement_strategy(it);

    mw_json_begin(json, NULL, '{', true);
    for (int n = 0; n < MW_CUT_NODES; n++)
        mw_json_string(json, mw_cut_node_name((enum mw_cut_node)n), mw_tier_name((int)it->in[n]));
    mw_json_begin(json, "bytes", '{', true);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        mw_json_integer(json, mw_tier_name(tier), (int64_t)it->bytes[tier]);
    mw_json_end(json, '}');
    mw_json_number(json, "at_least_s", it->least_s);
    mw_json_string(json, "limit", mw_cut_lane_name(it->limit));
    mw_json_string(json, "strategy", strategy);
    mw_json_end(json, '}');
}

static void
write_placements(struct mw_json_writer *json, const char *key,
                 const struct mw_cut_placement *placements, int count)
{
    mw_json_begin(json, key, '[', false);
    for (int i = 0; i < count; i++)
        write_placement(json, &placements[i]);
    mw_json_end(json, ']');
}

void
mw_json_cuts_write(FILE *out, const struct mw_cut_placements *placements,
                   const struct mw_result *result)
{
    const struct mw_cuts cuts = mw_cuts_count();
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, MW_SCHEMA_CUTS);
    mw_json_string(&json, "model", result->model);
    mw_json_string(&json, "hardware", result->hardware);
    mw_json_integer(&json, "cuts", cuts.all);
    mw_json_integer(&json, "cuts_with_passes_on_gpu", cuts.passes_on_gpu);
    mw_json_integer(&json, "least_link_bytes_per_parameter", cuts.least_link_bytes);
    write_cuts(&json, "least", cuts.least, cuts.least_count);
    write_cuts(&json, "front", cuts.front, cuts.front_count);
    mw_json_integer(&json, "placements", placements->count);
    mw_json_integer(&json, "placements_that_fit", placements->fitting);
    write_placements(&json, "placements_front", placements->front, placements->front_count);
    write_placements(&json, "placements_of_strategies", placements->named, placements->named_count);
    mw_json_end(&json, '}');
}
