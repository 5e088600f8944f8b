/* Commits that fail: the last committed step is whole, and the message names file and reason. */
#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "commit_fixture.h"
#include "nvme_faults.h"
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

/* Nobody knows what is on the drives then. */
static void
test_no_write_after_failure(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_faults faults;
    struct mw_commit_record record = mw_commit_fixture_record(2, 5);
    char *buffer = mw_nvme_fixture_buffer(8192);
    g_autoptr(GError) error = NULL;

    mw_nvme_fixture_init(&fixture);
    mw_faults_init(&faults, MW_FAULT_SYNC, 6, EIO); /* behind two drives': step 2's record */
    struct mw_nvme_options tier = mw_nvme_fixture_options(&fixture, 2, 8192);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    options.calls = tier.calls = &faults.calls;
    struct mw_nvme *nvme = mw_nvme_open(&tier, NULL);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 1);
    faults.at = faults.seen + 2;
    g_assert_true(mw_nvme_transfer(nvme, MW_NVME_WRITE, 0, 8192, buffer, NULL));
    g_assert_false(mw_commit_write(commit, nvme, &record, &error));
    mw_test_says(error->message, "memwall.record: fdatasync: Input/output error");
    g_clear_error(&error);
    g_assert_false(mw_nvme_transfer(nvme, MW_NVME_WRITE, 0, 8192, buffer, NULL));
    record.step = 3;
    g_assert_false(mw_commit_write(commit, NULL, &record, &error));
    mw_test_says(error->message, "nothing is written after a failure");
    g_assert_false(mw_commit_renew(commit, NULL));
    mw_commit_close(commit);
    mw_nvme_close(nvme);
    mw_faults_finish(&faults);
    mw_commit_record_clear(&record);
    free(buffer);
    mw_nvme_fixture_finish(&fixture);
}

/* The bytes of a file that the drive does not give back: from `from` to `to`. */
struct bad_sectors {
    off_t from, to;
};

static ssize_t
bad_pread(void *data, int fd, void *buffer, size_t bytes, off_t offset)
{
    const struct bad_sectors *bad = data;

    if (offset < bad->to && offset + (off_t)bytes > bad->from) {
        errno = EIO;
        return -1;
    }
    return mw_nvme_system_calls.pread(NULL, fd, buffer, bytes, offset);
}

/* One slot of two: the other one's step is resumed.  Both: nothing is, and the message says why. */
static void
test_unreadable_slot(void)
{
    struct mw_nvme_fixture fixture;
    struct bad_sectors bad;
    struct mw_nvme_calls calls = mw_nvme_system_calls;
    off_t half;

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 1);
    mw_commit_fixture_commit(commit, 2);
    mw_commit_close(commit);
    g_autofree char *path = g_build_filename(fixture.directories[0], "memwall.record", NULL);
    GStatBuf info;
    g_assert_cmpint(g_stat(path, &info), ==, 0);
    half = info.st_size / 2;
    calls.pread = bad_pread;
    calls.data = &bad;
    options.calls = &calls;
    options.resume = true;
    int64_t steps[2], sum = 0;
    for (int slot = 0; slot < 2; slot++) {
        bad = (struct bad_sectors){slot * half, (slot + 1) * half};
        commit = mw_commit_fixture_open(&options);
        g_assert_cmpint(mw_commit_steps(commit, steps), ==, 1);
        mw_commit_fixture_expect(commit, steps[0]);
        g_autofree char *part =
            g_strdup_printf("its other record, step %" PRId64 ", is whole", steps[0] + 1);
        mw_test_says(mw_commit_notice(commit), part);
        mw_test_says(mw_commit_notice(commit), "Input/output error");
        sum += steps[0];
        mw_commit_close(commit);
    }
    g_assert_cmpint(sum, ==, 1 + 2);
    bad = (struct bad_sectors){0, info.st_size};
    mw_commit_fixture_refuse(&options, "the first is not readable, the second not readable");
    mw_nvme_fixture_finish(&fixture);
}

enum { SPOILT_READ = 5 }; /* an open looks at two slots, a resume reads one, a renewal two */

static ssize_t
spoilt_pread(void *data, int fd, void *buffer, size_t bytes, off_t offset)
{
    ssize_t result = mw_nvme_system_calls.pread(NULL, fd, buffer, bytes, offset);

    if (result > 200 && ++*(int *)data == SPOILT_READ)
        ((char *)buffer)[200] ^= 1;
    return result;
}

/* What is read back is not what was written: nothing may be overwritten. */
static void
test_renewal_is_read_back(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_commit_record record = mw_commit_fixture_record(2, 5);
    struct mw_nvme_calls calls = mw_nvme_system_calls;
    g_autoptr(GError) error = NULL;
    int reads = 0;

    mw_nvme_fixture_init(&fixture);
    calls.pread = spoilt_pread;
    calls.data = &reads;
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 1);
    mw_commit_close(commit);
    options.resume = true;
    options.calls = &calls;
    commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_expect(commit, 1);
    g_assert_false(mw_commit_write(commit, NULL, &record, &error));
    mw_test_says(error->message, "before its record is renewed");
    g_clear_error(&error);
    g_assert_false(mw_commit_renew(commit, &error));
    mw_test_says(error->message, "the record of step 2 was written anew and synced, and reads "
                                 "otherwise");
    g_assert_false(mw_commit_write(commit, NULL, &record, NULL));
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
    g_test_add_func("/commit_faults/no-write-after-failure", test_no_write_after_failure);
    g_test_add_func("/commit_faults/unreadable-slot", test_unreadable_slot);
    g_test_add_func("/commit_faults/renewal-is-read-back", test_renewal_is_read_back);
    return g_test_run();
}
