/*
 * Causal attention (FlashAttention-2, arXiv 2307.08691, Algorithm 1): a block has 64 * m_tiles
 * queries of one head and goes through the keys that they see with a running maximum and sum.
 *
 * Shared memory: the queries, one tile of keys, one of values.  Each of the two is on its way while
 * the other one is multiplied with, so that one of each is enough.
 *
 *   head_dim  queries  keys  shared memory  registers (nvcc 13.0; sm_80, sm_90)
 *       64      128     64      36,864 B     228, 232
 *       80      128     64      45,056 B     246, 246
 *       96      128     64      53,248 B     254, 254
 *      128      128     32      52,224 B     254, 254
 *      256       64     32      67,584 B     246, 248
 * None spills there.  By registers a multiprocessor has two blocks; of 100 KiB of shared memory
 * (sm_86, sm_89, sm_120) it has them for 64 and 80 alone.
 */
#include "exec/device/cuda/attention_tiles.cuh"

namespace
{
struct forward {
    uint16_t *o;
    float *lse;
    const uint16_t *q, *k, *v;
    struct mw_attention shape;
};

/* What a thread keeps of its rows 16m + g + 8i: the maximum of scores (not scaled), and its own
 * part of the sum of weights. */
template <int m_tiles> struct softmax {
    float max[m_tiles][2], sum[m_tiles][2];
};

/* Keys after a query, and after the sequence, weigh nothing.  first_row: this warp's. */
template <int m_tiles, int n_tiles>
MW_DEVICE void
mask_later(float (&scores)[m_tiles][n_tiles][4], int first_row, int first_key)
{
    const int row = first_row + mw_lane() / 4, key = first_key + mw_lane() % 4 * 2;
#pragma unroll
    for (int m = 0; m < m_tiles; m++)
#pragma unroll
        for (int n = 0; n < n_tiles; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (key + 8 * n + i % 2 > row + 16 * m + i / 2 * 8)
                    scores[m][n][i] = -INFINITY;
}

/* The largest score of a row, over the four lanes that have it. */
template <int n_tiles>
MW_DEVICE float
row_max(float max, const float (&scores)[n_tiles][4], int i)
{
#pragma unroll
    for (int n = 0; n < n_tiles; n++)
        max = fmaxf(max, fmaxf(scores[n][2 * i], scores[n][2 * i + 1]));
    max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
    return fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2));
}

/* Scores become weights 2^((score - max) * scale); what was summed before is scaled to match. */
template <int m_tiles, int n_tiles, int o_tiles>
MW_DEVICE void
take_in(softmax<m_tiles> &s, float (&scores)[m_tiles][n_tiles][4], float (&o)[m_tiles][o_tiles][4],
        float scale)
{
#pragma unroll
    for (int m = 0; m < m_tiles; m++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float max = row_max(s.max[m][i], scores[m], i), scaled = max * scale;
            float shrink = mw_exp2(s.max[m][i] * scale - scaled), sum = 0.0f;
#pragma unroll
            for (int n = 0; n < n_tiles; n++) {
#pragma unroll
                for (int j = 2 * i; j < 2 * i + 2; j++) {
                    scores[m][n][j] = mw_exp2(fmaf(scores[m][n][j], scale, -scaled));
                    sum += scores[m][n][j];
                }
            }
#pragma unroll
            for (int n = 0; n < o_tiles; n++) {
                o[m][n][2 * i] *= shrink;
                o[m][n][2 * i + 1] *= shrink;
            }
            s.max[m][i] = max;
            s.sum[m][i] = s.sum[m][i] * shrink + sum;
        }
    }
}

/* Divides by the sums of weights, and writes the log-sum-exp of rows from first_row, this warp's.
 */
template <int m_tiles, int o_tiles>
MW_DEVICE void
finish_rows(const softmax<m_tiles> &s, float (&o)[m_tiles][o_tiles][4], float *lse, int first_row,
            int seq, float scale)
{
#pragma unroll
    for (int m = 0; m < m_tiles; m++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int row = first_row + 16 * m + mw_lane() / 4 + 8 * i;
            float sum = s.sum[m][i];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            float inverse = 1.0f / sum;
#pragma unroll
            for (int n = 0; n < o_tiles; n++) {
                o[m][n][2 * i] *= inverse;
                o[m][n][2 * i + 1] *= inverse;
            }
            if (mw_lane() % 4 == 0 && row < seq)
                lse[row] = s.max[m][i] * scale + logf(sum);
        }
    }
}

template <int dim, int m_tiles, int keys, bool aligned>
__global__ void
__launch_bounds__(MW_ATTENTION_THREADS) attend(const struct forward x)
{
    constexpr int queries = 64 * m_tiles, tile = mw_tile_elements<dim>(keys);
    const struct mw_attention &s = x.shape;
    const int seq = (int)s.seq;
    /* The last queries see most keys: they come first. */
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * queries;
    const int64_t b = blockIdx.z, h = blockIdx.y, g = h / (s.heads / s.kv_heads);
    const mw_rows<const uint16_t> q = mw_rows_of_head(x.q, s.ld_q, s, b, h);
    const mw_rows<const uint16_t> k = mw_rows_of_head(x.k, s.ld_k, s, b, g);
    const mw_rows<const uint16_t> v = mw_rows_of_head(x.v, s.ld_v, s, b, g);
    MW_DYNAMIC_SHARED(uint16_t, k_tile);
    uint16_t *const v_tile = k_tile + tile, *const q_tile = v_tile + tile;
    const float scale = s.scale * MW_LOG2_E;
    const int end = min(first + queries, seq), own_first = first + 16 * m_tiles * mw_warp();
    float sums[m_tiles][dim / 8][4];
    softmax<m_tiles> soft;
    mw_clear_sums(sums);
#pragma unroll
    for (int m = 0; m < m_tiles; m++) {
        soft.max[m][0] = soft.max[m][1] = -INFINITY;
        soft.sum[m][0] = soft.sum[m][1] = 0.0f;
    }

    mw_load_rows<dim, queries, aligned>(q_tile, q, first);
    mw_load_rows<dim, keys, aligned>(k_tile, k, 0);
    mw_copy_async_commit();
    for (int key = 0; key < end; key += keys) {
        /* Of the last tiles the first warps see nothing. */
        const bool seen = key < own_first + 16 * m_tiles;
        float scores[m_tiles][keys / 8][4];
        mw_copy_async_wait<0>();
        __syncthreads(); /* keys are there, values have been used */
        mw_load_rows<dim, keys, aligned>(v_tile, v, key);
        mw_copy_async_commit();
        if (seen) {
            mw_clear_sums(scores);
            mw_multiply_rows<dim>(scores, q_tile, k_tile);
        }
        mw_copy_async_wait<0>();
        __syncthreads(); /* values are there, keys have been used */
        if (key + keys < end)
            mw_load_rows<dim, keys, aligned>(k_tile, k, key + keys);
        mw_copy_async_commit();
        if (seen) {
            uint32_t weights[m_tiles][keys / 16][4];
            if (key + keys - 1 > own_first)
                mask_later(scores, own_first, key);
            take_in(soft, scores, sums, scale);
            mw_round_sums(weights, scores);
            mw_multiply_columns<dim>(sums, weights, v_tile);
        }
    }
    finish_rows(soft, sums, x.lse + (b * s.heads + h) * s.seq, own_first, seq, s.scale);
    mw_store_rows<dim, m_tiles, aligned>(mw_rows_of_head(x.o, s.ld_o, s, b, h), first, q_tile,
                                         sums);
}

template <int dim, int m_tiles, int keys, bool aligned>
static int
launch(cudaStream_t stream, const struct forward *x)
{
    constexpr int queries = 64 * m_tiles, bytes = mw_tile_elements<dim>(queries + 2 * keys) * 2;
    const struct mw_attention *s = &x->shape;
    const dim3 grid((unsigned)((s->seq + queries - 1) / queries), (unsigned)s->heads,
                    (unsigned)s->batch);
    int error = mw_allow_shared(attend<dim, m_tiles, keys, aligned>, bytes);
    if (error != cudaSuccess)
        return error;
    MW_LAUNCH((attend<dim, m_tiles, keys, aligned>), grid, MW_ATTENTION_THREADS, bytes, stream, *x);
    return cudaGetLastError();
}

} // namespace

int
MW_CUDA(attention_forward)(void *stream, const struct mw_attention *shape, uint16_t *o, float *lse,
                           const uint16_t *q, const uint16_t *k, const uint16_t *v, void *)
{
    const struct mw_attention *s = shape;
    const struct forward x = {o, lse, q, k, v, *s};
    cudaStream_t on = static_cast<cudaStream_t>(stream);
    if (!mw_is_attention(s))
        return cudaErrorInvalidValue;
    if (s->head_dim % 8 != 0 || !mw_is_aligned(q, s->ld_q) || !mw_is_aligned(k, s->ld_k) ||
        !mw_is_aligned(v, s->ld_v) || !mw_is_aligned(o, s->ld_o))
        return s->head_dim <= 64    ? launch<64, 2, 64, false>(on, &x)
               : s->head_dim <= 128 ? launch<128, 1, 64, false>(on, &x)
                                    : launch<256, 1, 32, false>(on, &x);
    return s->head_dim <= 64    ? launch<64, 2, 64, true>(on, &x)
           : s->head_dim <= 80  ? launch<80, 2, 64, true>(on, &x)
           : s->head_dim <= 96  ? launch<96, 2, 64, true>(on, &x)
           : s->head_dim <= 128 ? launch<128, 2, 32, true>(on, &x)
                                : launch<256, 1, 32, true>(on, &x);
}
