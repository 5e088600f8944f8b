/* A decoder's parameters out of and into safetensors files, in any parts; what is refused. */
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "exec/data/convert.h"
#include "tests/says.h"
#include "tests/weights_fixture.h"

/* --- in and out ------------------------------------------------------------------------------ */

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
        struct mw_decoder decoder = mw_test_decoder(names[i]);
        struct mw_safetensors *set = mw_safetensors_open(names[i], &error);
        struct mw_weights_part end = {
            .layer = -1, .operators = 1u << MW_OPERATOR_EMBEDDING, .tiles = 3, .tile = 2};
        g_assert_true(mw_weights_check(&decoder, set, "", &error));
        g_assert_no_error(error);
        check_part(&decoder, set, &end);
        end.operators = 1u << MW_OPERATOR_FINAL_NORM | 1u << MW_OPERATOR_LOGITS;
        end.tile = 0;
        check_part(&decoder, set, &end);
        for (size_t u = 0; u < MW_TEST_UNITS; u++)
            for (int64_t tile = 0; tile < 3; tile++) {
                struct mw_weights_part part = {
                    .layer = 1, .operators = mw_test_units[u], .tiles = 3, .tile = tile};
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
            for (size_t u = 0; u < MW_TEST_UNITS; u++) {
                part.operators = mw_test_units[u];
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
    struct mw_weights_files files; /* that one */
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
            !mw_weights_store(decoder, copy->files, copy->prefix, part, shard * size, size,
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

/* As a stage of a pipeline has it: a tied embedding's copy is read from it, and not written. */
static void
copy_slices(const struct mw_decoder *whole, int64_t slices, int64_t tiles, struct copy *copy)
{
    for (int64_t i = 0; i < slices; i++) {
        struct mw_decoder slice;
        g_assert_null(mw_decoder_slice(whole, slices, i, &slice));
        slice.copies_embedding = slice.tied_embedding;
        slice.tied_embedding = false;
        each(&slice, tiles, copy_part, copy);
    }
}

static void
check_copy(const char *name, const char *prefix, int64_t slices, int64_t tiles)
{
    GError *error = NULL;
    g_autofree char *folder = g_dir_make_tmp("memwall-weights-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "model.safetensors", NULL);
    struct mw_decoder decoder = mw_test_decoder(name);
    struct copy copy = {.set = mw_safetensors_open(name, &error),
                        .writer = mw_safetensors_writer_new(path),
                        .prefix = prefix};

    copy.files = (struct mw_weights_files){copy.writer, copy.writer};
    g_assert_true(mw_weights_declare(&decoder, copy.files, prefix, MW_SAFETENSORS_BF16, &error));
    g_assert_true(mw_safetensors_begin(copy.writer, &error));
    if (slices)
        copy_slices(&decoder, slices, tiles, &copy);
    else
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
    check_copy(FIXTURES "gpt2-small", "", 0, 1);
    check_copy(FIXTURES "gpt2-small", "exp_avg.", 0, 3);
    check_copy(FIXTURES "llama-small", "", 0, 4);
}

static void
test_store_slices(void)
{
    check_copy(FIXTURES "gpt2-small", "", 1, 1);
    check_copy(FIXTURES "gpt2-small", "exp_avg.", 2, 3);
    check_copy(FIXTURES "llama-small", "", 2, 4);
}

/* --- what is refused ------------------------------------------------------------------------- */

struct edit {
    const char *leave_out, *rename, *to, *reshape;
    const char *strip; /* from the begin of all names */
    enum mw_safetensors_dtype dtype;
    const char *poison; /* its element 5 has these bits */
    uint32_t poison_bits;
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
    if (edit->poison) {
        mw_safetensors_write(writer, edit->poison, 5, 1, &edit->poison_bits, &error);
        bytes -= mw_safetensors_dtype_bytes(edit->dtype);
    }
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
    struct mw_decoder decoder = mw_test_decoder(FIXTURES "gpt2-small");

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        GError *error = NULL;
        struct mw_safetensors *set = edited(FIXTURES "gpt2-small", &rows[i].edit, path);
        bool good = mw_weights_check(&decoder, set, "", &error);
        if (rows[i].a)
            mw_test_error_says(error, rows[i].a, rows[i].b);
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
    struct mw_decoder decoder = mw_test_decoder(FIXTURES "gpt2-small");
    struct mw_decoder other = mw_test_decoder(FIXTURES "llama-small");
    struct mw_safetensors *set = mw_safetensors_open(FIXTURES "gpt2-small", NULL);
    struct mw_weights_part part = {.operators = 1u << MW_OPERATOR_NORM1, .tiles = 1};
    float values[64];

    decoder.layers = 1;
    g_assert_false(mw_weights_check(&decoder, set, "", &error));
    mw_test_error_says(error, "tensor \"transformer.h.1.", "the model of 1 layers has none");
    error = NULL;
    g_assert_false(mw_weights_check(&other, set, "", &error));
    mw_test_error_says(error, "gpt2-small/model.safetensors",
                       "\"model.embed_tokens.weight\": missing");
    error = NULL;
    g_assert_false(mw_weights_load(&other, set, "", &part, 0, 32, MW_DTYPE_FP32, values, &error));
    mw_test_error_says(error, "\"model.layers.0.input_layernorm.weight\": missing", "shape [32]");
    error = NULL;
    g_assert_false(mw_weights_check(&decoder, set, "exp_avg.", &error));
    mw_test_error_says(error, "\"exp_avg.transformer.wte.weight\": missing", "[256, 32]");
    mw_safetensors_close(set);
}

/* Element 5 of a vector and of a matrix that is transposed, in all types that values become. */
static void
test_not_finite(void)
{
    const uint32_t nan = 0x7fc00000, infinite = 0xff800000;
    const struct edit rows[] = {
        {.dtype = MW_SAFETENSORS_F32, .poison = "transformer.h.1.ln_2.bias", .poison_bits = nan},
        {.dtype = MW_SAFETENSORS_BF16,
         .poison = "transformer.h.1.mlp.c_fc.weight",
         .poison_bits = infinite >> 16},
        {.dtype = MW_SAFETENSORS_F16,
         .poison = "transformer.h.1.mlp.c_fc.bias",
         .poison_bits = 0x7c00},
    };
    const uint32_t operators = 1u << MW_OPERATOR_NORM2 | 1u << MW_OPERATOR_MLP_UP;
    const struct mw_weights_part good = {.layer = 0, .operators = operators, .tiles = 1},
                                 bad = {.layer = 1, .operators = operators, .tiles = 1};
    g_autofree char *folder = g_dir_make_tmp("memwall-weights-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "edited.safetensors", NULL);
    struct mw_decoder decoder = mw_test_decoder(FIXTURES "gpt2-small");
    const int64_t size = mw_weights_part_elements(&decoder, &good);
    g_autofree float *values = g_new(float, size);

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_safetensors *set = edited(FIXTURES "gpt2-small", &rows[i], path);
        for (enum mw_dtype as = MW_DTYPE_BF16; as <= MW_DTYPE_FP32; as++) {
            GError *error = NULL;
            g_assert_true(mw_weights_load(&decoder, set, "", &good, 0, size, as, values, NULL));
            g_assert_false(mw_weights_load(&decoder, set, "", &bad, 0, size, as, values, &error));
            mw_test_error_says(error, rows[i].poison, "element 5 is not finite");
        }
        mw_safetensors_close(set);
        g_unlink(path);
    }
    /* 3.4e38 is finite in the file, and rounds to infinity in a type that ends before. */
    const struct edit large = {.dtype = MW_SAFETENSORS_F32,
                               .poison = "transformer.h.1.ln_2.bias",
                               .poison_bits = 0x7f7fc99e};
    struct mw_safetensors *set = edited(FIXTURES "gpt2-small", &large, path);
    GError *error = NULL;
    g_assert_true(mw_weights_load(&decoder, set, "", &bad, 0, size, MW_DTYPE_FP32, values, NULL));
    g_assert_false(
        mw_weights_load(&decoder, set, "", &bad, 0, size, MW_DTYPE_BF16, values, &error));
    mw_test_error_says(error, large.poison,
                       "element 5 is not finite in bf16, which ends at 3.3895e38");
    mw_safetensors_close(set);
    g_unlink(path);
    g_rmdir(folder);
}

/* 2^16 is a weight in fp32 and bf16, and none in fp16. */
static void
test_beyond_fp16(void)
{
    const struct edit edit = {.dtype = MW_SAFETENSORS_F32,
                              .poison = "transformer.h.1.ln_2.bias",
                              .poison_bits = 0x47800000};
    const struct mw_weights_part part = {
        .layer = 1, .operators = 1u << MW_OPERATOR_NORM2, .tiles = 1};
    g_autofree char *folder = g_dir_make_tmp("memwall-weights-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "edited.safetensors", NULL);
    struct mw_decoder decoder = mw_test_decoder(FIXTURES "gpt2-small");
    const int64_t size = mw_weights_part_elements(&decoder, &part);
    g_autofree float *values = g_new(float, size);
    struct mw_safetensors *set = edited(FIXTURES "gpt2-small", &edit, path);
    GError *error = NULL;

    g_assert_true(mw_weights_load(&decoder, set, "", &part, 0, size, MW_DTYPE_FP32, values, NULL));
    g_assert_true(mw_weights_load(&decoder, set, "", &part, 0, size, MW_DTYPE_BF16, values, NULL));
    g_assert_false(
        mw_weights_load(&decoder, set, "", &part, 0, size, MW_DTYPE_FP16, values, &error));
    mw_test_error_says(error, edit.poison, "not finite in fp16, which ends at 65504");
    mw_safetensors_close(set);
    g_unlink(path);
    g_rmdir(folder);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/weights/load", test_load);
    g_test_add_func("/weights/store", test_store);
    g_test_add_func("/weights/store-slices", test_store_slices);
    g_test_add_func("/weights/check", test_check);
    g_test_add_func("/weights/check-other-model", test_check_other_model);
    g_test_add_func("/weights/not-finite", test_not_finite);
    g_test_add_func("/weights/beyond-fp16", test_beyond_fp16);
    return g_test_run();
}
