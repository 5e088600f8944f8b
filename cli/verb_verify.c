/* `memwall verify RUN`: checks that the durable state of a run is whole, and changes nothing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "cli/cli.h"
#include "cli/run/course.h"
#include "cli/run/homes.h"
#include "cli/runs/aside.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"
#include "exec/trainer/durable.h"
#include "exec/trainer/frozen.h"
#include "exec/trainer/verify.h"

#define DAMAGE_LINES 20 /* per step; --json has all */

/* --- names, progress ------------------------------------------------------------------------- */

struct question {
    struct cli_run_homes homes; /* plan NULL: no description says where tensors are */
    int percent;                /* last shown */
};

static char *
names_of_tensors(void *data, int rank, int ranks, const struct mw_commit_extent *extent)
{
    const struct question *question = data;
    const struct cli_run_homes *homes = &question->homes;
    const struct mw_durable_options run = {.plan = homes->plan,
                                           .decoder = &homes->decoder,
                                           .later = (const struct mw_plan *const *)homes->later,
                                           .later_count = homes->later_count,
                                           .slices = homes->slices,
                                           .replicas = homes->replicas};

    return run.plan ? mw_durable_names(&run, rank, ranks, extent) : NULL;
}

static bool
accepts_record(void *data, const struct mw_commit_record *record, GError **error)
{
    uint64_t sequences;

    return cli_run_course_check("its record", record, &sequences, error);
}

static void
show_progress(void *data, int64_t done_bytes, int64_t all_bytes)
{
    int *percent = &((struct question *)data)->percent;
    int now = all_bytes ? (int)(100.0 * (double)done_bytes / (double)all_bytes) : 100;

    if (now == *percent)
        return;
    *percent = now;
    fprintf(stderr, "\rverifying: %d%% of %s", now, mw_format_bytes((double)all_bytes));
    if (now == 100)
        fprintf(stderr, "\r\033[K");
}

/* --- text ------------------------------------------------------------------------------------ */

/* Steps count from 1, as in the output of a run. */
static void
print_damage(const struct mw_verify_step *step)
{
    guint count = 0;

    for (guint i = 0; i < step->damage->len; i++) {
        const struct mw_verify_damage *it = g_ptr_array_index(step->damage, i);
        if (it->missing || ++count > DAMAGE_LINES)
            continue;
        printf("  %s, bytes %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT ", rank %d: %s%s%s\n",
               it->file, it->offset_bytes, it->offset_bytes + it->bytes, it->rank,
               it->tensors ? it->tensors : "", it->tensors ? ": " : "", it->what);
    }
    if (count > DAMAGE_LINES)
        printf("  and %u more; --json names all\n", count - DAMAGE_LINES);
}

static void
print_missing(const GPtrArray *missing)
{
    for (guint i = 0; i < missing->len && i < DAMAGE_LINES; i++) {
        const struct mw_verify_missing *it = g_ptr_array_index(missing, i);
        if (it->resized)
            printf("%s %s\n", it->file, it->why);
        else if (it->absent)
            printf("%s is missing: is the drive mounted?\n", it->file);
        else
            printf("%s cannot be read: %s\n", it->file, it->why);
    }
    if (missing->len > DAMAGE_LINES)
        printf("and %u more; --json names all\n", missing->len - DAMAGE_LINES);
}

/* The step after the newest one will overwrite its extents. */
static bool
is_given_up(const struct mw_verified *verified, int step)
{
    return step > verified->newest && verified->newest >= 0 &&
           mw_verify_is_whole(verified, verified->newest) && verified->steps[step].damaged_extents;
}

static const char *
state_of(const struct mw_verified *verified, int step)
{
    if (mw_verify_is_whole(verified, step))
        return "whole";
    if (is_given_up(verified, step))
        return "written over in part, as a run that was interrupted leaves the step before its "
               "newest";
    if (verified->steps[step].ranks < verified->ranks_here)
        return "not recorded by all ranks";
    return "not whole";
}

static void
print_extents(const struct mw_verify_step *step, int64_t some, const char *what)
{
    const char *plural = step->extents == 1 ? "" : "s";

    if (some)
        printf("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " extent%s %s %s, ", some, step->extents,
               plural, some == 1 ? "is" : "are", what);
    else if (!what)
        printf("%" G_GINT64_FORMAT " extent%s, ", step->extents, plural);
}

static void
print_step(const struct mw_verified *verified, int index)
{
    const struct mw_verify_step *step = &verified->steps[index];

    printf("step %" G_GINT64_FORMAT ": %s: ", step->step + 1, state_of(verified, index));
    print_extents(step, step->damaged_extents, "damaged or written over");
    print_extents(step, step->missing_extents, "missing with a file");
    if (!step->damaged_extents && !step->missing_extents)
        print_extents(step, 0, NULL);
    printf("%s, from %d of %d rank%s\n", mw_format_bytes((double)step->bytes), step->ranks,
           verified->ranks_ran, verified->ranks_ran == 1 ? "" : "s");
    if (!is_given_up(verified, index))
        print_damage(step);
}

static int
whole_before(const struct mw_verified *verified)
{
    int before = verified->newest + 1;

    return before < verified->step_count && mw_verify_is_whole(verified, before) ? before : -1;
}

/* A missing file is not known to be damaged. */
static void
print_missing_verdict(const struct mw_verified *verified)
{
    const bool damaged =
        verified->newest >= 0 && verified->steps[verified->newest].damaged_extents > 0;
    const guint count = verified->missing->len;
    const char *what = "of another length";

    for (guint i = 0; i < count; i++) {
        const struct mw_verify_missing *it = g_ptr_array_index(verified->missing, i);
        if (it->absent)
            what = "missing";
        else if (!it->resized && strcmp(what, "missing"))
            what = "not readable";
    }
    printf("%s%s: %u of the run's files: --resume needs %s%s\n", what,
           damaged ? ", and damaged" : "", count, count == 1 ? "it" : "them",
           *what == 'o' ? " as written; `memwall export` takes what is whole" : "");
}

/* The step of a record that the drive does not return is unknown. */
static void
print_unreadable_verdict(const struct mw_verified *verified)
{
    const int newest = verified->newest;
    const char *which = verified->unreadable == 1 ? "the record" : "one of the records";

    if (verified->unreadable)
        printf("not known to be whole: the newest step may be in %s that could not be read", which);
    else
        printf("damaged: step %" G_GINT64_FORMAT " was durable, and no whole record of it is here",
               verified->lost_step);
    if (newest >= 0)
        printf("; --resume continues from step %" G_GINT64_FORMAT ", which is %s",
               verified->steps[newest].step + 1,
               mw_verify_is_whole(verified, newest) ? "whole" : "not whole");
    printf("\n");
}

static void
print_verdict(const struct mw_verified *verified)
{
    const int newest = verified->newest, before = whole_before(verified);

    if (verified->unreadable || verified->lost_step)
        print_unreadable_verdict(verified);
    if (verified->missing->len)
        print_missing_verdict(verified);
    if (verified->unreadable || verified->lost_step || verified->missing->len)
        return;
    if (newest < 0)
        printf("no step is recorded%s: nothing can be resumed\n",
               verified->step_count ? " by all ranks" : "");
    else if (mw_verify_is_whole(verified, newest))
        printf("whole: --resume continues from step %" G_GINT64_FORMAT "\n",
               verified->steps[newest].step + 1);
    else if (before >= 0)
        printf("damaged: --resume --at previous continues from step %" G_GINT64_FORMAT
               ", which is whole\n",
               verified->steps[before].step + 1);
    else
        printf("damaged: no step is whole\n");
}

static void
print_text(const struct mw_verified *verified)
{
    for (int i = 0; i < verified->step_count; i++)
        print_step(verified, i);
    print_missing(verified->missing);
    for (guint i = 0; i < verified->notes->len; i++)
        printf("note: %s\n", (const char *)g_ptr_array_index(verified->notes, i));
    print_verdict(verified);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void
put_damage(struct mw_json_writer *json, const struct mw_verify_damage *it)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "file", it->file);
    mw_json_integer(json, "offset_bytes", it->offset_bytes);
    mw_json_integer(json, "bytes", it->bytes);
    mw_json_integer(json, "rank", it->rank);
    mw_json_integer(json, "extent", it->extent);
    mw_json_string(json, "tensors", it->tensors);
    mw_json_string(json, "what", it->what);
    mw_json_end(json, '}');
}

static void
put_missing(struct mw_json_writer *json, const struct mw_verify_missing *it)
{
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "file", it->file);
    mw_json_string(json, "why", it->why);
    mw_json_end(json, '}');
}

static void
put_step(struct mw_json_writer *json, const struct mw_verified *verified, int index)
{
    const struct mw_verify_step *step = &verified->steps[index];

    mw_json_begin(json, NULL, '{', false);
    mw_json_integer(json, "step", step->step + 1);
    mw_json_boolean(json, "whole", mw_verify_is_whole(verified, index));
    mw_json_integer(json, "ranks", step->ranks);
    mw_json_integer(json, "extents", step->extents);
    mw_json_integer(json, "bytes", step->bytes);
    mw_json_integer(json, "damaged_extents", step->damaged_extents);
    mw_json_integer(json, "missing_extents", step->missing_extents);
    mw_json_begin(json, "damage", '[', false);
    for (guint i = 0; i < step->damage->len; i++)
        put_damage(json, g_ptr_array_index(step->damage, i));
    mw_json_end(json, ']');
    mw_json_end(json, '}');
}

static void
print_json(const struct mw_verified *verified)
{
    struct mw_json_writer json = {.out = stdout};

    mw_json_begin_answer(&json, "memwall-verify/1");
    mw_json_boolean(&json, "whole", mw_verify_resumes(verified));
    if (verified->newest >= 0)
        mw_json_integer(&json, "newest_step", verified->steps[verified->newest].step + 1);
    mw_json_integer(&json, "ranks", verified->ranks);
    mw_json_integer(&json, "ranks_here", verified->ranks_here);
    mw_json_integer(&json, "unreadable_records", verified->unreadable);
    if (verified->lost_step)
        mw_json_integer(&json, "lost_step", verified->lost_step);
    mw_json_begin(&json, "steps", '[', false);
    for (int i = 0; i < verified->step_count; i++)
        put_step(&json, verified, i);
    mw_json_end(&json, ']');
    mw_json_begin(&json, "missing", '[', false);
    for (guint i = 0; i < verified->missing->len; i++)
        put_missing(&json, g_ptr_array_index(verified->missing, i));
    mw_json_end(&json, ']');
    mw_json_begin(&json, "notes", '[', false);
    for (guint i = 0; i < verified->notes->len; i++)
        mw_json_string(&json, NULL, g_ptr_array_index(verified->notes, i));
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
}

/* --- verifying -------------------------------------------------------------------------------- */

/* What the description in the first directory says about a record that is gone; NULL: nothing. */
static char *
lost_text(const char *directory)
{
    struct cli_run_entry entry;
    struct mw_run_files files;

    if (!cli_run_entry_read(directory, &entry, NULL))
        return NULL;
    bool first = !cli_runs_names(&entry, directory) ||
                 cli_runs_same_directory(entry.directories[0], directory);
    bool lost = mw_run_files_look(directory, &files, NULL) && first && !files.running &&
                cli_runs_is_lost(&entry, &files);
    g_autofree char *text = lost ? cli_runs_lost_text(&entry, directory) : NULL;

    mw_run_files_clear(&files);
    cli_run_entry_clear(&entry);
    return text ? g_strconcat(text, ": put it back to continue", NULL) : NULL;
}

/* Number of ranks of the run in the first directory; 0: unknown. */
static int
noted_ranks(const char *directory)
{
    struct cli_run_entry entry;

    if (!cli_run_entry_read(directory, &entry, NULL))
        return 0;
    int64_t ranks = MIN(entry.ranks_here, entry.ranks);
    cli_run_entry_clear(&entry);
    return (int)ranks;
}

/* Adds it to the verdict, or to the error if there is no verdict. */
static void
add_lost(const char *directory, bool good, struct mw_verified *verified, GError *error)
{
    char *text = lost_text(directory);

    if (text && good)
        g_ptr_array_add(verified->notes, g_steal_pointer(&text));
    else if (text) {
        char *all = g_strdup_printf("%s: %s", error->message, text);
        g_free(error->message);
        error->message = all;
        error->code = MW_ERROR_IO; /* what was there is lost: the input is as it should be */
    }
    g_free(text);
}

/* The drives do not have it: a resume and an export look whether it is the same. */
static void
say_frozen(const struct cli_run_homes *homes)
{
    bool frozen = homes->plan && mw_frozen_is_there(homes->plan);

    for (int i = 0; i < homes->later_count; i++)
        frozen |= mw_frozen_is_there(homes->later[i]);
    if (frozen && homes->weights)
        cli_say("what is not trained is in %s, which a resume needs and verify has not looked into",
                homes->weights);
}

static bool
verify(char **directories, bool as_json, bool *whole, GError **error)
{
    GError *why = NULL;
    struct mw_verified verified;
    struct question question = {.percent = -1};
    struct mw_verify_options options = {
        .directories = (const char *const *)directories,
        .directory_count = (int)g_strv_length(directories),
        .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
        .tensors = names_of_tensors,
        .takes = accepts_record,
        .data = &question,
        .noted_step = cli_runs_noted_step(directories[0]),
        .noted_ranks = noted_ranks(directories[0]),
    };
    if (!cli_run_homes_read(directories[0], &question.homes, NULL))
        question.homes.plan = NULL;
    bool good = mw_verify(&options, &verified, &why);

    add_lost(directories[0], good, &verified, why);
    if (!good)
        g_propagate_error(error, why);
    if (good && as_json)
        print_json(&verified);
    else if (good)
        print_text(&verified);
    if (good)
        say_frozen(&question.homes);
    *whole = good && mw_verify_resumes(&verified);
    mw_verified_clear(&verified);
    if (question.homes.plan)
        cli_run_homes_clear(&question.homes);
    return good;
}

/* A single name is that of a run, or of one of its directories; the description names the
 * others. */
static bool
find_and_verify(char **names, int count, bool as_json, bool *whole, GError **error)
{
    g_auto(GStrv) all = g_new0(char *, count + 1);

    for (int i = 0; i < count; i++)
        all[i] = g_strdup(names[i]);
    if (count > 1 && !cli_runs_end_replacing_all(all, false, error))
        return false;
    if (count > 1)
        return verify(all, as_json, whole, error);
    struct cli_run *run = cli_runs_find(names[0], error);
    bool good = run && verify(run->entry.directories, as_json, whole, error);

    cli_run_free(run);
    return good;
}

static int
run(int argc, char **argv)
{
    static gboolean as_json, help;
    static const GOptionEntry entries[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &as_json, "print JSON, with every damaged range", NULL},
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this help", NULL},
        G_OPTION_ENTRY_NULL};
    static const struct cli_words_group groups[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};
    const struct cli_words words = {.verb = &cli_verb_verify, .groups = groups};
    g_autoptr(GError) error = NULL;
    bool whole;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    if (help) {
        cli_words_help(&words, stdout);
        return cli_flush();
    }
    if (argc < 2)
        mw_refuse(&error,
                  "verify takes one RUN: a name of `memwall list runs`, or its directories");
    else if (find_and_verify(argv + 1, argc - 1, as_json, &whole, &error))
        return cli_flush() == CLI_DONE && whole ? CLI_DONE : CLI_FAILED;
    return cli_fail(error);
}

const struct cli_verb cli_verb_verify = {
    .name = "verify",
    .summary = "check that the durable state of a run is whole",
    .arguments = "RUN | DIR...",
    .examples = "memwall verify gpt2-2026-11-22-1",
    .details = "RUN is a run's name (memwall list runs); DIR... are its directories, as --nvme "
               "named them. The state of both recorded steps, of all ranks, is read from the "
               "drives, past the page cache, and compared with its checksums; nothing is changed, "
               "but that "
               "a run which --overwrite had set aside comes back. "
               "The step before the newest is overwritten while a step runs, so it need not be "
               "whole. Exit status: 0 the newest step is whole; 1 it or its record is damaged "
               "or lost, a file is missing, a record cannot be read, or a run is using it.",
    .run = run,
};
