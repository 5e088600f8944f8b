/*
 * Readers of durable state outside of a run trust only the drives.  A sync has silently lost what
 * it should have made durable, and the page cache still has it: it is neither taken for a step, nor
 * called whole, nor exported.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <unistd.h>

#include "exec/commit/internal.h"
#include "exec/trainer/durable.h"
#include "exec/trainer/verify.h"
#include "tests/described_run.h"
#include "tests/nvme_faults.h"
#include "tests/nvme_fixture.h"
#include "tests/says.h"
#include "tests/trained_commits.h"
#include "tests/write_log.h"

enum { STOP = 6 }; /* the newest step is 5, from 0 */

static const struct trained_case *const what = &trained_commits[0];
static char *directory;

static void
run(struct mw_faults *faults, struct described_run *described)
{
    struct trained_course course = trained_commit_course(directory, false);

    course.buffered = true; /* the log's files are what the page cache has */
    course.stop = STOP;
    course.calls = &faults->calls;
    course.on_plan = described ? described_run_write : NULL;
    course.data = described;
    struct trained trained = trained_well(what, &course);
    trained_clear(&trained);
}

static int
count_syncs(void)
{
    struct mw_faults faults;

    mw_faults_init(&faults, MW_FAULT_SYNC, G_MAXINT, 0);
    run(&faults, NULL);
    int syncs = faults.seen;
    mw_faults_finish(&faults);
    return syncs;
}

/* The `back`-th sync before the end loses what it would have made durable. */
static void
run_and_lose(int back, struct mw_faults *faults, struct described_run *described)
{
    mw_faults_init(faults, MW_FAULT_SYNC, count_syncs() - back, 0);
    faults->log = mw_write_log_new();
    run(faults, described);
    g_assert_cmpint(faults->seen, ==, faults->at + back);
    described_run_read(described, what->model);
}

static void
finish(struct mw_faults *faults, struct described_run *described)
{
    mw_write_log_free(faults->log);
    mw_faults_finish(faults);
    described_run_clear(described);
}

/* --- readers --------------------------------------------------------------------------------- */

static void
expect_verified(const struct mw_nvme_calls *calls, int64_t newest, bool whole)
{
    const char *const directories[] = {directory};
    const struct mw_verify_options options = {
        .directories = directories, .directory_count = 1, .calls = calls};
    struct mw_verified verified;
    GError *error = NULL;

    mw_verify(&options, &verified, &error);
    g_assert_no_error(error);
    g_assert_cmpint(verified.newest, ==, 0);
    g_assert_cmpint(verified.steps[0].step, ==, newest);
    g_assert_true(mw_verify_is_whole(&verified, 0) == whole);
    mw_verified_clear(&verified);
}

static void
expect_newest(const struct mw_nvme_calls *calls, int64_t newest)
{
    g_autofree char *path = g_build_filename(directory, "memwall.record", NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct mw_commit_slots slots;
    GError *error = NULL;

    mw_commit_slots_read(fd, path, calls, &slots, &error);
    g_assert_no_error(error);
    g_assert_cmpint(mw_commit_slots_newest(&slots, INT64_MAX)->record.step, ==, newest);
    mw_commit_slots_clear(&slots);
    close(fd);
}

/* "": it is written. */
static void
expect_exported(const struct mw_nvme_calls *calls, const struct described_run *described,
                int64_t newest, const char *says, const char *notice)
{
    const char *const directories[] = {directory};
    g_autofree char *folder = g_build_filename(directory, "exported", NULL);
    const struct mw_durable_options from = {.directories = directories,
                                            .directory_count = 1,
                                            .plan = described->plan,
                                            .decoder = &described->decoder,
                                            .fingerprint = 5,
                                            .calls = calls};
    const struct mw_checkpoint_options to = {
        .path = folder, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    GError *error = NULL;
    struct mw_durable *durable = mw_durable_open(&from, &error);

    g_assert_no_error(error);
    g_assert_cmpint(mw_durable_step(durable), ==, newest);
    g_assert_true(!mw_durable_notice(durable) == !notice);
    if (notice)
        mw_test_says(mw_durable_notice(durable), notice);
    bool good = mw_durable_export(durable, &to, &error);
    g_assert_true(good == !*says);
    if (!good)
        mw_test_says(error->message, says);
    g_clear_error(&error);
    mw_durable_close(durable);
    mw_nvme_fixture_remove(folder);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void
test_lost_record(void)
{
    struct described_run described = {0};
    struct mw_faults faults;

    run_and_lose(1, &faults, &described);
    expect_newest(NULL, STOP - 1);
    expect_verified(NULL, STOP - 1, true);
    expect_newest(&faults.calls, STOP - 2);
    expect_verified(&faults.calls, STOP - 2, true);
    expect_exported(&faults.calls, &described, STOP - 2, "", NULL);
    finish(&faults, &described);
}

static void
test_lost_record_exported(void)
{
    struct described_run described = {0};
    struct mw_faults faults;

    run_and_lose(1, &faults, &described);
    expect_exported(&faults.calls, &described, STOP - 2, "", NULL);
    finish(&faults, &described);
}

static void
test_lost_state(void)
{
    struct described_run described = {0};
    struct mw_faults faults;

    run_and_lose(2, &faults, &described);
    expect_verified(NULL, STOP - 1, true);
    expect_exported(NULL, &described, STOP - 1, "", NULL);
    expect_exported(&faults.calls, &described, STOP - 1, "memwall-1of1.data at ", NULL);
    expect_verified(&faults.calls, STOP - 1, false);
    finish(&faults, &described);
}

/* The slot of a record's file that the drive does not give back. */
struct bad_slot {
    ino_t file;
    off_t from, to;
};

static ssize_t
bad_pread(void *data, int fd, void *buffer, size_t bytes, off_t offset)
{
    const struct bad_slot *bad = data;
    struct stat info;

    if (!fstat(fd, &info) && info.st_ino == bad->file && offset < bad->to &&
        offset + (off_t)bytes > bad->from) {
        errno = EIO;
        return -1;
    }
    return mw_nvme_system_calls.pread(NULL, fd, buffer, bytes, offset);
}

/* One of two: the step of the other is whole, and nobody knows whether it is the newest. */
static void
test_unreadable_record(void)
{
    struct described_run described = {0};
    struct mw_nvme_calls calls = mw_nvme_system_calls;
    struct mw_faults faults;
    struct bad_slot bad;
    struct stat info;

    mw_faults_init(&faults, MW_FAULT_SYNC, G_MAXINT, 0);
    run(&faults, &described);
    described_run_read(&described, what->model);
    g_autofree char *path = g_build_filename(directory, "memwall.record", NULL);
    g_assert_cmpint(stat(path, &info), ==, 0);
    calls.pread = bad_pread;
    calls.data = &bad;
    const off_t half = info.st_size / 2;
    int64_t steps = 0;
    for (int slot = 0; slot < 2; slot++) {
        const char *const directories[] = {directory};
        const struct mw_verify_options options = {
            .directories = directories, .directory_count = 1, .calls = &calls};
        struct mw_verified verified;
        bad = (struct bad_slot){info.st_ino, slot * half, (slot + 1) * half};
        g_assert_true(mw_verify(&options, &verified, NULL));
        g_assert_cmpint(verified.unreadable, ==, 1);
        g_assert_cmpint(verified.step_count, ==, 1);
        g_assert_cmpint(verified.newest, ==, 0);
        g_assert_true(mw_verify_is_whole(&verified, 0));
        g_assert_false(mw_verify_resumes(&verified));
        steps += verified.steps[0].step;
        g_autofree char *notice =
            g_strdup_printf("Input/output error; its other record, step %" PRId64 ", is whole",
                            verified.steps[0].step + 1);
        expect_exported(&calls, &described, verified.steps[0].step, "", notice);
        mw_verified_clear(&verified);
    }
    g_assert_cmpint(steps, ==, STOP - 1 + STOP - 2);
    mw_faults_finish(&faults);
    described_run_clear(&described);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    g_test_add_func("/readers/lost-record", test_lost_record);
    g_test_add_func("/readers/lost-record-exported", test_lost_record_exported);
    g_test_add_func("/readers/lost-state", test_lost_state);
    g_test_add_func("/readers/unreadable-record", test_unreadable_record);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
