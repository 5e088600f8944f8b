/* Updates in one pass, and the parts of the gradient norm. */
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

/* Sixteen elements. */
struct state {
    struct mw_lanes w, m, v;
};

/* 1, -1, or 0 where x is 0, or NaN. */
MW_INLINE mw_native
sign(mw_native x)
{
    mw_native one = mw_native_splat(1.0f), none = mw_native_splat(0.0f);
    return mw_native_select(x > none, one, none) - mw_native_select(x < none, one, none);
}

MW_INLINE void
adamw(const struct mw_update_step *s, struct state *of, int p, mw_native g)
{
    mw_native *m = &of->m.part[p], *v = &of->v.part[p], *w = &of->w.part[p];

    *m = s->beta1 * *m + s->one_minus_beta1 * g;
    *v = s->beta2 * *v + s->one_minus_beta2 * (g * g);
    mw_native ratio = *m / (mw_native_sqrt(*v) * s->v_scale + s->eps);
    *w = *w * s->decay - s->lr * ratio;
}

MW_INLINE void
sgd(const struct mw_update_step *s, struct state *of, int p, mw_native g, bool momentum)
{
    mw_native *m = &of->m.part[p], *w = &of->w.part[p];

    g = g + s->weight_decay * *w;
    if (momentum)
        g = *m = s->beta1 * *m + g;
    *w = *w - s->lr * g;
}

MW_INLINE void
lion(const struct mw_update_step *s, struct state *of, int p, mw_native g)
{
    mw_native *m = &of->m.part[p], *w = &of->w.part[p];
    mw_native c = s->beta1 * *m + s->one_minus_beta1 * g;

    *m = s->beta2 * *m + s->one_minus_beta2 * g;
    *w = *w * s->decay - s->lr * sign(c);
}

/* The compilers make a loop for each rule, where it is a constant. */
MW_INLINE void
update(const struct mw_update_step *s, enum mw_update_rule rule, struct state *of,
       struct mw_lanes grad)
{
    MW_EACH_PART (p) {
        mw_native g = grad.part[p] * s->grad_scale;
        if (rule == MW_UPDATE_ADAMW)
            adamw(s, of, p, g);
        else if (rule == MW_UPDATE_LION)
            lion(s, of, p, g);
        else
            sgd(s, of, p, g, rule == MW_UPDATE_MOMENTUM);
    }
}

/* What a call works on: arrays of n elements, m and v only where the rule has them. */
struct arrays {
    float *w, *m, *v;
    mw_element *param;
    const void *grad;
};

/* Sixteen elements from i on; their new values. */
MW_INLINE struct mw_lanes
update_at(const struct mw_update_step *s, enum mw_update_rule rule, const struct arrays *a,
          bool fp32, int64_t i)
{
    bool m = rule != MW_UPDATE_SGD, v = rule == MW_UPDATE_ADAMW;
    struct state of = {.w = mw_lanes_load(a->w + i)};

    if (m)
        of.m = mw_lanes_load(a->m + i);
    if (v)
        of.v = mw_lanes_load(a->v + i);
    update(s, rule, &of, gradient_lanes(a->grad, fp32, i));
    mw_lanes_store(a->w + i, of.w);
    if (m)
        mw_lanes_store(a->m + i, of.m);
    if (v)
        mw_lanes_store(a->v + i, of.v);
    return of.w;
}

/* The last n < 16 elements. */
MW_INLINE struct mw_lanes
update_last(const struct mw_update_step *s, enum mw_update_rule rule, const struct arrays *a,
            bool fp32, int64_t i, int64_t n)
{
    bool m = rule != MW_UPDATE_SGD, v = rule == MW_UPDATE_ADAMW;
    struct state of = {.w = mw_lanes_load_some(a->w + i, n)};

    if (m)
        of.m = mw_lanes_load_some(a->m + i, n);
    if (v)
        of.v = mw_lanes_load_some(a->v + i, n);
    update(s, rule, &of, last_gradients(a->grad, fp32, i, n));
    mw_lanes_store_some(a->w + i, of.w, n);
    if (m)
        mw_lanes_store_some(a->m + i, of.m, n);
    if (v)
        mw_lanes_store_some(a->v + i, of.v, n);
    return of.w;
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
update_chunk(const struct mw_update_step *s, enum mw_update_rule rule, const struct arrays *a,
             bool fp32, int64_t start, int64_t end)
{
    int64_t i = start;
    for (; i + 2 * MW_LANES <= end; i += 2 * MW_LANES) {
        struct mw_lanes low = update_at(s, rule, a, fp32, i);
        struct mw_lanes high = update_at(s, rule, a, fp32, i + MW_LANES);
        if (a->param != NULL)
            put_line(a->param + i, low, high);
    }
    for (; i < end; i += MW_LANES) {
        int64_t n = end - i < MW_LANES ? end - i : MW_LANES;
        struct mw_lanes last =
            n == MW_LANES ? update_at(s, rule, a, fp32, i) : update_last(s, rule, a, fp32, i, n);
        if (a->param != NULL)
            mw_lanes_store_half_some(a->param + i, last, n);
    }
}

MW_INLINE void
update_by_rule(const struct mw_update_step *s, const struct arrays *a, bool fp32, int64_t start,
               int64_t end)
{
    if (s->rule == MW_UPDATE_ADAMW)
        update_chunk(s, MW_UPDATE_ADAMW, a, fp32, start, end);
    else if (s->rule == MW_UPDATE_LION)
        update_chunk(s, MW_UPDATE_LION, a, fp32, start, end);
    else if (s->rule == MW_UPDATE_MOMENTUM)
        update_chunk(s, MW_UPDATE_MOMENTUM, a, fp32, start, end);
    else
        update_chunk(s, MW_UPDATE_SGD, a, fp32, start, end);
}

void
MW_CPU(update)(const struct mw_update_step *step, float *w, float *m, float *v, mw_element *param,
               const void *grad, bool grad_fp32, int64_t n)
{
    struct mw_update_step s = *step;
    struct arrays a = {w, m, v, param, grad};
#pragma omp parallel if (n > CHUNK)
    {
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < n; i += CHUNK) {
            int64_t end = n - i < CHUNK ? n : i + CHUNK;
            if (grad_fp32)
                update_by_rule(&s, &a, true, i, end);
            else
                update_by_rule(&s, &a, false, i, end);
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
