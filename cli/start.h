/* start.h - gives a process what it needs where it was started with less. */
#ifndef MW_CLI_START_H
#define MW_CLI_START_H

#include <stdbool.h>

/* Opens descriptors 0 to 2 where they are closed, so that no file gets them and receives what is
 * meant for the terminal.  Their use fails as before.  False: one cannot be opened. */
bool cli_start_descriptors(void);

/* Runs `body` with the stack that it and its threads need, whatever `ulimit -s` is. */
int cli_start_with_stack(int (*body)(int argc, char **argv), int argc, char **argv);

#endif
