/* A calibration keeps its budget on machines that are slow, be it at products, at drives or at
 * everything: a clock that hurries makes this one slow. */
#include <math.h>
#include <time.h>

#include "exec/nvme/calls.h"
#include "tests/calibrator_fixture.h"

#define SLACK 0.15 /* for other programs */
#define TRIES 3
#define HURRY 5  /* a minute is twelve seconds */
#define BUSY 0.1 /* of its time, that threads wait for cores which others have */

static struct {
    double hurry; /* of the clock */
    double began_s;
    double flops, drive_bytes_per_s; /* of the machine; 0: as it is */
} machine;

static double
really_now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double
now_s(void)
{
    return machine.hurry * (really_now_s() - machine.began_s);
}

/* By that clock. */
static void
spend_s(double seconds)
{
    g_usleep((gulong)(1e6 * seconds / machine.hurry));
}

/* --- its parts ------------------------------------------------------------------------------- */

static bool
multiply(void *on, const struct mw_product *p, void *c, const void *a, const void *b,
         const void *bias, GError **error)
{
    if (!(machine.flops > 0))
        return mw_backend_cpu.kernels->multiply(on, p, c, a, b, bias, error);
    spend_s(2 * (double)p->m * (double)p->n * (double)p->k / machine.flops);
    return true;
}

static void
spend_attention(const struct mw_attention *s, double flops_a_pair)
{
    spend_s(flops_a_pair * (double)(s->batch * s->seq * s->seq * s->heads * s->head_dim) /
            machine.flops);
}

static void
attention_forward(void *on, const struct mw_attention *shape, void *o, float *lse, const void *q,
                  const void *k, const void *v, void *scratch)
{
    if (machine.flops > 0)
        spend_attention(shape, 4);
    else
        mw_backend_cpu.kernels->attention_forward(on, shape, o, lse, q, k, v, scratch);
}

static void
attention_backward(void *on, const struct mw_attention *shape, void *dq, void *dk, void *dv,
                   const void *d_o, const void *o, const float *lse, const void *q, const void *k,
                   const void *v, void *scratch)
{
    if (machine.flops > 0)
        spend_attention(shape, 10);
    else
        mw_backend_cpu.kernels->attention_backward(on, shape, dq, dk, dv, d_o, o, lse, q, k, v,
                                                   scratch);
}

static int
submit(void *data, io_context_t context, long count, struct iocb **iocbs)
{
    double bytes = 0;

    for (long i = 0; i < count; i++)
        bytes += (double)iocbs[i]->u.c.nbytes;
    int result = mw_nvme_system_calls.submit(data, context, count, iocbs);
    if (machine.drive_bytes_per_s > 0) /* while this machine's drive moves them */
        spend_s(bytes / machine.drive_bytes_per_s);
    return result;
}

static void
calibrate_once(double hurry, double flops, double drive_bytes_per_s,
               struct mw_calibration *measured)
{
    struct mw_backend backend = mw_backend_cpu;
    struct mw_kernels kernels = *mw_backend_cpu.kernels;
    struct mw_nvme_calls calls = mw_nvme_system_calls;
    const struct mw_calibration_options options = {
        .backend = &backend, .dtype = MW_DTYPE_BF16, .drive_calls = &calls};

    kernels.multiply = multiply;
    kernels.attention_forward = attention_forward;
    kernels.attention_backward = attention_backward;
    backend.kernels = &kernels;
    calls.submit = submit;
    machine.hurry = hurry;
    machine.flops = flops;
    machine.drive_bytes_per_s = drive_bytes_per_s;
    machine.began_s = really_now_s();
    calibrator_calibrate(&options, now_s, measured);
}

/* A clock that hurries makes much of what other programs take: who keeps a budget keeps it in one
 * of some tries, but for the time that threads waited for cores.  False: they waited for so much of
 * it that rates tell of others. */
static bool
calibrate(double hurry, double flops, double drive_bytes_per_s, struct mw_calibration *measured)
{
    for (int attempt = 0; attempt < TRIES; attempt++) {
        double before_s = mw_calibrate_waited_s();
        calibrate_once(hurry, flops, drive_bytes_per_s, measured);
        double lost_s = hurry * fmax(0, mw_calibrate_waited_s() - before_s);
        g_test_message("%.1f s of %.0f, and threads waited for %.1f s", measured->took_s,
                       measured->budget_s, lost_s);
        if (measured->took_s <= (1 + SLACK) * measured->budget_s + lost_s)
            return lost_s <= BUSY * measured->took_s;
    }
    g_error("%.0f s of a budget of %.0f", measured->took_s, measured->budget_s);
}

/* --- what must hold -------------------------------------------------------------------------- */

static void
assert_range(const struct mw_measure *m)
{
    g_assert_cmpfloat(m->low, <=, m->typical);
    g_assert_cmpfloat(m->typical, <=, m->high);
    g_assert_cmpfloat(m->typical, >, 0);
}

/* All that a profile needs has a figure; what is from few samples is not taken for sure. */
static void
assert_measured(const struct mw_calibration *m)
{
    const struct mw_measure needed[] = {m->device_bytes_per_s,      m->launch_s,
                                        m->h2d_bytes_per_s,         m->d2h_bytes_per_s,
                                        m->copy_latency_s,          m->host_bytes_per_s,
                                        m->norm_bytes_per_s,        m->update_params_per_s,
                                        m->exact_bytes_per_s,       m->drives.read_bytes_per_s,
                                        m->drives.write_bytes_per_s};

    /* Others may have had the cores for so long that there was no time. */
    const struct mw_measure left_out[] = {m->layer_flops, m->pass_bytes_per_s[MW_CALIBRATION_SUMS],
                                          m->drives.duplex};

    for (size_t i = 0; i < G_N_ELEMENTS(left_out); i++) {
        assert_range(&left_out[i]);
        if (!left_out[i].samples)
            g_assert_cmpfloat(left_out[i].low, <, left_out[i].high);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(needed); i++) {
        assert_range(&needed[i]);
        g_assert_cmpint(needed[i].samples, >, 0);
        if (needed[i].samples < needed[i].wished)
            g_assert_cmpfloat(needed[i].low, <, needed[i].high);
    }
    for (int i = 0; i < m->points; i++)
        assert_range(&m->matmul_flops[i]);
    for (int i = 0; i < m->attention_points; i++)
        assert_range(&m->attention_flops[i]);
}

/* 6 GFLOP/s: the largest product takes 8.6 s, nine of four shapes five minutes. */
static void
test_slow_products(void)
{
    const double rates[] = {6e9, 1e9};
    struct mw_calibration m;

    for (size_t i = 0; i < G_N_ELEMENTS(rates); i++) {
        bool alone = calibrate(HURRY, rates[i], 0, &m);
        assert_measured(&m);
        const struct mw_measure *last = &m.matmul_flops[m.points - 1];
        g_assert_cmpfloat(m.dim[m.points - 1], ==, 2048);
        g_assert_cmpint(last->samples, ==, 0);
        g_assert_true(!alone || last->typical / rates[i] > 0.5); /* they are alike at any size */
        g_assert_cmpfloat(last->typical / rates[i], <, 1.1);
    }
}

static void
test_slow_drives(void)
{
    struct mw_calibration m;

    bool alone = calibrate(HURRY, 1e13, 30e6, &m);
    assert_measured(&m);
    g_assert_true(!alone || m.drives.read_bytes_per_s.typical / 30e6 > 0.7);
    g_assert_cmpfloat(m.drives.read_bytes_per_s.typical / 30e6, <, 1.1);
    g_assert_cmpint(m.drives.region_bytes, <, m.drives.file_bytes);
    g_assert_cmpint(m.drives.request_bytes, <, m.drives.request_bytes_wished);
}

/* Memory, drives, threads and all. */
static void
test_slow_all(void)
{
    struct mw_calibration m;

    calibrate(2 * HURRY, 0, 0, &m);
    assert_measured(&m);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-budget/slow-products", test_slow_products);
    g_test_add_func("/calibrate-budget/slow-drives", test_slow_drives);
    g_test_add_func("/calibrate-budget/slow-all", test_slow_all);
    return g_test_run();
}
