/* What is proved of few rounds of each section, and from there of all. */
#include <stdlib.h>
#include <string.h>

#include "plan/check.h"
#include "plan/internal.h"

#define ROUNDS 8

bool
mw_plan_check_rounds(struct mw_plan_check *check)
{
    struct mw_plan *few = mw_plan_unfold(check->plan, ROUNDS);

    if (!few)
        return mw_plan_refuse(check, "its sections cannot be unfolded");
    bool good = mw_plan_check(few, check->why, check->why_size);
    check->barriered = few->barriered;
    for (uint32_t p = 0; p < few->program_count; p++)
        memcpy(check->plan->programs[p].peak_bytes, few->programs[p].peak_bytes,
               sizeof few->programs[p].peak_bytes);
    mw_plan_free(few);
    return good;
}
