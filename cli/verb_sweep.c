/* `memwall sweep`: the same question at every point of a space, a row each. */
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "cli/cli.h"
#include "cli/paths.h"
#include "cli/sweep/axes.h"
#include "cli/sweep/job.h"
#include "report/plot_rows.h"

#define THREADS_MAX 4096
#define SHARDS_MAX 1000000

static struct cli_sweep_wish wish;
static struct mw_space *space;

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
    {"plot", 0, 0, G_OPTION_ARG_STRING_ARRAY, &wish.plots,
     "draw the rows with gnuplot as .png or .svg: lines of tokens/s over the last axis of numbers, "
     "a "
     "heat map over the last two, or the Pareto front of step time and cost",
     "lines:FILE|heat:FILE|pareto:FILE"},
    G_OPTION_ENTRY_NULL};

static bool
complete(struct cli_request *request, char **strategies, GError **error)
{
    const struct cli_axes axes = {wish.over, wish.points_file};

    space = mw_space_new();
    return cli_axes_fill(&axes, space, request, strategies, error) &&
           (mw_space_points(space) ||
            mw_refuse(error, "--over KEY=VALUE,VALUE... is missing: what is swept"));
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
    const char *other = wish.json          ? "--json"
                        : wish.plots       ? "--plot"
                        : wish.closed_form ? "--closed-form"
                                           : NULL;
    if (wish.shard_text && other)
        return mw_refuse(error, "--shard: leave out %s%s", other,
                         wish.closed_form ? "" : ", which --merge takes");
    return wish.shards <= mw_space_points(space) ||
           mw_refuse(error, "--shard %s: there are %" G_GINT64_FORMAT " points", wish.shard_text,
                     mw_space_points(space));
}

static bool
check_output(const struct cli_request *request, GError **error)
{
    const struct cli_path files[] = {
        {CLI_PATH_WRITES, "-o", wish.output},
        {CLI_PATH_READS, "--points", wish.points_file},
        {CLI_PATH_READS_MODEL, "-m", request->model_name},
        {CLI_PATH_READS_PROFILE, "-H", request->hardware_name},
        {CLI_PATH_READS, "--deepspeed", request->deepspeed_file},
    };

    if (wish.output && !*wish.output)
        return mw_refuse(error, "-o: a file's name is missing");
    return cli_paths_check(files, G_N_ELEMENTS(files), error) &&
           cli_check_output(wish.output, error);
}

static bool
check(const struct cli_request *request, bool measures, GError **error)
{
    (void)measures;
    if (wish.threads_text &&
        !read_count("threads", wish.threads_text, THREADS_MAX, &wish.threads, error))
        return false;
    return read_shard(error) && check_output(request, error) &&
           mw_plot_rows_check((const char *const *)wish.plots, error);
}

static int
answer(const struct cli_request *request)
{
    return cli_sweep_run(&wish, request->asked, space);
}

/* --- merging --------------------------------------------------------------------------------- */

static int
merge(int argc, char **argv)
{
    const struct cli_words_group groups[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};
    const struct cli_words words = {.verb = &cli_verb_sweep, .groups = groups};
    g_autoptr(GError) error = NULL;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    const char *other = wish.over           ? "--over"
                        : wish.points_file  ? "--points"
                        : wish.shard_text   ? "--shard"
                        : wish.closed_form  ? "--closed-form"
                        : wish.threads_text ? "--threads"
                                            : NULL;
    if (other)
        mw_refuse(&error, "--merge: takes files of shards, -o, --json and --plot; leave out %s",
                  other);
    else if (argc < 2)
        mw_refuse(&error, "--merge: the files of the shards are missing");
    else if (mw_plot_rows_check((const char *const *)wish.plots, &error) &&
             cli_check_output(wish.output, &error))
        return cli_sweep_merge(&wish, argv + 1);
    return cli_fail(error);
}

static void
clear(void)
{
    g_strfreev(wish.over);
    g_strfreev(wish.plots);
    g_free(wish.points_file);
    g_free(wish.output);
    g_free(wish.threads_text);
    g_free(wish.shard_text);
    memset(&wish, 0, sizeof wish);
    g_clear_pointer(&space, mw_space_free);
}

static bool
asks_merge(char **argv)
{
    bool help = g_strv_contains((const char *const *)argv, "--help") ||
                g_strv_contains((const char *const *)argv, "-h");

    return !help && g_strv_contains((const char *const *)argv, "--merge");
}

static int
run(int argc, char **argv)
{
    static const struct cli_words_group more[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};
    int status = asks_merge(argv)
                     ? merge(argc, argv)
                     : cli_request_run(&cli_verb_sweep, more, complete, check, argc, argv, answer);

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
