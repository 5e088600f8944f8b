/*
 * device.h - what every .cu file includes: CUDA's device language, or, with -DMW_CUDA_EMULATED,
 * the emulation of it that the build includes before it, so that the kernels are tested where there
 * is no GPU.  What the two write differently goes through macros:
 *
 *   MW_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...);
 *       kernel<<<grid, block, shared_bytes, stream>>>(arguments...); in parentheses where the
 *       kernel is a template of several parameters.  cudaGetLastError() says whether it started.
 *   MW_SHARED(float, tile, [32][33]);      __shared__ float tile[32][33];
 *   MW_DYNAMIC_SHARED(float, sums);        the block's dynamic shared memory, from 128-byte
 *                                          boundaries, as float *
 *
 * Kernels that are launched with more than 256 threads say so (__launch_bounds__): without it a
 * compiler may take more registers for each than a block of them can have.
 *
 * A half is an element of 16 bits, held in uint16_t as everywhere (exec/data/convert.h): fp16 where
 * a file is compiled with MW_HALF_FP16, else bf16.
 */
#ifndef MW_EXEC_DEVICE_CUDA_DEVICE_H
#define MW_EXEC_DEVICE_CUDA_DEVICE_H

#include <stdint.h>

#if defined(MW_CUDA_EMULATED)
#include "exec/data/convert.h"
#else
#include <cuda_runtime.h>

#define MW_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                  \
    kernel<<<grid, block, shared_bytes, (cudaStream_t)(stream)>>>(__VA_ARGS__)
#define MW_SHARED(type, name, dims) __shared__ type name dims
#define MW_DYNAMIC_SHARED(type, name)                                                              \
    extern __shared__ __align__(128) unsigned char mw_dynamic_shared[];                            \
    type *const name = reinterpret_cast<type *>(mw_dynamic_shared)
#endif

/* A file's own: what is called the same may be of another type of halves in another file. */
#define MW_DEVICE static __device__ __forceinline__

#if defined(MW_HALF_FP16)
#define MW_HALF_PTX "f16" /* in names of instructions */
#else
#define MW_HALF_PTX "bf16"
#endif

MW_DEVICE float
mw_bf16_to_float(uint16_t x)
{
    return __uint_as_float((uint32_t)x << 16);
}

MW_DEVICE float
mw_half_to_float(uint16_t x)
{
#if !defined(MW_HALF_FP16)
    return mw_bf16_to_float(x);
#elif defined(MW_CUDA_EMULATED)
    return mw_fp32_of_fp16(x);
#else
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
#endif
}

/* The lower and the upper half of a word. */
MW_DEVICE float
mw_half_low(uint32_t pair)
{
    return mw_half_to_float((uint16_t)pair);
}

MW_DEVICE float
mw_half_high(uint32_t pair)
{
#if defined(MW_HALF_FP16)
    return mw_half_to_float((uint16_t)(pair >> 16));
#else
    return __uint_as_float(pair & 0xffff0000u);
#endif
}

/* To nearest, ties to even, infinite beyond the type's range, subnormals kept; any NaN becomes
 * 0x7fff. */
MW_DEVICE uint16_t
mw_float_to_bf16(float x)
{
#if defined(MW_CUDA_EMULATED)
    return x != x ? 0x7fff : mw_bf16_of_fp32(x);
#else
    uint16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#endif
}

MW_DEVICE uint16_t
mw_float_to_half(float x)
{
#if !defined(MW_HALF_FP16)
    return mw_float_to_bf16(x);
#elif defined(MW_CUDA_EMULATED)
    return x != x ? 0x7fff : mw_fp16_of_fp32(x);
#else
    uint16_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#endif
}

MW_DEVICE uint32_t
mw_floats_to_half(float low, float high)
{
#if defined(MW_CUDA_EMULATED)
    return mw_float_to_half(low) | (uint32_t)mw_float_to_half(high) << 16;
#else
    uint32_t pair;
    asm("cvt.rn." MW_HALF_PTX "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#endif
}

#endif
