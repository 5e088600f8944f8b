/*
 * described_run.h - what a reader of a run's state needs: its plan, read back from text, and its
 * model's decoder.
 */
#ifndef MW_TESTS_DESCRIBED_RUN_H
#define MW_TESTS_DESCRIBED_RUN_H

#include "model/model.h"
#include "plan/plan.h"

struct described_run {
    char *text;
    size_t bytes;
    struct mw_plan *plan;
    struct mw_decoder decoder;
};

/* on_plan of a course whose data is a struct described_run of zeros. */
void described_run_write(void *described, const struct mw_plan *plan);
/* Plan and decoder, once the run is over.  `model` as in struct trained_case. */
void described_run_read(struct described_run *described, const char *model);
void described_run_clear(struct described_run *described);

#endif
