/*
 * in_order.cuh - sums of a thread that are to have the bits of a plain loop.
 */
#ifndef MW_EXEC_DEVICE_CUDA_IN_ORDER_CUH
#define MW_EXEC_DEVICE_CUDA_IN_ORDER_CUH

#include "exec/device/cuda/device.h"

/* Loads in flight at once: memory is far away, and a sum in order waits for each. */
#define MW_AHEAD 16

/* `ahead` of them from i on, or, where not `all`, those before `count`: zeros for the others,
 * which change no sum that began with 0, for it is never -0. */
template <bool all, int ahead, int N, typename Load>
MW_DEVICE void
mw_add_group(float (&sum)[N], int64_t i, int64_t count, Load load)
{
    float v[ahead][N] = {};

    for (int a = 0; a < ahead; a++)
        if (all || i + a < count)
            load(v[a], i + a);
    for (int a = 0; a < ahead; a++)
        for (int k = 0; k < N; k++)
            sum[k] = __fadd_rn(sum[k], v[a][k]);
}

/* sum += what load(v, i) makes of v, from i = 0 up to `count`.  Whole groups apart: without
 * branches in between, their loads come before what is made of them. */
template <int ahead = MW_AHEAD, int N, typename Load>
MW_DEVICE void
mw_sum_in_order(float (&sum)[N], int64_t count, Load load)
{
    int64_t i = 0;

    for (; i + ahead <= count; i += ahead)
        mw_add_group<true, ahead>(sum, i, count, load);
    if (i < count)
        mw_add_group<false, ahead>(sum, i, count, load);
}

#endif
