/* Threads that the system refuses: what needs them fails in one line, and runs when it has them. */
#include "exec/host/thread.h"
#include "exec/lanes/lanes.h"
#include "says.h"
#include "thread_limit.h"

#define LANES 3
#define LIMITS "ulimit -u"

/* Runs the case again in a process of its own; true: in that, which may start so many threads. */
static bool
limited(int threads)
{
    if (g_test_subprocess())
        return thread_limit_set(threads);
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    return false;
}

static gpointer
add_one(gpointer sum)
{
    g_atomic_int_inc((gint *)sum);
    return sum;
}

static void
test_start(void)
{
    GError *error = NULL;
    gint sum = 0;

    if (!limited(0))
        return;
    g_assert_null(mw_thread_start("adding", add_one, &sum, &error));
    mw_test_error_says(error, "\"adding\"", LIMITS);
    thread_limit_lift();
    GThread *thread = mw_thread_start("adding", add_one, &sum, NULL);
    g_assert_true(g_thread_join(thread) == &sum);
    g_assert_cmpint(sum, ==, 1);
}

static void
test_available(void)
{
    GError *error = NULL;

    if (!limited(2))
        return;
    g_assert_true(mw_thread_can_start(0, NULL));
    g_assert_true(mw_thread_can_start(2, NULL));
    /* Those that have ended may count for a moment yet. */
    g_assert_false(mw_thread_can_start(3, &error));
    mw_test_error_says(error, "of the 3 threads", LIMITS);
    thread_limit_lift();
}

/* --- lanes ----------------------------------------------------------------------------------- */

static enum mw_exec_outcome
count_op(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    g_atomic_int_inc((gint *)context);
    return MW_EXEC_DONE;
}

/* An op a lane. */
static struct mw_plan *
new_plan(void)
{
    struct mw_plan *plan = mw_plan_new("some lanes");
    char why[200];
    uint32_t work =
        mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_BEGIN, .comm = MW_NONE}, NULL, 0);

    for (uint32_t lane = 0; lane < LANES; lane++) {
        mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_COMPUTE + lane, 0, 1, 0});
        mw_plan_add_op(plan,
                       (struct mw_op){.lane = lane, .work = work, .layer = -1, .match = MW_NONE});
    }
    if (!mw_plan_check(plan, why, sizeof why))
        g_error("%s", why);
    return plan;
}

/* No op is run where a lane has no thread, whatever others have; then the same lanes run. */
static void
check_lanes(int threads)
{
    struct mw_plan *plan = new_plan();
    gint ran = 0;
    struct mw_exec_backend backend = {.run = count_op, .context = &ran};
    struct mw_lanes *lanes = mw_lanes_new(plan, backend, NULL);
    GError *error = NULL;

    g_assert_false(mw_lanes_run(lanes, 2, NULL, NULL, &error));
    mw_test_error_says(error, mw_lane_kind_name(MW_LANE_COMPUTE + threads), LIMITS);
    g_assert_cmpint(ran, ==, 0);
    thread_limit_lift();
    g_assert_true(mw_lanes_run(lanes, 2, NULL, NULL, NULL));
    g_assert_cmpint(ran, ==, 2 * LANES);
    mw_lanes_free(lanes);
    mw_plan_free(plan);
}

static void
test_no_lane(void)
{
    if (limited(0))
        check_lanes(0);
}

static void
test_some_lanes(void)
{
    if (limited(LANES - 1))
        check_lanes(LANES - 1);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/thread/start", test_start);
    g_test_add_func("/thread/room", test_available);
    g_test_add_func("/thread/no-lane", test_no_lane);
    g_test_add_func("/thread/some-lanes", test_some_lanes);
    return g_test_run();
}
