/* `memwall export RUN -o FOLDER`: what is durable of a run that has ended as a checkpoint, with no
 * step more. */
#include <stdio.h>
#include <string.h>

#include "cli/checkpoint_place.h"
#include "cli/cli.h"
#include "cli/run_course.h"
#include "cli/run_homes.h"
#include "cli/runs.h"
#include "cli/words.h"
#include "exec/checkpoint.h"
#include "exec/durable.h"
#include "exec/run_files.h"
#include "planner/error.h"

static bool
fits(void *data, const char *path, const struct mw_commit_record *record, GError **error)
{
    const struct cli_run_homes *homes = data;

    return cli_run_course_fits(&homes->decoder, homes->fingerprint, path, record, error);
}

/* Without a record there is nothing, whatever else lies there.  What stands in a record's place is
 * told by who opens it. */
static bool
check_record(const char *directory, GError **error)
{
    struct mw_run_files files;
    bool good = mw_run_files_look(directory, &files, error);

    if (good && !files.record && !files.stranger)
        good = mw_refuse(error, "%s: holds no run whose steps are durable: %s", directory,
                         files.names->len ? "no record of a step is there, or it was wiped"
                                          : "no file of a run is there");
    mw_run_files_clear(&files);
    return good;
}

static bool
write_checkpoint(const struct cli_run *run, const char *folder, bool previous, int64_t *step,
                 GError **error)
{
    char **directories = run->entry.directories;
    struct cli_run_homes homes;

    if (!check_record(directories[0], error) || !cli_run_homes_read(directories[0], &homes, error))
        return false;
    struct mw_durable_options from = {
        .directories = (const char *const *)directories,
        .directory_count = (int)g_strv_length(directories),
        .plan = homes.plan,
        .decoder = &homes.decoder,
        .fingerprint = homes.fingerprint,
        .previous = previous,
        .fits = fits,
        .data = &homes,
    };
    struct mw_checkpoint_options to = {
        .path = folder,
        .dtype = MW_SAFETENSORS_F32,
        .optimizer = true,
        .config = homes.config,
    };
    struct mw_durable *durable = mw_durable_open(&from, error);
    if (durable && mw_durable_notice(durable))
        cli_say("%s", mw_durable_notice(durable));
    if (durable)
        *step = mw_durable_step(durable);
    bool good = durable &&
                cli_checkpoint_place_check("-o", folder, &homes.decoder, *step + 1, error) &&
                mw_durable_export(durable, &to, error);

    mw_durable_close(durable);
    cli_run_homes_clear(&homes);
    return good;
}

static bool
export_run(const char *name, const char *folder, bool previous, GError **error)
{
    struct cli_run *run = cli_runs_find(name, error);
    int64_t step = -1;

    if (!run)
        return false;
    bool good = run->state != CLI_RUN_RUNNING ||
                mw_refuse(error, "%s: is running: nothing is exported", name);
    good = good && write_checkpoint(run, folder, previous, &step, error);
    if (good)
        printf("%s: the state after step %" G_GINT64_FORMAT " of %s\n", folder, step + 1, name);
    cli_run_free(run);
    return good;
}

static int
run(int argc, char **argv)
{
    static char *folder, *at;
    static gboolean help;
    static const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &folder,
         "write the checkpoint to FOLDER: a new or empty one, or a checkpoint, which is replaced "
         "unless it is of more steps, of another model or unreadable",
         "FOLDER"},
        {"at", 0, 0, G_OPTION_ARG_STRING, &at,
         "export the newest durable step (default) or the previous one", "newest|previous"},
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this help", NULL},
        G_OPTION_ENTRY_NULL};
    static const struct cli_words_group groups[] = {{"Options", entries}, {NULL, NULL}};
    const struct cli_words words = {.verb = &cli_verb_export, .groups = groups};
    g_autoptr(GError) error = NULL;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    if (help) {
        cli_words_help(&words, stdout);
        return cli_flush();
    }
    if (argc != 2)
        mw_refuse(&error, "export takes one RUN: a name of `memwall list runs`, or a directory");
    else if (!folder || !*folder)
        mw_refuse(&error, "-o FOLDER is missing: the folder that the checkpoint is written to");
    else if (at && strcmp(at, "newest") && strcmp(at, "previous"))
        mw_refuse(&error, "--at %s: must be newest or previous", at);
    else if (export_run(argv[1], folder, !g_strcmp0(at, "previous"), &error))
        return cli_flush();
    return cli_fail(error);
}

const struct cli_verb cli_verb_export = {
    .name = "export",
    .summary = "write the durable state of a run as a checkpoint",
    .arguments = "RUN -o FOLDER",
    .examples = "memwall export gpt2-2026-11-22-1 -o gpt2-checkpoint",
    .details = "RUN is a run's name (memwall list runs), or one of its directories. The checkpoint "
               "is what memwall run --save writes: memwall run --from FOLDER goes on from it, with "
               "any placement.",
    .run = run,
};
