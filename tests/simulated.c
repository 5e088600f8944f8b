#include "tests/simulated.h"

#include <glib.h>

#define TOLERANCE 1e-6

struct mw_engine_result
mw_test_simulate(const struct mw_plan *plan, const struct mw_hardware *hardware, bool keep_timeline)
{
    struct mw_engine_result result;
    struct mw_costs costs;
    char why[256] = "";

    mw_costs_init(&costs, plan, hardware);
    mw_engine_run(plan, &costs, (struct mw_engine_options){.keep_timeline = keep_timeline}, &result,
                  why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    mw_costs_clear(&costs);
    return result;
}

int64_t
mw_test_step_ns(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    struct mw_engine_result result = mw_test_simulate(plan, hardware, false);
    int64_t step_ns = result.step_ns;

    mw_engine_result_clear(&result);
    return step_ns;
}

void
mw_test_folded_as_unfolded(const struct mw_sizing *sizing, const struct mw_hardware *hardware,
                           int64_t folded_programs)
{
    struct mw_sizing apart = *sizing;
    apart.settings.unfold = true;
    struct mw_plan *folded = mw_build_plan(sizing), *unfolded = mw_build_plan(&apart);
    int64_t folded_ns = mw_test_step_ns(folded, hardware);
    int64_t unfolded_ns = mw_test_step_ns(unfolded, hardware);

    g_assert_cmpuint(folded->program_count, ==, folded_programs);
    g_assert_cmpuint(unfolded->program_count, ==, sizing->ranks);
    /* Durations are whole nanoseconds: an op of the one may be one longer than of the other. */
    g_assert_cmpfloat_with_epsilon((double)unfolded_ns, (double)folded_ns,
                                   TOLERANCE * (double)folded_ns + folded->op_count);
    for (uint32_t rank = 0; rank < unfolded->program_count; rank++) {
        uint32_t program = mw_plan_program_of(folded, rank);
        for (int tier = 0; tier < MW_TIER_COUNT; tier++)
            g_assert_cmpint(unfolded->programs[rank].peak_bytes[tier], ==,
                            folded->programs[program].peak_bytes[tier]);
    }
    mw_plan_free(folded);
    mw_plan_free(unfolded);
}
