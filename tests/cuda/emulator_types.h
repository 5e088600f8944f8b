/*
 * emulator_types.h - CUDA's words and types, and the few calls of the host that launching needs; of
 * emulator.h.
 */
#ifndef MW_TESTS_CUDA_EMULATOR_TYPES_H
#define MW_TESTS_CUDA_EMULATOR_TYPES_H

#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

/* --- types --- */

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

#define MW_EMULATED_VECTORS(type, name, n2, n4)                                                    \
    struct alignas(n2) name##2                                                                     \
    {                                                                                              \
        type x, y;                                                                                 \
    };                                                                                             \
    struct alignas(n4) name##4                                                                     \
    {                                                                                              \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    static inline name##2 make_##name##2(type x, type y)                                           \
    {                                                                                              \
        return {x, y};                                                                             \
    }                                                                                              \
    static inline name##4 make_##name##4(type x, type y, type z, type w)                           \
    {                                                                                              \
        return {x, y, z, w};                                                                       \
    }
MW_EMULATED_VECTORS(float, float, 8, 16)
MW_EMULATED_VECTORS(unsigned, uint, 8, 16)

/* --- the host's side: the few calls that launching needs --- */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
};
typedef struct CUstream_st *cudaStream_t;

/* The first error since the last call; launches check their limits: 1,024 threads a block, 65,535
 * in y and z of a grid, and of shared memory 48 KiB, or what the kernel was allowed. */
cudaError_t cudaGetLastError();
/* At most 99 KiB in all, which every architecture from sm_80 on has. */
cudaError_t mw_emulated_attribute(const void *kernel, cudaFuncAttribute attribute, int value);
template <class Kernel>
cudaError_t
cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute attribute, int value)
{
    return mw_emulated_attribute(reinterpret_cast<const void *>(kernel), attribute, value);
}

#endif
