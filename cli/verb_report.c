/* `memwall report FILES -o PAGE.html`: results as one page. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/words.h"
#include "exec/host/signals.h"
#include "report/html/page.h"

static bool
is_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool
check(char **files, int count, const char *output, GError **error)
{
    if (count < 1)
        return mw_refuse(error, "report takes at least one file: what memwall wrote with --json, "
                                "rows of sweep, or a --trace");
    if (count > MW_PAGE_FILES_MAX)
        return mw_refuse(error, "%d files: a page has at most %d", count, MW_PAGE_FILES_MAX);
    if (!output || !*output)
        return mw_refuse(error, "-o PAGE.html is missing: the page that is written");
    for (int i = 0; i < count; i++)
        if (is_same_file(files[i], output))
            return mw_refuse(error, "-o %s: the page would replace a file that it is made of",
                             output);
    return cli_as_usage_error(cli_check_output(output, error), error);
}

static struct mw_signals *signals;

/* Listens from the first question on: until then a signal ends the process, which has made no files
 * and may wait for a pipe. */
static bool
stops(void)
{
    if (!signals)
        signals = mw_signals_begin(MW_SIGNALS_INT | MW_SIGNALS_TERM | MW_SIGNALS_HUP);
    return mw_signals_heard(signals) != 0;
}

static bool
write_page(char **files, int count, const char *output, const char *title, GError **error)
{
    const char *lacks = NULL;
    bool good = check(files, count, output, error) &&
                mw_page_write(output, title, (const char *const *)files, stops, &lacks, error);

    if (good && lacks)
        cli_say("%s: has %s", output, lacks);
    return good;
}

static int
run(int argc, char **argv)
{
    static char *output, *title;
    static gboolean help;
    static const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "write the page to FILE", "FILE"},
        {"title", 0, 0, G_OPTION_ARG_STRING, &title,
         "the page's heading; default: what the first result is of", "TEXT"},
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this help", NULL},
        G_OPTION_ENTRY_NULL};
    static const struct cli_words_group groups[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};
    const struct cli_words words = {.verb = &cli_verb_report, .groups = groups};
    g_autoptr(GError) error = NULL;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    if (help) {
        cli_words_help(&words, stdout);
        return cli_flush();
    }
    bool good = write_page(argv + 1, argc - 1, output, title, &error);
    int stopped = good ? 0 : mw_signals_heard(signals);
    mw_signals_end(g_steal_pointer(&signals));
    int status = good ? cli_flush() : cli_fail(error);
    return stopped ? CLI_SIGNALLED + stopped : status;
}

const struct cli_verb cli_verb_report = {
    .name = "report",
    .summary = "make one HTML page of results",
    .arguments = "FILE... -o PAGE.html",
    .examples = "memwall report answer.json trace.json -o page.html\n"
                "memwall report rows.csv run.json advice.json -o page.html",
    .details = "FILE is what simulate, plan, run, compare, advise or sweep printed with --json, "
               "rows of a sweep as CSV, or what --trace wrote. The page has the verdict, a "
               "comparison, timelines to zoom into, pictures of a sweep, memory, what would "
               "change the answer, predicted against measured, and its inputs. It needs nothing "
               "beside itself: no network, and no script but its own.",
    .run = run,
};
