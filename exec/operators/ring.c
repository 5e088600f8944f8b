/*
 * Attention where keys and values pass around a ring of ranks (Liu et al., arXiv 2310.01889, Sec.
 * 3).  A rank has a chunk from either end of each sequence: of an earlier rank's block its queries
 * see the first chunk, all of them, and of a later one's both chunks, those of its second chunk
 * alone.
 */
#include "exec/operators/internal.h"

/* Of a sequence: which of the rank's queries see which keys of the block. */
struct seen {
    int64_t query, queries, keys;
};

static struct seen
seen_of(const struct mw_compute *compute)
{
    int64_t half = compute->seq / 2;
    bool earlier = compute->block <= compute->decoder->context.index;

    return earlier ? (struct seen){0, compute->seq, half} : (struct seen){half, half, compute->seq};
}

/* Operands of one sequence. */
struct operands {
    struct mw_attention shape;
    int64_t q, o, lse, k, v; /* where they begin: in elements, in queries' and results' tensors, in
                              * sums, in a block */
};

static struct operands
operands_of(const struct mw_compute *compute, struct mw_attention shape, int64_t sequence)
{
    struct mw_operator_heads at = mw_operator_heads(compute);
    struct seen seen = seen_of(compute);
    int64_t n = compute->seq, kv = mw_decoder_kv(compute->decoder);
    int64_t token = sequence * n + seen.query;

    shape.batch = 1;
    shape.seq = seen.queries;
    shape.keys = seen.keys;
    shape.ld_k = shape.ld_v = 2 * kv;
    shape.ld_lse = n;
    return (struct operands){.shape = shape,
                             .q = at.q + token * at.ld_q,
                             .o = token * shape.ld_o,
                             .lse = sequence * shape.heads * n + seen.query,
                             .k = sequence * n * 2 * kv,
                             .v = sequence * n * 2 * kv + kv};
}

/* The block's own result lies where gradients do in backward. */
void
mw_operator_ring_forward(const struct mw_operators *operators, const struct mw_compute *compute,
                         struct mw_attention shape)
{
    const struct mw_kernels *kernels = operators->kernels;
    const struct mw_layer_activations *layer = compute->layer;
    const void *block = compute->shared->ring[compute->block % 2];
    float *sums = compute->shared->branch;

    for (int64_t s = 0; s < compute->sequences; s++) {
        struct operands it = operands_of(compute, shape, s);
        void *o = mw_operator_at(compute, compute->shared->wide, it.o);
        kernels->attention_forward(operators->device, &it.shape, o, sums + it.lse,
                                   mw_operator_read_at(compute, layer->qkv, it.q),
                                   mw_operator_read_at(compute, block, it.k),
                                   mw_operator_read_at(compute, block, it.v), operators->scratch);
        kernels->join_attention(operators->device, &it.shape,
                                mw_operator_at(compute, layer->o, it.o), layer->lse + it.lse, o,
                                sums + it.lse);
    }
}

static int64_t
block_bytes(const struct mw_compute *compute)
{
    return mw_compute_element_bytes(compute->dtype) * mw_operator_tokens(compute) * 2 *
           mw_decoder_kv(compute->decoder);
}

/* The first to compute a block's gradient but its own rank begins it. */
void
mw_operator_ring_backward(const struct mw_operators *operators, const struct mw_compute *compute,
                          struct mw_attention shape)
{
    const struct mw_kernels *kernels = operators->kernels;
    const struct mw_layer_activations *layer = compute->layer;
    const void *block = compute->shared->ring[compute->block % 2];
    void *gradient = compute->shared->ring_gradient[compute->block % 2];

    shape.adds_q = shape.adds_kv = true;
    if (compute->block == 1)
        kernels->clear(operators->device, gradient, block_bytes(compute));
    for (int64_t s = 0; s < compute->sequences; s++) {
        struct operands it = operands_of(compute, shape, s);
        kernels->attention_backward(
            operators->device, &it.shape, mw_operator_at(compute, layer->gradient.heads, it.q),
            mw_operator_at(compute, gradient, it.k), mw_operator_at(compute, gradient, it.v),
            mw_operator_read_at(compute, compute->shared->branch, it.o),
            mw_operator_read_at(compute, layer->o, it.o), layer->lse + it.lse,
            mw_operator_read_at(compute, layer->qkv, it.q),
            mw_operator_read_at(compute, block, it.k), mw_operator_read_at(compute, block, it.v),
            operators->scratch);
    }
}

void
mw_operator_ring_home(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_gradients *gradient = &compute->layer->gradient;
    struct mw_operator_heads at = mw_operator_heads(compute);
    int64_t kv = mw_decoder_kv(compute->decoder), tokens = mw_operator_tokens(compute);
    const void *home = compute->shared->ring_gradient[mw_decoder_sharers(compute->decoder) % 2];

    operators->kernels->add_rows(operators->device, mw_operator_at(compute, gradient->heads, at.k),
                                 at.ld_k, home, 2 * kv, tokens, kv);
    operators->kernels->add_rows(operators->device, mw_operator_at(compute, gradient->qkv, at.v),
                                 at.ld_v, mw_operator_read_at(compute, home, kv), 2 * kv, tokens,
                                 kv);
}
