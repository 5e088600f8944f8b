/*
 * alike.h - whether the ranks of a run were all asked for the same: each is a command of its
 * own, and one that computes something else would spoil what all of them train.
 *
 * What machines may have otherwise is not compared: paths of what holds the same, profiles whose
 * plans have the same shards and collectives, threads, processors, limits.
 *
 * Each look is one by all ranks; false with *error where they cannot ask each other.  Where they
 * differ, *alike is false on all of them, and one line has said what the first of those that differ
 * from rank 0 has.
 */
#ifndef MW_CLI_RUN_ALIKE_H
#define MW_CLI_RUN_ALIKE_H

#include "cli/run/training.h"

/* As ranks join: what decides which way a run takes. */
bool cli_run_alike_asked(struct cli_training *training, bool *alike, GError **error);
/* Of a training with an answer that fits: model, shards, collectives.  Reads training->decoder. */
bool cli_run_alike_planned(struct cli_training *training, bool *alike, GError **error);
/* Once it is open, before it changes anything: course, steps, data, starting weights. */
bool cli_run_alike_trained(struct cli_training *training, bool *alike, GError **error);

#endif
