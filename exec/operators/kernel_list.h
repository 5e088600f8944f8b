/*
 * kernel_list.h - every kernel, once: name, parameters, arguments.  All else that names each kernel
 * is made from this list: the tables of functions (exec/operators/kernels.h,
 * exec/device/cpu/kernels.h, exec/device/cuda/kernels.h), the declarations for each instruction set
 * and element type, the functions of a device that hand a call on, the fakes of CUDA kernels.
 *
 * Define what a row becomes, then include this file, as often as needed; it has no include guard.
 * Rows whose macro is not defined vanish; all these macros are undefined at the end.
 *
 *   MW_KERNEL(name, parameters, arguments)          of operators: part of every device
 *   MW_KERNEL_PASS(name, parameters, arguments)     over vectors: for a backend's own passes
 *   MW_KERNEL_SCRATCH(name, parameters, arguments)  bytes of scratch that a kernel needs
 *   MW_KERNEL_EXPERTS, MW_KERNEL_EXPERTS_SCRATCH    of mixtures, on devices that run these
 *   MW_KERNEL_RING                                  of rings of ranks, on devices that run these
 *
 * parameters and arguments stand in parentheses; MW_BARE(exec/operators/kernel_types.h) takes those
 * off.  What a device adds (itself, a stream, a number of threads) is not in the list.
 *
 * MW_ELEMENT is the C type of an element of parameters, activations and their gradients: void where
 * one table serves several types, unless it is defined.
 *
 * Data are as exec/operators/kernel_types.h says.  The caller owns every buffer; no kernel
 * allocates.  Outputs need no initial value unless they accumulate.  Inputs and outputs overlap
 * only where it says so, and then exactly.  `scratch` is as large as the kernel's *_scratch_bytes
 * says (NULL for 0), and lies at a multiple of 64 bytes; its content lasts for one call.
 */
#include "exec/operators/kernel_types.h"

#ifndef MW_KERNEL
#define MW_KERNEL(name, parameters, arguments)
#endif
#ifndef MW_ELEMENT
#define MW_ELEMENT void
#endif
#ifndef MW_KERNEL_PASS
#define MW_KERNEL_PASS(name, parameters, arguments)
#endif
#ifndef MW_KERNEL_SCRATCH
#define MW_KERNEL_SCRATCH(name, parameters, arguments)
#endif

#ifndef MW_KERNEL_EXPERTS
#define MW_KERNEL_EXPERTS(name, parameters, arguments)
#endif
#ifndef MW_KERNEL_RING
#define MW_KERNEL_RING(name, parameters, arguments)
#endif
#ifndef MW_KERNEL_EXPERTS_SCRATCH
#define MW_KERNEL_EXPERTS_SCRATCH(name, parameters, arguments)
#endif

/* clang-format off */

/* --- elementwise, n elements ----------------------------------------------------------------- */

/* out = a + b; out may be a or b. */
MW_KERNEL(add,
          (MW_ELEMENT *out, const MW_ELEMENT *a, const MW_ELEMENT *b, int64_t n), (out, a, b, n))

/* x *= factor */
MW_KERNEL(scale, (MW_ELEMENT *x, float factor, int64_t n), (x, factor, n))

/* out = what blocks of weights or activations hold (exec/data/blocks.h), rounded where the type of
 * out has not all of it; from the start of a block on.  dtype: a type that mw_blocks_hold. */
MW_KERNEL(widen_blocks,
          (MW_ELEMENT *out, const void *blocks, int dtype, int64_t n), (out, blocks, dtype, n))
/* The same blocks of mxfp8 as mw_blocks_encode's; a block with what is no finite number is NaN. */
MW_KERNEL_PASS(narrow_mxfp8, (void *blocks, const MW_ELEMENT *x, int64_t n), (blocks, x, n))

MW_KERNEL_PASS(widen, (float *out, const MW_ELEMENT *x, int64_t n), (out, x, n))
MW_KERNEL_PASS(narrow, (MW_ELEMENT *out, const float *x, int64_t n), (out, x, n))
/* sum[i] += x[i] */
MW_KERNEL_PASS(accumulate, (float *sum, const MW_ELEMENT *x, int64_t n), (sum, x, n))

/* --- activations, n elements; dx may be dy --------------------------------------------------- */

/* x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): "gelu_new" */
MW_KERNEL(gelu_forward, (MW_ELEMENT *y, const MW_ELEMENT *x, int64_t n), (y, x, n))
MW_KERNEL(gelu_backward,
          (MW_ELEMENT *dx, const MW_ELEMENT *dy, const MW_ELEMENT *x, int64_t n), (dx, dy, x, n))
/* x/2 * (1 + erf(x / sqrt(2))): "gelu" */
MW_KERNEL(gelu_erf_forward, (MW_ELEMENT *y, const MW_ELEMENT *x, int64_t n), (y, x, n))
MW_KERNEL(gelu_erf_backward,
          (MW_ELEMENT *dx, const MW_ELEMENT *dy, const MW_ELEMENT *x, int64_t n), (dx, dy, x, n))
MW_KERNEL(relu_forward, (MW_ELEMENT *y, const MW_ELEMENT *x, int64_t n), (y, x, n))
MW_KERNEL(relu_backward,
          (MW_ELEMENT *dx, const MW_ELEMENT *dy, const MW_ELEMENT *x, int64_t n), (dx, dy, x, n))
/* y = silu(gate) * up; dgate may be gate and dup may be up. */
MW_KERNEL(swiglu_forward,
          (MW_ELEMENT *y, const MW_ELEMENT *gate, const MW_ELEMENT *up, int64_t n),
          (y, gate, up, n))
MW_KERNEL(swiglu_backward,
          (MW_ELEMENT *dgate, MW_ELEMENT *dup, const MW_ELEMENT *dy, const MW_ELEMENT *gate,
           const MW_ELEMENT *up, int64_t n),
          (dgate, dup, dy, gate, up, n))

/* --- norms over rows of `columns` ------------------------------------------------------------ */

/* mean and rstd [rows] are written for the backward pass; with y NULL, they alone.
 * y = (x - mean) * rstd * weight + bias;  y = x * rstd * weight.  dx may be dy.
 * dx_add, if not NULL, [rows, columns], is added to dx (the residual path); it may be dx. */
MW_KERNEL(layernorm_forward,
          (MW_ELEMENT *y, float *mean, float *rstd, const MW_ELEMENT *x, const MW_ELEMENT *weight,
           const MW_ELEMENT *bias, int64_t rows, int64_t columns, float eps),
          (y, mean, rstd, x, weight, bias, rows, columns, eps))
MW_KERNEL(layernorm_backward,
          (MW_ELEMENT *dx, const MW_ELEMENT *dx_add, const MW_ELEMENT *dy, const MW_ELEMENT *x,
           const MW_ELEMENT *weight, const float *mean, const float *rstd, int64_t rows,
           int64_t columns),
          (dx, dx_add, dy, x, weight, mean, rstd, rows, columns))
MW_KERNEL(rmsnorm_forward,
          (MW_ELEMENT *y, float *rstd, const MW_ELEMENT *x, const MW_ELEMENT *weight, int64_t rows,
           int64_t columns, float eps),
          (y, rstd, x, weight, rows, columns, eps))
MW_KERNEL(rmsnorm_backward,
          (MW_ELEMENT *dx, const MW_ELEMENT *dx_add, const MW_ELEMENT *dy, const MW_ELEMENT *x,
           const MW_ELEMENT *weight, const float *rstd, int64_t rows, int64_t columns),
          (dx, dx_add, dy, x, weight, rstd, rows, columns))

/* --- sums over rows: gradients of weights and biases ----------------------------------------- */

MW_KERNEL_SCRATCH(row_sums_scratch_bytes, (int64_t rows, int64_t columns), (rows, columns))
/* dweight (+)= sum of dy * (x - mean) * rstd; mean is 0 where it is NULL, for rmsnorm. */
MW_KERNEL(norm_weight_gradient,
          (struct mw_gradient dweight, const MW_ELEMENT *dy, const MW_ELEMENT *x, const float *mean,
           const float *rstd, int64_t rows, int64_t columns, void *scratch),
          (dweight, dy, x, mean, rstd, rows, columns, scratch))
/* dbias (+)= sum of dy. */
MW_KERNEL(bias_gradient,
          (struct mw_gradient dbias, const MW_ELEMENT *dy, int64_t ld_dy, int64_t rows,
           int64_t columns, void *scratch),
          (dbias, dy, ld_dy, rows, columns, scratch))

/* --- embeddings ------------------------------------------------------------------------------ */

/* y[t] = weight[tokens[t] - first] where that row is in [0, count); other rows of y stay as they
 * are, so that a table cut in tiles fills y tile by tile. */
MW_KERNEL(embedding_forward,
          (MW_ELEMENT *y, const MW_ELEMENT *weight, const int32_t *tokens, int64_t rows,
           int64_t columns, int32_t first, int32_t count),
          (y, weight, tokens, rows, columns, first, count))
MW_KERNEL_SCRATCH(embedding_scratch_bytes, (int64_t rows), (rows))
/* dweight[id - first] (+)= the sum of dy[t] over tokens[t] == id, in order of t; rows of no token
 * become 0 unless accumulated. */
MW_KERNEL(embedding_backward,
          (struct mw_gradient dweight, const MW_ELEMENT *dy, const int32_t *tokens, int64_t rows,
           int64_t columns, int32_t first, int32_t count, void *scratch),
          (dweight, dy, tokens, rows, columns, first, count, scratch))
/* y[b * seq + p] += weight[p] for `batch` sequences, and dweight[p] (+)= their sum over b.
 * dweight has `positions` >= seq rows; those from seq on become 0 unless accumulated. */
MW_KERNEL(position_forward,
          (MW_ELEMENT *y, const MW_ELEMENT *weight, int64_t batch, int64_t seq, int64_t columns),
          (y, weight, batch, seq, columns))
MW_KERNEL(position_backward,
          (struct mw_gradient dweight, const MW_ELEMENT *dy, int64_t batch, int64_t seq,
           int64_t columns, int64_t positions),
          (dweight, dy, batch, seq, columns, positions))
/* In place, by Hugging Face's convention (element i pairs with i + head_dim / 2): x holds rows of
 * `heads` heads, ld apart; table is mw_rope_table's.  inverse: the backward pass. */
MW_KERNEL(rope,
          (MW_ELEMENT *x, const float *table, int64_t batch, int64_t seq, int64_t heads,
           int64_t head_dim, int64_t ld, bool inverse),
          (x, table, batch, seq, heads, head_dim, ld, inverse))

/* --- attention ------------------------------------------------------------------------------- */

MW_KERNEL_SCRATCH(attention_scratch_bytes, (const struct mw_attention *shape), (shape))
/* lse [batch, heads, seq] is the log-sum-exp of each row of scaled scores.
 * Backward: dq, dk, dv are laid out as q, k, v; they must not overlap the inputs. */
MW_KERNEL(attention_forward,
          (const struct mw_attention *shape, MW_ELEMENT *o, float *lse, const MW_ELEMENT *q,
           const MW_ELEMENT *k, const MW_ELEMENT *v, void *scratch),
          (shape, o, lse, q, k, v, scratch))
MW_KERNEL(attention_backward,
          (const struct mw_attention *shape, MW_ELEMENT *dq, MW_ELEMENT *dk, MW_ELEMENT *dv,
           const MW_ELEMENT *d_o, const MW_ELEMENT *o, const float *lse, const MW_ELEMENT *q,
           const MW_ELEMENT *k, const MW_ELEMENT *v, void *scratch),
          (shape, dq, dk, dv, d_o, o, lse, q, k, v, scratch))

/* --- rings of ranks -------------------------------------------------------------------------- */

/* Attention to some keys, o and lse, becomes that to these and to those of another block. */
MW_KERNEL_RING(join_attention,
               (const struct mw_attention *shape, MW_ELEMENT *o, float *lse,
                const MW_ELEMENT *block_o, const float *block_lse),
               (shape, o, lse, block_o, block_lse))
/* y += x, of `rows` rows, ld_* elements apart. */
MW_KERNEL_RING(add_rows,
               (MW_ELEMENT *y, int64_t ld_y, const MW_ELEMENT *x, int64_t ld_x, int64_t rows,
                int64_t columns),
               (y, ld_y, x, ld_x, rows, columns))

/* --- mixtures of experts; `routing` is of the tokens, copies are rows of `columns` ------------ */

/* In place, of each row [experts]; lse [tokens], if not NULL, is the log-sum-exp of its scores. */
MW_KERNEL_EXPERTS(router_softmax,
                  (float *scores, float *lse, int64_t tokens, int64_t experts),
                  (scores, lse, tokens, experts))
/* Fills what `routing` points at, from probabilities [tokens, experts].  Of equal ones the expert
 * of the lower number comes first. */
MW_KERNEL_EXPERTS(route,
                  (const struct mw_routing *routing, const float *probabilities),
                  (routing, probabilities))
/* losses[0] = experts * the sum over them of choices / tokens * the mean probability: 1 for each
 * choice of a token where experts are alike.  losses[1] = the mean of lse squared; 0 where that is
 * NULL.  Memory of the host that the device reaches; the order of sums is fixed. */
MW_KERNEL_EXPERTS(router_losses,
                  (const struct mw_routing *routing, double *losses, const float *probabilities,
                   const float *lse),
                  (routing, losses, probabilities, lse))
/* The gradient of the scores from that of the experts' weights, [tokens, visits], and losses of the
 * router.  dscores may be the same memory as the probabilities if rows start at the same
 * addresses. */
MW_KERNEL_EXPERTS(router_backward,
                  (const struct mw_routing *routing, MW_ELEMENT *dscores, int64_t ld_dscores,
                   const float *probabilities, const float *dweights,
                   struct mw_router_slopes slopes),
                  (routing, dscores, ld_dscores, probabilities, dweights, slopes))
/* copies[row] = x[token], for each of its visits; and x[token] = the sum of its copies. */
MW_KERNEL_EXPERTS(copy_tokens,
                  (const struct mw_routing *routing, MW_ELEMENT *copies, const MW_ELEMENT *x,
                   int64_t columns),
                  (routing, copies, x, columns))
MW_KERNEL_EXPERTS(sum_copies,
                  (const struct mw_routing *routing, MW_ELEMENT *x, const MW_ELEMENT *copies,
                   int64_t columns),
                  (routing, x, copies, columns))
/* y[token] = x[token] + the sum of weight * copy, rounded once. */
MW_KERNEL_EXPERTS(weigh_copies,
                  (const struct mw_routing *routing, MW_ELEMENT *y, const MW_ELEMENT *x,
                   const MW_ELEMENT *copies, int64_t columns),
                  (routing, y, x, copies, columns))
/* dweights [tokens, visits] = the sum of dy * copy; then the copies become their gradients. */
MW_KERNEL_EXPERTS(weigh_backward,
                  (const struct mw_routing *routing, float *dweights, MW_ELEMENT *copies,
                   const MW_ELEMENT *dy, int64_t columns),
                  (routing, dweights, copies, dy, columns))
MW_KERNEL_EXPERTS_SCRATCH(groups_scratch_bytes, (int64_t groups), (groups))
/* A product for each group of rows, [begin[g], begin[g + 1]): dense operands, all of one type, and
 * no bias.  A dimension of 0 is the number of the group's rows: m, of results, whose B is the g-th
 * of as many matrices; or k, of sums, whose C is, and is 0 for a group without rows unless it
 * accumulates. */
MW_KERNEL_EXPERTS(multiply_groups,
                  (const struct mw_product *product, const int32_t *begin, int64_t groups,
                   MW_ELEMENT *c, const MW_ELEMENT *a, const MW_ELEMENT *b, void *scratch),
                  (product, begin, groups, c, a, b, scratch))

/* --- loss: mean or sum is up to the scale ---------------------------------------------------- */

/* Row r: row_loss[r] = log(sum(exp(logits[r]))) - logits[r][targets[r]], and, where dlogits is not
 * NULL, dlogits[r] = scale * (softmax(logits[r]) - onehot(targets[r])), 0 from `vocab` to
 * ld_dlogits.  A row whose target is -1 has loss 0 and gradient 0.  logits has 16 bits or is fp32;
 * dlogits may be the same memory if rows start at the same addresses.  *loss += the sum of
 * row_loss, in a fixed order: host memory that the device reaches, read when the kernel is done. */
MW_KERNEL(cross_entropy,
          (double *loss, double *row_loss, MW_ELEMENT *dlogits, int64_t ld_dlogits,
           const void *logits, bool logits_fp32, int64_t ld_logits, const int32_t *targets,
           int64_t rows, int64_t vocab, float scale),
          (loss, row_loss, dlogits, ld_dlogits, logits, logits_fp32, ld_logits, targets, rows,
           vocab, scale))

/* The same where slices have parts of the vocabulary, [first, first + vocab) of it.  First of each
 * row, sums[r] = {the largest logit, the sum of exp(logit - that), the target's logit or 0}; of
 * vocab 0 {-FLT_MAX, 0, 0}. */
MW_KERNEL(slice_entropy_sums,
          (float *sums, const MW_ELEMENT *logits, int64_t ld_logits, const int32_t *targets,
           int64_t rows, int64_t vocab, int32_t first),
          (sums, logits, ld_logits, targets, rows, vocab, first))
/* Then with the sums of all slices, [slices][rows], in their order: the gradient in place of the
 * logits, 0 from `vocab` to ld_logits, row_loss, and *loss += its sum, where loss is not NULL. */
MW_KERNEL(slice_entropy,
          (double *loss, double *row_loss, MW_ELEMENT *logits, int64_t ld_logits,
           const float *sums, int64_t slices, const int32_t *targets, int64_t rows, int64_t vocab,
           int32_t first, float scale),
          (loss, row_loss, logits, ld_logits, sums, slices, targets, rows, vocab, first, scale))

/* --- optimizer ------------------------------------------------------------------------------- */

/* w, m, v in place, m and v NULL where the rule has none; param (if not NULL) becomes w in 16 bits;
 * grad has 16 bits or is fp32.  One pass: of AdamW 28 bytes of memory traffic per parameter with
 * gradients of 16 bits. */
MW_KERNEL_PASS(update,
               (const struct mw_update_step *step, float *w, float *m, float *v, MW_ELEMENT *param,
                const void *grad, bool grad_fp32, int64_t n),
               (step, w, m, v, param, grad, grad_fp32, n))
/* The same of moments in fewer bits: widened, updated and narrowed again in one pass, which reads
 * and writes them as they lie.  step: of elements that decay; others take it without. */
MW_KERNEL_PASS(update_narrow,
               (const struct mw_update_step *step, const struct mw_update_spans *decaying,
                float *w, const struct mw_narrow_moments *moments, MW_ELEMENT *param,
                const void *grad, bool grad_fp32, int64_t n),
               (step, decaying, w, moments, param, grad, grad_fp32, n))
/* Moments in 8 bits (exec/operators/dynamic8.h), whose codes are in host memory: n of them to
 * whole blocks, filled up with zeros, and those from the first on back. */
MW_KERNEL_PASS(narrow_dynamic8,
               (void *blocks, const float *x, const struct mw_dynamic8 *of, int64_t n),
               (blocks, x, of, n))
MW_KERNEL_PASS(widen_dynamic8,
               (float *out, const void *blocks, const struct mw_dynamic8 *of, int64_t first,
                int64_t n),
               (out, blocks, of, first, n))
/* partial[i] = the sum of squares of elements [i, i + 1) * MW_NORM_BLOCK of grad, in fp64:
 * infinite or NaN exactly where an element is.  grad starts at a multiple of the block. */
MW_KERNEL_PASS(square_sums,
               (double *partial, const void *grad, bool grad_fp32, int64_t n),
               (partial, grad, grad_fp32, n))

/* clang-format on */

#undef MW_KERNEL
#undef MW_KERNEL_PASS
#undef MW_KERNEL_SCRATCH
#undef MW_KERNEL_EXPERTS
#undef MW_KERNEL_EXPERTS_SCRATCH
#undef MW_KERNEL_RING
#undef MW_ELEMENT
