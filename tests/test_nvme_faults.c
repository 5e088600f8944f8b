/* Everything that can go wrong below the NVMe tier: it gives a clear error, the tier has failed,
 * and nothing hangs.
 */
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/nvme/nvme.h"
#include "nvme_faults.h"
#include "nvme_fixture.h"
#include "says.h"

enum { BLOCK = 8192, REQUESTS = 6, REQUEST_BYTES = 5 * BLOCK };

struct bench {
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;
    struct mw_nvme *nvme;
    struct mw_nvme_request requests[REQUESTS];
    char *buffer;
};

static void
set_up(struct bench *bench, enum mw_fault fault, int at, int reason)
{
    GError *error = NULL;

    *bench = (struct bench){.buffer = mw_nvme_fixture_buffer(REQUESTS * REQUEST_BYTES)};
    mw_nvme_fixture_init(&bench->fixture);
    mw_faults_init(&bench->faults, fault, at, reason);
    struct mw_nvme_options options =
        mw_nvme_fixture_options(&bench->fixture, 2, REQUESTS * REQUEST_BYTES);
    options.calls = &bench->faults.calls;
    bench->nvme = mw_nvme_open(&options, &error);
    g_assert_no_error(error);
}

static void
tear_down(struct bench *bench)
{
    mw_nvme_close(bench->nvme);
    mw_faults_finish(&bench->faults);
    mw_nvme_fixture_finish(&bench->fixture);
    free(bench->buffer);
}

static void
submit_all(struct bench *bench, enum mw_nvme_direction direction)
{
    for (int i = 0; i < REQUESTS; i++)
        mw_nvme_submit(bench->nvme, &bench->requests[i], direction, i * REQUEST_BYTES,
                       REQUEST_BYTES, bench->buffer + i * REQUEST_BYTES);
}

/* All come to an end; how many failed, and the message of the first that did. */
static int
wait_for_all(struct bench *bench, char **message)
{
    int failed = 0;

    *message = NULL;
    for (int i = 0; i < REQUESTS; i++) {
        g_autoptr(GError) error = NULL;

        if (mw_nvme_wait(&bench->requests[i], &error))
            continue;
        g_assert_error(error, MW_ERROR, MW_ERROR_IO);
        if (!failed++)
            *message = g_strdup(error->message);
    }
    return failed;
}

/* A tier that has failed says so at once, whatever is asked, and why. */
static void
expect_failed_tier(struct bench *bench, const char *part)
{
    for (int direction = 0; direction < MW_NVME_DIRECTIONS; direction++) {
        g_autoptr(GError) error = NULL;

        g_assert_false(mw_nvme_transfer(bench->nvme, (enum mw_nvme_direction)direction, 0, BLOCK,
                                        bench->buffer, &error));
        mw_test_says(error->message, "the NVMe tier has failed: ");
        mw_test_says(error->message, part);
    }
    g_autoptr(GError) error = NULL;
    g_assert_false(mw_nvme_sync(bench->nvme, &error));
    mw_test_says(error->message, part);
}

struct one_fault {
    enum mw_fault fault;
    int at, reason;
    enum mw_nvme_direction direction;
    const char *text;
};

static void
check_fault(const struct one_fault *fault)
{
    struct bench bench;
    g_autofree char *message = NULL;

    set_up(&bench, fault->fault, fault->at, fault->reason);
    submit_all(&bench, fault->direction);
    g_assert_cmpint(wait_for_all(&bench, &message), >, 0);
    mw_test_says(message, fault->direction == MW_NVME_READ ? "read of " : "write of ");
    mw_test_says(message, " bytes at ");
    mw_test_says(message, "of2.data: ");
    mw_test_says(message, fault->text);
    expect_failed_tier(&bench, fault->text);
    tear_down(&bench);
}

static void
test_errors(void)
{
    static const struct one_fault faults[] = {
        {MW_FAULT_COMPLETION, 0, EIO, MW_NVME_READ, "Input/output error"},
        {MW_FAULT_COMPLETION, 7, EIO, MW_NVME_WRITE, "Input/output error"},
        {MW_FAULT_COMPLETION, 29, EIO, MW_NVME_READ, "Input/output error"},
        {MW_FAULT_COMPLETION, 3, ENOSPC, MW_NVME_WRITE, "No space left on device"},
        {MW_FAULT_REFUSAL, 0, EINVAL, MW_NVME_WRITE, "Invalid argument"},
        {MW_FAULT_REFUSAL, 2, EIO, MW_NVME_READ, "Input/output error"},
        {MW_FAULT_SHORT, 4, 0, MW_NVME_READ, "the file ends there"},
        {MW_FAULT_SHORT, 4, 0, MW_NVME_WRITE, "the drive takes no more"},
        {MW_FAULT_EVENTS, 1, EBADF, MW_NVME_WRITE, "Bad file descriptor"},
        {MW_FAULT_EVENTS, 0, EFAULT, MW_NVME_READ, "Bad address"},
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(faults); i++)
        check_fault(&faults[i]);
}

/* The system is busy for a while: that is no error. */
static void
test_busy(void)
{
    struct bench bench;
    g_autofree char *message = NULL;

    set_up(&bench, MW_FAULT_REFUSAL, 0, EAGAIN);
    bench.faults.times = 5;
    submit_all(&bench, MW_NVME_WRITE);
    g_assert_cmpint(wait_for_all(&bench, &message), ==, 0);
    tear_down(&bench);
    set_up(&bench, MW_FAULT_REFUSAL, 1, EINTR);
    submit_all(&bench, MW_NVME_WRITE);
    g_assert_cmpint(wait_for_all(&bench, &message), ==, 0);
    tear_down(&bench);
}

/* A transfer that was disturbed is done again; it fails when that does not end. */
static void
test_disturbed(void)
{
    static const int reasons[] = {EAGAIN, EINTR};

    for (unsigned i = 0; i < G_N_ELEMENTS(reasons); i++) {
        struct bench bench;
        g_autofree char *message = NULL, *late = NULL;

        set_up(&bench, MW_FAULT_COMPLETION, 3, reasons[i]);
        bench.faults.times = 40;
        submit_all(&bench, MW_NVME_WRITE);
        g_assert_cmpint(wait_for_all(&bench, &message), ==, 0);
        submit_all(&bench, MW_NVME_READ);
        g_assert_cmpint(wait_for_all(&bench, &message), ==, 0);
        bench.faults.times = i ? 0 : 1 << 28;
        submit_all(&bench, MW_NVME_READ);
        g_assert_cmpint(wait_for_all(&bench, &late), ==, i ? 0 : REQUESTS);
        if (!i)
            mw_test_says(late, "Resource temporarily unavailable");
        tear_down(&bench);
    }
}

/* Fewer events than there are, or none at first: the others are not waited for without end. */
static void
test_few_events(void)
{
    for (int most = 0; most <= 2; most++) {
        struct bench bench;
        g_autofree char *message = NULL;

        set_up(&bench, MW_FAULT_FEW, 0, most);
        bench.faults.times = most ? 1 << 28 : 3;
        bench.faults.holding = true; /* so that several are done at once */
        submit_all(&bench, MW_NVME_WRITE);
        mw_faults_await_held(&bench.faults, REQUESTS);
        mw_faults_release_all(&bench.faults);
        g_assert_cmpint(wait_for_all(&bench, &message), ==, 0);
        tear_down(&bench);
    }
}

/* It stays busy although nothing is in flight: within seconds that is one. */
static void
test_busy_for_ever(void)
{
    struct bench bench;
    g_autofree char *message = NULL;

    set_up(&bench, MW_FAULT_REFUSAL, 0, EAGAIN);
    bench.faults.times = G_MAXINT;
    submit_all(&bench, MW_NVME_WRITE);
    g_assert_cmpint(wait_for_all(&bench, &message), ==, REQUESTS);
    mw_test_says(message, "Resource temporarily unavailable");
    tear_down(&bench);
}

/* What is wholly in flight when another request fails still counts when it arrives. */
static void
test_others_in_flight(void)
{
    struct bench bench;
    gint done = false;
    struct mw_nvme_request small[2] = {{0},
                                       {.on_done = mw_nvme_fixture_mark, .on_done_data = &done}};

    set_up(&bench, MW_FAULT_COMPLETION, 0, EIO);
    bench.faults.holding = true;
    for (int i = 0; i < 2; i++)
        mw_nvme_submit(bench.nvme, &small[i], MW_NVME_WRITE, i * BLOCK, BLOCK, bench.buffer);
    g_assert_true(mw_faults_await_held(&bench.faults, 2));
    mw_faults_release(&bench.faults, 0);
    g_assert_false(mw_nvme_wait(&small[0], NULL));
    g_assert_false(g_atomic_int_get(&done));
    mw_faults_release_all(&bench.faults);
    g_assert_true(mw_nvme_wait(&small[1], NULL));
    expect_failed_tier(&bench, "Input/output error");
    tear_down(&bench);
}

/* Somebody cuts the file off under the run. */
static void
test_cut_off(void)
{
    struct bench bench;
    g_autoptr(GError) error = NULL;

    set_up(&bench, MW_FAULT_NONE, 0, 0);
    g_assert_cmpint(truncate(mw_nvme_drive(bench.nvme, 0).path, BLOCK), ==, 0);
    g_assert_true(mw_nvme_transfer(bench.nvme, MW_NVME_READ, 0, 2 * BLOCK, bench.buffer, NULL));
    g_assert_false(mw_nvme_transfer(bench.nvme, MW_NVME_READ, 0, 3 * BLOCK, bench.buffer, &error));
    mw_test_says(error->message, "1of2.data: read of 8192 bytes at 8192: the file ends there");
    tear_down(&bench);
}

/* A request that cannot be is its own failure, not the tier's. */
static void
test_misuse(void)
{
    static const struct {
        int64_t offset_bytes, bytes;
        int shift;
        const char *part;
    } wrong[] = {
        {1, BLOCK, 0, "multiples of"},
        {0, 100, 0, "multiples of"},
        {0, BLOCK, 8, "multiples of"},
        {0, (REQUESTS + 1) * REQUEST_BYTES, 0, "leaves the tier's"},
        {INT64_MAX - 4095, 4096, 0, "leaves the tier's"},
        {-BLOCK, BLOCK, 0, "leaves the tier's"},
        {0, -BLOCK, 0, "leaves the tier's"},
    };
    struct bench bench;

    set_up(&bench, MW_FAULT_NONE, 0, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;

        g_assert_false(mw_nvme_transfer(bench.nvme, MW_NVME_WRITE, wrong[i].offset_bytes,
                                        wrong[i].bytes, bench.buffer + wrong[i].shift, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
        mw_test_says(error->message, wrong[i].part);
    }
    g_assert_true(mw_nvme_transfer(bench.nvme, MW_NVME_WRITE, 0, BLOCK, bench.buffer, NULL));
    g_assert_true(mw_nvme_sync(bench.nvme, NULL));
    tear_down(&bench);
}

static void
test_full_file_system(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;
    g_autoptr(GError) error = NULL;

    mw_nvme_fixture_init(&fixture);
    mw_faults_init(&faults, MW_FAULT_RESERVE, 1, ENOSPC);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 2, 20 * BLOCK);
    options.calls = &faults.calls;
    g_assert_null(mw_nvme_open(&options, &error));
    mw_test_says(error->message, "2of2.data: needs 0.1 MB more on its file system");
    for (int i = 0; i < 2; i++) {
        g_autoptr(GDir) dir = g_dir_open(fixture.directories[i], 0, NULL);
        g_assert_null(g_dir_read_name(dir));
    }
    faults.seen = 0;
    faults.reason = EOPNOTSUPP;
    struct mw_nvme *nvme = mw_nvme_open(&options, NULL);
    mw_test_says(mw_nvme_drive(nvme, 1).notice, "cannot reserve space");
    mw_nvme_close(nvme);
    mw_faults_finish(&faults);
    mw_nvme_fixture_finish(&fixture);
}

static void
test_vanished_directory(void)
{
    struct mw_nvme_fixture fixture;
    g_autoptr(GError) error = NULL;

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 2, 20 * BLOCK);
    options.keep = true;
    struct mw_nvme *nvme = mw_nvme_open(&options, NULL);
    mw_nvme_fixture_remove(fixture.directories[1]);
    g_assert_false(mw_nvme_sync(nvme, &error));
    mw_test_says(error->message, "2of2.data: vanished during the run");
    mw_nvme_close(nvme);
    mw_nvme_fixture_finish(&fixture);
}

/* One fault anywhere in a mixed run with several requests in flight: every wait returns. */
static void
test_random_faults(void)
{
    static const enum mw_fault kinds[] = {MW_FAULT_COMPLETION, MW_FAULT_REFUSAL, MW_FAULT_EVENTS};

    for (int round = 0; round < 60; round++) {
        struct bench bench;
        int failed = 0;

        set_up(&bench, kinds[round % 3], g_test_rand_int_range(0, 25), EIO);
        for (int i = 0; i < REQUESTS; i++)
            mw_nvme_submit(bench.nvme, &bench.requests[i],
                           g_test_rand_bit() ? MW_NVME_READ : MW_NVME_WRITE, i * REQUEST_BYTES,
                           g_test_rand_int_range(0, 6) * BLOCK, bench.buffer + i * REQUEST_BYTES);
        for (int i = REQUESTS; i-- > 0;)
            failed += !mw_nvme_wait(&bench.requests[i], NULL);
        g_assert_cmpint(mw_nvme_sync(bench.nvme, NULL), ==, failed == 0);
        tear_down(&bench);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme_faults/errors", test_errors);
    g_test_add_func("/nvme_faults/busy", test_busy);
    g_test_add_func("/nvme_faults/busy-for-ever", test_busy_for_ever);
    g_test_add_func("/nvme_faults/disturbed", test_disturbed);
    g_test_add_func("/nvme_faults/few-events", test_few_events);
    g_test_add_func("/nvme_faults/others-in-flight", test_others_in_flight);
    g_test_add_func("/nvme_faults/cut-off", test_cut_off);
    g_test_add_func("/nvme_faults/misuse", test_misuse);
    g_test_add_func("/nvme_faults/full-file-system", test_full_file_system);
    g_test_add_func("/nvme_faults/vanished-directory", test_vanished_directory);
    g_test_add_func("/nvme_faults/random", test_random_faults);
    return g_test_run();
}
