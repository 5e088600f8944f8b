/*
 * cli.h - the `memwall` command: one file and one const row per verb.
 *
 * A verb parses its options into a cli_request, asks for answers, and prints them.
 */
#ifndef MW_CLI_CLI_H
#define MW_CLI_CLI_H

#include <glib.h>

#include "cli/words.h"
#include "lib/memwall.h"
#include "report/report.h"
#include "study/study.h"

/* Statuses 1 and 2 differ in what the user must do.  CLI_USAGE: the command, or a file or folder
 * that it names, cannot be used.  This shows before anything is trained, measured, deleted or
 * written, and another command is needed.  CLI_FAILED: the same command may succeed once something
 * else is repaired: disk space, a device, a rank, or what an earlier run left damaged, lost or in
 * use. An error's code says which (base/error.h); cli_as_usage_error handles those of
 * MW_ERROR_IO. */
enum cli_exit { CLI_DONE, CLI_FAILED, CLI_USAGE, CLI_DOES_NOT_FIT, CLI_GATE_FAILED };

/* Plus the signal's number, as shells report a program that a signal ended: 130 for Ctrl-C. */
#define CLI_SIGNALLED 128

struct cli_verb {
    const char *name;
    const char *summary;
    const char *arguments; /* what usage shows before the options; "" for nothing */
    const char *examples;  /* one command per line */
    const char *details;   /* help text below the options, in lines of any length; or NULL */
    const char *borrows;   /* where help has the options that are not its own; NULL: it has all */
    int (*run)(int argc, char **argv);
};

/* What the command is for. */
#define CLI_PURPOSE "plan, simulate and run the training of models that do not fit in GPU memory"

/* In the order of the help; ends with NULL. */
extern const struct cli_verb *const cli_verbs[];
extern const struct cli_verb cli_verb_advise, cli_verb_calibrate, cli_verb_check, cli_verb_compare,
    cli_verb_export, cli_verb_list, cli_verb_plan, cli_verb_report, cli_verb_rm, cli_verb_run,
    cli_verb_simulate, cli_verb_sweep, cli_verb_verify;

/* All options that plan and simulate take.  Owns its strings and both questions. */
struct cli_request {
    char *model_name, *hardware_name, *software_name;
    struct memwall_question *asked; /* for the library: plan and simulate ask it */
    struct mw_question question;    /* the same, as run and compare read it */

    gboolean json, csv, largest, cuts, sensitivity, details;
    char *output, *trace, *plot, *write_deepspeed;
    char *plan_file; /* simulate PLANFILE, compare RUNFILE */
    char *deepspeed_file;
    char **sets; /* of --set; may be NULL */
};

/* Sets options that the command line leaves out and the verb can know, as if they had been given.
 * `strategies` is the value of -s, or NULL. */
typedef bool (*cli_complete)(struct cli_request *request, char **strategies, GError **error);

/* Checks the verb's own options; if this machine is about to be measured (`measures`), also every
 * input that the verb could refuse.  At that point the request has model and settings, but no
 * hardware. */
typedef bool (*cli_check)(const struct cli_request *request, bool measures, GError **error);

/* Parses the options of `verb` (plan, simulate, sweep, run, compare) and `more` (may be NULL), and
 * calls `answer`, unless help was requested.  `complete` and `check` may be NULL.  An error is one
 * line on standard error.  Returns the exit status. */
int cli_request_run(const struct cli_verb *verb, const struct cli_words_group *more,
                    cli_complete complete, cli_check check, int argc, char **argv,
                    int (*answer)(const struct cli_request *request));

/* Whether the verb refuses an option that others take. */
bool cli_request_refuses(const struct cli_verb *verb, const char *option);

/* Whether a file that will be written at the end can be written; true for NULL. */
bool cli_check_output(const char *path, GError **error);

/* Flushes standard output; CLI_FAILED, with a line that says why, if not all of it was written. */
int cli_flush(void);

/* From now on a reader that goes away (`| head`, or a `| tee` that Ctrl-C ended) does not end the
 * process: writing to it fails, and the verb still finishes its files.  Verbs that only print do
 * not call this. */
void cli_outlive_readers(void);

/* Prints `memwall: MESSAGE` on standard error as one line: control characters as \n or \x1b. */
void cli_say(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* For checks of what the command names: returns `good`, the outcome of the check, and turns an
 * MW_ERROR_IO into an MW_ERROR_INVALID. */
bool cli_as_usage_error(bool good, GError **error);

/* The exit status that belongs to the error's code; cli_fail prints the error first. */
int cli_exit_of(const GError *error);
int cli_fail(const GError *error);

#endif
