/*
 * operators_internal.h - what the operators' files share; for exec/cpu/operators*.c alone.
 *
 * An operator is what it does before its matrix products, the products, what it does behind them;
 * the products are listed apart, so that they can be made ready before anything runs.
 */
#ifndef MW_EXEC_CPU_OPERATORS_INTERNAL_H
#define MW_EXEC_CPU_OPERATORS_INTERNAL_H

#include "exec/cpu/kernels.h"
#include "exec/cpu/matmul.h"
#include "exec/cpu/operators.h"

struct mw_cpu_operators {
    struct mw_decoder decoder;
    int64_t sequences, seq;
    int threads;
    const struct mw_cpu_kernels *kernels;
    struct mw_cpu_matmul *matmul;
    void *attention_scratch;
    int64_t attention_bytes;
    /* 8 bytes a token, which serve one operator at a time: the order of tokens in an embedding's
     * gradient, the losses of rows, mean and rstd of a norm. */
    void *token_scratch;
    int64_t token_bytes;
    float *rope; /* NULL without rotary positions */
    int64_t rope_bytes;
};

struct mw_cpu_multiply {
    struct mw_cpu_product product;
    void *c;
    const uint16_t *a, *b, *bias;
};

#define MW_CPU_MULTIPLIES_MAX 4 /* gradients of input and weight, twice with a gate */

/* Returns how many there are. */
int mw_cpu_operator_products(const struct mw_compute *compute,
                             struct mw_cpu_multiply out[MW_CPU_MULTIPLIES_MAX]);
/* The gradient of its bias; nothing where there is none. */
void mw_cpu_operator_bias(const struct mw_cpu_operators *operators,
                          const struct mw_compute *compute);

typedef void (*mw_cpu_step)(const struct mw_cpu_operators *operators,
                            const struct mw_compute *compute);

/* Any may be NULL. */
struct mw_cpu_steps {
    mw_cpu_step before, behind;
};

/* In the layers: NORM1 to MLP_DOWN; and before and after them. */
struct mw_cpu_steps mw_cpu_layer_steps(enum mw_operator operator_, bool backward);
struct mw_cpu_steps mw_cpu_end_steps(enum mw_operator operator_, bool backward);

/* y = norm(x), and back: dx = norm'(dy), plus dx_add where that is not NULL.  y is written in both
 * directions. */
struct mw_cpu_norm {
    uint16_t *y;
    const uint16_t *x;
    uint16_t *dx;
    const uint16_t *dx_add, *dy;
};
void mw_cpu_norm_forward(const struct mw_cpu_operators *operators, const struct mw_compute *compute,
                         const struct mw_cpu_norm *norm);
void mw_cpu_norm_backward(const struct mw_cpu_operators *operators,
                          const struct mw_compute *compute, const struct mw_cpu_norm *norm);

static inline int64_t
mw_cpu_tokens(const struct mw_compute *compute)
{
    return compute->sequences * compute->seq;
}

static inline int64_t
mw_cpu_qkv_width(const struct mw_compute *compute)
{
    return mw_decoder_q(compute->decoder) + 2 * mw_decoder_kv(compute->decoder);
}

/* The last one forward, the first one backward. */
static inline bool
mw_cpu_has_last_rows(const struct mw_part_matrix *matrix)
{
    return matrix->rows > 0 && matrix->first_row + matrix->rows == matrix->all_rows;
}

/* Where the gradient of parameter `at` of the part goes. */
static inline struct mw_cpu_gradient
mw_cpu_gradient_at(const struct mw_compute *compute, int64_t at)
{
    int64_t element_bytes = compute->gradient_fp32 ? 4 : 2;

    return (struct mw_cpu_gradient){
        .data = (char *)compute->gradient + at * element_bytes,
        .fp32 = compute->gradient_fp32,
        .accumulate = compute->gradient_adds,
    };
}

#endif
