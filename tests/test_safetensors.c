/* safetensors: written, read back, and refused where it is not in order. */
#include "exec/data/safetensors.h"

#include <glib/gstdio.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/error.h"
#include "exec/data/convert.h"
#include "says.h"

struct fixture {
    char *folder;
};

static void
set_up(struct fixture *fixture, gconstpointer data)
{
    fixture->folder = g_dir_make_tmp("memwall-safetensors-XXXXXX", NULL);
    g_assert_nonnull(fixture->folder);
}

static void
tear_down(struct fixture *fixture, gconstpointer data)
{
    g_autoptr(GDir) dir = g_dir_open(fixture->folder, 0, NULL);
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
        g_unlink(path);
    }
    g_rmdir(fixture->folder);
    g_free(fixture->folder);
}

static char *
in(const struct fixture *fixture, const char *name)
{
    return g_build_filename(fixture->folder, name, NULL);
}

/* --- files ----------------------------------------------------------------------------------- */

static const float values[] = {0.0f,      -0.0f,           1.0f,      -1.5f,  3.14159265f,
                               0x1.01p0f, 0x1.018p0f,      0x1.03p0f, 1e-40f, 65504.0f,
                               1e30f,     (float)INFINITY, 0x1p-24f,  -2e-5f, 0x1.fffffep127f};
#define VALUES ((int64_t)G_N_ELEMENTS(values))

static void
write_file(const char *path, GError **error)
{
    struct mw_safetensors_writer *writer = mw_safetensors_writer_new(path);
    uint16_t narrow[VALUES];
    int64_t shape[] = {3, 5};

    for (int64_t i = 0; i < VALUES; i++)
        narrow[i] = mw_bf16_of_fp32(values[i]);
    mw_safetensors_describe(writer, "format", "pt");
    g_assert_true(mw_safetensors_declare(writer, "narrow", MW_SAFETENSORS_BF16, shape, 2, error));
    g_assert_true(mw_safetensors_declare(writer, "wide", MW_SAFETENSORS_F32, shape, 2, error));
    g_assert_true(mw_safetensors_begin(writer, error));
    g_assert_true(mw_safetensors_write(writer, "narrow", 7, VALUES - 7, narrow + 7, error));
    g_assert_true(mw_safetensors_write(writer, "wide", 0, VALUES, values, error));
    g_assert_true(mw_safetensors_write(writer, "narrow", 0, 7, narrow, error));
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    g_assert_true(mw_safetensors_commit(writer, 0, error));
    mw_safetensors_writer_free(writer);
}

static void
test_round_trip(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    g_autofree char *path = in(fixture, "model.safetensors");
    g_autofree char *part = in(fixture, "model.safetensors.part");

    write_file(path, &error);
    g_assert_no_error(error);
    g_assert_false(g_file_test(part, G_FILE_TEST_EXISTS));
    struct mw_safetensors *set = mw_safetensors_open(fixture->folder, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(mw_safetensors_count(set), ==, 2);
    g_assert_cmpstr(mw_safetensors_metadata(set, "format"), ==, "pt");

    const struct mw_safetensor *wide = mw_safetensors_find(set, "wide");
    const struct mw_safetensor *narrow = mw_safetensors_find(set, "narrow");
    g_assert_cmpint(wide->shape[1], ==, 5);
    for (int64_t first = 0; first < VALUES; first++) {
        float out[VALUES];
        uint16_t out16[VALUES], from16[VALUES];
        int64_t count = VALUES - first;
        g_assert_true(mw_safetensors_read(set, wide, first, count, MW_DTYPE_FP32, out, &error));
        g_assert_cmpmem(out, count * 4, values + first, count * 4);
        g_assert_true(mw_safetensors_read(set, wide, first, count, MW_DTYPE_BF16, out16, &error));
        g_assert_true(
            mw_safetensors_read(set, narrow, first, count, MW_DTYPE_BF16, from16, &error));
        g_assert_cmpmem(out16, count * 2, from16, count * 2);
        g_assert_true(mw_safetensors_read(set, narrow, first, 1, MW_DTYPE_FP32, out, &error));
        g_assert_cmpuint(mw_fp32_bits(out[0]), ==, (uint32_t)from16[0] << 16);
    }
    mw_safetensors_close(set);
}

/* Any bit of a tensor that is another is found, and no other file is refused. */
static void
test_sums(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    g_autofree char *path = in(fixture, "a.safetensors");
    g_autofree char *sum = NULL, *text = NULL;
    gsize length;

    write_file(path, &error);
    struct mw_safetensors *set = mw_safetensors_open(path, &error);
    const struct mw_safetensor *wide = mw_safetensors_find(set, "wide");
    const int64_t wide_at = wide->offset_bytes;
    sum = g_strdup_printf("%016" PRIx64, (uint64_t)XXH3_64bits(values, sizeof values));
    g_assert_cmpstr(mw_safetensors_metadata(set, "memwall.xxh3.wide"), ==, sum);
    g_assert_true(mw_safetensors_has_sums(set));
    g_assert_true(mw_safetensors_verify(set, 0, 1, &error));
    mw_safetensors_close(set);
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    for (int64_t at = wide_at; at < wide_at + (int64_t)sizeof values; at++) {
        text[at] ^= 16;
        g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
        text[at] ^= 16;
        set = mw_safetensors_open(path, NULL);
        int other = strcmp(mw_safetensors_at(set, 0)->name, "wide") == 0;
        g_assert_true(mw_safetensors_verify(set, (size_t)other, 2, NULL));
        g_assert_false(mw_safetensors_verify(set, 0, 1, &error));
        mw_test_error_says(error, path, "tensor \"wide\" is damaged");
        error = NULL;
        mw_safetensors_close(set);
    }
}

/* Two tensors of two elements, declared and so laid out as `order` says; the digest of what was
 * written. */
static uint64_t
write_pair(const char *path, const char *order, float last)
{
    struct mw_safetensors_writer *writer = mw_safetensors_writer_new(path);
    const float pairs[2][2] = {{1, 2}, {3, last}};
    const int64_t shape[] = {2};
    uint64_t digest;

    for (int i = 0; i < 2; i++) {
        const char name[] = {order[i], 0};
        g_assert_true(mw_safetensors_declare(writer, name, MW_SAFETENSORS_F32, shape, 1, NULL));
    }
    g_assert_true(mw_safetensors_begin(writer, NULL));
    g_assert_true(mw_safetensors_write(writer, "a", 0, 2, pairs[0], NULL));
    g_assert_true(mw_safetensors_write(writer, "b", 0, 2, pairs[1], NULL));
    g_assert_true(mw_safetensors_commit(writer, 0, NULL));
    digest = mw_safetensors_written_digest(writer);
    mw_safetensors_writer_free(writer);
    return digest;
}

/* Of content alone, and the same from the writer and from the file. */
static void
test_digest(struct fixture *fixture, gconstpointer data)
{
    g_autofree char *path = in(fixture, "pair");
    const uint64_t digest = write_pair(path, "ab", 4);
    struct mw_safetensors *set = mw_safetensors_open(path, NULL);

    g_assert_nonnull(set);
    g_assert_cmphex(mw_safetensors_digest(set), ==, digest);
    mw_safetensors_close(set);
    g_assert_cmphex(write_pair(path, "ba", 4), ==, digest);
    g_assert_cmphex(write_pair(path, "ab", 5), !=, digest);
}

static void
test_ranges(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    float out[VALUES];
    g_autofree char *path = in(fixture, "a.safetensors");

    write_file(path, &error);
    struct mw_safetensors *set = mw_safetensors_open(path, &error);
    const struct mw_safetensor *wide = mw_safetensors_find(set, "wide");
    static const int64_t wrong[][2] = {{-1, 1}, {0, 16}, {15, 1}, {1, INT64_MAX}, {0, -1}};
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        error = NULL;
        g_assert_false(
            mw_safetensors_read(set, wide, wrong[i][0], wrong[i][1], MW_DTYPE_FP32, out, &error));
        mw_test_error_says(error, "tensor \"wide\"", "must lie within its 15");
    }
    error = NULL;
    g_assert_true(mw_safetensors_read(set, wide, 15, 0, MW_DTYPE_FP32, out, &error));
    g_assert_cmpint(truncate(path, 200), ==, 0);
    g_assert_false(mw_safetensors_read(set, wide, 0, 15, MW_DTYPE_FP32, out, &error));
    mw_test_error_says(error, path, "cut short");
    mw_safetensors_close(set);
}

static void
test_half(struct fixture *fixture, gconstpointer data)
{
    /* 1, -2, largest, smallest subnormal, smallest normal, infinity, -0, 1 + 2^-10 */
    static const uint16_t bits[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x7c00, 0x8000, 0x3c01};
    static const float right[] = {1, -2, 65504, 0x1p-24f, 0x1p-14f, INFINITY, -0.0f, 0x1.004p0f};
    GError *error = NULL;
    g_autofree char *path = in(fixture, "half.safetensors");
    struct mw_safetensors_writer *writer = mw_safetensors_writer_new(path);
    int64_t shape = 8;
    float out[8];
    uint16_t out16[8];

    g_assert_true(mw_safetensors_declare(writer, "h", MW_SAFETENSORS_F16, &shape, 1, &error));
    g_assert_true(mw_safetensors_begin(writer, &error));
    g_assert_true(mw_safetensors_write(writer, "h", 0, 8, bits, &error));
    g_assert_true(mw_safetensors_commit(writer, 0, &error));
    mw_safetensors_writer_free(writer);
    struct mw_safetensors *set = mw_safetensors_open(path, &error);
    const struct mw_safetensor *tensor = mw_safetensors_find(set, "h");
    g_assert_true(mw_safetensors_read(set, tensor, 0, 8, MW_DTYPE_FP32, out, &error));
    g_assert_cmpmem(out, sizeof out, right, sizeof right);
    g_assert_true(mw_safetensors_read(set, tensor, 0, 8, MW_DTYPE_BF16, out16, &error));
    g_assert_cmpuint(out16[7], ==, 0x3f80); /* 1 + 2^-10 is nearer to 1 than to 1 + 2^-7 */
    mw_safetensors_close(set);
}

static void
test_other_types(struct fixture *fixture, gconstpointer data)
{
    static const int64_t written[] = {-3, 5};
    GError *error = NULL;
    g_autofree char *path = in(fixture, "ids.safetensors");
    struct mw_safetensors_writer *writer = mw_safetensors_writer_new(path);
    int64_t shape = 2, out[2];

    g_assert_true(mw_safetensors_declare(writer, "ids", MW_SAFETENSORS_I64, &shape, 1, &error));
    g_assert_true(mw_safetensors_begin(writer, &error));
    g_assert_true(mw_safetensors_write(writer, "ids", 0, 2, written, &error));
    g_assert_true(mw_safetensors_commit(writer, 0, &error));
    mw_safetensors_writer_free(writer);
    struct mw_safetensors *set = mw_safetensors_open(path, &error);
    const struct mw_safetensor *tensor = mw_safetensors_find(set, "ids");
    g_assert_true(mw_safetensors_read_raw(set, tensor, 0, 2, out, &error));
    g_assert_cmpmem(out, sizeof out, written, sizeof written);
    g_assert_false(mw_safetensors_read(set, tensor, 0, 2, MW_DTYPE_FP32, out, &error));
    mw_test_error_says(error, "tensor \"ids\": dtype I64", "must be F32, F16 or BF16");
    mw_safetensors_close(set);
}

/* --- an index -------------------------------------------------------------------------------- */

static void
write_one(const struct fixture *fixture, const char *file, const char *name, float value)
{
    GError *error = NULL;
    g_autofree char *path = in(fixture, file);
    struct mw_safetensors_writer *writer = mw_safetensors_writer_new(path);
    int64_t shape = 1;

    g_assert_true(mw_safetensors_declare(writer, name, MW_SAFETENSORS_F32, &shape, 1, &error));
    g_assert_true(mw_safetensors_begin(writer, &error));
    g_assert_true(mw_safetensors_write(writer, name, 0, 1, &value, &error));
    g_assert_true(mw_safetensors_commit(writer, 0, &error));
    mw_safetensors_writer_free(writer);
}

#define INDEX "model.safetensors.index.json"

static void
write_index(const struct fixture *fixture, const char *text)
{
    g_autofree char *path = in(fixture, INDEX);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void
test_index(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;

    write_one(fixture, "one.safetensors", "a", 1);
    write_one(fixture, "two.safetensors", "b", 2);
    write_index(fixture, "{\"metadata\": {\"total_size\": 8}, \"weight_map\": "
                         "{\"a\": \"one.safetensors\", \"b\": \"two.safetensors\"}}");
    struct mw_safetensors *set = mw_safetensors_open(fixture->folder, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(mw_safetensors_count(set), ==, 2);
    for (int i = 0; i < 2; i++) {
        const struct mw_safetensor *tensor = mw_safetensors_find(set, i ? "b" : "a");
        float value;
        g_assert_true(g_str_has_suffix(mw_safetensors_file(set, tensor),
                                       i ? "two.safetensors" : "one.safetensors"));
        g_assert_true(mw_safetensors_read(set, tensor, 0, 1, MW_DTYPE_FP32, &value, &error));
        g_assert_cmpfloat(value, ==, i + 1);
    }
    mw_safetensors_close(set);
}

static void
test_index_refused(struct fixture *fixture, gconstpointer data)
{
    static const struct {
        const char *text, *a, *b;
    } rows[] = {
        {"{}", "weight_map", "tensor name -> file name"},
        {"{\"weight_map\": {\"a\": 3}}", "tensor \"a\"", "must be a file name"},
        {"{\"weight_map\": {\"a\": \"../one.safetensors\"}}", "tensor \"a\"", "beside the index"},
        {"{\"weight_map\": {\"a\": \"\"}}", "tensor \"a\"", "beside the index"},
        {"{\"weight_map\": {\"a\": \"none.safetensors\"}}", "none.safetensors", "No such file"},
        {"{\"weight_map\": {\"x\": \"one.safetensors\"}}", "tensor \"x\"",
         "must be in one.safetensors, which lacks it"},
        {"{\"weight_map\": {\"a\": \"one.safetensors\"", INDEX, "cut short"},
    };

    write_one(fixture, "one.safetensors", "a", 1);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        GError *error = NULL;
        write_index(fixture, rows[i].text);
        g_assert_null(mw_safetensors_open(fixture->folder, &error));
        mw_test_error_says(error, rows[i].a, rows[i].b);
    }
}

static void
test_open_refused(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    g_autofree char *missing = in(fixture, "missing.safetensors");
    g_autofree char *short_file = in(fixture, "short.safetensors");

    g_assert_null(mw_safetensors_open(fixture->folder, &error));
    mw_test_error_says(error, fixture->folder, "must hold model.safetensors");
    error = NULL;
    g_assert_null(mw_safetensors_open(missing, &error));
    mw_test_error_says(error, missing, "No such file");
    error = NULL;
    g_assert_true(g_file_set_contents(short_file, "12345", 5, NULL));
    g_assert_null(mw_safetensors_open(short_file, &error));
    mw_test_error_says(error, short_file, "5 bytes: must be a safetensors file");
}

/* --- writing --------------------------------------------------------------------------------- */

/* Two writers of one file, as two ranks are. */
static void
test_attach(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    g_autofree char *path = in(fixture, "both.safetensors");
    struct mw_safetensors_writer *writers[2];
    int64_t shape = 2;

    for (int i = 0; i < 2; i++) {
        writers[i] = mw_safetensors_writer_new(path);
        mw_safetensors_describe(writers[i], "z", "1");
        mw_safetensors_describe(writers[i], "y", "2");
        g_assert_true(
            mw_safetensors_declare(writers[i], "a", MW_SAFETENSORS_F32, &shape, 1, &error));
        g_assert_true(i ? mw_safetensors_attach(writers[i], &error)
                        : mw_safetensors_begin(writers[i], &error));
        g_assert_true(mw_safetensors_write(writers[i], "a", i, 1, &values[2 + i], &error));
    }
    g_assert_true(mw_safetensors_sync(writers[1], &error));
    g_assert_false(mw_safetensors_commit(writers[0], 0, &error));
    mw_test_error_says(error, path, "4 bytes of tensors written: must be 8");
    error = NULL;
    int64_t others_bytes = mw_safetensors_written_bytes(writers[1]);
    mw_safetensors_writer_free(writers[1]);
    g_assert_true(mw_safetensors_commit(writers[0], others_bytes, &error));
    mw_safetensors_writer_free(writers[0]);

    struct mw_safetensors *set = mw_safetensors_open(path, &error);
    float out[2];
    g_assert_true(
        mw_safetensors_read(set, mw_safetensors_find(set, "a"), 0, 2, MW_DTYPE_FP32, out, &error));
    g_assert_cmpmem(out, sizeof out, values + 2, sizeof out);
    mw_safetensors_close(set);
}

static void
test_attach_refused(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    g_autofree char *path = in(fixture, "both.safetensors");
    struct mw_safetensors_writer *one = mw_safetensors_writer_new(path);
    struct mw_safetensors_writer *two = mw_safetensors_writer_new(path);
    int64_t shape = 2;

    g_assert_true(mw_safetensors_declare(one, "a", MW_SAFETENSORS_F32, &shape, 1, &error));
    g_assert_true(mw_safetensors_declare(two, "b", MW_SAFETENSORS_F32, &shape, 1, &error));
    g_assert_false(mw_safetensors_attach(two, &error));
    mw_test_error_says(error, "both.safetensors.part", "No such file");
    error = NULL;
    g_assert_true(mw_safetensors_begin(one, &error));
    mw_safetensors_writer_free(two);
    two = mw_safetensors_writer_new(path);
    g_assert_true(mw_safetensors_declare(two, "b", MW_SAFETENSORS_F32, &shape, 1, &error));
    g_assert_false(mw_safetensors_attach(two, &error));
    mw_test_error_says(error, path, "every rank must declare the same");
    mw_safetensors_writer_free(one);
    mw_safetensors_writer_free(two);
}

/* Given up: the old file stays, nothing else does. */
static void
test_given_up(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    g_autofree char *path = in(fixture, "a.safetensors");
    g_autofree char *part = in(fixture, "a.safetensors.part");
    int64_t shape = 15;

    write_file(path, &error);
    struct mw_safetensors_writer *writer = mw_safetensors_writer_new(path);
    g_assert_true(mw_safetensors_declare(writer, "x", MW_SAFETENSORS_F32, &shape, 1, &error));
    g_assert_true(mw_safetensors_begin(writer, &error));
    g_assert_true(g_file_test(part, G_FILE_TEST_EXISTS));
    mw_safetensors_writer_free(writer);
    g_assert_false(g_file_test(part, G_FILE_TEST_EXISTS));
    struct mw_safetensors *set = mw_safetensors_open(path, &error);
    g_assert_no_error(error);
    g_assert_nonnull(mw_safetensors_find(set, "wide"));
    mw_safetensors_close(set);
}

static void
test_write_refused(struct fixture *fixture, gconstpointer data)
{
    GError *error = NULL;
    g_autofree char *path = in(fixture, "a.safetensors");
    g_autofree char *nowhere = in(fixture, "none/a.safetensors");
    struct mw_safetensors_writer *writer = mw_safetensors_writer_new(path);
    struct mw_safetensors_writer *lost = mw_safetensors_writer_new(nowhere);
    int64_t shape = 2, huge = (int64_t)1 << 62;

    g_assert_true(mw_safetensors_declare(writer, "a", MW_SAFETENSORS_F32, &shape, 1, &error));
    g_assert_false(mw_safetensors_declare(writer, "a", MW_SAFETENSORS_F32, &shape, 1, &error));
    mw_test_error_says(error, "tensor \"a\"", "declared once");
    error = NULL;
    g_assert_false(mw_safetensors_declare(writer, "h", MW_SAFETENSORS_F32, &huge, 1, &error));
    mw_test_error_says(error, "tensor \"h\"", "declared once");
    error = NULL;
    g_assert_false(mw_safetensors_write(writer, "a", 0, 1, values, &error));
    mw_test_error_says(error, "tensor \"a\"", "the writing begun");
    error = NULL;
    g_assert_true(mw_safetensors_begin(writer, &error));
    g_assert_false(mw_safetensors_write(writer, "b", 0, 1, values, &error));
    mw_test_error_says(error, "tensor \"b\"", "must be declared");
    error = NULL;
    g_assert_false(mw_safetensors_write(writer, "a", 1, 2, values, &error));
    mw_test_error_says(error, "tensor \"a\"", "must lie within its 2");
    error = NULL;
    g_assert_false(mw_safetensors_begin(lost, &error));
    mw_test_error_says(error, nowhere, "No such file");
    mw_safetensors_writer_free(lost);
    mw_safetensors_writer_free(writer);
}

#define FILES(name, test) g_test_add(name, struct fixture, NULL, set_up, test, tear_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    FILES("/safetensors/round-trip", test_round_trip);
    FILES("/safetensors/sums", test_sums);
    FILES("/safetensors/digest", test_digest);
    FILES("/safetensors/ranges", test_ranges);
    FILES("/safetensors/half", test_half);
    FILES("/safetensors/other-types", test_other_types);
    FILES("/safetensors/index", test_index);
    FILES("/safetensors/index-refused", test_index_refused);
    FILES("/safetensors/open-refused", test_open_refused);
    FILES("/safetensors/attach", test_attach);
    FILES("/safetensors/attach-refused", test_attach_refused);
    FILES("/safetensors/given-up", test_given_up);
    FILES("/safetensors/write-refused", test_write_refused);
    return g_test_run();
}
