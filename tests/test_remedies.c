/* What would make it fit, on the machines that are shipped: every way out is followed and fits, and
 * none is far dearer than with another strategy. */
#include <stdio.h>
#include <string.h>

#include "planner/planner.h"
#include "planner/priced.h"
#include "tests/remedy_text.h"

#define QUESTIONS 200
#define FAR 2.02 /* of two prices, each to three figures */

struct question {
    guint32 seed;
    const char *model_name;
    struct mw_model model;
    struct mw_hwprofile *profile;
    struct mw_settings settings;
};

/* --- questions ------------------------------------------------------------------------------- */

static bool
once_in(GRand *random, int times)
{
    return g_rand_int_range(random, 0, times) == 0;
}

static void
draw_devices(GRand *random, struct mw_settings *s)
{
    static const enum mw_state states[] = {MW_STATE_PARAMETERS, MW_STATE_OPTIMIZER,
                                           MW_STATE_ACTIVATIONS};
    enum mw_state state = states[g_rand_int_range(random, 0, G_N_ELEMENTS(states))];

    s->placement[state] = (struct mw_placement){
        .count = 1, .part = {{g_rand_int_range(random, 0, MW_TIER_COUNT), INT64_MAX}}};
}

static struct mw_settings
draw_settings(GRand *random)
{
    static const double batches[] = {1, 5, 64};
    static const int64_t seqs[] = {2048, 8192, 32768};
    struct mw_settings s;

    mw_settings_init(&s);
    s.strategy = g_rand_int_range(random, MW_STRATEGY_AUTO, MW_STRATEGY_COUNT);
    if (!once_in(random, 3))
        s.micro_batch = batches[g_rand_int_range(random, 0, G_N_ELEMENTS(batches))];
    if (once_in(random, 6))
        s.global_batch = 4096;
    if (once_in(random, 2))
        s.seq = seqs[g_rand_int_range(random, 0, G_N_ELEMENTS(seqs))];
    if (once_in(random, 3))
        s.checkpoint_interval = g_rand_int_range(random, 0, 5);
    if (once_in(random, 4))
        s.prefetch = g_rand_int_range(random, 0, 5);
    if (once_in(random, 8))
        s.tp = 4;
    if (once_in(random, 6))
        draw_devices(random, &s);
    return s;
}

static void
question_init(struct question *q, guint32 seed, char **machines)
{
    static const char *const models[] = {
        "gpt2-xl",   "llama-3.1-8b", "gpt3-13b",       "llama-3.1-70b", "qwen2.5-72b",
        "gpt3-175b", "zi-0.5t",      "llama-3.1-405b", "deepseek-v3",   "kimi-k2"};
    g_autoptr(GRand) random = g_rand_new_with_seed(seed);
    g_autoptr(GError) error = NULL;

    *q = (struct question){.seed = seed};
    q->model_name = models[g_rand_int_range(random, 0, G_N_ELEMENTS(models))];
    g_assert_true(mw_model_load(q->model_name, &q->model, &error));
    q->profile = mw_hwprofile_load(
        machines[g_rand_int_range(random, 0, (gint32)g_strv_length(machines))], &error);
    g_assert_no_error(error);
    q->settings = draw_settings(random);
}

static void
fail(const struct question *q, const char *text, const char *why)
{
    const struct mw_settings *s = &q->settings;

    g_error("question %u: %s on %s, -s %s, batch %g, seq %d, interval %d, prefetch %d, tp %d: "
            "\"%s\": %s",
            q->seed, q->model_name, mw_hwprofile_name(q->profile), mw_strategy_name(s->strategy),
            s->micro_batch, (int)s->seq, (int)s->checkpoint_interval, (int)s->prefetch, (int)s->tp,
            text, why);
}

/* --- answers --------------------------------------------------------------------------------- */

/* The best of the strategies that may be, as mw_planner_candidates gives it; NULL: none can be
 * asked for.  mw_sizing_free it. */
static struct mw_sizing *
answer(const struct mw_request *request, const struct mw_settings *settings)
{
    int first = settings->strategy, last = first;
    struct mw_sizing *best = NULL;

    if (first == MW_STRATEGY_AUTO) {
        first = MW_STRATEGY_DDP;
        last = MW_STRATEGY_COUNT - 1;
    }
    for (int strategy = first; strategy <= last; strategy++) {
        struct mw_settings asked = *settings, resolved;
        asked.strategy = strategy;
        if (!mw_settings_resolve(request, &asked, &resolved, NULL))
            continue;
        g_autoptr(GPtrArray) found = mw_planner_candidates(request, &resolved, NULL);
        if (!found || (best && !mw_sizing_is_nearer(found->pdata[0], best)))
            continue;
        mw_sizing_free(best);
        best = g_steal_pointer(&found->pdata[0]);
    }
    return best;
}

/* NULL: it fits, or cannot be asked.  g_free it. */
static char *
remedy_of(const struct question *q, const struct mw_settings *settings)
{
    struct mw_hardware hardware = mw_hwprofile_read(q->profile, MW_OUTLOOK_TYPICAL);
    struct mw_request request = {&q->model, &hardware};
    struct mw_remedy_here here = {q->profile, MW_OUTLOOK_TYPICAL, true};
    struct mw_sizing *sizing = answer(&request, settings);
    char *text =
        sizing && !sizing->fits ? mw_planner_remedy(&request, settings, sizing, &here) : NULL;

    mw_sizing_free(sizing);
    return text;
}

static enum remedy
check_way(const struct question *q, const char *way)
{
    struct remedy_request followed = {q->settings, mw_hwprofile_copy(q->profile)};
    enum remedy kind = remedy_follow(way, &followed);
    g_autoptr(GError) error = NULL;

    if (!mw_hwprofile_check(followed.profile, &error))
        fail(q, way, error->message);
    struct mw_hardware hardware = mw_hwprofile_read(followed.profile, MW_OUTLOOK_TYPICAL);
    struct mw_request request = {&q->model, &hardware};
    struct mw_sizing *sizing = answer(&request, &followed.settings);
    if (kind != REMEDY_MEMORY && (!sizing || !sizing->fits))
        fail(q, way, sizing ? "it does not fit" : "it cannot be asked for");
    if (followed.settings.micro_batch != MW_AUTO &&
        (followed.settings.micro_batch != (int64_t)followed.settings.micro_batch) !=
            (strstr(way, "per group of") != NULL))
        fail(q, way, "parts of sequences without a word, or a word too much");
    mw_sizing_free(sizing);
    mw_hwprofile_free(followed.profile);
    return kind;
}

/* Of a kind the least that is said; 0: none is. */
static double
least_usd(const char *text, bool rent)
{
    double least = 0;

    for (const char *at = strchr(text, '('); at; at = strchr(at + 1, '(')) {
        double usd;
        char unit[2] = "", rest[16] = "";
        if (sscanf(at, "(%lf%1[M] USD%15[a-z ]", &usd, unit, rest) < 2 &&
            sscanf(at, "(%lf USD%15[a-z ]", &usd, rest) < 1)
            continue;
        usd *= unit[0] ? 1e6 : 1;
        if (g_str_has_prefix(rest, " an hour") == rent && (!least || usd < least))
            least = usd;
    }
    return least;
}

/* With strategy, devices and all that takes memory left to the planner. */
static struct mw_settings
released(const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    s.strategy = MW_STRATEGY_AUTO;
    memset(s.placement, 0, sizeof s.placement);
    s.checkpoint_interval = s.checkpoint_interval == MW_AUTO ? MW_AUTO : 1;
    s.prefetch = s.prefetch == MW_AUTO ? MW_AUTO : 1;
    return s;
}

/* Whether any prices were compared. */
static bool
check_prices(const struct question *q, const char *text)
{
    struct mw_settings open = released(&q->settings);
    g_autofree char *other = remedy_of(q, &open);
    bool any = false;

    if (!other)
        return false;
    if (g_str_has_prefix(text, "no machine") && !g_str_has_prefix(other, "no machine"))
        fail(q, text, other);
    for (int rent = 0; rent < 2; rent++) {
        double usd = least_usd(text, rent), less = least_usd(other, rent);
        any = any || (usd && less);
        if (usd && less && usd > FAR * less)
            fail(q, text, other);
    }
    return any;
}

static void
test_followed(void)
{
    g_auto(GStrv) machines = mw_hwprofile_list();
    int answers = 0, prices = 0, kinds[REMEDY_KINDS] = {0};

    for (guint32 seed = 1; answers < QUESTIONS; seed++) {
        struct question q;
        question_init(&q, seed, machines);
        g_autofree char *text = remedy_of(&q, &q.settings);
        g_auto(GStrv) ways = remedy_ways(text ? text : "");
        for (char **way = ways; *way && text; way++)
            kinds[check_way(&q, *way)]++;
        prices += text && check_prices(&q, text);
        answers += text != NULL;
        mw_hwprofile_free(q.profile);
    }
    for (int i = 0; i < REMEDY_KINDS; i++)
        g_test_message("ways of kind %d: %d", i, kinds[i]);
    g_test_message("%d prices compared", prices);
    g_assert_cmpint(prices, >, QUESTIONS / 10);
    g_assert_cmpint(kinds[REMEDY_MACHINE], >, 0);
    g_assert_cmpint(kinds[REMEDY_SEVERAL], >, 0);
    g_assert_cmpint(kinds[REMEDY_SET], >, 0);
    g_assert_cmpint(kinds[REMEDY_CHECKPOINTS], >, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_setenv("XDG_CONFIG_HOME", "/nonexistent", TRUE); /* shipped profiles only */
    g_test_add_func("/remedies/followed", test_followed);
    return g_test_run();
}
