/* `memwall rm RUN...`: deletes runs that have ended, by their exact names, with all files of ours
 * in their directories and nothing else. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "cli/cli.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"

static bool
is_a_run(const struct cli_run *run, const char *name, GError **error)
{
    struct mw_run_files files;
    bool found = run->entry.name != NULL;

    for (char **directory = run->entry.directories; !found && *directory; directory++) {
        if (!mw_run_files_look(*directory, &files, error)) {
            mw_run_files_clear(&files);
            return false;
        }
        found = files.names->len > 0;
        mw_run_files_clear(&files);
    }
    return found || mw_refuse(error, "%s: holds no run; nothing is deleted", name);
}

/* Looks at what has begun to delete the run: a directory that was made for it and deleted with it
 * looks the same as one whose drive is not mounted. */
static bool
was_emptied(const struct cli_run *run, const char *directory)
{
    g_autofree char *parent = g_path_get_dirname(directory);

    return run->state == CLI_RUN_DELETING && !cli_runs_has_another(&run->entry, directory) &&
           g_file_test(parent, G_FILE_TEST_IS_DIR);
}

/* Says what is left alone, and so stays. */
static void
say_others(const struct cli_run *run, const char *name)
{
    for (char **directory = run->entry.directories; *directory; directory++)
        if (!cli_runs_has(&run->entry, *directory) && !was_emptied(run, *directory))
            cli_say("%s: %s is not there, or of another run: nothing is deleted in it", name,
                    *directory);
}

static bool
holds_files(const char *directory)
{
    struct mw_run_files files;
    bool holds = !mw_run_files_look(directory, &files, NULL) || files.names->len || files.stranger;

    mw_run_files_clear(&files);
    return holds;
}

/* NULL: all its directories are gone or empty, and only the list still has it. */
static const char *
first_left(const struct cli_run *run)
{
    char **there = run->entry.directories;

    while (*there && !cli_runs_has(&run->entry, *there) && !holds_files(*there))
        there++;
    return *there;
}

/* If a run lacks a drive, what is left of it is deleted by a directory's name, not by the run's. */
static bool
is_whole(const struct cli_run *run, const char *name, GError **error)
{
    const char *missing = run->state == CLI_RUN_DELETING ? NULL : cli_runs_missing(&run->entry);

    if (!missing || !first_left(run) || strcmp(name, run->entry.name))
        return true;
    char **there = run->entry.directories;
    while (*there && !cli_runs_has(&run->entry, *there))
        there++;
    g_autofree char *base = cli_runs_base();
    g_autofree char *rest = *there ? g_strdup(*there) : g_build_filename(base, name, NULL);
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: %s is not there, or empty: is the drive mounted? nothing is deleted; "
                "`memwall rm %s` deletes what is left of the run without it",
                name, missing, rest);
    return false;
}

/* NULL with *error if it cannot be deleted. */
static struct cli_run *
find_run(const char *name, GError **error)
{
    struct cli_run *run = cli_runs_find(name, error);

    if (!run)
        return NULL;
    bool good = is_a_run(run, name, error);
    if (good && run->state == CLI_RUN_RUNNING)
        good = mw_refuse(error, "%s: is running: nothing is deleted", name);
    if (good && is_whole(run, name, error))
        return run;
    cli_run_free(run);
    return NULL;
}

static bool
remove_run(const struct cli_run *run, const char *name, GError **error)
{
    bool gone =
        !g_strcmp0(name, run->entry.name) && !first_left(run) && run->state != CLI_RUN_DELETING;

    if (!gone)
        say_others(run, name);
    if (!cli_runs_remove(&run->entry, false, error))
        return false;
    if (gone) {
        g_autofree char *places = g_strjoinv(", ", run->entry.directories);
        printf("deleted the list's entry of %s, whose files are not in %s; if a drive with them "
               "comes back, its directory names the run\n",
               name, places);
        return true;
    }
    bool stays = g_strcmp0(name, run->entry.name) && g_file_test(name, G_FILE_TEST_IS_DIR);
    printf("deleted %s%s, %s%s\n", stays ? "the run in " : "", name,
           mw_format_bytes((double)run->bytes), stays ? "; the folder stays" : "");
    return true;
}

/* Whether the run was already named, perhaps by another of its names. */
static bool
is_among(const struct cli_run *run, const GPtrArray *runs)
{
    for (guint i = 0; i < runs->len; i++) {
        const struct cli_run *other = g_ptr_array_index(runs, i);
        if (g_strv_equal((const char *const *)run->entry.directories,
                         (const char *const *)other->entry.directories))
            return true;
    }
    return false;
}

/* Deletes nothing before all names are known to be runs that can be deleted. */
static bool
remove_all(char **names, int count, GError **error)
{
    g_autoptr(GPtrArray) runs = g_ptr_array_new_with_free_func((GDestroyNotify)cli_run_free);
    g_autoptr(GPtrArray) called = g_ptr_array_new();

    cli_outlive_readers();
    for (int i = 0; i < count; i++) {
        struct cli_run *run = find_run(names[i], error);
        if (!run)
            return false;
        if (is_among(run, runs)) {
            cli_run_free(run);
            continue;
        }
        g_ptr_array_add(runs, run);
        g_ptr_array_add(called, names[i]);
    }
    for (guint i = 0; i < runs->len; i++)
        if (!remove_run(g_ptr_array_index(runs, i), g_ptr_array_index(called, i), error))
            return false;
    return true;
}

static int
run(int argc, char **argv)
{
    static gboolean help;
    static const GOptionEntry entries[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this help", NULL}, G_OPTION_ENTRY_NULL};
    static const struct cli_words_group groups[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};
    const struct cli_words words = {.verb = &cli_verb_rm, .groups = groups};
    g_autoptr(GError) error = NULL;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    if (help) {
        cli_words_help(&words, stdout);
        return cli_flush();
    }
    if (argc < 2)
        mw_refuse(&error, "rm takes at least one RUN: a name of `memwall list runs`, or a "
                          "directory");
    else
        remove_all(argv + 1, argc - 1, &error);
    return error ? cli_fail(error) : cli_flush();
}

const struct cli_verb cli_verb_rm = {
    .name = "rm",
    .summary = "delete the state that a run has left on drives",
    .arguments = "RUN...",
    .examples = "memwall rm gpt2-2026-11-22-1",
    .details = "RUN is a run's whole name (memwall list runs), or one of its directories. A run "
               "that is in progress is refused. Other files in its directories stay. A run "
               "that lacks one of its drives stays too; to delete what is left of it, name one of "
               "its directories. One that lacks all of them leaves the list alone, and can be "
               "named by a directory when its drives are back.",
    .run = run,
};
