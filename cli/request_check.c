/* Refuses options that contradict each other, before any question is asked. */
#include <string.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/request_internal.h"
#include "software/software.h"

/* Number of strategies that -s names; "auto" counts as one. */
static int
strategy_count(const struct cli_request *request)
{
    const char *text = memwall_question_get(request->asked, "strategy");
    int count = 1;

    for (; text && (text = strchr(text, ',')); text++)
        count++;
    return count;
}

/* The first of these options that was given, with its dashes; NULL: none was. */
static const char *
plan_option(const struct cli_request *request)
{
    return request->output ? "-o" : request->write_deepspeed ? "--write-deepspeed" : NULL;
}

static const char *
file_option(const struct cli_request *request)
{
    return request->trace ? "--trace" : request->plot ? "--plot" : plan_option(request);
}

/* The first given option of fine-tuning from preferences, which simulate alone predicts. */
static const char *
objective_option(const struct cli_request *request)
{
    static const char *const options[] = {"--objective", "--frozen-device", "--reference-logprobs",
                                          "--response", "--critic"};

    for (size_t i = 0; i < G_N_ELEMENTS(options); i++)
        if (memwall_question_get(request->asked, options[i] + strlen("--")))
            return options[i];
    return NULL;
}

static bool
check_plan_verb(const struct cli_request *request, GError **error)
{
    const char *timed = request->trace                                   ? "--trace"
                        : request->plot                                  ? "--plot"
                        : request->sensitivity                           ? "--what-if"
                        : request->details                               ? "--details"
                        : memwall_question_get(request->asked, "tokens") ? "--tokens"
                        : memwall_question_get(request->asked, "serve")  ? "--serve"
                        : objective_option(request)                      ? objective_option(request)
                                                                         : NULL;
    const char *more = request->csv ? "--csv" : file_option(request);

    if (timed)
        return mw_refuse(error, "%s: is an option of simulate; plan predicts no times", timed);
    if (request->largest && more)
        return mw_refuse(
            error, "--largest: prints numbers of layers, as a table or JSON; leave out %s", more);
    if (request->cuts && (more || request->largest))
        return mw_refuse(error, "--strategies: prints tables or JSON; leave out %s",
                         more ? more : "--largest");
    return true;
}

/* Before a machine is measured, which takes a minute. */
static bool
check_software(const struct cli_request *request, GError **error)
{
    const char *name = memwall_question_get(request->asked, "software");
    struct mw_profile *software = name ? mw_software_load(name, error) : NULL;
    bool good = software || !name;

    mw_profile_free(software);
    return good;
}

static bool
check_several(const struct cli_request *request, GError **error)
{
    const char *single = request->sensitivity ? "--what-if"
                         : request->details   ? "--details"
                                              : file_option(request);

    const char *other =
        memwall_question_get(request->asked, "serve") ? "--serve" : objective_option(request);
    if (request->sensitivity && other)
        return mw_refuse(error, "--what-if: is of the plan of a training step; leave out %s",
                         other);
    if (strategy_count(request) > 1 && single)
        return mw_refuse(error, "%s: takes one strategy; -s names %d of them", single,
                         strategy_count(request));
    return true;
}

static bool
check_picture(const struct cli_request *request, GError **error)
{
    if (!request->plot || g_str_has_suffix(request->plot, ".png") ||
        g_str_has_suffix(request->plot, ".svg"))
        return true;
    return mw_refuse(error, "--plot %s: must end in .png or .svg", request->plot);
}

bool
cli_check_output(const char *path, GError **error)
{
    return !path || cli_as_usage_error(mw_file_check(path, error), error);
}

static bool
check_paths(const struct cli_request *request, GError **error)
{
    const struct cli_path files[] = {
        {CLI_PATH_WRITES, "-o", request->output},
        {CLI_PATH_WRITES, "--write-deepspeed", request->write_deepspeed},
        {CLI_PATH_WRITES, "--trace", request->trace},
        {CLI_PATH_WRITES, "--plot", request->plot},
        {CLI_PATH_READS_MODEL, "-m", request->model_name},
        {CLI_PATH_READS_PROFILE, "-H", request->hardware_name},
        {CLI_PATH_READS, "--deepspeed", request->deepspeed_file},
        {CLI_PATH_READS, "this command", request->plan_file},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        if (files[i].use == CLI_PATH_WRITES && files[i].path && !*files[i].path)
            return mw_refuse(error, "%s: a file's name is missing", files[i].option);
    bool good = cli_paths_check(files, G_N_ELEMENTS(files), error);
    for (size_t i = 0; good && i < G_N_ELEMENTS(files); i++)
        good = files[i].use != CLI_PATH_WRITES || cli_check_output(files[i].path, error);
    return good;
}

static bool
check_run_verb(const struct cli_request *request, GError **error)
{
    const char *other = request->csv           ? "--csv"
                        : request->sensitivity ? "--what-if"
                        : request->details     ? "--details"
                                               : NULL;

    if (other)
        return mw_refuse(error, "%s: is an option of %s, not of run", other,
                         request->csv ? "plan and simulate" : "simulate");
    if (request->software_name)
        return mw_refuse(error, "--software: is an option of plan and simulate; run is memwall's "
                                "own");
    for (char **key = request->sets; key && *key; key++)
        if (g_str_has_prefix(*key, mw_software_kind.set_prefix))
            return mw_refuse(error,
                             "--set %s: is of the software that plan and simulate predict; "
                             "run is memwall's own",
                             *key);
    if (memwall_question_get(request->asked, "serve"))
        return mw_refuse(error, "--serve: is predicted by simulate; run trains");
    if (objective_option(request))
        return mw_refuse(error, "%s: is predicted by simulate; run trains the next token",
                         objective_option(request));
    if (memwall_question_get(request->asked, "tokens"))
        return mw_refuse(error, "--tokens: is an option of simulate; run trains --steps N");
    if (strategy_count(request) > 1)
        return mw_refuse(error, "-s: names %d strategies; run takes one", strategy_count(request));
    return true;
}

static bool
check_steps_verb(const struct cli_request *request, const char *verb, GError **error)
{
    const char *other =
        memwall_question_get(request->asked, "serve") ? "--serve" : objective_option(request);

    return !other ||
           mw_refuse(error, "%s: is an option of simulate; %s is of training steps", other, verb);
}

/* Of nodes and machines it tries several; of answers it prints one. */
static bool
check_advise_verb(const struct cli_request *request, GError **error)
{
    bool owned = request->hardware_name;
    bool divides = !g_strcmp0(memwall_question_get(request->asked, "search"), "parallel");
    bool nodes = memwall_question_get(request->asked, "nodes") && !owned;
    bool gpus = memwall_question_get(request->asked, "gpus") && !divides;
    const char *other = nodes                     ? "--nodes"
                        : gpus                    ? "--gpus"
                        : request->deepspeed_file ? "--deepspeed"
                        : request->csv            ? "--csv"
                        : request->sensitivity    ? "--what-if"
                        : request->details        ? "--details"
                                                  : file_option(request);

    if (!other)
        return true;
    return mw_refuse(error,
                     "%s: is an option of simulate; advise compares machines (--machines, "
                     "--max-nodes), or says what to buy for one (-H, --nodes) or how to divide its "
                     "GPUs (--search parallel)",
                     other);
}

bool
cli_request_check_outputs(const struct cli_request *request, const char *verb, GError **error)
{
    bool plan = !strcmp(verb, "plan");

    if (request->json && request->csv)
        return mw_refuse(error, "--json and --csv: give one of them");
    if (!plan && request->csv && (request->sensitivity || request->details))
        return mw_refuse(error, "%s: prints tables or JSON; leave out --csv",
                         request->sensitivity ? "--what-if" : "--details");
    if (!check_picture(request, error) || !check_paths(request, error) ||
        !check_software(request, error))
        return false;
    if (!plan && request->largest)
        return mw_refuse(error, "--largest: is an option of plan, not of %s", verb);
    if (!plan && request->cuts)
        return mw_refuse(error, "--strategies: is an option of plan, not of %s", verb);
    if ((!strcmp(verb, "sweep") || !strcmp(verb, "check")) &&
        !check_steps_verb(request, verb, error))
        return false;
    if (!strcmp(verb, "advise") && !check_advise_verb(request, error))
        return false;
    if (!strcmp(verb, "run") && !check_run_verb(request, error))
        return false;
    return (!plan || check_plan_verb(request, error)) && check_several(request, error);
}

bool
cli_request_check_plan_file(const struct cli_request *request,
                            const struct cli_request_words *words, GError **error)
{
    const char *option = cli_options_given();
    const char *given = request->csv              ? "--csv"
                        : request->sensitivity    ? "--what-if"
                        : request->largest        ? "--largest"
                        : request->cuts           ? "--strategies"
                        : request->model_name     ? "--model"
                        : words->strategies       ? "--strategy"
                        : request->deepspeed_file ? "--deepspeed"
                                                  : plan_option(request);

    if (option || given)
        return mw_refuse(
            error,
            "%s%s: cannot be used with a plan file, which takes only -H, --software, --set, "
            "--outlook, --json, --details, --trace and --plot",
            option ? "--" : "", option ? option : given);
    return check_picture(request, error) && check_paths(request, error);
}
