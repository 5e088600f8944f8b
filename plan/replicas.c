#include "plan/replicas.h"

#include <stdio.h>

#include "plan/plan.h"

bool
mw_stage_replicas_read(const char *text, struct mw_stage_replicas *out)
{
    const char *at = text;

    *out = (struct mw_stage_replicas){0};
    for (;; at++) {
        uint32_t number = 0;
        if (*at < '1' || *at > '9' || out->stages == MW_REPLICATED_STAGES_MAX)
            return false;
        for (; *at >= '0' && *at <= '9'; at++) {
            number = 10 * number + (uint32_t)(*at - '0');
            if (number > MW_STAGE_REPLICAS_MAX)
                return false;
        }
        out->of[out->stages++] = (uint16_t)number;
        if (*at != ',')
            return !*at && out->stages > 1;
    }
}

void
mw_stage_replicas_write(const struct mw_stage_replicas *it, char text[MW_STAGE_REPLICAS_TEXT_MAX])
{
    char *at = text;

    *at = '\0';
    for (uint32_t stage = 0; stage < it->stages; stage++)
        at += sprintf(at, "%s%u", stage ? "," : "", it->of[stage]);
}

uint32_t
mw_stage_replicas_from(const struct mw_stage_replicas *it, uint32_t stage)
{
    uint32_t ranks = 0;

    for (; stage < it->stages; stage++)
        ranks += it->of[stage];
    return ranks;
}

uint32_t
mw_stage_replicas_first(const struct mw_stage_replicas *it, uint32_t stage)
{
    return mw_stage_replicas_from(it, 0) - mw_stage_replicas_from(it, stage);
}

int64_t
mw_stage_replicas_grain(const struct mw_stage_replicas *it)
{
    int64_t all = 1;

    for (uint32_t stage = 0; stage < it->stages; stage++) {
        int64_t a = all, b = it->of[stage];
        while (b) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        all = all / a * it->of[stage];
        if (all > MW_PLAN_MICRO_BATCHES_MAX)
            return 0;
    }
    return all;
}

struct mw_replica
mw_stage_replica(const struct mw_stage_replicas *it, uint32_t rank)
{
    struct mw_replica found = {0, rank, it->of[0]};

    while (found.index >= found.count) {
        found.index -= found.count;
        found.count = it->of[++found.stage];
    }
    return found;
}
