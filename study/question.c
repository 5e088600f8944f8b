/* What a question does not say, and what its plans say of it. */
#include <string.h>

#include "hardware/composed.h"
#include "planner/settings/strategies.h"
#include "study/study.h"

/* What decides which software usually trains so. */
struct user {
    bool measured; /* rates that memwall measured are those of its own kernels */
    bool sliced;
    bool adapts;     /* trains adapters beside frozen weights */
    bool replicates; /* one strategy is asked for, and it partitions no state, */
    bool groups;     /* or states are partitioned over groups that are replicas */
};

static bool
is_measured(const struct user *user)
{
    return user->measured;
}

static bool
is_sliced(const struct user *user)
{
    return user->sliced;
}

static bool
holds_replicas(const struct user *user)
{
    return user->replicates || user->groups;
}

static bool
trains_adapters(const struct user *user)
{
    return user->adapts;
}

/* What usually trains so; the first row that holds. */
static const struct {
    const char *software;
    bool (*trains)(const struct user *user); /* NULL: all others, and comparisons */
} defaults[] = {
    {MW_SOFTWARE_OWN, is_measured},          {MW_SOFTWARE_SLICED, is_sliced},
    {MW_SOFTWARE_ADAPTERS, trains_adapters}, {MW_SOFTWARE_REPLICATED, holds_replicas},
    {MW_SOFTWARE_PARTITIONED, NULL},
};

static const char *
software_of(struct user user)
{
    size_t i = 0;

    while (defaults[i].trains && !defaults[i].trains(&user))
        i++;
    return defaults[i].software;
}

static bool
replicates(enum mw_strategy strategy)
{
    return strategy != MW_STRATEGY_AUTO &&
           !mw_strategy_traits(strategy)->state[MW_STATE_OPTIMIZER].partitioned;
}

/* Whether GPUs have parts of the model's layers. */
static bool
is_divided(const struct mw_settings *settings)
{
    return settings->tp > 1 || settings->pp > 1 || settings->cp > 1 || settings->ep > 1;
}

const char *
mw_default_software(const struct mw_settings *settings)
{
    return software_of((struct user){.sliced = is_divided(settings),
                                     .adapts = settings->trained.rank > 0,
                                     .replicates = replicates(settings->strategy),
                                     .groups = settings->shard_group != MW_SHARD_ALL});
}

const char *
mw_question_default_software(const struct mw_question *question)
{
    const struct mw_settings *settings = &question->settings;
    bool has_file = question->deepspeed.notes; /* whoever has one trains by DeepSpeed */

    return software_of((struct user){.measured = mw_hwprofile_calibrated(question->profile),
                                     .sliced = is_divided(settings),
                                     .adapts = settings->trained.rank > 0,
                                     .replicates = !has_file && question->strategy_count == 1 &&
                                                   replicates(question->strategies[0]),
                                     .groups = settings->shard_group != MW_SHARD_ALL});
}

/* Before each key that was set of machine or software; no value has it. */
#define SET " set "

/* "deepspeed set operators.share=0.5". */
static char *
profile_text(const char *called, const struct mw_profile *profile)
{
    g_auto(GStrv) keys = mw_profile_assignments(profile);
    g_autofree char *set = g_strjoinv(SET, keys);

    return g_strconcat(called, *keys ? SET : "", set, NULL);
}

/* The name of a machine, composed of parts or not, or the path of its file where that is not what
 * the name leads to. */
static const char *
machine_called(const struct mw_profile *machine)
{
    const char *name = mw_profile_name(machine), *called = mw_profile_called(machine);
    g_autofree char *path = strcmp(name, called) ? mw_profile_path(&mw_hwprofile_kind, name) : NULL;

    return strcmp(name, called) && !mw_machine_is_composed(name) && g_strcmp0(path, called) ? called
                                                                                            : name;
}

char *
mw_question_machine_text(const struct mw_question *question)
{
    return profile_text(machine_called(question->profile), question->profile);
}

void
mw_question_sign(const struct mw_question *question, struct mw_plan *plan)
{
    g_autofree char *machine = mw_question_machine_text(question);
    g_autofree char *software =
        question->software ? profile_text(mw_profile_called(question->software), question->software)
                           : NULL;

    mw_plan_set_machine(plan, machine);
    if (software)
        mw_plan_set_software(plan, software);
}

char **
mw_plan_signed_words(const char *text)
{
    return g_strsplit(text ? text : "", SET, -1);
}

static char **
software_words(const struct mw_plan *plan)
{
    return mw_plan_signed_words(plan->software);
}

/* A plan may come from elsewhere: no path that it names is read. */
static struct mw_profile *
named_software(const char *name)
{
    bool named = name && !g_str_has_suffix(name, ".ini");

    return named ? mw_software_load(name, NULL) : NULL;
}

struct mw_profile *
mw_plan_software(const struct mw_plan *plan)
{
    g_auto(GStrv) words = software_words(plan);
    struct mw_profile *software = named_software(words[0]);

    for (char **key = words + 1; software && *key; key++)
        if (!mw_profile_set(software, *key, NULL))
            g_clear_pointer(&software, mw_profile_free);
    return software;
}

bool
mw_plan_check_software(const struct mw_plan *plan, GError **error)
{
    g_auto(GStrv) words = software_words(plan);
    struct mw_profile *software = named_software(words[0]);
    bool good = true, set = words[0] && words[1];

    for (char **key = words + 1; set && good && *key; key++)
        good = software ? mw_profile_set(software, *key, error)
                        : mw_profile_set_check(&mw_software_kind, *key, error);
    good = good && (!software || !set || mw_profile_check(software, error));
    mw_profile_free(software);
    return good;
}

void
mw_question_of_plan(const struct mw_plan *plan, struct mw_question *question)
{
    const struct mw_step_shape *shape = &plan->shape;
    enum mw_strategy strategy = MW_STRATEGY_AUTO;

    question->uses = (struct mw_model_uses){
        shape->rms_norm, shape->rotary,        shape->gated,        shape->score_bias,
        shape->dropout,  shape->capped_logits, shape->capped_scores};
    if (plan->strategy && mw_strategy_parse(plan->strategy, &strategy, NULL))
        question->strategies[0] = strategy;
    question->strategy_count = 1;
    question->settings.tp = question->settings.pp = question->settings.ep = 1;
    question->settings.cp = MAX(1, (int64_t)shape->context_ranks);
    question->settings.cp_kind = shape->context;
    for (uint32_t c = 0; c < plan->comm_count; c++) {
        const struct mw_axis_span *spans = plan->comms[c].spans;
        question->settings.tp = MAX(question->settings.tp, (int64_t)spans[MW_AXIS_TP].count);
        question->settings.ep = MAX(question->settings.ep, (int64_t)spans[MW_AXIS_EP].count);
    }
    if (shape->whole_experts) {
        question->settings.ep *= question->settings.tp;
        question->settings.etp = 1;
    }
    question->settings.pp = mw_plan_degree(plan, MW_AXIS_PP);
}
