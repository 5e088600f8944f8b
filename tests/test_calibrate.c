/* Quick calibrations: of the machine as it is, of one that others disturb, and calibrations that
 * end before everything is measured. */
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "tests/calibrator_fixture.h"

static bool
stop_at(void *data, const char *what, double left_s)
{
    int *left = data;

    g_assert_cmpfloat(left_s, <=, MW_CALIBRATION_BUDGET_S);
    return (*left)-- > 0;
}

static bool
calibrate(const char *directory, int *steps, struct mw_calibration *out, GError **error)
{
    struct mw_calibration_options options = {.backend = &mw_backend_cpu,
                                             .directories = &directory,
                                             .directory_count = 1,
                                             .sustained = true,
                                             .sustained_limit_bytes = 8 << 20,
                                             .quick = true,
                                             .progress = stop_at,
                                             .data = steps};

    return mw_calibrate(&options, out, error);
}

static void
assert_empty(const char *directory)
{
    g_autoptr(GDir) dir = g_dir_open(directory, 0, NULL);

    g_assert_nonnull(dir);
    g_assert_cmpstr(g_dir_read_name(dir), ==, NULL);
}

static void
assert_measured(struct mw_measure m, double least, double most)
{
    g_assert_cmpfloat(m.low, >=, least);
    g_assert_cmpfloat(m.low, <=, m.typical);
    g_assert_cmpfloat(m.typical, <=, m.high);
    g_assert_cmpfloat(m.high, <=, most);
    g_assert_cmpint(m.samples, >, 0);
}

/* Others may have the cores meanwhile: a size that contradicts the rest is left out then, and has
 * a figure all the same. */
static void
assert_curve(const double *dims, const struct mw_measure *rates, const bool *contradicts,
             int points)
{
    for (int i = 0; i < points; i++) {
        struct mw_measure rate = rates[i];
        rate.samples += contradicts[i];
        assert_measured(rate, 1, 1e18);
        g_assert_true(!i || dims[i] > dims[i - 1]);
    }
}

static void
assert_left_out(struct mw_measure m)
{
    g_assert_cmpint(m.samples, ==, 0);
    g_assert_cmpint(m.wished, >, 0);
    g_assert_cmpfloat(m.typical, >, 0);
    g_assert_cmpfloat(m.low, <, m.high);
}

/* What may be left out was measured, unless others had many times what it takes: then a part
 * may have been left with too little. */
static void
assert_measured_in_time(const struct mw_calibration *of, struct mw_measure m, double least,
                        double most)
{
    if (m.samples || of->took_s < of->budget_s / 6)
        assert_measured(m, least, most);
    else
        assert_left_out(m);
}

static void
assert_all_measured(const struct mw_calibration *m)
{
    const struct mw_measure rates[] = {m->device_bytes_per_s,      m->launch_s,
                                       m->h2d_bytes_per_s,         m->d2h_bytes_per_s,
                                       m->copy_latency_s,          m->host_bytes_per_s,
                                       m->norm_bytes_per_s,        m->update_params_per_s,
                                       m->exact_bytes_per_s,       m->drives.read_bytes_per_s,
                                       m->drives.write_bytes_per_s};

    for (size_t i = 0; i < G_N_ELEMENTS(rates); i++)
        assert_measured(rates[i], 1e-12, 1e18);
    assert_curve(m->dim, m->matmul_flops, m->matmul_contradicts, m->points);
    assert_curve(m->attention_dim, m->attention_flops, m->attention_contradicts,
                 m->attention_points);
    g_assert_cmpint(m->attention_points, >, 1);
    assert_measured_in_time(m, m->layer_flops, 1e-12, 1e18);
    for (int kind = 0; kind < MW_CALIBRATION_PASSES; kind++)
        assert_measured_in_time(m, m->pass_bytes_per_s[kind], 1e-12, 1e18);
    assert_measured_in_time(m, m->fp32_share, 1e-3, 1e3);
    assert_measured_in_time(m, m->host_share, 0, 1);
    assert_measured_in_time(m, m->copy_share, 0, 1);
    assert_measured_in_time(m, m->nvme_share, 0, 1);
    assert_measured_in_time(m, m->drives.duplex, 1, 2);
    for (int way = 0; way < 2 && m->drives.duplex.samples; way++)
        assert_measured(m->drives.mixed_kept[way], 0, 1);
    g_assert_cmpfloat_with_epsilon(
        m->drives.mixed_read_bytes_per_s.typical,
        m->drives.mixed_kept[0].typical * m->drives.read_bytes_per_s.typical, 1);
    g_assert_cmpfloat_with_epsilon(
        m->drives.mixed_write_bytes_per_s.typical,
        m->drives.mixed_kept[1].typical * m->drives.write_bytes_per_s.typical, 1);
    assert_measured(m->drives.latency_s, 0, 100);
}

static void
test_quick(void)
{
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autoptr(GError) error = NULL;
    struct mw_calibration measured;
    int steps = 1000;

    calibrate(directory, &steps, &measured, &error);
    g_assert_no_error(error);
    assert_all_measured(&measured);
    g_assert_cmpint(measured.points, >, 1);
    g_assert_cmpint(measured.cores, >, 0);
    g_assert_cmpint(measured.memory_bytes, >, 0);
    g_assert_cmpint(measured.drives.free_bytes, >, 0);
    g_assert_cmpint(measured.drives.depth, >, 0);
    g_assert_cmpint(measured.drives.block_bytes % 4096, ==, 0);
    g_assert_true(measured.drives.sustained);
    g_assert_cmpint(measured.drives.written_bytes, >, 0);
    assert_empty(directory);
    g_rmdir(directory);
}

/* --- disturbed ones -------------------------------------------------------------------------- */

#define DISTURBED_DIM 96
#define DISTURBED_S 20  /* by the clock, which goes on by so much: longer than any machine takes */
#define BUDGET_S 100000 /* hours of such */

static double late_s;

static double
late_now_s(void)
{
    return 1e-6 * (double)g_get_monotonic_time() + late_s;
}

static void
calibrate_late(const struct mw_kernels *kernels,
               bool (*progress)(void *data, const char *what, double left_s), void *data,
               struct mw_calibration *out)
{
    struct mw_backend backend = mw_backend_cpu;
    const struct mw_calibration_options options = {.backend = &backend,
                                                   .dtype = MW_DTYPE_BF16,
                                                   .quick = true,
                                                   .budget_s = BUDGET_S,
                                                   .progress = progress,
                                                   .data = data};

    backend.kernels = kernels;
    calibrator_calibrate(&options, late_now_s, out);
}

static gint disturbed; /* a size is, until it is measured again */

static bool
multiply(void *on, const struct mw_product *p, void *c, const void *a, const void *b,
         const void *bias, GError **error)
{
    if (g_atomic_int_get(&disturbed) &&
        llround(cbrt((double)(p->m * p->n * p->k))) == DISTURBED_DIM)
        late_s += DISTURBED_S;
    return mw_backend_cpu.kernels->multiply(on, p, c, a, b, bias, error);
}

static bool
note_again(void *data, const char *what, double left_s)
{
    if (strstr(what, "contradict"))
        g_atomic_int_set(&disturbed, 0);
    return true;
}

static void
test_disturbed(void)
{
    struct mw_kernels kernels = *mw_backend_cpu.kernels;
    struct mw_calibration m;

    kernels.multiply = multiply;
    g_atomic_int_set(&disturbed, 1);
    calibrate_late(&kernels, note_again, NULL, &m);
    g_assert_cmpint(g_atomic_int_get(&disturbed), ==, 0);
    g_assert_cmpint(m.disturbances.sizes_again, >=, 1);
    g_assert_cmpfloat_with_epsilon(m.dim[1], DISTURBED_DIM, 1e-9 * DISTURBED_DIM);
    g_assert_cmpfloat(m.matmul_flops[1].typical, >, 2 * pow(DISTURBED_DIM, 3) / DISTURBED_S * 10);
}

static gint late_products; /* all sizes are, from now on */

static double
waiting_s(void)
{
    return 1.9 * late_now_s();
}

static bool
late_multiply(void *on, const struct mw_product *p, void *c, const void *a, const void *b,
              const void *bias, GError **error)
{
    if (g_atomic_int_get(&late_products))
        late_s += DISTURBED_S;
    return mw_backend_cpu.kernels->multiply(on, p, c, a, b, bias, error);
}

static bool
come_late_at_last(void *data, const char *what, double left_s)
{
    if (strstr(what, "first products"))
        g_atomic_int_set(&late_products, 1);
    return true;
}

/* Waits are no drift: threads that wait all the while are slower at the end than at first, or not:
 * by chance. */
static void
test_no_drift(void)
{
    struct mw_kernels kernels = *mw_backend_cpu.kernels;
    struct mw_calibration m;

    kernels.multiply = late_multiply;
    mw_calibrate_set_waited(waiting_s);
    calibrate_late(&kernels, come_late_at_last, NULL, &m);
    mw_calibrate_set_waited(NULL);
    g_atomic_int_set(&late_products, 0);
    g_assert_cmpfloat(m.matmul_flops[0].waited, >, 0.5);
    g_assert_false(mw_calibrate_has_drifted(m.drift.products));
    g_assert_cmpfloat(m.launch_s.high, <, DISTURBED_S);
}

static bool
come_late(void *data, const char *what, double left_s)
{
    GString *told = data;

    if (!strcmp(what, "matrix products"))
        late_s += 2 * BUDGET_S;
    g_string_append_printf(told, "%s\n", what);
    return true;
}

/* The budget is over before anything is measured.  What can be left out is, has a range all the
 * same, and is named by having wished for samples. */
static void
test_late(void)
{
    GString *told = g_string_new(NULL);
    struct mw_calibration m;

    calibrate_late(mw_backend_cpu.kernels, come_late, told, &m);
    g_assert_cmpfloat(m.opened_s, >, 0);
    g_assert_cmpfloat(m.opened_s, <, BUDGET_S);
    assert_left_out(m.layer_flops);
    for (int kind = 0; kind < MW_CALIBRATION_PASSES; kind++)
        assert_left_out(m.pass_bytes_per_s[kind]);
    assert_left_out(m.fp32_share);
    assert_left_out(m.host_share);
    assert_left_out(m.copy_share);
    assert_left_out(m.nvme_share);
    assert_left_out(m.drives.duplex);
    g_assert_cmpfloat(m.drift.products, ==, 0);
    assert_measured(m.update_params_per_s, 1, 1e18);
    assert_measured(m.drives.write_bytes_per_s, 1, 1e18);
    assert_measured(m.drives.latency_s, 0, 100);
    for (const char *const *what =
             (const char *const[]){"a layer", "read and write at once", "beside updates",
                                   "beside copies", "beside reads and writes", NULL};
         *what; what++)
        g_assert_null(strstr(told->str, *what));
    g_string_free(told, TRUE);
}

/* --- ended ones ------------------------------------------------------------------------------ */

/* Whenever it ends, nothing is left behind. */
static void
test_stopped(void)
{
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);

    for (int at = 0; at < 14; at += 3) {
        g_autoptr(GError) error = NULL;
        struct mw_calibration measured;
        int steps = at;
        g_assert_false(calibrate(directory, &steps, &measured, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
        assert_empty(directory);
    }
    g_rmdir(directory);
}

static void
test_no_directory(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_calibration measured;
    int steps = 1000;

    g_assert_false(calibrate("/nonexistent/drive", &steps, &measured, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "/nonexistent/drive"));
    g_assert_cmpint(steps, >, 990); /* before anything is measured */
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate/quick", test_quick);
    g_test_add_func("/calibrate/disturbed", test_disturbed);
    g_test_add_func("/calibrate/no-drift", test_no_drift);
    g_test_add_func("/calibrate/late", test_late);
    g_test_add_func("/calibrate/stopped", test_stopped);
    g_test_add_func("/calibrate/no-directory", test_no_directory);
    return g_test_run();
}
