/* Commits that fail: the last committed step is whole, and the message names file and reason. */
#include <errno.h>
#include <glib.h>
#include <string.h>

#include "commit_fixture.h"
#include "nvme_faults.h"
#include "planner/error.h"
#include "says.h"

/* Step 2's commit fails in one way or another; step 1 is whole, here and for the next run. */
static void
check_failed_commit(enum mw_fault fault, int at, int reason, const char *part)
{
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;
    struct mw_commit_record record = mw_commit_fixture_record(2, 5);
    g_autoptr(GError) error = NULL;

    mw_nvme_fixture_init(&fixture);
    mw_faults_init(&faults, fault, at, reason);
    struct mw_nvme_options tier = mw_nvme_fixture_options(&fixture, 2, 8192);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    options.calls = tier.calls = &faults.calls;
    struct mw_nvme *nvme = mw_nvme_open(&tier, NULL);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 1);
    g_assert_false(mw_commit_write(commit, nvme, &record, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_IO);
    mw_test_says(error->message, part);
    mw_commit_fixture_expect(commit, 1);
    mw_commit_close(commit);
    mw_nvme_close(nvme);
    options.resume = true;
    commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_expect(commit, 1);
    mw_commit_close(commit);
    mw_faults_finish(&faults);
    mw_commit_record_clear(&record);
    mw_nvme_fixture_finish(&fixture);
}

/* fdatasync: two of the fresh start, one of step 1, two drives, one of the record. */
static void
test_faults(void)
{
    check_failed_commit(MW_FAULT_SYNC, 3, EIO, "1of2.data: fdatasync: Input/output error");
    check_failed_commit(MW_FAULT_SYNC, 4, EIO, "2of2.data: fdatasync: Input/output error");
    check_failed_commit(MW_FAULT_PWRITE, 3, ENOSPC, "memwall.record: writing");
    check_failed_commit(MW_FAULT_PWRITE, 3, EIO, "memwall.record: writing");
    check_failed_commit(MW_FAULT_PWRITE, 3, 0, "No space left");
}

/* The record itself may be there or not after its fdatasync has failed: both are whole steps. */
static void
test_failed_last_sync(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;
    struct mw_commit_record record = mw_commit_fixture_record(2, 5);
    int64_t steps[2];

    mw_nvme_fixture_init(&fixture);
    mw_faults_init(&faults, MW_FAULT_SYNC, 3, EIO);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    options.calls = &faults.calls;
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 1);
    g_assert_false(mw_commit_write(commit, NULL, &record, NULL));
    g_assert_cmpint(mw_commit_steps(commit, steps), ==, 1);
    g_assert_cmpint(steps[0], ==, 1);
    mw_commit_close(commit);
    mw_faults_finish(&faults);
    mw_commit_record_clear(&record);
    mw_nvme_fixture_finish(&fixture);
}

/* Records that go out in pieces are whole all the same. */
static void
test_short_pwrite(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;

    mw_nvme_fixture_init(&fixture);
    mw_faults_init(&faults, MW_FAULT_PWRITE, 0, 0);
    faults.times = 1000000;
    faults.limit_bytes = 1000;
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    options.calls = &faults.calls;
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 1);
    mw_commit_close(commit);
    options.resume = true;
    commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_expect(commit, 1);
    mw_commit_close(commit);
    mw_faults_finish(&faults);
    mw_nvme_fixture_finish(&fixture);
}

static void
test_vanished(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_commit_record record = mw_commit_fixture_record(2, 5);
    g_autoptr(GError) error = NULL;

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_nvme_fixture_remove(fixture.directories[0]);
    g_assert_false(mw_commit_write(commit, NULL, &record, &error));
    g_assert_nonnull(strstr(error->message, "vanished"));
    mw_commit_close(commit);
    mw_commit_record_clear(&record);
    mw_nvme_fixture_finish(&fixture);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/commit_faults/faults", test_faults);
    g_test_add_func("/commit_faults/failed-last-sync", test_failed_last_sync);
    g_test_add_func("/commit_faults/short-pwrite", test_short_pwrite);
    g_test_add_func("/commit_faults/vanished", test_vanished);
    return g_test_run();
}
