/* advice.h - what if: scaled bandwidths, needed bandwidths, and the change that gains most. */
#ifndef MW_STUDY_ADVICE_H
#define MW_STUDY_ADVICE_H

#include "study/study.h"

/* The setting that gains most tokens a second; and beside it what gives most tokens for the money,
 * of what has to be paid for: a part, more nodes, another machine. */
void mw_advise(const struct mw_question *question, const struct mw_answer *answer);

/* Where the batch was open: a smaller one that is faster, if the estimates find one. */
void mw_advise_batch(const struct mw_question *question, const struct mw_answer *answer);

/* Step time against each bandwidth at 0.5x, 2x, 4x; bandwidth for 50, 70, 90% efficiency. */
void mw_what_if(const struct mw_question *question, const struct mw_answer *answer);

#endif
