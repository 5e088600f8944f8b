/* Turns the options of plan, simulate, run and compare into a question. */
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "cli/calibration/calibrate.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/question.h"
#include "cli/request_internal.h"
#include "cli/run/planned.h"
#include "exec/ranks/ranks.h"
#include "lib/question.h"
#include "report/measured.h"
#include "study/plan_file.h"

/* plan, simulate, sweep and advise ask through the library, which reads the question itself. */
static bool
asks_library(const struct cli_verb *verb)
{
    return verb == &cli_verb_plan || verb == &cli_verb_simulate || verb == &cli_verb_sweep ||
           verb == &cli_verb_advise || verb == &cli_verb_check;
}

/* advise compares machines, unless one is given that its owner may enlarge. */
static bool
names_machines(const struct cli_request *request, const struct cli_verb *verb)
{
    return verb == &cli_verb_advise && !request->hardware_name;
}

/* --- what the options ask --------------------------------------------------------------------- */

static bool
set(struct cli_request *request, const char *name, const char *text, GError **error)
{
    return !text || cli_question_set(request->asked, name, text, error);
}

static bool
ask_profile(struct cli_request *request, const char *outlook, GError **error)
{
    if (!set(request, "outlook", outlook, error) ||
        !set(request, "software", request->software_name, error))
        return false;
    for (char **key = request->sets; key && *key; key++)
        if (!cli_question_set_key(request->asked, *key, error))
            return false;
    return true;
}

/* Asks for all but the hardware, which may have to be measured first. */
static bool
ask(struct cli_request *request, const struct cli_request_words *words, const struct cli_verb *verb,
    GError **error)
{
    const char *plan = asks_library(verb) ? request->plan_file : NULL;
    const char *notes = request->write_deepspeed ? "on" : NULL;

    return ask_profile(request, words->outlook, error) && set(request, "plan", plan, error) &&
           (request->plan_file || (set(request, "model", request->model_name, error) &&
                                   cli_options_ask(request->asked, error) &&
                                   set(request, "deepspeed", request->deepspeed_file, error) &&
                                   set(request, "deepspeed-notes", notes, error) &&
                                   set(request, "strategy", words->strategies, error)));
}

/* --- what is missing -------------------------------------------------------------------------- */

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
    const char *wanted = !strcmp(verb, "compare") ? mw_run_wanted() : MW_PLAN_FILE_WANTED;

    return !request->plan_file || mw_input_is_there(request->plan_file, wanted, error);
}

/* What was set of the plan's machine comes before what is set now. */
static void
take_plan_keys(struct cli_request *request, char **keys)
{
    guint count = g_strv_length(keys), more = request->sets ? g_strv_length(request->sets) : 0;
    char **all = g_new0(char *, count + more + 1);

    for (guint i = 0; i < count; i++)
        all[i] = g_steal_pointer(&keys[i]);
    for (guint i = 0; i < more; i++)
        all[count + i] = request->sets[i];
    g_free(request->sets);
    request->sets = all;
}

/* A plan file names the machine that it was made for; -H overrides it. */
static void
take_plan_machine(struct cli_request *request, const struct cli_verb *verb)
{
    char **keys = NULL;

    if (!request->plan_file || request->hardware_name ||
        (verb != &cli_verb_simulate && verb != &cli_verb_run))
        return;
    request->hardware_name = mw_plan_file_machine(request->plan_file, &keys);
    if (keys)
        take_plan_keys(request, keys);
    g_free(keys);
}

/* A run is on this machine, whatever its plan names, but does not measure it for another one. */
static bool
check_plan_machine(const struct cli_request *request, const struct cli_verb *verb, GError **error)
{
    bool here = verb == &cli_verb_run && cli_here_is_measured();

    return !request->plan_file || request->hardware_name || here ||
           (verb != &cli_verb_simulate && verb != &cli_verb_run) ||
           mw_plan_file_check_machine(request->plan_file, !cli_here_is_measured(), error);
}

/* Without -H the hardware is `here`: this machine, which is measured if it has no profile yet. */
static bool
ask_hardware(struct cli_request *request, GError **error)
{
    if (!request->hardware_name || !strcmp(request->hardware_name, "here")) {
        g_free(request->hardware_name);
        request->hardware_name = cli_here_path();
        if (!cli_here_ensure(error))
            return false;
    }
    return set(request, "hardware", request->hardware_name, error);
}

static bool
is_to_be_measured(const struct cli_request *request)
{
    const char *name = request->hardware_name;

    return (!name || !strcmp(name, "here")) && !cli_here_is_measured();
}

/* --- before anything is measured ------------------------------------------------------------- */

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
check_plan_text(const char *path, GError **error)
{
    struct mw_variants *variants = mw_plan_file_read(path, error);

    mw_variants_free(variants);
    return variants != NULL;
}

/* A run has as many GPUs as processes were started, so the machine is not known yet. */
static bool
check_run_settings(struct cli_request *trial, GError **error)
{
    if (!mw_lib_settings(trial->asked, &trial->question, error))
        return false;
    if (mw_lib_check(&trial->question, NULL, error))
        return true;
    mw_lib_blame_deepspeed(trial->asked, &trial->question.settings, error);
    return false;
}

/* Refuses bad input before the machine is measured in vain. */
static bool
check_before_measuring(const struct cli_request *request, const struct cli_verb *verb,
                       cli_check check, GError **error)
{
    struct cli_request trial = *request; /* borrows the request's strings */
    bool good;

    if (verb == &cli_verb_compare)
        good = check_run_file(request->plan_file, error);
    else if (asks_library(verb))
        good = (request->plan_file || cli_request_check_outputs(&trial, verb->name, error)) &&
               cli_question_check(request->asked, error);
    else if (request->plan_file)
        good = check_plan_text(request->plan_file, error);
    else
        good = cli_request_check_outputs(&trial, verb->name, error) &&
               check_run_settings(&trial, error);
    good = good && (!check || check(&trial, true, error));
    mw_deepspeed_said_clear(&trial.question.deepspeed);
    return good;
}

/* --- the request ------------------------------------------------------------------------------ */

/* run and compare need more than the library's answer. */
static bool
read_question(struct cli_request *request, GError **error)
{
    return mw_lib_profile(request->asked, &request->question, error) &&
           (request->plan_file || mw_lib_settings(request->asked, &request->question, error)) &&
           mw_lib_software(request->asked, &request->question, MW_SOFTWARE_OWN, error);
}

static bool
fill_request(struct cli_request *request, const struct cli_request_words *words,
             const struct cli_verb *verb, cli_check check, GError **error)
{
    bool loads = !asks_library(verb) && !request->plan_file;

    if (request->plan_file && !cli_request_check_plan_file(request, words, error))
        return false;
    take_plan_machine(request, verb);
    if (request->plan_file && verb == &cli_verb_run) /* the word that begins the run's name */
        request->model_name = cli_run_plan_model(request->plan_file);
    if (!check_names(request, error) ||
        (loads && !mw_model_load(request->model_name, &request->question.model, error)) ||
        !check_plan_there(request, verb->name, error) || (check && !check(request, false, error)) ||
        !ask(request, words, verb, error) || !check_plan_machine(request, verb, error) ||
        (!names_machines(request, verb) && is_to_be_measured(request) &&
         !check_before_measuring(request, verb, check, error)) ||
        (!names_machines(request, verb) && !ask_hardware(request, error)) ||
        (!asks_library(verb) && !read_question(request, error)))
        return false;
    return request->plan_file || cli_request_check_outputs(request, verb->name, error);
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
    memwall_question_free(request->asked);
    mw_lib_clear(&request->question);
    g_free(request->model_name);
    g_free(request->hardware_name);
    g_free(request->software_name);
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
    struct cli_request request = {.asked = memwall_question_new()};
    gboolean done;
    int status = parse(&request, verb, more, complete, check, argc, argv, &done);

    if (status == CLI_DONE && !done)
        status = answer(&request);
    clear(&request);
    return status;
}
