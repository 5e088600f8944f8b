/* AdamW in one pass, and the parts of the gradient norm. */
#include "exec/cpu/isa.h"
#include "exec/cpu/vector.h"

/* Elements that one thread takes at a time; a multiple of the 32 halves that fill a cache line. */
#define CHUNK 16384

MW_INLINE mw_f32x16
root(mw_f32x16 x)
{
#if defined(__AVX512F__)
    return (mw_f32x16)_mm512_sqrt_ps((__m512)x);
#else
    mw_f32x16 y;
    for (int i = 0; i < MW_LANES; i++)
        y[i] = __builtin_sqrtf(x[i]);
    return y;
#endif
}

MW_INLINE mw_f32x16
gradient_lanes(const void *grad, bool fp32, int64_t i, int64_t n)
{
    return fp32 ? mw_load_some((const float *)grad + i, n)
                : mw_load_half_some((const uint16_t *)grad + i, n);
}

MW_INLINE void
update(const struct mw_adamw *s, mw_f32x16 *w, mw_f32x16 *m, mw_f32x16 *v, mw_f32x16 grad)
{
    mw_f32x16 g = grad * s->grad_scale;
    *m = s->beta1 * *m + s->one_minus_beta1 * g;
    *v = s->beta2 * *v + s->one_minus_beta2 * (g * g);
    *w = *w * s->decay - s->corrected_lr * (*m / (root(*v) * s->v_scale + s->eps));
}

/* n <= 16 elements from i on; their new values. */
MW_INLINE mw_f32x16
update_at(const struct mw_adamw *s, float *w, float *m, float *v, const void *grad, bool fp32,
          int64_t i, int64_t n)
{
    mw_f32x16 wi = mw_load_some(w + i, n), mi = mw_load_some(m + i, n), vi = mw_load_some(v + i, n);
    update(s, &wi, &mi, &vi, gradient_lanes(grad, fp32, i, n));
    mw_store_some(w + i, wi, n);
    mw_store_some(m + i, mi, n);
    mw_store_some(v + i, vi, n);
    return wi;
}

/* 32 halves past the caches, where aligned: the line need not be read first. */
MW_INLINE void
stream_half(uint16_t *param, mw_f32x16 low, mw_f32x16 high)
{
    mw_u16x16 half[2] = {mw_narrow(low), mw_narrow(high)};
#if defined(__AVX2__)
    if (((uintptr_t)param & 63) == 0) {
        _mm256_stream_si256((__m256i *)(void *)param, (__m256i)half[0]);
        _mm256_stream_si256((__m256i *)(void *)param + 1, (__m256i)half[1]);
        return;
    }
#endif
    memcpy(param, half, sizeof half);
}

MW_INLINE void
adamw_chunk(const struct mw_adamw *s, float *w, float *m, float *v, uint16_t *param,
            const void *grad, bool fp32, int64_t start, int64_t end)
{
    int64_t i = start;
    for (; i + 2 * MW_LANES <= end; i += 2 * MW_LANES) {
        mw_f32x16 low = update_at(s, w, m, v, grad, fp32, i, MW_LANES);
        mw_f32x16 high = update_at(s, w, m, v, grad, fp32, i + MW_LANES, MW_LANES);
        if (param != NULL)
            stream_half(param + i, low, high);
    }
    for (; i < end; i += MW_LANES) {
        int64_t n = end - i < MW_LANES ? end - i : MW_LANES;
        mw_f32x16 last = update_at(s, w, m, v, grad, fp32, i, n);
        if (param != NULL)
            mw_store_half_some(param + i, last, n);
    }
}

void
MW_CPU(adamw)(const struct mw_adamw *step, float *w, float *m, float *v, uint16_t *param,
              const void *grad, bool grad_fp32, int64_t n)
{
    struct mw_adamw s = *step;
#pragma omp parallel if (n > CHUNK)
    {
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < n; i += CHUNK) {
            int64_t end = n - i < CHUNK ? n : i + CHUNK;
            if (grad_fp32)
                adamw_chunk(&s, w, m, v, param, grad, true, i, end);
            else
                adamw_chunk(&s, w, m, v, param, grad, false, i, end);
        }
#if defined(__AVX2__)
        /* Other cores and drives may read param next. */
        _mm_sfence();
#endif
    }
}

typedef double mw_f64x8 __attribute__((vector_size(64)));
typedef float mw_f32x8 __attribute__((vector_size(32)));

_Static_assert(MW_LANES == MW_NORM_LANES, "a vector has the norm's lanes");

MW_INLINE void
add_squares(mw_f64x8 sum[2], mw_f32x16 x)
{
    mw_f32x8 half[2];
    memcpy(half, &x, sizeof x);
    mw_f64x8 low = __builtin_convertvector(half[0], mw_f64x8);
    mw_f64x8 high = __builtin_convertvector(half[1], mw_f64x8);
    sum[0] += low * low;
    sum[1] += high * high;
}

MW_INLINE double
span_squares(const void *grad, bool fp32, int64_t start, int64_t end)
{
    mw_f64x8 sum[2] = {{0}, {0}};
    int64_t i = start;
    for (; i + MW_LANES <= end; i += MW_LANES)
        add_squares(sum, gradient_lanes(grad, fp32, i, MW_LANES));
    if (i < end)
        add_squares(sum, gradient_lanes(grad, fp32, i, end - i));
    double total = 0.0;
    for (int lane = 0; lane < 8; lane++)
        total += sum[0][lane] + sum[1][lane];
    return total;
}

MW_INLINE double
block_squares(const void *grad, bool fp32, int64_t start, int64_t end)
{
    double total = 0.0;
    for (int64_t i = start; i < end; i += MW_NORM_SPAN)
        total += span_squares(grad, fp32, i, end - i < MW_NORM_SPAN ? end : i + MW_NORM_SPAN);
    return total;
}

void
MW_CPU(square_sums)(double *partial, const void *grad, bool grad_fp32, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > MW_NORM_BLOCK)
    for (int64_t i = 0; i < n; i += MW_NORM_BLOCK) {
        int64_t end = n - i < MW_NORM_BLOCK ? n : i + MW_NORM_BLOCK;
        partial[i / MW_NORM_BLOCK] =
            grad_fp32 ? block_squares(grad, true, i, end) : block_squares(grad, false, i, end);
    }
}
