/*
 * The gradients of keys and values: a block has 64 * m_tiles keys of one head of k and v, and goes
 * through the heads of its group and the queries that see these keys.  Scores are held transposed,
 * [key][query]: so weights and their gradients are operands of the next products as they lie in
 * registers.
 *
 * Shared memory: the keys and values, and two tiles each of queries and their outputs' gradients,
 * of which one is on its way.  Where sums of both gradients are too many registers, each has a run
 * of its own: that of values first, which needs no tile of values.
 *
 *   head_dim  keys  queries  shared memory  registers (nvcc 13.0; sm_80, sm_90)
 *       64     128     32       55,296 B     243, 244
 *       80      64     64       67,584 B     216, 222
 *       96      64     64       79,872 B     242, 236
 *      128      64     32       69,632 B     241, 248
 *      256      64     32      101,376 B     231, 238   dv
 *               64     16      101,376 B     223, 246   dk
 * None spills there.  A multiprocessor has two blocks, with 256 on sm_80 one; on sm_86, sm_89 and
 * sm_120 always one, which may have 101,376 B at most.
 */
#include "exec/device/cuda/attention_backward.cuh"

namespace
{
/* Which tile of queries comes next. */
struct visit {
    int64_t head;
    int query;
};

/* A tile of queries, their numbers where its rows are padded, and a tile of gradients. */
template <int dim, int queries, bool aligned>
MW_DEVICE void
load_visit(uint16_t *tiles, const struct mw_attention_gradients &x, const struct visit &at)
{
    constexpr int ld = dim + MW_ATTENTION_PAD;
    const struct mw_attention &s = x.shape;
    const int64_t b = blockIdx.z;
    const struct mw_attention_row *rows =
        x.rows + (b * s.heads + at.head) * x.padded + at.query + threadIdx.x;
    mw_load_rows<dim, queries, aligned>(tiles, mw_rows_of_head(x.q, s.ld_q, s, b, at.head),
                                        at.query);
    mw_load_rows<dim, queries, aligned>(tiles + queries * ld,
                                        mw_rows_of_head(x.d_o, s.ld_o, s, b, at.head), at.query);
    if (threadIdx.x < queries)
        mw_copy_async_8(tiles + (int)threadIdx.x * ld + dim, rows);
}

/* Row `query` of a tile of queries. */
template <int dim>
MW_DEVICE float2
row_numbers(const uint16_t *q_tile, int query)
{
    return *reinterpret_cast<const float2 *>(q_tile + query * (dim + MW_ATTENTION_PAD) + dim);
}

/* Scores become weights, exp(score * scale - lse); queries before a key do not see it. */
template <int dim, int m_tiles, int n_tiles>
MW_DEVICE void
weigh(float (&scores)[m_tiles][n_tiles][4], const uint16_t *q_tile, float scale, int first_key,
      int first_query)
{
    const int key = first_key + mw_lane() / 4, column = mw_lane() % 4 * 2;
    const bool masked = first_query < first_key + 16 * m_tiles - 1;
#pragma unroll
    for (int n = 0; n < n_tiles; n++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int query = 8 * n + column + j;
            const float lse = row_numbers<dim>(q_tile, query).x;
#pragma unroll
            for (int m = 0; m < m_tiles; m++) {
#pragma unroll
                for (int i = j; i < 4; i += 2) {
                    bool later = masked && key + 16 * m + i / 2 * 8 > first_query + query;
                    float weight = mw_exp2(fmaf(scores[m][n][i], scale, -lse));
                    scores[m][n][i] = later ? 0.0f : weight;
                }
            }
        }
    }
}

/* What the gradients of weights begin with: that of softmax, minus delta. */
template <int dim, int m_tiles, int n_tiles>
MW_DEVICE void
begin_slopes(float (&slopes)[m_tiles][n_tiles][4], const uint16_t *q_tile)
{
#pragma unroll
    for (int n = 0; n < n_tiles; n++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float delta = row_numbers<dim>(q_tile, 8 * n + mw_lane() % 4 * 2 + j).y;
#pragma unroll
            for (int m = 0; m < m_tiles; m++)
                slopes[m][n][j] = slopes[m][n][2 + j] = -delta;
        }
    }
}

template <int dim, int m_tiles, int queries, bool with_dk, bool with_dv, bool aligned>
__global__ void
__launch_bounds__(MW_ATTENTION_THREADS) differentiate_keys(const struct mw_attention_gradients x)
{
    constexpr int keys = 64 * m_tiles, n_tiles = queries / 8;
    constexpr int tile = mw_tile_elements<dim>(keys),
                  visit_tiles = mw_tile_elements<dim>(2 * queries);
    const struct mw_attention &s = x.shape;
    const int seq = (int)s.seq, first = (int)blockIdx.x * keys; /* the first are seen by most */
    const int own_first = first + 16 * m_tiles * mw_warp();
    const int64_t b = blockIdx.z, g = blockIdx.y, group = s.heads / s.kv_heads;
    const float scale = s.scale * MW_LOG2_E;
    MW_DYNAMIC_SHARED(uint16_t, k_tile);
    uint16_t *const v_tile = k_tile + tile, *const visits = with_dk ? v_tile + tile : v_tile;
    float dk[m_tiles][with_dk ? dim / 8 : 1][4], dv[m_tiles][with_dv ? dim / 8 : 1][4];
    mw_clear_sums(dk);
    mw_clear_sums(dv);

    struct visit at = {g * group, first}, next = at;
    mw_load_rows<dim, keys, aligned>(k_tile, mw_rows_of_head(x.k, s.ld_k, s, b, g), first);
    if (with_dk)
        mw_load_rows<dim, keys, aligned>(v_tile, mw_rows_of_head(x.v, s.ld_v, s, b, g), first);
    load_visit<dim, queries, aligned>(visits, x, at);
    mw_copy_async_commit();
    for (int i = 0; at.head < (g + 1) * group; i++, at = next) {
        const uint16_t *q_tile = visits + i % 2 * visit_tiles;
        const uint16_t *do_tile = q_tile + visit_tiles / 2;
        float weights[m_tiles][n_tiles][4];
        uint32_t rounded[m_tiles][n_tiles / 2][4];
        next.query += queries;
        if (next.query >= seq)
            next = {at.head + 1, first};
        mw_copy_async_wait<0>();
        __syncthreads(); /* this visit's tiles are there, the other one's have been used */
        if (next.head < (g + 1) * group)
            load_visit<dim, queries, aligned>(visits + (i + 1) % 2 * visit_tiles, x, next);
        mw_copy_async_commit();
        if (at.query + queries <= own_first)
            continue;
        mw_clear_sums(weights);
        mw_multiply_rows<dim>(weights, k_tile, q_tile);
        weigh<dim>(weights, q_tile, scale, own_first, at.query);
        if constexpr (with_dv) {
            mw_round_sums(rounded, weights);
            mw_multiply_columns<dim>(dv, rounded, do_tile);
        }
        if constexpr (with_dk) {
            float slopes[m_tiles][n_tiles][4];
            begin_slopes<dim>(slopes, q_tile);
            mw_multiply_rows<dim>(slopes, v_tile, do_tile);
            mw_multiply_sums(slopes, weights);
            mw_round_sums(rounded, slopes);
            mw_multiply_columns<dim>(dk, rounded, q_tile);
        }
    }
    if constexpr (with_dk) {
        mw_scale_sums(dk, s.scale);
        mw_store_rows<dim, m_tiles, aligned>(mw_rows_of_head(x.dk, s.ld_k, s, b, g), first, k_tile,
                                             dk);
    }
    if constexpr (with_dv)
        mw_store_rows<dim, m_tiles, aligned>(mw_rows_of_head(x.dv, s.ld_v, s, b, g), first, k_tile,
                                             dv);
}

template <int dim, int m_tiles, int queries, bool with_dk, bool with_dv, bool aligned>
static int
launch(cudaStream_t stream, const struct mw_attention_gradients *x)
{
    constexpr int keys = 64 * m_tiles;
    constexpr int bytes = mw_tile_elements<dim>((with_dk ? 2 : 1) * keys + 4 * queries) * 2;
    const struct mw_attention *s = &x->shape;
    const dim3 grid((unsigned)((s->seq + keys - 1) / keys), (unsigned)s->kv_heads,
                    (unsigned)s->batch);
    int error = mw_allow_shared(
        differentiate_keys<dim, m_tiles, queries, with_dk, with_dv, aligned>, bytes);
    if (error != cudaSuccess)
        return error;
    MW_LAUNCH((differentiate_keys<dim, m_tiles, queries, with_dk, with_dv, aligned>), grid,
              MW_ATTENTION_THREADS, bytes, stream, *x);
    return cudaGetLastError();
}

template <bool aligned>
static int
launch_256(cudaStream_t stream, const struct mw_attention_gradients *x)
{
    int error = launch<256, 1, 32, false, true, aligned>(stream, x);
    if (error != cudaSuccess)
        return error;
    return launch<256, 1, 16, true, false, aligned>(stream, x);
}

} // namespace

int
MW_CUDA(differentiate_keys)(cudaStream_t stream, const struct mw_attention_gradients *x,
                            bool aligned)
{
    const int64_t dim = x->shape.head_dim;
    if (!aligned)
        return dim <= 64    ? launch<64, 2, 32, true, true, false>(stream, x)
               : dim <= 128 ? launch<128, 1, 32, true, true, false>(stream, x)
                            : launch_256<false>(stream, x);
    return dim <= 64    ? launch<64, 2, 32, true, true, true>(stream, x)
           : dim <= 80  ? launch<80, 1, 64, true, true, true>(stream, x)
           : dim <= 96  ? launch<96, 1, 64, true, true, true>(stream, x)
           : dim <= 128 ? launch<128, 1, 32, true, true, true>(stream, x)
                        : launch_256<true>(stream, x);
}
