/* Measures one layer, forward and backward: its memory-bound operators alone, and the whole. */
#include <math.h>

#include "calibrate/internal.h"

/* The sizes of GPT-2 124M, unless quick or slow. */
struct layer {
    struct mw_calibrator *c;
    int64_t rows, columns, heads, seq;
    uint16_t *x, *y, *dx, *weight, *bias; /* [rows, columns] */
    uint16_t *up, *act, *d_up;            /* [rows, 4 columns] */
    uint16_t *gate, *d_gate;              /* the same, where the layer proper has its products */
    uint16_t *qkv, *d_qkv, *o, *d_o, *params, *d_params;
    float *mean, *rstd, *lse;
    void *sums_scratch, *scratch; /* scratch of sums over rows, of attention */
    int64_t at;                   /* the first free byte after them */
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
    l.sums_scratch = take(&l, &at, c->kernels->row_sums_scratch_bytes(c->on, rows, 4 * columns));
    l.at = at;
    l.gate = take(&l, &at, 4 * one);
    l.d_gate = take(&l, &at, 4 * one);
    return l;
}

/* --- memory-bound operators ------------------------------------------------------------------ */

static void
bias_backward(const struct layer *l, const uint16_t *dy, int64_t columns)
{
    struct mw_gradient to = {.data = l->bias};

    l->c->kernels->bias_gradient(l->c->on, to, dy, columns, l->rows, columns, l->sums_scratch);
}

static void
norm_weight_backward(const struct layer *l, const float *mean)
{
    struct mw_gradient to = {.data = l->bias};

    l->c->kernels->norm_weight_gradient(l->c->on, to, l->dx, l->x, mean, l->rstd, l->rows,
                                        l->columns, l->sums_scratch);
}

static void
layer_norm_forward(const struct layer *l)
{
    l->c->kernels->layernorm_forward(l->c->on, l->y, l->mean, l->rstd, l->x, l->weight, l->bias,
                                     l->rows, l->columns, 1e-5f);
}

static void
layer_norm_backward(const struct layer *l)
{
    const struct mw_kernels *k = l->c->kernels;

    k->layernorm_forward(l->c->on, NULL, l->mean, l->rstd, l->x, l->weight, l->bias, l->rows,
                         l->columns, 1e-5f);
    norm_weight_backward(l, l->mean);
    bias_backward(l, l->dx, l->columns);
    k->layernorm_backward(l->c->on, l->y, l->x, l->dx, l->x, l->weight, l->mean, l->rstd, l->rows,
                          l->columns);
}

static void
rms_norm_forward(const struct layer *l)
{
    l->c->kernels->rmsnorm_forward(l->c->on, l->y, l->rstd, l->x, l->weight, l->rows, l->columns,
                                   1e-5f);
}

static void
rms_norm_backward(const struct layer *l)
{
    const struct mw_kernels *k = l->c->kernels;

    k->rmsnorm_forward(l->c->on, NULL, l->rstd, l->x, l->weight, l->rows, l->columns, 1e-5f);
    norm_weight_backward(l, NULL);
    k->rmsnorm_backward(l->c->on, l->y, l->x, l->dx, l->x, l->weight, l->rstd, l->rows, l->columns);
}

static void
activation_forward(const struct layer *l)
{
    l->c->kernels->gelu_forward(l->c->on, l->act, l->up, 4 * l->rows * l->columns);
}

static void
activation_backward(const struct layer *l)
{
    l->c->kernels->gelu_backward(l->c->on, l->d_up, l->act, l->up, 4 * l->rows * l->columns);
}

static void
gated_forward(const struct layer *l)
{
    l->c->kernels->swiglu_forward(l->c->on, l->act, l->gate, l->up, 4 * l->rows * l->columns);
}

static void
gated_backward(const struct layer *l)
{
    l->c->kernels->swiglu_backward(l->c->on, l->d_gate, l->d_up, l->act, l->gate, l->up,
                                   4 * l->rows * l->columns);
}

/* q and k, which are neighbours in rows of q, k and v. */
static void
rotate(const struct layer *l, bool inverse)
{
    int64_t seq = mw_calibrate_rotary_seq(l->c->scale);

    l->c->kernels->rope(l->c->on, l->qkv, l->c->angles, l->rows / seq, seq, 2 * l->heads,
                        MW_CALIBRATION_HEAD_DIM, 3 * l->columns, inverse);
}

static void
rotary_forward(const struct layer *l)
{
    rotate(l, false);
}

static void
rotary_backward(const struct layer *l)
{
    rotate(l, true);
}

static void
sums_forward(const struct layer *l)
{
    int64_t n = l->rows * l->columns;

    l->c->kernels->add(l->c->on, l->y, l->x, l->dx, n);
    l->c->kernels->add(l->c->on, l->y, l->x, l->dx, n);
}

static void
sums_backward(const struct layer *l)
{
    int64_t h = l->columns;

    bias_backward(l, l->dx, h);
    bias_backward(l, l->d_up, 4 * h);
    bias_backward(l, l->dx, h);
    bias_backward(l, l->d_qkv, 3 * h);
}

/* Tensors [rows, columns] and kernels as the planner counts them: docs/MODEL.md 4.1, 4.2, 4.6 to
 * 4.8 and 4.15; of sums those of a layer. */
static const struct {
    void (*forward)(const struct layer *layer), (*backward)(const struct layer *layer);
    double forward_tensors, backward_tensors;
    int forward_launches, backward_launches;
} passes[MW_CALIBRATION_PASSES] = {
    [MW_CALIBRATION_SUMS] = {sums_forward, sums_backward, 6, 9, 2, 6},
    [MW_CALIBRATION_LAYER_NORM] = {layer_norm_forward, layer_norm_backward, 2, 6, 1, 2},
    [MW_CALIBRATION_RMS_NORM] = {rms_norm_forward, rms_norm_backward, 2, 6, 1, 2},
    [MW_CALIBRATION_ACTIVATION] = {activation_forward, activation_backward, 8, 12, 1, 2},
    [MW_CALIBRATION_GATED] = {gated_forward, gated_backward, 12, 20, 1, 2},
    [MW_CALIBRATION_ROTARY] = {rotary_forward, rotary_backward, 4, 4, 1, 2},
};

/* Those of a GPT-2 layer. */
static const enum mw_calibration_passes of_layer[] = {
    MW_CALIBRATION_LAYER_NORM, MW_CALIBRATION_LAYER_NORM, MW_CALIBRATION_ACTIVATION,
    MW_CALIBRATION_SUMS};

int64_t
mw_calibrate_rotary_seq(const struct mw_calibrate_scale *scale)
{
    return MIN(scale->layer_seq, scale->rows);
}

int64_t
mw_calibrate_angles(const struct mw_calibrate_scale *scale)
{
    return mw_calibrate_rotary_seq(scale) * MW_CALIBRATION_HEAD_DIM;
}

double
mw_calibrate_passes_bytes(const struct mw_calibrator *c, enum mw_calibration_passes of)
{
    return (2 * passes[of].forward_tensors + passes[of].backward_tensors) * 2 *
           (double)c->scale->rows * (double)c->scale->columns;
}

int
mw_calibrate_passes_launches(enum mw_calibration_passes of)
{
    return 2 * passes[of].forward_launches + passes[of].backward_launches;
}

double
mw_calibrate_passes(struct mw_calibrator *c, enum mw_calibration_passes of)
{
    struct layer l = layer_at(c, c->scale->rows, c->scale->columns);

    passes[of].forward(&l);
    passes[of].forward(&l); /* again, before backward */
    passes[of].backward(&l);
    return mw_calibrate_passes_bytes(c, of);
}

/* --- all of it ------------------------------------------------------------------------------- */

#define LAYERS 3         /* its time must allow at least this many */
#define STARTS 12        /* as many kernels as there are in samples of the smallest products */
#define LAYER_KERNELS 64 /* that a layer starts at most, both ways */
#define LAYER_ROWS_LEAST 128
#define LAYER_COLUMNS_LEAST 128

/* y[rows, out] from x[rows, in], and both gradients. */
static void
linear(const struct layer *l, const uint16_t *x, const uint16_t *dy, uint16_t *y, int64_t in,
       int64_t out)
{
    struct mw_product forward = {
        .m = l->rows, .n = out, .k = in, .b_transposed = true, .bias = true};
    struct mw_product to_input = {.m = l->rows, .n = in, .k = out};
    struct mw_product to_weight = {.m = out, .n = in, .k = l->rows, .a_transposed = true};

    mw_calibrate_multiply(l->c, &forward, y, x, l->params, l->bias);
    mw_calibrate_multiply(l->c, &to_input, l->y, dy, l->params, NULL);
    mw_calibrate_multiply(l->c, &to_weight, l->d_params, dy, x, NULL);
}

static void
attend(const struct layer *l, const struct mw_attention *shape)
{
    const struct mw_kernels *k = l->c->kernels;
    int64_t h = l->columns;

    k->attention_forward(l->c->on, shape, l->o, l->lse, l->qkv, l->qkv + h, l->qkv + 2 * h,
                         l->scratch);
    k->attention_backward(l->c->on, shape, l->d_qkv, l->d_qkv + h, l->d_qkv + 2 * h, l->d_o, l->o,
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

/* docs/MODEL.md 3.1 and 3.2, with all of attention: 6 per weight, 14 per pair of tokens. */
static double
layer_flops(int64_t rows, int64_t seq, int64_t columns)
{
    double tokens = (double)rows, h = (double)columns;

    return 6 * tokens * 12 * h * h + 14 * tokens * (double)seq * h;
}

static double
run_layer(void *data)
{
    struct layer *l = data;
    struct mw_attention shape = attention_of(l, l->seq);

    for (size_t i = 0; i < G_N_ELEMENTS(of_layer); i++)
        passes[of_layer[i]].forward(l);
    linear(l, l->x, l->d_qkv, l->qkv, l->columns, 3 * l->columns);
    attend(l, &shape);
    linear(l, l->o, l->dx, l->d_o, l->columns, l->columns);
    linear(l, l->x, l->d_up, l->up, l->columns, 4 * l->columns);
    linear(l, l->act, l->dx, l->d_o, 4 * l->columns, l->columns);
    for (size_t i = 0; i < G_N_ELEMENTS(of_layer); i++)
        passes[of_layer[i]].backward(l);
    return layer_flops(l->rows, l->seq, l->columns);
}

static void
take_scratch(struct layer *l, const struct mw_attention *shape)
{
    l->scratch = take(l, &l->at, l->c->kernels->attention_scratch_bytes(l->c->on, shape));
}

static struct mw_calibrate_pace
layer_pace(const struct mw_calibrator *c, const struct mw_calibration *out)
{
    struct mw_calibrate_pace pace = mw_calibrate_products_pace(c, out);

    pace.start_s *= STARTS;
    return pace;
}

/* If the smallest layer takes most of the time that is left for everything, products stand for
 * it. */
static bool
has_time(struct mw_calibrator *c, struct mw_calibration *out, bool *yes, GError **error)
{
    const struct mw_calibrate_pace pace = layer_pace(c, out);
    double flops = layer_flops(LAYER_ROWS_LEAST, LAYER_ROWS_LEAST, LAYER_COLUMNS_LEAST);

    out->layer_rows_wished = c->scale->layer_rows;
    out->layer_columns_wished = c->scale->layer_columns;
    out->layer_flops = mw_calibrate_left_out(c, 0, 0, 0);
    return mw_calibrate_has_time(c, MW_CALIBRATE_LAYER, 2 * mw_calibrate_pace_s(&pace, flops), yes,
                                 error);
}

/* Reduces tokens first, then columns, until there is time for a few layers, by the pace of
 * products. */
bool
mw_calibrate_choose_layer(struct mw_calibrator *c, struct mw_calibration *out, int64_t *seq,
                          GError **error)
{
    double rows = (double)c->scale->layer_rows, columns = (double)c->scale->layer_columns;
    const double share_s = mw_calibrate_share_s(c) / LAYERS;
    const struct mw_calibrate_pace pace = layer_pace(c, out);

    for (;;) {
        *seq = (int64_t)fmin((double)c->scale->layer_seq, rows);
        double flops = layer_flops((int64_t)rows, *seq, (int64_t)columns);
        if (mw_calibrate_pace_fits(&pace, flops, share_s) ||
            (rows <= LAYER_ROWS_LEAST && columns <= LAYER_COLUMNS_LEAST))
            break;
        if (rows > LAYER_ROWS_LEAST)
            rows = floor(rows / 2);
        else
            columns = floor(columns / 128) * 64;
    }
    if (!mw_calibrate_agree(c, &rows, error) || !mw_calibrate_agree(c, &columns, error))
        return false;
    out->layer_rows = (int64_t)rows;
    out->layer_columns = (int64_t)columns;
    *seq = MIN(c->scale->layer_seq, out->layer_rows);
    return true;
}

bool
mw_calibrate_layer(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    int64_t seq;
    bool time;

    if (!has_time(c, out, &time, error))
        return false;
    if (!time)
        return true;
    if (!mw_calibrate_begin(c, MW_CALIBRATE_LAYER, "a layer, forward and backward", 1, error) ||
        !mw_calibrate_choose_layer(c, out, &seq, error))
        return false;
    struct layer l = layer_at(c, out->layer_rows, out->layer_columns);
    struct mw_calibrate_work work = {run_layer, &l, c, MW_CALIBRATE_COMPUTE, LAYER_KERNELS};
    struct mw_attention shape = attention_of(&l, seq);
    l.seq = seq;
    take_scratch(&l, &shape);
    out->layer_flops = mw_calibrate_measure(c, &work, 0);
    return true;
}

/* --- attention ------------------------------------------------------------------------------- */

#define HEAD_DIM MW_CALIBRATION_HEAD_DIM

struct attended {
    struct layer layer;
    struct mw_attention shape;
};

/* Forward, recompute and backward. */
#define ATTENTION_FLOPS (2 * MW_CALIBRATION_FORWARD_FLOPS + MW_CALIBRATION_BACKWARD_FLOPS)

static double
run_attention(void *data)
{
    struct attended *it = data;
    const struct layer *l = &it->layer;
    int64_t h = l->columns;

    l->c->kernels->attention_forward(l->c->on, &it->shape, l->o, l->lse, l->qkv, l->qkv + h,
                                     l->qkv + 2 * h, l->scratch);
    attend(l, &it->shape);
    return ATTENTION_FLOPS * (double)l->rows * (double)it->shape.seq * (double)h;
}

static double
attention_units(const void *data, int point)
{
    const struct mw_calibrator *c = data;
    int64_t seq = c->scale->seqs[point], tokens = MAX(c->scale->attention_tokens, seq);

    return 2 * ATTENTION_FLOPS * (double)(tokens * seq * c->scale->attention_columns);
}

static bool
measure_attention(void *data, int point, struct mw_measure *flops, GError **error)
{
    struct mw_calibrator *c = data;
    int64_t seq = c->scale->seqs[point], tokens = MAX(c->scale->attention_tokens, seq);
    g_autofree char *what = g_strdup_printf("attention over %d tokens", (int)seq);
    struct attended it = {.layer = layer_at(c, tokens, c->scale->attention_columns)};
    struct mw_calibrate_work work = {run_attention, &it, c, MW_CALIBRATE_COMPUTE, 16};

    if (!mw_calibrate_step(c, what, error))
        return false;
    it.shape = attention_of(&it.layer, seq);
    take_scratch(&it.layer, &it.shape);
    *flops = mw_calibrate_measure(c, &work, 0);
    return true;
}

bool
mw_calibrate_attention(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    const struct mw_calibrate_curve curve = {.points = c->scale->seq_points,
                                             .dims = out->attention_dim,
                                             .units = attention_units,
                                             .measure = measure_attention,
                                             .state = c,
                                             .flops = true,
                                             .what = "attention",
                                             .again = MW_CALIBRATE_ATTENTION_AGAIN,
                                             .contradicts = out->attention_contradicts};

    out->attention_points = curve.points;
    out->attention_tokens = c->scale->attention_tokens;
    for (int i = 0; i < curve.points; i++)
        out->attention_dim[i] = cbrt((double)(c->scale->seqs[i] * c->scale->seqs[i] * HEAD_DIM));
    return mw_calibrate_begin(c, MW_CALIBRATE_ATTENTION, curve.what, curve.points, error) &&
           mw_calibrate_take_curve(c, &curve, out->attention_flops, error);
}
