/*
 * progress.h - a line on a terminal that says how far a long question is; what is answered at once
 * shows none.  Of one thread.
 */
#ifndef MW_CLI_PROGRESS_H
#define MW_CLI_PROGRESS_H

#include <glib.h>

/* What is done now: shown from two seconds after the first call on, ten times a second at most. */
void cli_progress(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* One more plan is simulated, for what was said last. */
void cli_progress_simulates(void);
/* Clears the line: before anything else is said, and where the question ends. */
void cli_progress_end(void);

#endif
