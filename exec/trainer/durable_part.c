/* Which part of a model a rank has. */
#include "exec/trainer/durable.h"

static int
stages_of(const struct mw_durable_options *run)
{
    return 1 + run->later_count;
}

static int
replicas_of(const struct mw_durable_options *run)
{
    return (int)MAX(1, run->replicas);
}

/* Ranks count slices first, then those of a sharding group, then groups, and stages last. */
struct mw_durable_part
mw_durable_part(const struct mw_durable_options *run, int rank, int ranks)
{
    int slices = (int)MAX(1, run->slices), stages = stages_of(run);
    int of_stage = ranks / stages, stage = rank / of_stage;
    int of_group = of_stage / slices / replicas_of(run);
    struct mw_durable_part part = {
        .plan = stage ? run->later[stage - 1] : run->plan,
        .decoder = *run->decoder,
        .rank = rank / slices % of_group,
        .ranks = of_group,
        .stride = slices,
        .replica = rank % of_stage / (slices * of_group),
    };

    int64_t spread = mw_plan_spread(part.plan);

    (void)mw_decoder_slice(run->decoder, slices, rank % slices, &part.decoder);
    part.decoder.spread = (struct mw_spread){.count = spread, .index = part.rank % spread};
    part.decoder.copies_embedding = stages > 1 && part.decoder.tied_embedding;
    part.decoder.tied_embedding &= stages == 1;
    return part;
}

bool
mw_durable_divides(const struct mw_durable_options *run, int ranks)
{
    struct mw_decoder slice;
    int64_t parts = MAX(1, run->slices) * stages_of(run) * replicas_of(run);

    return ranks > 0 && ranks % parts == 0 && ranks / parts % mw_plan_spread(run->plan) == 0 &&
           !mw_decoder_slice(run->decoder, run->slices, 0, &slice);
}
