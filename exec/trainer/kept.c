#include "exec/trainer/kept.h"

#include <glib.h>
#include <math.h>
#include <string.h>

#include "exec/data/convert.h"
#include "exec/device/cpu/kernels.h"

#define BLOCK MW_DYNAMIC8_BLOCK
#define BLOCK_BYTES MW_DYNAMIC8_BYTES

_Static_assert(BLOCK == MW_KEPT_BLOCK, "one block of moments");

struct mw_kept_span
mw_kept_span(enum mw_dtype dtype, int64_t first, int64_t count)
{
    int64_t block = mw_dtype_row(dtype)->block_elements, skipped = first % block;
    int64_t at = mw_dtype_bytes(dtype, first - skipped);

    return (struct mw_kept_span){at, mw_dtype_bytes(dtype, skipped + count), skipped};
}

const struct mw_dynamic8 *
mw_kept_codes(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_DYNAMIC8 || dtype == MW_DTYPE_DYNAMIC8_SQUARES
               ? mw_dynamic8_of(dtype == MW_DTYPE_DYNAMIC8_SQUARES)
               : NULL;
}

/* --- arrays ---------------------------------------------------------------------------------- */

void
mw_kept_widen(enum mw_dtype dtype, const void *blocks, int64_t skipped, int64_t count, float *out)
{
    if (dtype == MW_DTYPE_FP32) {
        memcpy(out, (const float *)blocks + skipped, (size_t)count * sizeof *out);
        return;
    }
    if (dtype == MW_DTYPE_BF16) {
        mw_cpu_kernels(dtype)->widen(out, (const uint16_t *)blocks + skipped, count);
        return;
    }
    mw_cpu_kernels(MW_DTYPE_BF16)
        ->widen_dynamic8(out, blocks, mw_kept_codes(dtype), skipped, count);
}

void
mw_kept_narrow(enum mw_dtype dtype, const float *values, int64_t count, void *blocks)
{
    if (dtype == MW_DTYPE_FP32) {
        memcpy(blocks, values, (size_t)count * sizeof *values);
        return;
    }
    if (dtype == MW_DTYPE_BF16) {
        mw_cpu_kernels(dtype)->narrow(blocks, values, count);
        return;
    }
    mw_cpu_kernels(MW_DTYPE_BF16)->narrow_dynamic8(blocks, values, mw_kept_codes(dtype), count);
}

/* --- what is valid --------------------------------------------------------------------------- */

static bool
is_valid(bool squares, float value)
{
    return isfinite(value) && !(squares && value < 0);
}

/* Blocks with a scale begin anywhere in the bytes; a scale lies in them whole, since both ends are
 * multiples of its 4 bytes. */
static int64_t
first_invalid_scale(bool squares, const uint8_t *bytes, int64_t at, int64_t count_bytes,
                    float *value)
{
    for (int64_t b = at / BLOCK_BYTES; b * BLOCK_BYTES + BLOCK < at + count_bytes; b++) {
        int64_t scale_at = b * BLOCK_BYTES + BLOCK - at;
        if (scale_at < 0)
            continue;
        memcpy(value, bytes + scale_at, sizeof *value);
        if (!is_valid(squares, *value))
            return b * BLOCK;
    }
    return -1;
}

int64_t
mw_kept_first_invalid(enum mw_dtype dtype, bool squares, const void *bytes, int64_t at,
                      int64_t count_bytes, float *value)
{
    int64_t each = mw_dtype_element_bytes(dtype);

    if (!each)
        return first_invalid_scale(squares, bytes, at, count_bytes, value);
    for (int64_t i = 0; i < count_bytes / each; i++) {
        *value =
            each == 4 ? ((const float *)bytes)[i] : mw_fp32_of_bf16(((const uint16_t *)bytes)[i]);
        if (!is_valid(squares, *value))
            return at / each + i;
    }
    return -1;
}
