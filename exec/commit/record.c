#include <string.h>

#include "base/error.h"
#include "exec/commit/internal.h"
#include "exec/host/checksum.h"

/* Numbers have the machine's own byte order; on another machine the magic number differs. */
static const uint64_t MAGIC = UINT64_C(0x74694d6d6f63574d);
enum { VERSION = 1, FIELDS_AT_BYTES = 128 };

struct header {
    uint64_t magic, checksum; /* checksum of the whole record, with this field as 0 */
    uint32_t version, field_count;
    uint64_t extent_count;
    int64_t step;
    struct mw_commit_identity identity;
    uint64_t identity_checksum;
};

/* The lowest bit of id_and_which is `which`. */
struct entry {
    uint64_t offset_bytes, id_and_which, bytes, checksum;
};

G_STATIC_ASSERT(sizeof(struct header) <= FIELDS_AT_BYTES);
G_STATIC_ASSERT(sizeof(struct mw_commit_field) == 32 && sizeof(struct entry) == 32);
G_STATIC_ASSERT(FIELDS_AT_BYTES + MW_COMMIT_FIELDS_MAX * 32 <= MW_COMMIT_BLOCK_BYTES);

int64_t
mw_commit_record_bytes(int64_t extents)
{
    return MW_COMMIT_BLOCK_BYTES + mw_in_pages(extents * (int64_t)sizeof(struct entry));
}

uint64_t
mw_commit_checksum(const void *data, int64_t bytes)
{
    return mw_checksum(data, bytes);
}

bool
mw_commit_same_checksum(const struct mw_commit_extent *extent, uint64_t checksum, GError **error)
{
    if (checksum == extent->checksum)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "extent %" PRId64 " (%" PRId64 " bytes at %" PRId64
                " of the NVMe tier) is damaged: checksum %016" PRIx64
                " instead of the committed %016" PRIx64,
                extent->id, extent->bytes, extent->offset_bytes, checksum, extent->checksum);
    return false;
}

bool
mw_commit_check(const struct mw_commit_extent *extent, const void *data, GError **error)
{
    return mw_commit_same_checksum(extent, mw_commit_checksum(data, extent->bytes), error);
}

static void
encode_extents(const struct mw_commit_record *record, char *image)
{
    for (int64_t i = 0; i < record->extent_count; i++) {
        const struct mw_commit_extent *extent = &record->extents[i];
        const struct entry entry = {
            .offset_bytes = (uint64_t)extent->offset_bytes,
            .id_and_which = (uint64_t)extent->id << 1 | (extent->which & 1),
            .bytes = (uint64_t)extent->bytes,
            .checksum = extent->checksum,
        };
        memcpy(image + MW_COMMIT_BLOCK_BYTES + i * (int64_t)sizeof entry, &entry, sizeof entry);
    }
}

void
mw_commit_encode(const struct mw_commit_record *record, const struct mw_commit_identity *identity,
                 char *image)
{
    struct header header = {
        .magic = MAGIC,
        .version = VERSION,
        .field_count = (uint32_t)record->field_count,
        .extent_count = (uint64_t)record->extent_count,
        .step = record->step,
        .identity = *identity,
        .identity_checksum = mw_commit_checksum(identity, sizeof *identity),
    };
    if (record->field_count)
        memcpy(image + FIELDS_AT_BYTES, record->fields,
               (size_t)record->field_count * sizeof *record->fields);
    encode_extents(record, image);
    memcpy(image, &header, sizeof header);
    header.checksum = mw_commit_checksum(image, mw_commit_record_bytes(record->extent_count));
    memcpy(image, &header, sizeof header);
}

/* The checksum field itself counts as 0. */
static bool
is_whole(const struct header *header, const char *image, int64_t image_bytes)
{
    const int64_t entries_max =
        (image_bytes - MW_COMMIT_BLOCK_BYTES) / (int64_t)sizeof(struct entry);
    struct header unsigned_header = *header;
    struct mw_checksum *sum;

    if (header->magic != MAGIC || header->version != VERSION ||
        header->field_count > MW_COMMIT_FIELDS_MAX || header->extent_count > (uint64_t)entries_max)
        return false;
    const int64_t bytes = mw_commit_record_bytes((int64_t)header->extent_count);
    if (bytes > image_bytes) /* the last block of the record is cut off */
        return false;
    unsigned_header.checksum = 0;
    sum = mw_checksum_begin();
    mw_checksum_add(sum, &unsigned_header, sizeof unsigned_header);
    mw_checksum_add(sum, image + sizeof unsigned_header, bytes - (int64_t)sizeof unsigned_header);
    return mw_checksum_end(sum) == header->checksum;
}

/* A right checksum does not make a number valid to count on from. */
static bool
is_in_range(const struct mw_commit_record *record)
{
    bool good = record->step >= 0 && record->step < INT64_MAX;

    for (int i = 0; i < record->field_count; i++)
        good &= !record->fields[i].name[MW_COMMIT_NAME_BYTES - 1];
    for (int64_t i = 0; i < record->extent_count; i++) {
        const struct mw_commit_extent *extent = &record->extents[i];
        good &= extent->offset_bytes >= 0 && extent->bytes >= 0 &&
                extent->bytes <= INT64_MAX - extent->offset_bytes;
    }
    return good;
}

static void
decode_extents(struct mw_commit_record *record, const char *image)
{
    for (int64_t i = 0; i < record->extent_count; i++) {
        struct entry entry;

        memcpy(&entry, image + MW_COMMIT_BLOCK_BYTES + i * (int64_t)sizeof entry, sizeof entry);
        record->extents[i] = (struct mw_commit_extent){
            .id = (int64_t)(entry.id_and_which >> 1),
            .offset_bytes = (int64_t)entry.offset_bytes,
            .bytes = (int64_t)entry.bytes,
            .checksum = entry.checksum,
            .which = (int)(entry.id_and_which & 1),
        };
    }
}

int64_t
mw_commit_header_bytes(const char *block)
{
    struct header header;

    memcpy(&header, block, sizeof header);
    if (header.magic != MAGIC ||
        header.identity_checksum != mw_commit_checksum(&header.identity, sizeof header.identity))
        return 0;
    return mw_commit_record_bytes(
        (int64_t)MIN(header.extent_count, (uint64_t)MW_COMMIT_EXTENTS_MAX));
}

static bool
is_zero(const char *image, int64_t bytes)
{
    return !*image && !memcmp(image, image + 1, (size_t)bytes - 1);
}

enum mw_commit_state
mw_commit_decode(const char *image, int64_t image_bytes, struct mw_commit_record *record,
                 struct mw_commit_identity *identity, bool *identified)
{
    struct header header;

    *identified = false;
    if (image_bytes < MW_COMMIT_BLOCK_BYTES)
        return MW_COMMIT_TORN;
    if (is_zero(image, image_bytes))
        return MW_COMMIT_EMPTY;
    memcpy(&header, image, sizeof header);
    *identity = header.identity;
    *identified = mw_commit_header_bytes(image) > 0;
    if (!*identified || !is_whole(&header, image, image_bytes))
        return MW_COMMIT_TORN;
    *record = (struct mw_commit_record){
        .step = header.step,
        .fields = g_new0(struct mw_commit_field, header.field_count + 1),
        .field_count = (int)header.field_count,
        .extents = g_new0(struct mw_commit_extent, header.extent_count + 1),
        .extent_count = (int64_t)header.extent_count,
    };
    memcpy(record->fields, image + FIELDS_AT_BYTES, header.field_count * sizeof *record->fields);
    decode_extents(record, image);
    if (is_in_range(record))
        return MW_COMMIT_WHOLE;
    mw_commit_record_clear(record);
    return MW_COMMIT_TORN;
}

void
mw_commit_record_clear(struct mw_commit_record *record)
{
    g_free(record->fields);
    g_free(record->extents);
    *record = (struct mw_commit_record){0};
}

struct mw_commit_field
mw_commit_field(const char *name, uint64_t value)
{
    struct mw_commit_field field = {.value = value};

    g_strlcpy(field.name, name, sizeof field.name);
    return field;
}

struct mw_commit_field
mw_commit_field_real(const char *name, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return mw_commit_field(name, bits);
}

bool
mw_commit_find(const struct mw_commit_record *record, const char *name, uint64_t *value)
{
    for (int i = 0; i < record->field_count; i++) {
        if (strncmp(record->fields[i].name, name, MW_COMMIT_NAME_BYTES - 1))
            continue;
        *value = record->fields[i].value;
        return true;
    }
    return false;
}

bool
mw_commit_find_real(const struct mw_commit_record *record, const char *name, double *value)
{
    uint64_t bits;

    if (!mw_commit_find(record, name, &bits))
        return false;
    memcpy(value, &bits, sizeof *value);
    return true;
}
