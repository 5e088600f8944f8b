/* The rows of the element types, and bytes by them. */
#include <glib.h>

#include "plan/plan.h"

static void
test_rows(void)
{
    for (int i = 0; i < MW_DTYPE_COUNT; i++) {
        const struct mw_dtype_traits *row = mw_dtype_row(i);
        g_assert_nonnull(row->name);
        g_assert_cmpint(row->block_elements, >, 0);
        g_assert_cmpint(row->scale_bytes, <=, row->block_bytes);
        /* What computes lies element by element, and products of it have a rate. */
        g_assert_true(!row->computes || (row->block_elements == 1 && !row->scale_bytes &&
                                         row->products != MW_PRODUCTS_NONE));
        g_assert_cmpstr(mw_dtype_name(i), ==, row->name);
    }
    g_assert_null(mw_dtype_row(-1));
    g_assert_null(mw_dtype_row(MW_DTYPE_COUNT));
    g_assert_null(mw_dtype_name(MW_DTYPE_COUNT));
}

static void
test_bytes(void)
{
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_NONE, 7), ==, 0);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_BF16, 7), ==, 14);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_FP32, 7), ==, 28);
    /* whole blocks: 64 elements of 4 bits and a scale of 32 bits */
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_NF4, 0), ==, 0);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_NF4, 1), ==, 36);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_NF4, 64), ==, 36);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_NF4, 65), ==, 72);
    g_assert_cmpint(mw_dtype_bytes(MW_DTYPE_MXFP8, 64), ==, 66);
    /* QLoRA, Sec. 3: 0.127 bits for the scales instead of 0.5 */
    g_assert_cmpfloat_with_epsilon(
        8.0 * (double)mw_dtype_bytes(MW_DTYPE_NF4_DOUBLE, 1 << 20) / (1 << 20), 4.127, 1e-3);
    g_assert_cmpint(mw_dtype_element_bytes(MW_DTYPE_FP16), ==, 2);
    g_assert_cmpint(mw_dtype_element_bytes(MW_DTYPE_NF4), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/dtype/rows", test_rows);
    g_test_add_func("/dtype/bytes", test_bytes);
    return g_test_run();
}
