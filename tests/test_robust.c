/* Medians and their intervals: exact ones, and how often they hold what they say of noise that is
 * drawn with a fixed seed. */
#include <glib.h>
#include <math.h>
#include <stdbool.h>

#include "study/robust.h"

#define DRAWS 300
#define STEPS 120
#define SLOW_STEPS 200

static double
normal(GRand *rand)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += g_rand_double(rand);
    return sum - 6;
}

/* Times of which each knows `memory` of the one before, and one in 30 is an outlier. */
static void
draw(GRand *rand, double level, double memory, double *times_s, size_t count)
{
    double apart = 0;

    for (size_t i = 0; i < count; i++) {
        apart = memory * apart + sqrt(1 - memory * memory) * normal(rand);
        times_s[i] = level * exp(0.03 * apart);
        if (g_rand_int_range(rand, 0, 30) == 0)
            times_s[i] *= g_rand_double_range(rand, 1.2, 3);
    }
}

static void
test_median(void)
{
    const double odd[] = {5, NAN, 1, 3}, even[] = {4, 1, 3, 2}, none[] = {NAN};

    g_assert_cmpfloat(mw_robust_median(odd, 4), ==, 3);
    g_assert_cmpfloat(mw_robust_median(even, 4), ==, 2.5);
    g_assert_true(isnan(mw_robust_median(none, 1)));
    g_assert_true(isnan(mw_robust_median(none, 0)));
}

static void
test_exact(void)
{
    const double one = 2, other = 3, same[] = {2, 2, 2, 2, 2, 2}, twice[] = {4, 4, 4, 4, 4, 4};
    struct mw_robust_interval point = mw_robust_ratio(&one, 1, &other, 1);
    struct mw_robust_interval flat = mw_robust_ratio(same, 6, twice, 6);

    g_assert_cmpfloat_with_epsilon(point.value, 1.5, 1e-12);
    g_assert_cmpfloat(point.low, ==, point.high);
    g_assert_cmpfloat_with_epsilon(flat.low, 2, 1e-12);
    g_assert_cmpfloat_with_epsilon(flat.high, 2, 1e-12);
    g_assert_cmpfloat(mw_robust_level(same, 6).low, ==, 2);
}

/* 5 values hold a median with 1 - 2 / 2^5 = 94%, which is too little; a ratio they do hold. */
static void
test_confidence(void)
{
    const double times_s[] = {1, 4, 2, 6, 3, 5};

    g_assert_true(isnan(mw_robust_level(times_s, 5).confidence));
    g_assert_cmpfloat(mw_robust_level(times_s, 6).confidence, ==, MW_ROBUST_CONFIDENCE);
    g_assert_true(isnan(mw_robust_ratio(times_s, 1, times_s, 6).confidence));
    g_assert_cmpfloat(mw_robust_ratio(times_s, 5, times_s, 5).confidence, ==, MW_ROBUST_CONFIDENCE);
}

/* How many of the intervals miss what is true. */
static int
misses(double memory, double *width)
{
    GRand *rand = g_rand_new_with_seed(7);
    double a[STEPS], b[STEPS];
    int missed = 0;

    *width = 0;
    for (int i = 0; i < DRAWS; i++) {
        draw(rand, 1, memory, a, STEPS);
        draw(rand, 1.05, memory, b, STEPS);
        struct mw_robust_interval ratio = mw_robust_ratio(a, STEPS, b, STEPS);
        missed += ratio.low > 1.05 || ratio.high < 1.05;
        *width += (ratio.high - ratio.low) / DRAWS;
        g_assert_true(ratio.low <= ratio.value && ratio.value <= ratio.high);
    }
    g_rand_free(rand);
    return missed;
}

/* Independent steps: 95% of the intervals hold the truth.  Where what slows a step goes on, they
 * grow wider and hold it nearly as often. */
static void
test_holds(void)
{
    double width, wider;

    g_assert_cmpint(misses(0, &width), <=, DRAWS / 14);
    g_assert_cmpfloat(width, <, 0.025);
    g_assert_cmpint(misses(0.8, &wider), <=, DRAWS / 10);
    g_assert_cmpfloat(wider, >, 1.5 * width);
}

/* Noise that lasts longer than a part of the series: `length` of it by 10%, or with that memory a
 * wander of 5%. */
static void
draw_slow(GRand *rand, double length, bool wanders, double *times_s, size_t count)
{
    double memory = exp(-1 / (length * (double)count)), apart = normal(rand);
    size_t begin = (size_t)(g_rand_double(rand) * (1 - length) * (double)count);

    draw(rand, 1, 0, times_s, count);
    for (size_t i = 0; i < count; i++) {
        apart = memory * apart + sqrt(1 - memory * memory) * normal(rand);
        bool slow = i >= begin && i < begin + (size_t)(length * (double)count);
        times_s[i] *= wanders ? exp(0.05 * apart) : slow ? 1.1 : 1;
    }
}

/* How many ranges of equal runs are beyond 3%; *slow: how many say that noise lasts too long. */
static int
alarms(double length, bool wanders, bool both, int *slow)
{
    GRand *rand = g_rand_new_with_seed(11);
    double a[SLOW_STEPS], b[SLOW_STEPS];
    int wrong = 0;

    *slow = 0;
    for (int i = 0; i < DRAWS; i++) {
        if (both)
            draw_slow(rand, length, wanders, a, SLOW_STEPS);
        else
            draw(rand, 1, 0, a, SLOW_STEPS);
        draw_slow(rand, length, wanders, b, SLOW_STEPS);
        struct mw_robust_interval ratio = mw_robust_ratio(a, SLOW_STEPS, b, SLOW_STEPS);
        wrong += 1 / ratio.low < 0.97;
        *slow += ratio.slow;
        g_assert_true(ratio.slow == isnan(ratio.confidence));
    }
    g_rand_free(rand);
    return wrong;
}

/* A machine that is slower for a third or more of one log makes no regression; nor does a wander
 * in both. */
static void
test_slow(void)
{
    static const double lengths[] = {0.3, 0.45, 0.6};
    int slow;

    for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        g_assert_cmpint(alarms(lengths[i], false, false, &slow), <=, DRAWS / 50);
        g_assert_cmpint(slow, >=, DRAWS * 9 / 10);
    }
    g_assert_cmpint(alarms(0.2, true, true, &slow), <=, DRAWS / 50);
    g_assert_cmpint(alarms(0.3, true, true, &slow), <=, DRAWS / 30);
}

/* Where noise is short, 5% are found, and it is seldom called slow. */
static void
test_short(void)
{
    GRand *rand = g_rand_new_with_seed(13);
    double a[SLOW_STEPS], b[SLOW_STEPS];
    int found = 0, slow = 0;

    for (int i = 0; i < DRAWS; i++) {
        draw(rand, 1, 0.3, a, SLOW_STEPS);
        draw(rand, 1.0526, 0.3, b, SLOW_STEPS);
        struct mw_robust_interval ratio = mw_robust_ratio(a, SLOW_STEPS, b, SLOW_STEPS);
        found += 1 / ratio.low < 0.97;
        slow += ratio.slow;
    }
    g_rand_free(rand);
    g_assert_cmpint(found, >=, DRAWS * 9 / 10);
    g_assert_cmpint(slow, <=, DRAWS / 15);
}

/* A run of a million steps that drifts all the time is looked at in a moment. */
static void
test_long(void)
{
    size_t count = 1000000;
    g_autofree double *times_s = g_new(double, count);

    for (size_t i = 0; i < count; i++)
        times_s[i] = 1 + (double)i / (double)count;
    struct mw_robust_interval ratio = mw_robust_ratio(times_s, count, times_s, count);
    g_assert_cmpfloat_with_epsilon(ratio.value, 1, 1e-9);
    g_assert_cmpfloat(ratio.low, <, 0.8);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/robust/median", test_median);
    g_test_add_func("/robust/exact", test_exact);
    g_test_add_func("/robust/confidence", test_confidence);
    g_test_add_func("/robust/holds", test_holds);
    g_test_add_func("/robust/slow", test_slow);
    g_test_add_func("/robust/short", test_short);
    g_test_add_func("/robust/long", test_long);
    return g_test_run();
}
