/* `memwall sweep`: the same question at every point of a space, a row each. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/sweep/axes.h"
#include "cli/sweep/columns.h"
#include "cli/sweep/files.h"
#include "cli/sweep/job.h"
#include "report/plot_rows.h"

#define THREADS_MAX 4096
#define SHARDS_MAX 1000000

static struct cli_sweep_wish wish;
static struct mw_space *space;

/* A merge that asks the shards' question again. */
static struct {
    char **paths;              /* NULL: there is none */
    struct cli_sweep_wish own; /* where its rows go */
} merging;

static const GOptionEntry entries[] = {
    {"over", 0, 0, G_OPTION_ARG_STRING_ARRAY, &wish.over,
     "take all these values of an option of simulate (batch, model, hardware, strategy ...) or of "
     "a "
     "key that --set takes; several --over make a grid, the last one going fastest. Ranges of "
     "numbers are LO..HI, LO..HI:STEP or LO..HI:xFACTOR; all is every model, profile or strategy "
     "there is; semicolons go between values that have commas",
     "KEY=VALUE,VALUE..."},
    {"points", 0, 0, G_OPTION_ARG_FILENAME, &wish.points_file,
     "take the points of a CSV file, whose first line has the keys; --over makes a grid with them",
     "FILE"},
    {"output", 'o', 0, G_OPTION_ARG_FILENAME, &wish.output,
     "write the rows to FILE; until all are there they are in FILE.partial, with which the same "
     "command continues after an interruption",
     "FILE"},
    {"json", 0, 0, G_OPTION_ARG_NONE, &wish.json, "write JSON instead of CSV", NULL},
    {"columns", 0, 0, G_OPTION_ARG_STRING, &wish.columns,
     "write these columns alone, in this order, such as over,strategy,step_time_s: names of the "
     "first line, or of axes; over: all axes",
     "NAME,NAME..."},
    {"threads", 0, 0, G_OPTION_ARG_STRING, &wish.threads_text,
     "compute with N threads (default: all cores that the process may use, shared with the other "
     "ranks of the machine)",
     "N"},
    {"shard", 0, 0, G_OPTION_ARG_STRING, &wish.shard_text,
     "compute only every N-th point, from the I-th on, for an array of jobs; --merge puts the "
     "files "
     "together",
     "I/N"},
    {"merge", 0, 0, G_OPTION_ARG_NONE, &wish.merge,
     "put the files of all shards together, instead of computing", NULL},
    {"closed-form", 0, 0, G_OPTION_ARG_NONE, &wish.closed_form,
     "estimate every step by the closed form, which takes milliseconds a point; the engine checks "
     "the Pareto front and 250 rows drawn at random",
     NULL},
    {"measure", 0, 0, G_OPTION_ARG_STRING, &wish.measure_text,
     "run each plan that fits on this machine too, by memwall run with these options of its own "
     "beside the point's, one run after the other; columns say what it measured",
     "'--data FILE --steps N ...'"},
    {"measure-limit", 0, 0, G_OPTION_ARG_STRING, &wish.measure_limit_text,
     "end a run of --measure after so many seconds; its point's error says so", "SECONDS"},
    {"plot", 0, 0, G_OPTION_ARG_STRING_ARRAY, &wish.plots,
     "draw the rows with gnuplot as .png or .svg: lines of tokens/s over the last axis of numbers, "
     "a "
     "heat map over the last two, the Pareto front of step time and cost, or what --measure "
     "measured over what was predicted",
     "lines:FILE|heat:FILE|pareto:FILE|measured:FILE"},
    G_OPTION_ENTRY_NULL};

/* The words were those of a shard: what it wrote is not written again. */
static void
take_wish_of_merge(void)
{
    struct cli_sweep_wish *own = &merging.own;

    g_clear_pointer(&wish.shard_text, g_free);
    g_clear_pointer(&wish.threads_text, g_free);
    g_free(wish.output);
    wish.output = g_steal_pointer(&own->output);
    wish.plots = g_steal_pointer(&own->plots);
    g_free(wish.columns);
    wish.columns = g_steal_pointer(&own->columns);
    wish.json = own->json;
}

/* A run is of memwall itself, and of one process, which has one GPU. */
static bool
complete_measure(struct cli_request *request, GError **error)
{
    if (request->software_name)
        return mw_refuse(error, "--measure: leave out --software: runs are memwall's own");
    request->software_name = g_strdup(MW_SOFTWARE_OWN);
    if (!mw_space_first(space, "gpus"))
        cli_options_take("gpus", "1", false);
    return true;
}

static bool
complete(struct cli_request *request, char **strategies, GError **error)
{
    if (merging.paths)
        take_wish_of_merge();
    const struct cli_axes axes = {wish.over, wish.points_file};

    space = mw_space_new();
    if (!cli_axes_fill(&axes, space, request, strategies, error))
        return false;
    if (!mw_space_points(space))
        return mw_refuse(error, "--over KEY=VALUE,VALUE... is missing: what is swept");
    return !wish.measure_text || complete_measure(request, error);
}

/* --- other options --------------------------------------------------------------------------- */

static bool
read_count(const char *option, const char *text, double most, int *count, GError **error)
{
    const struct mw_number number = {.name = option, .min = 1, .max = most, .whole = true};
    double value;

    if (!mw_number_read(&number, text, &value, error))
        return false;
    *count = (int)value;
    return true;
}

static bool
read_shard(GError **error)
{
    g_auto(GStrv) parts = g_strsplit(wish.shard_text ? wish.shard_text : "1/1", "/", 2);

    if (!parts[0] || !parts[1] || !read_count("shard", parts[1], SHARDS_MAX, &wish.shards, NULL) ||
        !read_count("shard", parts[0], wish.shards, &wish.shard, NULL))
        return mw_refuse(error, "--shard %s: must be I/N, with I from 1 to N", wish.shard_text);
    if (wish.shard_text && !wish.output)
        return mw_refuse(error, "--shard: takes -o FILE, for --merge to read");
    const char *other = wish.json      ? "--json"
                        : wish.plots   ? "--plot"
                        : wish.columns ? "--columns"
                                       : NULL;
    if (wish.shard_text && other)
        return mw_refuse(error, "--shard: leave out %s, which --merge takes", other);
    return wish.shards <= mw_space_points(space) ||
           mw_refuse(error, "--shard %s: there are %" G_GINT64_FORMAT " points", wish.shard_text,
                     mw_space_points(space));
}

/* What every run would refuse, or what would come in the way of it. */
static bool
check_measure(GError **error)
{
    if (!cli_measure_check_options(&wish.measure, error))
        return false;
    for (size_t column = 0; column < mw_space_columns(space); column++)
        if (!cli_measure_check_axis(mw_space_name(space, column), error))
            return false;
    return !wish.closed_form ||
           mw_refuse(error, "--measure: leave out --closed-form, which makes no plans to run");
}

static bool
read_measure(GError **error)
{
    const struct mw_number limit = {.name = "measure-limit", .min = 1, .max = 1e9};
    g_autoptr(GError) failed = NULL;

    g_clear_pointer(&wish.measure.options, g_strfreev);
    wish.measure.limit_s = INFINITY;
    if (!wish.measure_text)
        return !wish.measure_limit_text ||
               mw_refuse(error, "--measure-limit: is of the runs that --measure asks for");
    if (wish.measure_limit_text &&
        !mw_number_read(&limit, wish.measure_limit_text, &wish.measure.limit_s, error))
        return false;
    if (!g_shell_parse_argv(wish.measure_text, NULL, &wish.measure.options, &failed))
        return mw_refuse(error,
                         "--measure: must be options of memwall run, such as "
                         "'--data tokens.bin --steps 6': %s",
                         failed->message);
    return check_measure(error);
}

/* The pictures, as far as it is known before there are rows. */
static bool
check_plots(GError **error)
{
    const char *const *plots = (const char *const *)wish.plots;

    return cli_as_usage_error(mw_plot_rows_check(plots, error), error) &&
           (!space || mw_plot_rows_check_axes(plots, cli_axes_of_numbers(space),
                                              wish.measure_text != NULL, error));
}

static bool
check_columns(GError **error)
{
    const struct cli_measure *runs = wish.measure.options ? &wish.measure : NULL;
    const struct cli_sweep sweep = {NULL, space, wish.closed_form, runs};
    g_autofree char *names = wish.columns ? cli_sweep_names(&sweep) : NULL;

    return !names || cli_columns_check(wish.columns, names, error);
}

static bool
check(const struct cli_request *request, bool measures, GError **error)
{
    (void)measures;
    if (wish.threads_text &&
        !read_count("threads", wish.threads_text, THREADS_MAX, &wish.threads, error))
        return false;
    return read_shard(error) && read_measure(error) && check_columns(error) && check_plots(error) &&
           cli_sweep_check_files(&wish, request, space, error);
}

static int
answer(const struct cli_request *request)
{
    return merging.paths ? cli_sweep_merge_checked(&wish, request->asked, space, merging.paths)
                         : cli_sweep_run(&wish, request->asked, space);
}

static const struct cli_words_group own_words[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};

/* --- merging --------------------------------------------------------------------------------- */

/* The engine checks rows of the whole, by the question that the shards' command asks. */
static int
merge_checked(char **paths, char **words)
{
    g_autofree char **argv = g_memdup2(words, (g_strv_length(words) + 1) * sizeof *words);

    merging.paths = paths;
    merging.own = wish;
    memset(&wish, 0, sizeof wish);
    return cli_request_run(&cli_verb_sweep, own_words, complete, check, (int)g_strv_length(words),
                           argv, answer);
}

static int
merge_files(char **paths)
{
    g_auto(GStrv) words = cli_sweep_merge_asks(paths);

    return words ? merge_checked(paths, words) : cli_sweep_merge(&wish, paths);
}

static int
merge(int argc, char **argv)
{
    const struct cli_words words = {.verb = &cli_verb_sweep, .groups = own_words};
    g_autoptr(GError) error = NULL;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    const char *other = wish.over           ? "--over"
                        : wish.points_file  ? "--points"
                        : wish.shard_text   ? "--shard"
                        : wish.closed_form  ? "--closed-form"
                        : wish.threads_text ? "--threads"
                        : wish.measure_text ? "--measure"
                                            : NULL;
    if (other)
        mw_refuse(&error,
                  "--merge: takes files of shards, -o, --json, --columns and --plot; leave out %s",
                  other);
    else if (argc < 2)
        mw_refuse(&error, "--merge: the files of the shards are missing");
    else if (check_plots(&error) && cli_sweep_check_merge(&wish, argv + 1, &error))
        return merge_files(argv + 1);
    return cli_fail(error);
}

static void
clear_wish(struct cli_sweep_wish *of)
{
    g_strfreev(of->over);
    g_strfreev(of->plots);
    g_free(of->points_file);
    g_free(of->columns);
    g_free(of->output);
    g_free(of->threads_text);
    g_free(of->shard_text);
    g_free(of->measure_text);
    g_free(of->measure_limit_text);
    g_strfreev(of->measure.options);
    g_free(of->command);
    memset(of, 0, sizeof *of);
}

static void
clear(void)
{
    clear_wish(&wish);
    clear_wish(&merging.own);
    merging.paths = NULL;
    g_clear_pointer(&space, mw_space_free);
}

static bool
asks_merge(char **argv)
{
    bool help = g_strv_contains((const char *const *)argv, "--help") ||
                g_strv_contains((const char *const *)argv, "-h");

    return !help && g_strv_contains((const char *const *)argv, "--merge");
}

/* As struct cli_store_title has it. */
static char *
command_of(char **argv)
{
    g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);

    for (char **word = argv; *word; word++)
        g_ptr_array_add(words, g_strescape(*word, NULL));
    g_ptr_array_add(words, NULL);
    return g_strjoinv("\t", (char **)words->pdata);
}

static int
run(int argc, char **argv)
{
    wish.command = command_of(argv);
    int status = asks_merge(argv) ? merge(argc, argv)
                                  : cli_request_run(&cli_verb_sweep, own_words, complete, check,
                                                    argc, argv, answer);

    clear();
    return status;
}

const struct cli_verb cli_verb_sweep = {
    .name = "sweep",
    .summary = "simulate many configurations, a row each",
    .arguments = "-m MODEL [-H HW] --over KEY=VALUE,VALUE...",
    .examples = "memwall sweep -m gpt3-13b -H dgx2,dgx-a100 --over nodes=1..16:x2 -o rows.csv\n"
                "memwall sweep -m gpt2-xl -H all --over batch=1..8 --plot pareto:front.svg\n"
                "memwall sweep --merge shard-*.csv -o rows.csv",
    .details = "-m, -H, --software and -s take several names with commas between them, or all: "
               "each is an axis before those of --over. A row has the point's values (over.KEY), "
               "the reason where the point is refused (error), and the columns of simulate --csv. "
               "The bytes are the same for any number of threads, of ranks that mpirun or srun "
               "starts, and after any interruption. docs/sweep.md explains it.",
    .run = run,
};
