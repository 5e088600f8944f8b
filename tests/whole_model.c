#include "tests/whole_model.h"

#include <math.h>
#include <string.h>

#include "exec/data/convert.h"

#define ALL_OPERATORS ((1u << MW_OPERATOR_COUNT) - 1)
#define HEAD (1u << MW_OPERATOR_EMBEDDING)
#define TAIL (1u << MW_OPERATOR_FINAL_NORM | 1u << MW_OPERATOR_LOGITS)
#define LAYER (ALL_OPERATORS & ~(HEAD | TAIL))

/* --- the vector ------------------------------------------------------------------------------ */

static void
list_block(const struct mw_decoder *decoder, uint32_t operators, int64_t layer, GArray *list,
           int64_t *at)
{
    struct mw_weight weights[MW_WEIGHTS_MAX];

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        int count =
            operators >> i & 1 ? mw_weights_list(decoder, (enum mw_operator)i, layer, weights) : 0;
        for (int w = 0; w < count; w++) {
            struct mw_whole_tensor tensor = {weights[w], *at};
            g_array_append_val(list, tensor);
            *at += weights[w].elements;
        }
    }
}

GArray *
mw_whole_tensors(const struct mw_decoder *decoder)
{
    GArray *list = g_array_new(false, false, sizeof(struct mw_whole_tensor));
    int64_t at = 0;

    list_block(decoder, HEAD, -1, list, &at);
    for (int64_t layer = 0; layer < decoder->layers; layer++)
        list_block(decoder, LAYER, layer, list, &at);
    list_block(decoder, TAIL, -1, list, &at);
    g_assert_cmpint(at, ==, mw_weights_elements(decoder));
    return list;
}

/* Several weights may lie in one tensor of a file. */
static int64_t
begin_of(const struct mw_decoder *decoder, const struct mw_weight *weight)
{
    g_autoptr(GArray) list = mw_whole_tensors(decoder);

    for (guint i = 0; i < list->len; i++) {
        const struct mw_whole_tensor *tensor = &g_array_index(list, struct mw_whole_tensor, i);
        if (!strcmp(tensor->weight.name, weight->name) &&
            tensor->weight.file_row == weight->file_row)
            return tensor->begin;
    }
    g_error("no tensor %s", weight->name);
}

int64_t
mw_whole_begin(const struct mw_decoder *decoder, enum mw_operator operator_, int64_t layer)
{
    bool tied = operator_ == MW_OPERATOR_LOGITS && decoder->tied_embedding;
    struct mw_weight weights[MW_WEIGHTS_MAX];

    g_assert_cmpint(
        mw_weights_list(decoder, tied ? MW_OPERATOR_EMBEDDING : operator_, layer, weights), >, 0);
    return begin_of(decoder, &weights[0]);
}

static double
normal(GRand *random)
{
    double u = 1 - g_rand_double(random), v = g_rand_double(random);

    return sqrt(-2 * log(u)) * cos(2 * G_PI * v);
}

double *
mw_whole_random(const struct mw_decoder *decoder, enum mw_dtype dtype, GRand *random)
{
    g_autoptr(GArray) list = mw_whole_tensors(decoder);
    double *whole = g_new(double, mw_weights_elements(decoder));

    for (guint i = 0; i < list->len; i++) {
        const struct mw_whole_tensor *tensor = &g_array_index(list, struct mw_whole_tensor, i);
        double mean = tensor->weight.start == MW_WEIGHT_ONE;
        double size = tensor->weight.rank == 2 ? 0.15 : 0.1;
        for (int64_t e = 0; e < tensor->weight.elements; e++) {
            float value;
            mw_element_of_fp32(&value, 0, (float)(mean + size * normal(random)), dtype);
            whole[tensor->begin + e] = (double)mw_fp32_of_element(&value, 0, dtype);
        }
    }
    return whole;
}

static int64_t
load_block(const struct mw_decoder *decoder, const struct mw_safetensors *set, const char *prefix,
           const struct mw_weights_part *part, double *out)
{
    int64_t count = mw_weights_part_elements(decoder, part);
    g_autofree float *values = g_new(float, count);
    GError *error = NULL;

    mw_weights_load(decoder, set, prefix, part, 0, count, MW_DTYPE_FP32, values, &error);
    g_assert_no_error(error);
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)values[i];
    return count;
}

double *
mw_whole_load(const struct mw_decoder *decoder, const struct mw_safetensors *set,
              const char *prefix)
{
    double *whole = g_new(double, mw_weights_elements(decoder));
    struct mw_weights_part part = {.layer = -1, .operators = HEAD, .tiles = 1};
    int64_t at = load_block(decoder, set, prefix, &part, whole);

    part.operators = LAYER;
    for (part.layer = 0; part.layer < decoder->layers; part.layer++)
        at += load_block(decoder, set, prefix, &part, whole + at);
    part = (struct mw_weights_part){.layer = -1, .operators = TAIL, .tiles = 1};
    load_block(decoder, set, prefix, &part, whole + at);
    return whole;
}

/* --- parts ----------------------------------------------------------------------------------- */

void
mw_whole_part(const struct mw_decoder *decoder, const double *whole,
              const struct mw_weights_part *part, enum mw_dtype dtype, void *made)
{
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int count = mw_weights_pieces(decoder, part, pieces);

    for (int i = 0; i < count; i++) {
        int64_t from = begin_of(decoder, &pieces[i].weight) + pieces[i].first;
        for (int64_t e = 0; e < pieces[i].count; e++)
            mw_element_of_fp32(made, pieces[i].at + e, (float)whole[from + e], dtype);
    }
}

void
mw_whole_scatter(const struct mw_decoder *decoder, double *whole,
                 const struct mw_weights_part *part, enum mw_dtype dtype, const void *made)
{
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int count = mw_weights_pieces(decoder, part, pieces);

    for (int i = 0; i < count; i++) {
        int64_t to = begin_of(decoder, &pieces[i].weight) + pieces[i].first;
        for (int64_t e = 0; e < pieces[i].count; e++) {
            int64_t at = pieces[i].at + e;
            whole[to + e] = (double)mw_fp32_of_element(made, at, dtype);
        }
    }
}

/* --- comparing ------------------------------------------------------------------------------- */

static double
root_mean_square(const double *x, const double *minus, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - (minus ? minus[i] : 0)) * (x[i] - (minus ? minus[i] : 0));
    return sqrt(sum / (double)n);
}

double
mw_whole_difference(const struct mw_decoder *decoder, const double *got, const double *expected,
                    char worst[MW_WEIGHTS_NAME_MAX])
{
    g_autoptr(GArray) list = mw_whole_tensors(decoder);
    double most = 0;

    for (guint i = 0; i < list->len; i++) {
        const struct mw_whole_tensor *tensor = &g_array_index(list, struct mw_whole_tensor, i);
        const struct mw_weight *weight = &tensor->weight;
        int64_t whole = mw_weights_operator_elements(decoder, weight->operator_);
        const char *dot = strstr(weight->name, ".");
        const char *number = dot ? strpbrk(dot, "0123456789") : NULL;
        int64_t layer = number ? g_ascii_strtoll(number, NULL, 10) : -1;
        double size = root_mean_square(expected + tensor->begin, NULL, weight->elements);
        double around = root_mean_square(
            expected + mw_whole_begin(decoder, weight->operator_, layer), NULL, whole);
        double off =
            root_mean_square(got + tensor->begin, expected + tensor->begin, weight->elements) /
            MAX(size, around / 10);
        if (!(off <= most)) {
            most = off;
            g_strlcpy(worst, weight->name, MW_WEIGHTS_NAME_MAX);
        }
    }
    return most;
}
