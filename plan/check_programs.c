/* Programs stand for ranks of the world; each rank is in at most one program.  An extracted plan
 * has only some of them. */
#include "plan/check.h"
#include "plan/internal.h"

/* So that a sum with slots is a number. */
#define BESIDE_MOST (INT64_C(1) << 60)

static bool
claim_ranks(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_members *ranks = &check->plan->programs[index].ranks;
    uint32_t world = check->plan->world_ranks;

    if (!check->plan->programs[index].in_flight)
        return mw_plan_refuse(check, "program %u: no micro-batch in flight; expected 1 or more",
                              index);
    if (check->plan->programs[index].apart_bytes < 0)
        return mw_plan_refuse(check, "program %u: fewer than 0 bytes apart", index);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        if (check->plan->programs[index].beside_bytes[tier] < 0 ||
            check->plan->programs[index].beside_bytes[tier] > BESIDE_MOST)
            return mw_plan_refuse(check, "program %u: expected 0 to 2^60 bytes beside it", index);
    if (ranks->base >= world || !mw_plan_spans_nest(ranks->spans, world - ranks->base))
        return mw_plan_refuse(check,
                              "program %u: expected ranks that are named once each, all of them "
                              "among the world's %u",
                              index, world);
    for (uint32_t i = 0; i < mw_members_count(ranks); i++) {
        uint32_t *program = &check->program_of[mw_members_at(ranks, i)];
        if (*program != MW_NONE)
            return mw_plan_refuse(check, "rank %u is of program %u and of program %u",
                                  mw_members_at(ranks, i), *program, index);
        *program = index;
    }
    return true;
}

bool
mw_plan_check_programs(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    if (!plan->program_count)
        return mw_plan_refuse(check, "the plan has no program");
    check->program_of = mw_plan_allocate(plan->world_ranks, sizeof *check->program_of);
    for (uint32_t r = 0; r < plan->world_ranks; r++)
        check->program_of[r] = MW_NONE;
    for (uint32_t p = 0; p < plan->program_count; p++)
        if (!claim_ranks(check, p))
            return false;
    return true;
}
