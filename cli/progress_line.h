/*
 * progress_line.h - a line on a terminal that says how far a long question is; what is answered at
 * once shows none.
 */
#ifndef MW_CLI_PROGRESS_LINE_H
#define MW_CLI_PROGRESS_LINE_H

/* From now on questions of this thread show the line, two seconds after the first began, ten times
 * a second at most. */
void cli_progress_line_begin(void);

#endif
