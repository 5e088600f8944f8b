/* One layer, forward and backward: its memory-bound operators by themselves, and all of it. */
#include <math.h>

#include "exec/calibrate_internal.h"

/* GPT-2 124M's, where not quick. */
struct layer {
    struct mw_calibrator *c;
    int64_t rows, columns, heads;
    uint16_t *x, *y, *dx, *weight, *bias; /* [rows, columns] */
    uint16_t *up, *act, *d_up;            /* [rows, 4 columns] */
    uint16_t *qkv, *d_qkv, *o, *d_o, *params, *d_params;
    float *mean, *rstd, *lse;
    void *scratch;
};

static void *
take(struct layer *l, int64_t *at, int64_t bytes)
{
    return mw_calibrate_take(&l->c->device, at, bytes);
}

static struct layer
layer_at(struct mw_calibrator *c, int64_t rows, int64_t columns)
{
    struct layer l = {.c = c, .rows = rows, .columns = columns, .heads = columns / 64};
    int64_t one = 2 * rows * columns, at = 0;

    l.x = take(&l, &at, one);
    l.y = take(&l, &at, one);
    l.dx = take(&l, &at, one);
    l.up = take(&l, &at, 4 * one);
    l.act = take(&l, &at, 4 * one);
    l.d_up = take(&l, &at, 4 * one);
    l.qkv = take(&l, &at, 3 * one);
    l.d_qkv = take(&l, &at, 3 * one);
    l.o = take(&l, &at, one);
    l.d_o = take(&l, &at, one);
    l.weight = take(&l, &at, 4 * columns * 2);
    l.bias = take(&l, &at, 4 * columns * 2);
    l.params = take(&l, &at, 24 * columns * columns);
    l.d_params = take(&l, &at, 24 * columns * columns);
    l.mean = take(&l, &at, 4 * rows);
    l.rstd = take(&l, &at, 4 * rows);
    l.lse = take(&l, &at, 4 * rows * l.heads);
    return l;
}

/* --- memory-bound operators ---------------------------------------------------------------------- */

static void
forward_passes(const struct layer *l)
{
    const struct mw_cpu_kernels *k = l->c->kernels;
    int64_t n = l->rows * l->columns;

    k->layernorm_forward(l->y, l->mean, l->rstd, l->x, l->weight, l->bias, l->rows, l->columns,
                         1e-5f);
    k->add(l->y, l->x, l->y, n);
    k->layernorm_forward(l->y, l->mean, l->rstd, l->x, l->weight, l->bias, l->rows, l->columns,
                         1e-5f);
    k->gelu_forward(l->act, l->up, 4 * n);
    k->add(l->y, l->x, l->y, n);
}

static void
norm_backward(const struct layer *l)
{
    struct mw_gradient to = {.data = l->bias};

    l->c->kernels->norm_weight_gradient(to, l->dx, l->x, l->mean, l->rstd, l->rows, l->columns);
    l->c->kernels->bias_gradient(to, l->dx, l->columns, l->rows, l->columns);
    l->c->kernels->layernorm_backward(l->y, l->x, l->dx, l->x, l->weight, l->mean, l->rstd, l->rows,
                                      l->columns);
}

static void
backward_passes(const struct layer *l)
{
    const struct mw_cpu_kernels *k = l->c->kernels;
    struct mw_gradient to = {.data = l->bias};
    int64_t h = l->columns;

    k->bias_gradient(to, l->dx, h, l->rows, h);
    k->gelu_backward(l->d_up, l->act, l->up, 4 * l->rows * h);
    k->bias_gradient(to, l->d_up, 4 * h, l->rows, 4 * h);
    norm_backward(l);
    k->bias_gradient(to, l->dx, h, l->rows, h);
    k->bias_gradient(to, l->d_qkv, 3 * h, l->rows, 3 * h);
    norm_backward(l);
}

/* docs/MODEL.md 4.1, 4.6 to 4.8, in tensors of rows * columns: forward norms 2 * 2, sums 2 * 3,
 * activation 8; backward norms 2 * 6, activation 12, biases of QKV, projection and MLP 3 + 1 + 4 +
 * 1. */
#define FORWARD_TENSORS 18.0
#define BACKWARD_TENSORS 33.0

double
mw_calibrate_layer_passes(struct mw_calibrator *c, int64_t rows, int64_t columns)
{
    struct layer l = layer_at(c, rows, columns);

    forward_passes(&l);
    forward_passes(&l);
    backward_passes(&l);
    return (2 * FORWARD_TENSORS + BACKWARD_TENSORS) * 2 * (double)rows * (double)columns;
}

/* --- all of it ----------------------------------------------------------------------------------- */

/* y[rows, out] from x[rows, in], and both gradients. */
static void
linear(const struct layer *l, const uint16_t *x, const uint16_t *dy, uint16_t *y, int64_t in,
       int64_t out)
{
    struct mw_product forward = {.m = l->rows, .n = out, .k = in, .bias = true};
    struct mw_product to_input = {.m = l->rows, .n = in, .k = out, .b_transposed = true};
    struct mw_product to_weight = {.m = in, .n = out, .k = l->rows, .a_transposed = true};

    mw_cpu_matmul_run(l->c->matmul, &forward, y, x, l->params, l->bias);
    mw_cpu_matmul_run(l->c->matmul, &to_input, l->y, dy, l->params, NULL);
    mw_cpu_matmul_run(l->c->matmul, &to_weight, l->d_params, x, dy, NULL);
}

static void
attend(const struct layer *l, const struct mw_attention *shape)
{
    int64_t h = l->columns;

    l->c->kernels->attention_forward(shape, l->o, l->lse, l->qkv, l->qkv + h, l->qkv + 2 * h,
                                     l->scratch);
    l->c->kernels->attention_backward(shape, l->d_qkv, l->d_qkv + h, l->d_qkv + 2 * h, l->d_o, l->o,
                                      l->lse, l->qkv, l->qkv + h, l->qkv + 2 * h, l->scratch);
}

static struct mw_attention
attention_of(const struct layer *l, int64_t seq)
{
    return (struct mw_attention){.batch = l->rows / seq,
                                     .seq = seq,
                                     .heads = l->heads,
                                     .kv_heads = l->heads,
                                     .head_dim = 64,
                                     .ld_q = 3 * l->columns,
                                     .ld_k = 3 * l->columns,
                                     .ld_v = 3 * l->columns,
                                     .ld_o = l->columns,
                                     .scale = 0.125f};
}

/* FLOPs of docs/MODEL.md 3.1 and 3.2, attention whole: 6 a weight, 14 a pair of tokens. */
static double
run_layer(void *data)
{
    struct layer *l = data;
    struct mw_attention shape = attention_of(l, l->rows);
    double rows = (double)l->rows, h = (double)l->columns;

    forward_passes(l);
    linear(l, l->x, l->d_qkv, l->qkv, l->columns, 3 * l->columns);
    attend(l, &shape);
    linear(l, l->o, l->dx, l->d_o, l->columns, l->columns);
    linear(l, l->x, l->d_up, l->up, l->columns, 4 * l->columns);
    linear(l, l->act, l->dx, l->d_o, 4 * l->columns, l->columns);
    backward_passes(l);
    return 6 * rows * 12 * h * h + 14 * rows * rows * h;
}

bool
mw_calibrate_layer(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct layer l = c->options->quick ? layer_at(c, 128, 128) : layer_at(c, 1024, 768);
    struct mw_calibrate_work work = {run_layer, &l};
    struct mw_attention shape = attention_of(&l, l.rows);
    double samples[MW_CALIBRATE_ROUNDS_MAX];
    int64_t at = 0;

    if (!mw_calibrate_step(c, "a layer, forward and backward", error))
        return false;
    l.scratch = mw_calibrate_take(&c->host, &at,
                                  c->kernels->attention_scratch_bytes(&shape, out->cores));
    run_layer(&l);
    for (int r = 0; r < c->rounds; r++)
        samples[r] = mw_calibrate_quiet_rate(c, &work, 0);
    out->layer_flops = mw_measure_of(samples, c->rounds);
    return true;
}

/* --- attention --------------------------------------------------------------------------------------- */

static const int64_t seqs[] = {64, 128, 256, 512, 1024, 2048};
#define QUICK_SEQS 2
#define TOKENS 1024
#define HEAD_DIM 64

struct attended {
    struct layer layer;
    struct mw_attention shape;
};

/* Forward, forward again as recompute, and backward: 4, 4 and 10 FLOPs a pair and column. */
static double
run_attention(void *data)
{
    struct attended *it = data;
    const struct layer *l = &it->layer;
    int64_t h = l->columns;

    l->c->kernels->attention_forward(&it->shape, l->o, l->lse, l->qkv, l->qkv + h, l->qkv + 2 * h,
                                     l->scratch);
    attend(l, &it->shape);
    return 18 * (double)l->rows * (double)it->shape.seq * (double)h;
}

bool
mw_calibrate_attention(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    if (!mw_calibrate_step(c, "attention", error))
        return false;
    out->attention_points = c->options->quick ? QUICK_SEQS : (int)G_N_ELEMENTS(seqs);
    for (int i = 0; i < out->attention_points; i++) {
        int64_t tokens = c->options->quick ? seqs[i] : MAX(TOKENS, seqs[i]), at = 0;
        struct attended it = {.layer = layer_at(c, tokens, c->options->quick ? 128 : 768)};
        struct mw_calibrate_work work = {run_attention, &it};
        double samples[MW_CALIBRATE_ROUNDS_MAX];

        it.shape = attention_of(&it.layer, seqs[i]);
        it.layer.scratch = mw_calibrate_take(
            &c->host, &at, c->kernels->attention_scratch_bytes(&it.shape, out->cores));
        run_attention(&it);
        for (int r = 0; r < c->rounds; r++)
            samples[r] = mw_calibrate_quiet_rate(c, &work, 0);
        out->attention_dim[i] = cbrt((double)(seqs[i] * seqs[i] * HEAD_DIM));
        out->attention_flops[i] = mw_measure_of(samples, c->rounds);
    }
    return true;
}
