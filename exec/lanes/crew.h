/*
 * crew.h - the threads of lanes: one for each lane, which stays from run to run.
 *
 * A new thread must also start a new team of threads, and its caches are cold.  A training that
 * changes plans at the end of a step lets the lanes of all its plans share a crew.
 */
#ifndef MW_EXEC_LANES_CREW_H
#define MW_EXEC_LANES_CREW_H

#include <glib.h>
#include <stdbool.h>

#include "plan/plan.h"

struct mw_crew;

struct mw_crew *mw_crew_new(void);
/* Ends the threads, none of which may be working.  NULL is allowed. */
void mw_crew_free(struct mw_crew *crew);

/* Gives work to the thread of a plan's lane, which must have none.  `number` is the lane's number
 * in the plan.  Lanes of several plans with the same number and kind share a thread.  Returns false
 * with *error if there is no thread yet and the system refuses one. */
bool mw_crew_begin(struct mw_crew *crew, const struct mw_lane *lane, uint32_t number,
                   GThreadFunc work, void *data, GError **error);
/* Waits until the thread has done its work; returns at once if it has none. */
void mw_crew_wait(struct mw_crew *crew, const struct mw_lane *lane, uint32_t number);

#endif
