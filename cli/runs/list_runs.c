#include "cli/runs/list_runs.h"

#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "cli/cli.h"
#include "cli/local_time.h"
#include "cli/runs/runs.h"
#include "report/wrap.h"

/* When its files were last written; NULL: there are none. */
static GDateTime *
changed(const struct cli_run *run)
{
    return run->changed_ns ? g_date_time_new_from_unix_utc(run->changed_ns / 1000000000) : NULL;
}

/* A run has one line, whatever characters its directories' names hold. */
static void
make_plain(char *text)
{
    for (; *text; text++)
        if (g_ascii_iscntrl(*text))
            *text = '?';
}

/* Widths of columns, in characters. */
struct widths {
    int name, state;
};

static void
print_row(const struct cli_run *run, const struct widths *widths)
{
    const struct cli_run_entry *entry = &run->entry;
    g_autofree char *steps = g_strdup_printf("%" G_GINT64_FORMAT, run->steps);
    g_autofree char *when =
        run->changed_ns ? cli_local_time(run->changed_ns / 1000000000, "%Y-%m-%d %H:%M") : NULL;
    g_autofree char *places = g_strjoinv(" ", entry->directories);

    make_plain(places);
    g_autofree char *row = g_strdup_printf("%-*s  %-*s %8s %10s  %-16s", widths->name, entry->name,
                                           widths->state, cli_run_state_name(run->state), steps,
                                           mw_format_bytes((double)run->bytes), when ? when : "-");
    mw_wrap_row(stdout, row, places);
}

/* Without these lines, runs that nobody can resume would stay in the list unnoticed. */
static void
say_taken(const GPtrArray *runs)
{
    g_autoptr(GString) names = g_string_new(NULL);
    g_autoptr(GString) listed = g_string_new(NULL);
    int count = 0;

    for (guint i = 0; i < runs->len; i++) {
        const struct cli_run *run = g_ptr_array_index(runs, i);
        if (run->state != CLI_RUN_AWAY || cli_runs_missing(&run->entry) ||
            !cli_runs_taken(&run->entry))
            continue;
        g_string_append_printf(names, " %s", run->entry.name);
        g_string_append_printf(listed, "%s%s", count ? ", " : "", run->entry.name);
        count++;
    }
    if (count)
        cli_say("other runs are in directories of %s now: `memwall rm%s` deletes what is left of "
                "%s, and removes %s from the list",
                listed->str, names->str, count == 1 ? "it" : "them", count == 1 ? "it" : "them");
}

static void
say_deleting(const GPtrArray *runs)
{
    for (guint i = 0; i < runs->len; i++) {
        const struct cli_run *run = g_ptr_array_index(runs, i);
        if (run->state == CLI_RUN_DELETING)
            cli_say("deleting %s has not finished: `memwall rm %s` deletes what is left",
                    run->entry.name, run->entry.name);
    }
}

static void
print_table(const GPtrArray *runs)
{
    struct widths widths = {(int)strlen("run"), (int)strlen("durable") + 1};

    if (!runs->len) {
        mw_wrap_line(stdout, 2,
                     "no runs: `memwall run --save-every K`, or one with optimizer state on NVMe, "
                     "keeps one");
        return;
    }

    for (guint i = 0; i < runs->len; i++) {
        const struct cli_run *run = g_ptr_array_index(runs, i);
        widths.name = MAX(widths.name, (int)strlen(run->entry.name));
        widths.state = MAX(widths.state, (int)strlen(cli_run_state_name(run->state)));
    }
    g_autofree char *heading =
        g_strdup_printf("%-*s  %-*s %8s %10s  %-16s", widths.name, "run", widths.state, "state",
                        "steps", "size", "last written");
    mw_wrap_row(stdout, heading, "directories");
    for (guint i = 0; i < runs->len; i++)
        print_row(g_ptr_array_index(runs, i), &widths);
    say_taken(runs);
    say_deleting(runs);
}

/* An unknown figure is null: the steps of a run whose drive is missing, or that is half deleted. */
static void
write_state(struct mw_json_writer *json, const struct cli_run *run)
{
    mw_json_string(json, "state", cli_run_state_name(run->state));
    mw_json_boolean(json, "running", run->state == CLI_RUN_RUNNING);
    mw_json_boolean(json, "resumable", run->state == CLI_RUN_DURABLE);
    if (run->state == CLI_RUN_AWAY || run->state == CLI_RUN_DELETING)
        mw_json_raw(json, "durable_steps", "null");
    else
        mw_json_integer(json, "durable_steps", run->steps);
    mw_json_integer(json, "noted_steps", run->entry.last_step);
    mw_json_integer(json, "steps", run->entry.steps);
    mw_json_integer(json, "bytes", run->bytes);
}

static void
write_directories(struct mw_json_writer *json, const struct cli_run *run)
{
    const struct cli_run_entry *entry = &run->entry;

    mw_json_begin(json, "directories", '[', false);
    for (char **directory = entry->directories; *directory; directory++)
        mw_json_string(json, NULL, *directory);
    mw_json_end(json, ']');
    mw_json_begin(json, "missing_directories", '[', false);
    for (char **directory = entry->directories; *directory; directory++)
        if (run->state != CLI_RUN_RUNNING && !cli_runs_has(entry, *directory))
            mw_json_string(json, NULL, *directory);
    mw_json_end(json, ']');
    mw_json_boolean(json, "own_directories", entry->made);
}

/* Times are in UTC, like those of the description. */
static void
write_run(struct mw_json_writer *json, const struct cli_run *run)
{
    const struct cli_run_entry *entry = &run->entry;
    g_autoptr(GDateTime) utc = changed(run);
    g_autofree char *when = utc ? g_date_time_format(utc, "%Y-%m-%dT%H:%M:%SZ") : NULL;

    mw_json_begin(json, NULL, '{', false);
    mw_json_string(json, "run", entry->name);
    write_state(json, run);
    mw_json_string(json, "model", entry->model);
    mw_json_string(json, "strategy", entry->strategy);
    mw_json_integer(json, "ranks", entry->ranks);
    mw_json_boolean(json, "durable", entry->durable);
    mw_json_string(json, "created", entry->created);
    mw_json_string(json, "updated", entry->updated);
    mw_json_string(json, "written", when);
    mw_json_string(json, "host", entry->host);
    write_directories(json, run);
    mw_json_end(json, '}');
}

int
cli_list_runs(bool as_json)
{
    g_autoptr(GPtrArray) runs = cli_runs_list();
    struct mw_json_writer json = {.out = stdout};

    if (!as_json)
        print_table(runs);
    else {
        mw_json_begin_answer(&json, "memwall-runs/1");
        mw_json_begin(&json, "runs", '[', false);
        for (guint i = 0; i < runs->len; i++)
            write_run(&json, g_ptr_array_index(runs, i));
        mw_json_end(&json, ']');
        mw_json_end(&json, '}');
    }
    return cli_flush();
}
