/* AdamW in one pass, and the parts of the gradient norm. */
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/lanes.h"

/* Elements that one thread takes at a time; a multiple of the 32 halves that fill a cache line. */
#define CHUNK 16384

MW_INLINE struct mw_lanes
gradient_lanes(const void *grad, bool fp32, int64_t i)
{
    return fp32 ? mw_lanes_load((const float *)grad + i)
                : mw_lanes_load_half((const mw_element *)grad + i);
}

/* n < 16 */
MW_INLINE struct mw_lanes
last_gradients(const void *grad, bool fp32, int64_t i, int64_t n)
{
    return fp32 ? mw_lanes_load_some((const float *)grad + i, n)
                : mw_lanes_load_half_some((const mw_element *)grad + i, n);
}

MW_INLINE void
update(const struct mw_adamw *s, struct mw_lanes *w, struct mw_lanes *m, struct mw_lanes *v,
       struct mw_lanes grad)
{
    MW_EACH_PART (p) {
        mw_native g = grad.part[p] * s->grad_scale;
        m->part[p] = s->beta1 * m->part[p] + s->one_minus_beta1 * g;
        v->part[p] = s->beta2 * v->part[p] + s->one_minus_beta2 * (g * g);
        mw_native ratio = m->part[p] / (mw_native_sqrt(v->part[p]) * s->v_scale + s->eps);
        w->part[p] = w->part[p] * s->decay - s->corrected_lr * ratio;
    }
}

/* Sixteen elements from i on; their new values. */
MW_INLINE struct mw_lanes
update_at(const struct mw_adamw *s, float *w, float *m, float *v, const void *grad, bool fp32,
          int64_t i)
{
    struct mw_lanes wi = mw_lanes_load(w + i), mi = mw_lanes_load(m + i), vi = mw_lanes_load(v + i);
    update(s, &wi, &mi, &vi, gradient_lanes(grad, fp32, i));
    mw_lanes_store(w + i, wi);
    mw_lanes_store(m + i, mi);
    mw_lanes_store(v + i, vi);
    return wi;
}

/* The last n < 16 elements. */
MW_INLINE struct mw_lanes
update_last(const struct mw_adamw *s, float *w, float *m, float *v, const void *grad, bool fp32,
            int64_t i, int64_t n)
{
    struct mw_lanes wi = mw_lanes_load_some(w + i, n), mi = mw_lanes_load_some(m + i, n),
                    vi = mw_lanes_load_some(v + i, n);
    update(s, &wi, &mi, &vi, last_gradients(grad, fp32, i, n));
    mw_lanes_store_some(w + i, wi, n);
    mw_lanes_store_some(m + i, mi, n);
    mw_lanes_store_some(v + i, vi, n);
    return wi;
}

/* Writes 32 halves past the caches where they are aligned: the line need not be read first. */
MW_INLINE void
put_line(mw_element *param, struct mw_lanes low, struct mw_lanes high)
{
    if (((uintptr_t)param & 63) == 0) {
        mw_lanes_stream_half(param, low);
        mw_lanes_stream_half(param + MW_LANES, high);
    } else {
        mw_lanes_store_half(param, low);
        mw_lanes_store_half(param + MW_LANES, high);
    }
}

MW_INLINE void
adamw_chunk(const struct mw_adamw *s, float *w, float *m, float *v, mw_element *param,
            const void *grad, bool fp32, int64_t start, int64_t end)
{
    int64_t i = start;
    for (; i + 2 * MW_LANES <= end; i += 2 * MW_LANES) {
        struct mw_lanes low = update_at(s, w, m, v, grad, fp32, i);
        struct mw_lanes high = update_at(s, w, m, v, grad, fp32, i + MW_LANES);
        if (param != NULL)
            put_line(param + i, low, high);
    }
    for (; i < end; i += MW_LANES) {
        int64_t n = end - i < MW_LANES ? end - i : MW_LANES;
        struct mw_lanes last = n == MW_LANES ? update_at(s, w, m, v, grad, fp32, i)
                                             : update_last(s, w, m, v, grad, fp32, i, n);
        if (param != NULL)
            mw_lanes_store_half_some(param + i, last, n);
    }
}

void
MW_CPU(adamw)(const struct mw_adamw *step, float *w, float *m, float *v, mw_element *param,
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
        /* Other cores and drives may read param next. */
        mw_lanes_stream_end();
    }
}

_Static_assert(MW_LANES == MW_NORM_LANES, "a vector has the norm's lanes");

/* Sixteen lanes of fp64. */
struct wide_lanes {
    mw_native_f64 part[2 * MW_PARTS];
};

MW_INLINE void
add_squares(struct wide_lanes *sum, struct mw_lanes x)
{
    MW_EACH_PART (p) {
        mw_native_f64 half[2];
        mw_native_widen(half, x.part[p]);
        sum->part[2 * p] += half[0] * half[0];
        sum->part[2 * p + 1] += half[1] * half[1];
    }
}

MW_INLINE double
span_squares(const void *grad, bool fp32, int64_t start, int64_t end)
{
    struct wide_lanes sum = {{{0}}};
    int64_t i = start;
    for (; i + MW_LANES <= end; i += MW_LANES)
        add_squares(&sum, gradient_lanes(grad, fp32, i));
    if (i < end)
        add_squares(&sum, last_gradients(grad, fp32, i, end - i));
    double lane[MW_LANES], total = 0.0;
    memcpy(lane, &sum, sizeof lane);
    for (int at = 0; at < MW_LANES / 2; at++)
        total += lane[at] + lane[at + MW_LANES / 2];
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
