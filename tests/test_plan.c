#include <glib.h>
#include <string.h>

#include "plan/plan.h"

static void
test_add(void)
{
    struct mw_plan *plan = mw_plan_new(NULL);

    g_assert_cmpstr(plan->title, ==, "");
    g_assert_cmpuint(plan->program_count, ==, 1);
    for (uint32_t i = 0; i < 1000; i++) {
        g_assert_cmpuint(mw_plan_add_comm(plan, (struct mw_comm){.spans = {{0, i}}}), ==, i);
        g_assert_cmpuint(mw_plan_add_lane(plan, (struct mw_lane){.program = i}), ==, i);
        g_assert_cmpuint(mw_plan_add_channel(plan, (struct mw_channel){.index = i}), ==, i);
        g_assert_cmpuint(mw_plan_add_slot(plan, (struct mw_slot){.program = i}), ==, i);
        struct mw_draw draws[] = {{i, 1, 1}, {i, 1, 2}};
        g_assert_cmpuint(mw_plan_add_work(plan, (struct mw_work){.flops = i}, draws, i % 3), ==, i);
        g_assert_cmpuint(mw_plan_add_op(plan, (struct mw_op){.shard = i, .dep_count = 9}), ==, i);
        mw_plan_add_dep(plan, i / 2);
        mw_plan_add_use(plan, i, MW_USE_MODIFY, MW_ROLE_NONE);
    }
    g_assert_cmpuint(plan->ops[999].shard, ==, 999);
    g_assert_cmpuint(plan->ops[999].dep_count, ==, 1);
    g_assert_cmpuint(plan->deps[plan->ops[999].dep_begin], ==, 499);
    g_assert_cmpuint(plan->uses[plan->ops[999].use_begin].slot, ==, 999);
    g_assert_cmpuint(plan->works[998].draw_count, ==, 2);
    g_assert_cmpint(plan->draws[plan->works[998].draw_begin + 1].amount, ==, 2);
    g_assert_cmpuint(plan->slots[500].program, ==, 500);
    mw_plan_free(plan);
    mw_plan_free(NULL);
}

static void
test_repeated_deps(void)
{
    struct mw_plan *plan = mw_plan_new("deps");

    mw_plan_add_op(plan, (struct mw_op){0});
    mw_plan_add_op(plan, (struct mw_op){0});
    mw_plan_add_dep(plan, 0);
    mw_plan_add_dep(plan, MW_NONE);
    mw_plan_add_dep(plan, 0);
    mw_plan_add_dep(plan, 0 | MW_DEP_PREVIOUS_STEP);
    g_assert_cmpuint(plan->ops[1].dep_count, ==, 2);
    g_assert_cmpuint(plan->dep_count, ==, 2);
    mw_plan_free(plan);
}

/* Names are how a person and a file refer to the values: all there, none twice. */
static void
check_names(const char *(*name)(int), int count)
{
    for (int i = 0; i < count; i++) {
        g_assert_nonnull(name(i));
        g_assert_null(strpbrk(name(i), " :\n"));
        for (int j = 0; j < i; j++)
            g_assert_cmpstr(name(i), !=, name(j));
    }
    g_assert_null(name(count));
    g_assert_null(name(-1));
}

static void
test_names(void)
{
    check_names(mw_tier_name, MW_TIER_COUNT);
    check_names(mw_op_kind_name, MW_OP_KIND_COUNT);
    check_names(mw_operator_name, MW_OPERATOR_COUNT);
    check_names(mw_phase_name, MW_PHASE_COUNT);
    check_names(mw_dtype_name, MW_DTYPE_COUNT);
    check_names(mw_lane_kind_name, MW_LANE_KIND_COUNT);
    check_names(mw_channel_kind_name, MW_CHANNEL_KIND_COUNT);
    check_names(mw_purpose_name, MW_PURPOSE_COUNT);
    check_names(mw_use_mode_name, MW_USE_MODE_COUNT);
}

static struct mw_plan *
make_checked(void)
{
    struct mw_plan *plan = mw_plan_new("sealed");

    mw_plan_add_lane(plan, (struct mw_lane){.window_ops = 1});
    mw_plan_add_work(plan, (struct mw_work){.comm = MW_NONE}, NULL, 0);
    mw_plan_add_op(plan, (struct mw_op){.match = MW_NONE});
    g_assert_true(mw_plan_check(plan, NULL, 0));
    return plan;
}

static void
test_sealed_subprocess(gconstpointer data)
{
    struct mw_plan *plan = make_checked();

    switch (GPOINTER_TO_INT(data)) {
    case 0:
        mw_plan_add_comm(plan, (struct mw_comm){0});
        break;
    case 1:
        mw_plan_add_lane(plan, (struct mw_lane){0});
        break;
    case 2:
        mw_plan_add_channel(plan, (struct mw_channel){0});
        break;
    case 3:
        mw_plan_add_slot(plan, (struct mw_slot){0});
        break;
    case 4:
        mw_plan_add_work(plan, (struct mw_work){0}, NULL, 0);
        break;
    case 5:
        mw_plan_add_op(plan, (struct mw_op){0});
        break;
    case 6:
        mw_plan_add_dep(plan, 0);
        break;
    default:
        mw_plan_add_use(plan, 0, MW_USE_READ, MW_ROLE_NONE);
    }
    mw_plan_free(plan);
}

#define SEALED_CASES 8

static void
test_sealed(void)
{
    for (int i = 0; i < SEALED_CASES; i++) {
        g_autofree char *path = g_strdup_printf("/plan/sealed/subprocess/%d", i);

        g_test_trap_subprocess(path, 0, 0);
        g_test_trap_assert_failed();
        g_test_trap_assert_stderr("*memwall: mw_plan_add_*: the plan was checked*");
    }
}

static void
test_misuse_subprocess(gconstpointer data)
{
    struct mw_plan *plan = mw_plan_new("misuse");
    static struct mw_draw draws[MW_MAX_DRAWS_PER_WORK + 1];

    if (GPOINTER_TO_INT(data) == 0)
        mw_plan_add_dep(plan, 0);
    mw_plan_add_op(plan, (struct mw_op){0});
    for (uint32_t i = 0; i <= MW_MAX_DEPS_PER_OP && GPOINTER_TO_INT(data) == 1; i++)
        mw_plan_add_dep(plan, i);
    for (uint32_t i = 0; i <= MW_MAX_USES_PER_OP && GPOINTER_TO_INT(data) == 2; i++)
        mw_plan_add_use(plan, i, MW_USE_READ, MW_ROLE_NONE);
    mw_plan_add_work(plan, (struct mw_work){0}, draws, G_N_ELEMENTS(draws));
}

static void
test_misuse(void)
{
    static const char *const messages[] = {"*no op yet*", "*more dependencies than*",
                                           "*more uses than*", "*more draws than*"};

    for (int i = 0; i < 4; i++) {
        g_autofree char *path = g_strdup_printf("/plan/misuse/subprocess/%d", i);

        g_test_trap_subprocess(path, 0, 0);
        g_test_trap_assert_failed();
        g_test_trap_assert_stderr(messages[i]);
    }
}

static void
add_subprocesses(const char *format, int count, GTestDataFunc function)
{
    for (int i = 0; i < count; i++) {
        g_autofree char *path = g_strdup_printf("%s/subprocess/%d", format, i);
        g_test_add_data_func(path, GINT_TO_POINTER(i), function);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/plan/add", test_add);
    g_test_add_func("/plan/repeated-deps", test_repeated_deps);
    g_test_add_func("/plan/names", test_names);
    g_test_add_func("/plan/sealed", test_sealed);
    g_test_add_func("/plan/misuse", test_misuse);
    add_subprocesses("/plan/sealed", SEALED_CASES, test_sealed_subprocess);
    add_subprocesses("/plan/misuse", 4, test_misuse_subprocess);
    return g_test_run();
}
