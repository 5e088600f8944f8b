/*
 * emulator_math.h - CUDA's functions of numbers; of emulator.h.
 */
#ifndef MW_TESTS_CUDA_EMULATOR_MATH_H
#define MW_TESTS_CUDA_EMULATOR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmath>

static inline int
min(int a, int b)
{
    return a < b ? a : b;
}

/* The C library declares a function of this name for itself. */
#define __expf expf

static inline float
__fsqrt_rn(float x)
{
    return sqrtf(x);
}

#define MW_EMULATED_BINARY(name, value)                                                            \
    static inline float name(float a, float b)                                                     \
    {                                                                                              \
        return value;                                                                              \
    }
MW_EMULATED_BINARY(__fadd_rn, a + b)
MW_EMULATED_BINARY(__fsub_rn, a - b)
MW_EMULATED_BINARY(__fmul_rn, a *b)
MW_EMULATED_BINARY(__fdiv_rn, a / b)
MW_EMULATED_BINARY(__fdividef, a / b)

static inline double
__fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}

static inline float
__uint_as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
