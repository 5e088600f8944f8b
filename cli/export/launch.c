#include "cli/export/launch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "base/whole_folder.h"
#include "cli/cli.h"
#include "cli/export/pick.h"
#include "cli/progress_line.h"
#include "cli/question.h"
#include "exec/host/signals.h"
#include "lib/launch.h"
#include "report/table.h"

#define NOTES "notes.txt"

/* --- planned again ---------------------------------------------------------------------------- */

/* A newer memwall, or a changed profile, may plan otherwise. */
static void
tell_difference(const struct cli_pick *pick, const struct memwall_answer *answer, const char *path)
{
    double peak;

    if (pick->gpu_peak_bytes < 0 || !memwall_answer_number(answer, "peak_bytes.gpu", &peak) ||
        (int64_t)peak == pick->gpu_peak_bytes)
        return;
    g_autofree char *was = g_strdup(mw_format_gib((double)pick->gpu_peak_bytes));
    cli_say("%s: has a plan with %s on each GPU, and what is written one with %s: the figures of "
            "this memwall or of a profile are others",
            path, was, mw_format_gib(peak));
}

static struct memwall_answer *
plan_again(const struct cli_pick *pick, const char *path, GError **error)
{
    struct memwall_error *failed = NULL;
    GError *refused = NULL;

    memwall_question_listen(pick->question, cli_progress_line_show, NULL);
    struct memwall_answer *answer = memwall_ask(pick->question, MEMWALL_PLAN, &failed);
    cli_progress_line_clear();
    if (!answer) {
        cli_take_error(failed, &refused);
        g_prefix_error(&refused, "%s: question: ", path);
        g_propagate_error(error, refused);
        return NULL;
    }
    if (memwall_answer_fits(answer)) {
        tell_difference(pick, answer, path);
        return answer;
    }
    mw_refuse(error, "%s: the pick does not fit as this memwall plans it", path);
    memwall_answer_free(answer);
    return NULL;
}

/* --- what is written -------------------------------------------------------------------------- */

static void
add_lines(GString *text, const char *title, const GPtrArray *lines)
{
    for (guint i = 0; i < lines->len; i++)
        g_string_append_printf(text, "%s%s\n", title, (const char *)lines->pdata[i]);
}

static char *
notes_text(const char *title, const struct mw_launch *launch)
{
    GString *text = g_string_new(title);

    g_string_append(text, "\n\n");
    add_lines(text, "differs: ", launch->left);
    add_lines(text, "fill in: ", launch->fill);
    return g_string_free(text, FALSE);
}

/* What is there may be an export, of which a word replaces it. */
static bool
check_folder(const char *folder, bool replace, GError **error)
{
    GError *refused = NULL;

    if (mw_folder_check(folder, replace, &refused))
        return true;
    if (!replace && mw_folder_check(folder, true, NULL))
        mw_refuse(error, "%s: has an export already, which --replace replaces", folder);
    else
        g_propagate_error(error, g_steal_pointer(&refused));
    g_clear_error(&refused);
    return false;
}

static struct mw_signals *signals;

static bool
stops(void)
{
    return mw_signals_heard(signals) != 0;
}

/* A signal ends the process when there is no temporary folder any more. */
static bool
write_folder(const char *folder, bool replace, const char *notes, const struct mw_launch *launch,
             GError **error)
{
    guint count = launch->files->len;
    g_autofree struct mw_folder_file *files = g_new(struct mw_folder_file, count + 1);

    for (guint i = 0; i < count; i++) {
        const struct mw_launch_file *file = launch->files->pdata[i];
        files[i] = (struct mw_folder_file){file->name, file->text, file->runs};
    }
    files[count] = (struct mw_folder_file){NOTES, notes, false};
    signals = mw_signals_begin(MW_SIGNALS_INT | MW_SIGNALS_TERM | MW_SIGNALS_HUP);
    bool good = mw_folder_write(folder, files, count + 1, replace, stops, error);
    int heard = mw_signals_heard(signals);
    mw_signals_end(g_steal_pointer(&signals));
    if (heard)
        raise(heard);
    return good;
}

/* The last command of launch.sh, in one line. */
static char *
command_of(const struct mw_launch *launch)
{
    for (guint i = 0; i < launch->files->len; i++) {
        const struct mw_launch_file *file = launch->files->pdata[i];
        const char *exec =
            strcmp(file->name, MW_LAUNCH_START) ? NULL : strstr(file->text, "\nexec ");
        if (!exec)
            continue;
        g_autoptr(GRegex) joined = g_regex_new(" \\\\\\n *", 0, 0, NULL);
        char *line = g_regex_replace(joined, exec + strlen("\nexec "), -1, 0, " ", 0, NULL);
        return g_strchomp(line);
    }
    return NULL;
}

/* A path that no command takes for an option. */
static char *
plain_path(const char *folder)
{
    return g_strconcat(*folder == '-' ? "./" : "", folder, NULL);
}

static void
tell(const char *folder, const char *title, const struct mw_launch *launch)
{
    g_autoptr(GString) names = g_string_new(NULL);
    g_autofree char *line = command_of(launch), *path = plain_path(folder);
    g_autofree char *quoted = mw_launch_quoted(path);
    bool batch = false;

    for (guint i = 0; i < launch->files->len; i++) {
        const struct mw_launch_file *file = launch->files->pdata[i];
        g_string_append_printf(names, "%s, ", file->name);
        batch = batch || !strcmp(file->name, MW_LAUNCH_JOB);
    }
    mw_table_line(stdout, "plan", "%s", title);
    mw_table_line(stdout, "written", "%s: %s" NOTES ", " MW_FOLDER_LIST, folder, names->str);
    for (guint i = 0; i < launch->left->len; i++)
        mw_table_line(stdout, "differs", "%s", (const char *)launch->left->pdata[i]);
    for (guint i = 0; i < launch->fill->len; i++)
        mw_table_line(stdout, "fill in", "%s", (const char *)launch->fill->pdata[i]);
    mw_table_line(stdout, "command", "%s", line);
    if (batch)
        mw_table_line(stdout, "launch line", "cd %s && sbatch " MW_LAUNCH_JOB, quoted);
    else
        mw_table_line(stdout, "launch line", "%s/" MW_LAUNCH_START, quoted);
}

bool
cli_export_pick(const char *path, const char *pick, const char *target, const char *folder,
                bool replace, GError **error)
{
    struct cli_pick picked;
    struct mw_launch launch;

    if (!mw_launch_check(target, error) || !check_folder(folder, replace, error) ||
        !cli_pick_read(path, pick, &picked, error))
        return false;
    struct memwall_answer *answer = plan_again(&picked, path, error);
    bool good = answer && mw_lib_launch(answer, target, &launch, error);
    if (good) {
        g_autofree char *title = mw_lib_launch_title(answer);
        g_autofree char *notes = notes_text(title, &launch);
        good = write_folder(folder, replace, notes, &launch, error);
        if (good)
            tell(folder, title, &launch);
        mw_launch_clear(&launch);
    }
    memwall_answer_free(answer);
    memwall_question_free(picked.question);
    return good;
}
