/* Loads weights from safetensors files and stores them in such files. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "exec/data/weights_internal.h"
#include "families/family.h"

/* --- names ----------------------------------------------------------------------------------- */

/* Files of a decoder without a language-model head have names without the base. */
static const char *
without_base(const char *name, const char *base)
{
    return g_str_has_prefix(name, base) ? name + strlen(base) : name;
}

static const struct mw_safetensor *
find(const struct mw_safetensors *set, const char *prefix, const struct mw_weight *weight)
{
    g_autofree char *whole = g_strconcat(prefix, weight->name, NULL);
    g_autofree char *bare = g_strconcat(prefix, without_base(weight->name, weight->base), NULL);
    const struct mw_safetensor *found = mw_safetensors_find(set, whole);

    return found ? found : mw_safetensors_find(set, bare);
}

static bool
refuse_missing(const struct mw_safetensors *set, const char *prefix, const struct mw_weight *weight,
               GError **error)
{
    g_autofree char *shape = mw_safetensors_shape_text(weight->shape, weight->rank);

    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: tensor \"%s%s\": missing: must be there with shape %s",
                mw_safetensors_path(set), prefix, weight->name, shape);
    return false;
}

static const struct mw_safetensors *
set_of(struct mw_weights_sets sets, const struct mw_weight *weight)
{
    return weight->lora ? sets.adapters : sets.own;
}

/* Finds the tensor and checks its shape and dtype; NULL with an error. */
static const struct mw_safetensor *
expect(const struct mw_safetensors *set, const char *prefix, const struct mw_weight *weight,
       GError **error)
{
    const struct mw_safetensor *tensor = find(set, prefix, weight);
    size_t shape_size = (size_t)weight->rank * sizeof *weight->shape;

    if (!tensor) {
        refuse_missing(set, prefix, weight, error);
        return NULL;
    }
    bool same_shape =
        tensor->rank == weight->rank && !memcmp(tensor->shape, weight->shape, shape_size);
    if (same_shape && tensor->dtype <= MW_SAFETENSORS_BF16)
        return tensor;
    g_autofree char *shape = mw_safetensors_shape_text(tensor->shape, tensor->rank);
    g_autofree char *right = mw_safetensors_shape_text(weight->shape, weight->rank);
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: tensor \"%s\": %s of shape %s: must be F32, F16 or BF16 of shape %s",
                mw_safetensors_file(set, tensor), tensor->name,
                mw_safetensors_dtype_name(tensor->dtype), shape, right);
    return NULL;
}

/* --- the whole model ------------------------------------------------------------------------- */

typedef bool (*each_weight)(const struct mw_weight *weight, void *data, GError **error);

static bool
each_of_experts(const struct mw_weight *weight, each_weight each, void *data, GError **error)
{
    for (int64_t e = 0; e < MAX(1, weight->experts); e++) {
        struct mw_weight one = mw_weight_of_expert(weight, e);
        if (!each(&one, data, error))
            return false;
    }
    return true;
}

/* Visits what a piece has of each expert's tensor; of what no experts have, the piece. */
static bool
walk_experts(const struct mw_weights_piece *piece, mw_weights_visit visit, void *data)
{
    int64_t of_one = piece->weight.elements / MAX(1, piece->weight.experts);
    int64_t end = piece->first + piece->count;

    for (int64_t e = piece->first; e < end;) {
        int64_t expert = mw_weight_expert_at(&piece->weight, e);
        int64_t next = MIN(end, (expert + 1) * of_one);
        struct mw_weights_piece one = {
            .weight = mw_weight_of_expert(&piece->weight, expert),
            .first = e - expert * of_one,
            .count = next - e,
            .at = piece->at + e - piece->first,
        };
        if (!visit(&one, data))
            return false;
        e = next;
    }
    return true;
}

static bool
each_of_place(const struct mw_decoder *decoder, enum mw_operator_place place, int64_t layer,
              each_weight each, void *data, GError **error)
{
    struct mw_weight weights[MW_WEIGHTS_MAX];

    for (int operator_ = 0; operator_ < MW_OPERATOR_COUNT; operator_++) {
        int count = mw_operator_row(operator_)->place == place
                        ? mw_weights_list(decoder, operator_, layer, weights)
                        : 0;
        for (int i = 0; i < count; i++)
            if (!each_of_experts(&weights[i], each, data, error))
                return false;
    }
    return true;
}

static bool
each_of_model(const struct mw_decoder *decoder, each_weight each, void *data, GError **error)
{
    if (!each_of_place(decoder, MW_PLACE_HEAD, -1, each, data, error))
        return false;
    for (int64_t layer = 0; layer < decoder->layers; layer++)
        if (!each_of_place(decoder, MW_PLACE_BLOCK, layer, each, data, error))
            return false;
    return each_of_place(decoder, MW_PLACE_TAIL, -1, each, data, error);
}

/* --- checking -------------------------------------------------------------------------------- */

struct check {
    struct mw_weights_sets sets;
    const char *prefix;
    GHashTable *known; /* names in the set that belong to the model */
};

static bool
check_weight(const struct mw_weight *weight, void *data, GError **error)
{
    struct check *check = data;
    const struct mw_safetensors *set = set_of(check->sets, weight);
    const struct mw_safetensor *tensor = set ? expect(set, check->prefix, weight, error) : NULL;

    if (tensor)
        g_hash_table_add(check->known, tensor->name);
    return tensor || !set;
}

/* Tensors that files hold beside the parameters; and the output matrix of a tied model. */
static bool
may_be_there(const struct mw_decoder *decoder, const char *name)
{
    const struct mw_family_tensors *tensors = decoder->family->run.tensors;
    bool beside = decoder->tied_embedding && !strcmp(name, tensors->of[MW_WEIGHT_LOGITS]);

    for (int i = 0; i < MW_TENSORS_BESIDE_MAX && tensors->beside[i]; i++)
        beside |= g_str_has_suffix(name, tensors->beside[i]);
    return beside;
}

/* Every tensor of the set is known, or may be there. */
static bool
check_names(const struct mw_decoder *decoder, const struct mw_safetensors *set, const char *prefix,
            GHashTable *known, GError **error)
{
    for (size_t i = 0; set && i < mw_safetensors_count(set); i++) {
        const struct mw_safetensor *tensor = mw_safetensors_at(set, i);
        if (!g_str_has_prefix(tensor->name, prefix) || g_hash_table_contains(known, tensor->name) ||
            may_be_there(decoder, tensor->name + strlen(prefix)))
            continue;
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: tensor \"%s\": the model of %" G_GINT64_FORMAT
                    " layers has none of this name: must be a file of the same model",
                    mw_safetensors_file(set, tensor), tensor->name, decoder->layers);
        return false;
    }
    return true;
}

bool
mw_weights_check_sets(const struct mw_decoder *decoder, struct mw_weights_sets sets,
                      const char *prefix, GError **error)
{
    g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
    struct check check = {.sets = sets, .prefix = prefix, .known = known};

    return each_of_model(decoder, check_weight, &check, error) &&
           check_names(decoder, sets.own, prefix, known, error) &&
           check_names(decoder, sets.adapters, prefix, known, error);
}

bool
mw_weights_check(const struct mw_decoder *decoder, const struct mw_safetensors *set,
                 const char *prefix, GError **error)
{
    return mw_weights_check_sets(decoder, (struct mw_weights_sets){set, set}, prefix, error);
}

/* --- transposed pieces ----------------------------------------------------------------------- */

/*
 * The file holds [in, out], the vector [out, in].  Of the vector's elements [first, first + count),
 * those with input i are outputs [begin, end), which are neighbours in the file.
 */
struct column {
    int64_t begin, end;
};

static struct column
column_of(const struct mw_weights_piece *piece, int64_t inputs, int64_t i)
{
    int64_t last = piece->first + piece->count - 1;

    return (struct column){
        .begin = piece->first <= i ? 0 : (piece->first - i + inputs - 1) / inputs,
        .end = last < i ? 0 : (last - i) / inputs + 1,
    };
}

static void
scatter(char *range, const char *column, const struct mw_weights_piece *piece, struct column of,
        int64_t i, int64_t element_bytes)
{
    int64_t inputs = piece->weight.row_elements;

    for (int64_t o = of.begin; o < of.end; o++)
        memcpy(range + (piece->at + o * inputs + i - piece->first) * element_bytes,
               column + (o - of.begin) * element_bytes, (size_t)element_bytes);
}

static void
copy_column(char *column, const char *range, const struct mw_weights_piece *piece, struct column of,
            int64_t i, int64_t element_bytes)
{
    int64_t inputs = piece->weight.row_elements;

    for (int64_t o = of.begin; o < of.end; o++)
        memcpy(column + (o - of.begin) * element_bytes,
               range + (piece->at + o * inputs + i - piece->first) * element_bytes,
               (size_t)element_bytes);
}

/* --- pieces of rows -------------------------------------------------------------------------- */

/* How many elements of a piece, from one of them on, are neighbours in the file. */
static int64_t
neighbours(const struct mw_weights_piece *piece, int64_t done)
{
    const struct mw_weight *weight = &piece->weight;
    int64_t left = piece->count - done;

    if (weight->rank == 1 || weight->row_elements == weight->shape[1])
        return left;
    return MIN(left, weight->row_elements - (piece->first + done) % weight->row_elements);
}

/* Cuts off what the file does not have; returns how many elements that are. */
static int64_t
cut_padding(struct mw_weights_piece *piece)
{
    int64_t had = piece->count, end = piece->weight.elements - piece->weight.padding;

    piece->count = CLAMP(end - piece->first, 0, had);
    return had - piece->count;
}

/* --- loading --------------------------------------------------------------------------------- */

struct load {
    struct mw_weights_sets sets;
    const struct mw_safetensors *set; /* of the piece */
    const char *prefix;
    enum mw_dtype as;
    bool squares;
    int64_t element_bytes;
    char *out;
    GError **error;
};

static bool
is_finite(const struct load *load, const char *out, int64_t i)
{
    if (load->as == MW_DTYPE_FP32)
        return (((const uint32_t *)out)[i] & 0x7f800000) != 0x7f800000;
    uint16_t exponent = load->as == MW_DTYPE_FP16 ? 0x7c00 : 0x7f80;
    return (((const uint16_t *)out)[i] & exponent) != exponent;
}

/* -0 is 0. */
static bool
is_below_0(const struct load *load, const char *out, int64_t i)
{
    if (load->as == MW_DTYPE_FP32)
        return ((const uint32_t *)out)[i] > 0x80000000;
    return ((const uint16_t *)out)[i] > 0x8000;
}

static bool
refuse_value(const struct load *load, const struct mw_safetensor *tensor, int64_t element,
             const char *wrong)
{
    g_set_error(load->error, MW_ERROR, MW_ERROR_INVALID,
                "%s: tensor \"%s\": element %" G_GINT64_FORMAT " is %s",
                mw_safetensors_file(load->set, tensor), tensor->name, element, wrong);
    return false;
}

/* What is finite in the file may be beyond the type that it is read as. */
static const char *
infinite_text(const struct load *load, const struct mw_safetensor *tensor)
{
    if (load->as == MW_DTYPE_FP16)
        return "not finite in fp16, which ends at 65504: must be a finite number";
    if (load->as == MW_DTYPE_BF16 && tensor->dtype == MW_SAFETENSORS_F32)
        return "not finite in bf16, which ends at 3.3895e38: must be a finite number";
    return "not finite: must be a finite number";
}

/* `first` and `count` are elements of the file's tensor.  No step can follow from a value that is
 * not finite, nor from the root of a negative one. */
static bool
read_finite(const struct load *load, const struct mw_safetensor *tensor, int64_t first,
            int64_t count, char *out)
{
    if (!mw_safetensors_read(load->set, tensor, first, count, load->as, out, load->error))
        return false;
    for (int64_t i = 0; i < count; i++) {
        if (!is_finite(load, out, i))
            return refuse_value(load, tensor, first + i, infinite_text(load, tensor));
        if (load->squares && is_below_0(load, out, i))
            return refuse_value(load, tensor, first + i,
                                "negative: must be at least 0, as a mean of squares is");
    }
    return true;
}

static bool
load_transposed(const struct load *load, const struct mw_safetensor *tensor,
                const struct mw_weights_piece *piece)
{
    int64_t inputs = piece->weight.row_elements;
    g_autofree char *column = g_malloc((gsize)(piece->weight.rows * load->element_bytes));

    for (int64_t i = 0; i < inputs; i++) {
        struct column of = column_of(piece, inputs, i);
        if (of.begin >= of.end)
            continue;
        if (!read_finite(load, tensor,
                         mw_weight_file_element(&piece->weight, of.begin * inputs + i),
                         of.end - of.begin, column))
            return false;
        scatter(load->out, column, piece, of, i, load->element_bytes);
    }
    return true;
}

static bool
load_rows(const struct load *load, const struct mw_safetensor *tensor,
          const struct mw_weights_piece *piece)
{
    for (int64_t i = 0, n; i < piece->count; i += n) {
        n = neighbours(piece, i);
        if (!read_finite(load, tensor, mw_weight_file_element(&piece->weight, piece->first + i), n,
                         load->out + (piece->at + i) * load->element_bytes))
            return false;
    }
    return true;
}

static bool
load_piece(const struct mw_weights_piece *piece, void *data)
{
    struct load *load = data;

    struct mw_weights_piece own = *piece;

    load->set = set_of(load->sets, &piece->weight);
    if (!load->set)
        return true;
    const struct mw_safetensor *tensor =
        expect(load->set, load->prefix, &piece->weight, load->error);
    if (!tensor)
        return false;
    int64_t padding = cut_padding(&own);
    memset(load->out + (own.at + own.count) * load->element_bytes, 0,
           (size_t)(padding * load->element_bytes));
    return own.weight.transposed ? load_transposed(load, tensor, &own)
                                 : load_rows(load, tensor, &own);
}

static bool
load_experts(const struct mw_weights_piece *piece, void *data)
{
    return walk_experts(piece, load_piece, data);
}

static bool
load_part(const struct mw_decoder *decoder, const struct mw_weights_part *part, int64_t first,
          int64_t count, struct load *load)
{
    int64_t padding = mw_weights_padding(decoder, part, first, count);

    load->element_bytes = load->as == MW_DTYPE_FP32 ? 4 : 2;
    memset(load->out + (count - padding) * load->element_bytes, 0,
           (size_t)(padding * load->element_bytes));
    return mw_weights_walk(decoder, part, first, count, load_experts, load);
}

bool
mw_weights_load(const struct mw_decoder *decoder, const struct mw_safetensors *set,
                const char *prefix, const struct mw_weights_part *part, int64_t first,
                int64_t count, enum mw_dtype as, void *out, GError **error)
{
    return mw_weights_load_sets(decoder, (struct mw_weights_sets){set, set}, prefix, part, first,
                                count, as, out, error);
}

bool
mw_weights_load_sets(const struct mw_decoder *decoder, struct mw_weights_sets sets,
                     const char *prefix, const struct mw_weights_part *part, int64_t first,
                     int64_t count, enum mw_dtype as, void *out, GError **error)
{
    struct load load = {.sets = sets, .prefix = prefix, .as = as, .out = out, .error = error};

    return load_part(decoder, part, first, count, &load);
}

bool
mw_weights_make(const struct mw_decoder *decoder, uint64_t seed, struct mw_weights_sets sets,
                const struct mw_weights_part *part, int64_t first, int64_t count, enum mw_dtype as,
                void *out, GError **error)
{
    if (!sets.own || (decoder->lora_rank && !sets.adapters))
        mw_weights_start(decoder, seed, part, first, count, as, out);
    return mw_weights_load_sets(decoder, sets, "", part, first, count, as, out, error);
}

bool
mw_weights_load_squares(const struct mw_decoder *decoder, const struct mw_safetensors *set,
                        const char *prefix, const struct mw_weights_part *part, int64_t first,
                        int64_t count, enum mw_dtype as, void *out, GError **error)
{
    struct load load = {.sets = {set, set},
                        .prefix = prefix,
                        .as = as,
                        .squares = true,
                        .out = out,
                        .error = error};

    return load_part(decoder, part, first, count, &load);
}

/* --- storing --------------------------------------------------------------------------------- */

struct store {
    const struct mw_decoder *decoder;
    struct mw_weights_files files;
    struct mw_safetensors_writer *writer; /* of the piece */
    const char *prefix;
    enum mw_safetensors_dtype dtype;
    int64_t element_bytes;
    const char *values;
    GError **error;
};

static bool
declare(const struct mw_weight *weight, void *data, GError **error)
{
    const struct store *store = data;
    g_autofree char *name = g_strconcat(store->prefix, weight->name, NULL);

    if (weight->file_row)
        return true; /* the first weight that shares the tensor declares it */
    return mw_safetensors_declare(weight->lora ? store->files.adapters : store->files.own, name,
                                  store->dtype, weight->shape, weight->rank, error);
}

bool
mw_weights_declare(const struct mw_decoder *decoder, struct mw_weights_files files,
                   const char *prefix, enum mw_safetensors_dtype dtype, GError **error)
{
    struct store store = {.files = files, .prefix = prefix, .dtype = dtype};
    struct mw_decoder whole = mw_decoder_whole(decoder);

    whole.tied_embedding |= whole.copies_embedding;
    whole.copies_embedding = false;
    return each_of_model(&whole, declare, &store, error);
}

static bool
store_transposed(const struct store *store, const char *name, const struct mw_weights_piece *piece)
{
    int64_t inputs = piece->weight.row_elements;
    g_autofree char *column = g_malloc((gsize)(piece->weight.rows * store->element_bytes));

    for (int64_t i = 0; i < inputs; i++) {
        struct column of = column_of(piece, inputs, i);
        if (of.begin >= of.end)
            continue;
        copy_column(column, store->values, piece, of, i, store->element_bytes);
        if (!mw_safetensors_write(store->writer, name,
                                  mw_weight_file_element(&piece->weight, of.begin * inputs + i),
                                  of.end - of.begin, column, store->error))
            return false;
    }
    return true;
}

static bool
store_rows(const struct store *store, const char *name, const struct mw_weights_piece *piece)
{
    for (int64_t i = 0, n; i < piece->count; i += n) {
        n = neighbours(piece, i);
        if (!mw_safetensors_write(
                store->writer, name, mw_weight_file_element(&piece->weight, piece->first + i), n,
                store->values + (piece->at + i) * store->element_bytes, store->error))
            return false;
    }
    return true;
}

static bool
store_piece(const struct mw_weights_piece *piece, void *data)
{
    struct store *store = data;
    struct mw_weights_piece own = *piece;
    g_autofree char *name = g_strconcat(store->prefix, piece->weight.name, NULL);

    if (mw_weight_is_written_elsewhere(store->decoder, &piece->weight))
        return true;
    cut_padding(&own);
    store->writer = piece->weight.lora ? store->files.adapters : store->files.own;
    return own.weight.transposed ? store_transposed(store, name, &own)
                                 : store_rows(store, name, &own);
}

static bool
store_experts(const struct mw_weights_piece *piece, void *data)
{
    return walk_experts(piece, store_piece, data);
}

bool
mw_weights_store(const struct mw_decoder *decoder, struct mw_weights_files files,
                 const char *prefix, const struct mw_weights_part *part, int64_t first,
                 int64_t count, enum mw_safetensors_dtype dtype, const void *values, GError **error)
{
    struct store store = {.decoder = decoder,
                          .files = files,
                          .prefix = prefix,
                          .dtype = dtype,
                          .element_bytes = mw_safetensors_dtype_bytes(dtype),
                          .values = values,
                          .error = error};

    return mw_weights_walk(decoder, part, first, count, store_experts, &store);
}
