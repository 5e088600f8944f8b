#include "commit_fixture.h"
#include "says.h"

#include <string.h>

struct mw_commit_options
mw_commit_fixture_options(const struct mw_nvme_fixture *fixture)
{
    return (struct mw_commit_options){
        .directory = fixture->directories[0],
        .fingerprint = 77,
        .ranks = 1,
        .extents_max = MW_COMMIT_FIXTURE_EXTENTS,
    };
}

struct mw_commit *
mw_commit_fixture_open(const struct mw_commit_options *options)
{
    GError *error = NULL;
    struct mw_commit *commit = mw_commit_open(options, &error);

    g_assert_no_error(error);
    return commit;
}

void
mw_commit_fixture_refuse(const struct mw_commit_options *options, const char *part)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(mw_commit_open(options, &error));
    mw_test_says(error->message, part);
}

struct mw_commit_record
mw_commit_fixture_record(int64_t step, int64_t extents)
{
    struct mw_commit_record record = {
        .step = step,
        .fields = g_new0(struct mw_commit_field, 3),
        .field_count = 3,
        .extents = g_new0(struct mw_commit_extent, extents),
        .extent_count = extents,
    };
    record.fields[0] = mw_commit_field("cursor", (uint64_t)step * 1000);
    record.fields[1] = mw_commit_field_real("loss-scale", 65536.0 / (double)(step + 1));
    record.fields[2] = mw_commit_field("a-name-that-is-too-long-for-it", UINT64_MAX);
    for (int64_t i = 0; i < extents; i++)
        record.extents[i] = (struct mw_commit_extent){
            i, i * 8192 + step, 4096 + i, (uint64_t)(i * step) << 40, (int)((i + step) % 2)};
    return record;
}

void
mw_commit_fixture_commit(struct mw_commit *commit, int64_t step)
{
    struct mw_commit_record record =
        mw_commit_fixture_record(step, MW_COMMIT_FIXTURE_EXTENTS - step);
    GError *error = NULL;

    mw_commit_write(commit, NULL, &record, &error);
    g_assert_no_error(error);
    mw_commit_record_clear(&record);
}

void
mw_commit_fixture_expect(struct mw_commit *commit, int64_t step)
{
    struct mw_commit_record wanted =
                                mw_commit_fixture_record(step, MW_COMMIT_FIXTURE_EXTENTS - step),
                            found;
    uint64_t cursor;
    double scale;

    g_assert_true(mw_commit_resume(commit, step, &found, NULL));
    g_assert_cmpint(found.step, ==, step);
    g_assert_cmpint(found.extent_count, ==, wanted.extent_count);
    for (int64_t i = 0; i < wanted.extent_count; i++)
        g_assert_cmpmem(&found.extents[i], sizeof *found.extents, &wanted.extents[i],
                        sizeof *wanted.extents);
    g_assert_true(mw_commit_find(&found, "cursor", &cursor));
    g_assert_cmpuint(cursor, ==, step * 1000);
    g_assert_true(mw_commit_find_real(&found, "loss-scale", &scale));
    g_assert_cmpfloat(scale, ==, 65536.0 / (double)(step + 1));
    g_assert_true(mw_commit_find(&found, "a-name-that-is-too-long-for-it", &cursor));
    g_assert_false(mw_commit_find(&found, "nothing", &cursor));
    mw_commit_record_clear(&wanted);
    mw_commit_record_clear(&found);
}

void
mw_commit_fixture_take_over(struct mw_commit *commit)
{
    GError *error = NULL;

    mw_commit_renew(commit, &error);
    g_assert_no_error(error);
    mw_commit_void_newer(commit, &error);
    g_assert_no_error(error);
}
