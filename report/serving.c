/* Generation of tokens: study/serving.h. */
#include "base/format.h"
#include "base/json_writer.h"
#include "base/schemas.h"
#include "report/grid.h"
#include "report/report.h"
#include "report/wrap.h"

static char *
home_text(const struct mw_serving *it, const struct mw_serving_row *row)
{
    static const char *const whole[] = {"on the GPU", "in host memory", "on drives"};
    GString *text = g_string_new(NULL);

    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        double share = row->home_share[tier];
        bool parts = tier == MW_TIER_GPU && row->shared && it->gpus_per_node > 1;
        if (share <= 0)
            continue;
        g_string_append(text, text->len ? ", " : "");
        if (share < 1)
            g_string_append_printf(text, "%.3g%% ", 100 * share);
        g_string_append(text, parts ? "in shares on the GPUs" : whole[tier]);
    }
    g_string_append(text, row->weights_in != MW_TIER_GPU ? ", streamed"
                          : row->shared                  ? ", gathered"
                                                         : "");
    return g_string_free(text, FALSE);
}

static void
print_memory(FILE *out, const struct mw_serving *it)
{
    const struct mw_serving_row *row = &it->rows[it->best < 0 ? 0 : it->best];

    mw_wrap_line(out, 14, "memory        GPU %s of %s; host memory %s of %s; drives %s of %s",
                 mw_format_gib((double)row->need[MW_TIER_GPU]),
                 mw_format_gib((double)it->capacity[MW_TIER_GPU]),
                 mw_format_gib((double)row->need[MW_TIER_CPU]),
                 mw_format_gib((double)it->capacity[MW_TIER_CPU]),
                 mw_format_bytes((double)row->need[MW_TIER_NVME]),
                 mw_format_bytes((double)it->capacity[MW_TIER_NVME]));
}

void
mw_table_serving(FILE *out, const struct mw_serving *it, const char *model, const char *hardware,
                 const char *software)
{
    struct mw_grid *grid = mw_grid_new("rlrrrrl");

    mw_wrap_line(out, 14,
                 "%-13s %s on %s, %" G_GINT64_FORMAT " GPU%s: prompts of %" G_GINT64_FORMAT
                 " tokens, then %" G_GINT64_FORMAT " each",
                 it->best < 0 ? "DOES NOT FIT" : "serves", model, hardware, it->gpus,
                 it->gpus == 1 ? "" : "s", it->prompt, it->generated);
    mw_wrap_line(out, 14, "software      kernels as %s starts and fuses them", software);
    mw_wrap_line(out, 14, "weights       %s%s%s; keys and values %s per token of a sequence",
                 mw_format_bytes((double)it->weights_bytes),
                 it->narrow == MW_DTYPE_NONE ? "" : ", those of layers' products in ",
                 it->narrow == MW_DTYPE_NONE ? "" : mw_dtype_name(it->narrow),
                 mw_format_bytes((double)it->token_cache_bytes));
    print_memory(out, it);
    fputc('\n', out);
    mw_grid_row(grid, "batch", "weights", "cache", "first token", "each next", "tokens/s", "limit",
                NULL);
    for (int i = 0; i < it->row_count; i++) {
        const struct mw_serving_row *row = &it->rows[i];
        g_autofree char *batch = g_strdup_printf("%" G_GINT64_FORMAT, row->batch);
        g_autofree char *home = home_text(it, row);
        if (!row->fits)
            continue;
        mw_grid_row(grid, batch, home, mw_format_bytes((double)row->cache_bytes),
                    mw_format_seconds(row->prompt_s), mw_format_seconds(row->token_s),
                    mw_format_significant(row->tokens_per_s), mw_serving_lane_name(row->limit),
                    NULL);
    }
    mw_grid_print(grid, it->best < 0 ? NULL : out, 0);
    mw_wrap_line(out, 0,
                 "Batch and cache are of one GPU, tokens per second of all together. No "
                 "step waits for another's transfers, and no server's own work is "
                 "counted: expect less.");
}

void
mw_json_serving_write(FILE *out, const struct mw_serving *it, const char *model,
                      const char *hardware, const char *software)
{
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, MW_SCHEMA_SERVING);
    mw_json_string(&json, "model", model);
    mw_json_string(&json, "hardware", hardware);
    mw_json_string(&json, "software", software);
    mw_json_boolean(&json, "feasible", it->best >= 0);
    mw_json_integer(&json, "gpus", it->gpus);
    mw_json_integer(&json, "prompt_tokens", it->prompt);
    mw_json_integer(&json, "generated_tokens", it->generated);
    mw_json_integer(&json, "weights_bytes", it->weights_bytes);
    mw_json_integer(&json, "cache_bytes_per_token", it->token_cache_bytes);
    mw_json_begin(&json, "batches", '[', false);
    for (int i = 0; i < it->row_count; i++) {
        const struct mw_serving_row *row = &it->rows[i];
        mw_json_begin(&json, NULL, '{', true);
        mw_json_integer(&json, "batch", row->batch);
        mw_json_boolean(&json, "feasible", row->fits);
        mw_json_string(&json, "weights_in", mw_tier_name((int)row->weights_in));
        mw_json_boolean(&json, "weights_once_per_node", row->shared);
        mw_json_begin(&json, "weights_home_bytes", '{', true);
        for (int tier = 0; tier < MW_TIER_COUNT; tier++)
            mw_json_integer(&json, mw_tier_name(tier), row->home_bytes[tier]);
        mw_json_end(&json, '}');
        mw_json_begin(&json, "need_bytes", '{', true);
        for (int tier = 0; tier < MW_TIER_COUNT; tier++)
            mw_json_integer(&json, mw_tier_name(tier), row->need[tier]);
        mw_json_end(&json, '}');
        mw_json_integer(&json, "cache_bytes", row->cache_bytes);
        mw_json_number(&json, "first_token_s", row->prompt_s);
        mw_json_number(&json, "token_s", row->token_s);
        mw_json_number(&json, "tokens_per_s", row->tokens_per_s);
        mw_json_string(&json, "limit", mw_serving_lane_name(row->limit));
        mw_json_end(&json, '}');
    }
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}
