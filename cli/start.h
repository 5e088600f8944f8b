/* start.h - gives a process what it needs if it was started with less. */
#ifndef MW_CLI_START_H
#define MW_CLI_START_H

#include <stdbool.h>

/* Opens descriptors 0 to 2 if they are closed, so that no file gets one of them and receives output
 * meant for the terminal.  Using them still fails.  False: one cannot be opened. */
bool cli_start_descriptors(void);

/* Makes the allocator keep what is freed, up to 256 MB, for what is allocated next. */
void cli_start_keeping_memory(void);

/* Runs `body` with the stack that it and its threads need, whatever `ulimit -s` is. */
int cli_start_with_stack(int (*body)(int argc, char **argv), int argc, char **argv);

#endif
