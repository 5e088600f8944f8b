/*
 * memory_ledger.h - the ledger over time: what each purpose uses in each phase of a step.
 */
#ifndef MW_REPORT_MEMORY_LEDGER_H
#define MW_REPORT_MEMORY_LEDGER_H

#include <stddef.h>

#include "study/result.h"

struct mw_memory_row { /* rank 0 */
    enum mw_tier tier;
    enum mw_purpose purpose; /* MW_PURPOSE_COUNT: all together, at one time */
    int64_t *most_bytes;     /* [result->phase_count] the most in use at one time of the phase */
};

struct mw_memory_ledger { /* by tier, then purpose, the tier's total last; unused pairs left out */
    struct mw_memory_row *row;
    size_t count;
};

/* Empty without a timeline or phases.  Free with mw_memory_ledger_clear. */
struct mw_memory_ledger mw_memory_ledger_find(const struct mw_result *result);
void mw_memory_ledger_clear(struct mw_memory_ledger *ledger);

#endif
