/* Reads both sides, compares them, and says what came out. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "cli/check/check.h"
#include "cli/cli.h"
#include "cli/paths.h"

struct sides { /* owned */
    struct mw_log baseline, current, predicted;
    GPtrArray *again; /* predictions that were asked anew */
    struct mw_gate_verdict *verdict;
    struct mw_gate_speed speed;
    double expected_s; /* a step by the prediction; NAN: none */
};

static void
clear(struct sides *sides)
{
    mw_gate_verdict_free(sides->verdict);
    if (sides->again)
        g_ptr_array_unref(sides->again);
    mw_log_clear(&sides->baseline);
    mw_log_clear(&sides->current);
    mw_log_clear(&sides->predicted);
}

/* --- predictions ----------------------------------------------------------------------------- */

static bool
refuse_options_of_runs(const struct cli_check_wish *wish, GError **error)
{
    const char *option = wish->predicted      ? "--predicted"
                         : wish->of_predicted ? "--min-of-predicted"
                         : wish->warm_up      ? "--warm-up"
                         : wish->steps_min    ? "--min-steps"
                                              : NULL;

    return !option ||
           mw_refuse(error, "%s: is for logs of runs; %s has predictions", option, wish->baseline);
}

static bool
compare_cases(const struct cli_check_wish *wish, const char *current,
              const struct mw_gate_limits *limits, struct sides *sides, GError **error)
{
    if (!refuse_options_of_runs(wish, error))
        return false;
    if (current && !sides->current.cases)
        return mw_refuse(error,
                         "%s has predictions, %s a run; --predicted compares a run with them",
                         wish->baseline, current);
    if (!current && !(sides->again = cli_check_ask_again(wish, sides->baseline.cases, error)))
        return false;
    sides->verdict = mw_gate_cases(sides->baseline.cases,
                                   current ? sides->current.cases : sides->again, limits, error);
    return sides->verdict != NULL;
}

/* --- runs ------------------------------------------------------------------------------------ */

/* By a file, or as the run's own log has it. */
static bool
find_expected(const struct cli_check_wish *wish, struct sides *sides, GError **error)
{
    const struct mw_gate_steps *steps = sides->current.steps;

    if (!wish->of_predicted)
        return !wish->predicted ||
               mw_refuse(error, "--predicted: takes --min-of-predicted SHARE, such as 0.8");
    if (!wish->predicted) {
        sides->expected_s = steps->predicted_s;
        return isfinite(sides->expected_s) ||
               mw_refuse(error, "--min-of-predicted: the log has no prediction: name one with "
                                "--predicted FILE, which simulate --json has written");
    }
    if (!sides->predicted.cases || sides->predicted.cases->len != 1)
        return mw_refuse(error,
                         "--predicted %s: must have one prediction, as simulate --json "
                         "writes it",
                         wish->predicted);
    sides->expected_s = mw_gate_expected_s(sides->predicted.cases->pdata[0], steps);
    return (isfinite(sides->expected_s) && sides->expected_s > 0) ||
           mw_refuse(error, "--predicted %s: does not have what a %s log is compared with",
                     wish->predicted, steps->format);
}

static bool
compare_runs(const struct cli_check_wish *wish, const char *current,
             const struct mw_gate_limits *limits, struct sides *sides, GError **error)
{
    if (!current)
        return mw_refuse(error, "%s has a run: name the log to compare it with", wish->baseline);
    if (!sides->current.steps)
        return mw_refuse(error, "%s has predictions%s%s%s", current,
                         wish->baseline ? "; " : ": check takes --baseline FILE, or a log",
                         wish->baseline ? wish->baseline : "", wish->baseline ? " a run" : "");
    if (wish->tolerances)
        return mw_refuse(error, "--tolerance: is of predictions; of a run --max-drop is allowed");
    return find_expected(wish, sides, error) &&
           mw_gate_runs(sides->baseline.steps, sides->current.steps, sides->expected_s, limits,
                        &sides->speed, error);
}

/* --- both ------------------------------------------------------------------------------------ */

bool
cli_check_named(const char *option, const char *path, GError **error)
{
    return !path || *path || mw_refuse(error, "%s: a file's name is missing", option);
}

static bool
check_files(const struct cli_check_wish *wish, const char *current, GError **error)
{
    const struct cli_path files[] = {
        {CLI_PATH_READS, "--baseline", wish->baseline},
        {CLI_PATH_READS, "this command", current},
        {CLI_PATH_READS, "--predicted", wish->predicted},
        {CLI_PATH_WRITES, "--junit", wish->junit},
        {CLI_PATH_WRITES, "--write-baseline", wish->write_baseline},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        if (!cli_check_named(files[i].option, files[i].path, error))
            return false;
    return cli_paths_check(files, G_N_ELEMENTS(files), error) &&
           cli_check_output(wish->junit, error) && cli_check_output(wish->write_baseline, error);
}

static bool
read_sides(const struct cli_check_wish *wish, const char *current, struct sides *sides,
           GError **error)
{
    return (!wish->baseline || mw_log_read(wish->baseline, &sides->baseline, error)) &&
           (!current || mw_log_read(current, &sides->current, error)) &&
           (!wish->predicted || mw_log_read(wish->predicted, &sides->predicted, error));
}

static bool
write_junit(const char *path, const struct mw_gate_report *report, GError **error)
{
    struct mw_file *file = path ? mw_file_open(path, error) : NULL;

    if (!file)
        return !path;
    mw_gate_junit_write(file->stream, report);
    return mw_file_commit(file, error);
}

static int
report(const struct cli_check_wish *wish, const char *current, const struct sides *sides,
       const struct mw_gate_limits *limits)
{
    const struct mw_gate_report all = {wish->baseline,  current,
                                       wish->predicted, sides->baseline.version,
                                       limits,          sides->baseline.cases,
                                       sides->verdict,  sides->verdict ? NULL : &sides->speed};
    g_autoptr(GError) error = NULL;

    if (!write_junit(wish->junit, &all, &error))
        return cli_fail(error);
    if (wish->json)
        mw_gate_json_write(stdout, &all);
    else
        mw_gate_text_write(stdout, &all);
    if (wish->github)
        mw_gate_github_write(stdout, &all);
    if (cli_flush() != CLI_DONE)
        return CLI_FAILED;
    return mw_gate_failed(&all) ? CLI_GATE_FAILED : CLI_DONE;
}

int
cli_check_run(const struct cli_check_wish *wish, const char *current)
{
    struct sides sides = {.expected_s = NAN};
    struct mw_gate_limits limits;
    g_autoptr(GError) error = NULL;
    bool good = cli_check_limits(wish, &limits, &error) && check_files(wish, current, &error) &&
                read_sides(wish, current, &sides, &error) &&
                (sides.baseline.cases ? compare_cases(wish, current, &limits, &sides, &error)
                                      : compare_runs(wish, current, &limits, &sides, &error));
    int status = good ? report(wish, current, &sides, &limits) : cli_fail(error);

    clear(&sides);
    return status;
}

/* --- keeping --------------------------------------------------------------------------------- */

static int
keep(const struct cli_check_wish *wish, GPtrArray *cases, const struct mw_gate_steps *steps)
{
    g_autoptr(GError) error = NULL;
    struct mw_file *file = mw_file_open(wish->write_baseline, &error);

    if (!file)
        return cli_fail(error);
    if (cases)
        mw_log_baseline_cases_write(file->stream, cases, memwall_version());
    else
        mw_log_baseline_steps_write(file->stream, steps, memwall_version());
    if (!mw_file_commit(file, &error))
        return cli_fail(error);
    if (cases)
        cli_say("%s: written, with %u prediction%s", wish->write_baseline, cases->len,
                cases->len == 1 ? "" : "s");
    else
        cli_say("%s: written, with %u steps", wish->write_baseline, steps->count);
    return CLI_DONE;
}

int
cli_check_keep_cases(const struct cli_check_wish *wish, GPtrArray *cases)
{
    return keep(wish, cases, NULL);
}

int
cli_check_keep_log(const struct cli_check_wish *wish, const char *log)
{
    struct mw_log read = {0};
    g_autoptr(GError) error = NULL;
    bool good = check_files(wish, log, &error) && mw_log_read(log, &read, &error) &&
                (read.steps || mw_refuse(&error,
                                         "%s has predictions: --write-baseline takes the "
                                         "log of a run, or a question (-m MODEL)",
                                         log));
    int status = good ? keep(wish, NULL, read.steps) : cli_fail(error);

    mw_log_clear(&read);
    return status;
}
