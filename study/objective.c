#include "study/objective.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/typed.h"
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

static bool
check_batch(const struct mw_question *question, GError **error)
{
    const struct mw_settings *s = &question->settings;
    double sequences = s->micro_batch * (double)s->tp;

    if (!mw_objective_rows[s->objective].pairs || s->micro_batch == MW_AUTO ||
        fmod(sequences, 2) == 0)
        return true;
    g_autofree char *batch = mw_typed(s->micro_batch);
    return mw_refuse(error, "{batch=%s}: a pair is two sequences: must be even%s", batch,
                     s->tp > 1 ? ", times {tp}" : "");
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
        return refuse_setting(question, "pp", "phases of several models are not cut into stages",
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
    return check_batch(question, error);
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
    const struct mw_objective_row *row = &mw_objective_rows[s->objective];
    bool copies = false;

    for (int m = 0; m < row->part_count; m++)
        copies |= !row->parts[m].trained &&
                  !(row->parts[m].compares && mw_objective_only_adapters(&s->trained));
    if (!copies || s->reference_before)
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

/* Makes an attempt for each tier; keeps the best. */
static void
try_strategy(const struct mw_question *question, enum mw_strategy strategy,
             struct mw_objective_attempt **best, GError **refused)
{
    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        GError *why = NULL;
        if (!tries_tier(question, (enum mw_tier)tier))
            continue;
        mw_progress("%s, frozen copies on %s", mw_strategy_name((int)strategy), mw_tier_name(tier));
        struct mw_objective_attempt *next =
            mw_objective_attempt_new(question, strategy, (enum mw_tier)tier, &why);
        if (why)
            keep_refusal(refused, why);
        if (next && is_better(next, *best)) {
            mw_objective_attempt_free(*best);
            *best = g_steal_pointer(&next);
        }
        mw_objective_attempt_free(next);
    }
}

static bool
find(const struct mw_question *question, struct mw_objective *out, GError **error)
{
    g_autoptr(GError) refused = NULL;
    struct mw_objective_attempt *best = NULL;

    for (int i = 0; i < question->strategy_count; i++) {
        const struct mw_strategies asked = mw_strategies_of(question->strategies[i]);
        for (int s = 0; s < asked.count; s++)
            try_strategy(question, asked.one[s], &best, &refused);
    }
    mw_progress_end();
    /* "Does not fit" of one strategy is no answer where another was not even looked at. */
    if (!best || (!best->out.fits && is_too_large(refused))) {
        mw_objective_attempt_free(best);
        g_propagate_error(error, g_steal_pointer(&refused));
        return false;
    }
    mw_objective_set_ends(best);
    *out = best->out;
    mw_objective_attempt_free(best);
    return true;
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
        if (!apply_remedy(remedies[i], other) || !find(other, &changed, NULL) || !changed.fits)
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
