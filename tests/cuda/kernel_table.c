#include "tests/cuda/kernel_table.h"

#include "exec/operators/kernels_plain.h"
#include "tests/cuda/mirrors.h"
#include "tests/kernel_helpers.h"

#define LAUNCHES mw_test_cuda_launches()

const struct mw_cuda_launches *
mw_test_cuda_launches(void)
{
    return mw_test_dtype == MW_DTYPE_FP16 ? &mw_cuda_launches_fp16 : &mw_cuda_launches_bf16;
}

static struct mw_gradient
mirror_gradient(struct mw_mirrors *m, struct mw_gradient g, int64_t n)
{
    int element_bytes = g.fp32 ? 4 : 2;

    g.data = mw_mirror_out(m, g.data, element_bytes * n, element_bytes);
    return g;
}

/* --- elementwise ----------------------------------------------------------------------------- */

static void
widen(float *out, const uint16_t *x, int64_t n)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m, LAUNCHES->widen(NULL, MW_OUT_FP32(&m, out, n), MW_IN_HALF(&m, x, n), n));
}

static void
narrow(uint16_t *out, const float *x, int64_t n)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m, LAUNCHES->narrow(NULL, MW_OUT_HALF(&m, out, n), MW_IN_FP32(&m, x, n), n));
}

static void
accumulate(float *sum, const uint16_t *x, int64_t n)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m,
                   LAUNCHES->accumulate(NULL, MW_OUT_FP32(&m, sum, n), MW_IN_HALF(&m, x, n), n));
}

typedef int unary_launch(void *stream, uint16_t *y, const uint16_t *x, int64_t n);
typedef int binary_launch(void *stream, uint16_t *y, const uint16_t *a, const uint16_t *b,
                          int64_t n);

static void
unary(unary_launch *launch, uint16_t *y, const uint16_t *x, int64_t n)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m, launch(NULL, MW_OUT_HALF(&m, y, n), MW_IN_HALF(&m, x, n), n));
}

static void
binary(binary_launch *launch, uint16_t *y, const uint16_t *a, const uint16_t *b, int64_t n)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    mw_mirrors_end(
        &m, launch(NULL, MW_OUT_HALF(&m, y, n), MW_IN_HALF(&m, a, n), MW_IN_HALF(&m, b, n), n));
}

#define UNARY(name)                                                                                \
    static void name(uint16_t *y, const uint16_t *x, int64_t n)                                    \
    {                                                                                              \
        unary(LAUNCHES->name, y, x, n);                                                            \
    }
#define BINARY(name)                                                                               \
    static void name(uint16_t *y, const uint16_t *a, const uint16_t *b, int64_t n)                 \
    {                                                                                              \
        binary(LAUNCHES->name, y, a, b, n);                                                        \
    }

BINARY(add)
UNARY(gelu_forward)
BINARY(gelu_backward)
UNARY(gelu_erf_forward)
BINARY(gelu_erf_backward)
UNARY(relu_forward)
BINARY(relu_backward)
BINARY(swiglu_forward)

static void
swiglu_backward(uint16_t *dgate, uint16_t *dup, const uint16_t *dy, const uint16_t *gate,
                const uint16_t *up, int64_t n)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    uint16_t *to_gate = MW_OUT_HALF(&m, dgate, n), *to_up = MW_OUT_HALF(&m, dup, n);
    mw_mirrors_end(&m,
                   LAUNCHES->swiglu_backward(NULL, to_gate, to_up, MW_IN_HALF(&m, dy, n),
                                             MW_IN_HALF(&m, gate, n), MW_IN_HALF(&m, up, n), n));
}

/* --- norms ----------------------------------------------------------------------------------- */

static void
layernorm_forward(uint16_t *y, float *mean, float *rstd, const uint16_t *x, const uint16_t *weight,
                  const uint16_t *bias, int64_t rows, int64_t columns, float eps)
{
    struct mw_mirrors m;
    int64_t n = rows * columns;

    mw_mirrors_begin(&m);
    mw_mirrors_end(
        &m, LAUNCHES->layernorm_forward(NULL, MW_OUT_HALF(&m, y, n), MW_OUT_FP32(&m, mean, rows),
                                        MW_OUT_FP32(&m, rstd, rows), MW_IN_HALF(&m, x, n),
                                        MW_IN_HALF(&m, weight, columns),
                                        MW_IN_HALF(&m, bias, columns), rows, columns, eps));
}

static void
rmsnorm_forward(uint16_t *y, float *rstd, const uint16_t *x, const uint16_t *weight, int64_t rows,
                int64_t columns, float eps)
{
    struct mw_mirrors m;
    int64_t n = rows * columns;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m,
                   LAUNCHES->rmsnorm_forward(NULL, MW_OUT_HALF(&m, y, n),
                                             MW_OUT_FP32(&m, rstd, rows), MW_IN_HALF(&m, x, n),
                                             MW_IN_HALF(&m, weight, columns), rows, columns, eps));
}

static void
layernorm_backward(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy, const uint16_t *x,
                   const uint16_t *weight, const float *mean, const float *rstd, int64_t rows,
                   int64_t columns)
{
    struct mw_mirrors m;
    int64_t n = rows * columns;

    mw_mirrors_begin(&m);
    uint16_t *to = MW_OUT_HALF(&m, dx, n);
    mw_mirrors_end(&m, LAUNCHES->layernorm_backward(
                           NULL, to, MW_IN_HALF(&m, dx_add, n), MW_IN_HALF(&m, dy, n),
                           MW_IN_HALF(&m, x, n), MW_IN_HALF(&m, weight, columns),
                           MW_IN_FP32(&m, mean, rows), MW_IN_FP32(&m, rstd, rows), rows, columns));
}

static void
rmsnorm_backward(uint16_t *dx, const uint16_t *dx_add, const uint16_t *dy, const uint16_t *x,
                 const uint16_t *weight, const float *rstd, int64_t rows, int64_t columns)
{
    struct mw_mirrors m;
    int64_t n = rows * columns;

    mw_mirrors_begin(&m);
    uint16_t *to = MW_OUT_HALF(&m, dx, n);
    mw_mirrors_end(&m, LAUNCHES->rmsnorm_backward(NULL, to, MW_IN_HALF(&m, dx_add, n),
                                                  MW_IN_HALF(&m, dy, n), MW_IN_HALF(&m, x, n),
                                                  MW_IN_HALF(&m, weight, columns),
                                                  MW_IN_FP32(&m, rstd, rows), rows, columns));
}

static void
norm_weight_gradient(struct mw_gradient dweight, const uint16_t *dy, const uint16_t *x,
                     const float *mean, const float *rstd, int64_t rows, int64_t columns)
{
    struct mw_mirrors m;
    int64_t n = rows * columns;

    mw_mirrors_begin(&m);
    void *scratch = mw_mirror_scratch(&m, LAUNCHES->row_sums_scratch_bytes(rows, columns));
    mw_mirrors_end(&m, LAUNCHES->norm_weight_gradient(
                           NULL, mirror_gradient(&m, dweight, columns), MW_IN_HALF(&m, dy, n),
                           MW_IN_HALF(&m, x, n), MW_IN_FP32(&m, mean, rows),
                           MW_IN_FP32(&m, rstd, rows), rows, columns, scratch));
}

static void
bias_gradient(struct mw_gradient dbias, const uint16_t *dy, int64_t ld_dy, int64_t rows,
              int64_t columns)
{
    struct mw_mirrors m;
    int64_t n = (rows - 1) * ld_dy + columns;

    mw_mirrors_begin(&m);
    void *scratch = mw_mirror_scratch(&m, LAUNCHES->row_sums_scratch_bytes(rows, columns));
    mw_mirrors_end(&m,
                   LAUNCHES->bias_gradient(NULL, mirror_gradient(&m, dbias, columns),
                                           MW_IN_HALF(&m, dy, n), ld_dy, rows, columns, scratch));
}

/* --- embeddings, positions ------------------------------------------------------------------- */

static void
embedding_forward(uint16_t *y, const uint16_t *weight, const int32_t *tokens, int64_t rows,
                  int64_t columns, int32_t first, int32_t count)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m, LAUNCHES->embedding_forward(NULL, MW_OUT_HALF(&m, y, rows * columns),
                                                   MW_IN_HALF(&m, weight, count * columns),
                                                   MW_IN_INT32(&m, tokens, rows), rows, columns,
                                                   first, count));
}

static void
embedding_backward(struct mw_gradient dweight, const uint16_t *dy, const int32_t *tokens,
                   int64_t rows, int64_t columns, int32_t first, int32_t count, uint64_t *order)
{
    struct mw_mirrors m;

    (void)order;
    mw_mirrors_begin(&m);
    void *scratch = mw_mirror_scratch(&m, LAUNCHES->embedding_scratch_bytes(rows));
    mw_mirrors_end(&m, LAUNCHES->embedding_backward(
                           NULL, mirror_gradient(&m, dweight, count * columns),
                           MW_IN_HALF(&m, dy, rows * columns), MW_IN_INT32(&m, tokens, rows), rows,
                           columns, first, count, scratch));
}

static void
position_forward(uint16_t *y, const uint16_t *weight, int64_t batch, int64_t seq, int64_t columns)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m, LAUNCHES->position_forward(NULL, MW_OUT_HALF(&m, y, batch * seq * columns),
                                                  MW_IN_HALF(&m, weight, seq * columns), batch, seq,
                                                  columns));
}

static void
position_backward(struct mw_gradient dweight, const uint16_t *dy, int64_t batch, int64_t seq,
                  int64_t columns, int64_t positions)
{
    struct mw_mirrors m;

    mw_mirrors_begin(&m);
    mw_mirrors_end(
        &m, LAUNCHES->position_backward(NULL, mirror_gradient(&m, dweight, positions * columns),
                                        MW_IN_HALF(&m, dy, batch * seq * columns), batch, seq,
                                        columns, positions));
}

static void
rope(uint16_t *x, const float *table, int64_t batch, int64_t seq, int64_t heads, int64_t head_dim,
     int64_t ld, bool inverse)
{
    struct mw_mirrors m;
    int64_t n = (batch * seq - 1) * ld + heads * head_dim;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m, LAUNCHES->rope(NULL, MW_OUT_HALF(&m, x, n),
                                      MW_IN_FP32(&m, table, seq * head_dim), batch, seq, heads,
                                      head_dim, ld, inverse));
}

/* --- loss, optimizer ------------------------------------------------------------------------- */

static double
cross_entropy(uint16_t *dlogits, int64_t ld_dlogits, double *row_loss, const void *logits,
              bool logits_fp32, int64_t ld_logits, const int32_t *targets, int64_t rows,
              int64_t vocab, float scale)
{
    struct mw_mirrors m;
    int element_bytes = logits_fp32 ? 4 : 2;
    double loss = 0.0;

    mw_mirrors_begin(&m);
    const void *from = mw_mirror_in(&m, logits, element_bytes * rows * ld_logits, element_bytes);
    mw_mirrors_end(&m, LAUNCHES->cross_entropy(NULL, MW_OUT_FP64(&m, &loss, 1),
                                               MW_OUT_FP64(&m, row_loss, rows),
                                               MW_OUT_HALF(&m, dlogits, rows * ld_dlogits),
                                               ld_dlogits, from, logits_fp32, ld_logits,
                                               MW_IN_INT32(&m, targets, rows), rows, vocab, scale));
    return loss;
}

static void
adamw(const struct mw_adamw *step, float *w, float *m_, float *v, uint16_t *param, const void *grad,
      bool grad_fp32, int64_t n)
{
    struct mw_mirrors m;
    int element_bytes = grad_fp32 ? 4 : 2;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m, LAUNCHES->adamw(NULL, step, MW_OUT_FP32(&m, w, n), MW_OUT_FP32(&m, m_, n),
                                       MW_OUT_FP32(&m, v, n), MW_OUT_HALF(&m, param, n),
                                       mw_mirror_in(&m, grad, element_bytes * n, element_bytes),
                                       grad_fp32, n));
}

static void
square_sums(double *partial, const void *grad, bool grad_fp32, int64_t n)
{
    struct mw_mirrors m;
    int element_bytes = grad_fp32 ? 4 : 2;

    mw_mirrors_begin(&m);
    mw_mirrors_end(&m, LAUNCHES->square_sums(
                           NULL, MW_OUT_FP64(&m, partial, mw_norm_blocks(n)),
                           mw_mirror_in(&m, grad, element_bytes * n, element_bytes), grad_fp32, n));
}

#define TABLE(dtype_)                                                                              \
    {                                                                                              \
        .dtype = dtype_, .widen = widen, .narrow = narrow, .accumulate = accumulate,               \
        .norm_weight_gradient = norm_weight_gradient, .bias_gradient = bias_gradient,              \
        .cross_entropy = cross_entropy, .adamw = adamw, .square_sums = square_sums,                \
        MW_PLAIN_KERNELS(MW_PLAIN_ENTRY)                                                           \
    }

const struct mw_cpu_kernels mw_test_cuda_bf16 = TABLE(MW_DTYPE_BF16);
const struct mw_cpu_kernels mw_test_cuda_fp16 = TABLE(MW_DTYPE_FP16);
