/*
 * batches.h - the micro-batches and accumulations that are worth simulating for one placement.
 *
 * What was requested stays.  If micro-batch, global batch and accumulation are all open, a step is
 * made as large as the default global batch (mw_settings.step_tokens_max), as long as it is quick
 * to plan (MW_OPS_QUICK).  A requested global batch is split into few micro-batches.
 */
#ifndef MW_PLANNER_BATCHES_H
#define MW_PLANNER_BATCHES_H

#include "planner/planner.h"

#define MW_BATCHES_MAX 16

struct mw_batches {
    int count; /* at least one */
    struct {
        double micro_batch;
        int64_t grad_accum;
    } one[MW_BATCHES_MAX];
};

/* The candidates for `placed`, complete settings with placements; if nothing fits, the candidate
 * that lacks least memory.  `guess` is the number of sequences to begin the search with; it returns
 * the last one found. */
void mw_batches_find(const struct mw_request *request, const struct mw_settings *placed,
                     int64_t *guess, struct mw_batches *found);

/* Why an open batch is not larger. */
enum mw_batch_bound {
    MW_BATCH_BOUND_MEMORY, /* no larger batch fits */
    MW_BATCH_BOUND_OPS,    /* one more micro-batch would not be quick to plan */
    MW_BATCH_BOUND_RATE    /* larger ones were among the candidates, and none was faster */
};

/* Why `sizing`, which was chosen for `asked` (its strategy may be auto), has less than
 * settings.step_tokens_max: tries one more micro-batch, or one more sequence if an accumulation was
 * requested. */
enum mw_batch_bound mw_batches_bound(const struct mw_request *request,
                                     const struct mw_settings *asked,
                                     const struct mw_sizing *sizing);

#endif
