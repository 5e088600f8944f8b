/*
 * Committed runs and a crash that loses or tears what was not synced: the log of their writes,
 * replayed from any moment, leaves the last committed step, or a later one.
 */
#include <errno.h>
#include <string.h>

#include "tests/nvme_faults.h"
#include "tests/trained_faults.h"
#include "tests/write_log.h"

#define STEPS TRAINED_STEPS

static char *directory;

struct history {
    struct mw_write_log *log;
    int started_at, committed_at[STEPS];
};

static void
note_moment(void *data, const struct mw_trainer_step *step)
{
    struct history *history = data;

    if (step->committed)
        history->committed_at[step->step] = mw_write_log_now(history->log);
}

/* A step may be done again behind a resume from an older one. */
static void
note_moment_once(void *data, const struct mw_trainer_step *step)
{
    if (!((struct history *)data)->committed_at[step->step])
        note_moment(data, step);
}

static void
note_start(void *data, int64_t first_step)
{
    struct history *history = data;

    g_assert_cmpint(first_step, ==, 0);
    history->started_at = mw_write_log_now(history->log);
}

static void
record_run(const struct trained_case *what, struct history *history)
{
    struct mw_faults faults;

    mw_faults_init(&faults, MW_FAULT_NONE, 0, 0);
    history->log = faults.log = mw_write_log_new();
    struct trained_course course = trained_faulty_course(directory, &faults, false);
    course.on_start = note_start;
    course.on_step = note_moment;
    course.data = history;
    struct trained trained = trained_well(what, &course);
    trained_clear(&trained);
    mw_faults_finish(&faults);
}

static int64_t
last_committed(const struct history *history, int moment)
{
    int64_t last = -1;

    for (int64_t s = 0; s < STEPS; s++)
        if (history->committed_at[s] && history->committed_at[s] <= moment)
            last = s;
    return last;
}

/* What a crash leaves is resumed from the last committed step or a later one, if there is one, and
 * ends with the undisturbed run's bits. */
static bool
survives(const struct trained_case *what, const struct history *history,
         const struct trained *undisturbed, const char *unsynced, GRand *random)
{
    int moment = g_rand_int_range(random, history->started_at, mw_write_log_now(history->log) + 1);
    int64_t committed = last_committed(history, moment);
    struct mw_faults none;
    struct trained trained;

    mw_write_log_replay(history->log, moment, directory, unsynced, random);
    mw_faults_init(&none, MW_FAULT_NONE, 0, 0);
    struct trained_course course = trained_faulty_course(directory, &none, true);
    bool good = trained_train(what, &course, &trained, NULL);
    bool survived =
        good ? trained.first_step > committed && trained_hash(&trained) == trained_hash(undisturbed)
             : committed < 0;
    trained_clear(&trained);
    mw_faults_finish(&none);
    return survived;
}

static int
lost_of(const struct trained_case *what, const char *unsynced, int crashes)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(3);
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    struct history history = {0};
    int lost = 0;

    record_run(what, &history);
    for (int i = 0; i < crashes; i++)
        lost += !survives(what, &history, &undisturbed, unsynced, random);
    trained_clear(&undisturbed);
    mw_write_log_free(history.log);
    g_test_message("%d of %d crashes lost a committed step", lost, crashes);
    return lost;
}

static void
test_crashes(gconstpointer data)
{
    g_assert_cmpint(lost_of(data, NULL, 25), ==, 0);
}

/* The same check finds either sync missing. */
static void
test_without_sync(gconstpointer data)
{
    g_assert_cmpint(lost_of(data, ".data", 10), >, 0);
    g_assert_cmpint(lost_of(data, ".record", 20), >, 0);
}

/* --- crashes of runs that continue after failed syncs ---------------------------------------- */

/* What a resume takes up is durable from its start on, whoever committed it. */
static void
note_resumed(void *data, int64_t first_step)
{
    struct history *history = data;
    int now = mw_write_log_now(history->log);

    if (!history->started_at)
        history->started_at = now;
    if (first_step > 0 && !history->committed_at[first_step - 1])
        history->committed_at[first_step - 1] = now;
}

/* A run that ends at its first failed sync; one that finds nothing starts anew.  True: it has done
 * all steps. */
static bool
run_to_failure(const struct trained_case *what, struct history *history, bool resume, int at,
               int *failed)
{
    struct mw_faults faults;
    struct trained trained;

    mw_faults_init(&faults, MW_FAULT_SYNC, at, EIO);
    faults.log = history->log;
    struct trained_course course = trained_faulty_course(directory, &faults, resume);
    course.on_start = note_resumed;
    course.on_step = note_moment_once;
    course.data = history;
    bool done = trained_train(what, &course, &trained, NULL);
    *failed += faults.seen > at;
    trained_clear(&trained);
    mw_faults_finish(&faults);
    return done;
}

/* Any moment of the log of all of them leaves the last committed step, or a later one. */
static void
test_resumed_crashes(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autoptr(GRand) random = g_rand_new_with_seed(4);
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    struct history history = {.log = mw_write_log_new()};
    int lost = 0, runs = 0, failed = 0, syncs = what->save_every ? 6 : 12;
    bool done = false;

    while (!done && runs < 12)
        done = run_to_failure(what, &history, last_committed(&history, G_MAXINT) >= 0,
                              runs++ < 6 ? g_rand_int_range(random, 0, syncs) : G_MAXINT, &failed);
    g_assert_true(done);
    g_assert_cmpint(failed, >, 1);
    for (int i = 0; i < 10; i++)
        lost += !survives(what, &history, &undisturbed, NULL, random);
    g_test_message("%d runs, %d of them ended by a failed sync: %d of 10 crashes lost a step", runs,
                   failed, lost);
    g_assert_cmpint(lost, ==, 0);
    trained_clear(&undisturbed);
    mw_write_log_free(history.log);
}

int
main(int argc, char **argv)
{
    static const struct trained_faults_test tests[] = {
        {"crashes", test_crashes, false},
        {"resumed-crashes", test_resumed_crashes, false},
        {"without-sync", test_without_sync, false},
        {NULL, NULL, false}};

    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    trained_faults_add("trainer-crashes", tests);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
