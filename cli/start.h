/* start.h - a process that was started with less than it needs. */
#ifndef MW_CLI_START_H
#define MW_CLI_START_H

#include <stdbool.h>

/* Descriptors 0 to 2 that were closed would become those of the next files, which then get what is
 * meant for the terminal.  Each is opened so that its use fails as before.  False: it cannot be. */
bool cli_start_descriptors(void);

/* Runs `body` with the stack that it and its threads need, whatever `ulimit -s` says. */
int cli_start_with_stack(int (*body)(int argc, char **argv), int argc, char **argv);

#endif
