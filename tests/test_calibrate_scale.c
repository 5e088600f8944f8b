/* How much is done at once: as much as there is time for, by what was measured so far. */
#include "tests/calibrator_fixture.h"

/* One start, and the units at the rate of the fastest: not at that of a start-bound neighbour. */
static void
test_pace(void)
{
    struct mw_calibrate_pace pace = {0};
    const struct mw_measure small = {1e6, 1e7, 1e8, 9, 9, 0}, large = {1e10, 2e10, 3e10, 9, 9, 0};
    const struct mw_measure none = {1, 1, 1, 0, 9, 0};

    g_assert_cmpfloat(mw_calibrate_pace_s(&pace, 1e9), ==, 0);
    mw_calibrate_pace_add(&pace, 1e5, &none);
    mw_calibrate_pace_add(&pace, 1e5, &small);
    mw_calibrate_pace_add(&pace, 1e9, &large);
    mw_calibrate_pace_add(&pace, 2e5, &small);
    g_assert_cmpfloat_with_epsilon(mw_calibrate_pace_s(&pace, 1e10), 0.1 + 1, 1e-9);
    g_assert_true(mw_calibrate_pace_fits(&pace, 1e9, 0.21));
    g_assert_false(mw_calibrate_pace_fits(&pace, 1.5e9, 0.21));
    /* The start takes all there is, of a smaller work too. */
    g_assert_true(mw_calibrate_pace_fits(&pace, 2e8, 0.05));
    g_assert_false(mw_calibrate_pace_fits(&pace, 3e8, 0.05));
}

/* The layer and the products beside other works have the size that all measured ones tell of, not
 * the one that is nearest to them and waited most. */
static void
test_chosen(void)
{
    struct mw_calibrator c;
    struct mw_calibration out = {.points = 3,
                                 .dim = {64, 768, 2048},
                                 .matmul_flops = {{1e9, 1e9, 1e9, 9, 9, 0.8},
                                                  {2e10, 2e10, 2e10, 9, 9, 0.8},
                                                  {4e11, 4e11, 4e11, 9, 9, 0.5}}};
    int64_t seq;

    calibrator_open(&c, 60);
    c.scale = mw_calibrate_scale(false, false);
    c.beside = c.scale->beside;
    c.window_wish_s = 0.3;
    c.budget.measures = 1;
    c.budget.until_s = mw_calibrate_now_s() + 1.2;
    g_assert_true(mw_calibrate_choose_layer(&c, &out, &seq, NULL));
    g_assert_cmpint(out.layer_rows, ==, c.scale->layer_rows);
    g_assert_cmpint(out.layer_columns, ==, c.scale->layer_columns);
    g_assert_true(mw_calibrate_choose_beside(&c, &out, NULL));
    g_assert_cmpint(c.beside, ==, c.scale->beside);
    out.matmul_flops[2] = out.matmul_flops[1]; /* where none is fast they are smaller */
    g_assert_true(mw_calibrate_choose_layer(&c, &out, &seq, NULL));
    g_assert_cmpint(out.layer_rows, <, c.scale->layer_rows);
    g_assert_true(mw_calibrate_choose_beside(&c, &out, NULL));
    g_assert_cmpint(c.beside, <, c.scale->beside);
    calibrator_close(&c);
}

/* Half of it where a page takes long; never so little that a cache may hold it. */
static void
test_arenas(void)
{
    const int64_t mib = 1 << 20;

    g_assert_cmpint(mw_calibrate_arena_bytes(256 * mib, 1e-9, 0.3), ==, 256 * mib);
    g_assert_cmpint(mw_calibrate_arena_bytes(256 * mib, 1e-9, 0.2), ==, 128 * mib);
    g_assert_cmpint(mw_calibrate_arena_bytes(256 * mib, 1, 0.2), ==, 128 * mib);
    g_assert_cmpint(mw_calibrate_arena_bytes(24 * mib, 1, 0), ==, 24 * mib);
    g_assert_cmpint(mw_calibrate_beyond_caches(300 * mib, 128 * 1024 * mib, 1), ==, 1200 * mib);
    g_assert_cmpint(mw_calibrate_beyond_caches(300 * mib, 128 * 1024 * mib, 4), ==, 300 * mib);
    g_assert_cmpint(mw_calibrate_beyond_caches(300 * mib, 8 * 1024 * mib, 1), ==, 1024 * mib);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-scale/pace", test_pace);
    g_test_add_func("/calibrate-scale/chosen", test_chosen);
    g_test_add_func("/calibrate-scale/arenas", test_arenas);
    return g_test_run();
}
