/* A decoder's parameters: counted as the planner counts, started, loaded and stored in any parts.
 */
#include "tests/weights_fixture.h"

#include <math.h>
#include <string.h>

#include "exec/data/convert.h"
#include "planner/planner.h"

#define ALL_OPERATORS ((1u << MW_OPERATOR_COUNT) - 1)

static const struct mw_shape one_token = {.sequences = 1, .seq = 1, .tp = 1};

/* --- counts ---------------------------------------------------------------------------------- */

static void
check_operators(const struct mw_decoder *decoder, const struct mw_operator_info *info, int count)
{
    for (int i = 0; i < count; i++)
        g_assert_cmpint(mw_weights_operator_elements(decoder, info[i].operator_), ==,
                        info[i].params);
}

static void
test_counts(void)
{
    g_auto(GStrv) names = mw_model_list();
    int checked = 0;

    for (char **name = names; *name; name++) {
        struct mw_model model;
        struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];
        g_assert_true(mw_model_load(*name, &model, NULL));
        if (!model.runs)
            continue;
        struct mw_decoder decoder = mw_test_decoder(*name);
        check_operators(&decoder, info, mw_model_head(&model, &one_token, info));
        check_operators(&decoder, info, mw_model_layer(&model, 0, &one_token, info));
        check_operators(&decoder, info, mw_model_tail(&model, &one_token, info));
        g_assert_cmpint(mw_weights_elements(&decoder), ==, mw_model_params(&model));
        checked++;
    }
    g_assert_cmpint(checked, >, 30);
    struct mw_decoder gpt2 = mw_test_decoder("gpt2"), llama = mw_test_decoder("llama-2-7b");
    g_assert_cmpint(mw_weights_elements(&gpt2), ==, 124439808);
    g_assert_cmpint(mw_weights_elements(&llama), ==, INT64_C(6738415616));
}

static struct mw_sizing *
size_up(const struct mw_model *model, const struct mw_hardware *hardware, int64_t tiles)
{
    struct mw_request request = {model, hardware};
    struct mw_settings asked, resolved;
    GError *error = NULL;

    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_INFINITY_CPU;
    asked.micro_batch = 1;
    asked.tiles = tiles;
    asked.commit = 0;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        g_assert_true(mw_placement_parse("cpu", "", &asked.placement[state], NULL));
    g_assert_true(mw_settings_complete(&request, &asked, &resolved, &error));
    struct mw_sizing *sizing = mw_sizing_new(model, hardware, &resolved, &error);
    g_assert_no_error(error);
    return sizing;
}

static uint32_t
bits_of(const struct mw_class_info *class, const struct mw_unit_tensor *tensor)
{
    uint32_t bits = 0;

    for (int i = tensor->first; i < tensor->first + tensor->count; i++)
        bits |= 1u << class->operators[i].operator_;
    return bits;
}

static void
check_tensor(const struct mw_decoder *decoder, const struct mw_class_info *class,
             const struct mw_unit_tensor *tensor)
{
    struct mw_weights_part part = {.operators = bits_of(class, tensor), .tiles = tensor->tiles};
    int64_t all = 0;

    for (; part.tile < part.tiles; part.tile++) {
        int64_t rows = mw_part_first_row(tensor->rows, tensor->tiles, part.tile + 1) -
                       mw_part_first_row(tensor->rows, tensor->tiles, part.tile);
        int64_t rest = part.tile ? 0 : tensor->params - tensor->rows * tensor->row_params;
        int64_t elements = mw_weights_part_elements(decoder, &part);
        g_assert_cmpint(elements, ==, rows * tensor->row_params + rest);
        g_assert_cmpint(elements, <=, tensor->tile_params);
        all += elements;
    }
    g_assert_cmpint(all, ==, tensor->params);
    g_assert_cmpint(mw_weights_rows(decoder, part.operators), ==, tensor->rows);
}

/* The planner's tensors, rows and tiles are the parts here. */
static void
test_tensors(void)
{
    static const char *const names[] = {"tiny",
                                        "gpt2",
                                        "llama-3.2-1b",
                                        "qwen2.5-0.5b",
                                        FIXTURES "gpt2-small",
                                        FIXTURES "llama-small"};
    struct mw_profile *profile = mw_hwprofile_load("dgx2", NULL);
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        struct mw_decoder decoder = mw_test_decoder(names[i]);
        struct mw_model model;
        g_assert_true(mw_model_load(names[i], &model, NULL));
        for (int64_t tiles = 1; tiles < 8; tiles++) {
            struct mw_sizing *sizing = size_up(&model, &hardware, tiles);
            for (int c = 0; c < MW_CLASS_COUNT; c++)
                for (int t = 0; t < sizing->classes[c].tensor_count; t++)
                    check_tensor(&decoder, &sizing->classes[c], &sizing->classes[c].tensors[t]);
            mw_sizing_free(sizing);
        }
    }
    mw_profile_free(profile);
}

/* --- starting values ------------------------------------------------------------------------- */

static const struct mw_weights_piece *
find_piece(const struct mw_weights_piece *pieces, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(pieces[i].weight.name, name))
            return &pieces[i];
    return NULL;
}

/* Every element of the tiles is where the whole has it. */
static void
check_tile(const struct mw_decoder *decoder, struct mw_weights_part part, const float *whole)
{
    struct mw_weights_part one = part;
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX], wholes[MW_WEIGHTS_PIECES_MAX];
    int64_t elements = mw_weights_part_elements(decoder, &part);
    g_autofree float *values = g_new(float, elements);
    g_autofree float *shard = g_new(float, elements);
    int count = mw_weights_pieces(decoder, &part, pieces);

    one.tiles = 1;
    one.tile = 0;
    int whole_count = mw_weights_pieces(decoder, &one, wholes);
    mw_weights_start(decoder, 7, &part, 0, elements, MW_DTYPE_FP32, values);
    for (int i = 0; i < count; i++) {
        const struct mw_weights_piece *of = find_piece(wholes, whole_count, pieces[i].weight.name);
        g_assert_cmpmem(values + pieces[i].at, pieces[i].count * 4,
                        whole + of->at + pieces[i].first, pieces[i].count * 4);
    }
    int64_t size = elements / 3 + 1;
    for (int64_t first = 0; first < elements; first += size) {
        int64_t now = MIN(size, elements - first);
        mw_weights_start(decoder, 7, &part, first, now, MW_DTYPE_FP32, shard);
        g_assert_cmpmem(shard, now * 4, values + first, now * 4);
    }
}

static void
test_start_parts(void)
{
    static const char *const names[] = {FIXTURES "gpt2-small", FIXTURES "llama-small", "tiny"};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        struct mw_decoder decoder = mw_test_decoder(names[i]);
        for (size_t u = 0; u < MW_TEST_UNITS; u++) {
            struct mw_weights_part part = {.layer = 1, .operators = mw_test_units[u], .tiles = 1};
            int64_t elements = mw_weights_part_elements(&decoder, &part);
            g_autofree float *whole = g_new(float, elements);
            mw_weights_start(&decoder, 7, &part, 0, elements, MW_DTYPE_FP32, whole);
            for (part.tiles = 1; part.tiles < 6; part.tiles++)
                for (part.tile = 0; part.tile < part.tiles; part.tile++)
                    check_tile(&decoder, part, whole);
        }
    }
}

static void
moments(const float *values, int64_t count, double *mean, double *deviation)
{
    double sum = 0, squares = 0;

    for (int64_t i = 0; i < count; i++)
        sum += values[i];
    *mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (values[i] - *mean) * (values[i] - *mean);
    *deviation = sqrt(squares / (double)count);
}

/* Means within 5 standard errors, deviations within 5%. */
static void
test_start_distribution(void)
{
    struct mw_decoder decoder = mw_test_decoder("tiny");
    struct mw_weights_part layer = {.operators = ALL_OPERATORS & ~(1u << MW_OPERATOR_EMBEDDING),
                                    .tiles = 1};
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int64_t elements = mw_weights_part_elements(&decoder, &layer);
    g_autofree float *values = g_new(float, elements);
    int count = mw_weights_pieces(&decoder, &layer, pieces);

    mw_weights_start(&decoder, 1, &layer, 0, elements, MW_DTYPE_FP32, values);
    for (int i = 0; i < count; i++) {
        const struct mw_weight *weight = &pieces[i].weight;
        double mean, deviation, right = 0.02;
        moments(values + pieces[i].at, pieces[i].count, &mean, &deviation);
        if (weight->start == MW_WEIGHT_RESIDUAL)
            right /= sqrt(2.0 * (double)decoder.layers);
        if (weight->start == MW_WEIGHT_ONE || weight->start == MW_WEIGHT_ZERO) {
            g_assert_cmpfloat(mean, ==, weight->start == MW_WEIGHT_ONE);
            g_assert_cmpfloat(deviation, ==, 0);
            continue;
        }
        g_assert_cmpfloat(fabs(mean), <, 5 * right / sqrt((double)pieces[i].count));
        g_assert_cmpfloat(fabs(deviation / right - 1), <, 0.05);
    }
}

/* No value comes twice in a row of layers, seeds or neighbours. */
static void
test_start_differs(void)
{
    struct mw_decoder decoder = mw_test_decoder("tiny");
    struct mw_weights_part part = {.operators = 1u << MW_OPERATOR_PROJECTION, .tiles = 1};
    struct mw_weights_part next = part;
    float a[64], b[64], c[64];
    uint16_t narrow[64];

    next.layer = 1;
    mw_weights_start(&decoder, 1, &part, 0, 64, MW_DTYPE_FP32, a);
    mw_weights_start(&decoder, 1, &next, 0, 64, MW_DTYPE_FP32, b);
    mw_weights_start(&decoder, 2, &part, 0, 64, MW_DTYPE_FP32, c);
    mw_weights_start(&decoder, 1, &part, 0, 64, MW_DTYPE_BF16, narrow);
    for (int i = 0; i < 64; i++) {
        g_assert_cmpfloat(a[i], !=, b[i]);
        g_assert_cmpfloat(a[i], !=, c[i]);
        g_assert_true(!i || a[i] != a[i - 1]);
        g_assert_cmpuint(narrow[i], ==, mw_bf16_of_fp32(a[i]));
    }
}

/* --- slices ---------------------------------------------------------------------------------- */

/* Row `row` of a slice's rows of a weight, of `rows` in all slices together. */
static int64_t
row_in_whole(const struct mw_decoder *slice, const struct mw_weight *mine,
             const struct mw_weight *whole, int64_t row)
{
    return whole->rows == mine->rows ? row : slice->slice.index * mine->rows + row;
}

/* Every element of a slice starts as its own in the whole, and what no element of the whole is as
 * 0. */
static void
check_slice(const struct mw_decoder *whole, const struct mw_decoder *slice, int operator_,
            int64_t layer)
{
    struct mw_weights_part part = {.layer = layer, .operators = 1u << operator_, .tiles = 1};
    struct mw_weights_piece mine[MW_WEIGHTS_PIECES_MAX], all[MW_WEIGHTS_PIECES_MAX];
    int64_t elements = mw_weights_part_elements(whole, &part);
    int64_t own = mw_weights_part_elements(slice, &part);
    g_autofree float *expected = g_new(float, elements + 1);
    g_autofree float *got = g_new(float, own + 1);
    int count = mw_weights_pieces(slice, &part, mine);
    int in_whole = mw_weights_pieces(whole, &part, all);

    mw_weights_start(whole, 3, &part, 0, elements, MW_DTYPE_FP32, expected);
    mw_weights_start(slice, 3, &part, 0, own, MW_DTYPE_FP32, got);
    g_assert_cmpint(count, ==, in_whole);
    for (int p = 0; p < count; p++) {
        const struct mw_weight *weight = &mine[p].weight, *of = &all[p].weight;
        int64_t columns = MAX(1, weight->row_elements), stride = MAX(1, of->row_elements);
        bool cut = columns != stride;
        g_assert_cmpint(mw_weight_is_of_all_slices(slice, weight), ==,
                        mine[p].count == all[p].count);
        for (int64_t e = 0; e < mine[p].count; e++) {
            int64_t row = weight->rows ? row_in_whole(slice, weight, of, e / columns) : e;
            int64_t column = e % columns + (cut ? slice->slice.index * columns : 0);
            int64_t at = row * stride + column;
            float right = at < all[p].count ? expected[all[p].at + at] : 0;
            g_assert_cmpfloat(got[mine[p].at + e], ==, right);
        }
    }
}

static void
test_slices(void)
{
    struct mw_decoder whole = mw_test_decoder(FIXTURES "llama-small"), slice;

    /* An odd vocabulary: the last slice has a row that is none. */
    whole.vocab = 2 * (whole.vocab / 2) + 1;
    g_assert_cmpstr(mw_decoder_slice(&whole, 1, 0, &slice), ==, NULL);
    g_assert_false(mw_decoder_is_slice(&slice));
    for (int64_t index = 0; index < 2; index++) {
        g_assert_cmpstr(mw_decoder_slice(&whole, 2, index, &slice), ==, NULL);
        struct mw_decoder again = mw_decoder_whole(&slice);
        g_assert_cmpmem(&again, sizeof again, &whole, sizeof whole);
        g_assert_cmpint(mw_decoder_tokens(&slice), ==, slice.vocab - index);
        for (int i = 1; i < MW_OPERATOR_COUNT; i++)
            check_slice(&whole, &slice, i,
                        mw_operator_row(i)->place == MW_PLACE_BLOCK ? whole.layers - 1 : -1);
    }
    g_assert_nonnull(mw_decoder_slice(&whole, whole.heads + 1, 0, &slice));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/weights/slices", test_slices);
    g_test_add_func("/weights/counts", test_counts);
    g_test_add_func("/weights/tensors", test_tensors);
    g_test_add_func("/weights/start/parts", test_start_parts);
    g_test_add_func("/weights/start/distribution", test_start_distribution);
    g_test_add_func("/weights/start/differs", test_start_differs);
    return g_test_run();
}
