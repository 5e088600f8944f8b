/*
 * emulator_math.h - CUDA's functions of numbers; of emulator.h.
 *
 * Functions that a GPU only approaches are off by as much as CUDA's guide (mathematical functions,
 * intrinsic functions) and the PTX ISA allow, up for some arguments, down for others: what passes
 * here does not lean on a precision that a GPU does not have.
 *
 * A result that is no number is the canonical NaN of the PTX ISA, 0x7fffffff, where a CPU has the
 * operand's sign and payload.  Operators are the CPU's: of what they make of NaN no bit is a GPU's.
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

namespace mw_emulated
{
/* What a GPU's fp32 arithmetic leaves of any NaN. */
static inline float
canonical(float y)
{
    const uint32_t nan = 0x7fffffff;
    if (y != y)
        memcpy(&y, &nan, sizeof y);
    return y;
}

/* y, of an argument x, that many units in the last place off; not where a GPU is exact: 0,
 * infinity, NaN, and the values at 0. */
static inline float
off(float y, float x, int ulps)
{
    uint32_t argument, bits;
    memcpy(&argument, &x, sizeof x);
    memcpy(&bits, &y, sizeof y);
    uint32_t size = bits & 0x7fffffff, away = (uint32_t)ulps;
    if (size == 0 || size >= 0x7f800000 || x == 0.0f)
        return canonical(y);
    if ((argument * 2654435761u & 0x80000000u) != 0)
        bits += size + away < 0x7f800000 ? away : 0x7f800000 - size;
    else
        bits -= size > away ? away : size;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* ex2.approx.ftz: subnormal numbers become 0. */
static inline float
exp2_approx(float x)
{
    float y = off(exp2f(x), x, 2);
    return y < 0x1p-126f ? 0.0f : y;
}

static inline float
fast_exp(float x)
{
    float y = expf(x);
    return y == 0.0f ? y : off(y, x, 2 + (int)(1.173f * fabsf(x)));
}

/* The reciprocal of what is above 2^126 is 0. */
static inline float
fast_divide(float a, float b)
{
    return fabsf(b) > 0x1p126f && !isinf(b) ? a * 0.0f : off(a / b, b, 2);
}

static inline float
rough_erf(float x)
{
    return off(erff(x), x, 2);
}

static inline float
rough_log(float x)
{
    return off(logf(x), x - 1.0f, 1);
}

static inline float
fused(float a, float b, float c)
{
    return canonical(fmaf(a, b, c));
}

static inline float
larger(float a, float b)
{
    return a != a ? canonical(b) : b != b ? a : fmaxf(a, b);
}
} // namespace mw_emulated

/* The C library declares functions of these names for itself. */
#define __expf mw_emulated::fast_exp
#define erff mw_emulated::rough_erf
#define logf mw_emulated::rough_log
#define fmaf mw_emulated::fused
#define fmaxf mw_emulated::larger

static inline float
__fsqrt_rn(float x)
{
    return mw_emulated::canonical(sqrtf(x));
}

#define MW_EMULATED_BINARY(name, value)                                                            \
    static inline float name(float a, float b)                                                     \
    {                                                                                              \
        return mw_emulated::canonical(value);                                                      \
    }
MW_EMULATED_BINARY(__fadd_rn, a + b)
MW_EMULATED_BINARY(__fsub_rn, a - b)
MW_EMULATED_BINARY(__fmul_rn, a *b)
MW_EMULATED_BINARY(__fdiv_rn, a / b)
MW_EMULATED_BINARY(__fdividef, mw_emulated::fast_divide(a, b))

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
