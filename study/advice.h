/* advice.h - what if: scaled bandwidths, needed bandwidths, and the change that gains most. */
#ifndef MW_STUDY_ADVICE_H
#define MW_STUDY_ADVICE_H

#include "study/study.h"

/* Finds the setting that gains most tokens per second, and the purchase that gives most tokens for
 * the money: a part, more nodes, another machine. */
void mw_advise(const struct mw_question *question, const struct mw_answer *answer);

/* If the batch was open: finds a smaller one that is faster, if the estimates show one. */
void mw_advise_batch(const struct mw_question *question, const struct mw_answer *answer);

/* Step time against each bandwidth at 0.5x, 2x, 4x; bandwidth for 50, 70, 90% efficiency. */
void mw_what_if(const struct mw_question *question, const struct mw_answer *answer);

#endif
