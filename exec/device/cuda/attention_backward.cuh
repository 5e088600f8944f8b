/*
 * attention_backward.cuh - the gradients of attention, with the scores computed again: one kernel
 * for those of keys and values, one for those of queries.  So each sum has one owner that adds it
 * up in order; the price is that two of seven products are computed twice.
 */
#ifndef MW_EXEC_DEVICE_CUDA_ATTENTION_BACKWARD_CUH
#define MW_EXEC_DEVICE_CUDA_ATTENTION_BACKWARD_CUH

#include "exec/device/cuda/attention_tiles.cuh"

/* What a query's row of scores needs besides the scores.  In rows past the sequence lse is
 * infinite, which makes their weights 0. */
struct mw_attention_row {
    float lse;   /* in base 2 */
    float delta; /* the sum of do * o, which softmax's gradient subtracts */
};

/* Rows of a head in scratch, padded past seq: no tile reads beyond them. */
#define MW_ATTENTION_ROWS 128

struct mw_attention_gradients {
    uint16_t *dq, *dk, *dv;
    const uint16_t *d_o, *q, *k, *v;
    struct mw_attention_row *rows; /* [batch][heads][padded] */
    int64_t padded;
    struct mw_attention shape;
};

int MW_CUDA(differentiate_keys)(cudaStream_t stream, const struct mw_attention_gradients *x,
                                bool aligned);
int MW_CUDA(differentiate_queries)(cudaStream_t stream, const struct mw_attention_gradients *x,
                                   bool aligned);

#endif
