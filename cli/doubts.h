/* doubts.h - says on standard error what makes the profile of an answer doubtful. */
#ifndef MW_CLI_DOUBTS_H
#define MW_CLI_DOUBTS_H

#include "hardware/hwprofile.h"
#include "lib/memwall.h"

/* A line for each: the profile was measured on another machine, with another instruction set, or
 * while the machine was disturbed. */
void cli_doubts_tell(const struct mw_profile *profile);
void cli_doubts_tell_of(const struct memwall_answer *answer);

#endif
