/*
 * kernels.h - what the operators of a GPT-2 or Llama decoder compute on CPU cores.
 *
 * One table of functions for each instruction set; mw_cpu_kernels() gives the best that this
 * machine runs.  All tables give the same bits, except where dot products of bf16 pairs are taken
 * (gemm and attention): there the order and the rounding of sums follow the instructions.
 *
 * Data.  Parameters, activations and their gradients are bf16, held in uint16_t (the upper half of
 * an IEEE single); sums are fp32 or fp64.  Tensors are row-major.  `rows` counts tokens
 * (batch * seq).  A leading dimension (ld_*) is the distance of two rows in elements, at least the
 * row's length.  bf16 rounds to nearest even; a NaN stays a (quiet) NaN.
 * Ownership.  The caller owns every buffer; no function allocates.  Outputs need no initial value
 * unless they accumulate.  Inputs and outputs overlap only where it says so, and then exactly.
 * Threads.  Each function runs on the OpenMP team of its caller (omp_set_num_threads); several
 * threads may call at once.  Work is cut by shape alone and sums are combined in index order,
 * without atomics: results do not depend on the number of threads.
 * IEEE operations in the order written, no contraction, no fast-math; fused multiply-add is used in
 * gemm and attention only.
 */
#ifndef MW_EXEC_CPU_KERNELS_H
#define MW_EXEC_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the gradient of a parameter goes: data[...] is bf16, or fp32 where fp32 is set; accumulate
 * adds to what is there (in fp32, rounded once). */
struct mw_cpu_gradient {
    void *data;
    bool fp32;
    bool accumulate;
};

/* Causal self-attention with grouped queries.  Element [token][head][i] of q is at
 * q[token * ld_q + head * head_dim + i], of k and v likewise with kv_heads: they may be slices of
 * one fused [rows, heads + 2 * kv_heads, head_dim] tensor.  o and its gradient are like q with
 * ld_o.  Head h reads head h / (heads / kv_heads) of k and v; head_dim is even, at most
 * MW_CPU_HEAD_DIM_MAX; scores are scaled by `scale`. */
#define MW_CPU_HEAD_DIM_MAX 256
struct mw_cpu_attention {
    int64_t batch, seq, heads, kv_heads, head_dim;
    int64_t ld_q, ld_k, ld_v, ld_o;
    float scale;
};

/* C[m,n] (+)= A[m,k] B[k,n] (+ bias[n]).  A is bf16 [m, ld_a], or [k, ld_a] where transposed; B is
 * bf16 [k, ld_b], or [n, ld_b] where transposed; C is bf16 or fp32 [m, ld_c]; bias is bf16.
 * A leading dimension of 0 says dense.
 *
 *   use                      W [out,in] (Llama)         W [in,out] (GPT-2 Conv1D)
 *   y[T,out]   = x W         A = x, B = W transposed    A = x, B = W
 *   dx[T,in]   = dy W        A = dy, B = W              A = dy, B = W transposed
 *   dW (+)= dy^T x, x^T dy   A = dy transposed, B = x   A = x transposed, B = dy
 */
struct mw_cpu_product {
    int64_t m, n, k;
    int64_t ld_a, ld_b, ld_c;
    bool a_transposed, b_transposed;
    bool bias, accumulate, c_fp32;
};

/* AdamW (arXiv 1711.05101, Algorithm 2) on one element, each step one IEEE fp32 operation:
 *   g = grad * grad_scale
 *   m = beta1 * m + one_minus_beta1 * g
 *   v = beta2 * v + one_minus_beta2 * (g * g)
 *   w = w * decay - corrected_lr * (m / (sqrt(v) * v_scale + eps))
 * mw_cpu_adamw_step() fills it from the usual settings. */
struct mw_cpu_adamw {
    float grad_scale; /* 1 / loss scale, times the clip factor */
    float beta1, one_minus_beta1;
    float beta2, one_minus_beta2;
    float eps;
    float decay;        /* 1 - lr * weight_decay */
    float corrected_lr; /* lr / (1 - beta1^step) */
    float v_scale;      /* 1 / sqrt(1 - beta2^step) */
};

/* Elements of one partial sum of the gradient norm, counted from the start of the unsharded
 * parameter: shards cut at multiples of it give the same partial sums. */
#define MW_CPU_NORM_BLOCK 65536

struct mw_cpu_kernels {
    /* --- elementwise, n elements --- */
    void (*to_fp32)(float *out, const uint16_t *x, int64_t n);
    void (*to_bf16)(uint16_t *out, const float *x, int64_t n);
    /* sum[i] += x[i] */
    void (*accumulate)(float *sum, const uint16_t *x, int64_t n);
    /* out = a + b; out may be a or b. */
    void (*add)(uint16_t *out, const uint16_t *a, const uint16_t *b, int64_t n);

    /* --- activations, n elements; dx may be dy --- */
    /* x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): "gelu_new" */
    void (*gelu_forward)(uint16_t *y, const uint16_t *x, int64_t n);
    void (*gelu_backward)(uint16_t *dx, const uint16_t *dy, const uint16_t *x, int64_t n);
    /* x/2 * (1 + erf(x / sqrt(2))): "gelu" */
    void (*gelu_erf_forward)(uint16_t *y, const uint16_t *x, int64_t n);
    void (*gelu_erf_backward)(uint16_t *dx, const uint16_t *dy, const uint16_t *x, int64_t n);
    void (*relu_forward)(uint16_t *y, const uint16_t *x, int64_t n);
    void (*relu_backward)(uint16_t *dx, const uint16_t *dy, const uint16_t *x, int64_t n);
    /* y = silu(gate) * up; dgate may be gate and dup may be up. */
    void (*swiglu_forward)(uint16_t *y, const uint16_t *gate, const uint16_t *up, int64_t n);
    void (*swiglu_backward)(uint16_t *dgate, uint16_t *dup, const uint16_t *dy,
                            const uint16_t *gate, const uint16_t *up, int64_t n);

    /* --- norms over rows of `columns`; mean and rstd [rows] are written for the backward pass.
     * y = (x - mean) * rstd * weight + bias;  y = x * rstd * weight.  dx may be dy.
     * dx_add, if not NULL, [rows, columns], is added to dx (the residual path); may be dx. --- */
    void (*layernorm_forward)(uint16_t *y, float *mean, float *rstd, const uint16_t *x,
                              const uint16_t *weight, const uint16_t *bias, int64_t rows,
                              int64_t columns, float eps);
    void (*layernorm_backward)(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                               const uint16_t *x, const uint16_t *weight, const float *mean,
                               const float *rstd, int64_t rows, int64_t columns);
    void (*rmsnorm_forward)(uint16_t *y, float *rstd, const uint16_t *x, const uint16_t *weight,
                            int64_t rows, int64_t columns, float eps);
    void (*rmsnorm_backward)(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy,
                             const uint16_t *x, const uint16_t *weight, const float *rstd,
                             int64_t rows, int64_t columns);
    /* Gradients of weight and bias, rows summed in order: dweight (+)= sum of dy * (x - mean) *
     * rstd (mean NULL: 0, for rmsnorm), dbias (+)= sum of dy.  To be called before dy is
     * overwritten. */
    void (*norm_weight_gradient)(struct mw_cpu_gradient dweight, const uint16_t *dy,
                                 const uint16_t *x, const float *mean, const float *rstd,
                                 int64_t rows, int64_t columns);
    void (*bias_gradient)(struct mw_cpu_gradient dbias, const uint16_t *dy, int64_t ld_dy,
                          int64_t rows, int64_t columns);

    /* --- embeddings --- */
    /* y[t] = weight[tokens[t] - first] where that is in [0, count); other rows of y stay as they
     * are, so that a table cut in tiles fills y tile by tile. */
    void (*embedding_forward)(uint16_t *y, const uint16_t *weight, const int32_t *tokens,
                              int64_t rows, int64_t columns, int32_t first, int32_t count);
    /* dweight[id - first] (+)= the sum of dy[t] over tokens[t] == id, in order of t; rows of no
     * token become 0 unless accumulated.  order is scratch of `rows` elements. */
    void (*embedding_backward)(struct mw_cpu_gradient dweight, const uint16_t *dy,
                               const int32_t *tokens, int64_t rows, int64_t columns, int32_t first,
                               int32_t count, uint64_t *order);
    /* y[b * seq + p] += weight[p] for `batch` sequences, and dweight[p] (+)= their sum over b.
     * dweight has `positions` >= seq rows; those from seq on become 0 unless accumulated. */
    void (*position_forward)(uint16_t *y, const uint16_t *weight, int64_t batch, int64_t seq,
                             int64_t columns);
    void (*position_backward)(struct mw_cpu_gradient dweight, const uint16_t *dy, int64_t batch,
                              int64_t seq, int64_t columns, int64_t positions);
    /* In place, Hugging Face's convention (element i pairs with i + head_dim / 2): x holds rows of
     * `heads` heads, ld apart; table is mw_cpu_rope_table's.  inverse: the backward pass. */
    void (*rope)(uint16_t *x, const float *table, int64_t batch, int64_t seq, int64_t heads,
                 int64_t head_dim, int64_t ld, bool inverse);

    /* --- attention; lse [batch, heads, seq] is the log-sum-exp of each row of scaled scores.
     * scratch: attention_scratch_bytes() for the caller's number of threads, 64-byte aligned.
     * Backward: dq, dk, dv are laid out as q, k, v; they must not overlap the inputs. --- */
    int64_t (*attention_scratch_bytes)(const struct mw_cpu_attention *shape, int threads);
    void (*attention_forward)(const struct mw_cpu_attention *shape, uint16_t *o, float *lse,
                              const uint16_t *q, const uint16_t *k, const uint16_t *v,
                              void *scratch);
    void (*attention_backward)(const struct mw_cpu_attention *shape, uint16_t *dq, uint16_t *dk,
                               uint16_t *dv, const uint16_t *d_o, const uint16_t *o,
                               const float *lse, const uint16_t *q, const uint16_t *k,
                               const uint16_t *v, void *scratch);

    /* --- loss: mean or sum is up to the scale ---
     * Row r: row_loss[r] = log(sum(exp(logits[r]))) - logits[r][targets[r]], and, where dlogits is
     * not NULL, dlogits[r] = scale * (softmax(logits[r]) - onehot(targets[r])), 0 from `vocab` to
     * ld_dlogits.  A row whose target is -1 has loss 0 and gradient 0.  logits is bf16 or fp32;
     * dlogits may be the same memory if rows start at the same addresses.  Returns the sum of
     * row_loss, in index order. */
    double (*cross_entropy)(uint16_t *dlogits, int64_t ld_dlogits, double *row_loss,
                            const void *logits, bool logits_fp32, int64_t ld_logits,
                            const int32_t *targets, int64_t rows, int64_t vocab, float scale);

    /* --- optimizer --- */
    /* w, m, v in place; param (if not NULL) becomes w in bf16; grad is bf16 or fp32.  One pass:
     * 28 bytes a parameter of DRAM traffic with bf16 gradients. */
    void (*adamw)(const struct mw_cpu_adamw *step, float *w, float *m, float *v, uint16_t *param,
                  const void *grad, bool grad_fp32, int64_t n);
    /* partial[i] = the sum of squares of elements [i, i + 1) * MW_CPU_NORM_BLOCK of grad, in fp64:
     * infinite or NaN exactly where an element is. grad starts at a multiple of the block. */
    void (*square_sums)(double *partial, const void *grad, bool grad_fp32, int64_t n);

    /* The product by own code: where the matrix library has no bf16. scratch: gemm_scratch_bytes()
     * for the caller's number of threads, 64-byte aligned. */
    int64_t (*gemm_scratch_bytes)(const struct mw_cpu_product *product, int threads);
    void (*gemm)(const struct mw_cpu_product *product, void *c, const uint16_t *a,
                 const uint16_t *b, const uint16_t *bias, void *scratch);
};

/* From the slowest to the fastest; each machine runs all up to one. */
enum mw_cpu_isa {
    MW_CPU_ISA_GENERIC,
    MW_CPU_ISA_AVX2,
    MW_CPU_ISA_AVX512,
    MW_CPU_ISA_AVX512_BF16,
    MW_CPU_ISAS,
};

const char *mw_cpu_isa_name(enum mw_cpu_isa isa);

/* The best table that this machine runs; and that of one set, NULL where it does not run here.
 * Static, never freed. */
const struct mw_cpu_kernels *mw_cpu_kernels(void);
const struct mw_cpu_kernels *mw_cpu_kernels_of(enum mw_cpu_isa isa);

/* table[p][i] = cos, table[p][head_dim / 2 + i] = sin of p * theta^(-2i / head_dim), for positions
 * p < seq and i < head_dim / 2; computed in fp64 (RoPE, arXiv 2104.09864, eq. 15). */
void mw_cpu_rope_table(float *table, int64_t seq, int64_t head_dim, double theta);

/* step counts from 1; beta2 in (0, 1). */
struct mw_cpu_adamw mw_cpu_adamw_step(double lr, double beta1, double beta2, double eps,
                                      double weight_decay, int64_t step, double grad_scale);

/* ceil(n / MW_CPU_NORM_BLOCK), and the sum of so many partials in index order: the square of the
 * norm. Not finite: some gradient overflowed. */
int64_t mw_cpu_norm_blocks(int64_t n);
double mw_cpu_norm_combine(const double *partial, int64_t blocks);

#endif
