/* Answers beside each other; machines beside each other. */
#include "report/html/internal.h"

bool
mw_page_comparison(struct mw_page *page, GError **error)
{
    static const struct mw_html_column columns[] = {
        {"it.strategy", "Strategy", false},
        {"pick", "Pick", false},
        {"it.model", "Model", false},
        {"it.hardware", "Machine", false},
        {"it.settings.nodes", "Nodes", false},
        {"it.settings.gpus_per_node", "GPUs per node", false},
        {"it.software", "Software", false},
        {"it.feasible", "Fits", false},
        {"it.step_time_s", "Step time", true},
        {"it.range.step_time_s.low", "at least", false},
        {"it.range.step_time_s.high", "at most", false},
        {"it.tokens_per_s", "Tokens/s", true},
        {"it.tflops_per_gpu", "Per GPU", false},
        {"it.mfu", "MFU", false},
        {"it.settings.micro_batch", "Batch per GPU", false},
        {"it.settings.global_batch", "Global batch", false},
        {"it.bottleneck", "Bottleneck", false},
        {"it.need_bytes.gpu", "GPU memory", false},
        {"it.need_bytes.cpu", "Host memory", false},
        {"it.need_bytes.nvme", "Drives", false},
        {"it.days", "Training takes", false},
        {"it.cost_usd", "Costs", false},
        {"it.energy_kwh", "Energy", false},
    };
    g_autoptr(GPtrArray) rows = mw_value_rows_new();

    for (guint i = 0; i < page->answers->len; i++) {
        const struct mw_page_answer *answer = page->answers->pdata[i];
        mw_value_rows_add(rows, "pick", answer->pick, answer->it);
    }
    mw_html_table(page->out,
                  "Answers compared; memory is that of one GPU, and its share of the node", columns,
                  G_N_ELEMENTS(columns), rows);
    return true;
}

static void
put_machines(GString *page, JsonObject *it, const char *key, const char *caption)
{
    static const struct mw_html_column columns[] = {
        {"machine", "Machine", false},
        {"nodes", "Nodes", false},
        {"strategy", "Strategy", false},
        {"step_time_s", "Step time", false},
        {"days", "Training takes", true},
        {"days_at_most", "at most", false},
        {"cost_usd", "Costs", true},
        {"cost_usd_at_most", "at most", false},
        {"rented", "Rented", false},
        {"margin", "Least margin", false},
        {"bottleneck", "Bottleneck", false},
        {"least_days", "Bound of days", false},
        {"least_cost_usd", "Bound of cost", false},
        {"price_from", "Price from", false},
        {"verdict", "Verdict", false},
        {"beaten_by.machine", "Beaten by", false},
        {"why", "Why", false},
    };

    mw_html_table_at(page, it, key, caption, columns, G_N_ELEMENTS(columns));
}

bool
mw_page_machines(struct mw_page *page, GError **error)
{
    for (guint i = 0; i < page->inputs->len; i++) {
        const struct mw_page_input *input = page->inputs->pdata[i];
        if (!mw_page_input_yields(input, MW_PAGE_MACHINES))
            continue;
        put_machines(page->out, input->it, "front", "Front of cost against time");
        put_machines(page->out, input->it, "nearest_budget",
                     "Nearest: within the deadline, for the least");
        put_machines(page->out, input->it, "nearest_deadline",
                     "Nearest: within the budget, the fastest");
        put_machines(page->out, input->it, "candidates", "All candidates");
    }
    return true;
}
