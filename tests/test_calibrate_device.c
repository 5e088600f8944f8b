/* Calibrating a device with a clock of its own, on which all is known beforehand: what its kernels
 * and copies take, launches as often as a plan counts them.  The figures are these, to rounding. */
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/internal.h"
#include "cli/calibration/profile.h"

/* In ns: per FLOP, per byte, and for itself. */
#define PRODUCT_NS 1e-3
#define ATTENTION_NS 4e-3 /* with heads of 64, in both directions together */
#define ROTARY_NS 0.5
#define OPERATOR_NS 0.125
#define GATED_NS 0.25
#define LOSS_NS 0.0625
#define UPDATE_NS 0.03125
#define LAUNCH_NS 2000.0
#define H2D_NS 0.25
#define D2H_NS 0.5
#define COPY_START_NS 3000.0
#define TICKETS 1024
#define QUEUES 16

static struct device {
    GMutex mutex;
    char *memory;
    double free_ns[QUEUES], done_ns[TICKETS];
    int opened, pinned;
    double slower; /* products are, so many times */
} device = {.slower = 1};

/* The op of this thread. */
static _Thread_local struct {
    int queue;
    uint32_t ticket;
    double after_ns, takes_ns;
} op = {.queue = -1};

static void
take_ns(double ns)
{
    op.takes_ns += ns;
}

/* --- kernels --------------------------------------------------------------------------------- */

static bool
prepare(void *on, const struct mw_product *product, GError **error)
{
    return true;
}

/* Times as long as a product takes: forward 0.75, gradients of inputs 1, of weights 1.25, which is
 * 1 together. */
static double
direction(const struct mw_product *p)
{
    return p->b_transposed ? 0.75 : p->a_transposed ? 1.25 : 1;
}

static bool
multiply(void *on, const struct mw_product *p, void *c, const void *a, const void *b,
         const void *bias, GError **error)
{
    g_assert_true(on == &device);
    double pairs = device.slower * direction(p) * (double)p->m * (double)p->n * (double)p->k;

    take_ns(LAUNCH_NS + PRODUCT_NS * 2 * pairs);
    return true;
}

static void
add(void *on, void *out, const void *a, const void *b, int64_t n)
{
    take_ns(LAUNCH_NS + (n == 64 ? 0 : OPERATOR_NS * 3 * 2 * (double)n));
}

static void
gelu_forward(void *on, void *y, const void *x, int64_t n)
{
    take_ns(LAUNCH_NS + OPERATOR_NS * 2 * 2 * (double)n);
}

static void
gelu_backward(void *on, void *dx, const void *dy, const void *x, int64_t n)
{
    take_ns(2 * LAUNCH_NS + OPERATOR_NS * 3 * 2 * (double)n);
}

static void
layernorm_forward(void *on, void *y, float *mean, float *rstd, const void *x, const void *weight,
                  const void *bias, int64_t rows, int64_t columns, float eps)
{
    take_ns(y ? LAUNCH_NS + OPERATOR_NS * 2 * 2 * (double)(rows * columns) : 0);
}

/* A backward norm is four kernels: together they count for six tensors and two launches. */
static void
layernorm_backward(void *on, void *dx, const void *dx_add, const void *dy, const void *x,
                   const void *weight, const float *mean, const float *rstd, int64_t rows,
                   int64_t columns)
{
    take_ns(0.5 * LAUNCH_NS + OPERATOR_NS * 3 * 2 * (double)(rows * columns));
}

static void
rmsnorm_forward(void *on, void *y, float *rstd, const void *x, const void *weight, int64_t rows,
                int64_t columns, float eps)
{
    take_ns(y ? LAUNCH_NS + OPERATOR_NS * 2 * 2 * (double)(rows * columns) : 0);
}

/* It has no bias: two tensors more. */
static void
rmsnorm_backward(void *on, void *dx, const void *dx_add, const void *dy, const void *x,
                 const void *weight, const float *rstd, int64_t rows, int64_t columns)
{
    take_ns(2 * LAUNCH_NS + OPERATOR_NS * 4 * 2 * (double)(rows * columns));
}

static void
swiglu_forward(void *on, void *y, const void *gate, const void *up, int64_t n)
{
    take_ns(LAUNCH_NS + GATED_NS * 3 * 2 * (double)n);
}

static void
swiglu_backward(void *on, void *dgate, void *dup, const void *dy, const void *gate, const void *up,
                int64_t n)
{
    take_ns(2 * LAUNCH_NS + GATED_NS * 5 * 2 * (double)n);
}

static int64_t
row_sums_scratch_bytes(void *on, int64_t rows, int64_t columns)
{
    return 64;
}

static void
norm_weight_gradient(void *on, struct mw_gradient dweight, const void *dy, const void *x,
                     const float *mean, const float *rstd, int64_t rows, int64_t columns,
                     void *scratch)
{
    g_assert_nonnull(scratch);
    take_ns(OPERATOR_NS * 2 * 2 * (double)(rows * columns));
}

static void
bias_gradient(void *on, struct mw_gradient dbias, const void *dy, int64_t ld_dy, int64_t rows,
              int64_t columns, void *scratch)
{
    g_assert_nonnull(scratch);
    take_ns(1.5 * LAUNCH_NS + OPERATOR_NS * 2 * (double)(rows * columns));
}

static int64_t
attention_scratch_bytes(void *on, const struct mw_attention *shape)
{
    return 64;
}

/* Of `tensors` of [tokens, columns] in 16 bits and one of row sums, at what an update reaches. */
static double
stream_ns(const struct mw_attention *s, int tensors)
{
    double rows = (double)(s->batch * s->seq * s->heads);

    return UPDATE_NS * rows * (2 * tensors * (double)s->head_dim + 4);
}

static double
pairs(const struct mw_attention *s)
{
    return (double)(s->batch * s->seq * s->seq * s->heads * s->head_dim);
}

/* Times as long as a pair takes: twice forward and backward are 8 * FORTH + 10 * BACK = 18, and
 * larger heads are faster. */
#define FORTH 1.25
#define BACK 0.8

static double
heads(const struct mw_attention *s)
{
    return 0.5 + 0.5 * 64 / (double)s->head_dim;
}

static void
rope(void *on, void *x, const float *table, int64_t batch, int64_t seq, int64_t heads,
     int64_t head_dim, int64_t ld, bool inverse)
{
    g_assert_cmpfloat(table[0], ==, 0.6f);
    g_assert_cmpfloat(table[head_dim / 2], ==, 0.8f);
    take_ns((inverse ? 2 : 1) * LAUNCH_NS +
            ROTARY_NS * 2 * 2 * (double)(batch * seq * heads * head_dim));
}

static void
attention_forward(void *on, const struct mw_attention *shape, void *o, float *lse, const void *q,
                  const void *k, const void *v, void *scratch)
{
    take_ns(LAUNCH_NS + stream_ns(shape, 4) +
            ATTENTION_NS * FORTH * 4 * pairs(shape) * heads(shape));
}

static void
attention_backward(void *on, const struct mw_attention *shape, void *dq, void *dk, void *dv,
                   const void *d_o, const void *o, const float *lse, const void *q, const void *k,
                   const void *v, void *scratch)
{
    take_ns(2 * LAUNCH_NS + stream_ns(shape, 8) +
            ATTENTION_NS * BACK * 10 * pairs(shape) * heads(shape));
}

static void
cross_entropy(void *on, double *loss, double *row_loss, void *dlogits, int64_t ld_dlogits,
              const void *logits, bool logits_fp32, int64_t ld_logits, const int32_t *targets,
              int64_t rows, int64_t vocab, float scale)
{
    g_assert_cmpint(ld_logits % 32, ==, 0);
    for (int64_t i = 0; i < rows; i++)
        g_assert_cmpint(targets[i], ==, i);
    take_ns(LOSS_NS * 28 * (double)(rows * vocab));
}

static const struct mw_kernels kernels = {
    .device_name = "known",
    .prepare = prepare,
    .multiply = multiply,
    .add = add,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .layernorm_forward = layernorm_forward,
    .layernorm_backward = layernorm_backward,
    .rmsnorm_forward = rmsnorm_forward,
    .rmsnorm_backward = rmsnorm_backward,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .row_sums_scratch_bytes = row_sums_scratch_bytes,
    .norm_weight_gradient = norm_weight_gradient,
    .bias_gradient = bias_gradient,
    .attention_scratch_bytes = attention_scratch_bytes,
    .rope = rope,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .cross_entropy = cross_entropy,
};

/* --- the device ------------------------------------------------------------------------------ */

static void *
open_device(const struct mw_backend_options *options, int64_t bytes, void **memory, GError **error)
{
    g_assert_null(options->decoder);
    *memory = device.memory = aligned_alloc(4096, (size_t)(bytes + 4095) / 4096 * 4096);
    device.opened++;
    return &device;
}

static void
close_device(void *backend)
{
    free(device.memory);
    device.opened--;
}

static bool
describe(int index, struct mw_backend_device *out, GError **error)
{
    *out = (struct mw_backend_device){.name = "known"};
    return true;
}

static bool
pin(void *backend, void *memory, int64_t bytes, GError **error)
{
    device.pinned++;
    return true;
}

static void
unpin(void *backend, void *memory)
{
    device.pinned--;
}

static bool
begin(void *backend, int queue, uint32_t ticket, const uint32_t *after, int after_count,
      GError **error)
{
    g_assert_cmpint(op.queue, ==, -1);
    g_assert_cmpint(ticket, <, TICKETS);
    op.queue = queue;
    op.ticket = ticket;
    op.takes_ns = op.after_ns = 0;
    g_mutex_lock(&device.mutex);
    for (int i = 0; i < after_count; i++)
        op.after_ns = fmax(op.after_ns, device.done_ns[after[i]]);
    g_mutex_unlock(&device.mutex);
    return true;
}

static bool
end(void *backend, mw_backend_done done, void *data, GError **error)
{
    g_mutex_lock(&device.mutex);
    double start_ns = fmax(device.free_ns[op.queue], op.after_ns);
    double end_ns = start_ns + op.takes_ns;
    device.free_ns[op.queue] = device.done_ns[op.ticket] = end_ns;
    g_mutex_unlock(&device.mutex);
    op.queue = -1;
    done(data, (int64_t)(1e9 + start_ns), (int64_t)(1e9 + end_ns), NULL);
    return true;
}

static bool
copy(void *backend, void *to, const void *from, int64_t bytes, GError **error)
{
    if (op.queue < 0) /* before anything is measured */
        memcpy(to, from, (size_t)bytes);
    else
        take_ns(COPY_START_NS + (double)bytes * ((char *)to >= device.memory &&
                                                         (char *)to < device.memory + (64 << 20)
                                                     ? H2D_NS
                                                     : D2H_NS));
    return true;
}

static bool
update(void *backend, const struct mw_update_step *step, float *w, float *m, float *v, void *param,
       const void *gradient, bool fp32, int64_t n, GError **error)
{
    g_assert_true((char *)w >= device.memory && (char *)w < device.memory + (64 << 20));
    take_ns(UPDATE_NS * 28 * (double)n);
    return true;
}

static void *
enter(void *backend)
{
    return &device;
}

static const struct mw_backend known = {
    .name = "known",
    .apart = true,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .pin = pin,
    .unpin = unpin,
    .begin = begin,
    .end = end,
    .copy = copy,
    .update = update,
    .kernels = &kernels,
    .enter = enter,
};

/* --- figures --------------------------------------------------------------------------------- */

static void
assert_is(struct mw_measure m, double wanted)
{
    g_assert_cmpint(m.samples, >=, 3);
    g_assert_cmpfloat_with_epsilon(m.low / wanted, 1, 1e-3);
    g_assert_cmpfloat_with_epsilon(m.typical / wanted, 1, 1e-3);
    g_assert_cmpfloat_with_epsilon(m.high / wanted, 1, 1e-3);
}

static void
assert_share(double share, double wanted)
{
    g_assert_cmpfloat_with_epsilon(share / wanted, 1, 1e-3);
}

static void
assert_shares(const struct mw_calibration *m)
{
    for (int i = 0; i < m->points; i++) {
        assert_share(mw_calibration_direction_share(m, MW_PRODUCT_OF_RESULT, i), 1 / 0.75);
        assert_share(mw_calibration_direction_share(m, MW_PRODUCT_OF_INPUT, i), 1);
        assert_share(mw_calibration_direction_share(m, MW_PRODUCT_OF_WEIGHTS, i), 1 / 1.25);
    }
    for (int i = 0; i < MW_ATTENTION_HEADS; i++) {
        double longer = 0.5 + 0.5 * 64 / (double)mw_calibration_head_dims[i];
        assert_share(mw_calibration_heads_share(m, false, i), 1 / (FORTH * longer));
        assert_share(mw_calibration_heads_share(m, true, i), 1 / (BACK * longer));
    }
}

static void
assert_device(const struct mw_calibration *m)
{
    for (int i = 0; i < m->points; i++)
        assert_is(m->matmul_flops[i], 1e9 / PRODUCT_NS);
    for (int i = 0; i < m->attention_points; i++)
        assert_is(m->attention_flops[i], 1e9 / ATTENTION_NS);
    assert_shares(m);
    for (int kind = 0; kind < MW_CALIBRATION_PASSES; kind++)
        assert_is(m->pass_bytes_per_s[kind], 1e9 / (kind == MW_CALIBRATION_GATED    ? GATED_NS
                                                    : kind == MW_CALIBRATION_ROTARY ? ROTARY_NS
                                                                                    : OPERATOR_NS));
    assert_is(m->launch_s, LAUNCH_NS * 1e-9);
    assert_is(m->device_bytes_per_s, 1e9 / UPDATE_NS);
    assert_is(m->loss_bytes_per_s, 1e9 / LOSS_NS);
}

/* 128 tokens of 128 columns, two heads: 6 FLOPs a weight and token, 14 a pair.  It is told with
 * all that it takes: 5 kernels forward and 12 backward beside 12 products and 3 of attention. */
static void
assert_layer(const struct mw_calibration *m)
{
    double rows = 128, h = 128, weights = 6 * rows * 12 * h * h, pair_flops = 14 * rows * rows * h;
    double passes = (18 + 33) * 2 * rows * h;
    const struct mw_attention shape = {.batch = 1, .seq = 128, .heads = 2, .head_dim = 64};
    double attention_ns = ATTENTION_NS * (4 * FORTH + 10 * BACK) / 14;
    double ns = PRODUCT_NS * weights + attention_ns * pair_flops + OPERATOR_NS * passes +
                stream_ns(&shape, 4) + stream_ns(&shape, 8) + (5 + 12 + 12 + 3) * LAUNCH_NS;

    assert_is(m->layer_flops, 1e9 * (weights + pair_flops) / ns);
}

static void
assert_copies(const struct mw_calibration *m)
{
    double bytes = 1 << 20;

    assert_is(m->h2d_bytes_per_s, 1e9 * bytes / (COPY_START_NS + H2D_NS * bytes));
    assert_is(m->d2h_bytes_per_s, 1e9 * bytes / (COPY_START_NS + D2H_NS * bytes));
    assert_is(m->node_h2d_bytes_per_s, m->h2d_bytes_per_s.typical);
    assert_is(m->copy_latency_s, 1e-9 * (COPY_START_NS + 4096 * (H2D_NS + D2H_NS) / 2));
    assert_is(m->copy_duplex, 2);
    g_assert_cmpfloat_with_epsilon(m->copy_share.high, 0, 1e-3);
    g_assert_cmpfloat_with_epsilon(m->nvme_share.high, 0,
                                   1e-3); /* however fast the drive is then */
}

static struct mw_hardware
written(const struct mw_calibration *m)
{
    g_autoptr(GError) error = NULL;
    char *text = cli_calibrate_profile(m, &error);
    g_assert_no_error(error);
    struct mw_profile *profile =
        mw_profile_parse(&mw_hwprofile_kind, text, strlen(text), "written", &error);
    g_assert_no_error(error);
    struct mw_hardware at = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    mw_profile_free(profile);
    free(text);
    return at;
}

/* The profile has the shares that were measured, and none of what was not compared. */
static void
assert_written(const struct mw_calibration *measured)
{
    struct mw_calibration m = *measured;
    struct mw_hardware at;

    m.backend = "cuda";
    m.device_bytes = INT64_C(16) << 30;
    at = written(&m);
    for (int i = 0; i < m.points; i++) {
        assert_share(at.matmul_forward_share[i], 1 / 0.75);
        assert_share(at.matmul_input_share[i], 1);
        assert_share(at.matmul_weight_share[i], 1 / 1.25);
    }
    assert_share(at.attention_forward_share[0], 1 / FORTH);
    assert_share(at.attention_forward_share[2], 1 / (FORTH * 0.625));
    assert_share(at.attention_backward_share[1], 1 / (BACK * 0.75));
    assert_share(at.gpu_rotary_bytes_per_s, 1e9 / ROTARY_NS);
    memset(m.direction_flops, 0, sizeof m.direction_flops);
    memset(m.heads_forward_flops, 0, sizeof m.heads_forward_flops);
    at = written(&m);
    g_assert_cmpfloat(at.matmul_forward_share[0], ==, 0);
    g_assert_cmpfloat(at.attention_backward_share[0], ==, 0);
}

static void
test_figures(void)
{
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    const char *const directories[] = {directory};
    g_autoptr(GError) error = NULL;
    struct mw_calibration_options options = {
        .backend = &known, .directories = directories, .directory_count = 1, .quick = true};
    struct mw_calibration measured;

    mw_calibrate(&options, &measured, &error);
    g_assert_no_error(error);
    assert_device(&measured);
    assert_layer(&measured);
    assert_copies(&measured);
    assert_written(&measured);
    g_assert_cmpint(measured.host_share.samples, ==, 0);
    g_assert_cmpint(measured.update_params_per_s.samples, >, 0);
    g_assert_cmpint(device.opened, ==, 0);
    g_assert_cmpint(device.pinned, ==, 0);
    g_rmdir(directory);
}

/* --- a device that changes its speed --------------------------------------------------------- */

struct course {
    double first, last; /* how slow products are */
    GString *notices;
};

/* All but the last part is at the first speed. */
static bool
progress(void *data, const char *what, double left_s)
{
    const struct course *course = data;

    device.slower = strstr(what, "first products") ? course->last : course->first;
    return true;
}

static void
notice(void *data, const char *line)
{
    const struct course *course = data;

    g_string_append_printf(course->notices, "%s\n", line);
}

static void
calibrate_changing(struct course *course, struct mw_calibration *measured)
{
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    const char *const directories[] = {directory};
    g_autoptr(GError) error = NULL;
    struct mw_calibration_options options = {.backend = &known,
                                             .directories = directories,
                                             .directory_count = 1,
                                             .quick = true,
                                             .progress = progress,
                                             .notice = notice,
                                             .data = course};

    mw_calibrate(&options, measured, &error);
    device.slower = 1;
    g_assert_no_error(error);
    g_rmdir(directory);
}

/* Of products of 128, launches included. */
static double
speed_of(const struct course *course)
{
    const double ns = PRODUCT_NS * 2 * 128 * 128 * 128;

    return (LAUNCH_NS + course->first * ns) / (LAUNCH_NS + course->last * ns);
}

/* Its figures are those of the first speed, their ranges reach to the last one, and profile and
 * user are told. */
static void
test_drift(void)
{
    const double speeds[][2] = {{1, 1}, {1.05, 1}, {1.77, 1}, {1, 3}};

    for (size_t i = 0; i < G_N_ELEMENTS(speeds); i++) {
        struct course course = {speeds[i][0], speeds[i][1], g_string_new(NULL)};
        struct mw_calibration m;
        calibrate_changing(&course, &m);
        const double speed = fabs(log(speed_of(&course))) > log(1.1) ? speed_of(&course) : 1;
        const struct mw_measure *layer = &m.layer_flops, *last = &m.matmul_flops[m.points - 1];
        g_autofree char *mark = cli_calibrate_disturbed(&m);
        const char *said = strstr(course.notices->str, "at the end matrix products ran at ");
        g_assert_cmpfloat_with_epsilon(m.drift.products, speed, 1e-3);
        g_assert_cmpfloat_with_epsilon(layer->high / layer->typical, fmax(speed, 1), 1e-3);
        g_assert_cmpfloat_with_epsilon(layer->low / layer->typical, fmin(speed, 1), 1e-3);
        g_assert_true(speed > 1 ? last->high / last->typical > speed : last->high >= last->typical);
        g_assert_true(speed < 1 ? last->low / last->typical < 0.5 : last->low > 0);
        g_assert_true((said != NULL) == mw_calibrate_has_drifted(m.drift.products));
        g_assert_true((mark && strstr(mark, "products ran at ")) == (said != NULL));
        g_string_free(course.notices, TRUE);
    }
}

/* --- a budget that is over ------------------------------------------------------------------- */

static double late_s;

static double
late_now_s(void)
{
    return 1e-6 * (double)g_get_monotonic_time() + late_s;
}

static bool
come_late(void *data, const char *what, double left_s)
{
    if (!strcmp(what, "matrix products"))
        late_s += 1e6;
    return true;
}

/* What had no time is named, and the profile has its range. */
static void
test_late(void)
{
    static const char *const names[] = {"memory-bound operators", "a layer, forward and backward",
                                        "compute that a copy takes", "drives: both at once"};
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    const char *const directories[] = {directory};
    g_autoptr(GError) error = NULL;
    struct mw_calibration_options options = {.backend = &known,
                                             .directories = directories,
                                             .directory_count = 1,
                                             .quick = true,
                                             .progress = come_late};
    struct mw_calibration measured;

    mw_calibrate_set_clock(late_now_s);
    mw_calibrate(&options, &measured, &error);
    mw_calibrate_set_clock(NULL);
    g_assert_no_error(error);
    g_autoptr(GPtrArray) left_out = cli_calibrate_left_out(&measured);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        g_assert_true(g_ptr_array_find_with_equal_func(left_out, names[i], g_str_equal, NULL));
    g_rmdir(directory);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-device/figures", test_figures);
    g_test_add_func("/calibrate-device/drift", test_drift);
    g_test_add_func("/calibrate-device/late", test_late);
    return g_test_run();
}
