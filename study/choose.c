/* The choice: strategies and batches that lead to the same plan, open or asked for. */
#include <limits.h>
#include <math.h>

#include "study/choose_internal.h"
#include "study/evaluate.h"

static bool
is_open(const struct mw_settings *asked)
{
    return asked->micro_batch == MW_AUTO && asked->global_batch == MW_AUTO &&
           asked->grad_accum == MW_AUTO;
}

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

/* As many micro-batches as the default step has room for: what was tried was quick to plan, or had
 * no room for one more of another size. */
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

/* Micro-batches of another size, for a step of as many sequences or, where it is open and full, for
 * a full one.  Whether it is faster than `top`, and takes its place. */
static bool
try_size(struct mw_choose_search *search, const struct mw_settings *asked, struct mw_choice *top,
         int64_t sequences)
{
    const struct mw_settings *now = &top->sizing->settings;
    int64_t grain = mw_settings_batch_grain(now);
    double sharers = (double)mw_settings_sharers(now);
    int64_t of_step = llround(now->micro_batch * sharers) * now->grad_accum;
    struct mw_settings settings = *asked;

    if (sequences < 1 || of_step / sequences < grain)
        return false;
    settings.strategy = now->strategy;
    settings.micro_batch = (double)sequences / sharers;
    settings.grad_accum = of_step / sequences / grain * grain;
    if (asked->global_batch == MW_AUTO && is_full(asked, top))
        settings.grad_accum = MAX(grain, most_micro_batches(asked, top, settings.micro_batch));
    settings.global_batch = MW_AUTO;
    struct mw_choice other =
        mw_choose_of_strategy(search, &settings, (struct mw_choose_present){0, INT_MAX});
    bool faster = mw_choice_fits(&other) &&
                  mw_choose_lacks(search, &other) <= mw_choose_lacks(search, top) &&
                  mw_choose_rate(search, &other) > SAME_RATE * mw_choose_rate(search, top);
    struct mw_choice slower = faster ? *top : other;
    if (faster)
        *top = other;
    mw_choice_clear(&slower);
    return faster;
}

/* The next size from `size` on, down or up, into which the sequences of a step can be split; 0:
 * none. */
static int64_t
next_split(const struct mw_settings *now, int64_t size, int way)
{
    int64_t of_step =
        llround(now->micro_batch * (double)mw_settings_sharers(now)) * now->grad_accum;
    int64_t grain = mw_settings_batch_grain(now);

    for (; size >= 1 && size <= of_step / grain; size += way)
        if (of_step % size == 0 && of_step / size % grain == 0)
            return size;
    return 0;
}

/* The choice with micro-batches of another size, or nothing if there is none faster: a half, or the
 * next ones. */
static struct mw_choice
climb(struct mw_choose_search *search, const struct mw_settings *asked,
      const struct mw_choice *choice)
{
    struct mw_settings settings = choice->sizing->settings;
    struct mw_choice top = {.keeps_plan = search->keeps_plan};
    bool given = asked->global_batch != MW_AUTO, climbed = false;

    top.sizing = mw_sizing_new(choice->sizing->model, choice->sizing->hardware, &settings, NULL);
    for (bool faster = mw_choice_fits(&top); faster; climbed = climbed || faster) {
        const struct mw_settings *now = &top.sizing->settings;
        int64_t here = llround(now->micro_batch * (double)mw_settings_sharers(now));
        int64_t sizes[] = {here / 2, here - 1, here + 1};
        faster = false;
        for (size_t i = 0; i < G_N_ELEMENTS(sizes) && !faster; i++) {
            int64_t size = given ? next_split(now, sizes[i], sizes[i] < here ? -1 : 1) : sizes[i];
            faster = try_size(search, asked, &top, size);
        }
    }
    if (!climbed)
        mw_choice_clear(&top);
    return top;
}

/* Larger micro-batches compute faster, smaller ones leave room for layers that keep their
 * activations: between the sizes that were tried there may be a better one. */
static bool
climb_sizes(struct mw_choose_search *search, const struct mw_settings *asked,
            struct mw_choice *choice)
{
    bool open = asked->micro_batch == MW_AUTO && asked->grad_accum == MW_AUTO;

    if (!open || !mw_choice_fits(choice))
        return false;
    struct mw_choice top = climb(search, asked, choice);
    bool better = top.sizing && mw_choose_is_better(search, &top, choice);
    struct mw_choice left = better ? *choice : top;
    if (better)
        *choice = top;
    mw_choice_clear(&left);
    return better;
}

/* At least as fast as requesting the same global batch, which may be split differently. */
static void
try_global_batch(struct mw_choose_search *search, const struct mw_settings *asked,
                 struct mw_choice *choice)
{
    struct mw_settings settings = *asked;
    struct mw_choice other;

    if (!is_open(asked) || !mw_choice_fits(choice))
        return;
    settings.global_batch =
        llround(mw_tokens_per_step(choice->sizing) / (double)choice->sizing->settings.seq);
    if (!mw_choose_among(search, &settings, &other, NULL))
        return;
    if (!climb_sizes(search, &settings, &other) && same_batch(choice, &other)) {
        mw_choice_clear(&other); /* as which it has been asked for already */
        return;
    }
    choose_as_if_asked(search, &settings, &other);
    if (mw_choice_fits(&other) && is_full(asked, choice))
        fill_step(search, asked, &other);
    mw_choose_take_better(search, choice, &other);
}

static bool
choose_batch(struct mw_choose_search *search, const struct mw_settings *asked,
             struct mw_choice *choice, GError **error)
{
    if (!mw_choose_among(search, asked, choice, error))
        return false;
    choose_as_if_asked(search, asked, choice);
    try_global_batch(search, asked, choice);
    if (is_open(asked) && mw_choice_fits(choice) && !is_full(asked, choice))
        fill_step(search, asked, choice);
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
