/*
 * The gradients of queries: a block has 64 * m_tiles queries of one head and goes through the keys
 * that they see.
 *
 * Shared memory: the queries and their outputs' gradients, one tile of keys and one of values, each
 * on its way while the other one is multiplied with.
 *
 *   head_dim  queries  keys  shared memory  registers (nvcc 13.0; sm_80, sm_90)
 *       64      128     32      46,080 B     200, 209
 *       80      128     32      56,320 B     230, 230
 *       96      128     32      66,560 B     242, 250
 *      128       64     64      69,632 B     212, 222
 *      256       64     32     101,376 B     244, 242
 * None spills there.  A multiprocessor has two blocks, with 256 on sm_80 one; on sm_86, sm_89 and
 * sm_120 for 64 alone.
 */
#include "exec/device/cuda/attention_backward.cuh"

namespace
{
/* A thread's rows 16m + g + 8i. */
template <int m_tiles> struct numbers {
    struct mw_attention_row at[m_tiles][2];
};

/* Weights, exp(score * scale - lse), times the gradients of weights; keys after a query get none.
 */
template <int m_tiles, int n_tiles>
MW_DEVICE void
weigh_slopes(float (&slopes)[m_tiles][n_tiles][4], const float (&scores)[m_tiles][n_tiles][4],
             const numbers<m_tiles> &rows, float scale, int first_row, int first_key)
{
    const int row = first_row + mw_lane() / 4, key = first_key + mw_lane() % 4 * 2;
    const bool masked = first_key + 8 * n_tiles - 1 > first_row;
#pragma unroll
    for (int m = 0; m < m_tiles; m++) {
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool later = masked && key + 8 * n + i % 2 > row + 16 * m + i / 2 * 8;
                float weight = mw_exp2(fmaf(scores[m][n][i], scale, -rows.at[m][i / 2].lse));
                slopes[m][n][i] = later ? 0.0f : weight * slopes[m][n][i];
            }
        }
    }
}

template <int m_tiles, int n_tiles>
MW_DEVICE void
begin_slopes(float (&slopes)[m_tiles][n_tiles][4], const numbers<m_tiles> &rows)
{
#pragma unroll
    for (int m = 0; m < m_tiles; m++)
#pragma unroll
        for (int n = 0; n < n_tiles; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                slopes[m][n][i] = -rows.at[m][i / 2].delta;
}

template <int dim, int m_tiles, int keys, bool aligned>
__global__ void
__launch_bounds__(MW_ATTENTION_THREADS) differentiate_queries(const struct mw_attention_gradients x)
{
    constexpr int queries = 64 * m_tiles, n_tiles = keys / 8;
    const struct mw_attention &s = x.shape;
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * queries; /* the last see most */
    const int own_first = first + 16 * m_tiles * mw_warp();
    const int end = min(first + queries, (int)s.seq);
    const int64_t b = blockIdx.z, h = blockIdx.y, g = h / (s.heads / s.kv_heads);
    const mw_rows<const uint16_t> k = mw_rows_of_head(x.k, s.ld_k, s, b, g);
    const mw_rows<const uint16_t> v = mw_rows_of_head(x.v, s.ld_v, s, b, g);
    const float scale = s.scale * MW_LOG2_E;
    MW_DYNAMIC_SHARED(uint16_t, k_tile);
    uint16_t *const v_tile = k_tile + mw_tile_elements<dim>(keys);
    uint16_t *const q_tile = v_tile + mw_tile_elements<dim>(keys);
    uint16_t *const do_tile = q_tile + mw_tile_elements<dim>(queries);
    float dq[m_tiles][dim / 8][4];
    numbers<m_tiles> rows;
    mw_clear_sums(dq);
#pragma unroll
    for (int m = 0; m < m_tiles; m++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            rows.at[m][i] =
                x.rows[(b * s.heads + h) * x.padded + own_first + 16 * m + mw_lane() / 4 + 8 * i];

    mw_load_rows<dim, queries, aligned>(q_tile, mw_rows_of_head(x.q, s.ld_q, s, b, h), first);
    mw_load_rows<dim, queries, aligned>(do_tile, mw_rows_of_head(x.d_o, s.ld_o, s, b, h), first);
    mw_load_rows<dim, keys, aligned>(v_tile, v, 0);
    mw_copy_async_commit();
    for (int key = 0; key < end; key += keys) {
        const bool seen =
            key < own_first + 16 * m_tiles; /* of the last tiles the first warps see nothing */
        float slopes[m_tiles][n_tiles][4];
        mw_copy_async_wait<0>();
        __syncthreads(); /* values are there, keys have been used */
        mw_load_rows<dim, keys, aligned>(k_tile, k, key);
        mw_copy_async_commit();
        if (seen) {
            begin_slopes(slopes, rows);
            mw_multiply_rows<dim>(slopes, do_tile, v_tile);
        }
        mw_copy_async_wait<0>();
        __syncthreads(); /* keys are there, values have been used */
        if (key + keys < end)
            mw_load_rows<dim, keys, aligned>(v_tile, v, key + keys);
        mw_copy_async_commit();
        if (seen) {
            float scores[m_tiles][n_tiles][4];
            uint32_t rounded[m_tiles][n_tiles / 2][4];
            mw_clear_sums(scores);
            mw_multiply_rows<dim>(scores, q_tile, k_tile);
            weigh_slopes(slopes, scores, rows, scale, own_first, key);
            mw_round_sums(rounded, slopes);
            mw_multiply_columns<dim>(dq, rounded, k_tile);
        }
    }
    mw_scale_sums(dq, s.scale);
    mw_store_rows<dim, m_tiles, aligned>(mw_rows_of_head(x.dq, s.ld_q, s, b, h), first, q_tile, dq);
}

template <int dim, int m_tiles, int keys, bool aligned>
static int
launch(cudaStream_t stream, const struct mw_attention_gradients *x)
{
    constexpr int queries = 64 * m_tiles, bytes = mw_tile_elements<dim>(2 * (queries + keys)) * 2;
    const struct mw_attention *s = &x->shape;
    const dim3 grid((unsigned)((s->seq + queries - 1) / queries), (unsigned)s->heads,
                    (unsigned)s->batch);
    int error = mw_allow_shared(differentiate_queries<dim, m_tiles, keys, aligned>, bytes);
    if (error != cudaSuccess)
        return error;
    MW_LAUNCH((differentiate_queries<dim, m_tiles, keys, aligned>), grid, MW_ATTENTION_THREADS,
              bytes, stream, *x);
    return cudaGetLastError();
}

} // namespace

int
MW_CUDA(differentiate_queries)(cudaStream_t stream, const struct mw_attention_gradients *x,
                               bool aligned)
{
    const int64_t dim = x->shape.head_dim;
    if (!aligned)
        return dim <= 64    ? launch<64, 2, 32, false>(stream, x)
               : dim <= 128 ? launch<128, 1, 64, false>(stream, x)
                            : launch<256, 1, 32, false>(stream, x);
    return dim <= 64    ? launch<64, 2, 32, true>(stream, x)
           : dim <= 80  ? launch<80, 2, 32, true>(stream, x)
           : dim <= 96  ? launch<96, 2, 32, true>(stream, x)
           : dim <= 128 ? launch<128, 1, 64, true>(stream, x)
                        : launch<256, 1, 32, true>(stream, x);
}
