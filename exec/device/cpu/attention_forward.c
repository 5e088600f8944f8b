/*
 * Attention by blocks of queries and keys with a running maximum and sum (FlashAttention,
 * arXiv 2205.14135, Algorithm 1), causal, or of all keys.  A thread takes CHUNK queries of one head
 * of k and v, packs the keys and values that they see, and goes through the heads of the group.
 */
#include "exec/device/cpu/attention.h"
#include "exec/device/cpu/isa.h"

#include <math.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#define CHUNK 256
#define BLOCK_Q 64
#define BLOCK_K 256

/* One thread's scratch; the packed keys and values of a whole sequence follow it. */
struct work {
    float scores[BLOCK_Q * BLOCK_K];
    float out[BLOCK_Q * MW_CPU_HEAD_DIM_MAX];
    float max[BLOCK_Q], sum[BLOCK_Q];
    mw_left weights[BLOCK_Q * BLOCK_K];
    mw_left q[MW_ROWS_ROOM(BLOCK_Q * MW_CPU_HEAD_DIM_MAX)];
};

struct packed {
    struct work *work;
    mw_right *k, *v;          /* [head_dim, keys] and [keys, head_dim] as B */
    int64_t k_panel, v_panel; /* distances between their panels */
    int64_t dim;              /* padded */
};

/* A block of at most BLOCK_Q queries of one head, which sees the first so many keys. */
struct queries {
    const mw_element *q;
    mw_element *o;
    float *lse;
    int64_t first, n, keys;
};

/* Without a scratch: where things would lie. */
static struct packed
describe(const struct mw_attention *s)
{
    int64_t keys = mw_round_up(mw_keys_of(s), MW_PANEL);
    /* One panel more, so that they begin in different sets of the caches. */
    return (struct packed){.k_panel = mw_steps(s->head_dim) * MW_PANEL,
                           .v_panel = mw_steps(keys) * MW_PANEL + MW_PANEL,
                           .dim = mw_round_up(s->head_dim, MW_PANEL)};
}

static int64_t
k_words(const struct mw_attention *s, const struct packed *p)
{
    return mw_round_up(mw_keys_of(s), MW_PANEL) / MW_PANEL * p->k_panel;
}

static int64_t
work_bytes(const struct mw_attention *s)
{
    struct packed p = describe(s);
    int64_t words = k_words(s, &p) + p.dim / MW_PANEL * p.v_panel;
    return mw_round_up((int64_t)sizeof(struct work) + words * (int64_t)sizeof(mw_right), 64);
}

static struct packed
lay_out(const struct mw_attention *s, void *scratch)
{
    struct packed p = describe(s);
    int thread = 0;
#if defined(_OPENMP)
    thread = omp_get_thread_num();
#endif
    p.work = (void *)((char *)scratch + thread * work_bytes(s));
    p.k = (mw_right *)(p.work + 1);
    p.v = p.k + k_words(s, &p);
    return p;
}

/* A query gives no weight to the keys after it.  first_key is at most first_row. */
static void
mask_later(float *scores, int64_t rows, int64_t first_row, int64_t first_key, int64_t keys)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = first_row + i + 1 - first_key; j < keys; j++)
            scores[i * BLOCK_K + j] = MW_MASKED;
}

/* Columns that pad a panel are no keys. */
static void
mask_padding(float *scores, int64_t rows, int64_t keys, int64_t padded)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = keys; j < padded; j++)
            scores[i * BLOCK_K + j] = MW_MASKED;
}

/* weights = 2^(scores * scale - max) in 16 bits, over `keys` keys; returns their sum. */
static float
exponentiate(mw_left *weights, const float *scores, int64_t keys, float scale, float max)
{
    mw_native sum = {0};
    for (int64_t j = 0; j < keys; j += MW_WIDTH) {
        mw_native x = mw_native_load(scores + j);
        mw_native e = mw_exp2(mw_native_fma(x, mw_native_splat(scale), mw_native_splat(-max)));
        sum += e;
        mw_store_left(weights + j, e);
    }
    return mw_native_sum(sum);
}

static void
scale_row(float *row, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i += MW_WIDTH)
        mw_native_store(row + i, mw_native_load(row + i) * factor);
}

/* Updates row i's running maximum and sum with its scores, and rescales what was summed before. */
static void
take_in(struct work *w, int64_t i, int64_t keys, float scale, int64_t dim)
{
    const float *scores = w->scores + i * BLOCK_K;
    mw_native lanes = mw_native_splat(MW_MASKED);
    for (int64_t j = 0; j < keys; j += MW_WIDTH)
        lanes = mw_native_max(mw_native_load(scores + j), lanes);
    float max = mw_native_max_lane(lanes) * scale;
    max = max > w->max[i] ? max : w->max[i];
    float shrink = exp2f(w->max[i] - max);
    if (shrink < 1.0f)
        scale_row(w->out + i * dim, dim, shrink);
    w->sum[i] =
        w->sum[i] * shrink + exponentiate(w->weights + i * BLOCK_K, scores, keys, scale, max);
    w->max[i] = max;
}

static void
visit_keys(const struct mw_attention *s, const struct packed *p, const struct queries *block,
           struct mw_rows q, int64_t first, float scale)
{
    struct work *w = p->work;
    int64_t seen = mw_smaller(block->keys - first, BLOCK_K);
    int64_t keys = mw_round_up(seen, MW_PANEL);
    const mw_right *k = p->k + first / MW_PANEL * p->k_panel;
    mw_multiply(mw_panel_of(w->scores, BLOCK_K, q, k, p->k_panel), block->n, keys, s->head_dim,
                false);
    if (s->keys)
        mask_padding(w->scores, block->n, seen, keys);
    else if (first + keys > block->first)
        mask_later(w->scores, block->n, block->first, first, keys);
    for (int64_t i = 0; i < block->n; i++)
        take_in(w, i, keys, scale, p->dim);
    const struct mw_rows weights = {w->weights, BLOCK_K};
    const mw_right *v = p->v + mw_steps(first) * MW_PANEL;
    mw_multiply(mw_panel_of(w->out, p->dim, weights, v, p->v_panel), block->n, p->dim, keys, true);
}

static void
put_queries(const struct mw_attention *s, const struct packed *p, const struct queries *block)
{
    const struct work *w = p->work;
    for (int64_t i = 0; i < block->n; i++) {
        float inverse = 1.0f / w->sum[i];
        for (int64_t c = 0; c < s->head_dim; c += MW_LANES) {
            struct mw_lanes v = mw_lanes_load(w->out + i * p->dim + c);
            MW_EACH_PART (part)
                v.part[part] *= inverse;
            mw_put(block->o + i * s->ld_o + c, v, s->head_dim - c);
        }
        block->lse[i] = w->max[i] * MW_LN_2 + logf(w->sum[i]);
    }
}

static void
attend(const struct mw_attention *s, const struct packed *p, const struct queries *block)
{
    struct work *w = p->work;
    memset(w->out, 0, (size_t)(block->n * p->dim) * sizeof *w->out);
    for (int64_t i = 0; i < block->n; i++) {
        w->max[i] = MW_MASKED;
        w->sum[i] = 0.0f;
    }
    const struct mw_rows q =
        mw_rows_of(w->q, MW_CPU_HEAD_DIM_MAX, block->q, s->ld_q, block->n, s->head_dim);
    for (int64_t first = 0; first < block->keys; first += BLOCK_K)
        visit_keys(s, p, block, q, first, s->scale * MW_LOG2_E);
    put_queries(s, p, block);
}

int64_t
MW_CPU(attention_forward_bytes)(const struct mw_attention *shape, int threads)
{
    return threads * work_bytes(shape);
}

/* Queries [first, first + CHUNK) of sequence b and head g of k and v. */
static void
attend_chunk(const struct mw_attention *s, mw_element *o, float *lse, const mw_element *q,
             const mw_element *k, const mw_element *v, int64_t b, int64_t g, int64_t first,
             void *scratch)
{
    struct packed p = lay_out(s, scratch);
    int64_t end = mw_smaller(first + CHUNK, s->seq), group = s->heads / s->kv_heads;
    int64_t keys = mw_keys_seen(s, first, end - first), key = b * mw_keys_of(s);
    mw_pack_transposed(p.k, p.k_panel, k + key * s->ld_k + g * s->head_dim, s->ld_k, keys,
                       s->head_dim);
    mw_pack_rows(p.v, p.v_panel, v + key * s->ld_v + g * s->head_dim, s->ld_v, keys, s->head_dim);
    mw_clear_steps(p.v, p.v_panel, p.dim, keys, mw_round_up(keys, MW_PANEL));
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        for (int64_t at = first; at < end; at += BLOCK_Q) {
            int64_t token = b * s->seq + at, n = mw_smaller(BLOCK_Q, end - at);
            struct queries block = {q + token * s->ld_q + h * s->head_dim,
                                    o + token * s->ld_o + h * s->head_dim,
                                    lse + mw_lse_at(s, b, h) + at,
                                    at,
                                    n,
                                    mw_keys_seen(s, at, n)};
            attend(s, &p, &block);
        }
    }
}

void
MW_CPU(attention_forward)(const struct mw_attention *shape, mw_element *o, float *lse,
                          const mw_element *q, const mw_element *k, const mw_element *v,
                          void *scratch)
{
    const struct mw_attention *s = shape;
    int64_t chunks = (s->seq + CHUNK - 1) / CHUNK, pairs = s->batch * s->kv_heads;
    /* The longest first: the last chunk sees all keys. */
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < chunks * pairs; i++) {
        int64_t chunk = chunks - 1 - i / pairs, pair = i % pairs;
        attend_chunk(s, o, lse, q, k, v, pair / s->kv_heads, pair % s->kv_heads, chunk * CHUNK,
                     scratch);
    }
}
