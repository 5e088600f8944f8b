/* The number of tokens per step if no batch is requested. */
#include <glib.h>
#include <math.h>

#include "base/format.h"
#include "planner/planner.h"

/* GPT-3 (arXiv 2005.14165), Table 2.1: parameters, and tokens per batch.  Interpolated linearly in
 * both logarithms; constant before the first and after the last row. */
static const struct {
    double params, tokens;
} table[] = {
    {125e6, 0.5e6}, {350e6, 0.5e6}, {760e6, 0.5e6}, {1.3e9, 1e6},
    {2.7e9, 1e6},   {6.7e9, 2e6},   {13e9, 2e6},    {175e9, 3.2e6},
};
/* Tables round, so a step may be larger by this factor. */
#define TOLERANCE 1.05

/* Adapters are trained on few examples: as published with QLoRA, arXiv 2305.14314, whose scripts
 * have 16 sequences per step for 7 to 65 billion parameters. */
#define ADAPTED_SEQUENCES 16

static double
table_tokens(int64_t params)
{
    size_t last = G_N_ELEMENTS(table) - 1, row = 0;

    if (params <= table[0].params)
        return table[0].tokens;
    if (params >= table[last].params)
        return table[last].tokens;
    while (params > table[row + 1].params)
        row++;
    double along = log(params / table[row].params) / log(table[row + 1].params / table[row].params);
    return table[row].tokens * pow(table[row + 1].tokens / table[row].tokens, along);
}

double
mw_default_step_tokens(const struct mw_model *model, const struct mw_settings *settings)
{
    return settings->trained.rank ? ADAPTED_SEQUENCES * (double)settings->seq
                                  : table_tokens(mw_model_params(model));
}

char *
mw_default_step_source(const struct mw_model *model, const struct mw_settings *settings)
{
    const char *tokens = mw_format_count(mw_default_step_tokens(model, settings));

    if (settings->trained.rank)
        return g_strdup_printf("%s tokens of the %d sequences with which QLoRA was published",
                               tokens, ADAPTED_SEQUENCES);
    return g_strdup_printf("%s tokens that GPT-3's table has for %s parameters", tokens,
                           mw_format_count((double)mw_model_params(model)));
}

/* How many batches of `each` tokens a step may have; at least one. */
static int64_t
most_of(const struct mw_settings *s, double each)
{
    if (s->step_tokens_max <= 0)
        return INT64_MAX;
    return MAX(1, (int64_t)(TOLERANCE * s->step_tokens_max / each));
}

int64_t
mw_most_sequences(const struct mw_settings *s)
{
    double groups = mw_settings_batch_gpus(s) / (double)mw_settings_sharers(s);
    double accum = s->grad_accum == MW_AUTO ? 1 : s->grad_accum;

    return most_of(s, groups * accum * s->seq);
}

int64_t
mw_most_micro_batches(const struct mw_settings *s)
{
    return most_of(s, mw_settings_batch_gpus(s) * s->micro_batch * s->seq);
}

bool
mw_exceeds_step_tokens(double step_tokens, double most)
{
    return most > 0 && step_tokens > TOLERANCE * most;
}
