/*
 * reduce.cuh - sums and maxima over the threads of a block, in a fixed order: every thread gets the
 * same bits.  All threads of the block take part, whole warps.
 */
#ifndef MW_EXEC_DEVICE_CUDA_REDUCE_CUH
#define MW_EXEC_DEVICE_CUDA_REDUCE_CUH

#include "exec/device/cuda/device.h"

#define MW_WARP 32
#define MW_WARPS_MAX 32

struct mw_sum {
    template <typename T> MW_DEVICE T join(T a, T b)
    {
        return a + b;
    }
};

/* A NaN does not show. */
struct mw_maximum {
    MW_DEVICE float join(float a, float b)
    {
        return fmaxf(a, b);
    }
};

template <typename How, typename T>
MW_DEVICE T
mw_warp_join(T v)
{
    for (int distance = MW_WARP / 2; distance > 0; distance /= 2)
        v = How::join(v, __shfl_xor_sync(0xffffffffu, v, distance));
    return v;
}

template <typename How, typename T>
MW_DEVICE T
mw_block_join(T v, T neutral)
{
    MW_SHARED(T, of_warp, [MW_WARPS_MAX]);
    unsigned lane = threadIdx.x % MW_WARP, warps = blockDim.x / MW_WARP;

    v = mw_warp_join<How>(v);
    if (warps == 1)
        return v;
    if (lane == 0)
        of_warp[threadIdx.x / MW_WARP] = v;
    __syncthreads();
    v = mw_warp_join<How>(lane < warps ? of_warp[lane] : neutral);
    __syncthreads(); /* the next one may write */
    return v;
}

template <typename T>
MW_DEVICE T
mw_block_sum(T v)
{
    return mw_block_join<mw_sum>(v, (T)0);
}

/* Of several values at once: the threads wait for each other twice, not twice for each value. */
template <int N>
MW_DEVICE void
mw_block_sums(float (&v)[N])
{
    MW_SHARED(float, of_warp, [N][MW_WARPS_MAX]);
    unsigned lane = threadIdx.x % MW_WARP, warps = blockDim.x / MW_WARP;

    for (int i = 0; i < N; i++)
        v[i] = mw_warp_join<mw_sum>(v[i]);
    if (warps == 1)
        return;
    for (int i = 0; i < N && lane == 0; i++)
        of_warp[i][threadIdx.x / MW_WARP] = v[i];
    __syncthreads();
    for (int i = 0; i < N; i++)
        v[i] = mw_warp_join<mw_sum>(lane < warps ? of_warp[i][lane] : 0.0f);
    __syncthreads(); /* the next one may write */
}

MW_DEVICE float
mw_block_max(float v)
{
    return mw_block_join<mw_maximum>(v, -INFINITY);
}

#endif
