/* The choice: strategies and batches that lead to the same plan, open or asked for. */
#include <limits.h>
#include <math.h>

#include "study/choose_internal.h"
#include "study/evaluate.h"

/* The result for an open batch is the result of requesting that batch. */
static void
choose_as_if_asked(struct mw_choose_search *search, const struct mw_settings *asked,
                   struct mw_choice *choice)
{
    struct mw_settings settings = *asked;
    struct mw_choice again;

    if (asked->micro_batch != MW_AUTO || !mw_choice_fits(choice))
        return;
    settings.micro_batch = choice->sizing->settings.micro_batch;
    settings.grad_accum = choice->sizing->settings.grad_accum;
    if (mw_choose_among(search, &settings, &again, NULL)) {
        mw_choice_clear(choice);
        *choice = again;
    }
}

static bool
same_batch(const struct mw_choice *one, const struct mw_choice *other)
{
    const struct mw_settings *a = &one->sizing->settings, *b = &other->sizing->settings;

    return a->micro_batch == b->micro_batch && a->grad_accum == b->grad_accum;
}

/* The most micro-batches of a size within the default step. */
static int64_t
most_micro_batches(const struct mw_settings *asked, const struct mw_choice *choice,
                   double micro_batch)
{
    struct mw_settings s = choice->sizing->settings;

    s.micro_batch = micro_batch;
    s.step_tokens_max = asked->step_tokens_max;
    if (s.step_tokens_max == MW_AUTO)
        s.step_tokens_max = mw_default_step_tokens(choice->sizing->model, &s);
    return mw_most_micro_batches(&s);
}

/* Whether its step has no room for one more. */
static bool
is_full(const struct mw_settings *asked, const struct mw_choice *choice)
{
    const struct mw_settings *s = &choice->sizing->settings;

    return s->grad_accum == most_micro_batches(asked, choice, s->micro_batch);
}

/* A step that had no room for one more micro-batch may have for one of another split. */
static void
fill_step(struct mw_choose_search *search, const struct mw_settings *asked,
          struct mw_choice *choice)
{
    struct mw_settings settings = *asked;
    struct mw_choice other;

    settings.micro_batch = choice->sizing->settings.micro_batch;
    settings.grad_accum = most_micro_batches(asked, choice, settings.micro_batch);
    if (settings.grad_accum > choice->sizing->settings.grad_accum &&
        mw_choose_among(search, &settings, &other, NULL))
        mw_choose_take_better(search, choice, &other);
}

/* At least as fast as requesting the same global batch, which may be split differently. */
static void
try_global_batch(struct mw_choose_search *search, const struct mw_settings *asked,
                 struct mw_choice *choice)
{
    struct mw_settings settings = *asked;
    struct mw_choice other;

    if (asked->micro_batch != MW_AUTO || asked->global_batch != MW_AUTO ||
        asked->grad_accum != MW_AUTO || !mw_choice_fits(choice))
        return;
    settings.global_batch =
        llround(mw_tokens_per_step(choice->sizing) / (double)choice->sizing->settings.seq);
    if (!mw_choose_among(search, &settings, &other, NULL))
        return;
    if (same_batch(choice, &other)) { /* as which it has been asked for already */
        mw_choice_clear(&other);
        return;
    }
    choose_as_if_asked(search, &settings, &other);
    if (mw_choice_fits(&other) && is_full(asked, choice))
        fill_step(search, asked, &other);
    mw_choose_take_better(search, choice, &other);
}

/* Micro-batches of another size, for a step of as many sequences or, where it is open and full, for
 * a full one.  Whether it was faster, and is the choice now. */
static bool
try_size(struct mw_choose_search *search, const struct mw_settings *asked, struct mw_choice *choice,
         int64_t sequences)
{
    const struct mw_settings *now = &choice->sizing->settings;
    int64_t grain = mw_settings_batch_grain(now);
    double sharers = (double)mw_settings_sharers(now);
    int64_t of_step = llround(now->micro_batch * sharers) * now->grad_accum;
    struct mw_settings settings = *asked;

    if (sequences < 1 || of_step / sequences < grain)
        return false;
    settings.strategy = now->strategy;
    settings.micro_batch = (double)sequences / sharers;
    settings.grad_accum = of_step / sequences / grain * grain;
    if (asked->global_batch == MW_AUTO && is_full(asked, choice))
        settings.grad_accum = MAX(grain, most_micro_batches(asked, choice, settings.micro_batch));
    settings.global_batch = MW_AUTO;
    struct mw_choice other =
        mw_choose_of_strategy(search, &settings, (struct mw_choose_present){0, INT_MAX});
    bool faster = mw_choice_fits(&other) && mw_choose_is_better(search, &other, choice) &&
                  mw_choose_rate(search, &other) > SAME_RATE * mw_choose_rate(search, choice);
    if (faster) {
        mw_choice_clear(choice);
        *choice = other;
    } else {
        mw_choice_clear(&other);
    }
    return faster;
}

/* The next size, up or down, into which the sequences of a step can be split; 0: none. */
static int64_t
next_split(const struct mw_settings *now, int64_t here, int way)
{
    int64_t of_step = here * now->grad_accum, grain = mw_settings_batch_grain(now);

    for (int64_t size = here + way; size >= 1 && size <= of_step / grain; size += way)
        if (of_step % size == 0 && of_step / size % grain == 0)
            return size;
    return 0;
}

/* Larger micro-batches compute faster, smaller ones leave room for layers that keep their
 * activations: between the sizes that were tried there may be a better one. */
static bool
climb_sizes(struct mw_choose_search *search, const struct mw_settings *asked,
            struct mw_choice *choice)
{
    bool open = asked->micro_batch == MW_AUTO && asked->grad_accum == MW_AUTO;
    bool given = asked->global_batch != MW_AUTO, climbed = false,
         better = open && mw_choice_fits(choice);

    while (better) {
        const struct mw_settings *now = &choice->sizing->settings;
        int64_t here = llround(now->micro_batch * (double)mw_settings_sharers(now));
        int64_t less = given ? next_split(now, here, -1) : here > 2 ? here - 1 : 0;
        int64_t more = given ? next_split(now, here, 1) : here + 1;
        better = (!given && try_size(search, asked, choice, here / 2)) ||
                 try_size(search, asked, choice, less) || try_size(search, asked, choice, more);
        climbed = climbed || better;
    }
    return climbed;
}

static bool
choose_batch(struct mw_choose_search *search, const struct mw_settings *asked,
             struct mw_choice *choice, GError **error)
{
    if (!mw_choose_among(search, asked, choice, error))
        return false;
    choose_as_if_asked(search, asked, choice);
    try_global_batch(search, asked, choice);
    if (climb_sizes(search, asked, choice))
        choose_as_if_asked(search, asked, choice);
    return true;
}

static bool
search_best(struct mw_choose_search *search, enum mw_strategy strategy, struct mw_choice *choice,
            GError **error)
{
    const struct mw_question *question = search->question;
    struct mw_settings asked = question->settings;

    asked.strategy = strategy;
    bool good = choose_batch(search, &asked, choice, error);
    if (good && search->keeps_plan)
        mw_choice_build_plan(choice);
    if (!good)
        mw_choose_refuse(question, &asked, error);
    return good;
}

bool
mw_choose(const struct mw_question *question, enum mw_strategy strategy, bool keeps_plan,
          struct mw_choice *choice, GError **error)
{
    struct mw_choose_search search = {question, keeps_plan, false, mw_choose_known_new()};
    bool good = search_best(&search, strategy, choice, error);

    g_array_unref(search.known);
    return good;
}

bool
mw_choose_by_estimate(const struct mw_question *question, enum mw_strategy strategy,
                      struct mw_choice *choice, GError **error)
{
    struct mw_choose_search search = {question, false, true, NULL};

    return search_best(&search, strategy, choice, error);
}
