/*
 * Checksums of tensors (64-bit XXH3) in a file's metadata.  They are computed from data that is
 * read back from the file, so they do not depend on the ranks and ranges that wrote it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "exec/data/safetensors_internal.h"
#include "exec/host/checksum.h"

#define BLOCK_BYTES ((int64_t)4 << 20)

char *
mw_safetensors_sum_key(const struct mw_safetensor *tensor)
{
    return g_strconcat(MW_SAFETENSORS_SUM, tensor->name, NULL);
}

char *
mw_safetensors_sum_text(uint64_t sum)
{
    return g_strdup_printf("%016" PRIx64, sum);
}

bool
mw_safetensors_sum(int fd, const char *path, const struct mw_safetensor *tensor, uint64_t *sum,
                   GError **error)
{
    g_autofree char *block = g_malloc((gsize)MIN(BLOCK_BYTES, tensor->size_bytes) + 1);
    struct mw_checksum *running = mw_checksum_begin();
    bool good = true;

    for (int64_t at = 0; good && at < tensor->size_bytes; at += BLOCK_BYTES) {
        int64_t bytes = MIN(BLOCK_BYTES, tensor->size_bytes - at);
        good = mw_input_read_at(fd, path, tensor->offset_bytes + at, bytes, block, error);
        if (good)
            mw_checksum_add(running, block, bytes);
    }
    *sum = mw_checksum_end(running);
    return good;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct mw_safetensor *const *)a)->name,
                  (*(const struct mw_safetensor *const *)b)->name);
}

uint64_t
mw_safetensors_digest_of(const struct mw_safetensor *const *tensors, size_t count)
{
    g_autofree const struct mw_safetensor **sorted = g_new(const struct mw_safetensor *, count + 1);
    struct mw_checksum *running = mw_checksum_begin();

    for (size_t i = 0; i < count; i++)
        sorted[i] = tensors[i];
    qsort(sorted, count, sizeof *sorted, compare_names);
    for (size_t i = 0; i < count; i++) {
        g_autofree char *sum = mw_safetensors_sum_text(sorted[i]->sum);
        mw_checksum_add(running, sorted[i]->name, (int64_t)strlen(sorted[i]->name) + 1);
        mw_checksum_add(running, sum, (int64_t)strlen(sum) + 1);
    }
    return mw_checksum_end(running);
}

static bool
refuse(const char *origin, const struct mw_safetensor *tensor, const char *wrong, GError **error)
{
    g_autofree char *name = g_strescape(tensor->name, NULL);

    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: tensor \"%s\": its checksum in the metadata (\"" MW_SAFETENSORS_SUM
                "NAME\") %s",
                origin, name, wrong);
    return false;
}

/* Files of other tools have no checksums.  If some tensors have one, a missing one is damage. */
static bool
has_any(const struct mw_safetensors_header *header)
{
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, header->metadata);
    while (g_hash_table_iter_next(&iter, &key, NULL))
        if (g_str_has_prefix(key, MW_SAFETENSORS_SUM))
            return true;
    return false;
}

/* Takes the checksums of tensors from the metadata, if it has any. */
bool
mw_safetensors_take_sums(struct mw_safetensors_header *header, const char *origin, GError **error)
{
    const bool any = has_any(header);

    for (size_t i = 0; any && i < header->tensor_count; i++) {
        struct mw_safetensor *tensor = &header->tensors[i];
        g_autofree char *key = mw_safetensors_sum_key(tensor);
        const char *text = g_hash_table_lookup(header->metadata, key);

        tensor->has_sum = text != NULL;
        if (!text)
            return refuse(origin, tensor, "is missing: must be there for all tensors, or for none",
                          error);
        if (strlen(text) != 16 ||
            !g_ascii_string_to_unsigned(text, 16, 0, G_MAXUINT64, &tensor->sum, NULL))
            return refuse(origin, tensor, "must have 16 hexadecimal digits", error);
    }
    return true;
}

/* --- a set ----------------------------------------------------------------------------------- */

bool
mw_safetensors_has_sums(const struct mw_safetensors *set)
{
    bool all = true;

    for (size_t i = 0; i < mw_safetensors_count(set); i++)
        all &= mw_safetensors_at(set, i)->has_sum;
    return all;
}

uint64_t
mw_safetensors_digest(const struct mw_safetensors *set)
{
    const size_t count = mw_safetensors_count(set);
    g_autofree const struct mw_safetensor **tensors =
        g_new(const struct mw_safetensor *, count + 1);

    for (size_t i = 0; i < count; i++)
        tensors[i] = mw_safetensors_at(set, i);
    return mw_safetensors_digest_of(tensors, count);
}

#define SAMPLE_BYTES 4096 /* per tensor, at most */

bool
mw_safetensors_sample(const struct mw_safetensors *set, uint64_t *digest, GError **error)
{
    const size_t count = mw_safetensors_count(set);
    const bool sums = mw_safetensors_has_sums(set);
    g_autofree struct mw_safetensor *begins = g_new(struct mw_safetensor, count + 1);
    g_autofree const struct mw_safetensor **tensors =
        g_new(const struct mw_safetensor *, count + 1);
    bool good = true;

    for (size_t i = 0; good && i < count; i++) {
        const struct mw_safetensor *tensor = mw_safetensors_at(set, i);
        begins[i] = *tensor;
        begins[i].size_bytes = MIN(tensor->size_bytes, SAMPLE_BYTES);
        tensors[i] = &begins[i];
        good = sums || mw_safetensors_sum(mw_safetensors_descriptor(set, tensor),
                                          mw_safetensors_file(set, tensor), &begins[i],
                                          &begins[i].sum, error);
    }
    if (good)
        *digest = mw_safetensors_digest_of(tensors, count);
    return good;
}

static bool
check(const struct mw_safetensors *set, const struct mw_safetensor *tensor, GError **error)
{
    const char *path = mw_safetensors_file(set, tensor);
    uint64_t sum;

    if (!mw_safetensors_sum(mw_safetensors_descriptor(set, tensor), path, tensor, &sum, error))
        return false;
    if (sum == tensor->sum)
        return true;
    g_autofree char *name = g_strescape(tensor->name, NULL);
    g_set_error(error, MW_ERROR, MW_ERROR_IO,
                "%s: tensor \"%s\" is damaged: its checksum is %016" PRIx64 ", %016" PRIx64
                " was written",
                path, name, sum, tensor->sum);
    return false;
}

bool
mw_safetensors_verify(const struct mw_safetensors *set, size_t part, size_t parts, GError **error)
{
    for (size_t i = part; i < mw_safetensors_count(set); i += parts)
        if (mw_safetensors_at(set, i)->has_sum && !check(set, mw_safetensors_at(set, i), error))
            return false;
    return true;
}
