#include <glib.h>
#include <string.h>

#include "base/error.h"
#include "exec/commit/internal.h"
#include "exec/trainer/internal.h"
#include "tests/fuzz/fuzz.h"

enum { CHECKSUM_AT = 8, EXTENTS_AT = 24, IMAGE_BYTES_MAX = 1 << 20 };

/* So that what lies behind the checksum is met as well. */
static void
seal(char *image, int64_t image_bytes)
{
    uint64_t extents, checksum = 0;

    memcpy(&extents, image + EXTENTS_AT, sizeof extents);
    if (extents > IMAGE_BYTES_MAX || mw_commit_record_bytes((int64_t)extents) > image_bytes)
        return;
    memcpy(image + CHECKSUM_AT, &checksum, sizeof checksum);
    checksum = mw_commit_checksum(image, mw_commit_record_bytes((int64_t)extents));
    memcpy(image + CHECKSUM_AT, &checksum, sizeof checksum);
}

/* What is whole is written as it was read, and its fields are in range or refused in one line. */
static void
check_whole(const struct mw_commit_record *record, const struct mw_commit_identity *identity,
            const char *image)
{
    int64_t bytes = mw_commit_record_bytes(record->extent_count);
    g_autofree char *again = g_malloc0((gsize)bytes);
    g_autoptr(GError) error = NULL;
    struct mw_commit_record second;
    struct mw_commit_identity other;
    bool identified;

    g_assert_cmpint(record->step, >=, 0);
    mw_commit_encode(record, identity, again);
    g_assert_true(mw_commit_decode(again, bytes, &second, &other, &identified) == MW_COMMIT_WHOLE);
    g_assert_true(identified);
    g_assert_cmpmem(record->fields, record->field_count * sizeof *record->fields, second.fields,
                    second.field_count * sizeof *second.fields);
    g_assert_cmpint(record->extent_count, ==, second.extent_count);
    for (int64_t i = 0; i < record->extent_count; i++)
        g_assert_cmpint(record->extents[i].offset_bytes + record->extents[i].bytes, >=, 0);
    mw_commit_record_clear(&second);
    if (mw_trainer_check_fields(record, &error))
        return;
    g_assert_true(error->domain == MW_ERROR);
    g_assert_null(strchr(error->message, '\n'));
}

static void
check(const char *image, int64_t bytes)
{
    struct mw_commit_record record;
    struct mw_commit_identity identity;
    bool identified;

    if (mw_commit_decode(image, bytes, &record, &identity, &identified) != MW_COMMIT_WHOLE)
        return;
    check_whole(&record, &identity, image);
    mw_commit_record_clear(&record);
}

/* As it is, and sealed in whole blocks. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > IMAGE_BYTES_MAX)
        return 0;
    gsize bytes = (gsize)mw_in_pages((int64_t)size);
    g_autofree char *image = g_malloc0(bytes);

    check((const char *)data, (int64_t)size);
    memcpy(image, data, size);
    seal(image, (int64_t)bytes);
    check(image, (int64_t)bytes);
    return 0;
}
