/* What plan and simulate ask for, from words to models, profiles and settings. */
#include <stdio.h>
#include <string.h>

#include "cli/calibrate.h"
#include "cli/cli.h"
#include "cli/deepspeed_file.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/plan_file.h"
#include "cli/words.h"
#include "exec/machine.h"
#include "exec/ranks.h"
#include "planner/deepspeed.h"
#include "planner/error.h"
#include "planner/input.h"
#include "report/file.h"
#include "report/measured.h"

static const char *const outlook_names[MW_OUTLOOK_COUNT] = {"low", "typical", "high"};

/* What-if tables run the engine some hundred times. */
#define WHAT_IF_OPS_MAX (MW_OPS_MAX / 2)

/* Words that are gone when the request is made. */
struct words {
    char *strategies, *outlook;
    char **sets;
    gboolean help;
};

static void
words_clear(struct words *words)
{
    g_free(words->strategies);
    g_free(words->outlook);
    g_strfreev(words->sets);
}

static bool
parse_strategies(struct cli_request *request, const char *text, GError **error)
{
    /* Of "" g_strsplit makes no names at all. */
    g_auto(GStrv) names = g_strsplit(*text ? text : ",", ",", -1);

    for (char **name = names; *name; name++) {
        enum mw_strategy strategy;
        if (!mw_strategy_parse(*name, &strategy, error))
            return false;
        for (int i = 0; i < request->strategy_count; i++)
            if (request->strategies[i] == strategy)
                return mw_refuse(error, "-s %s: strategy %s is named twice", text, *name);
        if (names[1] && strategy == MW_STRATEGY_AUTO)
            return mw_refuse(error, "-s %s: auto tries all strategies; give it alone", text);
        request->strategies[request->strategy_count++] = strategy;
    }
    return true;
}

/* One end of every range for all figures; else typical with low and high beside it. */
static bool
parse_outlook(const char *text, int *only, GError **error)
{
    for (*only = 0; *only < MW_OUTLOOK_COUNT; ++*only)
        if (!strcmp(text, outlook_names[*only]))
            return true;
    return mw_refuse(error, "--outlook %s: must be low, typical or high", text);
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
    tell_machine(request->profile);
    tell_disturbed(request->profile);
}

static bool
load_profile(struct cli_request *request, char **sets, const char *outlook_text, GError **error)
{
    int only = -1;

    if (outlook_text && !parse_outlook(outlook_text, &only, error))
        return false;
    request->profile = mw_hwprofile_load(request->hardware_name, error);
    if (!request->profile)
        return false;
    for (char **set = sets; set && *set; set++)
        if (!mw_hwprofile_set(request->profile, *set, error))
            return false;
    request->modified = sets && *sets;
    if (!mw_hwprofile_check(request->profile, error))
        return false;
    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++)
        request->hardware[outlook] = mw_hwprofile_read(request->profile, only < 0 ? outlook : only);
    request->outlook = only < 0 ? MW_OUTLOOK_TYPICAL : (enum mw_outlook)only;
    return true;
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
    const char *wanted = !strcmp(verb, "compare") ? MW_RUN_WANTED : CLI_PLAN_WANTED;

    return !request->plan_file || mw_input_is_there(request->plan_file, wanted, error);
}

/* Of a plan file the machine that it was made for, where no other is named. */
static void
take_plan_machine(struct cli_request *request, const struct cli_verb *verb)
{
    if (request->plan_file && !request->hardware_name && verb == &cli_verb_simulate)
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
apply_options(struct cli_request *request, const struct words *words, GError **error)
{
    mw_settings_init(&request->settings);
    if (!cli_options_apply(&request->settings, error) ||
        (request->deepspeed_file && !cli_deepspeed_load(request, error)))
        return false;
    if (request->sensitivity)
        request->settings.ops_max = WHAT_IF_OPS_MAX;
    if (words->strategies)
        return parse_strategies(request, words->strategies, error);
    request->strategies[request->strategy_count++] = request->settings.strategy;
    return true;
}

/* --- contradictions -------------------------------------------------------------------------- */

/* The first of the options that was given, as it is written; NULL if none was. */
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

static bool
check_plan_verb(const struct cli_request *request, GError **error)
{
    const char *timed = request->trace                 ? "--trace"
                        : request->plot                ? "--plot"
                        : request->sensitivity         ? "--what-if"
                        : request->settings.tokens > 0 ? "--tokens"
                                                       : NULL;
    const char *more = request->csv ? "--csv" : file_option(request);

    if (timed)
        return mw_refuse(error, "%s: is an option of simulate; plan predicts no times", timed);
    if (request->largest && more)
        return mw_refuse(
            error, "--largest: prints numbers of layers, as a table or JSON; leave out %s", more);
    return true;
}

static bool
check_several(const struct cli_request *request, GError **error)
{
    const char *single = request->sensitivity ? "--what-if" : file_option(request);

    if (request->strategy_count > 1 && single)
        return mw_refuse(error, "%s: takes one strategy; -s names %d of them", single,
                         request->strategy_count);
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
    const char *other = request->csv ? "--csv" : request->sensitivity ? "--what-if" : NULL;

    if (other)
        return mw_refuse(error, "%s: is an option of %s, not of run", other,
                         request->csv ? "plan and simulate" : "simulate");
    if (request->strategy_count > 1)
        return mw_refuse(error, "-s: names %d strategies; run takes one", request->strategy_count);
    return true;
}

static bool
check_outputs(const struct cli_request *request, const char *verb, GError **error)
{
    bool plan = !strcmp(verb, "plan");

    if (request->json && request->csv)
        return mw_refuse(error, "--json and --csv: give one of them");
    if (!plan && request->csv && request->sensitivity)
        return mw_refuse(error, "--what-if: prints tables or JSON; leave out --csv");
    if (!check_picture(request, error) || !check_paths(request, error))
        return false;
    if (!plan && request->largest)
        return mw_refuse(error, "--largest: is an option of plan, not of %s", verb);
    if (!strcmp(verb, "run") && !check_run_verb(request, error))
        return false;
    return (!plan || check_plan_verb(request, error)) && check_several(request, error);
}

/* A plan is what it is: only the machine that it would run on is open. */
static bool
check_plan_file(const struct cli_request *request, const struct words *words, GError **error)
{
    const char *option = cli_options_given();
    const char *given = request->csv              ? "--csv"
                        : request->sensitivity    ? "--what-if"
                        : request->largest        ? "--largest"
                        : words->strategies       ? "--strategy"
                        : request->deepspeed_file ? "--deepspeed"
                                                  : plan_option(request);

    if (option || given)
        return mw_refuse(error,
                         "%s%s: cannot be used with a plan file; it takes -H, --set, --outlook, "
                         "--json, --trace and --plot",
                         option ? "--" : "", option ? option : given);
    return check_picture(request, error) && check_paths(request, error);
}

/* --- the whole ------------------------------------------------------------------------------- */

/* Of a verb, options that it refuses, in words of its own: help leaves them out. */
static const struct {
    const struct cli_verb *verb;
    const char *options[5];
} refused[] = {
    {&cli_verb_simulate, {"largest"}},
    {&cli_verb_plan, {"what-if", "trace", "plot", "tokens"}},
    {&cli_verb_run, {"csv", "largest", "what-if"}},
};

static const char *const *
refused_by(const struct cli_verb *verb)
{
    static const char *const none[] = {NULL};

    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++)
        if (refused[i].verb == verb)
            return refused[i].options;
    return none;
}

static void
hide(const char *const *names, GOptionEntry *entries)
{
    for (GOptionEntry *entry = entries; entry->long_name; entry++)
        if (g_strv_contains(names, entry->long_name))
            entry->flags |= G_OPTION_FLAG_HIDDEN;
}

/* What compare takes: its plan is that of the run. */
static const char *const of_compare[] = {"help", "hardware", "set",  "outlook",
                                         "json", "trace",    "plot", NULL};

static void
keep_those_of_compare(GOptionEntry *entries)
{
    GOptionEntry *kept = entries;

    for (const GOptionEntry *entry = entries; entry->long_name; entry++)
        if (g_strv_contains(of_compare, entry->long_name))
            *kept++ = *entry;
    *kept = (GOptionEntry)G_OPTION_ENTRY_NULL;
}

#define GROUPS_MAX 16

static void
append_groups(struct cli_words_group groups[GROUPS_MAX], const struct cli_words_group *more)
{
    int count = 0;

    while (groups[count].title)
        count++;
    for (; more && more->title; more++) {
        g_assert_cmpint(count, <, GROUPS_MAX - 1);
        groups[count++] = *more;
    }
}

static bool
parse_words(struct cli_request *request, struct words *words, const struct cli_verb *verb,
            const struct cli_words_group *more, int argc, char **argv, GError **error)
{
    bool simulate = verb == &cli_verb_simulate, compare = verb == &cli_verb_compare;
    GOptionEntry question[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, &words->help, "print this help", NULL},
        {"model", 'm', 0, G_OPTION_ARG_FILENAME, &request->model_name,
         "use this preset (memwall list models) or Hugging Face config.json", "MODEL"},
        {"hardware", 'H', 0, G_OPTION_ARG_FILENAME, &request->hardware_name,
         "use this hardware profile (memwall list hwprofiles) or .ini file (default: here, this "
         "machine; it is measured first if it never was)",
         "HW"},
        {"strategy", 's', 0, G_OPTION_ARG_STRING, &words->strategies,
         "use this strategy (memwall list strategies), or compare several, separated by commas "
         "(default auto: the fastest that fits, within 2% the simplest)",
         "NAME"},
        {"set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &words->sets,
         "change a key of the hardware profile, such as gpu.memory_gib=80; memwall list hwprofiles "
         "NAME shows keys, units and values",
         "SECTION.KEY=VALUE"},
        {"outlook", 0, 0, G_OPTION_ARG_STRING, &words->outlook,
         "take every range of the profile at its low (slow) end, its typical value or its high end "
         "(default: typical, with the times at both ends beside it)",
         "low|typical|high"},
        {"deepspeed", 0, 0, G_OPTION_ARG_FILENAME, &request->deepspeed_file,
         "read settings from a ds_config.json", "FILE"},
        G_OPTION_ENTRY_NULL};
    GOptionEntry output[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &request->json, "print JSON instead of tables", NULL},
        {"csv", 0, 0, G_OPTION_ARG_NONE, &request->csv, "print CSV instead of tables", NULL},
        {"largest", 0, 0, G_OPTION_ARG_NONE, &request->largest,
         "print the most layers of this model that fit, for each strategy", NULL},
        {"what-if", 0, 0, G_OPTION_ARG_NONE, &request->sensitivity,
         "print the step time at other bandwidths, and the bandwidths that efficiencies need",
         NULL},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &request->output, "write the plan as text",
         "FILE"},
        {"trace", 0, 0, G_OPTION_ARG_FILENAME, &request->trace,
         "write a Chrome trace, for ui.perfetto.dev", "FILE"},
        {"plot", 0, 0, G_OPTION_ARG_FILENAME, &request->plot,
         "draw timeline and memory as .png or .svg, with gnuplot", "FILE"},
        {"write-deepspeed", 0, 0, G_OPTION_ARG_FILENAME, &request->write_deepspeed,
         "write a ds_config.json for the plan", "FILE"},
        G_OPTION_ENTRY_NULL};
    struct cli_words_group groups[GROUPS_MAX] = {{"Question", question}, {"Answer", output}};

    hide(refused_by(verb), output);
    if (compare) {
        keep_those_of_compare(question);
        keep_those_of_compare(output);
    } else {
        append_groups(groups, more);
        append_groups(groups, cli_options_groups(refused_by(verb)));
    }
    struct cli_words all = {verb, groups, NULL};
    if (!cli_words_parse(&all, &argc, &argv, error))
        return false;
    if (words->help) {
        cli_words_help(&all, stdout);
        return true;
    }
    if (argc == 2 && (compare || (simulate && !request->model_name)))
        request->plan_file = g_strdup(argv[1]);
    else if (argc > 1)
        return mw_refuse(error, "unexpected argument \"%s\"; see memwall %s --help",
                         argv[compare ? 2 : 1], verb->name);
    if (compare && !request->plan_file)
        return mw_refuse(error,
                         "RUNFILE is missing: a file that `memwall run --save-timeline` wrote");
    return true;
}

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
check_settings(const struct cli_request *request, const struct words *words,
               const struct cli_verb *verb, GError **error)
{
    const struct mw_hardware alone = {
        .gpus_per_node = 1, .gpu_bf16 = true, .gpu_flash_attention = true};
    bool known =
        verb != &cli_verb_run && !(words->sets && *words->sets) && !request->deepspeed_file;
    const struct mw_request planned = {&request->model, known ? &alone : NULL};
    struct mw_settings asked = request->settings;
    bool taken = false;

    for (int i = 0; !taken && i < request->strategy_count; i++) {
        asked.strategy = request->strategies[i];
        taken = mw_settings_check(&planned, &asked, error && !*error ? error : NULL);
    }
    if (taken)
        g_clear_error(error);
    return taken;
}

bool
cli_check_output(const char *path, GError **error)
{
    return !path || cli_named(mw_file_check(path, error), error);
}

/* As far as it can be said without a machine: no measurement is for a question that is refused. */
static bool
check_before_measuring(const struct cli_request *request, const struct words *words,
                       const struct cli_verb *verb, cli_check check, GError **error)
{
    struct cli_request trial = *request; /* strings are the request's */
    int only;

    if (words->outlook && !parse_outlook(words->outlook, &only, error))
        return false;
    for (char **set = words->sets; set && *set; set++)
        if (!mw_hwprofile_set_check(*set, error))
            return false;
    bool good = request->plan_file ? check_plan_text(request, verb, error)
                                   : apply_options(&trial, words, error) &&
                                         check_outputs(&trial, verb->name, error) &&
                                         check_settings(&trial, words, verb, error);
    cli_deepspeed_blame(&trial, error);
    good = good && (!check || check(&trial, true, error));
    mw_deepspeed_said_clear(&trial.deepspeed);
    return good;
}

static bool
fill_request(struct cli_request *request, const struct words *words, const struct cli_verb *verb,
             cli_check check, GError **error)
{
    if (request->plan_file && !check_plan_file(request, words, error))
        return false;
    take_plan_machine(request, verb);
    if (!check_names(request, error) ||
        (!request->plan_file && !mw_model_load(request->model_name, &request->model, error)) ||
        !check_plan_there(request, verb->name, error) || (check && !check(request, false, error)) ||
        (is_to_be_measured(request) &&
         !check_before_measuring(request, words, verb, check, error)) ||
        !find_hardware(request, error) ||
        !load_profile(request, words->sets, words->outlook, error))
        return false;
    return request->plan_file ||
           (apply_options(request, words, error) && check_outputs(request, verb->name, error));
}

static int
parse(struct cli_request *request, const struct cli_verb *verb, const struct cli_words_group *more,
      cli_check check, int argc, char **argv, gboolean *done)
{
    g_autoptr(GError) error = NULL;
    struct words words = {0};
    bool good = parse_words(request, &words, verb, more, argc, argv, &error);

    *done = words.help;
    good = good && (words.help || fill_request(request, &words, verb, check, &error));
    words_clear(&words);
    if (!good) {
        mw_ranks_give_way();
        return cli_calibrate_fail(error);
    }
    return *done ? cli_flush() : CLI_DONE;
}

static void
clear(struct cli_request *request)
{
    mw_hwprofile_free(request->profile);
    mw_deepspeed_said_clear(&request->deepspeed);
    g_free(request->model_name);
    g_free(request->hardware_name);
    g_free(request->output);
    g_free(request->trace);
    g_free(request->plot);
    g_free(request->write_deepspeed);
    g_free(request->plan_file);
    g_free(request->deepspeed_file);
    memset(request, 0, sizeof *request);
}

int
cli_request_run(const struct cli_verb *verb, const struct cli_words_group *more, cli_check check,
                int argc, char **argv, int (*answer)(const struct cli_request *request))
{
    struct cli_request request = {0};
    gboolean done;
    int status = parse(&request, verb, more, check, argc, argv, &done);

    if (status == CLI_DONE && !done)
        status = answer(&request);
    clear(&request);
    return status;
}
