/* What would make it fit, on the machines that are shipped: every proposal, when followed, fits,
 * and none is far dearer than with another strategy.  An option that takes memory is dropped if
 * that suffices. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "hardware/priced.h"
#include "planner/planner.h"
#include "tests/cases.h"
#include "tests/remedy_text.h"

#define QUESTIONS MW_CASES_ONE_IN(8, 100)
#define FAR 2.02 /* of two prices, each to three figures */

struct question {
    guint32 seed;
    const char *model_name;
    struct mw_model model;
    struct mw_profile *profile;
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
        .count = 1, .part = {{g_rand_int_range(random, 0, MW_TIER_COUNT), INT64_MAX, 0}}};
}

/* What else takes memory. */
static void
draw_costly(GRand *random, struct mw_settings *s)
{
    if (once_in(random, 8))
        s->dpu_start = 40;
    if (once_in(random, 8))
        s->layout = MW_LAYOUT_PAPER20;
    if (once_in(random, 8))
        s->param_loads = 2;
    if (once_in(random, 8))
        s->partition = MW_PARTITION_OWNER;
    if (once_in(random, 8))
        s->save_every = 10;
    if (once_in(random, 8))
        s->grad_accum = 8;
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
    draw_costly(random, &s);
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
            q->seed, q->model_name, mw_profile_name(q->profile), mw_strategy_name(s->strategy),
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
        if (!mw_settings_complete(request, &asked, &resolved, NULL))
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
    struct mw_remedy_here here = {
        .profile = q->profile, .outlook = MW_OUTLOOK_TYPICAL, .replaceable = true};
    struct mw_sizing *sizing = answer(&request, settings);
    char *text =
        sizing && !sizing->fits ? mw_planner_remedy(&request, settings, sizing, &here) : NULL;

    mw_sizing_free(sizing);
    return text;
}

static enum remedy
check_way(const struct question *q, const char *way)
{
    struct remedy_request followed = {q->settings, mw_profile_copy(q->profile)};
    enum remedy kind = remedy_follow(way, &followed);
    g_autoptr(GError) error = NULL;

    if (!mw_profile_check(followed.profile, &error))
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
    mw_profile_free(followed.profile);
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
    s.param_loads = MW_AUTO;
    s.partition = MW_PARTITION_AUTO;
    s.dpu_start = MW_AUTO;
    s.layout = MW_LAYOUT_ZERO16;
    s.save_every = 0;
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
        mw_profile_free(q.profile);
    }
    for (int i = 0; i < REMEDY_KINDS; i++)
        g_test_message("ways of kind %d: %d", i, kinds[i]);
    g_test_message("%d prices compared", prices);
    g_assert_cmpint(prices, >, QUESTIONS / 10);
    if (MW_FEW_CASES) /* need not meet every kind */
        return;
    g_assert_cmpint(kinds[REMEDY_MACHINE], >, 0);
    g_assert_cmpint(kinds[REMEDY_SEVERAL], >, 0);
    g_assert_cmpint(kinds[REMEDY_SET], >, 0);
    g_assert_cmpint(kinds[REMEDY_CHECKPOINTS], >, 0);
}

/* --- each option ----------------------------------------------------------------------------- */

struct costly {
    const char *remedy;
    struct mw_settings settings;
    size_t memory; /* of which it takes more, in struct mw_hardware */
};

static struct mw_settings
plain(enum mw_strategy strategy)
{
    struct mw_settings s;

    mw_settings_init(&s);
    s.strategy = strategy;
    s.micro_batch = 1;
    return s;
}

static bool
fits_in(struct question *q, struct mw_hardware *hardware, const struct costly *costly,
        const struct mw_settings *settings, int64_t bytes)
{
    struct mw_request request = {&q->model, hardware};
    struct mw_settings resolved;

    memcpy((char *)hardware + costly->memory, &bytes, sizeof bytes);
    return mw_settings_complete(&request, settings, &resolved, NULL) &&
           mw_planner_fits(&request, &resolved);
}

static int64_t
least_memory(struct question *q, struct mw_hardware *hardware, const struct costly *costly,
             const struct mw_settings *settings)
{
    int64_t low = -1, high = INT64_C(1) << 44;

    g_assert_true(fits_in(q, hardware, costly, settings, high));
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        bool fits = fits_in(q, hardware, costly, settings, middle);
        low = fits ? low : middle;
        high = fits ? middle : high;
    }
    return high;
}

/* In a memory that has room for all but what the option takes. */
static void
check_dropped(struct question *q, const struct costly *costly)
{
    struct mw_hardware hardware = mw_hwprofile_read(q->profile, MW_OUTLOOK_TYPICAL);
    struct mw_request request = {&q->model, &hardware};
    struct remedy_request followed = {costly->settings, NULL};

    if (costly->memory == offsetof(struct mw_hardware, gpu_memory_bytes))
        hardware.host_memory_bytes = hardware.nvme_capacity_bytes = 0; /* nothing to offload to */
    hardware.memory_use.bytes_per_logit = 1e-9; /* of software whose bytes are shared anyhow */
    remedy_follow(costly->remedy, &followed);
    int64_t with = least_memory(q, &hardware, costly, &costly->settings);
    int64_t without = least_memory(q, &hardware, costly, &followed.settings);
    g_test_message("%s: %.3f GiB, %.3f without", costly->remedy, (double)with / 0x1p30,
                   (double)without / 0x1p30);
    g_assert_cmpint(without, <, with);
    g_assert_false(fits_in(q, &hardware, costly, &costly->settings, without));
    struct mw_sizing *sizing = answer(&request, &costly->settings);
    g_assert_true(sizing && !sizing->fits);
    g_autofree char *text = mw_planner_remedy(&request, &costly->settings, sizing, NULL);
    mw_sizing_free(sizing);
    g_assert_cmpstr(text, ==, costly->remedy);
}

/* Rows, each of a setting that takes more of the memory. */
static void
test_dropped(void)
{
    const size_t gpu = offsetof(struct mw_hardware, gpu_memory_bytes);
    const size_t host = offsetof(struct mw_hardware, host_memory_bytes);
    const size_t nvme = offsetof(struct mw_hardware, nvme_capacity_bytes);
    struct costly costly[] = {
        {"--activation-checkpoint-interval 1 fits", plain(MW_STRATEGY_ZERO3), gpu},
        {"--prefetch 1 fits", plain(MW_STRATEGY_ZERO3), gpu},
        {"--param-loads 3 fits", plain(MW_STRATEGY_ZERO3), gpu},
        {"--partition bandwidth fits", plain(MW_STRATEGY_ZERO3), gpu},
        {"--state-layout zero16 fits", plain(MW_STRATEGY_ZERO3), gpu},
        {"--grad-accum 1 fits", plain(MW_STRATEGY_ZERO3), gpu},
        {"--optimizer-chunk auto fits", plain(MW_STRATEGY_ZERO_INFINITY_NVME), host},
        {"--buffer-sets 3 fits", plain(MW_STRATEGY_ZERO_INFINITY_NVME), host},
        {"--dpu-start none fits", plain(MW_STRATEGY_ZERO_OFFLOAD), host},
        {"--save-every 0 fits", plain(MW_STRATEGY_ZERO3), nvme},
        {"--commit none fits", plain(MW_STRATEGY_ZERO_INFINITY_NVME), nvme},
    };
    const struct mw_placement on_drives = {.count = 1, .part = {{MW_TIER_NVME, INT64_MAX, 0}}};
    struct costly *row = costly;
    g_autoptr(GError) error = NULL;
    struct question q = {.model_name = "gpt3-13b"};

    row++->settings.checkpoint_interval = 0;
    row++->settings.prefetch = 32;
    row++->settings.param_loads = 2;
    row->settings.grad_accum = 2;
    row++->settings.partition = MW_PARTITION_OWNER;
    row++->settings.layout = MW_LAYOUT_PAPER20;
    row++->settings.grad_accum = 8;
    row->settings.placement[MW_STATE_OPTIMIZER] = on_drives;
    row++->settings.optimizer_chunk = 1000000000;
    row->settings.placement[MW_STATE_OPTIMIZER] = on_drives;
    row++->settings.buffer_sets = 64;
    row++->settings.dpu_start = 40;
    row++->settings.save_every = 10;
    row->settings.commit = 1;
    row++->settings.placement[MW_STATE_OPTIMIZER] = on_drives;
    g_assert_true(row == costly + G_N_ELEMENTS(costly));

    g_assert_true(mw_model_load(q.model_name, &q.model, &error));
    q.profile = mw_hwprofile_load("flat-test", &error);
    g_assert_no_error(error);
    for (size_t i = 0; i < G_N_ELEMENTS(costly); i++)
        check_dropped(&q, &costly[i]);
    mw_profile_free(q.profile);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    remedy_text_spell();
    g_setenv("XDG_CONFIG_HOME", "/nonexistent", TRUE); /* shipped profiles only */
    g_test_add_func("/remedies/followed", test_followed);
    g_test_add_func("/remedies/dropped", test_dropped);
    return g_test_run();
}
