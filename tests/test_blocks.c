/* Weights in few bits: every code, and rounding to them, against formats written down again in
 * double; and the kernels that widen them against the plain reference. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "exec/data/blocks.h"
#include "exec/device/cpu/kernels.h"
#include "plan/plan.h"

#define ROUNDS 300

/* --- the formats, again ---------------------------------------------------------------------- */

/* OCP Microscaling Formats v1.0, Table 3 and Sec. 5.3.1: S.EEEE.MMM, bias 7. */
static double
e4m3(int code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    double magnitude = exponent ? ldexp(8 + mantissa, exponent - 7 - 3) : ldexp(mantissa, -6 - 3);

    return (code & 0x7f) == 0x7f ? NAN : code & 0x80 ? -magnitude : magnitude;
}

static double
e8m0(int code)
{
    return code == 255 ? NAN : ldexp(1, code - 127);
}

/* Of all codes the one whose value is nearest, the even one of two; beyond the range the last. */
static int
nearest_e4m3(double value)
{
    int best = 0;

    for (int code = 0; code < 0x7f; code++) {
        double off = fabs(fabs(value) - e4m3(code)), before = fabs(fabs(value) - e4m3(best));
        if (off < before || (off == before && code % 2 == 0))
            best = code;
    }
    return best | (signbit(value) ? 0x80 : 0);
}

static const double nf4[16] = {/* Appendix E */
                               -1.0,
                               -0.6961928009986877,
                               -0.5250730514526367,
                               -0.39491748809814453,
                               -0.28444138169288635,
                               -0.18477343022823334,
                               -0.09105003625154495,
                               0.0,
                               0.07958029955625534,
                               0.16093020141124725,
                               0.24611230194568634,
                               0.33791524171829224,
                               0.44070982933044434,
                               0.5626170039176941,
                               0.7229568362236023,
                               1.0};

static bool
is_same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static double
largest_of(const float *values, int64_t n)
{
    double largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = MAX(largest, fabs((double)values[i]));
    return largest;
}

/* --- codes ----------------------------------------------------------------------------------- */

static void
test_codes(void)
{
    for (int code = 0; code < 256; code++) {
        g_assert_true(is_same((double)mw_fp32_of_e4m3((uint8_t)code), e4m3(code)));
        g_assert_true(is_same((double)mw_fp32_of_e8m0((uint8_t)code), e8m0(code)));
    }
    g_assert_cmpfloat((double)mw_fp32_of_e4m3(0x7e), ==, 448.0); /* Table 3: the extremes */
    g_assert_cmpfloat((double)mw_fp32_of_e4m3(0x08), ==, 0x1p-6);
    g_assert_cmpfloat((double)mw_fp32_of_e4m3(0x01), ==, 0x1p-9);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_MXFP8, MW_MXFP8_ELEMENTS), ==, MW_MXFP8_BYTES);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_NF4, MW_NF4_ELEMENTS), ==, MW_NF4_BYTES);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_NF4_DOUBLE, MW_NF4_DOUBLE_ELEMENTS), ==,
                    MW_NF4_DOUBLE_BYTES);
    g_assert_true(mw_blocks_hold(MW_DTYPE_MXFP8) && mw_blocks_hold(MW_DTYPE_NF4) &&
                  mw_blocks_hold(MW_DTYPE_NF4_DOUBLE));
    g_assert_false(mw_blocks_hold(MW_DTYPE_BF16));
}

/* Each of its numbers with each scale, as a block of one element. */
static void
test_each_in_mxfp8(void)
{
    for (int scale = 0; scale < 256; scale++)
        for (int code = 0; code < 256; code++) {
            uint8_t block[MW_MXFP8_BYTES] = {(uint8_t)scale, (uint8_t)code};
            float value;
            mw_blocks_decode(MW_DTYPE_MXFP8, block, 0, 1, &value);
            double expected = e8m0(scale) * e4m3(code);
            g_assert_true(is_same((double)value, (double)(float)expected));
        }
}

static void
test_each_in_nf4(void)
{
    const float scales[] = {0, 1, 0x1p-126f, 0.3f, 0x1.fffffep127f};

    for (size_t s = 0; s < G_N_ELEMENTS(scales); s++)
        for (int code = 0; code < 256; code++) {
            uint8_t block[MW_NF4_BYTES] = {0};
            float low, high;
            memcpy(block, &scales[s], sizeof scales[s]);
            block[MW_NF4_SCALE_BYTES + 5] = (uint8_t)code;
            mw_blocks_decode(MW_DTYPE_NF4, block, 5, 1, &low);
            mw_blocks_decode(MW_DTYPE_NF4, block, 37, 1, &high);
            g_assert_cmpfloat((double)low, ==, (double)(scales[s] * (float)nf4[code & 15]));
            g_assert_cmpfloat((double)high, ==, (double)(scales[s] * (float)nf4[code >> 4]));
        }
}

/* --- rounding -------------------------------------------------------------------------------- */

/* Of about this size; some zero, some far smaller, some the middle between two codes. */
static float *
random_values(int64_t n, int exponent)
{
    float *values = g_new(float, n);

    for (int64_t i = 0; i < n; i++) {
        double size = g_test_rand_double_range(-1, 1);
        switch (g_test_rand_int_range(0, 8)) {
        case 0:
            size = 0;
            break;
        case 1:
            size *= ldexp(1, -g_test_rand_int_range(0, 30));
            break;
        case 2:
            size = (e4m3(g_test_rand_int_range(0, 0x7e)) + e4m3(g_test_rand_int_range(0, 0x7e))) /
                   1024;
            break;
        default:
            break;
        }
        values[i] = (float)ldexp(size, exponent);
    }
    return values;
}

/* The least power of two, of those that fp32 has as normal numbers, at which the largest is not
 * beyond 448. */
static void
expect_mxfp8(const float *values, int64_t n, double largest, const uint8_t *block)
{
    int shared = -126;

    while (largest > ldexp(448, shared))
        shared++;
    g_assert_cmpint(block[0], ==, shared + 127);
    for (int64_t i = 0; i < n; i++) {
        double x = ldexp((double)values[i], -shared);
        double got = e4m3(block[1 + i]);
        g_assert_true(is_same(got, e4m3(nearest_e4m3(x))));
        g_assert_cmpfloat(fabs(got - x), <=, MAX(fabs(x) / 16, 0x1p-10));
    }
}

static void
expect_nf4(const float *values, int64_t n, double largest, const uint8_t *block)
{
    float scale;

    memcpy(&scale, block, sizeof scale);
    g_assert_cmpfloat((double)scale, ==, (double)(float)largest);
    for (int64_t i = 0; i < n && largest > 0; i++) {
        uint8_t pair = block[MW_NF4_SCALE_BYTES + i % 32];
        double x = (double)values[i] / largest, got = nf4[i < 32 ? pair & 15 : pair >> 4];
        double least = 2;
        for (int code = 0; code < 16; code++)
            least = MIN(least, fabs(x - nf4[code]));
        g_assert_cmpfloat(fabs(got - x), <=, least + 1e-7);
    }
}

/* QLoRA's Sec. 3: scales are rounded to their mean and a multiple of what is farthest from it. */
static void
expect_nf4_double(const float *values, int64_t n, double shared, const uint8_t *block)
{
    int64_t count = (n + 63) / 64;
    double scales[256], mean = 0, farthest = 0;
    float stored[2];

    for (int64_t b = 0; b < count; b++) {
        scales[b] = shared > 0 ? shared : largest_of(values + 64 * b, MIN(64, n - 64 * b));
        mean += scales[b] / (double)count;
    }
    for (int i = 0; i < 2; i++)
        stored[i] = mw_fp32_of_bf16((uint16_t)(block[2 * i] | block[2 * i + 1] << 8));
    g_assert_cmpfloat(fabs((double)stored[0] - mean), <=, mean / 256 + 0x1p-134);
    for (int64_t b = 0; b < count; b++)
        farthest = MAX(farthest, fabs(scales[b] - (double)stored[0]));
    g_assert_cmpfloat(fabs(448 * (double)stored[1] - farthest), <=, farthest / 256 + 0x1p-125);
    for (int64_t b = 0; b < count; b++) {
        double scale = MAX(0, (double)stored[0] + (double)stored[1] * e4m3(block[4 + b]));
        double off = fabs(scales[b] - (double)stored[0]); /* to be rounded to four bits */
        uint8_t pairs[MW_NF4_BYTES];
        float single = (float)scale;
        g_assert_cmpfloat(fabs(scale - scales[b]), <=,
                          MAX(off / 16, (double)stored[1] / 1024) + off / 128 + mean * 1e-6 +
                              0x1p-125);
        memcpy(pairs, &single, sizeof single);
        memcpy(pairs + 4, block + 260 + 32 * b, 32);
        expect_nf4(values + 64 * b, MIN(64, n - 64 * b), scale, pairs);
    }
}

static void
expect_block(enum mw_dtype dtype, const float *values, int64_t n, double shared,
             const uint8_t *block)
{
    double largest = shared > 0 ? shared : largest_of(values, n);

    if (dtype == MW_DTYPE_NF4_DOUBLE)
        expect_nf4_double(values, n, shared, block);
    else
        (dtype == MW_DTYPE_NF4 ? expect_nf4 : expect_mxfp8)(values, n, largest, block);
}

static void
check_encoded(enum mw_dtype dtype, int exponent, bool shares)
{
    int64_t elements = mw_dtype_row(dtype)->block_elements;
    int64_t bytes = mw_dtype_row(dtype)->block_bytes;
    int64_t n = g_test_rand_int_range(1, (int)(5 * elements));
    g_autofree float *values = random_values(n, exponent);
    float shared = shares ? (float)(largest_of(values, n) * g_test_rand_double_range(1, 3)) : 0;
    g_autofree uint8_t *blocks = g_malloc(mw_dtype_bytes(dtype, n));

    memset(blocks, 0xa5, mw_dtype_bytes(dtype, n));
    mw_blocks_encode(dtype, values, n, shared, blocks);
    for (int64_t at = 0; at < n; at += elements) {
        int64_t count = MIN(elements, n - at);
        const uint8_t *block = blocks + at / elements * bytes;
        expect_block(dtype, values + at, count, (double)shared, block);
        for (int64_t i = count; i < elements && dtype == MW_DTYPE_MXFP8; i++)
            g_assert_cmpint(block[1 + i], ==, 0);
    }
}

static void
test_rounding(gconstpointer data)
{
    enum mw_dtype dtype = (enum mw_dtype)GPOINTER_TO_INT(data);

    for (int round = 0; round < (dtype == MW_DTYPE_NF4_DOUBLE ? ROUNDS / 10 : ROUNDS); round++)
        check_encoded(dtype, g_test_rand_int_range(-150, 125), round % 4 == 0);
}

/* What was narrowed and widened stays what it is: a run that goes on from what it saved has the
 * same weights.  Bytes may differ: where the largest was rounded down to 224, half the scale
 * does. */
static void
test_again(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        g_autofree float *values = random_values(MW_MXFP8_ELEMENTS, g_test_rand_int_range(-90, 90));
        uint8_t blocks[MW_MXFP8_BYTES];
        float decoded[MW_MXFP8_ELEMENTS], again[MW_MXFP8_ELEMENTS];
        mw_blocks_encode(MW_DTYPE_MXFP8, values, MW_MXFP8_ELEMENTS, 0, blocks);
        mw_blocks_decode(MW_DTYPE_MXFP8, blocks, 0, MW_MXFP8_ELEMENTS, decoded);
        mw_blocks_encode(MW_DTYPE_MXFP8, decoded, MW_MXFP8_ELEMENTS, 0, blocks);
        mw_blocks_decode(MW_DTYPE_MXFP8, blocks, 0, MW_MXFP8_ELEMENTS, again);
        g_assert_cmpmem(again, sizeof again, decoded, sizeof decoded);
    }
}

static void
test_extremes(void)
{
    const float values[] = {0x1.fffffep127f, -0x1.fffffep127f, 0x1p-149f, -0.0f};
    float largest[] = {0x1.fffffep127f, 0x1.fffffep127f, 0x1p-149f, 0};

    for (int first = 0; first < 4; first++) {
        uint8_t block[MW_MXFP8_BYTES], four[MW_NF4_BYTES];
        float decoded;
        mw_blocks_encode(MW_DTYPE_MXFP8, values + first, 1, 0, block);
        expect_mxfp8(values + first, 1, (double)largest[first], block);
        mw_blocks_decode(MW_DTYPE_MXFP8, block, 0, 1, &decoded);
        g_assert_true(isfinite(decoded) == (fabsf(values[first]) < 1)); /* 2^128, as in bf16 */
        mw_blocks_encode(MW_DTYPE_NF4, values + first, 1, 0, four);
        mw_blocks_decode(MW_DTYPE_NF4, four, 0, 1, &decoded);
        g_assert_cmpfloat((double)decoded, ==, (double)values[first]);
    }
}

/* Of a block with what is no finite number the scale says so, and codes are 0. */
static void
test_not_finite(void)
{
    const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < G_N_ELEMENTS(odd); i++) {
        float values[MW_MXFP8_ELEMENTS] = {1, -2, [7] = odd[i]}, decoded[MW_MXFP8_ELEMENTS];
        uint8_t block[MW_MXFP8_BYTES], expected[MW_MXFP8_BYTES] = {0xff};
        mw_blocks_encode(MW_DTYPE_MXFP8, values, MW_MXFP8_ELEMENTS, 0, block);
        g_assert_cmpmem(block, sizeof block, expected, sizeof expected);
        mw_blocks_decode(MW_DTYPE_MXFP8, block, 0, MW_MXFP8_ELEMENTS, decoded);
        for (int at = 0; at < MW_MXFP8_ELEMENTS; at++)
            g_assert_true(isnan(decoded[at]));
    }
}

/* --- kernels --------------------------------------------------------------------------------- */

static void
check_kernel(const struct mw_cpu_kernels *kernels, enum mw_dtype narrow)
{
    int64_t n = g_test_rand_int_range(1, 40000), bytes = mw_dtype_bytes(narrow, n);
    int64_t element = mw_dtype_element_bytes(kernels->dtype);
    g_autofree uint8_t *blocks = g_malloc(bytes);
    g_autofree float *values = g_new(float, n);
    g_autofree uint8_t *out = g_malloc(element * n), *expected = g_malloc(element * n);

    for (int64_t i = 0; i < bytes; i++)
        blocks[i] = (uint8_t)g_test_rand_int();
    kernels->widen_blocks(out, blocks, narrow, n);
    mw_blocks_decode(narrow, blocks, 0, n, values);
    for (int64_t i = 0; i < n; i++) {
        mw_element_of_fp32(expected, i, values[i], kernels->dtype);
        double want = (double)mw_fp32_of_element(expected, i, kernels->dtype);
        g_assert_true(is_same((double)mw_fp32_of_element(out, i, kernels->dtype), want));
    }
}

/* Weights and activations have one mxfp8. */
static void
check_narrowing(const struct mw_cpu_kernels *kernels)
{
    int64_t n = g_test_rand_int_range(1, 40000), bytes = mw_dtype_bytes(MW_DTYPE_MXFP8, n);
    g_autofree float *values = random_values(n, g_test_rand_int_range(-10, 10));
    g_autofree uint8_t *elements = g_malloc(mw_dtype_bytes(kernels->dtype, n));
    g_autofree uint8_t *got = g_malloc(bytes), *expected = g_malloc(bytes);

    for (int64_t i = 0; i < n; i++) {
        mw_element_of_fp32(elements, i, values[i], kernels->dtype);
        values[i] = mw_fp32_of_element(elements, i, kernels->dtype);
    }
    kernels->narrow_mxfp8(got, elements, n);
    mw_blocks_encode(MW_DTYPE_MXFP8, values, n, 0, expected);
    g_assert_cmpmem(got, (gsize)bytes, expected, (gsize)bytes);
}

static void
test_kernels(gconstpointer data)
{
    for (int round = 0; round < ROUNDS / 10; round++) {
        check_narrowing(data);
        check_kernel(data, MW_DTYPE_MXFP8);
        check_kernel(data, MW_DTYPE_NF4);
        check_kernel(data, MW_DTYPE_NF4_DOUBLE);
    }
}

static void
add_kernel_tests(enum mw_dtype dtype)
{
    for (int isa = 0; isa < MW_CPU_ISAS; isa++) {
        const struct mw_cpu_kernels *kernels = mw_cpu_kernels_of((enum mw_cpu_isa)isa, dtype);
        g_autofree char *path = g_strdup_printf(
            "/blocks/kernels/%s/%s", mw_cpu_isa_name((enum mw_cpu_isa)isa), mw_dtype_name(dtype));
        if (kernels)
            g_test_add_data_func(path, kernels, test_kernels);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/blocks/codes", test_codes);
    g_test_add_func("/blocks/each/mxfp8", test_each_in_mxfp8);
    g_test_add_func("/blocks/each/nf4", test_each_in_nf4);
    g_test_add_data_func("/blocks/rounding/mxfp8", GINT_TO_POINTER(MW_DTYPE_MXFP8), test_rounding);
    g_test_add_data_func("/blocks/rounding/nf4", GINT_TO_POINTER(MW_DTYPE_NF4), test_rounding);
    g_test_add_data_func("/blocks/rounding/nf4-double", GINT_TO_POINTER(MW_DTYPE_NF4_DOUBLE),
                         test_rounding);
    g_test_add_func("/blocks/again", test_again);
    g_test_add_func("/blocks/extremes", test_extremes);
    g_test_add_func("/blocks/not-finite", test_not_finite);
    add_kernel_tests(MW_DTYPE_BF16);
    add_kernel_tests(MW_DTYPE_FP16);
    add_kernel_tests(MW_DTYPE_FP32);
    return g_test_run();
}
