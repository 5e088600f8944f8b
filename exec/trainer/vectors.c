#include "exec/trainer/vectors.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/optimizers.h"

/* The sides of a matrix in its file, or the only side of what is no matrix. */
#define SIDES 2

struct place {
    char name[MW_WEIGHTS_NAME_MAX];
    struct mw_vectors_place is;
    bool transposed; /* the file's first side are the columns of what is updated */
};

struct mw_vectors {
    GArray *places;
    GHashTable *by_name; /* to the place's number + 1 */
    const char *const *prefixes;
    int64_t count;
};

/* --- places ---------------------------------------------------------------------------------- */

static int64_t
numbers_of(const struct mw_vectors_place *place)
{
    return place->shape[0] + (place->rank > 1 ? place->shape[1] : 0);
}

static struct mw_vectors_place
place_of(const struct mw_weight *weight)
{
    return (struct mw_vectors_place){.shape = {weight->shape[0], weight->shape[1]},
                                     .rank = weight->rank};
}

/* Several weights may be rows of one tensor of the file: the first of them stands for it. */
static void
add_weight(struct mw_vectors *it, const struct mw_weight *weight, int64_t layer)
{
    struct place place = {.is = place_of(weight), .transposed = weight->transposed};

    if (weight->file_row)
        return;
    place.is.at = it->count;
    place.is.layer = layer;
    g_strlcpy(place.name, weight->name, sizeof place.name);
    g_array_append_val(it->places, place);
    g_hash_table_insert(it->by_name, g_strdup(place.name), GUINT_TO_POINTER(it->places->len));
    it->count += numbers_of(&place.is);
}

static void
add_tensor(struct mw_vectors *it, const struct mw_plan *plan, const struct mw_tensor *tensor)
{
    struct mw_weight weights[MW_WEIGHTS_MAX];

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        int count =
            tensor->operators >> i & 1
                ? mw_weights_list(&plan->shape.decoder, (enum mw_operator)i, tensor->layer, weights)
                : 0;
        for (int j = 0; j < count; j++)
            add_weight(it, &weights[j], tensor->layer);
    }
}

struct mw_vectors *
mw_vectors_new(const struct mw_plan *plan)
{
    if (!mw_optimizer_has_vectors(plan->shape.optimizer))
        return NULL;
    struct mw_vectors *it = g_new0(struct mw_vectors, 1);

    it->places = g_array_new(FALSE, FALSE, sizeof(struct place));
    it->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    it->prefixes = mw_optimizer_row(plan->shape.optimizer)->vectors;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].trainable)
            add_tensor(it, plan, &plan->tensors[t]);
    return it;
}

void
mw_vectors_free(struct mw_vectors *vectors)
{
    if (!vectors)
        return;
    g_array_unref(vectors->places);
    g_hash_table_unref(vectors->by_name);
    g_free(vectors);
}

int64_t
mw_vectors_count(const struct mw_vectors *vectors)
{
    return vectors ? vectors->count : 0;
}

/* Of an operator, which has the same tensors in every layer. */
static int64_t
operator_count(const struct mw_decoder *decoder, int operator_)
{
    struct mw_weight weights[MW_WEIGHTS_MAX];
    int64_t numbers = 0;

    for (int i = mw_weights_list(decoder, (enum mw_operator)operator_, 0, weights) - 1; i >= 0;
         i--) {
        struct mw_vectors_place place = place_of(&weights[i]);
        numbers += weights[i].file_row ? 0 : numbers_of(&place);
    }
    return numbers;
}

int64_t
mw_vectors_saved_bytes(const struct mw_plan *plan)
{
    int64_t of[MW_OPERATOR_COUNT], count = 0;

    if (!mw_optimizer_has_vectors(plan->shape.optimizer))
        return 0;
    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        of[i] = operator_count(&plan->shape.decoder, i);
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        for (int i = 0; i < MW_OPERATOR_COUNT; i++)
            if (plan->tensors[t].trainable && plan->tensors[t].operators >> i & 1)
                count += of[i];
    return count * (int64_t)sizeof(float);
}

int64_t
mw_vectors_places(const struct mw_vectors *vectors)
{
    return vectors ? vectors->places->len : 0;
}

struct mw_vectors_place
mw_vectors_place(const struct mw_vectors *vectors, int64_t index)
{
    return g_array_index(vectors->places, struct place, index).is;
}

static int64_t
number_of(const struct mw_vectors *vectors, const struct mw_weight *weight)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(vectors->by_name, weight->name)) - 1;
}

int64_t
mw_vectors_place_of(const struct mw_vectors *vectors, const struct mw_weights_piece *piece)
{
    return number_of(vectors, &piece->weight);
}

/* Where the numbers of a weight's rows and columns begin, as an update has them.  Rows of what is
 * no matrix: -1. */
struct sides {
    int64_t row, column, columns;
};

static struct sides
sides_of(const struct mw_vectors *vectors, const struct mw_weight *weight)
{
    const struct place *place =
        &g_array_index(vectors->places, struct place, number_of(vectors, weight));
    int64_t first = place->is.at, second = first + place->is.shape[0];

    if (place->is.rank == 1)
        return (struct sides){-1, first + weight->file_row, weight->elements};
    return (struct sides){(place->transposed ? second : first) + weight->file_row,
                          place->transposed ? first : second, weight->row_elements};
}

struct mw_update_vectors
mw_vectors_of(const struct mw_vectors *vectors, const struct mw_weights_piece *piece,
              const float *now, float *next)
{
    struct sides sides = sides_of(vectors, &piece->weight);
    bool rows = sides.row >= 0;

    return (struct mw_update_vectors){.row = rows ? now + sides.row : NULL,
                                      .column = now + sides.column,
                                      .row_next = rows ? next + sides.row : NULL,
                                      .column_next = next + sides.column,
                                      .columns = sides.columns,
                                      .first = piece->first};
}

struct mw_exact_sides
mw_vectors_sums_of(const struct mw_vectors *vectors, const struct mw_weights_piece *piece,
                   struct mw_exact_sum *sums)
{
    struct sides sides = sides_of(vectors, &piece->weight);

    return (struct mw_exact_sides){.row = sides.row >= 0 ? sums + sides.row : NULL,
                                   .column = sums + sides.column,
                                   .columns = sides.columns,
                                   .first = piece->first};
}

/* --- files ----------------------------------------------------------------------------------- */

/* One vector as a tensor of a file. */
struct vector {
    char *name; /* g_free it */
    int64_t at, count;
};

static struct vector
vector_of(const struct mw_vectors *it, const struct place *place, int side)
{
    const char *prefix = it->prefixes[place->is.rank > 1 ? side : SIDES];

    return (struct vector){
        .name = g_strconcat(prefix, place->name, NULL),
        .at = place->is.at + (side ? place->is.shape[0] : 0),
        .count = place->is.shape[side],
    };
}

typedef bool (*each_vector)(const struct vector *vector, void *data, GError **error);

static bool
for_each(const struct mw_vectors *it, each_vector each, void *data, GError **error)
{
    bool good = true;

    for (guint p = 0; it && good && p < it->places->len; p++) {
        const struct place *place = &g_array_index(it->places, struct place, p);
        for (int side = 0; good && side < place->is.rank; side++) {
            struct vector vector = vector_of(it, place, side);
            good = each(&vector, data, error);
            g_free(vector.name);
        }
    }
    return good;
}

static bool
declare(const struct vector *vector, void *data, GError **error)
{
    return mw_safetensors_declare(data, vector->name, MW_SAFETENSORS_F32, &vector->count, 1, error);
}

bool
mw_vectors_declare(const struct mw_vectors *vectors, struct mw_safetensors_writer *writer,
                   GError **error)
{
    return for_each(vectors, declare, writer, error);
}

struct store {
    struct mw_safetensors_writer *writer;
    const float *values;
};

static bool
store(const struct vector *vector, void *data, GError **error)
{
    const struct store *store = data;

    return mw_safetensors_write(store->writer, vector->name, 0, vector->count,
                                store->values + vector->at, error);
}

bool
mw_vectors_store(const struct mw_vectors *vectors, struct mw_safetensors_writer *writer,
                 const float *values, GError **error)
{
    struct store all = {writer, values};

    return for_each(vectors, store, &all, error);
}

static bool
check(const struct vector *vector, void *data, GError **error)
{
    const float *values = (const float *)data + vector->at;

    for (int64_t i = 0; i < vector->count; i++)
        if (!isfinite(values[i]) || values[i] < 0)
            return mw_fail(error, MW_ERROR_FORMAT,
                           "\"%s\", element %" G_GINT64_FORMAT ", is %g: must be finite and at "
                           "least 0, as a sum of squares is",
                           vector->name, i, (double)values[i]);
    return true;
}

bool
mw_vectors_check(const struct mw_vectors *vectors, const float *values, GError **error)
{
    return for_each(vectors, check, (void *)values, error);
}

struct load {
    const struct mw_safetensors *set;
    float *values;
};

static bool
load(const struct vector *vector, void *data, GError **error)
{
    const struct load *load = data;
    const struct mw_safetensor *tensor = mw_safetensors_find(load->set, vector->name);

    if (!tensor || tensor->rank != 1 || tensor->shape[0] != vector->count ||
        tensor->dtype > MW_SAFETENSORS_BF16)
        return mw_fail(error, MW_ERROR_INVALID,
                       "%s: tensor \"%s\": %s: must be F32, F16 or BF16 of %" G_GINT64_FORMAT
                       " elements",
                       mw_safetensors_path(load->set), vector->name,
                       tensor ? "another shape or type" : "missing", vector->count);
    if (mw_safetensors_read(load->set, tensor, 0, vector->count, MW_DTYPE_FP32,
                            load->values + vector->at, error) &&
        check(vector, load->values, error))
        return true;
    g_prefix_error(error, "%s: ", mw_safetensors_path(load->set));
    return false;
}

bool
mw_vectors_load(const struct mw_vectors *vectors, const struct mw_safetensors *set, float *values,
                GError **error)
{
    struct load all = {set, values};

    return for_each(vectors, load, &all, error);
}
