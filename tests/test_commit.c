/* The commit record: what it holds, what it refuses, what damage it finds. */
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "commit_fixture.h"

static void
test_round_trip(void)
{
    struct mw_nvme_fixture fixture;
    int64_t steps[2];

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    g_assert_cmpint(mw_commit_steps(commit, steps), ==, 0);
    for (int64_t step = 1; step <= 5; step++)
        mw_commit_fixture_commit(commit, step);
    mw_commit_close(commit);
    options.resume = true;
    commit = mw_commit_fixture_open(&options);
    g_assert_cmpint(mw_commit_steps(commit, steps), ==, 2);
    g_assert_cmpint(steps[0], ==, 5);
    g_assert_cmpint(steps[1], ==, 4);
    g_assert_null(mw_commit_notice(commit));
    mw_commit_fixture_expect(commit, 5);
    mw_commit_close(commit);
    mw_nvme_fixture_finish(&fixture);
}

/* Other ranks hold step 4 only: then 5 is void, once 4 is taken over and not when it is looked at,
 * and the next commit leaves 4 whole. */
static void
test_older_step(void)
{
    struct mw_nvme_fixture fixture;
    int64_t steps[2];

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 4);
    mw_commit_fixture_commit(commit, 5);
    mw_commit_close(commit);
    options.resume = true;
    commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_expect(commit, 4);
    mw_commit_close(commit);
    commit = mw_commit_fixture_open(&options);
    g_assert_cmpint(mw_commit_steps(commit, steps), ==, 2);
    mw_commit_fixture_expect(commit, 4);
    mw_commit_fixture_take_over(commit);
    mw_commit_close(commit);
    commit = mw_commit_fixture_open(&options);
    g_assert_cmpint(mw_commit_steps(commit, steps), ==, 1);
    g_assert_cmpint(steps[0], ==, 4);
    mw_commit_fixture_expect(commit, 4);
    mw_commit_fixture_take_over(commit);
    mw_commit_fixture_commit(commit, 5);
    mw_commit_fixture_commit(commit, 6);
    g_assert_cmpint(mw_commit_steps(commit, steps), ==, 2);
    g_assert_cmpint(steps[1], ==, 5);
    mw_commit_close(commit);
    mw_nvme_fixture_finish(&fixture);
}

static void
test_fresh_start_voids(void)
{
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 4);
    mw_commit_fixture_refuse(&options, "in use by another run");
    mw_commit_close(commit);
    mw_commit_close(mw_commit_fixture_open(&options));
    options.resume = true;
    mw_commit_fixture_refuse(&options, "the first is empty, the second empty");
    options.directory = fixture.directories[1];
    mw_commit_fixture_refuse(&options, "no commit record to resume from");
    mw_nvme_fixture_finish(&fixture);
}

/* Of a run with fewer extents in the file of one with more: others know where its slots are. */
static void
test_shorter_records(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_commit_found found;
    GError *error = NULL;

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    g_autofree char *path = g_build_filename(fixture.directories[0], "memwall.record", NULL);
    options.extents_max = 10 * MW_COMMIT_FIXTURE_EXTENTS;
    mw_commit_close(mw_commit_fixture_open(&options));
    options.extents_max = MW_COMMIT_FIXTURE_EXTENTS;
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    for (int64_t step = 1; step <= 2; step++)
        mw_commit_fixture_commit(commit, step);
    mw_commit_close(commit);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    mw_commit_look(fd, path, &found, &error);
    g_assert_no_error(error);
    g_assert_true(found.holds);
    g_assert_cmpint(found.whole, ==, 2);
    g_assert_cmpint(found.steps[0], ==, 2);
    g_assert_cmpint(found.steps[1], ==, 1);
    g_assert_cmpint(found.ranks, ==, 1);
    close(fd);
    mw_nvme_fixture_finish(&fixture);
}

static void
test_other_runs(void)
{
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture), other = options;
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 1);
    mw_commit_close(commit);
    other.resume = true;
    other.fingerprint = 78;
    mw_commit_fixture_refuse(&other, "another model");
    other.extents_max = 2;
    mw_commit_fixture_refuse(&other, "another model");
    other.extents_max = 100000;
    mw_commit_fixture_refuse(&other, "another model");
    other = options;
    other.resume = true;
    other.ranks = 2;
    mw_commit_fixture_refuse(&other, "with 1 as the number of ranks, this run has 2");
    struct mw_nvme_options tier = mw_nvme_fixture_options(&fixture, 2, 8192);
    struct mw_nvme *nvme = mw_nvme_open(&tier, NULL);
    other = options;
    other.resume = true;
    other.nvme = nvme;
    mw_commit_fixture_refuse(&other, "the number of NVMe directories");
    mw_nvme_close(nvme);
    mw_nvme_fixture_finish(&fixture);
}

static void
test_bad_records(void)
{
    struct mw_nvme_fixture fixture;
    struct mw_commit_record record = mw_commit_fixture_record(3, MW_COMMIT_FIXTURE_EXTENTS + 1);
    g_autoptr(GError) error = NULL;

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    g_assert_false(mw_commit_write(commit, NULL, &record, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_clear_error(&error);
    record.extent_count = 1;
    g_assert_true(mw_commit_write(commit, NULL, &record, NULL));
    g_assert_false(mw_commit_write(commit, NULL, &record, &error));
    g_assert_nonnull(strstr(error->message, "step 4 is not after step 4"));
    g_assert_false(mw_commit_resume(commit, 2, &(struct mw_commit_record){0}, NULL));
    mw_commit_close(commit);
    mw_commit_record_clear(&record);
    mw_nvme_fixture_finish(&fixture);
}

/* --- damage --- */

static void
flip_bit(const char *path, int64_t bit)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;

    g_assert_cmpint(pread(fd, &byte, 1, bit / 8), ==, 1);
    byte = (char)(byte ^ 1 << bit % 8);
    g_assert_cmpint(pwrite(fd, &byte, 1, bit / 8), ==, 1);
    close(fd);
}

/* Any flipped bit of the newest record: the one before it is found.  Of both: an error. */
static void
test_flipped_record(void)
{
    struct mw_nvme_fixture fixture;
    const int64_t slot_bytes = mw_commit_record_bytes(MW_COMMIT_FIXTURE_EXTENTS);
    /* Step 2's record, in the second slot, has 298 extents: the same number of blocks. */
    const int64_t record_bits = mw_commit_record_bytes(MW_COMMIT_FIXTURE_EXTENTS - 2) * 8;

    mw_nvme_fixture_init(&fixture);
    struct mw_commit_options options = mw_commit_fixture_options(&fixture);
    g_autofree char *path = g_build_filename(fixture.directories[0], "memwall.record", NULL);
    struct mw_commit *commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_commit(commit, 1);
    mw_commit_fixture_commit(commit, 2);
    mw_commit_close(commit);
    options.resume = true;
    for (int i = 0; i < 300; i++) {
        /* The first words are the magic number, the checksum and the counts. */
        const int64_t bit =
            slot_bytes * 8 + (i < 256 ? i : g_test_rand_int_range(0, (gint32)record_bits));
        flip_bit(path, bit);
        commit = mw_commit_fixture_open(&options);
        g_assert_nonnull(strstr(mw_commit_notice(commit), "step 2 is whole"));
        mw_commit_fixture_expect(commit, 1);
        mw_commit_close(commit);
        flip_bit(path, bit);
    }
    commit = mw_commit_fixture_open(&options);
    mw_commit_fixture_expect(commit, 2);
    mw_commit_close(commit);
    flip_bit(path, 5000);
    flip_bit(path, slot_bytes * 8 + 6000);
    mw_commit_fixture_refuse(&options, "the first is torn, the second torn");
    g_assert_cmpint(truncate(path, 100), ==, 0);
    mw_commit_fixture_refuse(&options, "no whole commit record");
    mw_nvme_fixture_finish(&fixture);
}

static void
test_flipped_extent(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(5);
    g_autoptr(GError) error = NULL;
    const int64_t bytes = 5 * 8192 + 100;
    char *buffer = mw_nvme_fixture_buffer(6 * 8192);

    mw_nvme_fixture_fill(buffer, 6 * 8192, random);
    const struct mw_commit_extent extent = {.id = 12,
                                            .offset_bytes = 8192,
                                            .bytes = bytes,
                                            .checksum = mw_commit_checksum(buffer, bytes)};
    g_assert_true(mw_commit_check(&extent, buffer, NULL));
    /* Behind the extent's end. */
    buffer[bytes] ^= 1;
    g_assert_true(mw_commit_check(&extent, buffer, NULL));
    buffer[bytes - 1] ^= 64;
    g_assert_false(mw_commit_check(&extent, buffer, &error));
    g_assert_nonnull(strstr(error->message, "extent 12 (41060 bytes at 8192 of the NVMe tier)"));
    free(buffer);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/commit/round-trip", test_round_trip);
    g_test_add_func("/commit/older-step", test_older_step);
    g_test_add_func("/commit/fresh-start-voids", test_fresh_start_voids);
    g_test_add_func("/commit/shorter-records", test_shorter_records);
    g_test_add_func("/commit/other-runs", test_other_runs);
    g_test_add_func("/commit/bad-records", test_bad_records);
    g_test_add_func("/commit/flipped-record", test_flipped_record);
    g_test_add_func("/commit/flipped-extent", test_flipped_extent);
    return g_test_run();
}
