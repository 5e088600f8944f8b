/* Activations: each output element from its own inputs.  exp and division are the device's fast
 * versions: errors below 1e-5 of results that are rounded to 16 bits. */
#include "exec/device/cuda/access.cuh"
#include "exec/device/cuda/half.h"

#define SQRT_2_OVER_PI 0.79788456f
#define GELU_CUBIC 0.044715f
#define SQRT_HALF 0.70710678f
#define INV_SQRT_2PI 0.39894228f

namespace
{

template <float f(float)>
__global__ void
unary(uint16_t *y, const uint16_t *x, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MW_GROUP>();
    float v[MW_GROUP];

    mw_load(v, x + i, n - i, wide);
    for (int k = 0; k < MW_GROUP; k++)
        v[k] = f(v[k]);
    mw_store(y + i, v, n - i, wide);
}

template <float f(float, float)>
__global__ void
binary(uint16_t *y, const uint16_t *a, const uint16_t *b, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MW_GROUP>();
    float va[MW_GROUP], vb[MW_GROUP];

    mw_load(va, a + i, n - i, wide);
    mw_load(vb, b + i, n - i, wide);
    for (int k = 0; k < MW_GROUP; k++)
        va[k] = f(va[k], vb[k]);
    mw_store(y + i, va, n - i, wide);
}

template <float f(float)>
int
launch_unary(void *stream, uint16_t *y, const uint16_t *x, int64_t n)
{
    MW_LAUNCH(unary<f>, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, y, x, n,
              mw_aligned(16, y, x));
    return cudaGetLastError();
}

template <float f(float, float)>
int
launch_binary(void *stream, uint16_t *y, const uint16_t *a, const uint16_t *b, int64_t n)
{
    MW_LAUNCH(binary<f>, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, y, a, b, n,
              mw_aligned(16, y, a, b));
    return cudaGetLastError();
}

MW_DEVICE float
sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

/* (1 + tanh(u)) / 2 = sigmoid(2u), which does not cancel for x far below 0. */
MW_DEVICE float
gelu_share(float x)
{
    return sigmoid(2.0f * SQRT_2_OVER_PI * (x + GELU_CUBIC * (x * x * x)));
}

MW_DEVICE float
gelu(float x)
{
    return x * gelu_share(x);
}

/* s + x s', s' = s (1 - s) (2u)' */
MW_DEVICE float
gelu_slope(float dy, float x)
{
    float s = gelu_share(x);
    float inner = 2.0f * SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBIC * (x * x));

    return dy * (s + x * (s * (1.0f - s)) * inner);
}

MW_DEVICE float
gelu_erf(float x)
{
    return 0.5f * x * (1.0f + erff(x * SQRT_HALF));
}

MW_DEVICE float
gelu_erf_slope(float dy, float x)
{
    float density = INV_SQRT_2PI * __expf(-0.5f * (x * x));

    return dy * (0.5f * (1.0f + erff(x * SQRT_HALF)) + x * density);
}

MW_DEVICE float
relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}

MW_DEVICE float
relu_slope(float dy, float x)
{
    return x > 0.0f ? dy : 0.0f;
}

MW_DEVICE float
swiglu(float gate, float up)
{
    return gate * sigmoid(gate) * up;
}

/* silu'(g) = s (1 + g (1 - s)), s = sigmoid(g) */
__global__ void
swiglu_backward(uint16_t *dgate, uint16_t *dup, const uint16_t *dy, const uint16_t *gate,
                const uint16_t *up, int64_t n, bool wide)
{
    int64_t i = mw_first_element<MW_GROUP>();
    float d[MW_GROUP], g[MW_GROUP], u[MW_GROUP];

    mw_load(d, dy + i, n - i, wide);
    mw_load(g, gate + i, n - i, wide);
    mw_load(u, up + i, n - i, wide);
    for (int k = 0; k < MW_GROUP; k++) {
        float s = sigmoid(g[k]), of_gate = d[k] * u[k] * (s * (1.0f + g[k] * (1.0f - s)));
        u[k] = d[k] * (g[k] * s);
        g[k] = of_gate;
    }
    mw_store(dgate + i, g, n - i, wide);
    mw_store(dup + i, u, n - i, wide);
}

} // namespace

int
MW_CUDA(gelu_forward)(void *stream, uint16_t *y, const uint16_t *x, int64_t n)
{
    return launch_unary<gelu>(stream, y, x, n);
}

int
MW_CUDA(gelu_backward)(void *stream, uint16_t *dx, const uint16_t *dy, const uint16_t *x, int64_t n)
{
    return launch_binary<gelu_slope>(stream, dx, dy, x, n);
}

int
MW_CUDA(gelu_erf_forward)(void *stream, uint16_t *y, const uint16_t *x, int64_t n)
{
    return launch_unary<gelu_erf>(stream, y, x, n);
}

int
MW_CUDA(gelu_erf_backward)(void *stream, uint16_t *dx, const uint16_t *dy, const uint16_t *x,
                           int64_t n)
{
    return launch_binary<gelu_erf_slope>(stream, dx, dy, x, n);
}

int
MW_CUDA(relu_forward)(void *stream, uint16_t *y, const uint16_t *x, int64_t n)
{
    return launch_unary<relu>(stream, y, x, n);
}

int
MW_CUDA(relu_backward)(void *stream, uint16_t *dx, const uint16_t *dy, const uint16_t *x, int64_t n)
{
    return launch_binary<relu_slope>(stream, dx, dy, x, n);
}

int
MW_CUDA(swiglu_forward)(void *stream, uint16_t *y, const uint16_t *gate, const uint16_t *up,
                        int64_t n)
{
    return launch_binary<swiglu>(stream, y, gate, up, n);
}

int
MW_CUDA(swiglu_backward)(void *stream, uint16_t *dgate, uint16_t *dup, const uint16_t *dy,
                         const uint16_t *gate, const uint16_t *up, int64_t n)
{
    MW_LAUNCH(swiglu_backward, mw_blocks(n, MW_GROUP), MW_THREADS, 0, stream, dgate, dup, dy, gate,
              up, n, mw_aligned(16, dgate, dup, dy, gate, up));
    return cudaGetLastError();
}
