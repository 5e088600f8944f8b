/*
 * attention.h - what both passes of attention share.  Scores are kept in base 2: exp(x) is
 * 2^(x log2 e), and the factor log2 e goes into the scale.
 */
#ifndef MW_EXEC_DEVICE_CPU_ATTENTION_H
#define MW_EXEC_DEVICE_CPU_ATTENTION_H

#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/pack.h"
#include "exec/device/cpu/panel.h"
#include "exec/device/cpu/rows.h"

#define MW_LOG2_E 1.44269504f
#define MW_LN_2 0.69314718f
/* Far below any score, yet finite: differences of it are no NaN. */
#define MW_MASKED -1e30f

/* 2^x: x = n + r with |r| <= 1/2, and Taylor's terms up to (r ln 2)^5/5!: relative error below
 * 3e-6. Below -126 it is 0; x is at most a little above 0 here. */
MW_INLINE mw_native
mw_exp2(mw_native x)
{
    mw_native shift = mw_native_splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    mw_native clamped = mw_native_max(x, mw_native_splat(-126.0f));
    mw_native shifted = clamped + shift;
    mw_native r = clamped - (shifted - shift);
    mw_native p =
        mw_native_fma(r, mw_native_splat(1.33335581e-3f), mw_native_splat(9.61812911e-3f));
    p = mw_native_fma(p, r, mw_native_splat(5.55041087e-2f));
    p = mw_native_fma(p, r, mw_native_splat(2.40226507e-1f));
    p = mw_native_fma(p, r, mw_native_splat(6.93147181e-1f));
    p = mw_native_fma(p, r, mw_native_splat(1.0f));
    /* The low bits of shifted are n, up to a constant that leaves on the left. */
    mw_native y = (mw_native)((mw_native_u32)p + ((mw_native_u32)shifted << 23));
    mw_native none = mw_native_select(x != x, x, mw_native_splat(0.0f));
    return mw_native_select(x > mw_native_splat(-126.0f), y, none);
}

/* Elements of a row, rounded to halves as operand A, in the quickest way: subnormal numbers may
 * become zero. */
MW_INLINE void
mw_store_left(mw_left *out, mw_native v)
{
#if MW_DEEP == 2
    __m256bh half = _mm512_cvtneps_pbh((__m512)v);
    memcpy(out, &half, sizeof half);
#elif defined(MW_ELEMENT_FP32)
    mw_native_store(out, v);
#elif defined(MW_HALF_FP16)
    mw_native_u16 half = mw_native_narrow(v);
    mw_element lane[MW_WIDTH];
    memcpy(lane, &half, sizeof half);
    mw_native_store(out, mw_native_load_half(lane));
#else
    mw_native_store(out, (mw_native)(mw_native_round(v) & 0xffff0000u));
#endif
}

/* n elements, at most MW_LANES. */
MW_INLINE struct mw_lanes
mw_take(const mw_element *x, int64_t n)
{
    return n >= MW_LANES ? mw_lanes_load_half(x) : mw_lanes_load_half_some(x, n);
}

MW_INLINE void
mw_put(mw_element *x, struct mw_lanes v, int64_t n)
{
    if (n >= MW_LANES)
        mw_lanes_store_half(x, v);
    else
        mw_lanes_store_half_some(x, v, n);
}

/* A matrix of halves as A: where it lies, or widened in room for rows ld apart. */
struct mw_rows {
    const mw_left *at;
    int64_t ld;
};
#define MW_ROWS_ROOM(n) (MW_DEEP == 1 ? (n) : 1)

MW_INLINE struct mw_rows
mw_rows_of(mw_left *widened, int64_t ld, const mw_element *x, int64_t ld_x, int64_t rows, int64_t k)
{
#if MW_DEEP == 2
    (void)widened, (void)ld, (void)rows, (void)k;
    return (struct mw_rows){x, ld_x};
#else
    mw_pack_left(widened, ld, x, ld_x, rows, k);
    return (struct mw_rows){widened, ld};
#endif
}

/* Keys of a sequence, those that a block of queries from the first-th on sees, and where the
 * log-sum-exp of a head begins. */
MW_INLINE int64_t
mw_keys_of(const struct mw_attention *s)
{
    return s->keys ? s->keys : s->seq;
}

MW_INLINE int64_t
mw_keys_seen(const struct mw_attention *s, int64_t first, int64_t queries)
{
    return s->keys ? s->keys : first + queries;
}

MW_INLINE int64_t
mw_lse_at(const struct mw_attention *s, int64_t sequence, int64_t head)
{
    return (sequence * s->heads + head) * (s->ld_lse ? s->ld_lse : s->seq);
}

/* C (+)= A B for an A in rows. */
MW_INLINE struct mw_panel
mw_panel_of(float *c, int64_t ld_c, struct mw_rows a, const mw_right *b, int64_t b_panel)
{
    return (struct mw_panel){.c = c,
                             .a = a.at,
                             .b = b,
                             .ld_c = ld_c,
                             .a_tile = MW_TILE_ROWS * a.ld,
                             .a_row = a.ld,
                             .a_step = MW_DEEP,
                             .b_panel = b_panel};
}

/* Of m rows and n columns, along k, a multiple of MW_DEEP. */
MW_INLINE void
mw_multiply(struct mw_panel panel, int64_t m, int64_t n, int64_t k, bool accumulate)
{
    panel.m = m;
    panel.n = n;
    panel.steps = k / MW_DEEP;
    panel.accumulate = accumulate;
    mw_panel_product(&panel);
}

/* The forward pass's share of attention_scratch_bytes. */
int64_t MW_CPU(attention_forward_bytes)(const struct mw_attention *shape, int threads);

#endif
