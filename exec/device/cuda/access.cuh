/*
 * access.cuh - neighbouring elements, halves or fp32 in memory and fp32 in registers; and how many
 * threads take them.
 *
 * A thread takes a group of N elements in one access (two of 16 bytes for 8 of fp32) where `wide`
 * says that groups are aligned and all of the group is there; otherwise one by one.
 */
#ifndef MW_EXEC_DEVICE_CUDA_ACCESS_CUH
#define MW_EXEC_DEVICE_CUDA_ACCESS_CUH

#include "exec/device/cuda/device.h"
#include "exec/operators/kernel_types.h"

#define MW_THREADS 256
#define MW_ROW_THREADS_MAX 512
#define MW_GROUP 8 /* halves in 16 bytes */

template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) mw_group {
    T element[N];
};

/* The group at an aligned address. */
template <typename T, int N>
MW_DEVICE mw_group<T, N> &
mw_group_at(const T *x)
{
#if defined(MW_CUDA_EMULATED)
    mw_emulated::check_aligned(x, alignof(mw_group<T, N>), "a group of elements");
#endif
    return *(mw_group<T, N> *)x;
}

MW_DEVICE float
mw_value(uint16_t x)
{
    return mw_half_to_float(x);
}

MW_DEVICE float
mw_value(float x)
{
    return x;
}

MW_DEVICE void
mw_put(uint16_t *to, float x)
{
    *to = mw_float_to_half(x);
}

MW_DEVICE void
mw_put(float *to, float x)
{
    *to = x;
}

/* The first n elements at x, zeros behind them. */
template <typename T, int N>
MW_DEVICE void
mw_load(float (&v)[N], const T *x, int64_t n, bool wide)
{
    if (wide && n >= N) {
        mw_group<T, N> group = mw_group_at<T, N>(x);
        for (int i = 0; i < N; i++)
            v[i] = mw_value(group.element[i]);
        return;
    }
    for (int i = 0; i < N; i++)
        v[i] = i < n ? mw_value(x[i]) : 0.0f;
}

template <typename T, int N>
MW_DEVICE void
mw_store(T *x, const float (&v)[N], int64_t n, bool wide)
{
    if (wide && n >= N) {
        mw_group<T, N> group;
        for (int i = 0; i < N; i++)
            mw_put(&group.element[i], v[i]);
        mw_group_at<T, N>(x) = group;
        return;
    }
    for (int i = 0; i < N && i < n; i++)
        mw_put(&x[i], v[i]);
}

/* Of floats where fp32, else of halves. */
template <int N>
MW_DEVICE void
mw_load_either(float (&v)[N], const void *x, bool fp32, int64_t at, int64_t n, bool wide)
{
    if (fp32)
        mw_load(v, (const float *)x + at, n, wide);
    else
        mw_load(v, (const uint16_t *)x + at, n, wide);
}

/* Elements [at, at + n) of the gradient (+)= v. */
template <int N>
MW_DEVICE void
mw_gradient_put(struct mw_gradient g, int64_t at, float (&v)[N], int64_t n, bool wide)
{
    float before[N];

    if (g.accumulate) {
        mw_load_either(before, g.data, g.fp32, at, n, wide);
        for (int i = 0; i < N; i++)
            v[i] = __fadd_rn(before[i], v[i]);
    }
    if (g.fp32)
        mw_store((float *)g.data + at, v, n, wide);
    else
        mw_store((uint16_t *)g.data + at, v, n, wide);
}

/* By a block's threads together. */
MW_DEVICE void
mw_copy_row(uint16_t *to, const uint16_t *from, int64_t columns, bool wide)
{
    for (int64_t i = MW_GROUP * threadIdx.x; i < columns; i += MW_GROUP * blockDim.x) {
        if (wide)
            mw_group_at<uint16_t, MW_GROUP>(to + i) = mw_group_at<uint16_t, MW_GROUP>(from + i);
        else
            for (int64_t c = i; c < columns && c < i + MW_GROUP; c++)
                to[c] = from[c];
    }
}

/* The first of the group's N elements that this thread takes, of all blocks'. */
template <int N>
MW_DEVICE int64_t
mw_first_element(void)
{
    return N * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x);
}

/* --- on the host --- */

/* Blocks of MW_THREADS threads that take n elements in groups; at least one. */
static inline unsigned
mw_blocks(int64_t n, int group)
{
    int64_t a_block = (int64_t)MW_THREADS * group;

    return n > a_block ? (unsigned)((n + a_block - 1) / a_block) : 1;
}

/* Threads that take a row in groups: whole warps. */
static inline unsigned
mw_row_threads(int64_t columns, int group)
{
    int64_t warps = (columns + 32 * group - 1) / (32 * group);

    return warps < 1                         ? 32
           : warps * 32 < MW_ROW_THREADS_MAX ? (unsigned)warps * 32
                                             : MW_ROW_THREADS_MAX;
}

/* Every address a multiple of `bytes`; NULL is. */
static inline bool
mw_aligned(int bytes, const void *a, const void *b = NULL, const void *c = NULL,
           const void *d = NULL, const void *e = NULL)
{
    uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d | (uintptr_t)e;

    return all % (unsigned)bytes == 0;
}

/* For groups of four. */
static inline bool
mw_gradient_aligned(struct mw_gradient g)
{
    return mw_aligned(g.fp32 ? 16 : 8, g.data);
}

#endif
