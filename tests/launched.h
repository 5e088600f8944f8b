/*
 * launched.h - a test as several ranks: the launcher, and how it ended.
 */
#ifndef MW_TESTS_LAUNCHED_H
#define MW_TESTS_LAUNCHED_H

/* The launcher, g_free it.  NULL, and the test is skipped, where ranks cannot be started. */
char *launched_find(void);

/* Runs `program` with arguments (at most 8, NULL at the end) as ranks.  The launcher's exit status;
 * *output (g_free it) is what the ranks and it wrote to standard error. */
int launched_run(const char *mpirun, int ranks, const char *program, const char *const *arguments,
                 char **output);

#endif
