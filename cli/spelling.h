/* spelling.h - how the command spells settings in its messages: as options. */
#ifndef MW_CLI_SPELLING_H
#define MW_CLI_SPELLING_H

#include "base/spell.h"

/* `--batch 3`, `-m MODEL`, `--set gpu.memory_gib=80`. */
extern const struct mw_spelling cli_spelling;

#endif
