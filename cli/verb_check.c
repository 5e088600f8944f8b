/* `memwall check`: a gate for predictions and for runs. */
#include <string.h>

#include "base/error.h"
#include "cli/check/check.h"
#include "cli/cli.h"
#include "cli/paths.h"
#include "cli/sweep/axes.h"
#include "hardware/hwprofile.h"
#include "model/model.h"

static struct cli_check_wish wish;
static struct mw_space *space;

static const GOptionEntry entries[] = {
    {"baseline", 0, 0, G_OPTION_ARG_FILENAME, &wish.baseline,
     "compare with FILE: what --write-baseline wrote, whose predictions are made anew; or a result "
     "of simulate or sweep, or a log, with which CURRENT is compared",
     "FILE"},
    {"write-baseline", 0, 0, G_OPTION_ARG_FILENAME, &wish.write_baseline,
     "write a baseline instead: of the predictions that -m and the other options of simulate ask "
     "for, with their questions; or of LOG",
     "FILE"},
    {"over", 0, 0, G_OPTION_ARG_STRING_ARRAY, &wish.over,
     "write the predictions for all these values, as sweep takes them", "KEY=VALUE,VALUE..."},
    {"points", 0, 0, G_OPTION_ARG_FILENAME, &wish.points_file,
     "write those of the points of a CSV file, as sweep takes them", "FILE"},
    {"max-drop", 0, 0, G_OPTION_ARG_STRING, &wish.max_drop,
     "fail where the speed of a run, or a figure of a prediction, is worse by more (default 3%)",
     "SHARE"},
    {"tolerance", 0, 0, G_OPTION_ARG_STRING_ARRAY, &wish.tolerances,
     "the same for one figure of predictions, such as gpu_peak_bytes=0 or cost_usd=10%: feasible, "
     "step_time_s, first_step_time_s, tokens_per_s, gpu_peak_bytes, cpu_peak_bytes, "
     "nvme_peak_bytes, nvme_written_bytes, days, cost_usd, energy_kwh",
     "FIGURE=SHARE"},
    {"either-way", 0, 0, G_OPTION_ARG_NONE, &wish.either_way,
     "fail where it is better by more, too: a prediction that changed is seen", NULL},
    {"predicted", 0, 0, G_OPTION_ARG_FILENAME, &wish.predicted,
     "compare the run with this prediction, which simulate --json has written (default: the one "
     "in memwall's own log)",
     "FILE"},
    {"min-of-predicted", 0, 0, G_OPTION_ARG_STRING, &wish.of_predicted,
     "fail where a run is slower than this share of the predicted speed, such as 0.8", "SHARE"},
    {"warm-up", 0, 0, G_OPTION_ARG_STRING, &wish.warm_up,
     "leave out the first N steps of a log (default: a tenth of them, at most 50)", "N"},
    {"min-steps", 0, 0, G_OPTION_ARG_STRING, &wish.steps_min,
     "refuse a verdict on fewer steps (default 10)", "N"},
    {"junit", 0, 0, G_OPTION_ARG_FILENAME, &wish.junit, "write the verdict as JUnit XML too",
     "FILE"},
    {"github", 0, 0, G_OPTION_ARG_NONE, &wish.github, "print annotations for a GitHub workflow too",
     NULL},
    {"json", 0, 0, G_OPTION_ARG_NONE, &wish.json, "print JSON instead of tables", NULL},
    G_OPTION_ENTRY_NULL};
static const struct cli_words_group groups[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};

/* --- comparing, and keeping a log ------------------------------------------------------------ */

/* Options of the other use; NULL: none is given. */
static const char *
option_of_comparing(void)
{
    return wish.baseline       ? "--baseline"
           : wish.predicted    ? "--predicted"
           : wish.max_drop     ? "--max-drop"
           : wish.tolerances   ? "--tolerance"
           : wish.either_way   ? "--either-way"
           : wish.of_predicted ? "--min-of-predicted"
           : wish.warm_up      ? "--warm-up"
           : wish.steps_min    ? "--min-steps"
           : wish.junit        ? "--junit"
           : wish.github       ? "--github"
           : wish.json         ? "--json"
                               : NULL;
}

static bool
check_words(int argc, char **argv, GError **error)
{
    const char *other = wish.write_baseline ? option_of_comparing() : NULL;

    if (argc > 2)
        return mw_refuse(error,
                         "check compares one file with a baseline; unexpected argument "
                         "\"%s\"",
                         argv[2]);
    if (other)
        return mw_refuse(error, "%s: --write-baseline compares nothing; leave one out", other);
    if (wish.write_baseline && argc < 2)
        return mw_refuse(error, "--write-baseline: takes -m MODEL, or the LOG of a run");
    if (wish.github && wish.json)
        return mw_refuse(error, "--github, --json: both print on standard output; give one");
    if (!wish.write_baseline && !wish.baseline && argc < 2)
        return mw_refuse(error, "check takes --baseline FILE, or a log with --min-of-predicted");
    if (!wish.write_baseline && !wish.baseline && !wish.of_predicted)
        return mw_refuse(error,
                         "%s: nothing to compare it with: --baseline FILE or "
                         "--min-of-predicted SHARE is missing",
                         argv[1]);
    return true;
}

static int
compare(int argc, char **argv)
{
    const struct cli_words words = {.verb = &cli_verb_check, .groups = groups};
    g_autoptr(GError) error = NULL;

    if (!cli_words_parse(&words, &argc, &argv, &error) || !check_words(argc, argv, &error))
        return cli_fail(error);
    const char *file = argc > 1 ? argv[1] : NULL;
    return wish.write_baseline ? cli_check_keep_log(&wish, file) : cli_check_run(&wish, file);
}

/* --- predictions to keep --------------------------------------------------------------------- */

static bool
complete(struct cli_request *request, char **strategies, GError **error)
{
    const struct cli_axes axes = {wish.over, wish.points_file};

    space = mw_space_new();
    return cli_axes_fill(&axes, space, request, strategies, error);
}

static bool
check_output(const struct cli_request *request, GError **error)
{
    const struct cli_path files[] = {
        {CLI_PATH_WRITES, "--write-baseline", wish.write_baseline},
        {CLI_PATH_READS, "--points", wish.points_file},
        {CLI_PATH_READS_MODEL, "-m", request->model_name},
        {CLI_PATH_READS_PROFILE, "-H", request->hardware_name},
        {CLI_PATH_READS, "--deepspeed", request->deepspeed_file},
    };

    return cli_check_named("--write-baseline", wish.write_baseline, error) &&
           cli_paths_check(files, G_N_ELEMENTS(files), error) &&
           cli_check_output(wish.write_baseline, error);
}

static bool
check(const struct cli_request *request, bool measures, GError **error)
{
    const char *other = option_of_comparing();

    (void)measures;
    if (other && wish.write_baseline)
        return mw_refuse(error, "%s: --write-baseline compares nothing; leave one out", other);
    if (other)
        return mw_refuse(error,
                         "%s: a baseline has its questions; -m and other options of "
                         "simulate go with --write-baseline",
                         other);
    if (!wish.write_baseline)
        return mw_refuse(error, "--write-baseline FILE is missing: where the predictions go");
    if (!request->hardware_name || !strcmp(request->hardware_name, "here"))
        return mw_refuse(error, "-H HW is missing: a baseline names its machine, as another one "
                                "may check it");
    return check_output(request, error);
}

/* A name that nothing has is no question, whatever its points; names of axes are checked there. */
static bool
check_names(const struct memwall_question *asked, GError **error)
{
    const char *model = memwall_question_get(asked, "model");
    const char *hardware = memwall_question_get(asked, "hardware");
    struct mw_model read;

    if (model && !mw_model_load(model, &read, error))
        return false;
    struct mw_profile *profile = hardware ? mw_hwprofile_load(hardware, error) : NULL;
    bool good = profile || !hardware;
    mw_profile_free(profile);
    return good;
}

/* A point that is refused may be kept; a baseline without any answer guards nothing. */
static bool
check_answered(const GPtrArray *cases, GError **error)
{
    for (guint i = 0; i < cases->len; i++)
        if (!((const struct mw_gate_case *)cases->pdata[i])->error)
            return true;
    const struct mw_gate_case *first = cases->pdata[0];
    return cases->len == 1 ? mw_refuse(error, "%s", first->error)
                           : mw_refuse(error, "all %u points are refused; the first, %s: %s",
                                       cases->len, first->name, first->error);
}

static int
answer(const struct cli_request *request)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) cases =
        check_names(request->asked, &error) ? cli_check_ask(request->asked, space, &error) : NULL;

    return cases && check_answered(cases, &error) ? cli_check_keep_cases(&wish, cases)
                                                  : cli_fail(error);
}

/* --- the verb -------------------------------------------------------------------------------- */

/* A question is asked where a model or a point is named; its options are those of simulate. */
static bool
asks(char **argv)
{
    static const char *const begin[] = {"-m", "--model", "--points", "--over", "--help"};

    for (; *argv; argv++)
        for (size_t i = 0; i < G_N_ELEMENTS(begin); i++)
            if (g_str_has_prefix(*argv, begin[i]) || !strcmp(*argv, "-h"))
                return true;
    return false;
}

static void
clear(void)
{
    g_strfreev(wish.over);
    g_strfreev(wish.tolerances);
    g_free(wish.baseline);
    g_free(wish.write_baseline);
    g_free(wish.predicted);
    g_free(wish.max_drop);
    g_free(wish.of_predicted);
    g_free(wish.warm_up);
    g_free(wish.steps_min);
    g_free(wish.points_file);
    g_free(wish.junit);
    memset(&wish, 0, sizeof wish);
    g_clear_pointer(&space, mw_space_free);
}

static int
run(int argc, char **argv)
{
    int status = asks(argv)
                     ? cli_request_run(&cli_verb_check, groups, complete, check, argc, argv, answer)
                     : compare(argc, argv);

    clear();
    return status;
}

const struct cli_verb cli_verb_check = {
    .name = "check",
    .summary = "fail where predictions or a run became worse than a baseline",
    .arguments = "--baseline FILE [CURRENT]",
    .examples = "memwall check --write-baseline base.json -m gpt2-xl -H dgx2,rtx4090\n"
                "memwall check --baseline base.json --either-way --max-drop 0.1%\n"
                "memwall check --write-baseline run.json train.log\n"
                "memwall check --baseline old.log new.log --max-drop 3% --junit check.xml\n"
                "memwall check train.log --predicted step.json --min-of-predicted 0.8",
    .borrows = "-m, -H, -s, --set and all other options of simulate that describe training go with "
               "--write-baseline: `memwall help simulate` and `man memwall-check` list them.",
    .details =
        "CURRENT and LOG are logs of memwall (--log, --json, --save-timeline), Hugging Face's "
        "trainer_state.json, or the logs of torchtitan, Megatron-LM, DeepSpeed and jobs of export; "
        "CURRENT may also be what simulate --json and sweep wrote. A run fails where the whole "
        "range of its speed, with 95% confidence, is beyond the limit. docs/gate.md explains it. "
        "Exit status 4: the gate failed.",
    .run = run,
};
