/*
 * Committed runs that end badly, by a call that fails, or continue with drives that do less than
 * requested.  The run says what went wrong; the last committed step is intact.
 */
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#include "tests/nvme_faults.h"
#include "tests/says.h"
#include "tests/trained_faults.h"

#define STEPS TRAINED_STEPS

static char *directory;

static void
note_step(void *data, const struct mw_trainer_step *step)
{
    if (step->committed)
        *(int64_t *)data = step->step;
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
    struct trained_course course = trained_faulty_course(directory, &faults, false);
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
    struct trained_course course = trained_faulty_course(directory, &faults, false);
    course.on_step = note_step;
    course.data = &committed;
    if (trained_train(what, &course, &trained, &error))
        g_error("%s: fault %d at %d is not told", what->name, failure->fault, at);
    mw_test_says(error->message, failure->says);
    g_assert_cmpint(committed, >=, 0);
    g_assert_cmpint(committed, <, STEPS - 1);
    trained_clear(&trained);
    mw_faults_finish(&faults);
    trained = trained_go_on(what, directory, false);
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
    struct trained_course course = trained_faulty_course(directory, &faults, false);
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
        struct trained_course course = trained_faulty_course(directory, &faults, stop == STEPS);
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
    struct trained_course course = trained_faulty_course(directory, &faults, false);
    course.on_step = lose_directory;
    course.data = elsewhere;
    g_assert_false(trained_train(&trained_commits[0], &course, &trained, &error));
    g_assert_nonnull(strstr(error->message, "vanished during the run"));
    trained_clear(&trained);
    mw_faults_finish(&faults);
    g_assert_cmpint(g_rename(elsewhere, directory), ==, 0);
    trained = trained_go_on(&trained_commits[0], directory, false);
    g_assert_cmpint(trained.first_step, >=, 5);
    trained_clear(&trained);
}

int
main(int argc, char **argv)
{
    static const struct trained_faults_test tests[] = {
        {"calls", test_calls, false}, {"short", test_short, true}, {NULL, NULL, false}};

    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    trained_faults_add("trainer-faults", tests);
    g_test_add_func("/trainer-faults/full-queue", test_full_queue);
    g_test_add_func("/trainer-faults/vanished-directory", test_vanished_directory);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
