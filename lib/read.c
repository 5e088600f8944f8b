/* Interprets the texts of a question. */
#include <string.h>

#include "base/error.h"
#include "base/homedir.h"
#include "base/spell.h"
#include "lib/prices.h"
#include "lib/question.h"
#include "study/plan_file.h"
#include "study/planned.h"

static const char *const outlook_names[MW_OUTLOOK_COUNT] = {"low", "typical", "high"};

bool
mw_lib_outlook(const char *text, int *outlook, GError **error)
{
    for (*outlook = 0; *outlook < MW_OUTLOOK_COUNT; ++*outlook)
        if (!strcmp(text, outlook_names[*outlook]))
            return true;
    return mw_refuse(error, "{outlook=%s}: must be low, typical or high", text);
}

bool
mw_lib_strategies(const char *text, struct mw_question *out, GError **error)
{
    /* g_strsplit makes no name of "", which must be refused as a name. */
    g_auto(GStrv) names = g_strsplit(*text ? text : ",", ",", -1);

    out->strategy_count = 0;
    for (char **name = names; *name; name++) {
        enum mw_strategy strategy;
        if (!mw_strategy_parse(*name, &strategy, error))
            return false;
        for (int i = 0; i < out->strategy_count; i++)
            if (out->strategies[i] == strategy)
                return mw_refuse(error, "{strategy=%s}: strategy %s is named twice", text, *name);
        if (names[1] && strategy == MW_STRATEGY_AUTO)
            return mw_refuse(error, "{strategy=%s}: auto tries all strategies; give it alone",
                             text);
        out->strategies[out->strategy_count++] = strategy;
    }
    return true;
}

bool
mw_lib_is_sliced(const struct memwall_question *question)
{
    return question->settings[mw_setting_find("tp") - mw_settings_table] ||
           question->settings[mw_setting_find("cp") - mw_settings_table];
}

/* --- the machine ----------------------------------------------------------------------------- */

/* This machine's profile, which the command measures and the library does not. */
static struct mw_profile *
load_here(GError **error)
{
    g_autofree char *config = mw_homedir_path(MW_HOMEDIR_CONFIG);
    g_autofree char *path = g_build_filename(config, "hwprofiles", "here.ini", NULL);

    if (g_file_test(path, G_FILE_TEST_EXISTS))
        return mw_hwprofile_load(path, error);
    mw_refuse(error,
              "{hardware=here}: this machine was not measured (there is no %s): "
              "`memwall calibrate` does that, or name another profile",
              path);
    return NULL;
}

/* Sets the keys of this kind of profile; *set: whether there are any. */
static bool
set_keys(const struct memwall_question *question, const struct mw_profile_kind *of,
         struct mw_profile *profile, bool *set, GError **error)
{
    for (guint i = 0; i < question->keys->len; i++) {
        const struct mw_profile_kind *kind;
        const char *key = mw_key_of(question->keys->pdata[i], &kind);
        if (kind != of)
            continue;
        if (!mw_profile_set(profile, key, error))
            return false;
        *set = true;
    }
    return true;
}

static struct mw_model_uses
uses_of(const struct mw_model *model)
{
    return (struct mw_model_uses){
        .rms_norm = mw_model_has_rms_norm(model),
        .rotary = model->rotary,
        .gated = mw_model_is_gated(model),
        .score_bias = model->family && model->family->score_bias,
        .dropout = model->dropout,
        .capped_logits = model->capped_logits,
        .capped_scores = model->capped_scores,
    };
}

bool
mw_lib_profile(const struct memwall_question *question, struct mw_question *out, GError **error)
{
    bool of_plan = !question->hardware && question->plan;
    g_auto(GStrv) keys = NULL;
    g_autofree char *planned = of_plan ? mw_plan_file_machine(question->plan, &keys) : NULL;
    const char *name = planned ? planned : question->hardware;
    bool here = !name || !strcmp(name, "here"), set = true;

    if (of_plan && !mw_plan_file_check_machine(question->plan, false, error))
        return false;
    out->profile = here ? load_here(error)
                        : mw_loaded_profile(question->loaded, name, mw_hwprofile_load, error);
    for (char **key = keys; out->profile && set && key && *key; key++)
        out->modified |= set = mw_profile_set(out->profile, *key, error);
    return out->profile && set &&
           set_keys(question, &mw_hwprofile_kind, out->profile, &out->modified, error) &&
           mw_profile_check(out->profile, error);
}

/* What is requested, or what trains so if nobody says. */
static struct mw_profile *
load_software(const struct memwall_question *question, const struct mw_question *out,
              const char *otherwise, GError **error)
{
    const char *name = question->software ? question->software
                       : otherwise        ? otherwise
                                          : mw_question_default_software(out);

    return mw_loaded_profile(question->loaded, name, mw_software_load, error);
}

/* `otherwise`: the outlook of a question that names none. */
static void
read_machine(const struct memwall_question *question, enum mw_outlook otherwise,
             struct mw_question *out)
{
    int only = otherwise == MW_OUTLOOK_TYPICAL ? -1 : (int)otherwise;

    if (question->outlook)
        mw_lib_outlook(question->outlook, &only, NULL);
    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++)
        out->hardware[outlook] =
            mw_machine_read(out->profile, out->software, out->uses, only < 0 ? outlook : only);
    out->outlook = only < 0 ? MW_OUTLOOK_TYPICAL : (enum mw_outlook)only;
}

/* Takes ownership of the software, which may be NULL. */
static bool
take_software(const struct memwall_question *question, struct mw_question *out,
              struct mw_profile *software, enum mw_outlook otherwise, GError **error)
{
    int only;
    bool set = false;

    out->software = software;
    if (!software || (question->outlook && !mw_lib_outlook(question->outlook, &only, error)) ||
        !set_keys(question, &mw_software_kind, software, &set, error) ||
        !mw_profile_check(software, error) || !mw_software_check(software, out->profile, error))
        return false;
    read_machine(question, otherwise, out);
    return true;
}

bool
mw_lib_software(const struct memwall_question *question, struct mw_question *out,
                const char *otherwise, GError **error)
{
    out->uses = uses_of(&out->model);
    return take_software(question, out, load_software(question, out, otherwise, error),
                         MW_OUTLOOK_TYPICAL, error);
}

/* --- settings -------------------------------------------------------------------------------- */

static bool
read_settings(const struct memwall_question *question, struct mw_settings *settings, GError **error)
{
    bool sliced = mw_lib_is_sliced(question);

    for (int i = 0; i < MW_SETTINGS_COUNT; i++)
        if (question->settings[i] &&
            !mw_setting_read(&mw_settings_table[i], question->settings[i], sliced, settings, error))
            return false;
    return true;
}

/* Data-parallel GPUs for these settings; 0: slices and stages do not divide the number of GPUs. */
static int64_t
replicas(const struct memwall_question *question, const struct mw_question *out)
{
    const struct mw_settings *s = &out->settings;
    bool open = s->gpus_per_node == MW_AUTO;
    int64_t per_node =
        open ? mw_hwprofile_read(out->profile, MW_OUTLOOK_TYPICAL).gpus_per_node : s->gpus_per_node;
    int64_t gpus = open && question->ranks ? question->ranks : s->nodes * per_node;
    int64_t of_model = s->tp * s->pp;

    if (mw_settings_takes_turns(s))
        return 1;
    return gpus % of_model ? 0 : gpus / of_model;
}

/* `out` already has the settings of the question.  They override the file's batch, so the file's
 * own product need not match. */
static bool
read_deepspeed(const struct memwall_question *question, struct mw_question *out, GError **error)
{
    struct mw_settings *s = &out->settings;
    bool named = s->global_batch != MW_AUTO;
    bool own_batch = named || s->micro_batch != MW_AUTO || s->grad_accum != MW_AUTO ||
                     !out->profile; /* the number of ranks is not known yet */
    bool placed[MW_STATE_COUNT];

    for (int state = 0; state < MW_STATE_COUNT; state++)
        placed[state] = s->placement[state].count > 0;
    if (!mw_deepspeed_load(question->deepspeed, own_batch ? 0 : replicas(question, out), s,
                           &out->deepspeed, error))
        return false;
    if (named)
        s->batch_source = NULL;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        if (placed[state])
            s->device_key[state] = NULL;
    int64_t tp = s->tp;
    if (!read_settings(question, s, error))
        return false;
    return s->tp == tp || mw_refuse(error,
                                    "{tp=%" G_GINT64_FORMAT "}: %s has tensor_parallel.autotp_size "
                                    "%" G_GINT64_FORMAT "; leave one of them out",
                                    s->tp, question->deepspeed, tp);
}

bool
mw_lib_settings(const struct memwall_question *question, struct mw_question *out, GError **error)
{
    mw_settings_init(&out->settings);
    if (!read_settings(question, &out->settings, error) ||
        (question->deepspeed && !read_deepspeed(question, out, error)))
        return false;
    out->writes_deepspeed = !g_strcmp0(question->deepspeed_notes, "on");
    out->strategies[0] = out->settings.strategy;
    out->strategy_count = 1;
    return !question->strategy || mw_lib_strategies(question->strategy, out, error);
}

/* Whether the message begins with a setting that the question does not set and that differs from
 * its default. */
static bool
blames_unset(const struct memwall_question *question, const struct mw_settings *settings,
             const char *message)
{
    const char *name = mw_lib_setting_of(message);
    const struct mw_setting *setting = name ? mw_setting_find(name) : NULL;

    return setting && !question->settings[setting - mw_settings_table] &&
           !mw_setting_is_usual(setting, settings);
}

void
mw_lib_blame_deepspeed(const struct memwall_question *question, const struct mw_settings *settings,
                       GError **error)
{
    if (error && *error && question->deepspeed &&
        blames_unset(question, settings, (*error)->message))
        g_prefix_error(error, "%s, read as ", question->deepspeed);
}

bool
mw_lib_check(const struct mw_question *question, const struct mw_hardware *hardware, GError **error)
{
    const struct mw_request planned = {&question->model, hardware};
    struct mw_settings asked = question->settings;
    bool taken = false;

    for (int i = 0; !taken && i < question->strategy_count; i++) {
        asked.strategy = question->strategies[i];
        taken = mw_settings_check(&planned, &asked, error && !*error ? error : NULL);
    }
    if (taken)
        g_clear_error(error);
    return taken;
}

/* --- the question ----------------------------------------------------------------------------- */

bool
mw_lib_model(const struct memwall_question *question, struct mw_model *model, GError **error)
{
    if (!question->model)
        return mw_refuse(error, "{model}: is missing; give the name of a preset or the path of a "
                                "config.json");
    return mw_loaded_model(question->loaded, question->model, model, error);
}

/* A plan from a file is complete: only the machine can be chosen. */
static bool
check_plan_alone(const struct memwall_question *question, GError **error)
{
    const char *other = question->model       ? "model"
                        : question->strategy  ? "strategy"
                        : question->deepspeed ? "deepspeed"
                                              : NULL;

    for (int i = 0; !other && i < MW_SETTINGS_COUNT; i++)
        if (question->settings[i])
            other = mw_settings_table[i].name;
    return !other || mw_refuse(error,
                               "{%s}: cannot be set for a plan that was written before, which "
                               "takes hardware, software, outlook and keys of profiles",
                               other);
}

static bool
read_prices(struct mw_question *out, GError **error)
{
    return !(out->settings.tokens > 0) || mw_lib_drive_prices(NULL, NULL, NULL, out, error);
}

bool
mw_lib_read(const struct memwall_question *question, struct mw_question *out, const char **blamed,
            GError **error)
{
    *out = (struct mw_question){.model_called = question->model,
                                .hardware_called = question->hardware,
                                .strategy_count = 1,
                                .ends = true};
    *blamed = "model";
    if (!mw_lib_model(question, &out->model, error))
        return false;
    *blamed = "hardware";
    if (!mw_lib_profile(question, out, error))
        return false;
    *blamed = question->deepspeed ? "deepspeed" : NULL;
    if (!mw_lib_settings(question, out, error))
        return false;
    *blamed = NULL;
    if (!read_prices(out, error))
        return false;
    *blamed = "software";
    return mw_lib_software(question, out, NULL, error);
}

/* The software is what is requested, what the plan was made with, or what trains so. */
struct mw_variants *
mw_lib_read_plan(const struct memwall_question *question, struct mw_question *out,
                 const char **blamed, GError **error)
{
    *out = (struct mw_question){.ends = true};
    *blamed = "plan";
    struct mw_variants *variants =
        check_plan_alone(question, error) ? mw_plan_file_read(question->plan, error) : NULL;
    if (!variants)
        return NULL;
    mw_question_of_plan(variants->plans[0], out);
    *blamed = "hardware";
    bool good = mw_lib_profile(question, out, error) && read_prices(out, error);
    if (good) {
        *blamed = "software";
        struct mw_profile *planned =
            question->software ? NULL : mw_plan_software(variants->plans[0]);
        good = take_software(question, out,
                             planned ? planned : load_software(question, out, NULL, error),
                             mw_planned_outlook(variants->plans[0]), error);
    }
    if (!good)
        g_clear_pointer(&variants, mw_variants_free);
    return variants;
}

void
mw_lib_clear(struct mw_question *question)
{
    mw_profile_free(question->profile);
    mw_profile_free(question->software);
    question->software = NULL;
    mw_deepspeed_said_clear(&question->deepspeed);
    question->profile = NULL;
}

static bool
check_plan(const struct memwall_question *question, GError **error)
{
    struct mw_variants *variants =
        check_plan_alone(question, error) ? mw_plan_file_read(question->plan, error) : NULL;
    bool good = variants != NULL;

    mw_variants_free(variants);
    return good;
}

/* Calibration measures one GPU, or the cores of one process; keys may multiply them. */
static bool
check_settings(const struct memwall_question *question, struct mw_question *out, GError **error)
{
    static const struct mw_hardware alone = {
        .gpus_per_node = 1, .gpu_bf16 = true, .gpu_fp32_flops = 1, .gpu_flash_attention = true};
    bool here = !question->hardware || !strcmp(question->hardware, "here");
    bool known = here && !question->keys->len && !question->deepspeed;

    if (!mw_lib_model(question, &out->model, error) || !mw_lib_settings(question, out, error))
        return false;
    if (mw_lib_check(out, known ? &alone : NULL, error))
        return true;
    mw_lib_blame_deepspeed(question, &out->settings, error);
    return false;
}

bool
memwall_question_check(const struct memwall_question *question, struct memwall_error **error)
{
    struct mw_question out = {.strategy_count = 1};
    GError *failed = NULL;
    bool good =
        question->plan ? check_plan(question, &failed) : check_settings(question, &out, &failed);

    mw_lib_clear(&out);
    return good || mw_lib_fail(failed, question->plan ? "plan" : NULL, error);
}
