/* Conversions, sums and activations: each output element from its own inputs. */
#include "exec/cpu/isa.h"
#include "exec/cpu/vector.h"
#include "exec/cpu/vector_math.h"

/* Elements that one thread takes at a time. */
#define CHUNK 4096

#define SQRT_2_OVER_PI 0.79788456f
#define GELU_CUBIC 0.044715f
#define SQRT_HALF 0.70710678f
#define INV_SQRT_2PI 0.39894228f

MW_INLINE int64_t
chunk_length(int64_t start, int64_t n)
{
    return n - start < CHUNK ? n - start : CHUNK;
}

/* A kernel of one input (f of its lanes) or two. */
#define UNARY(name, f)                                                                             \
    static void name##_chunk(uint16_t *y, const uint16_t *x, int64_t n)                            \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + MW_LANES <= n; i += MW_LANES)                                                   \
            mw_store_half(y + i, f(mw_load_half(x + i)));                                          \
        if (i < n)                                                                                 \
            mw_store_half_some(y + i, f(mw_load_half_some(x + i, n - i)), n - i);                  \
    }                                                                                              \
                                                                                                   \
    void MW_CPU(name)(uint16_t * y, const uint16_t *x, int64_t n)                                  \
    {                                                                                              \
        _Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < n; i += CHUNK)        \
            name##_chunk(y + i, x + i, chunk_length(i, n));                                        \
    }

#define BINARY(name, f)                                                                            \
    static void name##_chunk(uint16_t *y, const uint16_t *a, const uint16_t *b, int64_t n)         \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + MW_LANES <= n; i += MW_LANES)                                                   \
            mw_store_half(y + i, f(mw_load_half(a + i), mw_load_half(b + i)));                     \
        if (i < n)                                                                                 \
            mw_store_half_some(                                                                    \
                y + i, f(mw_load_half_some(a + i, n - i), mw_load_half_some(b + i, n - i)),        \
                n - i);                                                                            \
    }                                                                                              \
                                                                                                   \
    void MW_CPU(name)(uint16_t * y, const uint16_t *a, const uint16_t *b, int64_t n)               \
    {                                                                                              \
        _Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < n; i += CHUNK)        \
            name##_chunk(y + i, a + i, b + i, chunk_length(i, n));                                 \
    }

MW_INLINE mw_f32x16
sum(mw_f32x16 a, mw_f32x16 b)
{
    return a + b;
}

MW_INLINE mw_f32x16
gelu_tanh(mw_f32x16 x)
{
    return mw_tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * (x * x * x)));
}

MW_INLINE mw_f32x16
gelu(mw_f32x16 x)
{
    return 0.5f * x * (1.0f + gelu_tanh(x));
}

MW_INLINE mw_f32x16
gelu_slope(mw_f32x16 dy, mw_f32x16 x)
{
    mw_f32x16 t = gelu_tanh(x);
    mw_f32x16 inner = SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBIC * (x * x));
    return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner);
}

MW_INLINE mw_f32x16
gelu_erf(mw_f32x16 x)
{
    return 0.5f * x * (1.0f + mw_erf(x * SQRT_HALF));
}

MW_INLINE mw_f32x16
gelu_erf_slope(mw_f32x16 dy, mw_f32x16 x)
{
    mw_f32x16 density = INV_SQRT_2PI * mw_exp(-0.5f * (x * x));
    return dy * (0.5f * (1.0f + mw_erf(x * SQRT_HALF)) + x * density);
}

MW_INLINE mw_f32x16
relu(mw_f32x16 x)
{
    return mw_select(x < mw_splat(0.0f), mw_splat(0.0f), x);
}

MW_INLINE mw_f32x16
relu_slope(mw_f32x16 dy, mw_f32x16 x)
{
    return mw_select(x > mw_splat(0.0f), dy, mw_splat(0.0f));
}

MW_INLINE mw_f32x16
swiglu(mw_f32x16 gate, mw_f32x16 up)
{
    return gate * mw_sigmoid(gate) * up;
}

BINARY(add, sum)
UNARY(gelu_forward, gelu)
BINARY(gelu_backward, gelu_slope)
UNARY(gelu_erf_forward, gelu_erf)
BINARY(gelu_erf_backward, gelu_erf_slope)
UNARY(relu_forward, relu)
BINARY(relu_backward, relu_slope)
BINARY(swiglu_forward, swiglu)

/* silu'(g) = s (1 + g (1 - s)), s = sigmoid(g) */
MW_INLINE void
swiglu_slopes(mw_f32x16 *dgate, mw_f32x16 *dup, mw_f32x16 dy, mw_f32x16 gate, mw_f32x16 up)
{
    mw_f32x16 s = mw_sigmoid(gate);
    *dgate = dy * up * (s * (1.0f + gate * (1.0f - s)));
    *dup = dy * (gate * s);
}

static void
swiglu_backward_chunk(uint16_t *dgate, uint16_t *dup, const uint16_t *dy, const uint16_t *gate,
                      const uint16_t *up, int64_t n)
{
    mw_f32x16 dg, du;
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES) {
        swiglu_slopes(&dg, &du, mw_load_half(dy + i), mw_load_half(gate + i), mw_load_half(up + i));
        mw_store_half(dgate + i, dg);
        mw_store_half(dup + i, du);
    }
    if (i == n)
        return;
    swiglu_slopes(&dg, &du, mw_load_half_some(dy + i, n - i), mw_load_half_some(gate + i, n - i),
                  mw_load_half_some(up + i, n - i));
    mw_store_half_some(dgate + i, dg, n - i);
    mw_store_half_some(dup + i, du, n - i);
}

void
MW_CPU(swiglu_backward)(uint16_t *dgate, uint16_t *dup, const uint16_t *dy, const uint16_t *gate,
                        const uint16_t *up, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        swiglu_backward_chunk(dgate + i, dup + i, dy + i, gate + i, up + i, chunk_length(i, n));
}

static void
widen_chunk(float *out, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES)
        mw_store(out + i, mw_load_half(x + i));
    if (i < n)
        mw_store_some(out + i, mw_load_half_some(x + i, n - i), n - i);
}

void
MW_CPU(widen)(float *out, const uint16_t *x, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        widen_chunk(out + i, x + i, chunk_length(i, n));
}

static void
narrow_chunk(uint16_t *out, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES)
        mw_store_half(out + i, mw_load(x + i));
    if (i < n)
        mw_store_half_some(out + i, mw_load_some(x + i, n - i), n - i);
}

void
MW_CPU(narrow)(uint16_t *out, const float *x, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        narrow_chunk(out + i, x + i, chunk_length(i, n));
}

static void
accumulate_chunk(float *total, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES)
        mw_store(total + i, mw_load(total + i) + mw_load_half(x + i));
    if (i < n)
        mw_store_some(total + i, mw_load_some(total + i, n - i) + mw_load_half_some(x + i, n - i),
                      n - i);
}

void
MW_CPU(accumulate)(float *total, const uint16_t *x, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        accumulate_chunk(total + i, x + i, chunk_length(i, n));
}
