/* Learning rates and loss scales, step by step. */
#include <math.h>

#include "base/error.h"
#include "exec/course/schedule.h"

#define assert_near(a, b) g_assert_cmpfloat_with_epsilon(a, b, 1e-15)

/* --- learning rate --- */

static const struct mw_lr_schedule cosine = {MW_LR_COSINE, 1.0, 0.1, 4, 24};

static void
test_warmup(void)
{
    struct mw_lr_schedule constant = cosine;

    constant.shape = MW_LR_CONSTANT;
    for (int step = 0; step < 4; step++) {
        assert_near(mw_lr_at(&cosine, step), (step + 1) / 4.0);
        assert_near(mw_lr_at(&constant, step), (step + 1) / 4.0);
    }
}

static void
test_constant(void)
{
    struct mw_lr_schedule constant = {MW_LR_CONSTANT, 3e-4, 0, 0, 10};
    static const int64_t steps[] = {0, 1, 9, 10, 1000000};

    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++)
        g_assert_cmpfloat(mw_lr_at(&constant, steps[i]), ==, 3e-4);
}

static void
test_cosine(void)
{
    assert_near(mw_lr_at(&cosine, 4), 1.0);
    assert_near(mw_lr_at(&cosine, 14), 0.55); /* half way */
    assert_near(mw_lr_at(&cosine, 9), 0.1 + 0.9 * (1 + sqrt(0.5)) / 2);
    assert_near(mw_lr_at(&cosine, 24), 0.1);
    assert_near(mw_lr_at(&cosine, 1000), 0.1);
    for (int step = 4; step < 24; step++)
        g_assert_cmpfloat(mw_lr_at(&cosine, step), >, mw_lr_at(&cosine, step + 1));
}

static void
test_no_steps_left(void)
{
    struct mw_lr_schedule all_warmup = {MW_LR_COSINE, 1, 0.25, 4, 4};
    struct mw_lr_schedule no_warmup = {MW_LR_COSINE, 1, 0.25, 0, 4};

    g_assert_cmpfloat(mw_lr_at(&all_warmup, 3), ==, 1);
    g_assert_cmpfloat(mw_lr_at(&all_warmup, 4), ==, 0.25);
    g_assert_cmpfloat(mw_lr_at(&no_warmup, 0), ==, 1);
}

static void
test_lr_refused(void)
{
    static const struct mw_lr_schedule wrong[] = {
        {MW_LR_COSINE, 0, 0, 4, 24},   {MW_LR_COSINE, -1, 0, 4, 24},
        {MW_LR_COSINE, NAN, 0, 4, 24}, {MW_LR_COSINE, INFINITY, 0, 4, 24},
        {MW_LR_COSINE, 1, 2, 4, 24},   {MW_LR_COSINE, 1, -1, 4, 24},
        {MW_LR_COSINE, 1, NAN, 4, 24}, {MW_LR_COSINE, 1, 0, -1, 24},
        {MW_LR_COSINE, 1, 0, 25, 24},  {MW_LR_CONSTANT, 1, 0, 0, -1},
    };
    struct mw_lr_schedule constant = {MW_LR_CONSTANT, 1, 0, 100, 24};

    g_assert_true(mw_lr_schedule_check(&cosine, NULL));
    g_assert_true(mw_lr_schedule_check(&constant, NULL)); /* a run that ends while it rises */
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_false(mw_lr_schedule_check(&wrong[i], &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    }
}

static void
test_shape_names(void)
{
    enum mw_lr_shape shape = MW_LR_CONSTANT;

    g_assert_true(mw_lr_shape_parse("cosine", &shape));
    g_assert_cmpint(shape, ==, MW_LR_COSINE);
    g_assert_false(mw_lr_shape_parse("linear", &shape));
    g_assert_cmpint(shape, ==, MW_LR_COSINE);
    g_assert_true(mw_lr_shape_parse("constant", &shape));
    g_assert_cmpint(shape, ==, MW_LR_CONSTANT);
}

/* --- loss scale --- */

static void
test_scale_halves_and_doubles(void)
{
    struct mw_loss_scaling scaling = {.start = 16, .min = 4, .max = 32, .double_after = 3};
    struct mw_loss_scale scale = mw_loss_scale_start(&scaling);
    static const struct {
        bool overflow;
        double next;
    } steps[] = {
        {false, 16}, {false, 16}, {false, 32}, /* doubled after three */
        {false, 32}, {false, 32}, {false, 32}, /* the largest */
        {false, 32}, {false, 32}, {true, 16},  /* halved; the count begins anew */
        {false, 16}, {false, 16}, {true, 8},   {true, 4}, {true, 4}, /* the smallest */
        {false, 4},  {false, 4},  {false, 8},
    };

    g_assert_cmpfloat(scale.scale, ==, 16);
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        g_assert_cmpint(mw_loss_scale_step(&scaling, &scale, steps[i].overflow), ==,
                        steps[i].overflow);
        g_assert_cmpfloat(scale.scale, ==, steps[i].next);
    }
    g_assert_cmpint(scale.skipped, ==, 4);
}

static void
test_scale_counts_in_row(void)
{
    struct mw_loss_scaling none = mw_loss_scaling_none();
    struct mw_loss_scale scale = mw_loss_scale_start(&none);

    for (int i = 1; i <= 5; i++) {
        g_assert_true(mw_loss_scale_step(&none, &scale, true));
        g_assert_cmpint(scale.skipped_in_row, ==, i);
    }
    g_assert_false(mw_loss_scale_step(&none, &scale, false));
    g_assert_cmpint(scale.skipped_in_row, ==, 0);
    g_assert_cmpint(scale.skipped, ==, 5);
}

static void
test_no_scale(void)
{
    struct mw_loss_scaling none = mw_loss_scaling_none();
    struct mw_loss_scale scale = mw_loss_scale_start(&none);

    g_assert_true(mw_loss_scaling_check(&none, NULL));
    for (int i = 0; i < 5000; i++) {
        mw_loss_scale_step(&none, &scale, i % 7 == 0);
        g_assert_cmpfloat(scale.scale, ==, 1);
    }
}

static void
test_scale_refused(void)
{
    static const struct mw_loss_scaling wrong[] = {
        {0, 1, 2, 1}, {3, 1, 4, 1}, {-2, 1, 4, 1}, {NAN, 1, 4, 1},      {INFINITY, 1, 4, 1},
        {8, 1, 4, 1}, {1, 2, 4, 1}, {2, 0, 4, 1},  {2, 1, INFINITY, 1}, {2, 1, 4, -1},
    };
    struct mw_loss_scaling dynamic = mw_loss_scaling_dynamic(65536);

    g_assert_true(mw_loss_scaling_check(&dynamic, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_false(mw_loss_scaling_check(&wrong[i], &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/schedule/lr/warmup", test_warmup);
    g_test_add_func("/schedule/lr/constant", test_constant);
    g_test_add_func("/schedule/lr/cosine", test_cosine);
    g_test_add_func("/schedule/lr/no-steps-left", test_no_steps_left);
    g_test_add_func("/schedule/lr/refused", test_lr_refused);
    g_test_add_func("/schedule/lr/shape-names", test_shape_names);
    g_test_add_func("/schedule/scale/halves-and-doubles", test_scale_halves_and_doubles);
    g_test_add_func("/schedule/scale/counts-in-row", test_scale_counts_in_row);
    g_test_add_func("/schedule/scale/none", test_no_scale);
    g_test_add_func("/schedule/scale/refused", test_scale_refused);
    return g_test_run();
}
