/* Conversions, sums and activations: each output element from its own inputs. */
#include "exec/device/cpu/cache.h"
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/pairs.h"
#include "exec/device/cpu/vector_math.h"

#include <pthread.h>

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
    MW_INLINE struct mw_lanes name##_lanes(struct mw_lanes x)                                      \
    {                                                                                              \
        MW_EACH_PART (p)                                                                           \
            x.part[p] = f(x.part[p]);                                                              \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    static void name##_chunk(mw_element *y, const mw_element *x, int64_t n)                        \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + MW_LANES <= n; i += MW_LANES)                                                   \
            mw_lanes_store_pairs(y + i, name##_lanes(mw_lanes_load_pairs(x + i)));                 \
        if (i < n)                                                                                 \
            mw_lanes_store_pairs_some(y + i, name##_lanes(mw_lanes_load_pairs_some(x + i, n - i)), \
                                      n - i);                                                      \
    }                                                                                              \
                                                                                                   \
    void MW_CPU(name)(mw_element * y, const mw_element *x, int64_t n)                              \
    {                                                                                              \
        _Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < n; i += CHUNK)        \
            name##_chunk(y + i, x + i, chunk_length(i, n));                                        \
    }

#define BINARY(name, f)                                                                            \
    MW_INLINE struct mw_lanes name##_lanes(struct mw_lanes a, struct mw_lanes b)                   \
    {                                                                                              \
        MW_EACH_PART (p)                                                                           \
            a.part[p] = f(a.part[p], b.part[p]);                                                   \
        return a;                                                                                  \
    }                                                                                              \
                                                                                                   \
    MW_INLINE void name##_chunk(mw_element *y, const mw_element *a, const mw_element *b,           \
                                int64_t n, bool streams)                                           \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + MW_LANES <= n; i += MW_LANES)                                                   \
            mw_lanes_put_pairs(                                                                    \
                y + i, name##_lanes(mw_lanes_load_pairs(a + i), mw_lanes_load_pairs(b + i)),       \
                MW_LANES, streams);                                                                \
        if (i < n)                                                                                 \
            mw_lanes_store_pairs_some(y + i,                                                       \
                                      name##_lanes(mw_lanes_load_pairs_some(a + i, n - i),         \
                                                   mw_lanes_load_pairs_some(b + i, n - i)),        \
                                      n - i);                                                      \
    }                                                                                              \
                                                                                                   \
    void MW_CPU(name)(mw_element * y, const mw_element *a, const mw_element *b, int64_t n)         \
    {                                                                                              \
        bool streams = y != a && y != b && mw_cpu_streams(y, n * (int64_t)sizeof *y);              \
        _Pragma("omp parallel")                                                                    \
        {                                                                                          \
            _Pragma("omp for schedule(static) nowait") for (int64_t i = 0; i < n; i += CHUNK)      \
            {                                                                                      \
                if (streams)                                                                       \
                    name##_chunk(y + i, a + i, b + i, chunk_length(i, n), true);                   \
                else                                                                               \
                    name##_chunk(y + i, a + i, b + i, chunk_length(i, n), false);                  \
            }                                                                                      \
            mw_lanes_stream_end();                                                                 \
        }                                                                                          \
    }

#if defined(MW_ELEMENT_FP32)

#define ACTIVATION(name, f, f_slope)                                                               \
    MW_INLINE mw_native name##_back(mw_native dy, mw_native x)                                     \
    {                                                                                              \
        return dy * f_slope(x);                                                                    \
    }                                                                                              \
    UNARY(name##_forward, f)                                                                       \
    BINARY(name##_backward, name##_back)

#else

/* A function of one half has 65,536 values.  Where registers have sixteen lanes, the values are
 * computed as quickly as they are looked up.  Elsewhere they come from a table, which the same
 * vectors fill when it is first needed; the values that activations take lie in a few kilobytes of
 * it. */
#define HALF_VALUES 65536

struct activation {
    pthread_once_t once;
    mw_element value[HALF_VALUES];
    float slope[HALF_VALUES];
};

MW_INLINE void
fill_activation(struct activation *a, mw_native f(mw_native), mw_native slope(mw_native))
{
    for (int x = 0; x < HALF_VALUES; x += MW_LANES) {
        mw_element half[MW_LANES];
        struct mw_lanes value, d;
        for (int i = 0; i < MW_LANES; i++)
            half[i] = (uint16_t)(x + i);
        value = d = mw_lanes_load_half(half);
        MW_EACH_PART (p) {
            value.part[p] = f(value.part[p]);
            d.part[p] = slope(d.part[p]);
        }
        mw_lanes_store_half(a->value + x, value);
        mw_lanes_store(a->slope + x, d);
    }
}

static void
look_up_values(mw_element *y, const mw_element *x, const struct activation *a, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        mw_element four[4] = {a->value[x[i]], a->value[x[i + 1]], a->value[x[i + 2]],
                              a->value[x[i + 3]]};
        memcpy(y + i, four, sizeof four);
    }
    for (; i < n; i++)
        y[i] = a->value[x[i]];
}

/* In two steps: a vector load right after stores of four elements would have to wait for them. */
static void
look_up_slopes(mw_element *dx, const mw_element *dy, const mw_element *x,
               const struct activation *a, int64_t n)
{
    float slope[CHUNK] __attribute__((aligned(64)));
    for (int64_t i = 0; i < n; i++)
        slope[i] = a->slope[x[i]];
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES) {
        struct mw_lanes d = mw_lanes_load_half(dy + i);
        MW_EACH_PART (p)
            d.part[p] *= mw_native_load(slope + i + p * MW_WIDTH);
        mw_lanes_store_half(dx + i, d);
    }
    if (i == n)
        return;
    struct mw_lanes d = mw_lanes_load_half_some(dy + i, n - i),
                    s = mw_lanes_load_some(slope + i, n - i);
    MW_EACH_PART (p)
        d.part[p] *= s.part[p];
    mw_lanes_store_half_some(dx + i, d, n - i);
}

#define ACTIVATION(name, f, f_slope)                                                               \
    static struct activation name##_table = {.once = PTHREAD_ONCE_INIT};                           \
                                                                                                   \
    static void name##_fill(void)                                                                  \
    {                                                                                              \
        fill_activation(&name##_table, f, f_slope);                                                \
    }                                                                                              \
                                                                                                   \
    void MW_CPU(name##_forward)(mw_element * y, const mw_element *x, int64_t n)                    \
    {                                                                                              \
        pthread_once(&name##_table.once, name##_fill);                                             \
        _Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < n; i += CHUNK)        \
            look_up_values(y + i, x + i, &name##_table, chunk_length(i, n));                       \
    }                                                                                              \
                                                                                                   \
    void MW_CPU(name##_backward)(mw_element * dx, const mw_element *dy, const mw_element *x,       \
                                 int64_t n)                                                        \
    {                                                                                              \
        pthread_once(&name##_table.once, name##_fill);                                             \
        _Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < n; i += CHUNK)        \
            look_up_slopes(dx + i, dy + i, x + i, &name##_table, chunk_length(i, n));              \
    }

#endif

MW_INLINE mw_native
gelu_tanh(mw_native x)
{
    return mw_tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * (x * x * x)));
}

MW_INLINE mw_native
gelu(mw_native x)
{
    return 0.5f * x * (1.0f + gelu_tanh(x));
}

MW_INLINE mw_native
gelu_slope(mw_native x)
{
    mw_native t = gelu_tanh(x);
    mw_native inner = SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBIC * (x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

MW_INLINE mw_native
gelu_erf(mw_native x)
{
    return 0.5f * x * (1.0f + mw_erf(x * SQRT_HALF));
}

MW_INLINE mw_native
gelu_erf_slope(mw_native x)
{
    mw_native density = INV_SQRT_2PI * mw_exp(-0.5f * (x * x));
    return 0.5f * (1.0f + mw_erf(x * SQRT_HALF)) + x * density;
}

MW_INLINE mw_native
relu(mw_native x)
{
    return mw_native_unless(x < 0.0f, x);
}

MW_INLINE mw_native
relu_slope(mw_native dy, mw_native x)
{
    return (mw_native)((x > 0.0f) & (mw_native_i32)dy);
}

MW_INLINE mw_native
swiglu(mw_native gate, mw_native up)
{
    return gate * mw_sigmoid(gate) * up;
}

BINARY(add, mw_native_add)
ACTIVATION(gelu, gelu, gelu_slope)
ACTIVATION(gelu_erf, gelu_erf, gelu_erf_slope)
UNARY(relu_forward, relu)
BINARY(relu_backward, relu_slope)
BINARY(swiglu_forward, swiglu)

/* silu'(g) = s (1 + g (1 - s)), s = sigmoid(g) */
MW_INLINE void
swiglu_slopes(mw_native *dgate, mw_native *dup, mw_native dy, mw_native gate, mw_native up)
{
    mw_native s = mw_sigmoid(gate);
    *dgate = dy * up * (s * (1.0f + gate * (1.0f - s)));
    *dup = dy * (gate * s);
}

MW_INLINE void
swiglu_slopes_lanes(struct mw_lanes *dgate, struct mw_lanes *dup, struct mw_lanes dy,
                    struct mw_lanes gate, struct mw_lanes up)
{
    MW_EACH_PART (p)
        swiglu_slopes(&dgate->part[p], &dup->part[p], dy.part[p], gate.part[p], up.part[p]);
}

static void
swiglu_backward_chunk(mw_element *dgate, mw_element *dup, const mw_element *dy,
                      const mw_element *gate, const mw_element *up, int64_t n)
{
    struct mw_lanes dg, du;
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES) {
        swiglu_slopes_lanes(&dg, &du, mw_lanes_load_pairs(dy + i), mw_lanes_load_pairs(gate + i),
                            mw_lanes_load_pairs(up + i));
        mw_lanes_store_pairs(dgate + i, dg);
        mw_lanes_store_pairs(dup + i, du);
    }
    if (i == n)
        return;
    swiglu_slopes_lanes(&dg, &du, mw_lanes_load_pairs_some(dy + i, n - i),
                        mw_lanes_load_pairs_some(gate + i, n - i),
                        mw_lanes_load_pairs_some(up + i, n - i));
    mw_lanes_store_pairs_some(dgate + i, dg, n - i);
    mw_lanes_store_pairs_some(dup + i, du, n - i);
}

void
MW_CPU(swiglu_backward)(mw_element *dgate, mw_element *dup, const mw_element *dy,
                        const mw_element *gate, const mw_element *up, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        swiglu_backward_chunk(dgate + i, dup + i, dy + i, gate + i, up + i, chunk_length(i, n));
}

MW_INLINE void
widen_chunk(float *out, const mw_element *x, int64_t n, bool streams)
{
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES)
        if (streams)
            mw_lanes_stream(out + i, mw_lanes_load_half(x + i));
        else
            mw_lanes_store(out + i, mw_lanes_load_half(x + i));
    if (i < n)
        mw_lanes_store_some(out + i, mw_lanes_load_half_some(x + i, n - i), n - i);
}

void
MW_CPU(widen)(float *out, const mw_element *x, int64_t n)
{
    bool streams = mw_cpu_streams(out, n * (int64_t)sizeof *out);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < n; i += CHUNK)
            if (streams)
                widen_chunk(out + i, x + i, chunk_length(i, n), true);
            else
                widen_chunk(out + i, x + i, chunk_length(i, n), false);
        mw_lanes_stream_end();
    }
}

MW_INLINE void
narrow_chunk(mw_element *out, const float *x, int64_t n, bool streams)
{
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES)
        if (streams)
            mw_lanes_stream_half(out + i, mw_lanes_load(x + i));
        else
            mw_lanes_store_half(out + i, mw_lanes_load(x + i));
    if (i < n)
        mw_lanes_store_half_some(out + i, mw_lanes_load_some(x + i, n - i), n - i);
}

void
MW_CPU(narrow)(mw_element *out, const float *x, int64_t n)
{
    bool streams = mw_cpu_streams(out, n * (int64_t)sizeof *out);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < n; i += CHUNK)
            if (streams)
                narrow_chunk(out + i, x + i, chunk_length(i, n), true);
            else
                narrow_chunk(out + i, x + i, chunk_length(i, n), false);
        mw_lanes_stream_end();
    }
}

static void
scale_chunk(mw_element *x, float factor, int64_t n)
{
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES)
        mw_lanes_store_half(x + i, mw_lanes_scale(mw_lanes_load_half(x + i), factor));
    if (i < n)
        mw_lanes_store_half_some(
            x + i, mw_lanes_scale(mw_lanes_load_half_some(x + i, n - i), factor), n - i);
}

void
MW_CPU(scale)(mw_element *x, float factor, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        scale_chunk(x + i, factor, chunk_length(i, n));
}

static void
accumulate_chunk(float *total, const mw_element *x, int64_t n)
{
    int64_t i = 0;
    for (; i + MW_LANES <= n; i += MW_LANES)
        mw_lanes_store(total + i,
                       mw_lanes_add(mw_lanes_load(total + i), mw_lanes_load_half(x + i)));
    if (i < n)
        mw_lanes_store_some(total + i,
                            mw_lanes_add(mw_lanes_load_some(total + i, n - i),
                                         mw_lanes_load_half_some(x + i, n - i)),
                            n - i);
}

void
MW_CPU(accumulate)(float *total, const mw_element *x, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += CHUNK)
        accumulate_chunk(total + i, x + i, chunk_length(i, n));
}
