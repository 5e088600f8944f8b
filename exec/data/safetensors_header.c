/* Reads the header of one file. */
#include "exec/data/safetensors_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[MW_SAFETENSORS_DTYPE_COUNT] = {
    [MW_SAFETENSORS_F32] = {"F32", 4},         [MW_SAFETENSORS_F16] = {"F16", 2},
    [MW_SAFETENSORS_BF16] = {"BF16", 2},       [MW_SAFETENSORS_F64] = {"F64", 8},
    [MW_SAFETENSORS_I64] = {"I64", 8},         [MW_SAFETENSORS_I32] = {"I32", 4},
    [MW_SAFETENSORS_I16] = {"I16", 2},         [MW_SAFETENSORS_I8] = {"I8", 1},
    [MW_SAFETENSORS_U64] = {"U64", 8},         [MW_SAFETENSORS_U32] = {"U32", 4},
    [MW_SAFETENSORS_U16] = {"U16", 2},         [MW_SAFETENSORS_U8] = {"U8", 1},
    [MW_SAFETENSORS_BOOL] = {"BOOL", 1},       [MW_SAFETENSORS_F8_E5M2] = {"F8_E5M2", 1},
    [MW_SAFETENSORS_F8_E4M3] = {"F8_E4M3", 1},
};

struct reading {
    const char *origin;
    int64_t data_bytes; /* after the header */
    int64_t data_offset_bytes;
    GError **error;
};

const char *
mw_safetensors_dtype_name(enum mw_safetensors_dtype dtype)
{
    return dtypes[dtype].name;
}

int64_t
mw_safetensors_dtype_bytes(enum mw_safetensors_dtype dtype)
{
    return dtypes[dtype].bytes;
}

char *
mw_safetensors_shape_text(const int64_t *shape, int rank)
{
    g_autoptr(GString) text = g_string_new("[");

    for (int i = 0; i < rank; i++)
        g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i ? ", " : "", shape[i]);
    g_string_append_c(text, ']');
    return g_string_free(g_steal_pointer(&text), FALSE);
}

bool
mw_safetensors_measure(struct mw_safetensor *tensor)
{
    tensor->elements = 1;
    for (int i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(tensor->elements, tensor->shape[i], &tensor->elements))
            return false;
    return !__builtin_mul_overflow(tensor->elements, dtypes[tensor->dtype].bytes,
                                   &tensor->size_bytes);
}

G_GNUC_PRINTF(3, 4)
static bool
refuse(const struct reading *reading, const char *name, const char *format, ...)
{
    g_autofree char *shown = g_strescape(name, NULL);
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *wrong = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(reading->error, MW_ERROR, MW_ERROR_FORMAT, "%s: tensor \"%s\": %s", reading->origin,
                shown, wrong);
    return false;
}

static bool
refuse_member(const struct reading *reading, const char *name, const char *key, JsonNode *node,
              const char *accepted)
{
    g_autofree char *value = node ? mw_json_text(node) : NULL;

    return refuse(reading, name, "key \"%s\": %s%s: must be %s", key, value ? "value " : "missing",
                  value ? value : "", accepted);
}

/* Reads an array of whole numbers of at least 0 that fits `out`; returns how many, else -1. */
static int
read_numbers(JsonNode *node, int64_t *out, int most)
{
    if (!node || !JSON_NODE_HOLDS_ARRAY(node))
        return -1;
    JsonArray *array = json_node_get_array(node);
    guint count = json_array_get_length(array);
    if (count > (guint)most)
        return -1;
    for (guint i = 0; i < count; i++) {
        JsonNode *element = json_array_get_element(array, i);
        if (json_node_get_value_type(element) != G_TYPE_INT64 || json_node_get_int(element) < 0)
            return -1;
        out[i] = json_node_get_int(element);
    }
    return (int)count;
}

static bool
read_dtype(const struct reading *reading, JsonObject *object, struct mw_safetensor *tensor)
{
    JsonNode *node = json_object_get_member(object, "dtype");
    const char *name = NULL;

    if (node && json_node_get_value_type(node) == G_TYPE_STRING)
        name = json_node_get_string(node);
    for (int i = 0; name && i < MW_SAFETENSORS_DTYPE_COUNT; i++) {
        if (!strcmp(name, dtypes[i].name)) {
            tensor->dtype = i;
            return true;
        }
    }
    return refuse_member(reading, tensor->name, "dtype", node,
                         "F32, F16 or BF16 (or an integer type of safetensors)");
}

static bool
read_shape(const struct reading *reading, JsonObject *object, struct mw_safetensor *tensor)
{
    JsonNode *node = json_object_get_member(object, "shape");

    tensor->rank = read_numbers(node, tensor->shape, MW_SAFETENSORS_RANK_MAX);
    if (tensor->rank < 0)
        return refuse_member(reading, tensor->name, "shape", node,
                             "a list of at most 8 whole numbers");
    if (mw_safetensors_measure(tensor))
        return true;
    return refuse_member(reading, tensor->name, "shape", node, "of fewer than 2^63 bytes");
}

static bool
read_offsets(const struct reading *reading, JsonObject *object, struct mw_safetensor *tensor)
{
    JsonNode *node = json_object_get_member(object, "data_offsets");
    int64_t range[2];

    if (read_numbers(node, range, 2) != 2 || range[1] < range[0])
        return refuse_member(reading, tensor->name, "data_offsets", node,
                             "two whole numbers, begin and end");
    if (range[1] > reading->data_bytes)
        return refuse(reading, tensor->name,
                      "ends at byte %" G_GINT64_FORMAT
                      " of the data, the file has %" G_GINT64_FORMAT
                      ": must lie within it (cut short?)",
                      range[1], reading->data_bytes);
    if (range[1] - range[0] != tensor->size_bytes) {
        g_autofree char *shape = mw_safetensors_shape_text(tensor->shape, tensor->rank);
        return refuse(reading, tensor->name,
                      "key \"data_offsets\": %" G_GINT64_FORMAT " bytes: must be %" G_GINT64_FORMAT
                      " for %s of shape %s",
                      range[1] - range[0], tensor->size_bytes, dtypes[tensor->dtype].name, shape);
    }
    tensor->offset_bytes = reading->data_offset_bytes + range[0];
    return true;
}

static bool
read_tensor(const struct reading *reading, const char *name, JsonNode *node,
            struct mw_safetensor *tensor)
{
    tensor->name = g_strdup(name);
    if (!JSON_NODE_HOLDS_OBJECT(node))
        return refuse(reading, name, "must be an object with dtype, shape and data_offsets");
    JsonObject *object = json_node_get_object(node);
    return read_dtype(reading, object, tensor) && read_shape(reading, object, tensor) &&
           read_offsets(reading, object, tensor);
}

static bool
read_metadata(const struct reading *reading, JsonNode *node, GHashTable *metadata)
{
    JsonObjectIter iter;
    const char *key;
    JsonNode *value;

    if (!JSON_NODE_HOLDS_OBJECT(node)) {
        g_set_error(reading->error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: key \"__metadata__\": must be an object of strings", reading->origin);
        return false;
    }
    json_object_iter_init(&iter, json_node_get_object(node));
    while (json_object_iter_next(&iter, &key, &value)) {
        if (json_node_get_value_type(value) != G_TYPE_STRING) {
            g_autofree char *shown = g_strescape(key, NULL);
            g_set_error(reading->error, MW_ERROR, MW_ERROR_FORMAT,
                        "%s: key \"__metadata__\": \"%s\" must be a string", reading->origin,
                        shown);
            return false;
        }
        g_hash_table_insert(metadata, g_strdup(key), g_strdup(json_node_get_string(value)));
    }
    return true;
}

/* An empty tensor comes before the one that begins at the same byte. */
static int
compare_offsets(const void *a, const void *b)
{
    const struct mw_safetensor *x = a, *y = b;

    if (x->offset_bytes != y->offset_bytes)
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Every byte after the header belongs to exactly one tensor. */
static bool
check_cover(const struct reading *reading, const struct mw_safetensors_header *header)
{
    int64_t at = reading->data_offset_bytes;

    for (size_t i = 0; i < header->tensor_count; i++) {
        const struct mw_safetensor *tensor = &header->tensors[i];
        int64_t gap = tensor->offset_bytes - at;
        if (gap < 0) {
            g_autofree char *before = g_strescape(header->tensors[i - 1].name, NULL);
            return refuse(reading, tensor->name,
                          "overlaps tensor \"%s\" by %" G_GINT64_FORMAT " bytes: must follow it",
                          before, -gap);
        }
        if (gap > 0)
            return refuse(reading, tensor->name,
                          "%" G_GINT64_FORMAT " bytes before it belong to no tensor: there must be "
                          "none",
                          gap);
        at += tensor->size_bytes;
    }
    int64_t rest = reading->data_offset_bytes + reading->data_bytes - at;
    if (!rest)
        return true;
    g_set_error(reading->error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: %" G_GINT64_FORMAT " bytes at its end belong to no tensor: there must be none",
                reading->origin, rest);
    return false;
}

static bool
read_object(const struct reading *reading, JsonObject *object, struct mw_safetensors_header *header)
{
    JsonObjectIter iter;
    const char *name;
    JsonNode *node;

    json_object_iter_init(&iter, object);
    while (json_object_iter_next(&iter, &name, &node)) {
        if (!strcmp(name, "__metadata__")) {
            if (!read_metadata(reading, node, header->metadata))
                return false;
            continue;
        }
        if (!read_tensor(reading, name, node, &header->tensors[header->tensor_count++]))
            return false;
    }
    if (header->tensor_count)
        qsort(header->tensors, header->tensor_count, sizeof *header->tensors, compare_offsets);
    return check_cover(reading, header);
}

static bool
read_length(const void *bytes, size_t length, int64_t file_bytes, struct reading *reading,
            uint64_t *header_bytes)
{
    if (file_bytes < MW_SAFETENSORS_LENGTH_BYTES || length < MW_SAFETENSORS_LENGTH_BYTES) {
        g_set_error(reading->error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: %" G_GINT64_FORMAT " bytes: must be a safetensors file, of at least 8",
                    reading->origin, file_bytes);
        return false;
    }
    memcpy(header_bytes, bytes, sizeof *header_bytes);
    *header_bytes = GUINT64_FROM_LE(*header_bytes);
    uint64_t rest = (uint64_t)file_bytes - MW_SAFETENSORS_LENGTH_BYTES;
    if (*header_bytes <= MW_JSON_BYTES_MAX && *header_bytes <= rest &&
        *header_bytes <= length - MW_SAFETENSORS_LENGTH_BYTES)
        return true;
    g_set_error(reading->error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: a header of %" G_GUINT64_FORMAT " bytes in a file of %" G_GINT64_FORMAT
                ": must be a safetensors file (cut short?) with a header of at most %d bytes",
                reading->origin, *header_bytes, file_bytes, MW_JSON_BYTES_MAX);
    return false;
}

struct mw_safetensors_header *
mw_safetensors_header_parse(const void *bytes, size_t length, int64_t file_bytes,
                            const char *origin, GError **error)
{
    struct reading reading = {.origin = origin, .error = error};
    uint64_t header_bytes;

    if (!read_length(bytes, length, file_bytes, &reading, &header_bytes))
        return NULL;
    reading.data_offset_bytes = MW_SAFETENSORS_LENGTH_BYTES + (int64_t)header_bytes;
    reading.data_bytes = file_bytes - reading.data_offset_bytes;
    g_autoptr(JsonNode) root = mw_json_parse((const char *)bytes + MW_SAFETENSORS_LENGTH_BYTES,
                                             (gssize)header_bytes, origin, error);
    if (!root)
        return NULL;

    JsonObject *object = json_node_get_object(root);
    struct mw_safetensors_header *header = g_new0(struct mw_safetensors_header, 1);
    header->tensors = g_new0(struct mw_safetensor, json_object_get_size(object));
    header->metadata = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    if (read_object(&reading, object, header) && mw_safetensors_take_sums(header, origin, error))
        return header;
    mw_safetensors_header_free(header);
    return NULL;
}

void
mw_safetensors_header_free(struct mw_safetensors_header *header)
{
    if (!header)
        return;
    for (size_t i = 0; i < header->tensor_count; i++)
        g_free(header->tensors[i].name);
    g_free(header->tensors);
    g_hash_table_unref(header->metadata);
    g_free(header);
}
