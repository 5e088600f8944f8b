/*
 * progress_line.h - a line on a terminal that shows the progress of a long question.  A question
 * that is answered at once shows none.
 */
#ifndef MW_CLI_PROGRESS_LINE_H
#define MW_CLI_PROGRESS_LINE_H

/* From now on questions of this thread show the line: from two seconds after the first one began,
 * at most ten times per second. */
void cli_progress_line_begin(void);

/* The same for a question of the library: a memwall_listener, and what to call after the answer. */
void cli_progress_line_show(void *data, const char *doing, int simulated);
void cli_progress_line_clear(void);

/* The same line with any text. */
void cli_progress_line_print(const char *text);

#endif
