/*
 * crew.h - the threads of lanes: one for each lane, which stays from run to run.
 *
 * A thread that is started anew takes its team of threads anew too, and its caches are cold; a
 * training that changes plans at the end of a step lets the lanes of all its plans share a crew.
 */
#ifndef MW_EXEC_LANES_CREW_H
#define MW_EXEC_LANES_CREW_H

#include <glib.h>
#include <stdbool.h>

#include "plan/plan.h"

struct mw_crew;

struct mw_crew *mw_crew_new(void);
/* Ends the threads, none of which may be at work.  NULL is allowed. */
void mw_crew_free(struct mw_crew *crew);

/* Gives work to the thread of a plan's lane, by its number there; the thread has none.  Lanes of
 * several plans that have the same number and kind share a thread.  False with *error if there is
 * no thread yet, and the system refuses one. */
bool mw_crew_begin(struct mw_crew *crew, const struct mw_lane *lane, uint32_t number,
                   GThreadFunc work, void *data, GError **error);
/* Waits until that is done; at once where there is none. */
void mw_crew_wait(struct mw_crew *crew, const struct mw_lane *lane, uint32_t number);

#endif
