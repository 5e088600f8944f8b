/*
 * Committed runs that end badly: a call that fails, damage on the drives, a crash that loses or
 * tears what was not synced.  The run says what went wrong; the last committed step is intact, or
 * its damage is found before anything is made of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/nvme_faults.h"
#include "tests/nvme_fixture.h"
#include "tests/says.h"
#include "tests/trained_commits.h"
#include "tests/write_log.h"

#define STEPS TRAINED_STEPS

static char *directory;

static void
note_step(void *data, const struct mw_trainer_step *step)
{
    if (step->committed)
        *(int64_t *)data = step->step;
}

static struct trained_course
course_with(struct mw_faults *faults, bool resume)
{
    struct trained_course course = trained_commit_course(directory, resume);

    course.buffered = true;
    course.calls = &faults->calls;
    return course;
}

/* Goes on without faults; `previous`: from the step before the newest. */
static struct trained
go_on_at(const struct trained_case *what, bool previous)
{
    struct mw_faults none;

    mw_faults_init(&none, MW_FAULT_NONE, 0, 0);
    struct trained_course course = course_with(&none, true);
    course.previous = previous;
    struct trained trained = trained_well(what, &course);
    mw_faults_finish(&none);
    return trained;
}

static struct trained
go_on(const struct trained_case *what)
{
    return go_on_at(what, false);
}

/* --- calls that fail ------------------------------------------------------------------------- */

struct failure {
    enum mw_fault fault;
    int percent; /* of the way, counted in calls of its kind */
    int reason;
    const char *says;
};

/* How many calls of a kind an undisturbed run makes. */
static int
count_calls(const struct trained_case *what, enum mw_fault fault)
{
    struct mw_faults faults;

    mw_faults_init(&faults, fault, G_MAXINT, EIO);
    struct trained_course course = course_with(&faults, false);
    struct trained trained = trained_well(what, &course);
    int calls = faults.seen;
    trained_clear(&trained);
    mw_faults_finish(&faults);
    return calls;
}

static void
check_failure(const struct trained_case *what, const struct trained *undisturbed,
              const struct failure *failure)
{
    struct mw_faults faults;
    struct trained trained;
    g_autoptr(GError) error = NULL;
    int64_t committed = -1;

    int at = count_calls(what, failure->fault) * failure->percent / 100;
    mw_faults_init(&faults, failure->fault, at, failure->reason);
    struct trained_course course = course_with(&faults, false);
    course.on_step = note_step;
    course.data = &committed;
    if (trained_train(what, &course, &trained, &error))
        g_error("%s: fault %d at %d is not told", what->name, failure->fault, at);
    mw_test_says(error->message, failure->says);
    g_assert_cmpint(committed, >=, 0);
    g_assert_cmpint(committed, <, STEPS - 1);
    trained_clear(&trained);
    mw_faults_finish(&faults);
    trained = go_on(what);
    g_assert_cmpint(trained.first_step, >, committed);
    trained_assert_same(what->name, undisturbed, &trained);
    trained_clear(&trained);
}

static void
test_calls(gconstpointer data)
{
    static const struct failure failures[] = {
        {MW_FAULT_COMPLETION, 60, EIO, "Input/output error"},
        {MW_FAULT_COMPLETION, 65, ENOSPC, "No space left"},
        {MW_FAULT_COMPLETION, 75, EIO, "Input/output error"},
        {MW_FAULT_SYNC, 60, EIO, "fdatasync: Input/output error"},
        {MW_FAULT_SYNC, 70, EIO, "fdatasync: Input/output error"},
        {MW_FAULT_SYNC, 80, EIO, "fdatasync: Input/output error"},
        {MW_FAULT_PWRITE, 60, ENOSPC, "memwall.record: writing a commit record: No space left"},
        {MW_FAULT_PWRITE, 75, EIO, "memwall.record: writing a commit record: Input/output"},
        {MW_FAULT_PWRITE, 80, 0, "No space left"},
    };
    const struct trained_case *what = data;
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);

    for (size_t i = 0; i < G_N_ELEMENTS(failures); i++)
        check_failure(what, &undisturbed, &failures[i]);
    trained_clear(&undisturbed);
}

/* --- a drive that has its queue full ---------------------------------------------------------- */

static void
hold_from_now(void *data, int64_t first_step)
{
    struct mw_faults *faults = data;

    pthread_mutex_lock(&faults->mutex);
    faults->holding = true;
    pthread_mutex_unlock(&faults->mutex);
}

static gpointer
await_three(void *data)
{
    bool held = mw_faults_await_held(data, 3);

    mw_faults_release_all(data);
    return GINT_TO_POINTER(held);
}

/* Parameters of a block each: the drive has those of three ops before it has ended any. */
static void
test_full_queue(void)
{
    struct trained_case what = trained_commits[0];
    struct trained trained;
    struct mw_faults faults;

    what.prefetch = 3;
    mw_faults_init(&faults, MW_FAULT_NONE, 0, 0);
    struct trained_course course = course_with(&faults, false);
    course.on_start = hold_from_now;
    course.data = &faults;
    GThread *thread = g_thread_new("await", await_three, &faults);
    trained = trained_well(&what, &course);
    g_assert_true(GPOINTER_TO_INT(g_thread_join(thread)));
    trained_clear(&trained);
    mw_faults_finish(&faults);
}

/* --- short transfers ------------------------------------------------------------------------- */

/* Every read and write of the drives stops early, again and again: it goes on where it stopped. */
static void
check_short(const struct trained_case *what, bool buffered, long limit_bytes)
{
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    struct mw_faults faults;

    for (int64_t stop = 5; stop <= STEPS; stop += STEPS - 5) {
        mw_faults_init(&faults, MW_FAULT_SHORT, 0, 0);
        faults.times = 1 << 20;
        faults.limit_bytes = limit_bytes;
        struct trained_course course = course_with(&faults, stop == STEPS);
        course.buffered = buffered;
        course.stop = stop;
        struct trained trained = trained_well(what, &course);
        g_assert_cmpint(faults.shortened[IO_CMD_PREAD], >, 10);
        g_assert_cmpint(faults.shortened[IO_CMD_PWRITE], >, 10);
        if (stop == STEPS)
            trained_assert_same(what->name, &undisturbed, &trained);
        trained_clear(&trained);
        mw_faults_finish(&faults);
    }
    trained_clear(&undisturbed);
}

static void
test_short(gconstpointer data)
{
    const struct trained_case *what = data;

    check_short(what, true, 20001); /* at any byte */
    check_short(what, false, 12288);
}

static void
lose_directory(void *data, const struct mw_trainer_step *step)
{
    if (step->step == 4)
        g_assert_cmpint(g_rename(directory, data), ==, 0);
}

static void
test_vanished_directory(void)
{
    g_autofree char *elsewhere = g_strconcat(directory, "-elsewhere", NULL);
    struct mw_faults faults;
    struct trained trained;
    g_autoptr(GError) error = NULL;

    mw_faults_init(&faults, MW_FAULT_NONE, 0, 0);
    struct trained_course course = course_with(&faults, false);
    course.on_step = lose_directory;
    course.data = elsewhere;
    g_assert_false(trained_train(&trained_commits[0], &course, &trained, &error));
    g_assert_nonnull(strstr(error->message, "vanished during the run"));
    trained_clear(&trained);
    mw_faults_finish(&faults);
    g_assert_cmpint(g_rename(elsewhere, directory), ==, 0);
    trained = go_on(&trained_commits[0]);
    g_assert_cmpint(trained.first_step, >=, 5);
    trained_clear(&trained);
}

/* --- damage ---------------------------------------------------------------------------------- */

static int64_t
file_bytes(const char *path)
{
    GStatBuf info;

    g_assert_cmpint(g_stat(path, &info), ==, 0);
    return info.st_size;
}

static void
flip(const char *path, int64_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;

    g_assert_cmpint(pread(fd, &byte, 1, at), ==, 1);
    byte = (char)(byte ^ 1 << at % 8);
    g_assert_cmpint(pwrite(fd, &byte, 1, at), ==, 1);
    close(fd);
}

static void
commit_some(const struct trained_case *what, int64_t stop)
{
    struct mw_faults none;

    mw_faults_init(&none, MW_FAULT_NONE, 0, 0);
    struct trained_course course = course_with(&none, false);
    course.stop = stop;
    struct trained trained = trained_well(what, &course);
    trained_clear(&trained);
    mw_faults_finish(&none);
}

/* "resuming from step 6: FILE at BYTE: state of TENSOR to TENSOR: extent 3 (81920 bytes at BYTE of
 * the NVMe tier) is damaged: ..." */
static void
assert_named(const char *said, const char *path, int64_t damaged)
{
    g_autofree char *file = g_strdup_printf("resuming from step 6: %s at ", path);
    const char *extent = strstr(said, ": extent "), *bytes = extent ? strchr(extent, '(') : NULL;

    if (!g_str_has_prefix(said, file) || !strstr(said, ": state of transformer.") ||
        !strstr(said, " to transformer.") || !bytes || !strstr(said, "is damaged"))
        g_error("%s", said);
    int64_t begin = g_ascii_strtoll(said + strlen(file), NULL, 10);
    int64_t end = begin + g_ascii_strtoll(bytes + 1, NULL, 10);
    if (damaged < begin || damaged >= end)
        g_error("byte %d is damaged, said %s", (int)damaged, said);
}

/* The step before the damaged one is named, and goes on to the same bits. */
static void
check_previous(const struct trained_case *what, const struct trained *undisturbed, const char *said)
{
    static const char before[] = "; step ";
    const char *named = strstr(said, before);

    if (!named || !strstr(said, ", before it, is whole: --resume --at previous goes on from there"))
        g_error("%s", said);
    struct trained trained = go_on_at(what, true);
    g_assert_cmpint(trained.first_step, ==, g_ascii_strtoll(named + strlen(before), NULL, 10));
    g_assert_cmpint(trained.first_step, <, 6);
    trained_assert_same(what->name, undisturbed, &trained);
    trained_clear(&trained);
}

/* True if the damage was found and named, false if it was where it does not matter. */
static bool
is_found(const struct trained_case *what, const struct trained *undisturbed, const char *path,
         int64_t damaged)
{
    struct mw_faults none;
    struct trained trained;
    g_autoptr(GError) error = NULL;

    mw_faults_init(&none, MW_FAULT_NONE, 0, 0);
    struct trained_course course = course_with(&none, true);
    bool good = trained_train(what, &course, &trained, &error);
    if (good)
        trained_assert_same(what->name, undisturbed, &trained);
    else
        assert_named(error->message, path, damaged);
    if (!good)
        check_previous(what, undisturbed, error->message);
    trained_clear(&trained);
    mw_faults_finish(&none);
    return !good;
}

/* A bit anywhere in the drive's file: what is read of it is checked, the rest is made anew. */
static void
test_flipped_bits(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autofree char *path = g_build_filename(directory, "memwall-1of1.data", NULL);
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    g_autoptr(GRand) random = g_rand_new_with_seed(2);
    int found = 0, tried = 16;

    for (int i = 0; i < tried; i++) {
        commit_some(what, 6);
        int64_t at = g_rand_int_range(random, 0, (gint32)file_bytes(path));
        flip(path, at);
        found += is_found(what, &undisturbed, path, at);
    }
    g_test_message("%d of %d flipped bits found, the others were in no committed state", found,
                   tried);
    g_assert_cmpint(found, >, 0);
    trained_clear(&undisturbed);
}

/* The tier is stopped by the first read that fails; the step before is looked at all the same. */
static void
refuse_unreadable(const struct trained_case *what, GError **error)
{
    struct mw_faults faults;
    struct trained trained;

    mw_faults_init(&faults, MW_FAULT_COMPLETION, 0, EIO);
    struct trained_course course = course_with(&faults, true);
    g_assert_false(trained_train(what, &course, &trained, error));
    g_assert_cmpint(faults.seen, >, 0);
    mw_test_says((*error)->message, "resuming from step 6: ");
    mw_test_says((*error)->message, "Input/output error");
    trained_clear(&trained);
    mw_faults_finish(&faults);
}

static void
test_unreadable(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autofree char *path = g_build_filename(directory, "memwall-1of1.data", NULL);
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    g_autoptr(GError) error = NULL;

    commit_some(what, 6);
    refuse_unreadable(what, &error);
    check_previous(what, &undisturbed, error->message);
    g_clear_error(&error);
    commit_some(what, 6);
    for (int64_t at = 99; at < file_bytes(path); at += 4096)
        flip(path, at);
    refuse_unreadable(what, &error);
    g_autofree char *damaged = g_strdup_printf(", before it, is not whole either: %s at ", path);
    mw_test_says(error->message, damaged);
    mw_test_says(error->message, " is damaged: checksum ");
    trained_clear(&undisturbed);
}

/* The newest record is torn: the one before it is whole, with all that it names. */
static void
test_torn_record(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autofree char *path = g_build_filename(directory, "memwall.record", NULL);
    int64_t every = what->save_every ? what->save_every : 1;
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);

    for (int64_t commits = 2; commits <= 3; commits++) {
        commit_some(what, commits * every);
        flip(path, (commits - 1) % 2 * file_bytes(path) / 2 + 100);
        struct trained trained = go_on(what);
        g_assert_cmpint(trained.first_step, ==, (commits - 1) * every);
        g_assert_nonnull(strstr(trained.notice, "a commit was interrupted"));
        trained_assert_same(what->name, &undisturbed, &trained);
        trained_clear(&trained);
    }
    trained_clear(&undisturbed);
}

/* --- crashes --------------------------------------------------------------------------------- */

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
    struct trained_course course = course_with(&faults, false);
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
    struct trained_course course = course_with(&none, true);
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

/* --- crashes of runs that go on from failed syncs --------------------------------------------- */

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
    struct trained_course course = course_with(&faults, resume);
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

static void
add(const char *test, const struct trained_case *what, GTestDataFunc function)
{
    g_autofree char *path = g_strdup_printf("/trainer-faults/%s/%s", what->name, test);

    g_test_add_data_func(path, what, function);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    for (int i = 0; i < TRAINED_COMMITS; i++) {
        const struct trained_case *what = &trained_commits[i];
        add("calls", what, test_calls);
        if (what->commit)
            add("short", what, test_short);
        add("flipped-bits", what, test_flipped_bits);
        add("unreadable", what, test_unreadable);
        add("torn-record", what, test_torn_record);
        add("crashes", what, test_crashes);
        add("resumed-crashes", what, test_resumed_crashes);
        add("without-sync", what, test_without_sync);
    }
    g_test_add_func("/trainer-faults/full-queue", test_full_queue);
    g_test_add_func("/trainer-faults/vanished-directory", test_vanished_directory);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
