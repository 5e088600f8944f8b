/*
 * internal.h - what the operators' files share; for exec/operators/ alone.
 *
 * An operator has a step before its matrix products, the products, and a step after them.  The
 * products are listed separately, so that they can be prepared before anything runs.
 */
#ifndef MW_EXEC_OPERATORS_INTERNAL_H
#define MW_EXEC_OPERATORS_INTERNAL_H

#include "exec/operators/operators.h"

struct mw_operators {
    const struct mw_kernels *kernels;
    void *device;
    struct mw_decoder decoder;
    int64_t sequences, seq;
    void *scratch; /* of one kernel at a time */
    int64_t scratch_bytes;
    /* 8 bytes per token, for one operator at a time: the losses of rows, or mean and rstd of a
     * norm; or 4 for each head, of norms of q and k. */
    void *token_scratch;
    int64_t token_bytes;
    void *routing; /* of a mixture: what mw_operator_routing divides, for one operator at a time */
    int64_t routing_bytes;
    float *rope; /* NULL without rotary positions */
    int64_t rope_bytes;
};

struct mw_multiply {
    struct mw_product product;
    void *c;
    const void *a, *b, *bias;
};

#define MW_MULTIPLIES_MAX 8 /* gradients of A and B of q, k and v, and of their input */

/* Returns how many there are. */
int mw_operator_products(const struct mw_compute *compute,
                         struct mw_multiply out[MW_MULTIPLIES_MAX]);
/* The gradient of its bias; nothing where there is none. */
void mw_operator_bias(const struct mw_operators *operators, const struct mw_compute *compute);

typedef void (*mw_operator_step)(const struct mw_operators *operators,
                                 const struct mw_compute *compute);

/* Any may be NULL. */
struct mw_operator_steps {
    mw_operator_step before, behind;
    /* Runs behind the first so many products, of those that `products` says. */
    mw_operator_step between;
    int (*products_before)(const struct mw_compute *compute);
};

/* y[tokens, all rows] = x[tokens, in] W^T.  `dy` is its gradient, shaped like y. */
struct mw_operator_linear {
    int64_t tokens, in, out; /* out: from one row of y to the next */
    const void *x;
    void *y;
    const void *dy;
    void *dx;
    bool residual; /* y holds what the product is added to */
    bool no_bias;  /* another slice adds it to the sum */
    int64_t twin;  /* with a gate: from its y to up's, else 0 */
    /* Of several products, each with rows of its own: which rows of the matrix, and whether others
     * come before it; rows 0: all of the part's. */
    int64_t first_row, rows;
    bool follows;
};

/* How an operator runs: a row of the table in operators.c. */
struct mw_operator_runner {
    struct mw_operator_steps forward, backward;
    struct mw_operator_steps weights; /* backward, of weights alone, for an operator of layers */
    /* NULL: no products.  Else one of so many, by number. */
    struct mw_operator_linear (*linear)(const struct mw_compute *compute, int number);
    int (*linears)(const struct mw_compute *compute); /* NULL: one */
    /* Instead of those: any products. */
    int (*products)(const struct mw_compute *compute, struct mw_multiply out[MW_MULTIPLIES_MAX]);
};
/* Of the operator's linears, how many there are. */
int mw_operator_linears(const struct mw_compute *compute);
struct mw_operator_linear mw_operator_linear_at(const struct mw_compute *compute, int number);
const struct mw_operator_runner *mw_operator_runner(const struct mw_compute *compute);

extern const struct mw_operator_runner mw_run_embedding, mw_run_norm, mw_run_qkv, mw_run_attention,
    mw_run_projection, mw_run_mlp_up, mw_run_mlp_act, mw_run_mlp_down, mw_run_final_norm,
    mw_run_logits, mw_run_loss, mw_run_lora, mw_run_mixture_up, mw_run_mixture_down,
    mw_run_spread_router, mw_run_experts_up, mw_run_experts_down, mw_run_spread_sum;

/* Of so many tokens of a mixture, in room of so many bytes; of a dense model 0. */
struct mw_routing mw_operator_routing(void *room, const struct mw_decoder *decoder, int64_t tokens);
int64_t mw_operator_routing_bytes(const struct mw_decoder *decoder, int64_t tokens);

/* y = norm(x), and back: dx = norm'(dy), plus dx_add where that is not NULL.  y is written in both
 * directions. */
struct mw_operator_norm {
    void *y;
    const void *x;
    void *dx;
    const void *dx_add, *dy;
};
void mw_operator_norm_forward(const struct mw_operators *operators,
                              const struct mw_compute *compute,
                              const struct mw_operator_norm *norm);
void mw_operator_norm_backward(const struct mw_operators *operators,
                               const struct mw_compute *compute,
                               const struct mw_operator_norm *norm);

/* exec/operators/ring.c: attention to a block of another rank's keys, whose result is joined with
 * that of the blocks before; in backward, what it adds to gradients.  Then what has come home of
 * the rank's own keys and values' gradients is added to its own part. */
void mw_operator_ring_forward(const struct mw_operators *operators,
                              const struct mw_compute *compute, struct mw_attention shape);
void mw_operator_ring_backward(const struct mw_operators *operators,
                               const struct mw_compute *compute, struct mw_attention shape);
void mw_operator_ring_home(const struct mw_operators *operators, const struct mw_compute *compute);

static inline int64_t
mw_operator_tokens(const struct mw_compute *compute)
{
    return compute->sequences * compute->seq;
}

/* Those whose hidden states the rank has. */
static inline int64_t
mw_operator_own_tokens(const struct mw_compute *compute)
{
    return mw_decoder_own_tokens(compute->decoder, mw_operator_tokens(compute));
}

static inline int64_t
mw_operator_qkv_width(const struct mw_compute *compute)
{
    return mw_decoder_q(compute->decoder) + 2 * mw_decoder_kv(compute->decoder);
}

/* Where q, k and v of the rank's tokens lie, and how far from one token's to the next: one beside
 * the other, or, where q and k have norms, one behind the other, so that heads are rows of a
 * norm. */
struct mw_operator_heads {
    int64_t q, k, v;
    int64_t ld_q, ld_k, ld_v;
};

static inline struct mw_operator_heads
mw_operator_heads(const struct mw_compute *compute)
{
    int64_t q = mw_decoder_q(compute->decoder), kv = mw_decoder_kv(compute->decoder);
    int64_t tokens = mw_operator_tokens(compute), width = mw_operator_qkv_width(compute);

    if (compute->decoder->qk_norm)
        return (struct mw_operator_heads){0, tokens * q, tokens * (q + kv), q, kv, kv};
    return (struct mw_operator_heads){0, q, q + kv, width, width, width};
}

/* What a product takes of a norm's result. */
static inline const void *
mw_operator_input_rows(const struct mw_compute *compute, const void *own)
{
    return compute->decoder->slice.shares_tokens ? compute->shared->gathered : own;
}

/* The last one forward, the first one backward. */
static inline bool
mw_operator_has_last_rows(const struct mw_part_matrix *matrix)
{
    return matrix->rows > 0 && matrix->first_row + matrix->rows == matrix->all_rows;
}

/* The element `at` after another: in an activation or gradient, and in read-only memory. */
static inline void *
mw_operator_at(const struct mw_compute *compute, void *base, int64_t at)
{
    return (char *)base + at * mw_compute_element_bytes(compute->dtype);
}

static inline const void *
mw_operator_read_at(const struct mw_compute *compute, const void *base, int64_t at)
{
    return (const char *)base + at * mw_compute_element_bytes(compute->dtype);
}

static inline const void *
mw_operator_param_at(const struct mw_compute *compute, int64_t at)
{
    return mw_operator_read_at(compute, compute->params, at);
}

/* Where the gradient of parameter `at` of the part goes. */
static inline struct mw_gradient
mw_operator_gradient_at(const struct mw_compute *compute, int64_t at)
{
    return (struct mw_gradient){
        .data = mw_operator_at(compute, compute->gradient, at),
        .accumulate = compute->gradient_adds,
    };
}

#endif
