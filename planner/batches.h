/*
 * batches.h - of one placement the micro-batches and accumulations that are worth a look.
 *
 * What was asked for stays.  Where micro-batch, global batch and accumulation are all open, a step
 * is filled up to the default global batch (mw_settings.step_tokens_max), while it stays quick to
 * plan (MW_OPS_QUICK); with a global batch it is split into few micro-batches.
 */
#ifndef MW_PLANNER_BATCHES_H
#define MW_PLANNER_BATCHES_H

#include "planner/planner.h"

#define MW_BATCHES_MAX 10

struct mw_batches {
    int count; /* one at least */
    struct {
        double micro_batch;
        int64_t grad_accum;
    } one[MW_BATCHES_MAX];
};

/* Of `placed`, resolved settings with their placements.  Where nothing fits, the one that lacks
 * least.  `guess` is a number of sequences to begin with, and comes back as the last found. */
void mw_batches_find(const struct mw_request *request, const struct mw_settings *placed,
                     int64_t *guess, struct mw_batches *found);

/* What keeps an open batch from being larger. */
enum mw_batch_bound {
    MW_BATCH_BOUND_MEMORY, /* none that is larger fits */
    MW_BATCH_BOUND_OPS,    /* one more micro-batch is no longer quick to plan */
    MW_BATCH_BOUND_RATE    /* larger ones were among the candidates, and none was faster */
};

/* Of `sizing`, which was chosen for what was `asked` (its strategy may be auto) and has less than
 * settings.step_tokens_max: one more micro-batch, or with an accumulation that was asked for, one
 * more sequence. */
enum mw_batch_bound mw_batches_bound(const struct mw_request *request,
                                     const struct mw_settings *asked,
                                     const struct mw_sizing *sizing);

#endif
