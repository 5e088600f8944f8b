/* What plan and simulate ask for, from words to models, profiles and settings. */
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "cli/calibration/calibrate.h"
#include "cli/cli.h"
#include "cli/deepspeed_file.h"
#include "cli/options.h"
#include "cli/plan_file.h"
#include "cli/question.h"
#include "cli/request_internal.h"
#include "exec/device/cpu/kernels.h"
#include "exec/host/machine.h"
#include "exec/ranks/ranks.h"
#include "report/measured.h"

static bool
parse_strategies(struct cli_request *request, const char *text, GError **error)
{
    /* Of "" g_strsplit makes no names at all. */
    g_auto(GStrv) names = g_strsplit(*text ? text : ",", ",", -1);

    for (char **name = names; *name; name++) {
        enum mw_strategy strategy;
        if (!mw_strategy_parse(*name, &strategy, error))
            return false;
        for (int i = 0; i < request->question.strategy_count; i++)
            if (request->question.strategies[i] == strategy)
                return mw_refuse(error, "-s %s: strategy %s is named twice", text, *name);
        if (names[1] && strategy == MW_STRATEGY_AUTO)
            return mw_refuse(error, "-s %s: auto tries all strategies; give it alone", text);
        request->question.strategies[request->question.strategy_count++] = strategy;
    }
    return true;
}

static void
tell_machine(const struct mw_hwprofile *profile)
{
    const char *measured = mw_hwprofile_machine(profile);
    g_autofree char *here = mw_machine_name();

    if (measured && strcmp(measured, here))
        cli_say("profile %s was measured on another machine (%s); this one is %s",
                mw_hwprofile_name(profile), measured, here);
}

/* What would compute as the profile did: " or set MEMWALL_ISA=avx2", or nothing. */
static char *
how_to_force(const char *name)
{
    for (int isa = 0; isa < MW_CPU_ISAS; isa++)
        if (!strcmp(name, mw_cpu_isa_name((enum mw_cpu_isa)isa)) &&
            mw_cpu_isa_runs((enum mw_cpu_isa)isa))
            return g_strdup_printf(", or set %s=%s", MW_CPU_ISA_VARIABLE, name);
    return g_strdup("");
}

/* Of this machine; of another one the processor is another, which is said. */
static void
tell_instruction_set(const struct mw_hwprofile *profile)
{
    const char *measured = mw_hwprofile_instruction_set(profile);
    const char *machine = mw_hwprofile_machine(profile);
    g_autofree char *here = mw_machine_name();

    if (!measured || g_strcmp0(machine, here))
        return;
    const char *used = mw_cpu_isa_name(mw_cpu_isa_used(NULL));
    g_autofree char *otherwise = how_to_force(measured);
    if (strcmp(measured, used))
        cli_say(
            "profile %s was measured with instruction set %s, and runs here use %s: its figures "
            "are not theirs; measure again with `memwall calibrate`%s",
            mw_hwprofile_name(profile), measured, used, otherwise);
}

static void
tell_disturbed(const struct mw_hwprofile *profile)
{
    const char *disturbed = mw_hwprofile_disturbed(profile);
    double left = disturbed ? mw_hwprofile_rate_left(profile) : 1;

    if (left < 1)
        cli_say("profile %s was measured while the machine slowed down (%s): real steps may be "
                "%sslower than predicted; measure again with `memwall calibrate`",
                mw_hwprofile_name(profile), disturbed, left < 0.5 ? "several times " : "");
    else if (disturbed)
        cli_say("profile %s was measured while its machine was busy or changed its speed (%s): "
                "figures may be too low and predictions too slow; run `memwall calibrate` again "
                "when the machine is quiet",
                mw_hwprofile_name(profile), disturbed);
}

void
cli_request_tell(const struct cli_request *request)
{
    tell_machine(request->question.profile);
    tell_instruction_set(request->question.profile);
    tell_disturbed(request->question.profile);
}

/* What the profile is asked for: its name, where that is known, the end of its ranges, its keys. */
static bool
ask_profile(const struct cli_request *request, const char *outlook,
            struct memwall_question *question, GError **error)
{
    if (outlook && !cli_question_set(question, "outlook", outlook, error))
        return false;
    for (char **set = request->sets; set && *set; set++)
        if (!cli_question_set_key(question, *set, error))
            return false;
    return !request->hardware_name ||
           cli_question_set(question, "hardware", request->hardware_name, error);
}

static bool
load_profile(struct cli_request *request, const char *outlook, GError **error)
{
    struct memwall_question *question = memwall_question_new();
    bool good = ask_profile(request, outlook, question, error) &&
                mw_lib_profile(question, &request->question, error);

    memwall_question_free(question);
    return good;
}

static bool
check_profile_words(const struct cli_request *request, const char *outlook, GError **error)
{
    struct memwall_question *question = memwall_question_new();
    bool good = ask_profile(request, outlook, question, error);

    memwall_question_free(question);
    return good;
}

static bool
check_names(const struct cli_request *request, GError **error)
{
    if (!request->model_name && !request->plan_file)
        return mw_refuse(error, "-m MODEL is missing; `memwall list models` names the presets");
    return true;
}

static bool
check_plan_there(const struct cli_request *request, const char *verb, GError **error)
{
    const char *wanted = !strcmp(verb, "compare") ? mw_run_wanted() : CLI_PLAN_WANTED;

    return !request->plan_file || mw_input_is_there(request->plan_file, wanted, error);
}

/* Of a plan file the machine that it was made for, where no other is named. */
static void
take_plan_machine(struct cli_request *request, const struct cli_verb *verb)
{
    if (request->plan_file && !request->hardware_name &&
        (verb == &cli_verb_simulate || verb == &cli_verb_run))
        request->hardware_name = cli_plan_file_machine(request->plan_file);
}

/* Left out, the hardware is `here`: this machine, measured first if it never was. */
static bool
find_hardware(struct cli_request *request, GError **error)
{
    if (request->hardware_name && strcmp(request->hardware_name, "here"))
        return true;
    g_free(request->hardware_name);
    request->hardware_name = cli_here_path();
    return cli_here_ensure(error);
}

static bool
is_to_be_measured(const struct cli_request *request)
{
    const char *name = request->hardware_name;

    return (!name || !strcmp(name, "here")) && !cli_here_is_measured();
}

static bool
apply_options(struct cli_request *request, const struct cli_request_words *words, GError **error)
{
    mw_settings_init(&request->question.settings);
    request->question.writes_deepspeed = request->write_deepspeed != NULL;
    request->question.ends = request->json || request->csv;
    if (!cli_options_apply(&request->question.settings, error) ||
        (request->deepspeed_file && !cli_deepspeed_load(request, error)))
        return false;
    if (request->sensitivity)
        request->question.settings.ops_max = MW_WHAT_IF_OPS_MAX;
    if (words->strategies)
        return parse_strategies(request, words->strategies, error);
    request->question.strategies[request->question.strategy_count++] =
        request->question.settings.strategy;
    return true;
}

/* --- the whole ------------------------------------------------------------------------------- */

static bool
check_run_file(const char *path, GError **error)
{
    struct mw_plan *plan = NULL;
    g_autofree char *machine = NULL;
    struct mw_measured *measured = mw_measured_read(path, &plan, &machine, error);

    mw_measured_free(measured);
    mw_plan_free(plan);
    return measured != NULL;
}

static bool
check_plan_text(const struct cli_request *request, const struct cli_verb *verb, GError **error)
{
    return strcmp(verb->name, "compare") ? cli_plan_file_check(request->plan_file, error)
                                         : check_run_file(request->plan_file, error);
}

/* As far as it can be said without figures.  What is measured is one GPU, or the cores of one
 * process; keys that are set may make more of it, and a run has as many as processes. */
static bool
check_settings(const struct cli_request *request, const struct cli_request_words *words,
               const struct cli_verb *verb, GError **error)
{
    const struct mw_hardware alone = {
        .gpus_per_node = 1, .gpu_bf16 = true, .gpu_flash_attention = true};
    bool known =
        verb != &cli_verb_run && !(request->sets && *request->sets) && !request->deepspeed_file;
    const struct mw_request planned = {&request->question.model, known ? &alone : NULL};
    struct mw_settings asked = request->question.settings;
    bool taken = false;

    for (int i = 0; !taken && i < request->question.strategy_count; i++) {
        asked.strategy = request->question.strategies[i];
        taken = mw_settings_check(&planned, &asked, error && !*error ? error : NULL);
    }
    if (taken)
        g_clear_error(error);
    return taken;
}

/* As far as it can be said without a machine: no measurement is for a question that is refused. */
static bool
check_before_measuring(const struct cli_request *request, const struct cli_request_words *words,
                       const struct cli_verb *verb, cli_check check, GError **error)
{
    struct cli_request trial = *request; /* strings are the request's */

    if (!check_profile_words(request, words->outlook, error))
        return false;
    bool good = request->plan_file ? check_plan_text(request, verb, error)
                                   : apply_options(&trial, words, error) &&
                                         cli_request_check_outputs(&trial, verb->name, error) &&
                                         check_settings(&trial, words, verb, error);
    cli_deepspeed_blame(&trial, error);
    good = good && (!check || check(&trial, true, error));
    mw_deepspeed_said_clear(&trial.question.deepspeed);
    return good;
}

static bool
fill_request(struct cli_request *request, const struct cli_request_words *words,
             const struct cli_verb *verb, cli_check check, GError **error)
{
    if (request->plan_file && !cli_request_check_plan_file(request, words, error))
        return false;
    take_plan_machine(request, verb);
    if (request->plan_file && verb == &cli_verb_run) /* what names of runs begin with */
        request->model_name = cli_plan_file_model(request->plan_file);
    if (!check_names(request, error) ||
        (!request->plan_file &&
         !mw_model_load(request->model_name, &request->question.model, error)) ||
        !check_plan_there(request, verb->name, error) || (check && !check(request, false, error)) ||
        (is_to_be_measured(request) &&
         !check_before_measuring(request, words, verb, check, error)) ||
        !find_hardware(request, error) || !load_profile(request, words->outlook, error))
        return false;
    return request->plan_file || (apply_options(request, words, error) &&
                                  cli_request_check_outputs(request, verb->name, error));
}

static int
parse(struct cli_request *request, const struct cli_verb *verb, const struct cli_words_group *more,
      cli_complete complete, cli_check check, int argc, char **argv, gboolean *done)
{
    g_autoptr(GError) error = NULL;
    struct cli_request_words words = {0};
    bool good = cli_request_read_words(request, &words, verb, more, argc, argv, &error);

    *done = words.help;
    if (good && !words.help && complete)
        good = complete(request, &words.strategies, &error);
    good = good && (words.help || fill_request(request, &words, verb, check, &error));
    cli_request_words_clear(&words);
    if (!good) {
        mw_ranks_give_way();
        return cli_calibrate_fail(error);
    }
    return *done ? cli_flush() : CLI_DONE;
}

static void
clear(struct cli_request *request)
{
    mw_hwprofile_free(request->question.profile);
    mw_deepspeed_said_clear(&request->question.deepspeed);
    g_free(request->model_name);
    g_free(request->hardware_name);
    g_free(request->output);
    g_free(request->trace);
    g_free(request->plot);
    g_free(request->write_deepspeed);
    g_free(request->plan_file);
    g_free(request->deepspeed_file);
    g_strfreev(request->sets);
    memset(request, 0, sizeof *request);
}

int
cli_request_run(const struct cli_verb *verb, const struct cli_words_group *more,
                cli_complete complete, cli_check check, int argc, char **argv,
                int (*answer)(const struct cli_request *request))
{
    struct cli_request request = {0};
    gboolean done;
    int status = parse(&request, verb, more, complete, check, argc, argv, &done);

    if (status == CLI_DONE && !done)
        status = answer(&request);
    clear(&request);
    return status;
}
