/* A remedy that keeps the global batch: the same sequences in more micro-batches. */
#include <glib.h>

#include "base/spell.h"
#include "planner/remedy/internal.h"

/* Finds the fewest micro-batches with which the strategy fits, if fewer than those found before;
 * `open` has a global batch with micro-batch and accumulation open. */
static void
split_with(const struct mw_unfit *unfit, const struct mw_settings *open, enum mw_strategy strategy,
           struct mw_settings *least)
{
    struct mw_settings asked = *open, s;

    asked.strategy = strategy;
    if (!mw_settings_complete(unfit->request, &asked, &s, NULL))
        return;
    g_autoptr(GPtrArray) found = mw_planner_fitting_candidates(unfit->request, &s);
    for (guint i = 0; i < found->len; i++) {
        const struct mw_settings *one = &((const struct mw_sizing *)found->pdata[i])->settings;
        if (least->grad_accum != MW_AUTO && least->grad_accum <= one->grad_accum)
            continue;
        least->micro_batch = one->micro_batch;
        least->grad_accum = one->grad_accum;
    }
}

/* The same with the strategy, or for auto with any; false: none fits. */
static bool
split_least(const struct mw_unfit *unfit, enum mw_strategy strategy, struct mw_settings *least)
{
    const struct mw_strategies strategies = mw_strategies_of(strategy);
    struct mw_settings open = *unfit->asked;

    open.strategy = strategy;
    open.micro_batch = MW_AUTO;
    open.grad_accum = MW_AUTO;
    *least = open;
    for (int i = 0; i < strategies.count; i++)
        split_with(unfit, &open, strategies.one[i], least);
    return least->grad_accum != MW_AUTO && mw_remedy_fits(unfit, least);
}

/* Whether both a global batch and its split were requested. */
static bool
is_split(const struct mw_settings *asked)
{
    return asked->global_batch != MW_AUTO &&
           (asked->micro_batch != MW_AUTO || asked->grad_accum != MW_AUTO);
}

/* "batch=16 grad-accum=16 fits"; if a DeepSpeed file gave the batch, also with the file's keys. */
static char *
split_text(const struct mw_unfit *unfit, const struct mw_settings *s)
{
    const struct mw_settings *asked = unfit->asked;
    GString *text = g_string_new(NULL);
    bool named = asked->micro_batch != MW_AUTO;
    g_autofree char *group = named ? mw_batch_per_group(asked, s->micro_batch) : NULL;

    if (s->strategy != asked->strategy)
        mw_spelled_append(text, "{strategy=%s} ", mw_strategy_name((int)s->strategy));
    if (named)
        mw_spelled_append(text, "{batch=%.15g} ", s->micro_batch);
    mw_spelled_append(text, "{grad-accum=%" G_GINT64_FORMAT "} ", s->grad_accum);
    mw_remedy_keep_software(unfit, s->strategy, s->tp, text);
    g_string_append(text, "fits");
    if (named && asked->batch_source)
        g_string_append_printf(text,
                               " (in the file train_micro_batch_size_per_gpu %.15g, "
                               "gradient_accumulation_steps %" G_GINT64_FORMAT ")",
                               s->micro_batch * (double)mw_settings_sharers(s), s->grad_accum);
    else if (group)
        g_string_append_printf(text, " (%s)", group);
    return g_string_free(text, FALSE);
}

char *
mw_remedy_accumulation(const struct mw_unfit *unfit)
{
    const struct mw_settings *asked = unfit->asked;
    struct mw_settings s;

    return is_split(asked) && split_least(unfit, asked->strategy, &s) ? split_text(unfit, &s)
                                                                      : NULL;
}

char *
mw_remedy_strategy_and_accumulation(const struct mw_unfit *unfit)
{
    const struct mw_settings *asked = unfit->asked;
    const struct mw_strategies others = mw_strategies_beyond(asked->strategy);
    struct mw_settings s;

    if (!is_split(asked))
        return NULL;
    for (int i = 0; i < others.count; i++)
        if (split_least(unfit, others.one[i], &s))
            return split_text(unfit, &s);
    return NULL;
}

char *
mw_remedy_one_micro_batch(const struct mw_unfit *unfit)
{
    struct mw_settings s = *unfit->asked;

    if (s.global_batch != MW_AUTO || s.grad_accum <= 1)
        return NULL;
    s.grad_accum = 1;
    return mw_remedy_fits(unfit, &s) ? mw_spelled("{grad-accum=1} fits") : NULL;
}
