/* Measures this machine and writes its profile. */
#include "cli/calibration/calibrate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/whole_file.h"
#include "cli/calibration/profile.h"
#include "cli/cli.h"
#include "cli/runs/runs.h"
#include "exec/host/machine.h"
#include "exec/host/signals.h"
#include "hardware/hwprofile.h"

/* Of the calibration that runs. */
static struct mw_signals *signals;
static int stopped; /* the signal that stopped it; 0: none */

static bool
is_first(const struct cli_calibrate_wish *wish)
{
    return !wish->ranks || mw_ranks_index(wish->ranks) == 0;
}

/* --- progress -------------------------------------------------------------------------------- */

/* On a terminal one line is updated in place; elsewhere each part has a line. */
static bool
progress(void *data, const char *what, double left_s)
{
    const struct cli_calibrate_wish *wish = data;

    if (!is_first(wish))
        return !mw_signals_heard(signals);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Kcalibrate: at most %.0f s left: %s", left_s, what);
    else
        fprintf(stderr, "calibrate: at most %.0f s left: %s\n", left_s, what);
    fflush(stderr);
    return !mw_signals_heard(signals);
}

static void
end_progress(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static void
notice(void *data, const char *line)
{
    end_progress();
    cli_say("%s", line);
}

/* --- places ---------------------------------------------------------------------------------- */

/* Makes missing folders below a name that the user gave, but no home directory. */
static bool
make_folder_of(const char *file, bool named, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(file);

    if (!named && !cli_here_make_folder("-o FILE", error))
        return false;
    if (!g_mkdir_with_parents(folder, 0777))
        return cli_check_output(file, error);
    mw_file_set_error(error, folder, errno);
    return cli_as_usage_error(false, error);
}

/* The folders where runs keep their state.  Folders that the user named must exist. */
static char **
find_directories(const struct cli_calibrate_wish *wish, GError **error)
{
    char **drives = NULL;

    const char *repeated = wish->directories ? cli_runs_repeated(wish->directories) : NULL;
    if (repeated) {
        mw_refuse(error, "--nvme %s: is given twice: give one directory per drive", repeated);
        return NULL;
    }
    if (wish->directories)
        return g_strdupv(wish->directories);
    if (!cli_runs_drives(&drives, error) || drives)
        return drives;
    g_autofree char *base = cli_runs_base();
    if (!cli_runs_make_base(error))
        return NULL;
    return g_strsplit(base, "\n", 1);
}

/* --- calibrating ------------------------------------------------------------------------------ */

static bool
measure(const struct cli_calibrate_wish *wish, char **directories, struct mw_calibration *measured,
        GError **error)
{
    struct mw_calibration_options options = {
        .backend = wish->backend,
        .dtype = wish->dtype ? wish->dtype : MW_DTYPE_BF16,
        .directories = (const char *const *)directories,
        .directory_count = (int)g_strv_length(directories),
        .sustained = wish->sustained,
        .sustained_limit_bytes = wish->limit_bytes,
        .quick = wish->quick,
        .budget_s = wish->budget_s,
        .progress = progress,
        .notice = notice,
        .ranks = wish->ranks,
        .data = (void *)(gintptr)wish,
    };
    /* Ranks handle SIGTERM themselves: one of them may be waiting for another that is lost. */
    bool several = wish->ranks && mw_ranks_count(wish->ranks) > 1;

    signals = mw_signals_begin(MW_SIGNALS_INT | MW_SIGNALS_HUP | (several ? 0 : MW_SIGNALS_TERM));
    bool good = mw_calibrate(&options, measured, error);
    stopped = good ? 0 : mw_signals_heard(signals);
    mw_signals_end(g_steal_pointer(&signals));
    if (is_first(wish))
        end_progress();
    if (stopped) {
        g_clear_error(error);
        g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE, "stopped; no profile was written");
    }
    return good;
}

int
cli_calibrate_exit_of(const GError *error)
{
    return stopped ? CLI_SIGNALLED + stopped : cli_exit_of(error);
}

int
cli_calibrate_fail(const GError *error)
{
    cli_fail(error);
    return cli_calibrate_exit_of(error);
}

static void
print(const struct cli_calibrate_wish *wish, const struct mw_calibration *measured,
      const char *output)
{
    struct mw_json_writer json = {.out = stdout};

    if (!wish->json) {
        cli_calibrate_table(stdout, measured);
        printf("\nprofile written to %s\n", output);
        return;
    }
    mw_json_begin_answer(&json, "memwall-calibration/1");
    mw_json_string(&json, "profile", output);
    cli_calibrate_json(&json, measured);
    mw_json_end(&json, '}');
}

#define BESIDE "here-disturbed"

/* A disturbed measurement does not replace a profile of the quiet machine: it goes to a file beside
 * it, unless -o names one.  A profile that cannot be read, or that is of other processors or cores,
 * may be replaced. */
static char *
place_of(char *output, const struct cli_calibrate_wish *wish, const struct mw_calibration *measured)
{
    g_autofree char *disturbed = cli_calibrate_disturbed(measured);
    g_autofree char *machine = mw_machine_name();
    struct mw_profile *old = disturbed && !wish->output && g_file_test(output, G_FILE_TEST_EXISTS)
                                 ? mw_hwprofile_load(output, NULL)
                                 : NULL;
    const char *its = old ? mw_profile_word(old, "machine") : NULL;
    bool stays = old && !mw_profile_word(old, "disturbed") && its && !strcmp(its, machine);

    mw_profile_free(old);
    if (!stays)
        return output;
    g_autofree char *folder = g_path_get_dirname(output);
    char *beside = g_build_filename(folder, BESIDE ".ini", NULL);
    cli_say("the machine was disturbed, and %s was measured undisturbed: it stays, and the new "
            "figures are -H " BESIDE "; `memwall calibrate -o %s` replaces it nevertheless",
            output, output);
    g_free(output);
    return beside;
}

static bool
calibrate(const struct cli_calibrate_wish *wish, GError **error)
{
    g_autofree char *output = wish->output ? g_strdup(wish->output) : cli_here_path();
    g_auto(GStrv) directories = NULL;
    struct mw_calibration measured;

    if (!make_folder_of(output, wish->output, error))
        return false;
    directories = find_directories(wish, error);
    if (!directories || !measure(wish, directories, &measured, error))
        return false;
    if (!is_first(wish))
        return true;
    g_autofree char *text = cli_calibrate_profile(&measured, error);
    if (text)
        output = place_of(g_steal_pointer(&output), wish, &measured);
    if (!text || !mw_file_write(output, text, strlen(text), error))
        return false;
    if (!wish->silent)
        print(wish, &measured, output);
    return true;
}

bool
cli_calibrate(const struct cli_calibrate_wish *wish, GError **error)
{
    int lock = is_first(wish) && !wish->alone ? cli_here_lock() : -1;

    cli_outlive_readers();
    bool good = calibrate(wish, error);
    cli_here_unlock(lock);
    return good;
}
