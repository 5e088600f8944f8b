/* thread_limit.h - limits how many more threads the system lets a process start. */
#ifndef MW_TESTS_THREAD_LIMIT_H
#define MW_TESTS_THREAD_LIMIT_H

#include <glib.h>
#include <stdbool.h>

/* For a process of a test's own (g_test_subprocess): root becomes a user that has no other.  False
 * where the limit does not hold, or cannot be `count`. */
bool thread_limit_set(int count);
void thread_limit_lift(void);

#endif
