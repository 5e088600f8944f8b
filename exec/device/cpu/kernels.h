/*
 * kernels.h - what the operators of a GPT-2 or Llama decoder compute on CPU cores.
 *
 * One table of functions for each instruction set and type of 16-bit elements; mw_cpu_kernels()
 * gives the best that this machine runs, or the forced one.  All tables of a type give the same
 * bits, except where dot products of pairs are taken (gemm and attention): there the order and the
 * rounding of sums follow the instructions.
 *
 * Data: as exec/operators/kernel_types.h says.
 * Ownership.  The caller owns every buffer; no function allocates.  Outputs need no initial value
 * unless they accumulate.  Inputs and outputs overlap only where it says so, and then exactly.
 * Threads.  Each function runs on the OpenMP team of its caller (omp_set_num_threads); several
 * threads may call at once.  Work is cut by shape alone and sums are combined in index order,
 * without atomics: results do not depend on the number of threads.
 * IEEE operations in the order written, no contraction, no fast-math; fused multiply-add is used in
 * gemm and attention only.
 */
#ifndef MW_EXEC_DEVICE_CPU_KERNELS_H
#define MW_EXEC_DEVICE_CPU_KERNELS_H

#include <stddef.h>

#include "exec/operators/kernel_types.h"
#include "plan/dtype.h"

/* Of attention. */
#define MW_CPU_HEAD_DIM_MAX 256

struct mw_cpu_kernels {
    enum mw_dtype dtype; /* of 16-bit elements */

    /* --- elementwise, n elements --- */
    void (*widen)(float *out, const uint16_t *x, int64_t n);
    void (*narrow)(uint16_t *out, const float *x, int64_t n);
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

    /* --- norms over rows of `columns` --- */
    /* mean and rstd [rows] are written for the backward pass.
     * y = (x - mean) * rstd * weight + bias;  y = x * rstd * weight.  dx may be dy.
     * dx_add, if not NULL, [rows, columns], is added to dx (the residual path); may be dx. */
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
    /* Gradients of weight and bias, rows summed in an order that their number gives: dweight (+)=
     * sum of dy * (x - mean) * rstd (mean NULL: 0, for rmsnorm), dbias (+)= sum of dy.  To be
     * called before dy is overwritten. */
    void (*norm_weight_gradient)(struct mw_gradient dweight, const uint16_t *dy, const uint16_t *x,
                                 const float *mean, const float *rstd, int64_t rows,
                                 int64_t columns);
    void (*bias_gradient)(struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy, int64_t rows,
                          int64_t columns);

    /* --- embeddings --- */
    /* y[t] = weight[tokens[t] - first] where that is in [0, count); other rows of y stay as they
     * are, so that a table cut in tiles fills y tile by tile. */
    void (*embedding_forward)(uint16_t *y, const uint16_t *weight, const int32_t *tokens,
                              int64_t rows, int64_t columns, int32_t first, int32_t count);
    /* dweight[id - first] (+)= the sum of dy[t] over tokens[t] == id, in order of t; rows of no
     * token become 0 unless accumulated.  order is scratch of `rows` elements. */
    void (*embedding_backward)(struct mw_gradient dweight, const uint16_t *dy,
                               const int32_t *tokens, int64_t rows, int64_t columns, int32_t first,
                               int32_t count, uint64_t *order);
    /* y[b * seq + p] += weight[p] for `batch` sequences, and dweight[p] (+)= their sum over b.
     * dweight has `positions` >= seq rows; those from seq on become 0 unless accumulated. */
    void (*position_forward)(uint16_t *y, const uint16_t *weight, int64_t batch, int64_t seq,
                             int64_t columns);
    void (*position_backward)(struct mw_gradient dweight, const uint16_t *dy, int64_t batch,
                              int64_t seq, int64_t columns, int64_t positions);
    /* In place, Hugging Face's convention (element i pairs with i + head_dim / 2): x holds rows of
     * `heads` heads, ld apart; table is mw_rope_table's.  inverse: the backward pass. */
    void (*rope)(uint16_t *x, const float *table, int64_t batch, int64_t seq, int64_t heads,
                 int64_t head_dim, int64_t ld, bool inverse);

    /* --- attention --- */
    /* lse [batch, heads, seq] is the log-sum-exp of each row of scaled scores.
     * scratch: attention_scratch_bytes() for the caller's number of threads, 64-byte aligned.
     * Backward: dq, dk, dv are laid out as q, k, v; they must not overlap the inputs. */
    int64_t (*attention_scratch_bytes)(const struct mw_attention *shape, int threads);
    void (*attention_forward)(const struct mw_attention *shape, uint16_t *o, float *lse,
                              const uint16_t *q, const uint16_t *k, const uint16_t *v,
                              void *scratch);
    void (*attention_backward)(const struct mw_attention *shape, uint16_t *dq, uint16_t *dk,
                               uint16_t *dv, const uint16_t *d_o, const uint16_t *o,
                               const float *lse, const uint16_t *q, const uint16_t *k,
                               const uint16_t *v, void *scratch);

    /* --- loss: mean or sum is up to the scale --- */
    /* Row r: row_loss[r] = log(sum(exp(logits[r]))) - logits[r][targets[r]], and, where dlogits is
     * not NULL, dlogits[r] = scale * (softmax(logits[r]) - onehot(targets[r])), 0 from `vocab` to
     * ld_dlogits.  A row whose target is -1 has loss 0 and gradient 0.  logits is 16-bit or fp32;
     * dlogits may be the same memory if rows start at the same addresses.  Returns the sum of
     * row_loss, in index order. */
    double (*cross_entropy)(uint16_t *dlogits, int64_t ld_dlogits, double *row_loss,
                            const void *logits, bool logits_fp32, int64_t ld_logits,
                            const int32_t *targets, int64_t rows, int64_t vocab, float scale);

    /* --- optimizer --- */
    /* w, m, v in place; param (if not NULL) becomes w in 16 bits; grad has 16 bits or is fp32.  One
     * pass: 28 bytes a parameter of DRAM traffic with gradients of 16 bits. */
    void (*adamw)(const struct mw_adamw *step, float *w, float *m, float *v, uint16_t *param,
                  const void *grad, bool grad_fp32, int64_t n);
    /* partial[i] = the sum of squares of elements [i, i + 1) * MW_NORM_BLOCK of grad, in fp64:
     * infinite or NaN exactly where an element is. grad starts at a multiple of the block. */
    void (*square_sums)(double *partial, const void *grad, bool grad_fp32, int64_t n);

    /* The product by own code: where the matrix library has no such type. scratch:
     * gemm_scratch_bytes() for the caller's number of threads, 64-byte aligned. */
    int64_t (*gemm_scratch_bytes)(const struct mw_product *product, int threads);
    void (*gemm)(const struct mw_product *product, void *c, const uint16_t *a, const uint16_t *b,
                 const uint16_t *bias, void *scratch);
};

/* From the slowest to the fastest; each machine runs all up to one.  Records keep the numbers. */
enum mw_cpu_isa {
    MW_CPU_ISA_GENERIC,
    MW_CPU_ISA_AVX2,
    MW_CPU_ISA_AVX512,
    MW_CPU_ISA_AVX512_BF16,
    MW_CPU_ISAS,
};

/* Names one of them, for kernels and library alike to use no later one; read once. */
#define MW_CPU_ISA_VARIABLE "MEMWALL_ISA"

const char *mw_cpu_isa_name(enum mw_cpu_isa isa);
bool mw_cpu_isa_runs(enum mw_cpu_isa isa); /* on this machine */
/* The forced one, else the best that this machine runs.  forced may be NULL. */
enum mw_cpu_isa mw_cpu_isa_used(bool *forced);
/* Why the variable's value cannot be followed (then the best is used), one line; NULL: it can. */
const char *mw_cpu_isa_refusal(void);

/* Of MW_DTYPE_BF16 or MW_DTYPE_FP16: the table of the set in use, or of the best one before it; and
 * that of one set, NULL where it does not run here or adds nothing to the one before.  Static,
 * never freed. */
const struct mw_cpu_kernels *mw_cpu_kernels(enum mw_dtype dtype);
const struct mw_cpu_kernels *mw_cpu_kernels_of(enum mw_cpu_isa isa, enum mw_dtype dtype);

#endif
