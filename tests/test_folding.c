/* Invariant 9: one program that stands for all ranks, with its part of each shared channel, gives
 * the step of a program for every rank.  On random requests of 2 to 16 ranks. */
#include "sim/engine.h"
#include "tests/random_request.h"
#include "tests/says.h"

#define REQUESTS 1000
#define TOLERANCE 1e-6

/* Owners of parameters are not alike. */
static bool
takes_turns(const struct mw_sizing *sizing)
{
    return sizing->settings.partition == MW_PARTITION_OWNER && sizing->dp > 1;
}

static int64_t
step_ns(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    struct mw_engine_result result;
    struct mw_costs costs;
    char why[256] = "";

    mw_costs_init(&costs, plan, hardware);
    mw_engine_run(plan, &costs, (struct mw_engine_options){0}, &result, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    int64_t step_ns = result.step_ns;
    mw_engine_result_clear(&result);
    mw_costs_clear(&costs);
    return step_ns;
}

/* Durations are whole nanoseconds: an op of the one may be one longer than of the other. */
static void
compare(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_sizing apart = *sizing;
    apart.settings.unfold = true;
    struct mw_plan *folded = mw_build_plan(sizing), *unfolded = mw_build_plan(&apart);
    int64_t folded_ns = step_ns(folded, hardware), unfolded_ns = step_ns(unfolded, hardware);

    g_assert_cmpuint(folded->program_count, ==, 1);
    g_assert_cmpuint(unfolded->program_count, ==, sizing->ranks);
    g_assert_cmpfloat_with_epsilon((double)unfolded_ns, (double)folded_ns,
                                   TOLERANCE * (double)folded_ns + folded->op_count);
    mw_plan_free(folded);
    mw_plan_free(unfolded);
}

static void
test_folded_and_unfolded(void)
{
    int compared = 0;

    for (guint32 seed = 300000; compared < REQUESTS; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        request.settings.unfold = false;
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || sizing->ranks < 2 || takes_turns(sizing))
            continue;
        compare(sizing, &request.hardware);
        compared++;
    }
}

/* Each with a turn of its own. */
static void
test_owners(void)
{
    int refused = 0;

    for (guint32 seed = 300000; refused < 20; seed++) {
        struct random_request request;
        g_autoptr(GError) error = NULL;

        random_request_init(&request, seed);
        request.settings.partition = MW_PARTITION_OWNER;
        request.settings.unfold = false;
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || !takes_turns(sizing))
            continue;
        request.settings.unfold = true;
        g_assert_null(random_request_candidates(&request, &error));
        mw_test_error_says(g_steal_pointer(&error), "owners take turns", "partition=bandwidth");
        refused++;
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/folding/invariant-9/folded-and-unfolded", test_folded_and_unfolded);
    g_test_add_func("/folding/owners", test_owners);
    return g_test_run();
}
