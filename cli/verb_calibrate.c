/* `memwall calibrate`: measures this machine and writes its profile. */
#include <stdio.h>

#include "base/error.h"
#include "cli/calibration/calibrate.h"
#include "cli/cli.h"
#include "base/number.h"
#include "cli/paths.h"
#include "cli/run/backend.h"
#include "cli/runs/runs.h"

#define LIMIT_GB_MAX 1e6
#define BUDGET_S_MIN 5
#define BUDGET_S_MAX 3600
#define SCRATCH_BYTES (INT64_C(16) << 20) /* for collectives */

static char *backend_name, *dtype_name;

static gboolean
parse_sustained(const char *name, const char *text, gpointer data, GError **error)
{
    static const struct mw_number number = {.name = "sustained",
                                            .min = 1,
                                            .max = LIMIT_GB_MAX,
                                            .joined = true,
                                            .unit = "GB",
                                            .noun = "number of GB",
                                            .or_as = ", such as 100GB"};
    struct cli_calibrate_wish *wish = data;
    double gb = 0;

    wish->sustained = TRUE;
    if (text && !mw_number_read(&number, text, &gb, error))
        return FALSE;
    wish->limit_bytes = (gint64)(gb * 1e9);
    return TRUE;
}

static gboolean
parse_budget(const char *name, const char *text, gpointer data, GError **error)
{
    static const struct mw_number number = {.name = "budget",
                                            .min = BUDGET_S_MIN,
                                            .max = BUDGET_S_MAX,
                                            .unit = "s",
                                            .noun = "number of seconds"};
    struct cli_calibrate_wish *wish = data;

    return mw_number_read(&number, text, &wish->budget_s, error);
}

static bool
are_folders(char **names, GError **error)
{
    for (char **name = names; name && *name; name++)
        if (!g_file_test(*name, G_FILE_TEST_IS_DIR))
            return mw_refuse(error, "--nvme %s: must be an existing directory", *name);
    return true;
}

static bool
parse(struct cli_calibrate_wish *wish, int argc, char **argv, gboolean *help, GError **error)
{
    const union {
        GOptionArgFunc function;
        void *data; /* G_OPTION_ARG_* writes to it */
    } sustained = {parse_sustained}, budget = {parse_budget};
    const GOptionEntry entries[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, help, "print this help", NULL},
        {"backend", 0, 0, G_OPTION_ARG_STRING, &backend_name,
         "measure cpu (cores), cuda (GPUs), or auto: GPUs where there are any (default)",
         "auto|cpu|cuda"},
        {"dtype", 0, 0, G_OPTION_ARG_STRING, &dtype_name,
         "measure products in bf16 (default) or fp16", "bf16|fp16"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &wish->output,
         "write the profile to FILE (default: here.ini among the user's profiles, which -H here "
         "reads)",
         "FILE"},
        {"nvme", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &wish->directories,
         "measure the drive of this directory; give one per drive (default: " CLI_RUNS_PLACE ")",
         "DIR"},
        {"budget", 0, 0, G_OPTION_ARG_CALLBACK, budget.data,
         "take at most this many seconds (default 60): on a slow machine fewer sizes and samples "
         "are measured, and ranges are wider",
         "SECONDS"},
        {"sustained", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, sustained.data,
         "write to the drives until their rate no longer changes, at most LIMIT GB (default 68); "
         "this takes its own time, on top of --budget",
         "LIMIT"},
        {"quick", 0, 0, G_OPTION_ARG_NONE, &wish->quick,
         "measure tiny sizes and few samples: takes seconds, and gives rough figures", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &wish->json, "print JSON instead of a table", NULL},
        G_OPTION_ENTRY_NULL};
    const struct cli_words_group groups[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};
    const struct cli_words words = {&cli_verb_calibrate, groups, wish};

    if (!cli_words_parse(&words, &argc, &argv, error))
        return false;
    if (argc > 1)
        return mw_refuse(error, "unexpected argument \"%s\"; see memwall calibrate --help",
                         argv[1]);
    if (*help)
        cli_words_help(&words, stdout);
    if (wish->output && !*wish->output)
        return mw_refuse(error, "-o: a file's name is missing");
    const struct cli_path output = {CLI_PATH_WRITES, "-o", wish->output};
    return cli_paths_check(&output, 1, error) && are_folders(wish->directories, error);
}

static bool
read_backend(const struct mw_backend **backend, GError **error)
{
    if (!cli_run_backend_read(backend_name, backend, error))
        return false;
    if (!*backend || (*backend)->kernels)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "--backend %s: it computes nothing: there is nothing to measure", backend_name);
    return false;
}

static bool
read_dtype(enum mw_dtype *dtype, GError **error)
{
    static const enum mw_dtype types[] = {MW_DTYPE_BF16, MW_DTYPE_FP16};

    for (size_t i = 0; dtype_name && i < G_N_ELEMENTS(types); i++)
        if (g_str_equal(dtype_name, mw_dtype_name(types[i])))
            *dtype = types[i];
    if (!dtype_name || *dtype != MW_DTYPE_NONE)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "--dtype %s: must be bf16 or fp16", dtype_name);
    return false;
}

/* Joins the ranks of this machine, if mpirun started it. */
static bool
measure_with_ranks(struct cli_calibrate_wish *wish, GError **error)
{
    wish->ranks = mw_ranks_join(1, SCRATCH_BYTES, error);
    if (!wish->ranks)
        return false;
    const char *notice = mw_ranks_notice(wish->ranks);
    bool good = mw_ranks_node_count(wish->ranks) == mw_ranks_count(wish->ranks);
    if (notice && !mw_ranks_index(wish->ranks))
        cli_say("%s", notice);
    if (!good)
        g_set_error_literal(error, MW_ERROR, MW_ERROR_INVALID,
                            "calibrate measures one machine: start all ranks on it");
    good = good && cli_run_backend_choose(&wish->backend, wish->ranks, error) &&
           cli_calibrate(wish, error);
    if (good)
        mw_ranks_leave(wish->ranks);
    return good;
}

/* Prints the reason in one line if all ranks failed for the same reason. */
static int
fail(const struct cli_calibrate_wish *wish, const GError *error)
{
    if (!wish->ranks)
        mw_ranks_give_way();
    return !wish->ranks || mw_ranks_tells(wish->ranks, error->message)
               ? cli_calibrate_fail(error)
               : cli_calibrate_exit_of(error);
}

static int
end(struct cli_calibrate_wish *wish, bool good, const GError *error)
{
    int status = good ? cli_flush() : fail(wish, error);

    if (!good)
        mw_ranks_abort(wish->ranks, status);
    g_free(wish->output);
    g_strfreev(wish->directories);
    return status;
}

static int
run(int argc, char **argv)
{
    struct cli_calibrate_wish wish = {0};
    g_autoptr(GError) error = NULL;
    gboolean help = FALSE;
    bool good = parse(&wish, argc, argv, &help, &error);

    if (good && !help)
        good = read_dtype(&wish.dtype, &error) && read_backend(&wish.backend, &error) &&
               measure_with_ranks(&wish, &error);
    return end(&wish, good, error);
}

const struct cli_verb cli_verb_calibrate = {
    .name = "calibrate",
    .summary = "measure this machine and write its profile, which -H here reads",
    .arguments = "",
    .examples = "memwall calibrate --nvme /mnt/nvme0 --nvme /mnt/nvme1",
    .run = run,
};
