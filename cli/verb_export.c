/* `memwall export RUN -o FOLDER`: writes the durable state of a run that has ended as a checkpoint,
 * without training. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/runs/export.h"
#include "cli/words.h"

static bool
export_run(char **names, const char *folder, bool previous, GError **error)
{
    g_autofree char *all = g_strjoinv(", ", names);
    int64_t steps;

    cli_outlive_readers();
    if (!cli_export(names, "-o", folder, previous, &steps, error))
        return false;
    printf("%s: the state after step %" G_GINT64_FORMAT " of %s\n", folder, steps, all);
    return true;
}

static int
run(int argc, char **argv)
{
    static char *folder, *at;
    static gboolean help;
    static const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &folder,
         "write the checkpoint to FOLDER: a new or empty one, or a checkpoint, which is replaced "
         "unless it has more steps, is of another model or is unreadable",
         "FOLDER"},
        {"at", 0, 0, G_OPTION_ARG_STRING, &at,
         "export the newest durable step (default) or the previous one", "newest|previous"},
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this help", NULL},
        G_OPTION_ENTRY_NULL};
    static const struct cli_words_group groups[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};
    const struct cli_words words = {.verb = &cli_verb_export, .groups = groups};
    g_autoptr(GError) error = NULL;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    if (help) {
        cli_words_help(&words, stdout);
        return cli_flush();
    }
    if (argc < 2)
        mw_refuse(&error,
                  "export takes one RUN: a name of `memwall list runs`, or its directories");
    else if (!folder || !*folder)
        mw_refuse(&error, "-o FOLDER is missing: the folder that the checkpoint is written to");
    else if (at && strcmp(at, "newest") && strcmp(at, "previous"))
        mw_refuse(&error, "--at %s: must be newest or previous", at);
    else if (export_run(argv + 1, folder, !g_strcmp0(at, "previous"), &error))
        return cli_flush();
    return cli_fail(error);
}

const struct cli_verb cli_verb_export = {
    .name = "export",
    .summary = "write the durable state of a run as a checkpoint",
    .arguments = "RUN|DIR... -o FOLDER",
    .examples = "memwall export gpt2-2026-11-22-1 -o gpt2-checkpoint",
    .details = "RUN is a run's name (memwall list runs), or one of its directories; DIR... are all "
               "of them, in the order of --nvme, where they were moved. The checkpoint is what "
               "memwall run --save writes: memwall run --from FOLDER continues from it, with "
               "any placement.",
    .run = run,
};
