/*
 * launch.h - an answer as what carries it out with other software (launch/launch.h).
 *
 * The command exports through it.
 */
#ifndef MW_LIB_LAUNCH_H
#define MW_LIB_LAUNCH_H

#include "launch/launch.h"
#include "lib/memwall.h"

/* Of an answer of one strategy that fits, and that was asked with "deepspeed-notes".  False with
 * *error: as mw_launch_make. */
bool mw_lib_launch(const struct memwall_answer *answer, const char *target, struct mw_launch *out,
                   GError **error);

/* "llama-3.1-8b on 2 x dgx-h100 (16 GPUs) with zero3, ...": the plan in a line; g_free it. */
char *mw_lib_launch_title(const struct memwall_answer *answer);

#endif
