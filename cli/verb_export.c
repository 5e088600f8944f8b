/* `memwall export`: an answer as what carries it out with other software (--for); or the durable
 * state of a run that has ended as a checkpoint, without training. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/export/launch.h"
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

/* Options of one use are refused with the other. */
static bool
check(int arguments, const char *folder, const char *at, const char *target, const char *pick,
      bool replace, GError **error)
{
    if (!arguments)
        return mw_refuse(error, "export takes an answer's JSON with --for TARGET; or one RUN: a "
                                "name of `memwall list runs`, or its directories");
    if (!folder || !*folder)
        return mw_refuse(error, "-o FOLDER is missing: the folder that %s written to",
                         target ? "the files are" : "the checkpoint is");
    if (target)
        return (arguments == 1 || mw_refuse(error, "--for %s: takes one file of JSON", target)) &&
               (!at || mw_refuse(error, "--at %s: is of runs, and not with --for", at));
    if (pick || replace)
        return mw_refuse(error, "%s: is of answers, and needs --for TARGET",
                         pick ? "--pick" : "--replace");
    return !at || !strcmp(at, "newest") || !strcmp(at, "previous") ||
           mw_refuse(error, "--at %s: must be newest or previous", at);
}

static int
run(int argc, char **argv)
{
    static char *folder, *at, *target, *pick;
    static gboolean help, replace;
    static const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &folder,
         "write to FOLDER: a new or empty one; for a run also a checkpoint, which is replaced "
         "unless it has more steps, is of another model or is unreadable",
         "FOLDER"},
        {"for", 0, 0, G_OPTION_ARG_STRING, &target,
         "write what carries an answer's plan out with deepspeed, accelerate, fsdp2, torchtitan, "
         "megatron or memwall: its configuration, and launch.sh, which starts it; slurm adds a "
         "batch job to memwall's files, slurm:TARGET to those of a target",
         "TARGET"},
        {"pick", 0, 0, G_OPTION_ARG_STRING, &pick,
         "with --for: of advise, cheapest (default), fastest, least-risk or the number of a row of "
         "the front; of several strategies the name of one; of sweep the number of a row",
         "PICK"},
        {"replace", 0, 0, G_OPTION_ARG_NONE, &replace,
         "with --for: replace a FOLDER that an export wrote, unless something in it was changed or "
         "added since",
         NULL},
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
    if (!check(argc - 1, folder, at, target, pick, replace, &error))
        return cli_fail(error);
    if (target ? cli_export_pick(argv[1], pick, target, folder, replace, &error)
               : export_run(argv + 1, folder, !g_strcmp0(at, "previous"), &error))
        return cli_flush();
    return cli_fail(error);
}

const struct cli_verb cli_verb_export = {
    .name = "export",
    .summary = "write what carries an answer out with other software; or a run's checkpoint",
    .arguments = "ANSWER.json --for TARGET -o FOLDER | RUN|DIR... -o FOLDER",
    .examples = "memwall export advice.json --pick fastest --for megatron -o job\n"
                "memwall export gpt2-2026-11-22-1 -o gpt2-checkpoint",
    .details = "ANSWER.json is what simulate, plan, advise or sweep print with --json (- for "
               "standard input). Its plan is made again, and written as the target reads it; what "
               "the target cannot express is said, and what it cannot carry out at all is refused "
               "(docs/launch.md).\n"
               "RUN is a run's name (memwall list runs), or one of its directories; DIR... are all "
               "of them, in the order of --nvme, where they were moved. The checkpoint is what "
               "memwall run --save writes: memwall run --from FOLDER continues from it, with "
               "any placement.",
    .run = run,
};
