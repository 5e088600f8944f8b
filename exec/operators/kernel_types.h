/*
 * kernel_types.h - the types that kernels of all devices take: plain numbers, for C and C++.
 *
 * Parameters, activations and their gradients are halves: bf16 (the upper half of an IEEE single)
 * or fp16 (IEEE's own), held in uint16_t; one device computes in one of the two types.  Sums are
 * fp32 or fp64.  Tensors are row-major.  `rows` counts tokens (batch * seq).  A leading dimension
 * (ld_*) is the distance between two rows in elements, at least the row's length. Halves are
 * rounded to nearest even, to infinity beyond their range; a NaN stays a (quiet) NaN.
 */
#ifndef MW_EXEC_OPERATORS_KERNEL_TYPES_H
#define MW_EXEC_OPERATORS_KERNEL_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/data/mix.h"
#include "exec/operators/dynamic8.h"
#include "plan/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MW_BARE(a, b) is a, b: so `MW_BARE parameters` appends a list without its parentheses to other
 * parameters (exec/operators/kernel_list.h). */
#define MW_BARE(...) __VA_ARGS__

/* Where the gradient of a parameter goes: data[...] are halves, or fp32 where fp32 is set;
 * accumulate adds to what is there (in fp32, rounded once). */
struct mw_gradient {
    void *data;
    bool fp32;
    bool accumulate;
};

/* Causal self-attention with grouped queries, or attention to a block of other keys.  Element
 * [token][head][i] of q is at q[token * ld_q + head * head_dim + i], of k and v likewise with
 * kv_heads: they may be slices of one fused [rows, heads + 2 * kv_heads, head_dim] tensor.  o and
 * its gradient are like q with ld_o.  Head h reads head h / (heads / kv_heads) of k and v; head_dim
 * is even; scores are scaled by `scale`. */
struct mw_attention {
    int64_t batch, seq, heads, kv_heads, head_dim;
    int64_t ld_q, ld_k, ld_v, ld_o;
    float scale;
    /* On devices that run rings of ranks (plan/context.h): */
    int64_t keys;         /* of a sequence, all of which all queries see; 0: the queries' own, and a
                           * query sees those up to its own */
    int64_t ld_lse;       /* from one head's log-sum-exp to the next head's; 0: seq */
    bool adds_q, adds_kv; /* gradients are added to what is there */
};

/* C[m,n] (+)= A[m,k] B[k,n] (+ bias[n]).  A is [m, ld_a], or [k, ld_a] where transposed; B is [k,
 * ld_b], or [n, ld_b] where transposed; C is [m, ld_c], of halves or fp32; bias is of halves. A
 * leading dimension of 0 says dense.
 *
 *   use                      W [out,in] (Llama)         W [in,out] (GPT-2 Conv1D)
 *   y[T,out]   = x W         A = x, B = W transposed    A = x, B = W
 *   dx[T,in]   = dy W        A = dy, B = W              A = dy, B = W transposed
 *   dW (+)= dy^T x, x^T dy   A = dy transposed, B = x   A = x transposed, B = dy
 */
struct mw_product {
    int64_t m, n, k;
    int64_t ld_a, ld_b, ld_c;
    bool a_transposed, b_transposed;
    bool bias, accumulate, c_fp32;
};

/* Which experts the tokens of a mixture visit.  Copies of hidden states, one for each visit, lie
 * sorted by expert. */
struct mw_routing {
    int64_t tokens, experts, visits; /* visits: experts of a token */
    int64_t capacity;                /* copies that an expert takes; 0: all.  All tokens' first
                                      * choices come before their second ones, each in the tokens'
                                      * order (GShard, arXiv 2006.16668, Algorithm 1) */
    bool renormalizes;               /* a token's weights sum up to 1 */
    int32_t *expert;                 /* [tokens, visits], the most probable one first */
    float *weight;                   /* of what that expert gives */
    int32_t *row;                    /* among the copies; -1: dropped */
    int32_t *begin;                  /* [experts + 1]: the first row of each, and the end */
    int32_t *chosen;                 /* [experts]: choices of it, also those that are dropped; with
                                      * draws the first ones alone */
    /* The second choice of a token is left out where mw_routing_draw is not below twice its weight
     * (GShard, Algorithm 1). */
    bool draws;
    uint64_t draw;
};

/* From 0 to 1, of a token. */
static inline double
mw_routing_draw(uint64_t draw, int64_t token)
{
    return (double)(mw_mix(draw + (uint64_t)token) >> 11) * 0x1p-53;
}

/* What losses of the router add to the gradients of its scores: `aux` times the choices of an
 * expert to that of its probability, and `z` times the token's lse (kernel_list.h) and its
 * probability to that of a score. */
struct mw_router_slopes {
    float aux, z;
    const float *lse; /* NULL: z is 0 */
};

bool mw_product_same(const struct mw_product *a, const struct mw_product *b);

/* An update of one element, each step one IEEE fp32 operation, with g = grad * grad_scale:
 *   AdamW (arXiv 1711.05101, Algorithm 2)
 *     m = beta1 * m + one_minus_beta1 * g
 *     v = beta2 * v + one_minus_beta2 * (g * g)
 *     w = w * decay - lr * (m / (sqrt(v) * v_scale + eps))
 *   SGD, without momentum and with it (PyTorch's, where weight decay is part of the gradient)
 *     g = g + weight_decay * w
 *     m = beta1 * m + g
 *     w = w - lr * g, or w - lr * m
 *   Lion (arXiv 2302.06675, Algorithm 2)
 *     c = beta1 * m + one_minus_beta1 * g
 *     m = beta2 * m + one_minus_beta2 * g
 *     w = w * decay - lr * sign(c)
 *   SM3 (SM3-II: arXiv 1901.11150, Algorithm 2), of the element in row r and column c
 *     nu = min(row[r], column[c]) + g * g; of what is no matrix column[c] + g * g
 *     row_next[r] = max(row_next[r], nu), column_next[c] = max(column_next[c], nu)
 *     m = beta1 * m + one_minus_beta1 * (nu > 0 ? g / sqrt(nu) : 0)
 *     w = w * decay - lr * m
 *   Adafactor (arXiv 1804.04235, Algorithms 4 and 5, without momentum)
 *     w = w * decay - lr * (g * row[r] * column[c]); of what is no matrix g * column[c]
 *     where row and column are factors: mw_adafactor_sides
 * mw_update_step_of() fills it from the usual settings. */
struct mw_update_step {
    enum mw_update_rule rule;
    float grad_scale; /* 1 / loss scale, times the clip factor */
    float beta1, one_minus_beta1;
    float beta2, one_minus_beta2;
    float eps;
    float weight_decay, decay; /* 1 - lr * weight_decay */
    float lr;                  /* of AdamW lr / (1 - beta1^step) */
    float v_scale;             /* 1 / sqrt(1 - beta2^step) */
};

/* A sum of squares of fp32 numbers that has the same bits in any order: digits of 32 bits with a
 * sign, the first of them at 2^MW_EXACT_FIRST_BIT, each added up apart in 64 bits, which hold the
 * digits of fewer than 2^32 numbers.  From the highest on, a digit is what is left, rounded to its
 * last bit (ties to even); what is left behind the first is left off.  A square from 2^68 on, and
 * what is no number, count as the largest of fp64 below. */
#define MW_EXACT_DIGIT_BITS 32
#define MW_EXACT_FIRST_BIT (-112)
struct mw_exact_sum {
    uint64_t digits[MW_EXACT_DIGITS];
};
double mw_exact_value(const struct mw_exact_sum *sum);

/* The sums of a tensor's rows and columns, to which those of a call's elements are added; otherwise
 * as in struct mw_update_vectors. */
struct mw_exact_sides {
    struct mw_exact_sum *row, *column;
    int64_t columns, first;
};

/* What an update reads and makes of the vectors of a tensor.  A call is of consecutive elements of
 * it, row by row.  Calls may come in any order, as maxima do not depend on it; one at a time. */
struct mw_update_vectors {
    const float *row, *column;     /* before the step; of what is no matrix, row is NULL */
    float *row_next, *column_next; /* of SM3 */
    int64_t columns;               /* elements of a row */
    int64_t first;                 /* the call's first element */
};

/* Moments of fewer bits than fp32.  Blocks begin with a call's first element. */
struct mw_narrow_moments {
    void *m, *v;
    const struct mw_dynamic8 *m_codes, *v_codes; /* of blocks of 8 bits; NULL, both: bf16 */
};

/* Which elements of a call decay, since a block of moments may have a part of a matrix and a part
 * of what is none: those of [ends[0], ends[1]), of [ends[2], ends[3]) and so on.  Ends ascend; the
 * last of an odd number of spans has no end. */
#define MW_UPDATE_ENDS_MAX 24
struct mw_update_spans {
    int64_t ends[MW_UPDATE_ENDS_MAX];
    int32_t count;
};

/* step counts from 1; beta2 in (0, 1). */
struct mw_update_step mw_update_step_of(enum mw_update_rule rule, double lr, double beta1,
                                        double beta2, double eps, double weight_decay, int64_t step,
                                        double grad_scale);
struct mw_update_step mw_adamw_step(double lr, double beta1, double beta2, double eps,
                                    double weight_decay, int64_t step, double grad_scale);

/* Elements of one partial sum of the gradient norm, counted from the start of the unsharded
 * parameter: shards cut at multiples of it give the same partial sums.  A block is summed in fp64
 * in one order on all devices: of each span of MW_NORM_SPAN elements MW_NORM_LANES sums, of every
 * MW_NORM_LANES-th element; those of lanes i and i + MW_NORM_LANES / 2 together, in order of i;
 * then the spans in order. */
#define MW_NORM_BLOCK 65536
#define MW_NORM_SPAN 4096
#define MW_NORM_LANES 16

/* ceil(n / MW_NORM_BLOCK), and the sum of that many partials in index order: the square of the
 * norm. Not finite: some gradient overflowed. */
int64_t mw_norm_blocks(int64_t n);
double mw_norm_combine(const double *partial, int64_t blocks);

#ifdef __cplusplus
}
#endif

#endif
