#include "report/table.h"

#include "base/format.h"
#include "report/grid.h"

static char *
layers_text(const struct mw_result_stage *stage)
{
    int64_t last = stage->first_layer + stage->layers - 1;

    if (!stage->layers)
        return g_strdup("none");
    if (stage->stretches > 1 && stage->layers % stage->stretches)
        return g_strdup_printf("%" G_GINT64_FORMAT " in %" G_GINT64_FORMAT
                               " from %" G_GINT64_FORMAT,
                               stage->layers, stage->stretches, stage->first_layer);
    if (stage->stretches > 1)
        return g_strdup_printf("%" G_GINT64_FORMAT " x %" G_GINT64_FORMAT " from %" G_GINT64_FORMAT,
                               stage->stretches, stage->layers / stage->stretches,
                               stage->first_layer);
    return stage->layers == 1 ? g_strdup_printf("%" G_GINT64_FORMAT, last)
                              : g_strdup_printf("%" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                                                stage->first_layer, last);
}

static void
print_stage(struct mw_grid *grid, const struct mw_result *r, size_t index)
{
    const struct mw_result_stage *stage = &r->stages[index];
    g_autofree char *number = g_strdup_printf("%zu", index);
    g_autofree char *gpus = g_strdup_printf("%" G_GINT64_FORMAT, stage->gpus);
    g_autofree char *layers = layers_text(stage);
    g_autofree char *kept = g_strdup_printf("%" G_GINT64_FORMAT, stage->micro_batches);
    const char *busy =
        r->simulated ? mw_table_share(stage->compute_s, mw_result_shown_step_s(r)) : NULL;

    mw_grid_row(grid, number, gpus, layers, mw_format_count(stage->params), kept,
                mw_format_gib((double)stage->bytes[MW_TIER_GPU]),
                mw_format_gib((double)stage->bytes[MW_TIER_CPU]),
                mw_format_gib((double)stage->bytes[MW_TIER_NVME]), busy, NULL);
}

void
mw_table_stages(FILE *out, const struct mw_result *r)
{
    if (!r->stage_count)
        return;
    struct mw_grid *grid = mw_grid_new("rrlrrrrrr");
    mw_table_heading(out, "Stages of the pipeline (memory per GPU)");
    mw_grid_row(grid, "stage", "GPUs", "layers", "parameters",
                r->virtual_stages > 1 ? "passes kept" : "micro-batches kept", "gpu", "cpu", "nvme",
                r->simulated ? "computes" : NULL, NULL);
    for (size_t s = 0; s < r->stage_count; s++)
        print_stage(grid, r, s);
    mw_grid_print(grid, out, 2);
}
