/*
 * attention_tiles.cuh - what the kernels of attention share: tiles of rows in shared memory, and
 * their products in a warp's registers.
 *
 * A block has 4 warps.  Each has 16 * m_tiles rows (queries, or keys) of its own, as operand A and
 * in the sums; what a block goes through is operand B, shared by its warps.  A tile of B that is
 * loaded from shared memory serves m_tiles products: with one of them shared memory is as busy as
 * the tensor cores, so there are two wherever registers allow it.
 *
 * `dim` is head_dim as the kernel was compiled for it, a multiple of 16: columns from head_dim on
 * are 0 in shared memory.  A row of a tile has 8 elements (16 bytes) more than dim, so that 8 rows
 * at one column lie in different banks, for every such dim.
 *
 * Sums of m_tiles x n_tiles tiles of 16x8: element i of sums[m][n] of a lane (g = lane / 4,
 * t = lane % 4) is in row 16m + g + i / 2 * 8, column 8n + 2t + i % 2.
 */
#ifndef MW_EXEC_DEVICE_CUDA_ATTENTION_TILES_CUH
#define MW_EXEC_DEVICE_CUDA_ATTENTION_TILES_CUH

#include "exec/device/cuda/half.h"
#include "exec/device/cuda/mma.h"

#define MW_ATTENTION_THREADS 128
#define MW_ATTENTION_PAD 8 /* elements, at the end of a tile's row */
#define MW_LOG2_E 1.44269504f

/* Scores are kept in base 2: exp(x) = 2^(x log2 e).  Below 2^-126 it is 0. */
MW_DEVICE float
mw_exp2(float x)
{
#if defined(MW_CUDA_EMULATED)
    return mw_emulated::exp2_approx(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

MW_DEVICE int
mw_lane()
{
    return (int)(threadIdx.x % 32);
}

MW_DEVICE int
mw_warp()
{
    return (int)(threadIdx.x / 32);
}

/* A head's rows in global memory: row i at data + i * ld, from 0 to seq. */
template <class T> struct mw_rows {
    T *data;
    int64_t ld;
    int seq, head_dim;
};

template <int dim>
__host__ __device__ constexpr int
mw_tile_elements(int rows)
{
    return rows * (dim + MW_ATTENTION_PAD);
}

/* 8 elements, one by one: where they are not aligned, or head_dim is no multiple of 8. */
MW_DEVICE void
mw_load_some(uint16_t *to, const uint16_t *from, int elements)
{
#pragma unroll 1
    for (int i = 0; i < 8; i++)
        to[i] = i < elements ? from[i] : (uint16_t)0;
}

/* Rows [first, first + rows) become a tile; those that are not there are 0.  The block's threads
 * share the work, each has one column; aligned: by asynchronous copies, to be committed. */
template <int dim, int rows, bool aligned>
MW_DEVICE void
mw_load_rows(uint16_t *tile, const mw_rows<const uint16_t> &from, int first)
{
    constexpr int ld = dim + MW_ATTENTION_PAD, chunks = dim / 8;
    constexpr int step = MW_ATTENTION_THREADS / chunks;
    const int row = (int)threadIdx.x / chunks, column = (int)threadIdx.x % chunks * 8;
    const int elements = from.head_dim - column, real_rows = elements > 0 ? from.seq - first : 0;
    const uint16_t *source = from.data + (first + row) * from.ld + column;
    tile += row * ld + column;
    if (MW_ATTENTION_THREADS % chunks != 0 && row >= step)
        return;
#pragma unroll
    for (int i = 0; i < rows; i += step) {
        bool real = row + i < real_rows;
        if (rows % step != 0 && row + i >= rows)
            break;
        if (aligned)
            mw_copy_async_16(tile + i * ld, real ? source : from.data, real ? 16 : 0);
        else
            mw_load_some(tile + i * ld, source, real ? elements : 0);
        source += step * from.ld;
    }
}

/* sums += A B^T over dim: A this warp's rows of a tile, B 8 * n_tiles rows of another.  Lanes that
 * loaded more or less than others meet first. */
template <int dim, int m_tiles, int n_tiles>
MW_DEVICE void
mw_multiply_rows(float (&sums)[m_tiles][n_tiles][4], const uint16_t *a, const uint16_t *b)
{
    constexpr int ld = dim + MW_ATTENTION_PAD;
    const int lane = mw_lane();
    a += (16 * m_tiles * mw_warp() + lane % 16) * ld + lane / 16 * 8;
    b += (lane / 16 * 8 + lane % 8) * ld + lane / 8 % 2 * 8;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < dim; k += 16) {
        uint32_t left[m_tiles][4];
#pragma unroll
        for (int m = 0; m < m_tiles; m++)
            mw_ldmatrix_x4(left[m], a + 16 * m * ld + k);
#pragma unroll
        for (int n = 0; n < n_tiles; n += 2) {
            uint32_t right[4];
            mw_ldmatrix_x4(right, b + 8 * n * ld + k);
#pragma unroll
            for (int m = 0; m < m_tiles; m++) {
                mw_mma_m16n8k16(sums[m][n], left[m], right);
                mw_mma_m16n8k16(sums[m][n + 1], left[m], right + 2);
            }
        }
    }
}

/* sums += A B: A in registers, 16 columns a step of k; B 16 * k_tiles rows of a tile. */
template <int dim, int m_tiles, int k_tiles>
MW_DEVICE void
mw_multiply_columns(float (&sums)[m_tiles][dim / 8][4], const uint32_t (&a)[m_tiles][k_tiles][4],
                    const uint16_t *b)
{
    constexpr int ld = dim + MW_ATTENTION_PAD;
    const int lane = mw_lane();
    b += lane % 16 * ld + lane / 16 * 8;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < k_tiles; k++) {
#pragma unroll
        for (int n = 0; n < dim / 8; n += 2) {
            uint32_t right[4];
            mw_ldmatrix_x4_trans(right, b + 16 * k * ld + 8 * n);
#pragma unroll
            for (int m = 0; m < m_tiles; m++) {
                mw_mma_m16n8k16(sums[m][n], a[m][k], right);
                mw_mma_m16n8k16(sums[m][n + 1], a[m][k], right + 2);
            }
        }
    }
}

/* Sums as operand A of the next product: what a lane holds of them is what it has to bring. */
template <int m_tiles, int n_tiles>
MW_DEVICE void
mw_round_sums(uint32_t (&a)[m_tiles][n_tiles / 2][4], const float (&sums)[m_tiles][n_tiles][4])
{
#pragma unroll
    for (int m = 0; m < m_tiles; m++) {
#pragma unroll
        for (int n = 0; n < n_tiles; n++) {
            a[m][n / 2][n % 2 * 2] = mw_floats_to_half(sums[m][n][0], sums[m][n][1]);
            a[m][n / 2][n % 2 * 2 + 1] = mw_floats_to_half(sums[m][n][2], sums[m][n][3]);
        }
    }
}

template <int m_tiles, int n_tiles>
MW_DEVICE void
mw_clear_sums(float (&sums)[m_tiles][n_tiles][4])
{
#pragma unroll
    for (int m = 0; m < m_tiles; m++)
#pragma unroll
        for (int n = 0; n < n_tiles; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[m][n][i] = 0.0f;
}

template <int m_tiles, int n_tiles>
MW_DEVICE void
mw_scale_sums(float (&sums)[m_tiles][n_tiles][4], float factor)
{
#pragma unroll
    for (int m = 0; m < m_tiles; m++)
#pragma unroll
        for (int n = 0; n < n_tiles; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[m][n][i] *= factor;
}

/* Element by element. */
template <int m_tiles, int n_tiles>
MW_DEVICE void
mw_multiply_sums(float (&sums)[m_tiles][n_tiles][4], const float (&factors)[m_tiles][n_tiles][4])
{
#pragma unroll
    for (int m = 0; m < m_tiles; m++)
#pragma unroll
        for (int n = 0; n < n_tiles; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[m][n][i] *= factors[m][n][i];
}

/* This warp's rows of sums to rows [first, ...) of a head, through its own rows of a tile that no
 * other warp reads (as operand A), where it has read them for the last time. */
template <int dim, int m_tiles, bool aligned>
MW_DEVICE void
mw_store_rows(const mw_rows<uint16_t> &to, int first, uint16_t *tile,
              const float (&sums)[m_tiles][dim / 8][4])
{
    constexpr int ld = dim + MW_ATTENTION_PAD, chunks = dim / 8, rows = 16 * m_tiles;
    const int lane = mw_lane();
    tile += rows * mw_warp() * ld;
    first += rows * mw_warp();
    __syncwarp();
#pragma unroll
    for (int m = 0; m < m_tiles; m++) {
#pragma unroll
        for (int n = 0; n < dim / 8; n++) {
            uint16_t *at = tile + (16 * m + lane / 4) * ld + 8 * n + lane % 4 * 2;
            *reinterpret_cast<uint32_t *>(at) = mw_floats_to_half(sums[m][n][0], sums[m][n][1]);
            *reinterpret_cast<uint32_t *>(at + 8 * ld) =
                mw_floats_to_half(sums[m][n][2], sums[m][n][3]);
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < rows * chunks; i += 32) {
        int at = i + lane, row = at / chunks, column = at % chunks * 8;
        const uint16_t *from = tile + row * ld + column;
        if (first + row >= to.seq || column >= to.head_dim)
            continue;
        uint16_t *out = to.data + (first + row) * to.ld + column;
        if (aligned) {
            *reinterpret_cast<uint4 *>(out) = *reinterpret_cast<const uint4 *>(from);
        } else {
#pragma unroll 1
            for (int c = 0; c < 8 && column + c < to.head_dim; c++)
                out[c] = from[c];
        }
    }
}

/* One head of one sequence. */
template <class T>
MW_DEVICE mw_rows<T>
mw_rows_of_head(T *data, int64_t ld, const struct mw_attention &s, int64_t sequence, int64_t head)
{
    const int head_dim = (int)s.head_dim, seq = (int)s.seq;
    return {data + sequence * s.seq * ld + head * head_dim, ld, seq, head_dim};
}

/* --- the host's side --- */

static inline bool
mw_is_attention(const struct mw_attention *s)
{
    /* Limits of a grid, and of indices in 32 bits. */
    bool sizes = s->batch > 0 && s->batch < 65536 && s->seq > 0 && s->seq <= INT32_MAX - 256 &&
                 s->kv_heads > 0 && s->heads > 0 && s->heads < 65536 &&
                 s->heads % s->kv_heads == 0 && s->head_dim > 0 &&
                 s->head_dim <= MW_CUDA_HEAD_DIM_MAX && s->scale > 0.0f;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    return sizes && s->ld_q >= q && s->ld_o >= q && s->ld_k >= kv && s->ld_v >= kv;
}

static inline bool
mw_is_aligned(const void *at, int64_t ld)
{
    return reinterpret_cast<uintptr_t>(at) % 16 == 0 && ld % 8 == 0;
}

/* Allows the kernel its shared memory where that is more than every kernel may have. */
template <class Kernel>
static int
mw_allow_shared(Kernel *kernel, int bytes)
{
    if (bytes <= 48 << 10)
        return cudaSuccess;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

#endif
