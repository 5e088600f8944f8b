/* rows.h - going along rows of halves, part by part. */
#ifndef MW_EXEC_DEVICE_CPU_ROWS_H
#define MW_EXEC_DEVICE_CPU_ROWS_H

#include "exec/device/cpu/lanes.h"

/* Elements of a cache line. */
#define MW_LINE 32
_Static_assert(MW_LINE == 2 * MW_LANES, "a line has two of struct mw_lanes");

MW_INLINE int64_t
mw_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* While rows are computed from the caches, memory would be idle: so lines of the next rows, `ld`
 * elements apart, are prefetched then.  Past the last row that does nothing. */
MW_INLINE void
mw_ask_for(const mw_element *next, int64_t ld, int rows)
{
    for (int r = 0; r < rows; r++)
        __builtin_prefetch(next + r * ld, 0, 2);
}

#endif
