#include "study/objective.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "planner/settings/table.h"
#include "study/objective_internal.h"

/* Of plans about as fast the one with the simpler strategy and the nearer copies is taken. */
#define WORTH_COMPLEXITY 1.02

/* Batches: DPO's of 64 pairs (arXiv 2305.18290, App. B), which is also the reward model's of
 * InstructGPT, 64 prompts with at least one pair each; InstructGPT's of 512 answers for PPO (arXiv
 * 2203.02155, App. C.2 and C.4). */
const struct mw_objective_row mw_objective_rows[MW_OBJECTIVE_COUNT] = {
    [MW_OBJECTIVE_CAUSAL] = {"causal", false, 0, 0, {{0}}},
    [MW_OBJECTIVE_DPO] = {"dpo",
                          true,
                          128,
                          2,
                          {{.role = "policy", .trained = true},
                           {.role = "reference", .compares = true}}},
    [MW_OBJECTIVE_REWARD] =
        {"reward", true, 128, 1, {{.role = "reward", .trained = true, .scores = true}}},
    [MW_OBJECTIVE_PPO] = {"ppo",
                          false,
                          512,
                          4,
                          {{.role = "actor", .trained = true},
                           {.role = "critic", .trained = true, .scores = true, .judges = true},
                           {.role = "reference", .compares = true},
                           {.role = "reward", .scores = true, .judges = true}}},
};

const char *
mw_objective_name(enum mw_objective_kind kind)
{
    return mw_objective_rows[kind].name;
}

/* --- what is refused ------------------------------------------------------------------------- */

bool
mw_objective_check_settings(const struct mw_settings *s, GError **error)
{
    enum mw_objective_kind kind = (enum mw_objective_kind)s->objective;
    bool dpo = kind == MW_OBJECTIVE_DPO, ppo = kind == MW_OBJECTIVE_PPO;
    const char *alien = s->frozen_device != MW_AUTO && !dpo && !ppo ? "frozen-device"
                        : s->reference_before && !dpo               ? "reference-logprobs"
                        : s->response != MW_AUTO && !ppo            ? "response"
                        : s->critic && !ppo                         ? "critic"
                                                                    : NULL;

    if (alien && s->serve)
        return mw_refuse(error,
                         "{%s}: is of fine-tuning from preferences; {serve} generates tokens: "
                         "leave it out",
                         alien);
    return !alien ||
           mw_refuse(error, "{%s}: there is none with {objective=%s}; give {objective=%s}", alien,
                     mw_objective_rows[kind].name,
                     !strcmp(alien, "response") || !strcmp(alien, "critic") ? "ppo" : "dpo");
}

static bool
refuse_setting(const struct mw_question *question, const char *setting, const char *why,
               GError **error)
{
    return mw_refuse(error, "{objective=%s}: %s; leave out {%s}",
                     mw_objective_rows[question->settings.objective].name, why, setting);
}

/* Whether a step needs models beside those whose weights are trained, or trained beside. */
static bool
keeps_copies(const struct mw_settings *s)
{
    const struct mw_objective_row *row = &mw_objective_rows[s->objective];
    bool copies = false;

    for (int m = 0; m < row->part_count; m++)
        copies |= !row->parts[m].trained &&
                  !(row->parts[m].compares && mw_objective_only_adapters(&s->trained));
    return copies && !s->reference_before;
}

static bool
check(const struct mw_question *question, GError **error)
{
    const struct mw_settings *s = &question->settings;
    const struct mw_model *model = &question->model;

    if (question->strategy_count > 1)
        return mw_refuse(error, "{objective=%s}: of one {strategy}, not of a list",
                         mw_objective_rows[s->objective].name);
    if (s->pp > 1)
        return refuse_setting(question, mw_settings_takes_turns(s) ? "stage-replicas" : "pp",
                              "phases of several models are not cut into stages", error);
    if (s->cp > 1)
        return refuse_setting(question, "cp", "phases of several models keep sequences whole",
                              error);
    if (s->ep > 1)
        return refuse_setting(question, "ep", "phases of several models keep all experts on a GPU",
                              error);
    if (s->dpu_start != MW_AUTO)
        return refuse_setting(question, "dpu-start",
                              "an update cannot run beside another model's pass", error);
    if (s->drop_layers)
        return refuse_setting(question, "drop-layers", "all layers are computed", error);
    if (s->tokens > 0)
        return refuse_setting(question, "tokens", "days are those of training on texts", error);
    if (s->serve)
        return refuse_setting(question, "serve", "it trains", error);
    if (s->frozen_device != MW_AUTO && !keeps_copies(s))
        return refuse_setting(question, "frozen-device",
                              s->reference_before
                                  ? "the reference is done before training, and keeps no copy"
                                  : "the reference is the trained model without its adapters, and "
                                    "no copy is kept",
                              error);
    if (!mw_model_logits(model) || model->classes || model->described)
        return mw_refuse(error,
                         "{objective=%s}: takes a language model that this version knows, and %s "
                         "%s",
                         mw_objective_rows[s->objective].name, model->name,
                         model->described ? "is a described one"
                                          : "has no vocabulary to answer in");
    int64_t seq = s->seq == MW_AUTO ? mw_settings_default_seq(model) : s->seq;
    if (s->response >= seq)
        return mw_refuse(error,
                         "{response=%" G_GINT64_FORMAT "}: {seq} has %" G_GINT64_FORMAT
                         " tokens, prompt and response: give less, or a longer {seq}",
                         s->response, seq);
    return mw_objective_check_batch(question, error);
}

/* --- the search ------------------------------------------------------------------------------ */

static double
lack_of(const struct mw_objective *out)
{
    return (double)out->short_bytes / (double)MAX(1, out->capacity_bytes[out->limiting_tier]);
}

static bool
is_better(const struct mw_objective_attempt *one, const struct mw_objective_attempt *than)
{
    const struct mw_objective *a = &one->out, *b = than ? &than->out : NULL;

    if (!b || a->fits != b->fits)
        return !b || a->fits;
    if (!a->fits)
        return lack_of(a) < lack_of(b);
    return a->global_batch / a->step_s[MW_OUTLOOK_TYPICAL] >
           WORTH_COMPLEXITY * b->global_batch / b->step_s[MW_OUTLOOK_TYPICAL];
}

/* A copy is tried in every tier that the machine has; without copies there is one attempt. */
static bool
tries_tier(const struct mw_question *question, enum mw_tier tier)
{
    const struct mw_settings *s = &question->settings;

    if (!keeps_copies(s))
        return tier == MW_TIER_GPU;
    if (s->frozen_device != MW_AUTO)
        return s->frozen_device == (int)tier;
    return tier != MW_TIER_NVME || question->hardware[MW_OUTLOOK_TYPICAL].nvme_capacity_bytes > 0;
}

static bool
is_too_large(const GError *error)
{
    return g_error_matches(error, MW_ERROR, MW_ERROR_LARGE);
}

/* Of several refusals a step that takes too long to plan is the one to tell, else the first. */
static void
keep_refusal(GError **refused, GError *next)
{
    if (*refused && (is_too_large(*refused) || !is_too_large(next))) {
        g_error_free(next);
        return;
    }
    g_clear_error(refused);
    *refused = next;
}

/* With other batches the strategies' order changes, but not by more than this. */
#define WORTH_OTHER_BATCHES 0.85

/* What came of the attempts with an open batch. */
struct rates {
    double of[MW_STRATEGY_COUNT][MW_TIER_COUNT]; /* sequences per second; 0: does not fit */
    double best;
};

static void
set_rate(struct rates *rates, const struct mw_objective_attempt *attempt)
{
    const struct mw_objective *out = &attempt->out;
    double rate = out->fits ? out->global_batch / out->step_s[MW_OUTLOOK_TYPICAL] : 0;

    rates->of[attempt->strategy][attempt->tier] = rate;
    rates->best = fmax(rates->best, rate);
}

/* What did not fit with its own batch may with a smaller one. */
static bool
is_slow(const struct rates *rates, enum mw_strategy strategy, int tier)
{
    double rate = rates->of[strategy][tier];

    return rate > 0 && rate < WORTH_OTHER_BATCHES * rates->best;
}

/* Takes ownership of the attempt; NULL is allowed. */
static void
take_better(struct mw_objective_attempt **best, struct mw_objective_attempt *next)
{
    if (next && is_better(next, *best)) {
        mw_objective_attempt_free(*best);
        *best = next;
    } else {
        mw_objective_attempt_free(next);
    }
}

/* Makes an attempt for each tier; keeps the best.  Sets the rates of an open batch, and reads them
 * of another one. */
static void
try_strategy(const struct mw_question *question, enum mw_strategy strategy, bool open,
             struct rates *rates, struct mw_objective_attempt **best, GError **refused)
{
    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        GError *why = NULL;
        if (!tries_tier(question, (enum mw_tier)tier) || (!open && is_slow(rates, strategy, tier)))
            continue;
        mw_progress("%s, frozen copies on %s", mw_strategy_name((int)strategy), mw_tier_name(tier));
        struct mw_objective_attempt *next =
            mw_objective_attempt_new(question, strategy, (enum mw_tier)tier, &why);
        if (why)
            keep_refusal(refused, why);
        if (open && next)
            set_rate(rates, next);
        take_better(best, next);
    }
}

static void
try_strategies(const struct mw_question *question, bool open, struct rates *rates,
               struct mw_objective_attempt **best, GError **refused)
{
    for (int i = 0; i < question->strategy_count; i++) {
        const struct mw_strategies asked = mw_strategies_of(question->strategies[i]);
        for (int s = 0; s < asked.count; s++)
            try_strategy(question, asked.one[s], open, rates, best, refused);
    }
}

/* The batch with which the trained model is fastest by itself need not leave the others room, nor
 * be the one with which the whole step is.  The attempts refer to the questions in `kept`. */
static void
try_batches(const struct mw_question *question, struct rates *rates,
            struct mw_objective_attempt **best, GPtrArray *kept)
{
    g_autoptr(GArray) batches = mw_objective_batches(question);
    double fits = INFINITY; /* a micro-batch above which none does */

    for (guint i = 0; i < batches->len; i++) {
        const struct mw_objective_batch *batch =
            &g_array_index(batches, struct mw_objective_batch, i);
        struct mw_objective_attempt *found = NULL;
        g_autoptr(GError) refused = NULL;
        if (batch->micro_batch > fits)
            break;
        struct mw_question *other = g_new(struct mw_question, 1);
        g_ptr_array_add(kept, other);
        *other = *question;
        other->settings.micro_batch = batch->micro_batch;
        other->settings.grad_accum = batch->grad_accum;
        try_strategies(other, false, rates, &found, &refused);
        if (found && !found->out.fits && batch->grad_accum == 1)
            fits = batch->micro_batch;
        take_better(best, found);
    }
}

static bool
find(const struct mw_question *question, struct mw_objective *out, GError **error)
{
    g_autoptr(GError) refused = NULL;
    g_autoptr(GPtrArray) kept = g_ptr_array_new_with_free_func(g_free);
    struct mw_objective_attempt *best = NULL;
    struct rates rates = {0};

    try_strategies(question, true, &rates, &best, &refused);
    try_batches(question, &rates, &best, kept);
    mw_progress_end();
    /* "Does not fit" of one strategy is no answer where another was not even looked at. */
    if (!best || (!best->out.fits && is_too_large(refused))) {
        mw_objective_attempt_free(best);
        g_propagate_error(error, g_steal_pointer(&refused));
        return false;
    }
    mw_objective_set_ends(best);
    mw_objective_set_plans(best);
    *out = best->out;
    mw_objective_attempt_free(best);
    return true;
}

void
mw_objective_clear(struct mw_objective *objective)
{
    for (int m = 0; m < objective->model_count; m++) {
        mw_result_free(objective->models[m].plan);
        objective->models[m].plan = NULL;
    }
}

/* What needs fewer bytes on the GPUs: another strategy, no copy of the reference, no state of most
 * parameters. */
static const char *const remedies[][2] = {
    {"strategy", "auto"}, {"reference-logprobs", "before"}, {"train", "lora:16"}};

static bool
apply_remedy(const char *const remedy[2], struct mw_question *question)
{
    const struct mw_setting *setting = mw_setting_find(remedy[0]);

    if (!setting) { /* strategies are no row of the table */
        bool open = question->strategies[0] == MW_STRATEGY_AUTO;
        question->strategies[0] = MW_STRATEGY_AUTO;
        question->strategy_count = 1;
        return !open;
    }
    return mw_setting_is_usual(setting, &question->settings) &&
           mw_setting_read(setting, remedy[1], false, &question->settings, NULL) &&
           mw_objective_check_settings(&question->settings, NULL);
}

/* One setting after the other, each by itself. */
static void
find_remedy(const struct mw_question *question, struct mw_objective *out)
{
    g_autofree struct mw_question *other = g_new(struct mw_question, 1);
    struct mw_objective changed;

    for (size_t i = 0; i < G_N_ELEMENTS(remedies); i++) {
        *other = *question;
        if (!apply_remedy(remedies[i], other) || !find(other, &changed, NULL))
            continue;
        bool fits = changed.fits;
        mw_objective_clear(&changed);
        if (!fits)
            continue;
        memcpy(out->remedy, remedies[i], sizeof out->remedy);
        return;
    }
}

bool
mw_objective_find(const struct mw_question *question, struct mw_objective *out, GError **error)
{
    if (!check(question, error))
        return false;
    if (question->settings.frozen_device == MW_TIER_NVME &&
        question->hardware[MW_OUTLOOK_TYPICAL].nvme_capacity_bytes <= 0)
        return mw_refuse(error, "{frozen-device=nvme}: the profile has no drives");
    if (!find(question, out, error))
        return false;
    if (!out->fits)
        find_remedy(question, out);
    return true;
}
