/* Writes a file: declares its tensors, fills them in any order, then renames the file. */
#include "exec/data/safetensors_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/own_file.h"

#define DATA_ALIGNMENT 64 /* of the first tensor, by spaces after the JSON of the header */

struct mw_safetensors_writer {
    char *path, *part;
    GHashTable *names;    /* name -> struct mw_safetensor *, owned */
    GPtrArray *tensors;   /* the same, in declared order, then in order of bytes */
    GHashTable *metadata; /* char * -> char * */
    int fd;               /* -1 before begin */
    bool made;            /* PATH.part is ours to remove */
    int64_t head_bytes, data_bytes;
    int64_t written_bytes; /* atomic */
};

static bool
fail(const char *path, int number, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path, g_strerror(number));
    return false;
}

static void
free_tensor(void *data)
{
    struct mw_safetensor *tensor = data;

    g_free(tensor->name);
    g_free(tensor);
}

struct mw_safetensors_writer *
mw_safetensors_writer_new(const char *path)
{
    struct mw_safetensors_writer *writer = g_new0(struct mw_safetensors_writer, 1);

    writer->path = g_strdup(path);
    writer->part = g_strconcat(path, ".part", NULL);
    writer->names = g_hash_table_new(g_str_hash, g_str_equal);
    writer->tensors = g_ptr_array_new_with_free_func(free_tensor);
    writer->metadata = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    writer->fd = -1;
    return writer;
}

void
mw_safetensors_writer_free(struct mw_safetensors_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->made)
        unlink(writer->part);
    g_hash_table_unref(writer->metadata);
    g_hash_table_unref(writer->names);
    g_ptr_array_unref(writer->tensors);
    g_free(writer->part);
    g_free(writer->path);
    g_free(writer);
}

void
mw_safetensors_describe(struct mw_safetensors_writer *writer, const char *key, const char *value)
{
    g_hash_table_insert(writer->metadata, g_strdup(key), g_strdup(value));
}

bool
mw_safetensors_declare(struct mw_safetensors_writer *writer, const char *name,
                       enum mw_safetensors_dtype dtype, const int64_t *shape, int rank,
                       GError **error)
{
    struct mw_safetensor *tensor = g_new0(struct mw_safetensor, 1);
    bool good = writer->fd < 0 && rank <= MW_SAFETENSORS_RANK_MAX;

    tensor->name = g_strdup(name);
    tensor->dtype = dtype;
    for (int i = 0; good && i < rank; i++) {
        tensor->shape[i] = shape[i];
        good = shape[i] >= 0;
    }
    tensor->rank = rank;
    good = good && mw_safetensors_measure(tensor) && strcmp(name, "__metadata__") &&
           !g_hash_table_contains(writer->names, name);
    if (good) {
        g_hash_table_insert(writer->names, tensor->name, tensor);
        g_ptr_array_add(writer->tensors, tensor);
        return true;
    }
    free_tensor(tensor);
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: tensor \"%s\": must be declared once, before the writing begins", writer->path,
                name);
    return false;
}

/* --- layout ---------------------------------------------------------------------------------- */

/* Wide elements come first, so each tensor is aligned to its element size. */
static int
compare_widths(const void *a, const void *b)
{
    const struct mw_safetensor *x = *(struct mw_safetensor *const *)a;
    const struct mw_safetensor *y = *(struct mw_safetensor *const *)b;

    return (int)(mw_safetensors_dtype_bytes(y->dtype) - mw_safetensors_dtype_bytes(x->dtype));
}

static void
add_array(JsonBuilder *builder, const int64_t *values, int count)
{
    json_builder_begin_array(builder);
    for (int i = 0; i < count; i++)
        json_builder_add_int_value(builder, values[i]);
    json_builder_end_array(builder);
}

static int
compare_keys(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The length does not depend on the checksums, which are known only after all data is written. */
static void
add_sums(const struct mw_safetensors_writer *writer)
{
    for (guint i = 0; i < writer->tensors->len; i++) {
        const struct mw_safetensor *tensor = g_ptr_array_index(writer->tensors, i);
        g_hash_table_insert(writer->metadata, mw_safetensors_sum_key(tensor),
                            mw_safetensors_sum_text(tensor->sum));
    }
}

static void
add_metadata(JsonBuilder *builder, GHashTable *metadata)
{
    GList *keys = g_list_sort(g_hash_table_get_keys(metadata), compare_keys);

    json_builder_set_member_name(builder, "__metadata__");
    json_builder_begin_object(builder);
    for (GList *key = keys; key; key = key->next) {
        json_builder_set_member_name(builder, key->data);
        json_builder_add_string_value(builder, g_hash_table_lookup(metadata, key->data));
    }
    json_builder_end_object(builder);
    g_list_free(keys);
}

static void
add_tensor(JsonBuilder *builder, const struct mw_safetensor *tensor, int64_t head_bytes)
{
    int64_t begin = tensor->offset_bytes - head_bytes;
    int64_t offsets[2] = {begin, begin + tensor->size_bytes};

    json_builder_set_member_name(builder, tensor->name);
    json_builder_begin_object(builder);
    json_builder_set_member_name(builder, "dtype");
    json_builder_add_string_value(builder, mw_safetensors_dtype_name(tensor->dtype));
    json_builder_set_member_name(builder, "shape");
    add_array(builder, tensor->shape, tensor->rank);
    json_builder_set_member_name(builder, "data_offsets");
    add_array(builder, offsets, 2);
    json_builder_end_object(builder);
}

/* Offsets count from the beginning of the data. */
static char *
header_text(const struct mw_safetensors_writer *writer)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();

    add_sums(writer);
    json_builder_begin_object(builder);
    if (g_hash_table_size(writer->metadata))
        add_metadata(builder, writer->metadata);
    for (guint i = 0; i < writer->tensors->len; i++)
        add_tensor(builder, g_ptr_array_index(writer->tensors, i), writer->head_bytes);
    json_builder_end_object(builder);
    g_autoptr(JsonNode) root = json_builder_get_root(builder);
    return json_to_string(root, FALSE);
}

/* Everything before the data. */
static void
put_head(const struct mw_safetensors_writer *writer, GString *head)
{
    g_autofree char *text = header_text(writer);

    g_string_append_len(head, "\0\0\0\0\0\0\0\0", MW_SAFETENSORS_LENGTH_BYTES);
    g_string_append(head, text);
    while (head->len % DATA_ALIGNMENT)
        g_string_append_c(head, ' ');
    uint64_t length = GUINT64_TO_LE((uint64_t)head->len - MW_SAFETENSORS_LENGTH_BYTES);
    memcpy(head->str, &length, sizeof length);
}

static bool
lay_out(struct mw_safetensors_writer *writer, GString *head, GError **error)
{
    int64_t at = 0;

    g_ptr_array_sort(writer->tensors, compare_widths); /* stable */
    for (guint i = 0; i < writer->tensors->len; i++) {
        struct mw_safetensor *tensor = g_ptr_array_index(writer->tensors, i);
        tensor->offset_bytes = at;
        if (__builtin_add_overflow(at, tensor->size_bytes, &at)) {
            g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                        "%s: tensor \"%s\": all tensors together must be fewer than 2^63 bytes",
                        writer->path, tensor->name);
            return false;
        }
    }
    put_head(writer, head);
    writer->data_bytes = at;
    writer->head_bytes = (int64_t)head->len;
    for (guint i = 0; i < writer->tensors->len; i++)
        ((struct mw_safetensor *)g_ptr_array_index(writer->tensors, i))->offset_bytes +=
            (int64_t)head->len;
    if (head->len <= MW_JSON_BYTES_MAX)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: a header of %" G_GSIZE_FORMAT " bytes: must be at most %d", writer->path,
                head->len, MW_JSON_BYTES_MAX);
    return false;
}

/* --- bytes ----------------------------------------------------------------------------------- */

static bool
write_bytes(struct mw_safetensors_writer *writer, int64_t offset_bytes, const void *bytes,
            int64_t size_bytes, GError **error)
{
    for (const char *at = bytes; size_bytes > 0;) {
        ssize_t put = pwrite(writer->fd, at, (size_t)size_bytes, offset_bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail(writer->part, put ? errno : ENOSPC, error);
        at += put;
        offset_bytes += put;
        size_bytes -= put;
    }
    return true;
}

/* On file systems that cannot reserve space the file consists of holes. */
static bool
reserve(struct mw_safetensors_writer *writer, int64_t size_bytes, GError **error)
{
    int number;

    if (!size_bytes)
        return true;
    while ((number = fallocate(writer->fd, 0, 0, size_bytes) ? errno : 0) == EINTR)
        continue;
    if (number == EOPNOTSUPP || number == ENOSYS)
        number = ftruncate(writer->fd, size_bytes) ? errno : 0;
    if (!number)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: needs %" G_GINT64_FORMAT " bytes: %s",
                writer->part, size_bytes, g_strerror(number));
    return false;
}

bool
mw_safetensors_plan(struct mw_safetensors_writer *writer, int64_t *bytes, GError **error)
{
    g_autoptr(GString) head = g_string_new(NULL);

    if (!lay_out(writer, head, error))
        return false;
    *bytes = (int64_t)head->len + writer->data_bytes;
    return true;
}

bool
mw_safetensors_begin(struct mw_safetensors_writer *writer, GError **error)
{
    g_autoptr(GString) head = g_string_new(NULL);

    if (!lay_out(writer, head, error))
        return false;
    writer->fd = open(writer->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (writer->fd < 0)
        return fail(writer->part, errno, error);
    writer->made = true;
    return reserve(writer, (int64_t)head->len + writer->data_bytes, error) &&
           write_bytes(writer, 0, head->str, (int64_t)head->len, error);
}

/* The other rank declared the same tensors, so its header is ours too. */
static bool
check_same(const struct mw_safetensors_writer *writer, const GString *head, GError **error)
{
    g_autofree char *there = g_malloc(head->len);
    ssize_t got = pread(writer->fd, there, head->len, 0);

    if (got == (ssize_t)head->len && !memcmp(there, head->str, head->len))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: has another header: every rank must declare the same tensors", writer->part);
    return false;
}

bool
mw_safetensors_attach(struct mw_safetensors_writer *writer, GError **error)
{
    g_autoptr(GString) head = g_string_new(NULL);

    if (!lay_out(writer, head, error))
        return false;
    const char *why;
    writer->fd = mw_own_open(writer->part, O_RDWR, 0, &why);
    if (writer->fd < 0) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", writer->part, why);
        return false;
    }
    return check_same(writer, head, error);
}

bool
mw_safetensors_write(struct mw_safetensors_writer *writer, const char *name, int64_t first,
                     int64_t count, const void *values, GError **error)
{
    const struct mw_safetensor *tensor = g_hash_table_lookup(writer->names, name);

    if (!tensor || writer->fd < 0) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: tensor \"%s\": must be declared, and the writing begun", writer->path,
                    name);
        return false;
    }
    int64_t width_bytes = mw_safetensors_dtype_bytes(tensor->dtype);
    if (!mw_safetensors_check_range(tensor, writer->path, first, count, error) ||
        !write_bytes(writer, tensor->offset_bytes + first * width_bytes, values,
                     count * width_bytes, error))
        return false;
    __atomic_fetch_add(&writer->written_bytes, count * width_bytes, __ATOMIC_RELAXED);
    return true;
}

bool
mw_safetensors_sync(struct mw_safetensors_writer *writer, GError **error)
{
    return !fsync(writer->fd) || fail(writer->part, errno, error);
}

int64_t
mw_safetensors_written_bytes(const struct mw_safetensors_writer *writer)
{
    return __atomic_load_n(&writer->written_bytes, __ATOMIC_RELAXED);
}

static bool
sync_folder(const char *path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return fail(folder, errno, error);
    /* Some file systems do not support fsync of a folder: EINVAL. */
    int number = fsync(fd) && errno != EINVAL ? errno : 0;
    close(fd);
    return !number || fail(folder, number, error);
}

/* Reads back the content of the file, whichever rank wrote it. */
static bool
put_sums(struct mw_safetensors_writer *writer, GError **error)
{
    g_autoptr(GString) head = g_string_new(NULL);

    for (guint i = 0; i < writer->tensors->len; i++) {
        struct mw_safetensor *tensor = g_ptr_array_index(writer->tensors, i);
        if (!mw_safetensors_sum(writer->fd, writer->part, tensor, &tensor->sum, error))
            return false;
    }
    put_head(writer, head);
    g_assert_cmpint((int64_t)head->len, ==, writer->head_bytes);
    return write_bytes(writer, 0, head->str, (int64_t)head->len, error);
}

bool
mw_safetensors_commit(struct mw_safetensors_writer *writer, int64_t others_bytes, GError **error)
{
    int64_t written_bytes = mw_safetensors_written_bytes(writer) + others_bytes;

    if (written_bytes != writer->data_bytes) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: %" G_GINT64_FORMAT " bytes of tensors written: must be %" G_GINT64_FORMAT,
                    writer->path, written_bytes, writer->data_bytes);
        return false;
    }
    if (!put_sums(writer, error) || !mw_safetensors_sync(writer, error))
        return false;
    if (rename(writer->part, writer->path))
        return fail(writer->path, errno, error);
    writer->made = false;
    return sync_folder(writer->path, error);
}

uint64_t
mw_safetensors_written_digest(const struct mw_safetensors_writer *writer)
{
    return mw_safetensors_digest_of((const struct mw_safetensor *const *)writer->tensors->pdata,
                                    writer->tensors->len);
}
