/* sides.h - what passes by rows and columns have in common (struct mw_update_vectors). */
#ifndef MW_EXEC_DEVICE_CPU_SIDES_H
#define MW_EXEC_DEVICE_CPU_SIDES_H

#include "exec/device/cpu/lanes.h"

/* Gradients [i, i + n), n <= 16; the other lanes are 0. */
MW_INLINE struct mw_lanes
mw_gradients_at(const void *grad, bool fp32, int64_t i, int64_t n)
{
    const float *full = (const float *)grad + i;
    const mw_element *half = (const mw_element *)grad + i;

    if (n == MW_LANES)
        return fp32 ? mw_lanes_load(full) : mw_lanes_load_half(half);
    return fp32 ? mw_lanes_load_some(full, n) : mw_lanes_load_half_some(half, n);
}

/* What Adafactor takes of an element, before lr. */
MW_INLINE mw_native
mw_adafactor_takes(mw_native g, mw_native row, mw_native column)
{
    return g * row * column;
}

/* Of a row's columns [begin, end) those that elements [first, last) have; none: from >= to. */
struct mw_columns {
    int64_t from, to;
};

MW_INLINE struct mw_columns
mw_columns_of(int64_t first, int64_t last, int64_t begin, int64_t end)
{
    return (struct mw_columns){begin < first ? first : begin, end > last ? last : end};
}

#endif
