/* thread_limit.h - a process that the system lets start so many threads more, and no others. */
#ifndef MW_TESTS_THREAD_LIMIT_H
#define MW_TESTS_THREAD_LIMIT_H

#include <glib.h>
#include <stdbool.h>

/* For a process of a test's own (g_test_subprocess): root becomes a user that has no other.  False
 * where the limit does not hold, or cannot be `count`. */
bool thread_limit_set(int count);
void thread_limit_lift(void);

#endif
