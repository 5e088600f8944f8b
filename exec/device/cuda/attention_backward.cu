/* The backward pass of attention: what rows of scores need, then both kernels. */
#include "exec/device/cuda/attention_backward.cuh"

#define LANES_OF_ROW 8
#define ROWS_OF_BLOCK (MW_ATTENTION_THREADS / LANES_OF_ROW)

namespace
{
/* The products of 8 elements, in order. */
MW_DEVICE float
dot_of_8(uint4 a, uint4 b)
{
    const uint32_t left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum = fmaf(mw_half_low(left[i]), mw_half_low(right[i]), sum);
        sum = fmaf(mw_half_high(left[i]), mw_half_high(right[i]), sum);
    }
    return sum;
}

template <bool aligned>
MW_DEVICE float
dot_of_lane(const uint16_t *a, const uint16_t *b, int n, int lane)
{
    float sum = 0.0f;
    if (aligned) {
        for (int i = 8 * lane; i < n; i += 8 * LANES_OF_ROW)
            sum += dot_of_8(*reinterpret_cast<const uint4 *>(a + i),
                            *reinterpret_cast<const uint4 *>(b + i));
    } else {
        for (int i = lane; i < n; i += LANES_OF_ROW)
            sum = fmaf(mw_half_to_float(a[i]), mw_half_to_float(b[i]), sum);
    }
    return sum;
}

template <bool aligned>
__global__ void
__launch_bounds__(MW_ATTENTION_THREADS)
    prepare_rows(const struct mw_attention_gradients x, const uint16_t *o, const float *lse)
{
    const struct mw_attention &s = x.shape;
    const int64_t b = blockIdx.z, h = blockIdx.y;
    const int64_t row = (int64_t)blockIdx.x * ROWS_OF_BLOCK + threadIdx.x / LANES_OF_ROW;
    const int64_t at = (b * s.seq + row) * s.ld_o + h * s.head_dim;
    const int lane = (int)(threadIdx.x % LANES_OF_ROW);
    float sum = 0.0f;
    if (row < s.seq)
        sum = dot_of_lane<aligned>(x.d_o + at, o + at, (int)s.head_dim, lane);
    for (int distance = LANES_OF_ROW / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0)
        x.rows[(b * s.heads + h) * x.padded + row] = {
            row < s.seq ? lse[(b * s.heads + h) * s.seq + row] * MW_LOG2_E : INFINITY, sum};
}

} // namespace

static int64_t
padded_seq(const struct mw_attention *s)
{
    return (s->seq + MW_ATTENTION_ROWS - 1) / MW_ATTENTION_ROWS * MW_ATTENTION_ROWS;
}

int64_t
MW_CUDA(attention_scratch_bytes)(const struct mw_attention *shape)
{
    return shape->batch * shape->heads * padded_seq(shape) *
           (int64_t)sizeof(struct mw_attention_row);
}

static bool
all_aligned(const struct mw_attention_gradients *x, const uint16_t *o)
{
    const struct mw_attention *s = &x->shape;
    return s->head_dim % 8 == 0 && mw_is_aligned(x->dq, s->ld_q) && mw_is_aligned(x->q, s->ld_q) &&
           mw_is_aligned(x->dk, s->ld_k) && mw_is_aligned(x->k, s->ld_k) &&
           mw_is_aligned(x->dv, s->ld_v) && mw_is_aligned(x->v, s->ld_v) &&
           mw_is_aligned(x->d_o, s->ld_o) && mw_is_aligned(o, s->ld_o);
}

int
MW_CUDA(attention_backward)(void *stream, const struct mw_attention *shape, uint16_t *dq,
                            uint16_t *dk, uint16_t *dv, const uint16_t *d_o, const uint16_t *o,
                            const float *lse, const uint16_t *q, const uint16_t *k,
                            const uint16_t *v, void *scratch)
{
    cudaStream_t on = static_cast<cudaStream_t>(stream);
    if (!mw_is_attention(shape))
        return cudaErrorInvalidValue;
    const struct mw_attention_gradients x = {dq,
                                             dk,
                                             dv,
                                             d_o,
                                             q,
                                             k,
                                             v,
                                             static_cast<struct mw_attention_row *>(scratch),
                                             padded_seq(shape),
                                             *shape};
    const bool aligned = all_aligned(&x, o);
    const dim3 grid((unsigned)(x.padded / ROWS_OF_BLOCK), (unsigned)shape->heads,
                    (unsigned)shape->batch);
    if (aligned)
        MW_LAUNCH(prepare_rows<true>, grid, MW_ATTENTION_THREADS, 0, on, x, o, lse);
    else
        MW_LAUNCH(prepare_rows<false>, grid, MW_ATTENTION_THREADS, 0, on, x, o, lse);
    int error = cudaGetLastError();
    if (error == cudaSuccess)
        error = MW_CUDA(differentiate_keys)(on, &x, aligned);
    if (error == cudaSuccess)
        error = MW_CUDA(differentiate_queries)(on, &x, aligned);
    return error;
}
