/* Figures from samples, and a quick calibration. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "exec/calibrate_internal.h"
#include "planner/error.h"

static void
assert_near(double is, double wanted)
{
    g_assert_cmpfloat_with_epsilon(is, wanted, 1e-9 * fmax(1, fabs(wanted)));
}

static void
test_percentiles(void)
{
    double eleven[] = {10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5}, two[] = {3, 1}, one[] = {7};
    struct mw_measure m = mw_measure_of(eleven, 11);

    assert_near(m.low, 1);
    assert_near(m.typical, 5);
    assert_near(m.high, 9);
    g_assert_cmpint(m.samples, ==, 11);
    assert_near(mw_measure_spread(&m), 0.8);
    m = mw_measure_of(two, 2);
    assert_near(m.low, 1.2);
    assert_near(m.typical, 2);
    assert_near(m.high, 2.8);
    m = mw_measure_of(one, 1);
    assert_near(m.low, 7);
    assert_near(m.typical, 7);
    assert_near(m.high, 7);
    assert_near(mw_measure_spread(&m), 0);
    m = mw_measure_of(one, 0);
    assert_near(m.typical, 0);
    assert_near(mw_measure_spread(&m), 0);
}

static void
test_line(void)
{
    double x[] = {1, 2, 4, 8}, y[] = {5, 7, 11, 19}, falling[] = {9, 8, 7, 6};
    double below[] = {0.5, 2, 4.5, 9.5}, intercept, slope;

    mw_calibrate_line(x, y, 4, &intercept, &slope);
    assert_near(intercept, 3);
    assert_near(slope, 2);
    mw_calibrate_line(x, falling, 4, &intercept, &slope); /* no rate is negative */
    assert_near(slope, 0);
    g_assert_cmpfloat(intercept, >, 6);
    mw_calibrate_line(x, below, 4, &intercept, &slope); /* nor a latency */
    assert_near(intercept, 0);
    g_assert_cmpfloat(slope, >, 0.5);
    g_assert_cmpfloat(slope, <, 1.2);
    mw_calibrate_line(x, y, 1, &intercept, &slope);
    assert_near(slope, 0);
    assert_near(intercept, 5);
}

/* What the engine gives two that share: the first asks for all, the second for a share. */
static void
test_share(void)
{
    for (int i = 0; i <= 20; i++) {
        double share = i / 20.0, level = fmax(0.5, 1 - share);
        double x = level, y = share > 0 ? fmin(1, 0.5 / share) : 1;
        assert_near(mw_calibrate_share(x, y), share);
    }
    assert_near(mw_calibrate_share(0.3, 0.4), 1); /* worse than turns */
    assert_near(mw_calibrate_share(1.2, 1.1), 0);
}

static void
test_settled(void)
{
    double falling[60], flat[12];

    for (int i = 0; i < 60; i++)
        falling[i] = i < 20 ? 3000 - i : i < 40 ? 3000 - 100 * (i - 19) : 1000;
    for (int i = 0; i < 12; i++)
        flat[i] = 1000 + 10 * (i % 3);
    g_assert_cmpint(mw_calibrate_settled(flat, 12, 6), ==, 0);
    g_assert_cmpint(mw_calibrate_settled(flat, 11, 6), ==, -1);
    /* From 20 on it falls by more than a twentieth in ten windows. */
    g_assert_cmpint(mw_calibrate_settled(falling + 20, 10, 5), ==, -1);
    g_assert_cmpint(mw_calibrate_settled(falling + 20, 40, 10), ==, 14);
}

/* --- a machine ------------------------------------------------------------------------------- */

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
                                       m->drives.read_bytes_per_s, m->drives.write_bytes_per_s};

    for (size_t i = 0; i < G_N_ELEMENTS(rates); i++)
        assert_measured(rates[i], 1e-12, 1e18);
    assert_curve(m->dim, m->matmul_flops, m->matmul_contradicts, m->points);
    assert_curve(m->attention_dim, m->attention_flops, m->attention_contradicts,
                 m->attention_points);
    g_assert_cmpint(m->attention_points, >, 1);
    assert_measured_in_time(m, m->layer_flops, 1e-12, 1e18);
    assert_measured_in_time(m, m->operator_bytes_per_s, 1e-12, 1e18);
    assert_measured_in_time(m, m->host_share, 0, 1);
    assert_measured_in_time(m, m->copy_share, 0, 1);
    assert_measured_in_time(m, m->nvme_share, 0, 1);
    assert_measured_in_time(m, m->drives.duplex, 1, 2);
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

/* --- a size that others disturb -------------------------------------------------------------- */

#define DISTURBED_DIM 96
#define DISTURBED_S 20  /* by the clock, which goes on by so much: longer than any machine takes */
#define BUDGET_S 100000 /* hours of such */

static gint disturbed; /* until that size is measured again */
static double late_s;

static double
late_now_s(void)
{
    return 1e-6 * (double)g_get_monotonic_time() + late_s;
}

static bool
multiply(void *on, const struct mw_product *p, void *c, const uint16_t *a, const uint16_t *b,
         const uint16_t *bias, GError **error)
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
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    const char *const directories[] = {directory};
    struct mw_backend backend = mw_backend_cpu;
    struct mw_kernels kernels = *mw_backend_cpu.kernels;
    const struct mw_calibration_options options = {.backend = &backend,
                                                   .dtype = MW_DTYPE_BF16,
                                                   .directories = directories,
                                                   .directory_count = 1,
                                                   .quick = true,
                                                   .budget_s = BUDGET_S,
                                                   .progress = note_again};
    struct mw_calibration measured;
    g_autoptr(GError) error = NULL;

    kernels.multiply = multiply;
    backend.kernels = &kernels;
    g_atomic_int_set(&disturbed, 1);
    mw_calibrate_set_clock(late_now_s);
    mw_calibrate(&options, &measured, &error);
    mw_calibrate_set_clock(NULL);
    g_assert_no_error(error);
    g_assert_cmpint(g_atomic_int_get(&disturbed), ==, 0);
    g_assert_cmpint(measured.disturbances.sizes_again, >=, 1);
    assert_near(measured.dim[1], DISTURBED_DIM);
    g_assert_cmpfloat(measured.matmul_flops[1].typical, >,
                      2 * pow(DISTURBED_DIM, 3) / DISTURBED_S * 10);
    g_rmdir(directory);
}

/* --- waits that are no drift ----------------------------------------------------------------- */

static gint late_products; /* all sizes are, from now on */

static double
waiting_s(void)
{
    return 1.9 * late_now_s();
}

static bool
late_multiply(void *on, const struct mw_product *p, void *c, const uint16_t *a, const uint16_t *b,
              const uint16_t *bias, GError **error)
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

/* Threads that wait all the while are slower at the end than at first, or not: by chance. */
static void
test_no_drift(void)
{
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    const char *const directories[] = {directory};
    struct mw_backend backend = mw_backend_cpu;
    struct mw_kernels kernels = *mw_backend_cpu.kernels;
    const struct mw_calibration_options options = {.backend = &backend,
                                                   .dtype = MW_DTYPE_BF16,
                                                   .directories = directories,
                                                   .directory_count = 1,
                                                   .quick = true,
                                                   .budget_s = BUDGET_S,
                                                   .progress = come_late_at_last};
    struct mw_calibration m;
    g_autoptr(GError) error = NULL;

    kernels.multiply = late_multiply;
    backend.kernels = &kernels;
    mw_calibrate_set_clock(late_now_s);
    mw_calibrate_set_waited(waiting_s);
    mw_calibrate(&options, &m, &error);
    mw_calibrate_set_waited(NULL);
    mw_calibrate_set_clock(NULL);
    g_atomic_int_set(&late_products, 0);
    g_assert_no_error(error);
    g_assert_cmpfloat(m.matmul_flops[0].waited, >, 0.5);
    g_assert_false(mw_calibrate_has_drifted(m.drift.products));
    g_assert_cmpfloat(m.launch_s.high, <, DISTURBED_S);
    g_rmdir(directory);
}

/* --- a budget that is over before anything is measured --------------------------------------- */

static bool
come_late(void *data, const char *what, double left_s)
{
    GString *told = data;

    if (!strcmp(what, "matrix products"))
        late_s += 2 * BUDGET_S;
    g_string_append_printf(told, "%s\n", what);
    return true;
}

/* What can be left out is, has a range all the same, and is named by having wished for samples. */
static void
test_late(void)
{
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    const char *const directories[] = {directory};
    GString *told = g_string_new(NULL);
    const struct mw_calibration_options options = {.backend = &mw_backend_cpu,
                                                   .dtype = MW_DTYPE_BF16,
                                                   .directories = directories,
                                                   .directory_count = 1,
                                                   .quick = true,
                                                   .budget_s = BUDGET_S,
                                                   .progress = come_late,
                                                   .data = told};
    struct mw_calibration m;
    g_autoptr(GError) error = NULL;

    mw_calibrate_set_clock(late_now_s);
    mw_calibrate(&options, &m, &error);
    mw_calibrate_set_clock(NULL);
    g_assert_no_error(error);
    g_assert_cmpfloat(m.opened_s, >, 0);
    g_assert_cmpfloat(m.opened_s, <, BUDGET_S);
    assert_left_out(m.layer_flops);
    assert_left_out(m.operator_bytes_per_s);
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
    g_rmdir(directory);
}

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

/* Of two killed ranks; a file that a process is at, a link and others' names stay. */
static void
test_left_behind(void)
{
    static const char *const left[] = {"memwall-calibrate-0-1of2.data",
                                       "memwall-calibrate-1-1of1.data"};
    static const char *const others[] = {"memwall-calibrate-7-1of1.data",
                                         "memwall-calibrate-x-1of1.data",
                                         "memwall-calibrate-1-1of1.data.old", "memwall-1of1.data"};
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *lock = g_build_filename(directory, "memwall-calibrate-7.lock", NULL);
    g_autofree char *to = g_build_filename(directory, others[3], NULL);
    g_autofree char *link = g_build_filename(directory, "memwall-calibrate-2-1of1.data", NULL);
    int held = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    g_assert_cmpint(flock(held, LOCK_EX), ==, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(left); i++) {
        g_autofree char *path = g_build_filename(directory, left[i], NULL);
        g_assert_true(g_file_set_contents(path, "x", 1, NULL));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        g_autofree char *path = g_build_filename(directory, others[i], NULL);
        g_assert_true(g_file_set_contents(path, "x", 1, NULL));
    }
    g_assert_cmpint(symlink(to, link), ==, 0);
    mw_calibrate_remove_left(directory);
    for (size_t i = 0; i < G_N_ELEMENTS(left); i++) {
        g_autofree char *path = g_build_filename(directory, left[i], NULL);
        g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        g_autofree char *path = g_build_filename(directory, others[i], NULL);
        g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
        remove(path);
    }
    g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    remove(link);
    remove(lock);
    close(held);
    assert_empty(directory);
    g_rmdir(directory);
}

/* What stands in a lock's place and is not ours is neither taken for a lock nor deleted. */
static void
test_left_behind_others(void)
{
    g_autofree char *directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *data = g_build_filename(directory, "memwall-calibrate-3-1of1.data", NULL);
    g_autofree char *lock = g_build_filename(directory, "memwall-calibrate-3.lock", NULL);
    g_autofree char *mine = g_build_filename(directory, "mine", NULL);

    g_assert_true(g_file_set_contents(mine, "x", 1, NULL));
    g_assert_true(g_file_set_contents(data, "x", 1, NULL));
    g_assert_cmpint(link(mine, lock), ==, 0);
    mw_calibrate_remove_left(directory);
    g_assert_true(g_file_test(data, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_test(lock, G_FILE_TEST_EXISTS));
    remove(lock);
    mw_calibrate_remove_left(directory);
    g_assert_false(g_file_test(data, G_FILE_TEST_EXISTS));
    remove(mine);
    assert_empty(directory);
    g_rmdir(directory);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate/percentiles", test_percentiles);
    g_test_add_func("/calibrate/line", test_line);
    g_test_add_func("/calibrate/share", test_share);
    g_test_add_func("/calibrate/settled", test_settled);
    g_test_add_func("/calibrate/quick", test_quick);
    g_test_add_func("/calibrate/disturbed", test_disturbed);
    g_test_add_func("/calibrate/no-drift", test_no_drift);
    g_test_add_func("/calibrate/late", test_late);
    g_test_add_func("/calibrate/stopped", test_stopped);
    g_test_add_func("/calibrate/no-directory", test_no_directory);
    g_test_add_func("/calibrate/left-behind", test_left_behind);
    g_test_add_func("/calibrate/left-behind-others", test_left_behind_others);
    return g_test_run();
}
