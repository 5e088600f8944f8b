/* Updates in one pass, and the parts of the gradient norm. */
#include <math.h>

#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/lanes.h"
#include "exec/device/cpu/sides.h"

/* Elements that one thread takes at a time; a multiple of the 32 halves that fill a cache line. */
#define CHUNK 16384

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
    update(s, rule, &of, mw_gradients_at(a->grad, fp32, i, MW_LANES));
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
    update(s, rule, &of, mw_gradients_at(a->grad, fp32, i, n));
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

/* --- moments of fewer bits ------------------------------------------------------------------- */

/* Elements whose moments a thread widens, updates and narrows at a time: they stay in its cache. */
#define WINDOW (4 * MW_DYNAMIC8_BLOCK)

struct window {
    _Alignas(64) float m[WINDOW], v[WINDOW];
};

static void
widen_moments(const struct mw_narrow_moments *of, struct window *window, int64_t i, int64_t n)
{
    const uint16_t *m = (const uint16_t *)of->m + i, *v = (const uint16_t *)of->v + i;

    if (of->m_codes != NULL) {
        MW_CPU(widen_dynamic8)(window->m, of->m, of->m_codes, i, n);
        MW_CPU(widen_dynamic8)(window->v, of->v, of->v_codes, i, n);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        window->m[k] = mw_fp32_of_bf16(m[k]);
    for (int64_t k = 0; k < n; k++)
        window->v[k] = mw_fp32_of_bf16(v[k]);
}

static void
narrow_moments(const struct mw_narrow_moments *of, const struct window *window, int64_t i,
               int64_t n)
{
    int64_t at = i / MW_DYNAMIC8_BLOCK * MW_DYNAMIC8_BYTES;
    uint16_t *m = (uint16_t *)of->m + i, *v = (uint16_t *)of->v + i;

    if (of->m_codes != NULL) {
        MW_CPU(narrow_dynamic8)((char *)of->m + at, window->m, of->m_codes, n);
        MW_CPU(narrow_dynamic8)((char *)of->v + at, window->v, of->v_codes, n);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        m[k] = mw_bf16_of_fp32(window->m[k]);
    for (int64_t k = 0; k < n; k++)
        v[k] = mw_bf16_of_fp32(window->v[k]);
}

/* Elements [i, i + n) of the call, span by span. */
static void
update_window(const struct mw_update_step *step, const struct mw_update_spans *decaying,
              const struct arrays *window, bool fp32, int64_t i, int64_t n)
{
    struct mw_update_step plain = *step;
    int64_t from = i;

    plain.weight_decay = 0.0f;
    plain.decay = 1.0f;
    for (int s = 0; s <= decaying->count && from < i + n; s++) {
        int64_t to = s < decaying->count && decaying->ends[s] < i + n ? decaying->ends[s] : i + n;
        if (to <= from)
            continue;
        if (fp32)
            update_by_rule(s % 2 ? step : &plain, window, true, from - i, to - i);
        else
            update_by_rule(s % 2 ? step : &plain, window, false, from - i, to - i);
        from = to;
    }
}

void
MW_CPU(update_narrow)(const struct mw_update_step *step, const struct mw_update_spans *decaying,
                      float *w, const struct mw_narrow_moments *moments, mw_element *param,
                      const void *grad, bool grad_fp32, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > WINDOW)
    for (int64_t i = 0; i < n; i += WINDOW) {
        int64_t count = n - i < WINDOW ? n - i : WINDOW;
        struct window window;
        struct arrays a = {w + i, window.m, window.v, param != NULL ? param + i : NULL,
                           (const char *)grad + i * (grad_fp32 ? 4 : (int64_t)sizeof *param)};
        widen_moments(moments, &window, i, count);
        update_window(step, decaying, &a, grad_fp32, i, count);
        narrow_moments(moments, &window, i, count);
        mw_lanes_stream_end();
    }
}

/* --- by rows and columns --------------------------------------------------------------------- */

/* Columns that one thread takes of every row: whole lines, which no other thread writes. */
#define STRIP 1024

MW_INLINE mw_native
least(mw_native a, mw_native b)
{
    return mw_native_select(a < b, a, b);
}

MW_INLINE mw_native
largest(mw_native a, mw_native b)
{
    return mw_native_select(a > b, a, b);
}

/* Sixteen neighbours of a row. */
struct sides_at {
    mw_native row;
    struct mw_lanes column, column_next;
    struct mw_lanes nu; /* of SM3 */
};

MW_INLINE void
sm3(const struct mw_update_step *s, struct state *of, struct sides_at *at, int p, mw_native g)
{
    mw_native *m = &of->m.part[p], *w = &of->w.part[p], none = mw_native_splat(0.0f);
    mw_native nu = least(at->row, at->column.part[p]) + g * g;
    mw_native ratio = mw_native_select(nu > none, g / mw_native_sqrt(nu), none);

    *m = s->beta1 * *m + s->one_minus_beta1 * ratio;
    *w = *w * s->decay - s->lr * *m;
    at->nu.part[p] = nu;
    at->column_next.part[p] = largest(at->column_next.part[p], nu);
}

MW_INLINE void
adafactor(const struct mw_update_step *s, struct state *of, const struct sides_at *at, int p,
          mw_native g)
{
    mw_native *w = &of->w.part[p];

    *w = *w * s->decay - s->lr * mw_adafactor_takes(g, at->row, at->column.part[p]);
}

/* Of a call: its rule is a constant where it is used. */
struct by_sides {
    const struct mw_update_step *s;
    const struct mw_update_vectors *v;
    const struct arrays *a;
    bool fp32, raises; /* raises: SM3, which has momentum and maxima */
};

MW_INLINE struct mw_lanes
load(const float *x, int64_t n)
{
    return n == MW_LANES ? mw_lanes_load(x) : mw_lanes_load_some(x, n);
}

MW_INLINE void
store(float *x, struct mw_lanes v, int64_t n)
{
    if (n == MW_LANES)
        mw_lanes_store(x, v);
    else
        mw_lanes_store_some(x, v, n);
}

/* Elements [i, i + n) of the call, n <= 16, from column c on; returns the largest nu. */
MW_INLINE float
sides_lanes(struct by_sides it, mw_native row, int64_t i, int64_t c, int64_t n)
{
    const struct arrays *a = it.a;
    struct sides_at at = {.row = row, .column = load(it.v->column + c, n)};
    struct state of = {.w = load(a->w + i, n)};
    struct mw_lanes g = mw_gradients_at(a->grad, it.fp32, i, n);

    if (it.raises) {
        at.column_next = load(it.v->column_next + c, n);
        of.m = load(a->m + i, n);
    }
    MW_EACH_PART (p) {
        if (it.raises)
            sm3(it.s, &of, &at, p, g.part[p] * it.s->grad_scale);
        else
            adafactor(it.s, &of, &at, p, g.part[p] * it.s->grad_scale);
    }
    store(a->w + i, of.w, n);
    if (a->param != NULL)
        mw_lanes_store_half_some(a->param + i, of.w, n);
    if (!it.raises)
        return 0.0f;
    store(it.v->column_next + c, at.column_next, n);
    store(a->m + i, of.m, n);
    return mw_lanes_max(n == MW_LANES ? at.nu : mw_lanes_first(at.nu, n, 0.0f));
}

/* Columns [c, end) of a row, of which the call's element i is the first; returns the largest nu. */
MW_INLINE float
sides_row(struct by_sides it, float row, int64_t i, int64_t c, int64_t end)
{
    mw_native of_row = mw_native_splat(row);
    float most = 0.0f;

    for (int64_t at = c; at < end; at += MW_LANES) {
        int64_t n = end - at < MW_LANES ? end - at : MW_LANES;
        float nu = n == MW_LANES ? sides_lanes(it, of_row, i + at - c, at, MW_LANES)
                                 : sides_lanes(it, of_row, i + at - c, at, n);
        most = nu > most ? nu : most;
    }
    return most;
}

/* Numbers that are at least 0 have the order of their bits.  Strips of a row meet here; a maximum
 * has the same bits in any order. */
static void
raise_to(float *most, float value)
{
    uint32_t now, bits, *at = (uint32_t *)(void *)most;

    memcpy(&bits, &value, sizeof bits);
    now = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (bits > now &&
           !__atomic_compare_exchange_n(at, &now, bits, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

/* Columns [begin, end) of all rows of the call. */
MW_INLINE void
sides_strip(struct by_sides it, int64_t begin, int64_t end, int64_t n)
{
    const struct mw_update_vectors *v = it.v;
    int64_t last = v->first + n;
    float none = it.raises ? INFINITY : 1.0f;

    for (int64_t r = v->first / v->columns; r * v->columns < last; r++) {
        int64_t of_row = r * v->columns;
        struct mw_columns of = mw_columns_of(v->first - of_row, last - of_row, begin, end);
        if (of.from >= of.to)
            continue;
        float most = sides_row(it, v->row != NULL ? v->row[r] : none, of_row + of.from - v->first,
                               of.from, of.to);
        if (it.raises && v->row != NULL)
            raise_to(v->row_next + r, most);
    }
}

MW_INLINE void
strip_by_rule(struct by_sides it, int64_t begin, int64_t end, int64_t n)
{
    if (it.s->rule == MW_UPDATE_SM3) {
        it.raises = true;
        sides_strip(it, begin, end, n);
    } else {
        it.raises = false;
        sides_strip(it, begin, end, n);
    }
}

void
MW_CPU(update_by_vectors)(const struct mw_update_step *step,
                          const struct mw_update_vectors *vectors, float *w, float *m,
                          mw_element *param, const void *grad, bool grad_fp32, int64_t n)
{
    struct mw_update_step s = *step;
    struct mw_update_vectors v = *vectors;
    struct arrays a = {w, m, NULL, param, grad};
#pragma omp parallel for schedule(static) if (n > CHUNK)
    for (int64_t c = 0; c < v.columns; c += STRIP) {
        int64_t end = v.columns - c < STRIP ? v.columns : c + STRIP;
        struct by_sides it = {.s = &s, .v = &v, .a = &a, .fp32 = true};
        if (grad_fp32) {
            strip_by_rule(it, c, end, n);
        } else {
            it.fp32 = false;
            strip_by_rule(it, c, end, n);
        }
    }
}

/* --- the norm -------------------------------------------------------------------------------- */

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
        add_squares(&sum, mw_gradients_at(grad, fp32, i, MW_LANES));
    if (i < end)
        add_squares(&sum, mw_gradients_at(grad, fp32, i, end - i));
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
