/*
 * Kills a run at random instants and resumes it until it is done: it must end with the bits of the
 * undisturbed run, and no resume may fall behind a step that was reported as committed.  Each
 * resume follows a verification of what is durable, and now and then takes the step before the
 * newest.
 *
 *     kill_run [--kills N] [--seed S] [--directory D]
 *
 * What is in D is deleted, and D too.
 *
 * The instants are uniform over 1.25 times what an undisturbed run takes: some fall
 * into its start and some come after its end: such a run counts as no kill.  All homes of
 * trained_commits.h take turns.  (The other mode, `kill_run work ...`, is the run itself.)
 */
#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/trainer/verify.h"
#include "tests/trained_commits.h"

/* --- the run that is killed: reports lines, each with one write ------------------------------ */

enum { EXIT_DAMAGED = 1, EXIT_NOTHING = 3 };

static void
report_line(const char *format, uint64_t number)
{
    char line[64];
    int bytes = g_snprintf(line, sizeof line, format, number);

    if (write(STDOUT_FILENO, line, (size_t)bytes) != bytes)
        _exit(1);
}

static void
report_start(void *data, int64_t first_step)
{
    (void)data;
    report_line("from %" G_GUINT64_FORMAT "\n", (uint64_t)first_step);
}

static void
report_step(void *data, const struct mw_trainer_step *step)
{
    (void)data;
    if (step->committed)
        report_line("committed %" G_GUINT64_FORMAT "\n", (uint64_t)step->step);
}

static int
work(int which, const char *directory, const char *how)
{
    bool previous = g_str_equal(how, "previous");
    struct trained_course course =
        trained_commit_course(directory, previous || g_str_equal(how, "resume"));
    struct trained trained;
    g_autoptr(GError) error = NULL;

    course.previous = previous;
    course.commit = !g_str_equal(how, "undisturbed");
    course.on_start = report_start;
    course.on_step = report_step;
    if (!trained_train(&trained_commits[which], &course, &trained, &error)) {
        fprintf(stderr, "%s\n", error->message);
        trained_clear(&trained);
        return g_str_has_prefix(error->message, "resuming from step") ? EXIT_DAMAGED : EXIT_NOTHING;
    }
    report_line("done %" G_GINT64_MODIFIER "x\n", trained_hash(&trained));
    trained_clear(&trained);
    return 0;
}

/* --- the killer ------------------------------------------------------------------------------ */

struct killer {
    const char *program;
    char *directory;
    GRand *random;
    int kills, wanted, ends, fresh, resumes, previous;
    uint64_t hashes[TRAINED_COMMITS];
    int64_t usual_us[TRAINED_COMMITS];
};

/* What one run said before it ended or was killed. */
struct outcome {
    int64_t from, committed; /* -1: not said */
    uint64_t hash;
    bool done, killed;
    int status;
};

static void
read_outcome(FILE *lines, struct outcome *outcome)
{
    char line[64];

    while (fgets(line, sizeof line, lines)) {
        if (g_str_has_prefix(line, "from "))
            outcome->from = g_ascii_strtoll(line + 5, NULL, 10);
        else if (g_str_has_prefix(line, "committed "))
            outcome->committed = g_ascii_strtoll(line + 10, NULL, 10);
        else if (g_str_has_prefix(line, "done ") && strchr(line, '\n')) {
            outcome->hash = g_ascii_strtoull(line + 5, NULL, 16);
            outcome->done = true;
        }
    }
}

/* Runs until the end, or until the kill after `wait_us` (negative: none). */
static struct outcome
run(const struct killer *killer, int which, const char *how, int64_t wait_us)
{
    char number[8];
    const char *arguments[] = {killer->program, "work", number, killer->directory, how, NULL};
    struct outcome outcome = {.from = -1, .committed = -1};
    GError *error = NULL;
    GPid pid;
    int output;

    g_snprintf(number, sizeof number, "%d", which);
    if (!g_spawn_async_with_pipes(NULL, (char **)arguments, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL,
                                  NULL, &pid, NULL, &output, NULL, &error))
        g_error("%s", error->message);
    if (wait_us >= 0) {
        g_usleep((gulong)wait_us);
        kill(pid, SIGKILL);
    }
    FILE *lines = fdopen(output, "r");
    read_outcome(lines, &outcome);
    fclose(lines);
    waitpid(pid, &outcome.status, 0);
    outcome.killed = WIFSIGNALED(outcome.status);
    return outcome;
}

static void
measure(struct killer *killer, int which)
{
    int64_t begin_us = g_get_monotonic_time();
    struct outcome outcome = run(killer, which, "undisturbed", -1);

    if (!outcome.done)
        g_error("%s: the undisturbed run failed", trained_commits[which].name);
    killer->hashes[which] = outcome.hash;
    killer->usual_us[which] = g_get_monotonic_time() - begin_us;
}

static int64_t
draw_instant(struct killer *killer, int which)
{
    return (int64_t)(g_rand_double_range(killer->random, 0, 1.25) *
                     (double)killer->usual_us[which]);
}

/* The newest step is whole and no older than what was reported as committed.  The step before it,
 * where that is whole too; else -1. */
static int64_t
verify(const struct killer *killer, int which, int64_t committed)
{
    const char *directory = killer->directory;
    const struct mw_verify_options options = {.directories = &directory, .directory_count = 1};
    struct mw_verified verified;
    GError *error = NULL;
    int64_t before = -1;

    bool read = mw_verify(&options, &verified, &error);
    if (!read && committed >= 0)
        g_error("%s: %s", trained_commits[which].name, error->message);
    const int newest = read ? verified.newest : -1;
    if (committed >= 0 && (newest < 0 || verified.steps[newest].step < committed ||
                           !mw_verify_is_whole(&verified, newest)))
        g_error("%s: step %d was committed, and no newest step is whole",
                trained_commits[which].name, (int)committed);
    if (newest >= 0 && newest + 1 < verified.step_count &&
        mw_verify_is_whole(&verified, newest + 1))
        before = verified.steps[newest + 1].step;
    mw_verified_clear(&verified);
    g_clear_error(&error);
    return before;
}

/* From the step before the newest, now and then.  `committed` is what is sure to be found. */
static const char *
draw_way(struct killer *killer, int which, int64_t *committed)
{
    const int64_t before = verify(killer, which, *committed);

    if (before < 0 || g_rand_int_range(killer->random, 0, 4))
        return "resume";
    *committed = before;
    killer->previous++;
    return "previous";
}

/* That nothing is found to resume is right only where nothing was reported as committed. */
static struct outcome
go_on(struct killer *killer, int which, int64_t *sure)
{
    int64_t wait_us = draw_instant(killer, which);
    const char *how = draw_way(killer, which, sure);
    struct outcome outcome = run(killer, which, how, wait_us);
    const int64_t committed = *sure;

    killer->resumes++;
    if (g_str_equal(how, "previous") && outcome.from >= 0 && outcome.from != committed + 1)
        g_error("%s: from step %d, not from the one before the newest, %d",
                trained_commits[which].name, (int)outcome.from, (int)committed + 1);

    if (WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == EXIT_NOTHING && committed < 0) {
        killer->fresh++;
        return run(killer, which, "fresh", wait_us);
    }
    if (!outcome.killed && !outcome.done)
        g_error("%s: a resume failed, though step %d was committed", trained_commits[which].name,
                (int)committed);
    if (outcome.from >= 0 && outcome.from <= committed)
        g_error("%s: resumed before step %d, though step %d was committed",
                trained_commits[which].name, (int)outcome.from, (int)committed);
    return outcome;
}

static void
kill_and_resume(struct killer *killer, int which)
{
    struct outcome outcome = run(killer, which, "fresh", draw_instant(killer, which));
    int64_t committed = outcome.committed;

    while (!outcome.done) {
        killer->kills += outcome.killed;
        outcome = go_on(killer, which, &committed);
        committed = MAX(committed, outcome.committed);
    }
    killer->ends++;
    verify(killer, which, committed);
    if (outcome.hash != killer->hashes[which])
        g_error("%s: ends with other weights after %d kills in all", trained_commits[which].name,
                killer->kills);
}

static void
remove_files(const char *directory)
{
    GDir *dir = g_dir_open(directory, 0, NULL);

    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        g_autofree char *path = g_build_filename(directory, name, NULL);
        g_remove(path);
    }
    g_clear_pointer(&dir, g_dir_close);
}

static void
kill_all(struct killer *killer)
{
    for (int which = 0; which < TRAINED_COMMITS; which++)
        measure(killer, which);
    for (int turn = 0; killer->kills < killer->wanted; turn++) {
        kill_and_resume(killer, turn % TRAINED_COMMITS);
        remove_files(killer->directory);
    }
    printf(
        "%d kills over %d placements, %d runs to their end, each with the undisturbed run's bits; "
        "%d resumes, each behind a verification, %d of them from the step before the newest; %d "
        "kills before the first commit; nothing lost\n",
        killer->kills, TRAINED_COMMITS, killer->ends, killer->resumes, killer->previous,
        killer->fresh);
}

int
main(int argc, char **argv)
{
    int kills = 200, seed = 1;
    char *directory = NULL;
    const GOptionEntry entries[] = {
        {"kills", 0, 0, G_OPTION_ARG_INT, &kills, "how many", "N"},
        {"seed", 0, 0, G_OPTION_ARG_INT, &seed, "of their instants", "S"},
        {"directory", 0, 0, G_OPTION_ARG_FILENAME, &directory,
         "for the runs' files: all files in it are deleted, and it too", "D"},
        G_OPTION_ENTRY_NULL};
    g_autoptr(GOptionContext) options = g_option_context_new(NULL);
    g_autoptr(GError) error = NULL;

    if (argc == 5 && g_str_equal(argv[1], "work"))
        return work(atoi(argv[2]), argv[3], argv[4]);
    g_option_context_add_main_entries(options, entries, NULL);
    if (!g_option_context_parse(options, &argc, &argv, &error)) {
        fprintf(stderr, "%s\n", error->message);
        return 2;
    }
    struct killer killer = {
        .program = argv[0],
        .directory = directory ? directory : trained_directory(),
        .random = g_rand_new_with_seed((guint32)seed),
        .wanted = kills,
    };
    kill_all(&killer);
    g_rand_free(killer.random);
    trained_remove(killer.directory);
    return 0;
}
