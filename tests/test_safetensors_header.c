/* safetensors headers, and the conversion of numbers. */
#include "exec/data/safetensors.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/data/convert.h"
#include "says.h"

/* --- headers --------------------------------------------------------------------------------- */

static GString *
file_text(const char *json, size_t data_bytes)
{
    GString *text = g_string_new(NULL);
    uint64_t length = GUINT64_TO_LE((uint64_t)strlen(json));

    g_string_append_len(text, (const char *)&length, sizeof length);
    g_string_append(text, json);
    for (size_t i = 0; i < data_bytes; i++)
        g_string_append_c(text, (char)i);
    return text;
}

static struct mw_safetensors_header *
parse(const GString *text, GError **error)
{
    return mw_safetensors_header_parse(text->str, text->len, (int64_t)text->len, "some.safetensors",
                                       error);
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"a\": {\"dtype\": " dtype ", \"shape\": " shape ", \"data_offsets\": " offsets "}}"
#define A4 "\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}"

static void
test_header_refused(void)
{
    static const struct {
        const char *json;
        size_t data_bytes;
        const char *a, *b;
    } rows[] = {
        {"[]", 0, "some.safetensors", "object"},
        {"{\"a\": 1}", 0, "tensor \"a\"", "dtype, shape and data_offsets"},
        {ONE("\"F33\"", "[1]", "[0, 4]"), 4, "value \"F33\"", "BF16"},
        {ONE("3", "[1]", "[0, 4]"), 4, "key \"dtype\"", "BF16"},
        {"{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "\"dtype\": missing", "BF16"},
        {ONE("\"F32\"", "1", "[0, 4]"), 4, "key \"shape\"", "at most 8"},
        {ONE("\"F32\"", "[-1]", "[0, 4]"), 4, "key \"shape\"", "whole numbers"},
        {ONE("\"F32\"", "[1.5]", "[0, 4]"), 4, "key \"shape\"", "whole numbers"},
        {ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0, 4]"), 4, "key \"shape\"", "at most 8"},
        {ONE("\"F32\"", "[4294967296, 4294967296]", "[0, 4]"), 4, "key \"shape\"", "2^63"},
        {ONE("\"F32\"", "[1]", "[0]"), 4, "data_offsets", "begin and end"},
        {ONE("\"F32\"", "[1]", "[4, 0]"), 4, "data_offsets", "begin and end"},
        {ONE("\"F32\"", "[1]", "[0, -4]"), 4, "data_offsets", "begin and end"},
        {ONE("\"F32\"", "[1]", "[0, 5]"), 5, "5 bytes", "must be 4 for F32 of shape [1]"},
        {ONE("\"F32\"", "[2]", "[0, 8]"), 7, "ends at byte 8", "cut short"},
        {ONE("\"F32\"", "[1]", "[4, 8]"), 8, "4 bytes before it", "none"},
        {ONE("\"F32\"", "[1]", "[0, 4]"), 6, "2 bytes at its end", "none"},
        {"{" A4 ", \"b\": {\"dtype\": \"BF16\", \"shape\": [2], \"data_offsets\": [2, 6]}}", 6,
         "tensor \"b\"", "overlaps tensor \"a\" by 2 bytes"},
        {"{" A4 ", " A4 "}", 4, "\"a\"", "given twice"},
        {"{\"__metadata__\": 3, " A4 "}", 4, "__metadata__", "object of strings"},
        {"{\"__metadata__\": {\"x\": 3}, " A4 "}", 4, "__metadata__", "\"x\" must be a string"},
        {"{\"__metadata__\": {\"memwall.xxh3.a\": \"12\"}, " A4 "}", 4, "tensor \"a\"",
         "16 hexadecimal digits"},
        {"{\"__metadata__\": {\"memwall.xxh3.a\": \"0x34567890123456\"}, " A4 "}", 4,
         "tensor \"a\"", "16 hexadecimal digits"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        GError *error = NULL;
        g_autoptr(GString) text = file_text(rows[i].json, rows[i].data_bytes);
        g_assert_null(parse(text, &error));
        mw_test_error_says(error, rows[i].a, rows[i].b);
    }
}

static void
test_header_accepted(void)
{
    GError *error = NULL;
    g_autoptr(GString) text =
        file_text("{\"b\": {\"dtype\": \"I64\", \"shape\": [], \"data_offsets\": [4, 12]},"
                  "\"none\": {\"dtype\": \"F8_E4M3\", \"shape\": [3, 0], \"data_offsets\": [4, 4]},"
                  "\"__metadata__\": {\"format\": \"pt\"}, " A4 "}   ",
                  12);
    struct mw_safetensors_header *header = parse(text, &error);

    g_assert_no_error(error);
    g_assert_cmpuint(header->tensor_count, ==, 3);
    g_assert_cmpstr(header->tensors[0].name, ==, "a");
    g_assert_cmpstr(header->tensors[1].name, ==, "none");
    g_assert_cmpint(header->tensors[1].elements, ==, 0);
    g_assert_cmpint(header->tensors[2].elements, ==, 1);
    g_assert_cmpint(header->tensors[2].offset_bytes, ==, (int64_t)text->len - 8);
    g_assert_cmpstr(g_hash_table_lookup(header->metadata, "format"), ==, "pt");
    mw_safetensors_header_free(header);
}

/* Wherever a file is cut, it is refused. */
static void
test_header_cut(void)
{
    g_autoptr(GString) text = file_text("{" A4 "}", 4);

    for (size_t length = 0; length < text->len; length++) {
        GError *error = NULL;
        g_assert_null(
            mw_safetensors_header_parse(text->str, length, (int64_t)length, "cut", &error));
        mw_test_error_says(error, "cut", "must");
    }
}

/* --- numbers --------------------------------------------------------------------------------- */

/* Ties go to the even neighbour; NaN stays one. */
static void
test_rounding(void)
{
    static const struct {
        uint32_t in;
        uint16_t out;
    } rows[] = {
        {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x3f80ffff, 0x3f81},
        {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0},
        {0x80000000, 0x8000}, {0x00008000, 0x0000}, {0x00018000, 0x0002}, {0x3f7fffff, 0x3f80},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        g_assert_cmphex(mw_bf16_of_fp32(mw_fp32_of_bits(rows[i].in)), ==, rows[i].out);
}

/* Every fp16 against its definition (IEEE 754, 3.4): 10 bits of fraction, exponent bias 15. */
static void
test_every_half(void)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
        double right = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        float got = mw_fp32_of_fp16((uint16_t)bits);
        if (exponent == 31)
            g_assert_true(fraction ? isnan(got) : isinf(got));
        else
            g_assert_true(fabsf(got) == (float)right);
        g_assert_cmpint(signbit(got) != 0, ==, bits >> 15);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/safetensors/header/accepted", test_header_accepted);
    g_test_add_func("/safetensors/header/refused", test_header_refused);
    g_test_add_func("/safetensors/header/cut", test_header_cut);
    g_test_add_func("/safetensors/rounding", test_rounding);
    g_test_add_func("/safetensors/every-half", test_every_half);
    return g_test_run();
}
