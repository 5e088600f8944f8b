/* Opens sets of files and reads from them. */
#include "exec/data/safetensors_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "base/json.h"
#include "exec/data/convert.h"

#define WANTED "a safetensors file, an index of some, or a folder that holds one"
#define BLOCK_ELEMENTS 65536 /* converted at a time */

struct file {
    char *path;
    int fd;
    struct mw_safetensors_header *header;
};

struct mw_safetensors {
    char *path;
    GArray *files;      /* struct file */
    GHashTable *names;  /* name -> const struct mw_safetensor *, both of the headers */
    GPtrArray *tensors; /* those of `names`, in order of file and bytes */
};

static bool
fail(const char *path, int number, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path, g_strerror(number));
    return false;
}

/* --- opening --------------------------------------------------------------------------------- */

static bool
read_bytes(const struct file *file, int64_t offset_bytes, int64_t size_bytes, void *out,
           GError **error)
{
    return mw_input_read_at(file->fd, file->path, offset_bytes, size_bytes, out, error);
}

static bool
read_header(struct file *file, GError **error)
{
    struct stat status;
    uint64_t length = 0;

    if (fstat(file->fd, &status))
        return fail(file->path, errno, error);
    if (status.st_size >= MW_SAFETENSORS_LENGTH_BYTES &&
        !read_bytes(file, 0, sizeof length, &length, error))
        return false;
    length = MIN(GUINT64_FROM_LE(length), MW_JSON_BYTES_MAX);
    int64_t head_bytes = MIN(status.st_size, (int64_t)length + MW_SAFETENSORS_LENGTH_BYTES);
    g_autofree char *head = g_malloc((gsize)head_bytes + 1);
    if (!read_bytes(file, 0, head_bytes, head, error))
        return false;
    file->header =
        mw_safetensors_header_parse(head, (size_t)head_bytes, status.st_size, file->path, error);
    return file->header;
}

static void
clear_file(void *data)
{
    struct file *file = data;

    mw_safetensors_header_free(file->header);
    if (file->fd >= 0)
        close(file->fd);
    g_free(file->path);
}

/* Sets *number to the number of the file in the set. */
static bool
add_file(struct mw_safetensors *set, const char *path, int *number, GError **error)
{
    struct file file = {.path = g_strdup(path), .fd = mw_input_open(path, WANTED, error)};

    if (file.fd < 0 || !read_header(&file, error)) {
        clear_file(&file);
        return false;
    }
    *number = (int)set->files->len;
    for (size_t i = 0; i < file.header->tensor_count; i++)
        file.header->tensors[i].file = *number;
    g_array_append_val(set->files, file);
    return true;
}

static void
add_tensor(struct mw_safetensors *set, struct mw_safetensor *tensor)
{
    g_hash_table_insert(set->names, tensor->name, tensor);
    g_ptr_array_add(set->tensors, tensor);
}

static bool
open_single(struct mw_safetensors *set, const char *path, GError **error)
{
    int number;

    if (!add_file(set, path, &number, error))
        return false;
    struct mw_safetensors_header *header = g_array_index(set->files, struct file, 0).header;
    for (size_t i = 0; i < header->tensor_count; i++)
        add_tensor(set, &header->tensors[i]);
    return true;
}

/* --- an index of several files --------------------------------------------------------------- */

static bool
refuse_entry(const char *index, const char *name, const char *accepted, GError **error)
{
    g_autofree char *shown = g_strescape(name, NULL);

    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: key \"weight_map\": tensor \"%s\": %s",
                index, shown, accepted);
    return false;
}

static struct mw_safetensor *
find_in_file(const struct mw_safetensors *set, int number, const char *name)
{
    struct mw_safetensors_header *header = g_array_index(set->files, struct file, number).header;

    for (size_t i = 0; i < header->tensor_count; i++)
        if (!strcmp(header->tensors[i].name, name))
            return &header->tensors[i];
    return NULL;
}

/* `numbers` maps names of open files to their number + 1. */
static bool
add_entry(struct mw_safetensors *set, const char *name, JsonNode *node, GHashTable *numbers,
          GError **error)
{
    if (json_node_get_value_type(node) != G_TYPE_STRING)
        return refuse_entry(set->path, name, "must be a file name", error);
    const char *file = json_node_get_string(node);
    if (!*file || strchr(file, '/') || !strcmp(file, "..") || !strcmp(file, "."))
        return refuse_entry(set->path, name, "must be the name of a file beside the index", error);

    int number = GPOINTER_TO_INT(g_hash_table_lookup(numbers, file)) - 1;
    if (number < 0) {
        g_autofree char *folder = g_path_get_dirname(set->path);
        g_autofree char *path = g_build_filename(folder, file, NULL);
        if (!add_file(set, path, &number, error))
            return false;
        g_hash_table_insert(numbers, (char *)file, GINT_TO_POINTER(number + 1));
    }
    struct mw_safetensor *tensor = find_in_file(set, number, name);
    if (!tensor) {
        g_autofree char *shown = g_strescape(file, NULL);
        g_autofree char *accepted = g_strdup_printf("must be in %s, which lacks it", shown);
        return refuse_entry(set->path, name, accepted, error);
    }
    add_tensor(set, tensor);
    return true;
}

static bool
open_index(struct mw_safetensors *set, GError **error)
{
    static const struct mw_input_kind kind = {WANTED, MW_JSON_BYTES_MAX, NULL};
    gsize length;
    g_autofree char *text = mw_input_read(set->path, &kind, &length, error);
    g_autoptr(JsonNode) root = text ? mw_json_parse(text, (gssize)length, set->path, error) : NULL;
    g_autoptr(GHashTable) numbers = g_hash_table_new(g_str_hash, g_str_equal);
    JsonObjectIter iter;
    const char *name;
    JsonNode *node;

    if (!root)
        return false;
    JsonNode *map = json_object_get_member(json_node_get_object(root), "weight_map");
    if (!map || !JSON_NODE_HOLDS_OBJECT(map)) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: key \"weight_map\": must be an object: tensor name -> file name",
                    set->path);
        return false;
    }
    json_object_iter_init_ordered(&iter, json_node_get_object(map));
    while (json_object_iter_next_ordered(&iter, &name, &node))
        if (!add_entry(set, name, node, numbers, error))
            return false;
    return true;
}

/* --- a set ----------------------------------------------------------------------------------- */

static char *
model_file(const char *path, GError **error)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};

    if (!g_file_test(path, G_FILE_TEST_IS_DIR))
        return g_strdup(path);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        char *found = g_build_filename(path, names[i], NULL);
        if (g_file_test(found, G_FILE_TEST_EXISTS))
            return found;
        g_free(found);
    }
    mw_refuse(error, "%s: must hold %s or %s", path, names[0], names[1]);
    return NULL;
}

struct mw_safetensors *
mw_safetensors_open(const char *path, GError **error)
{
    char *resolved = model_file(path, error);

    if (!resolved)
        return NULL;
    struct mw_safetensors *set = g_new0(struct mw_safetensors, 1);
    set->path = resolved;
    set->files = g_array_new(FALSE, TRUE, sizeof(struct file));
    g_array_set_clear_func(set->files, clear_file);
    set->names = g_hash_table_new(g_str_hash, g_str_equal);
    set->tensors = g_ptr_array_new();
    if (g_str_has_suffix(resolved, ".json") ? open_index(set, error)
                                            : open_single(set, resolved, error))
        return set;
    mw_safetensors_close(set);
    return NULL;
}

void
mw_safetensors_close(struct mw_safetensors *set)
{
    if (!set)
        return;
    g_hash_table_unref(set->names);
    g_ptr_array_unref(set->tensors);
    g_array_unref(set->files);
    g_free(set->path);
    g_free(set);
}

const char *
mw_safetensors_path(const struct mw_safetensors *set)
{
    return set->path;
}

const char *
mw_safetensors_file(const struct mw_safetensors *set, const struct mw_safetensor *tensor)
{
    return g_array_index(set->files, struct file, tensor->file).path;
}

int
mw_safetensors_descriptor(const struct mw_safetensors *set, const struct mw_safetensor *tensor)
{
    return g_array_index(set->files, struct file, tensor->file).fd;
}

size_t
mw_safetensors_count(const struct mw_safetensors *set)
{
    return set->tensors->len;
}

const struct mw_safetensor *
mw_safetensors_at(const struct mw_safetensors *set, size_t index)
{
    return g_ptr_array_index(set->tensors, index);
}

const struct mw_safetensor *
mw_safetensors_find(const struct mw_safetensors *set, const char *name)
{
    return g_hash_table_lookup(set->names, name);
}

const char *
mw_safetensors_metadata(const struct mw_safetensors *set, const char *key)
{
    if (!set->files->len)
        return NULL;
    return g_hash_table_lookup(g_array_index(set->files, struct file, 0).header->metadata, key);
}

/* --- reading --------------------------------------------------------------------------------- */

bool
mw_safetensors_check_range(const struct mw_safetensor *tensor, const char *origin, int64_t first,
                           int64_t count, GError **error)
{
    if (first >= 0 && count >= 0 && first <= tensor->elements && count <= tensor->elements - first)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: tensor \"%s\": %" G_GINT64_FORMAT " elements from %" G_GINT64_FORMAT
                ": must lie within its %" G_GINT64_FORMAT,
                origin, tensor->name, count, first, tensor->elements);
    return false;
}

bool
mw_safetensors_read_raw(const struct mw_safetensors *set, const struct mw_safetensor *tensor,
                        int64_t first, int64_t count, void *out, GError **error)
{
    const struct file *file = &g_array_index(set->files, struct file, tensor->file);
    int64_t size_bytes = mw_safetensors_dtype_bytes(tensor->dtype);

    return mw_safetensors_check_range(tensor, file->path, first, count, error) &&
           read_bytes(file, tensor->offset_bytes + first * size_bytes, count * size_bytes, out,
                      error);
}

static void
convert(enum mw_safetensors_dtype from, const void *in, int64_t count, enum mw_dtype as, void *out)
{
    const float *wide = in;
    const uint16_t *narrow = in;

    for (int64_t i = 0; i < count; i++) {
        float value = from == MW_SAFETENSORS_F32   ? wide[i]
                      : from == MW_SAFETENSORS_F16 ? mw_fp32_of_fp16(narrow[i])
                                                   : mw_fp32_of_bf16(narrow[i]);
        if (as == MW_DTYPE_FP32)
            ((float *)out)[i] = value;
        else
            ((uint16_t *)out)[i] = mw_half_of_fp32(value, as);
    }
}

static bool
read_converted(const struct mw_safetensors *set, const struct mw_safetensor *tensor, int64_t first,
               int64_t count, enum mw_dtype as, void *out, GError **error)
{
    g_autofree float *block = g_new(float, BLOCK_ELEMENTS);
    int64_t out_bytes = as == MW_DTYPE_FP32 ? 4 : 2;

    for (int64_t done = 0; done < count;) {
        int64_t now = MIN(count - done, BLOCK_ELEMENTS);
        if (!mw_safetensors_read_raw(set, tensor, first + done, now, block, error))
            return false;
        convert(tensor->dtype, block, now, as, (char *)out + done * out_bytes);
        done += now;
    }
    return true;
}

bool
mw_safetensors_read(const struct mw_safetensors *set, const struct mw_safetensor *tensor,
                    int64_t first, int64_t count, enum mw_dtype as, void *out, GError **error)
{
    const char *path = mw_safetensors_file(set, tensor);
    enum mw_safetensors_dtype same = as == MW_DTYPE_FP32   ? MW_SAFETENSORS_F32
                                     : as == MW_DTYPE_FP16 ? MW_SAFETENSORS_F16
                                                           : MW_SAFETENSORS_BF16;

    g_return_val_if_fail(as != MW_DTYPE_NONE && as < MW_DTYPE_COUNT, false);
    if (!mw_safetensors_check_range(tensor, path, first, count, error))
        return false;
    if (tensor->dtype == same)
        return mw_safetensors_read_raw(set, tensor, first, count, out, error);
    if (tensor->dtype <= MW_SAFETENSORS_BF16)
        return read_converted(set, tensor, first, count, as, out, error);
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: tensor \"%s\": dtype %s: must be F32, F16 or BF16", path, tensor->name,
                mw_safetensors_dtype_name(tensor->dtype));
    return false;
}
