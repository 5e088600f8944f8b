/* The files of the NVMe tier: found, locked, reserved, kept or removed. */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <linux/magic.h>

#include "base/error.h"
#include "nvme_fixture.h"
#include "says.h"

static struct mw_nvme *
open_tier(const struct mw_nvme_options *options)
{
    GError *error = NULL;
    struct mw_nvme *nvme = mw_nvme_open(options, &error);

    g_assert_no_error(error);
    g_assert_nonnull(nvme);
    return nvme;
}

static void
expect_open_error(const struct mw_nvme_options *options, int code, const char *part)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(mw_nvme_open(options, &error));
    g_assert_error(error, MW_ERROR, code);
    mw_test_says(error->message, part);
}

static void
test_keep(void)
{
    struct mw_nvme_fixture fixture;
    g_autoptr(GRand) random = g_rand_new_with_seed(3);
    char *written = mw_nvme_fixture_buffer(10 * 8192), *read = mw_nvme_fixture_buffer(10 * 8192);

    mw_nvme_fixture_init(&fixture);
    mw_nvme_fixture_fill(written, 10 * 8192, random);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 3, 10 * 8192);
    options.keep = true;
    struct mw_nvme *nvme = open_tier(&options);
    g_assert_true(mw_nvme_transfer(nvme, MW_NVME_WRITE, 0, 10 * 8192, written, NULL));
    mw_nvme_close(nvme);
    options.resume = true;
    nvme = open_tier(&options);
    g_assert_true(mw_nvme_transfer(nvme, MW_NVME_READ, 0, 10 * 8192, read, NULL));
    g_assert_cmpint(memcmp(written, read, 10 * 8192), ==, 0);
    mw_nvme_close(nvme);
    options.capacity_bytes = 100 * 8192;
    expect_open_error(&options, MW_ERROR_FORMAT, "other settings");
    options.directory_count = 2;
    expect_open_error(&options, MW_ERROR_IO, "nothing to resume");
    g_free(fixture.directories[1]);
    fixture.directories[1] = g_strdup(fixture.directories[2]);
    options.directory_count = 3;
    expect_open_error(&options, MW_ERROR_IO, "another order");
    mw_nvme_fixture_finish(&fixture);
    free(written);
    free(read);
}

static void
test_removed_at_close(void)
{
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 2, 1);
    struct mw_nvme *nvme = open_tier(&options);
    g_autofree char *path = g_strdup(mw_nvme_drive(nvme, 1).path);
    g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
    mw_nvme_close(nvme);
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    mw_nvme_fixture_finish(&fixture);
}

static void
test_lock(void)
{
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 2, 8192);
    struct mw_nvme *nvme = open_tier(&options);
    expect_open_error(&options, MW_ERROR_IO, "in use by another run");
    g_assert_true(g_file_test(mw_nvme_drive(nvme, 0).path, G_FILE_TEST_EXISTS));
    options.directory_count = 1;
    expect_open_error(&options, MW_ERROR_IO, "in use by another run");
    options.stem = "rank1";
    struct mw_nvme *other = open_tier(&options);
    mw_nvme_close(other);
    mw_nvme_close(nvme);
    mw_nvme_close(open_tier(&options));
    mw_nvme_fixture_finish(&fixture);
}

static void
test_directories(void)
{
    struct mw_nvme_fixture fixture;
    struct statfs system;

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 1, 8192);
    const char *missing = "no-such-directory";
    options.directories = &missing;
    expect_open_error(&options, MW_ERROR_INVALID, "no-such-directory: not a directory that can be");
    const char *twice[] = {fixture.directories[0], fixture.directories[0]};
    options.directories = twice;
    options.directory_count = 2;
    expect_open_error(&options, MW_ERROR_IO, "named twice");
    options.directory_count = 1;
    options.directories = (const char *const *)fixture.directories;
    g_assert_cmpint(statfs(fixture.root, &system), ==, 0);
    options.capacity_bytes = ((int64_t)system.f_bavail + 1000000) * (int64_t)system.f_frsize;
    expect_open_error(&options, MW_ERROR_IO, " MB short");
    g_autofree char *left = g_build_filename(fixture.directories[0], "memwall-1of1.data", NULL);
    g_assert_false(g_file_test(left, G_FILE_TEST_EXISTS));
    mw_nvme_fixture_finish(&fixture);
}

static void
test_bad_options(void)
{
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options good = mw_nvme_fixture_options(&fixture, 2, 8192), bad = good;
    bad.directory_count = 0;
    expect_open_error(&bad, MW_ERROR_INVALID, "number of directories is 0");
    bad = good;
    bad.capacity_bytes = 0;
    expect_open_error(&bad, MW_ERROR_INVALID, "capacity is 0");
    bad = good;
    bad.depth = 5000;
    expect_open_error(&bad, MW_ERROR_INVALID, "depth is 5000");
    bad = good;
    bad.block_bytes = 1000;
    expect_open_error(&bad, MW_ERROR_INVALID, "block size is 1000");
    bad = good;
    bad.stripe_bytes = 12288;
    expect_open_error(&bad, MW_ERROR_INVALID, "stripe size is 12288");
    bad = good;
    bad.capacity_bytes = INT64_MAX;
    expect_open_error(&bad, MW_ERROR_INVALID, "capacity is");
    mw_nvme_fixture_finish(&fixture);
}

static void
test_status(void)
{
    struct mw_nvme_fixture fixture;

    mw_nvme_fixture_init(&fixture);
    struct mw_nvme_options options = mw_nvme_fixture_options(&fixture, 1, 8192);
    options.buffered = true;
    struct mw_nvme *nvme = open_tier(&options);
    g_assert_false(mw_nvme_drive(nvme, 0).direct);
    g_assert_nonnull(strstr(mw_nvme_drive(nvme, 0).notice, "page cache"));
    g_assert_cmpint(mw_nvme_drive(nvme, 0).alignment_bytes, >=, 512);
    mw_nvme_close(nvme);
    mw_nvme_fixture_finish(&fixture);
}

static void
test_ram_disk(void)
{
    const char *shm = "/dev/shm";
    struct statfs system;
    struct mw_nvme_options options = {
        .directories = &shm, .directory_count = 1, .stem = "memwall-test", .capacity_bytes = 8192};

    if (statfs(shm, &system) || system.f_type != TMPFS_MAGIC || g_access(shm, 2)) {
        g_test_skip("/dev/shm is no RAM disk here");
        return;
    }
    struct mw_nvme *nvme = open_tier(&options);
    g_assert_true(mw_nvme_drive(nvme, 0).ram);
    g_assert_nonnull(strstr(mw_nvme_drive(nvme, 0).notice, "RAM disk"));
    mw_nvme_close(nvme);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme_files/keep", test_keep);
    g_test_add_func("/nvme_files/removed-at-close", test_removed_at_close);
    g_test_add_func("/nvme_files/lock", test_lock);
    g_test_add_func("/nvme_files/directories", test_directories);
    g_test_add_func("/nvme_files/bad-options", test_bad_options);
    g_test_add_func("/nvme_files/status", test_status);
    g_test_add_func("/nvme_files/ram-disk", test_ram_disk);
    return g_test_run();
}
