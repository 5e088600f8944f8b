/* What the first rank gets from the others, for ranks whose steps are known. */
#include <stdio.h>
#include <string.h>

#include "cli/run/unite.h"
#include "report/compare.h"
#include "tests/compare_fixture.h"
#include "tests/launched.h"

enum { RANKS = 3, STEPS = 4, TYPICAL = 3 };

static const char *self;

/* By rank; each has another typical step, of which none counts but the first's. */
static const int64_t forward_ms[RANKS][STEPS] = {
    {90, 10, 30, 12}, {50, 22, 20, 40}, {50, 30, 17, 16}};

/* --- a rank ---------------------------------------------------------------------------------- */

static void
assert_told(const struct mw_plan *plan, const struct mw_measured_rank *told, int rank)
{
    struct mw_measured *own = compare_fixture_measured(forward_ms[rank], STEPS);
    struct mw_measured_rank expected = mw_compare_rank(plan, own, TYPICAL);

    g_assert_cmpint(mw_measured_typical(own)->step, !=, TYPICAL);
    g_assert_cmpmem(told->busy_ns, LANES * sizeof(int64_t), expected.busy_ns,
                    LANES * sizeof(int64_t));
    g_assert_cmpmem(told->exposed_ns, LANES * sizeof(int64_t), expected.exposed_ns,
                    LANES * sizeof(int64_t));
    g_assert_cmpint(told->exposed_ns[LANES - 1], >, 0);
    g_assert_cmpmem(told->timeline.rows, OPS * sizeof *told->timeline.rows, expected.timeline.rows,
                    OPS * sizeof *expected.timeline.rows);
    mw_measured_rank_clear(&expected);
    mw_measured_free(own);
}

static int
work(void)
{
    struct mw_ranks *ranks = mw_ranks_join(1, 4096, NULL);
    struct mw_plan *plan = compare_fixture_plan();
    int own = mw_ranks_index(ranks);
    struct mw_measured *measured = compare_fixture_measured(forward_ms[own], STEPS);
    struct mw_measured *none = mw_measured_new(OPS);

    g_assert_true(cli_unite_ranks(none, plan, ranks, NULL));
    g_assert_true(cli_unite_ranks(measured, plan, ranks, NULL));
    g_assert_cmpuint(none->rank_count, ==, 0);
    g_assert_cmpuint(measured->rank_count, ==, own ? 0 : RANKS - 1);
    for (uint32_t r = 0; r < measured->rank_count; r++)
        assert_told(plan, &measured->ranks[r], (int)r + 1);
    mw_measured_free(measured);
    mw_measured_free(none);
    mw_plan_free(plan);
    mw_ranks_leave(ranks);
    return 0;
}

/* --- those that start ranks ------------------------------------------------------------------ */

static void
test_ranks(void)
{
    const char *arguments[] = {"--worker", NULL};
    g_autofree char *mpirun = launched_find(), *output = NULL;

    if (!mpirun)
        return;
    int status = launched_run(mpirun, RANKS, self, arguments, &output);
    g_test_message("status %d: %s", status, output);
    g_assert_cmpint(status, ==, 0);
}

static void
test_alone(void)
{
    struct mw_ranks *ranks = mw_ranks_join(1, 4096, NULL);
    struct mw_plan *plan = compare_fixture_plan();
    struct mw_measured *measured = compare_fixture_measured(forward_ms[0], STEPS);

    g_assert_true(cli_unite_ranks(measured, plan, ranks, NULL));
    g_assert_cmpuint(measured->rank_count, ==, 0);
    mw_measured_free(measured);
    mw_plan_free(plan);
    mw_ranks_leave(ranks);
}

int
main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 2 && !strcmp(argv[1], "--worker"))
        return work();
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/gather/alone", test_alone);
    g_test_add_func("/gather/ranks", test_ranks);
    return g_test_run();
}
