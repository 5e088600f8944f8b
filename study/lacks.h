/* lacks.h - what a plan asks of its software that the software does not do. */
#ifndef MW_STUDY_LACKS_H
#define MW_STUDY_LACKS_H

#include <glib.h>

#include "study/study.h"

/* How many things; 0 too of no software.  Of plans that fit, an open question takes none of more of
 * them than another has. */
int mw_count_lacks(const struct mw_question *question, const struct mw_sizing *sizing);
/* A note of each, for each of which the software cannot run the plan. */
void mw_note_lacks(const struct mw_question *question, const struct mw_sizing *sizing,
                   GPtrArray *notes);

#endif
