/* lacks.h - what a plan asks of its software that the software does not do. */
#ifndef MW_STUDY_LACKS_H
#define MW_STUDY_LACKS_H

#include <glib.h>

#include "study/study.h"

/* How many such things; 0 without software.  Of plans that fit, an open question takes one with the
 * fewest. */
int mw_count_lacks(const struct mw_question *question, const struct mw_sizing *sizing);
/* Adds a note for each, which says that the software cannot run the plan. */
void mw_note_lacks(const struct mw_question *question, const struct mw_sizing *sizing,
                   GPtrArray *notes);

#endif
