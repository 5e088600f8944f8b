/* A decoder's parameters: counted as the planner counts, started, loaded and stored in any parts.
 */
#include "exec/weights.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "cli/decoder.h"
#include "config.h"
#include "exec/convert.h"
#include "planner/error.h"
#include "planner/planner.h"

#define FIXTURES MW_SOURCE_DIR "/tests/fixtures/"
#define ALL_OPERATORS ((1u << MW_OPERATOR_COUNT) - 1)

static const struct mw_shape one_token = {.sequences = 1, .seq = 1, .tp = 1};

static struct mw_decoder
decoder_of(const char *name_or_path)
{
    GError *error = NULL;
    struct mw_model model;
    struct mw_decoder decoder;

    g_assert_true(mw_model_load(name_or_path, &model, &error));
    g_assert_true(mw_decoder_read(&model, name_or_path, &decoder, &error));
    g_assert_no_error(error);
    return decoder;
}

static void
assert_error(GError *error, const char *a, const char *b)
{
    g_assert_nonnull(error);
    g_assert_true(error->domain == MW_ERROR);
    g_assert_null(strchr(error->message, '\n'));
    if (!strstr(error->message, a) || !strstr(error->message, b))
        g_error("\"%s\" lacks \"%s\" or \"%s\"", error->message, a, b);
    g_error_free(error);
}

/* --- counts ---------------------------------------------------------------------------------- */

static void
check_operators(const struct mw_decoder *decoder, const struct mw_operator_info *info, int count)
{
    for (int i = 0; i < count; i++)
        g_assert_cmpint(mw_weights_operator_elements(decoder, info[i].operator_), ==,
                        info[i].params);
}

static bool
runs(const struct mw_model *model)
{
    return model->vocab && !model->experts && !model->kv_lora && !model->qk_norm &&
           (!strcmp(model->architecture, "gpt2") || !strcmp(model->architecture, "llama") ||
            !strcmp(model->architecture, "mistral") || !strcmp(model->architecture, "qwen2"));
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
        if (!runs(&model))
            continue;
        struct mw_decoder decoder = decoder_of(*name);
        check_operators(&decoder, info, mw_model_head(&model, &one_token, info));
        check_operators(&decoder, info, mw_model_layer(&model, 0, &one_token, info));
        check_operators(&decoder, info, mw_model_tail(&model, &one_token, info));
        g_assert_cmpint(mw_weights_elements(&decoder), ==, mw_model_params(&model));
        checked++;
    }
    g_assert_cmpint(checked, >, 30);
    struct mw_decoder gpt2 = decoder_of("gpt2"), llama = decoder_of("llama-2-7b");
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
    g_assert_true(mw_settings_resolve(&request, &asked, &resolved, &error));
    struct mw_sizing *sizing = mw_sizing_new(model, hardware, &resolved, &error);
    g_assert_no_error(error);
    return sizing;
}

static uint32_t
bits_of(const struct mw_class_info *class, const struct mw_unit *unit)
{
    uint32_t bits = 0;

    for (int i = unit->first; i < unit->first + unit->count; i++)
        bits |= 1u << class->operators[i].operator_;
    return bits;
}

static void
check_unit(const struct mw_decoder *decoder, const struct mw_class_info *class,
           const struct mw_unit *unit)
{
    struct mw_weights_part part = {.operators = bits_of(class, unit), .tiles = unit->tiles};
    int64_t all = 0;

    for (; part.tile < part.tiles; part.tile++) {
        int64_t rows =
            unit->rows * (part.tile + 1) / unit->tiles - unit->rows * part.tile / unit->tiles;
        int64_t rest = part.tile ? 0 : unit->params - unit->rows * unit->row_params;
        int64_t elements = mw_weights_part_elements(decoder, &part);
        g_assert_cmpint(elements, ==, rows * unit->row_params + rest);
        g_assert_cmpint(elements, <=, unit->tile_params);
        all += elements;
    }
    g_assert_cmpint(all, ==, unit->params);
    g_assert_cmpint(mw_weights_rows(decoder, part.operators), ==, unit->rows);
}

/* The planner's units, rows and tiles are the parts here. */
static void
test_units(void)
{
    static const char *const names[] = {"tiny",
                                        "gpt2",
                                        "llama-3.2-1b",
                                        "qwen2.5-0.5b",
                                        FIXTURES "gpt2-small",
                                        FIXTURES "llama-small"};
    struct mw_hwprofile *profile = mw_hwprofile_load("dgx2", NULL);
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        struct mw_decoder decoder = decoder_of(names[i]);
        struct mw_model model;
        g_assert_true(mw_model_load(names[i], &model, NULL));
        for (int64_t tiles = 1; tiles < 8; tiles++) {
            struct mw_sizing *sizing = size_up(&model, &hardware, tiles);
            for (int c = 0; c < MW_CLASS_COUNT; c++)
                for (int u = 0; u < sizing->classes[c].unit_count; u++)
                    check_unit(&decoder, &sizing->classes[c], &sizing->classes[c].units[u]);
            mw_sizing_free(sizing);
        }
    }
    mw_hwprofile_free(profile);
}

/* --- starting values ------------------------------------------------------------------------- */

static const uint32_t units[] = {
    1u << MW_OPERATOR_NORM1 | 1u << MW_OPERATOR_QKV, 1u << MW_OPERATOR_PROJECTION,
    1u << MW_OPERATOR_NORM2 | 1u << MW_OPERATOR_MLP_UP, 1u << MW_OPERATOR_MLP_DOWN};

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
        struct mw_decoder decoder = decoder_of(names[i]);
        for (size_t u = 0; u < G_N_ELEMENTS(units); u++) {
            struct mw_weights_part part = {.layer = 1, .operators = units[u], .tiles = 1};
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
    struct mw_decoder decoder = decoder_of("tiny");
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
    struct mw_decoder decoder = decoder_of("tiny");
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

/* --- files ----------------------------------------------------------------------------------- */

/* Loaded in shards of `size` or whole: a matrix of GPT-2 stands transposed. */
static void
check_loaded(const struct mw_safetensors *set, const struct mw_weights_piece *piece,
             const float *part)
{
    const struct mw_safetensor *tensor = mw_safetensors_find(set, piece->weight.name);
    g_autofree float *file = g_new(float, piece->weight.elements);
    int64_t inputs = piece->weight.shape[0], outputs = piece->weight.shape[1];

    g_assert_true(
        mw_safetensors_read(set, tensor, 0, piece->weight.elements, MW_DTYPE_FP32, file, NULL));
    for (int64_t i = 0; i < piece->count; i++) {
        int64_t e = piece->first + i;
        int64_t at = piece->weight.transposed ? e % inputs * outputs + e / inputs : e;
        g_assert_cmpfloat(part[piece->at + i], ==, file[at]);
    }
}

static void
check_part(const struct mw_decoder *decoder, const struct mw_safetensors *set,
           const struct mw_weights_part *part)
{
    struct mw_weights_piece pieces[MW_WEIGHTS_PIECES_MAX];
    int64_t elements = mw_weights_part_elements(decoder, part), padded = elements + 3;
    g_autofree float *whole = g_new(float, padded);
    g_autofree uint16_t *shard = g_new(uint16_t, padded);
    int count = mw_weights_pieces(decoder, part, pieces);

    g_assert_true(mw_weights_load(decoder, set, "", part, 0, padded, MW_DTYPE_FP32, whole, NULL));
    for (int i = 0; i < count; i++)
        check_loaded(set, &pieces[i], whole);
    for (int64_t i = elements; i < padded; i++)
        g_assert_cmpfloat(whole[i], ==, 0);
    for (int64_t size = 1; size < padded; size = size * 5 + 2)
        for (int64_t first = 0; first < padded; first += MAX(size, padded / 9)) {
            int64_t now = MIN(size, padded - first);
            g_assert_true(
                mw_weights_load(decoder, set, "", part, first, now, MW_DTYPE_BF16, shard, NULL));
            for (int64_t i = 0; i < now; i++)
                g_assert_cmpfloat(mw_fp32_of_bf16(shard[i]), ==, whole[first + i]);
        }
}

static void
test_load(void)
{
    static const char *const names[] = {FIXTURES "gpt2-small", FIXTURES "llama-small"};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        GError *error = NULL;
        struct mw_decoder decoder = decoder_of(names[i]);
        struct mw_safetensors *set = mw_safetensors_open(names[i], &error);
        struct mw_weights_part end = {
            .layer = -1, .operators = 1u << MW_OPERATOR_EMBEDDING, .tiles = 3, .tile = 2};
        g_assert_true(mw_weights_check(&decoder, set, "", &error));
        g_assert_no_error(error);
        check_part(&decoder, set, &end);
        end.operators = 1u << MW_OPERATOR_FINAL_NORM | 1u << MW_OPERATOR_LOGITS;
        end.tile = 0;
        check_part(&decoder, set, &end);
        for (size_t u = 0; u < G_N_ELEMENTS(units); u++)
            for (int64_t tile = 0; tile < 3; tile++) {
                struct mw_weights_part part = {
                    .layer = 1, .operators = units[u], .tiles = 3, .tile = tile};
                check_part(&decoder, set, &part);
            }
        mw_safetensors_close(set);
    }
}

typedef bool (*each_part)(const struct mw_decoder *decoder, const struct mw_weights_part *part,
                          void *data);

/* Tail, layers, head: no order is expected. */
static void
each(const struct mw_decoder *decoder, int64_t tiles, each_part visit, void *data)
{
    for (int64_t tile = 0; tile < tiles; tile++) {
        struct mw_weights_part part = {.layer = -1, .tiles = tiles, .tile = tile};
        part.operators = 1u << MW_OPERATOR_FINAL_NORM | 1u << MW_OPERATOR_LOGITS;
        g_assert_true(visit(decoder, &part, data));
        for (part.layer = 0; part.layer < decoder->layers; part.layer++)
            for (size_t u = 0; u < G_N_ELEMENTS(units); u++) {
                part.operators = units[u];
                g_assert_true(visit(decoder, &part, data));
            }
        part.layer = -1;
        part.operators = 1u << MW_OPERATOR_EMBEDDING;
        g_assert_true(visit(decoder, &part, data));
    }
}

struct copy {
    struct mw_safetensors *set;
    struct mw_safetensors_writer *writer;
    const char *prefix;
};

/* In two shards, the second with padding. */
static bool
copy_part(const struct mw_decoder *decoder, const struct mw_weights_part *part, void *data)
{
    const struct copy *copy = data;
    int64_t size = mw_weights_part_elements(decoder, part) / 2 + 1;
    g_autofree uint16_t *values = g_new(uint16_t, size);

    for (int shard = 0; shard < 2; shard++)
        if (!mw_weights_load(decoder, copy->set, "", part, shard * size, size, MW_DTYPE_BF16,
                             values, NULL) ||
            !mw_weights_store(decoder, copy->writer, copy->prefix, part, shard * size, size,
                              MW_SAFETENSORS_BF16, values, NULL))
            return false;
    return true;
}

static void
compare(const char *a, const char *b, const char *prefix)
{
    struct mw_safetensors *x = mw_safetensors_open(a, NULL), *y = mw_safetensors_open(b, NULL);

    g_assert_cmpuint(mw_safetensors_count(x), ==, mw_safetensors_count(y));
    for (size_t i = 0; i < mw_safetensors_count(x); i++) {
        const struct mw_safetensor *one = mw_safetensors_at(x, i);
        g_autofree char *name = g_strconcat(prefix, one->name, NULL);
        const struct mw_safetensor *other = mw_safetensors_find(y, name);
        g_autofree uint16_t *left = g_new(uint16_t, one->elements);
        g_autofree uint16_t *right = g_new(uint16_t, one->elements);
        g_assert_nonnull(other);
        g_assert_true(mw_safetensors_read_raw(x, one, 0, one->elements, left, NULL));
        g_assert_true(mw_safetensors_read_raw(y, other, 0, one->elements, right, NULL));
        g_assert_cmpmem(left, one->elements * 2, right, one->elements * 2);
    }
    mw_safetensors_close(x);
    mw_safetensors_close(y);
}

static void
check_copy(const char *name, const char *prefix, int64_t tiles)
{
    GError *error = NULL;
    g_autofree char *folder = g_dir_make_tmp("memwall-weights-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "model.safetensors", NULL);
    struct mw_decoder decoder = decoder_of(name);
    struct copy copy = {.set = mw_safetensors_open(name, &error),
                        .writer = mw_safetensors_writer_new(path),
                        .prefix = prefix};

    g_assert_true(mw_weights_declare(&decoder, copy.writer, prefix, MW_SAFETENSORS_BF16, &error));
    g_assert_true(mw_safetensors_begin(copy.writer, &error));
    each(&decoder, tiles, copy_part, &copy);
    g_assert_true(mw_safetensors_commit(copy.writer, 0, &error));
    g_assert_no_error(error);
    mw_safetensors_writer_free(copy.writer);
    mw_safetensors_close(copy.set);
    compare(name, folder, prefix);

    struct mw_safetensors *set = mw_safetensors_open(path, &error);
    g_assert_true(mw_weights_check(&decoder, set, prefix, &error));
    g_assert_no_error(error);
    mw_safetensors_close(set);
    g_unlink(path);
    g_rmdir(folder);
}

static void
test_store(void)
{
    check_copy(FIXTURES "gpt2-small", "", 1);
    check_copy(FIXTURES "gpt2-small", "exp_avg.", 3);
    check_copy(FIXTURES "llama-small", "", 4);
}

/* --- what is refused ------------------------------------------------------------------------- */

struct edit {
    const char *leave_out, *rename, *to, *reshape;
    const char *strip; /* from the begin of all names */
    enum mw_safetensors_dtype dtype;
};

static const char *
edited_name(const struct edit *edit, const char *name)
{
    if (!g_strcmp0(edit->rename, name))
        return edit->to;
    return edit->strip && g_str_has_prefix(name, edit->strip) ? name + strlen(edit->strip) : name;
}

/* The fixture's tensors, all zero, with one thing changed. */
static struct mw_safetensors *
edited(const char *folder, const struct edit *edit, const char *path)
{
    struct mw_safetensors *set = mw_safetensors_open(folder, NULL), *out;
    struct mw_safetensors_writer *writer = mw_safetensors_writer_new(path);
    int64_t bytes = 0;
    GError *error = NULL;

    for (size_t i = 0; i < mw_safetensors_count(set); i++) {
        struct mw_safetensor tensor = *mw_safetensors_at(set, i);
        if (!g_strcmp0(edit->leave_out, tensor.name))
            continue;
        if (!g_strcmp0(edit->reshape, tensor.name))
            tensor.shape[0]++;
        mw_safetensors_declare(writer, edited_name(edit, tensor.name), edit->dtype, tensor.shape,
                               tensor.rank, &error);
        int64_t size = mw_safetensors_dtype_bytes(edit->dtype);
        for (int d = 0; d < tensor.rank; d++)
            size *= tensor.shape[d];
        bytes += size;
    }
    g_assert_true(mw_safetensors_begin(writer, &error));
    g_assert_true(mw_safetensors_commit(writer, bytes, &error)); /* holes: zeros */
    mw_safetensors_writer_free(writer);
    mw_safetensors_close(set);
    out = mw_safetensors_open(path, &error);
    g_assert_no_error(error);
    return out;
}

static void
test_check(void)
{
    static const struct {
        struct edit edit;
        const char *a, *b; /* NULL: accepted */
    } rows[] = {
        {{.dtype = MW_SAFETENSORS_F32}, NULL, NULL},
        {{.dtype = MW_SAFETENSORS_F16, .strip = "transformer."}, NULL, NULL},
        {{.dtype = MW_SAFETENSORS_I16}, "I16 of shape", "must be F32, F16 or BF16"},
        {{.leave_out = "transformer.h.1.ln_2.bias"},
         "tensor \"transformer.h.1.ln_2.bias\": missing",
         "with shape [32]"},
        {{.reshape = "transformer.wte.weight"}, "of shape [257, 32]", "of shape [256, 32]"},
        {{.rename = "transformer.h.1.ln_2.bias", .to = "transformer.h.2.ln_2.bias"},
         "tensor \"transformer.h.1.ln_2.bias\"",
         "missing"},
    };
    g_autofree char *folder = g_dir_make_tmp("memwall-weights-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "edited.safetensors", NULL);
    struct mw_decoder decoder = decoder_of(FIXTURES "gpt2-small");

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        GError *error = NULL;
        struct mw_safetensors *set = edited(FIXTURES "gpt2-small", &rows[i].edit, path);
        bool good = mw_weights_check(&decoder, set, "", &error);
        if (rows[i].a)
            assert_error(error, rows[i].a, rows[i].b);
        g_assert_true(good == !rows[i].a);
        mw_safetensors_close(set);
        g_unlink(path);
    }
    g_rmdir(folder);
}

/* More layers in the file, another model, a part of a broken one. */
static void
test_check_other_model(void)
{
    GError *error = NULL;
    struct mw_decoder decoder = decoder_of(FIXTURES "gpt2-small");
    struct mw_decoder other = decoder_of(FIXTURES "llama-small");
    struct mw_safetensors *set = mw_safetensors_open(FIXTURES "gpt2-small", NULL);
    struct mw_weights_part part = {.operators = 1u << MW_OPERATOR_NORM1, .tiles = 1};
    float values[64];

    decoder.layers = 1;
    g_assert_false(mw_weights_check(&decoder, set, "", &error));
    assert_error(error, "tensor \"transformer.h.1.", "the model of 1 layers has none");
    error = NULL;
    g_assert_false(mw_weights_check(&other, set, "", &error));
    assert_error(error, "gpt2-small/model.safetensors", "\"model.embed_tokens.weight\": missing");
    error = NULL;
    g_assert_false(mw_weights_load(&other, set, "", &part, 0, 32, MW_DTYPE_FP32, values, &error));
    assert_error(error, "\"model.layers.0.input_layernorm.weight\": missing", "shape [32]");
    error = NULL;
    g_assert_false(mw_weights_check(&decoder, set, "exp_avg.", &error));
    assert_error(error, "\"exp_avg.transformer.wte.weight\": missing", "[256, 32]");
    mw_safetensors_close(set);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/weights/counts", test_counts);
    g_test_add_func("/weights/units", test_units);
    g_test_add_func("/weights/start/parts", test_start_parts);
    g_test_add_func("/weights/start/distribution", test_start_distribution);
    g_test_add_func("/weights/start/differs", test_start_differs);
    g_test_add_func("/weights/load", test_load);
    g_test_add_func("/weights/store", test_store);
    g_test_add_func("/weights/check", test_check);
    g_test_add_func("/weights/check-other-model", test_check_other_model);
    return g_test_run();
}
