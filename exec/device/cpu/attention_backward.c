/*
 * The gradients of attention.  Scores are computed again, in blocks (FlashAttention, arXiv
 * 2205.14135, Algorithm 4).  A thread takes one head of k and v, so that their gradients are summed
 * in order: over the heads of its group, then over the queries.  Scores are held transposed,
 * [key][query]: so the left operand of each product lies in rows as it is.
 */
#include "exec/device/cpu/attention.h"
#include "exec/device/cpu/isa.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#define BLOCK_Q 64
#define BLOCK_K 64

/* One thread's scratch for a block of queries and a block of keys; struct sums follows it. */
struct work {
    float p[BLOCK_K * BLOCK_Q], dp[BLOCK_K * BLOCK_Q];
    mw_left weights[BLOCK_K * BLOCK_Q], ds[BLOCK_K * BLOCK_Q];
    mw_left k[MW_ROWS_ROOM(BLOCK_K * MW_CPU_HEAD_DIM_MAX)];
    mw_left v[MW_ROWS_ROOM(BLOCK_K * MW_CPU_HEAD_DIM_MAX)];
    float lse[BLOCK_Q], delta[BLOCK_Q];
    float dq[MW_CPU_HEAD_DIM_MAX * BLOCK_Q]; /* [dim][query] */
    /* Operands B: */
    mw_right ds_packed[BLOCK_K / MW_DEEP * BLOCK_Q];             /* [key, query] */
    mw_right q_columns[MW_CPU_HEAD_DIM_MAX / MW_DEEP * BLOCK_Q]; /* [dim, query] */
    mw_right do_columns[MW_CPU_HEAD_DIM_MAX / MW_DEEP * BLOCK_Q];
    mw_right q_rows[BLOCK_Q / MW_DEEP * MW_CPU_HEAD_DIM_MAX]; /* [query, dim] */
    mw_right do_rows[BLOCK_Q / MW_DEEP * MW_CPU_HEAD_DIM_MAX];
};

/* Distances between their panels. */
#define DS_PANEL (BLOCK_K / MW_DEEP * MW_PANEL)
#define COLUMNS_PANEL (MW_CPU_HEAD_DIM_MAX / MW_DEEP * MW_PANEL)
#define ROWS_PANEL (BLOCK_Q / MW_DEEP * MW_PANEL)

/* Of one head of k and v over the whole sequence. */
struct head {
    struct work *work;
    float *dk, *dv;    /* [key][padded dim] */
    mw_left *k_turned; /* [dim][padded keys] */
    const mw_element *k, *v;
    int64_t dim, keys;
};

/* A block of at most BLOCK_Q queries of one head, which sees the first so many keys. */
struct queries {
    const mw_element *q, *o, *d_o;
    mw_element *dq;
    const float *lse;
    int64_t first, n, padded, keys;
};

/* Rows of this length begin in different sets of the caches. */
static int64_t
padded_keys(const struct mw_attention *s)
{
    return mw_round_up(mw_keys_of(s), MW_PANEL) + MW_PANEL;
}

static int64_t
work_bytes(const struct mw_attention *s)
{
    int64_t dim = mw_round_up(s->head_dim, MW_PANEL);
    int64_t sums = 2 * mw_keys_of(s) * dim * (int64_t)sizeof(float);
    int64_t turned = s->head_dim * padded_keys(s) * (int64_t)sizeof(mw_left);
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
    struct head head = {.dim = mw_round_up(s->head_dim, MW_PANEL), .keys = padded_keys(s)};
    int thread = 0;
#if defined(_OPENMP)
    thread = omp_get_thread_num();
#endif
    head.work = (void *)((char *)scratch + thread * work_bytes(s));
    head.dk = (float *)(head.work + 1);
    head.dv = head.dk + mw_keys_of(s) * head.dim;
    head.k_turned = (mw_left *)(head.dv + mw_keys_of(s) * head.dim);
    return head;
}

static void
turn_keys(const struct mw_attention *s, const struct head *head)
{
    for (int64_t c = 0; c < s->head_dim; c++) {
        mw_left *row = head->k_turned + c * head->keys;
        for (int64_t key = 0; key < mw_keys_of(s); key++)
            row[key] = mw_left_one(head->k[key * s->ld_k + c]);
        for (int64_t key = mw_keys_of(s); key < head->keys; key++)
            row[key] = 0;
    }
}

/* delta = the sum of do * o over a row: the term that softmax's gradient subtracts. */
static float
row_delta(const mw_element *d_o, const mw_element *o, int64_t n)
{
    struct mw_lanes sum = {0};
    for (int64_t c = 0; c < n; c += MW_LANES) {
        struct mw_lanes a = mw_take(d_o + c, n - c), b = mw_take(o + c, n - c);
        MW_EACH_PART (p)
            sum.part[p] += a.part[p] * b.part[p];
    }
    return mw_lanes_sum(sum);
}

static void
pack_padded_rows(mw_right *out, const mw_element *x, int64_t ld, int64_t rows, int64_t padded,
                 int64_t columns)
{
    mw_pack_rows(out, ROWS_PANEL, x, ld, rows, columns);
    mw_clear_steps(out, ROWS_PANEL, mw_round_up(columns, MW_PANEL), rows, padded);
}

static void
load_queries(const struct mw_attention *s, const struct head *head, const struct queries *b)
{
    struct work *w = head->work;
    mw_pack_transposed(w->q_columns, COLUMNS_PANEL, b->q, s->ld_q, b->n, s->head_dim);
    mw_pack_transposed(w->do_columns, COLUMNS_PANEL, b->d_o, s->ld_o, b->n, s->head_dim);
    pack_padded_rows(w->q_rows, b->q, s->ld_q, b->n, b->padded, s->head_dim);
    pack_padded_rows(w->do_rows, b->d_o, s->ld_o, b->n, b->padded, s->head_dim);
    memset(w->dq, 0, (size_t)(s->head_dim * BLOCK_Q) * sizeof *w->dq);
    for (int64_t i = 0; i < b->padded; i++) {
        bool real = i < b->n;
        w->lse[i] = real ? b->lse[i] * MW_LOG2_E : -MW_MASKED;
        w->delta[i] =
            real ? row_delta(b->d_o + i * s->ld_o, b->o + i * s->ld_o, s->head_dim) : 0.0f;
    }
}

/* A key gets no weight from queries before it: lanes below `from`. */
MW_INLINE mw_native
only_from(mw_native v, int64_t from)
{
    static const int32_t lane[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    mw_native_i32 index;
    memcpy(&index, lane, sizeof index);
    return mw_native_unless(index < (int32_t)from, v);
}

/* One key's weights and their gradients towards the block's queries, in 16 bits. */
MW_INLINE void
differentiate(struct work *w, int64_t row, int64_t padded, int64_t seen_from, float scale)
{
    for (int64_t i = 0; i < padded; i += MW_WIDTH) {
        mw_native lse = mw_native_load(w->lse + i), delta = mw_native_load(w->delta + i);
        mw_native score = mw_native_load(w->p + row * BLOCK_Q + i);
        mw_native p = mw_exp2(mw_native_fma(score, mw_native_splat(scale * MW_LOG2_E), -lse));
        if (seen_from > i)
            p = only_from(p, mw_smaller(seen_from - i, MW_WIDTH));
        mw_native dp = mw_native_load(w->dp + row * BLOCK_Q + i);
        mw_store_left(w->weights + row * BLOCK_Q + i, p);
        mw_store_left(w->ds + row * BLOCK_Q + i, p * ((dp - delta) * scale));
    }
}

static void
visit_keys(const struct mw_attention *s, const struct head *head, const struct queries *b,
           int64_t first)
{
    struct work *w = head->work;
    int64_t n = mw_smaller(b->keys - first, BLOCK_K);
    const struct mw_rows k =
        mw_rows_of(w->k, MW_CPU_HEAD_DIM_MAX, head->k + first * s->ld_k, s->ld_k, n, s->head_dim);
    const struct mw_rows v =
        mw_rows_of(w->v, MW_CPU_HEAD_DIM_MAX, head->v + first * s->ld_v, s->ld_v, n, s->head_dim);
    mw_multiply(mw_panel_of(w->p, BLOCK_Q, k, w->q_columns, COLUMNS_PANEL), n, b->padded,
                s->head_dim, false);
    mw_multiply(mw_panel_of(w->dp, BLOCK_Q, v, w->do_columns, COLUMNS_PANEL), n, b->padded,
                s->head_dim, false);
    for (int64_t row = 0; row < n; row++)
        differentiate(w, row, b->padded, s->keys ? 0 : first + row - b->first, s->scale);
    mw_pack_again(w->ds_packed, DS_PANEL, w->ds, BLOCK_Q, n, b->padded);
    const struct mw_rows weights = {w->weights, BLOCK_Q}, ds = {w->ds, BLOCK_Q};
    const struct mw_rows k_turned = {head->k_turned + first, head->keys};
    float *dk = head->dk + first * head->dim, *dv = head->dv + first * head->dim;
    mw_multiply(mw_panel_of(dv, head->dim, weights, w->do_rows, ROWS_PANEL), n, head->dim,
                b->padded, true);
    mw_multiply(mw_panel_of(dk, head->dim, ds, w->q_rows, ROWS_PANEL), n, head->dim, b->padded,
                true);
    mw_multiply(mw_panel_of(w->dq, BLOCK_Q, k_turned, w->ds_packed, DS_PANEL), s->head_dim,
                b->padded, mw_round_up(n, MW_DEEP), true);
}

MW_INLINE void
put_or_add(mw_element *x, struct mw_lanes v, int64_t n, bool adds)
{
    if (adds) {
        struct mw_lanes there = mw_take(x, n);
        MW_EACH_PART (p)
            v.part[p] += there.part[p];
    }
    mw_put(x, v, n);
}

static void
put_queries(const struct mw_attention *s, const struct work *w, const struct queries *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        for (int64_t c = 0; c < s->head_dim; c += MW_LANES) {
            float row[MW_LANES] = {0};
            for (int64_t lane = 0; lane < mw_smaller(MW_LANES, s->head_dim - c); lane++)
                row[lane] = w->dq[(c + lane) * BLOCK_Q + i];
            put_or_add(b->dq + i * s->ld_q + c, mw_lanes_load(row), s->head_dim - c, s->adds_q);
        }
    }
}

static void
put_sums(const struct mw_attention *s, mw_element *out, int64_t ld, const struct head *head,
         const float *sums)
{
    for (int64_t r = 0; r < mw_keys_of(s); r++)
        for (int64_t c = 0; c < s->head_dim; c += MW_LANES)
            put_or_add(out + r * ld + c, mw_lanes_load(sums + r * head->dim + c), s->head_dim - c,
                       s->adds_kv);
}

static void
visit_queries(const struct mw_attention *s, const struct head *head, const struct queries *b)
{
    load_queries(s, head, b);
    for (int64_t first = 0; first < b->keys; first += BLOCK_K)
        visit_keys(s, head, b, first);
    put_queries(s, head->work, b);
}

struct pointers {
    mw_element *dq, *dk, *dv;
    const mw_element *d_o, *o, *q, *k, *v;
    const float *lse;
    void *scratch;
};

/* Head g of k and v of sequence b, and the heads of its group. */
static void
differentiate_head(const struct mw_attention *s, const struct pointers *x, int64_t b, int64_t g)
{
    struct head head = lay_out(s, x->scratch);
    int64_t token = b * s->seq, group = s->heads / s->kv_heads;
    int64_t keys = mw_keys_of(s), key = b * keys;
    head.k = x->k + key * s->ld_k + g * s->head_dim;
    head.v = x->v + key * s->ld_v + g * s->head_dim;
    memset(head.dk, 0, (size_t)(keys * head.dim) * sizeof *head.dk);
    memset(head.dv, 0, (size_t)(keys * head.dim) * sizeof *head.dv);
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
                                    x->lse + mw_lse_at(s, b, h) + first,
                                    first,
                                    n,
                                    mw_round_up(n, MW_LANES),
                                    mw_keys_seen(s, first, n)};
            visit_queries(s, &head, &block);
        }
    }
    put_sums(s, x->dk + key * s->ld_k + g * s->head_dim, s->ld_k, &head, head.dk);
    put_sums(s, x->dv + key * s->ld_v + g * s->head_dim, s->ld_v, &head, head.dv);
}

void
MW_CPU(attention_backward)(const struct mw_attention *shape, mw_element *dq, mw_element *dk,
                           mw_element *dv, const mw_element *d_o, const mw_element *o,
                           const float *lse, const mw_element *q, const mw_element *k,
                           const mw_element *v, void *scratch)
{
    const struct pointers x = {dq, dk, dv, d_o, o, q, k, v, lse, scratch};
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < shape->batch * shape->kv_heads; i++)
        differentiate_head(shape, &x, i / shape->kv_heads, i % shape->kv_heads);
}
