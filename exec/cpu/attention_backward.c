/*
 * The gradients of attention, with the scores computed again by blocks (FlashAttention, arXiv
 * 2205.14135, Algorithm 4).  A thread takes one head of k and v, so that their gradients are
 * summed in order: of the heads of its group, then of the queries.  Scores are held transposed,
 * [key][query]: so each product's left operand lies in rows as it is.
 */
#include "exec/cpu/attention.h"
#include "exec/cpu/isa.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#define BLOCK_Q 64
#define BLOCK_K 64

/* One thread's scratch for a block of queries and a block of keys; struct sums follows it. */
struct work {
    float p[BLOCK_K * BLOCK_Q], dp[BLOCK_K * BLOCK_Q];
    uint16_t weights[BLOCK_K * BLOCK_Q], ds[BLOCK_K * BLOCK_Q];
    uint32_t ds_packed[BLOCK_K / 2 * BLOCK_Q];
    float lse[BLOCK_Q], delta[BLOCK_Q];
    float dq[MW_CPU_HEAD_DIM_MAX * BLOCK_Q];               /* [dim][query] */
    uint32_t q_columns[MW_CPU_HEAD_DIM_MAX / 2 * BLOCK_Q]; /* [dim / 2][query] */
    uint32_t do_columns[MW_CPU_HEAD_DIM_MAX / 2 * BLOCK_Q];
    uint32_t q_rows[BLOCK_Q / 2 * MW_CPU_HEAD_DIM_MAX]; /* [query / 2][dim] */
    uint32_t do_rows[BLOCK_Q / 2 * MW_CPU_HEAD_DIM_MAX];
};

/* Of one head of k and v over the whole sequence. */
struct head {
    struct work *work;
    float *dk, *dv;     /* [key][padded dim] */
    uint16_t *k_turned; /* [dim][padded keys] */
    const uint16_t *k, *v;
    int64_t dim, keys;
};

/* A block of at most BLOCK_Q queries of one head. */
struct queries {
    const uint16_t *q, *o, *d_o;
    uint16_t *dq;
    const float *lse;
    int64_t first, n, padded;
};

static int64_t
work_bytes(const struct mw_attention *s)
{
    int64_t keys = mw_round_up(s->seq, MW_LANES), dim = mw_round_up(s->head_dim, MW_LANES);
    int64_t sums = 2 * s->seq * dim * (int64_t)sizeof(float);
    int64_t turned = s->head_dim * keys * (int64_t)sizeof(uint16_t);
    return mw_round_up((int64_t)sizeof(struct work) + sums + turned, 64);
}

int64_t
MW_CPU(attention_scratch_bytes)(const struct mw_attention *shape, int threads)
{
    int64_t forward = MW_CPU(attention_forward_bytes)(shape, threads);
    int64_t backward = threads * work_bytes(shape);
    return forward > backward ? forward : backward;
}

static struct head
lay_out(const struct mw_attention *s, void *scratch)
{
    struct head head = {.dim = mw_round_up(s->head_dim, MW_LANES),
                        .keys = mw_round_up(s->seq, MW_LANES)};
    int thread = 0;
#if defined(_OPENMP)
    thread = omp_get_thread_num();
#endif
    head.work = (void *)((char *)scratch + thread * work_bytes(s));
    head.dk = (float *)(head.work + 1);
    head.dv = head.dk + s->seq * head.dim;
    head.k_turned = (uint16_t *)(head.dv + s->seq * head.dim);
    return head;
}

static void
turn_keys(const struct mw_attention *s, const struct head *head)
{
    for (int64_t c = 0; c < s->head_dim; c++) {
        uint16_t *row = head->k_turned + c * head->keys;
        for (int64_t key = 0; key < s->seq; key++)
            row[key] = head->k[key * s->ld_k + c];
        for (int64_t key = s->seq; key < head->keys; key++)
            row[key] = 0;
    }
}

/* delta = the sum of do * o over a row: what softmax's gradient takes off. */
static float
row_delta(const uint16_t *d_o, const uint16_t *o, int64_t n)
{
    mw_f32x16 sum = {0};
    for (int64_t c = 0; c < n; c += MW_LANES) {
        int64_t lanes = mw_smaller(MW_LANES, n - c);
        sum += mw_load_half_some(d_o + c, lanes) * mw_load_half_some(o + c, lanes);
    }
    return mw_sum(sum);
}

static void
pack_padded_rows(uint32_t *out, int64_t dim, const uint16_t *x, int64_t ld, int64_t rows,
                 int64_t padded, int64_t columns)
{
    mw_pack_rows(out, dim, x, ld, rows, columns);
    for (int64_t pair = (rows + 1) / 2; pair < padded / 2; pair++)
        memset(out + pair * dim, 0, (size_t)dim * sizeof *out);
}

static void
load_queries(const struct mw_attention *s, const struct head *head, const struct queries *b)
{
    struct work *w = head->work;
    mw_pack_transposed(w->q_columns, BLOCK_Q, b->q, s->ld_q, b->n, s->head_dim);
    mw_pack_transposed(w->do_columns, BLOCK_Q, b->d_o, s->ld_o, b->n, s->head_dim);
    pack_padded_rows(w->q_rows, head->dim, b->q, s->ld_q, b->n, b->padded, s->head_dim);
    pack_padded_rows(w->do_rows, head->dim, b->d_o, s->ld_o, b->n, b->padded, s->head_dim);
    memset(w->dq, 0, (size_t)(s->head_dim * BLOCK_Q) * sizeof *w->dq);
    for (int64_t i = 0; i < b->padded; i++) {
        bool real = i < b->n;
        w->lse[i] = real ? b->lse[i] * MW_LOG2_E : -MW_MASKED;
        w->delta[i] =
            real ? row_delta(b->d_o + i * s->ld_o, b->o + i * s->ld_o, s->head_dim) : 0.0f;
    }
}

/* Queries before a key weigh it nothing: lanes below key - first. */
MW_INLINE mw_f32x16
only_from(mw_f32x16 v, int64_t lane)
{
    const mw_i32x16 index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return mw_select(index >= (int32_t)lane, v, mw_splat(0.0f));
}

/* One key's weights and their gradients towards the block's queries, in 16 bits. */
MW_INLINE void
differentiate(struct work *w, int64_t row, int64_t padded, int64_t seen_from, float scale)
{
    for (int64_t i = 0; i < padded; i += MW_LANES) {
        const mw_f32x16 lse = mw_load(w->lse + i), delta = mw_load(w->delta + i);
        mw_f32x16 score = mw_load(w->p + row * BLOCK_Q + i);
        mw_f32x16 p = mw_exp2(mw_fma(score, mw_splat(scale * MW_LOG2_E), -lse));
        if (seen_from > i)
            p = only_from(p, mw_smaller(seen_from - i, MW_LANES));
        mw_f32x16 ds = p * ((mw_load(w->dp + row * BLOCK_Q + i) - delta) * scale);
        mw_u16x16 half = mw_narrow_quick(p), half_ds = mw_narrow_quick(ds);
        memcpy(w->weights + row * BLOCK_Q + i, &half, sizeof half);
        memcpy(w->ds + row * BLOCK_Q + i, &half_ds, sizeof half_ds);
    }
}

static void
visit_keys(const struct mw_attention *s, const struct head *head, const struct queries *b,
           int64_t first)
{
    struct work *w = head->work;
    int64_t n = mw_smaller(b->first + b->n - first, BLOCK_K);
    const struct mw_panel scores = {
        w->p,      head->k + first * s->ld_k, w->q_columns, BLOCK_Q, s->ld_k, BLOCK_Q, n,
        b->padded, s->head_dim / 2,           false};
    const struct mw_panel dp = {
        w->dp,     head->v + first * s->ld_v, w->do_columns, BLOCK_Q, s->ld_v, BLOCK_Q, n,
        b->padded, s->head_dim / 2,           false};
    mw_panel_product(&scores);
    mw_panel_product(&dp);
    for (int64_t row = 0; row < n; row++)
        differentiate(w, row, b->padded, first + row - b->first, s->scale);
    mw_pack_rows(w->ds_packed, BLOCK_Q, w->ds, BLOCK_Q, n, b->padded);
    const struct mw_panel dv = {head->dv + first * head->dim,
                                w->weights,
                                w->do_rows,
                                head->dim,
                                BLOCK_Q,
                                head->dim,
                                n,
                                head->dim,
                                b->padded / 2,
                                true};
    const struct mw_panel dk = {head->dk + first * head->dim,
                                w->ds,
                                w->q_rows,
                                head->dim,
                                BLOCK_Q,
                                head->dim,
                                n,
                                head->dim,
                                b->padded / 2,
                                true};
    const struct mw_panel dq = {w->dq,        head->k_turned + first,
                                w->ds_packed, BLOCK_Q,
                                head->keys,   BLOCK_Q,
                                s->head_dim,  b->padded,
                                (n + 1) / 2,  true};
    mw_panel_product(&dv);
    mw_panel_product(&dk);
    mw_panel_product(&dq);
}

static void
put_queries(const struct mw_attention *s, const struct work *w, const struct queries *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        for (int64_t c = 0; c < s->head_dim; c += MW_LANES) {
            int64_t lanes = mw_smaller(MW_LANES, s->head_dim - c);
            float row[MW_LANES] = {0};
            for (int64_t lane = 0; lane < lanes; lane++)
                row[lane] = w->dq[(c + lane) * BLOCK_Q + i];
            mw_store_half_some(b->dq + i * s->ld_q + c, mw_load(row), lanes);
        }
    }
}

static void
put_sums(uint16_t *out, int64_t ld, const float *sums, int64_t dim, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += MW_LANES)
            mw_store_half_some(out + r * ld + c, mw_load(sums + r * dim + c),
                               mw_smaller(MW_LANES, columns - c));
}

static void
visit_queries(const struct mw_attention *s, const struct head *head, const struct queries *b)
{
    load_queries(s, head, b);
    for (int64_t first = 0; first < b->first + b->n; first += BLOCK_K)
        visit_keys(s, head, b, first);
    put_queries(s, head->work, b);
}

struct pointers {
    uint16_t *dq, *dk, *dv;
    const uint16_t *d_o, *o, *q, *k, *v;
    const float *lse;
    void *scratch;
};

/* Head g of k and v of sequence b, and the heads of its group. */
static void
differentiate_head(const struct mw_attention *s, const struct pointers *x, int64_t b, int64_t g)
{
    struct head head = lay_out(s, x->scratch);
    int64_t token = b * s->seq, group = s->heads / s->kv_heads;
    head.k = x->k + token * s->ld_k + g * s->head_dim;
    head.v = x->v + token * s->ld_v + g * s->head_dim;
    memset(head.dk, 0, (size_t)(s->seq * head.dim) * sizeof *head.dk);
    memset(head.dv, 0, (size_t)(s->seq * head.dim) * sizeof *head.dv);
    turn_keys(s, &head);
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        for (int64_t first = 0; first < s->seq; first += BLOCK_Q) {
            int64_t at_q = (token + first) * s->ld_q + h * s->head_dim;
            int64_t at_o = (token + first) * s->ld_o + h * s->head_dim;
            int64_t n = mw_smaller(BLOCK_Q, s->seq - first);
            struct queries block = {x->q + at_q,
                                    x->o + at_o,
                                    x->d_o + at_o,
                                    x->dq + at_q,
                                    x->lse + (b * s->heads + h) * s->seq + first,
                                    first,
                                    n,
                                    mw_round_up(n, MW_LANES)};
            visit_queries(s, &head, &block);
        }
    }
    put_sums(x->dk + token * s->ld_k + g * s->head_dim, s->ld_k, head.dk, head.dim, s->seq,
             s->head_dim);
    put_sums(x->dv + token * s->ld_v + g * s->head_dim, s->ld_v, head.dv, head.dim, s->seq,
             s->head_dim);
}

void
MW_CPU(attention_backward)(const struct mw_attention *shape, uint16_t *dq, uint16_t *dk,
                           uint16_t *dv, const uint16_t *d_o, const uint16_t *o, const float *lse,
                           const uint16_t *q, const uint16_t *k, const uint16_t *v, void *scratch)
{
    const struct pointers x = {dq, dk, dv, d_o, o, q, k, v, lse, scratch};
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < shape->batch * shape->kv_heads; i++)
        differentiate_head(shape, &x, i / shape->kv_heads, i % shape->kv_heads);
}
