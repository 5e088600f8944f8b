/*
 * alike.h - checks that all ranks of a run were given the same options: each rank is a command of
 * its own, and one that computed something else would spoil the training of all.
 *
 * Machines may differ in paths with the same content, in profiles whose plans have the same shards
 * and collectives, and in threads, processors and limits; these are not compared.
 *
 * All ranks call each check together.  False with *error: they cannot reach each other.  If they
 * differ, *alike is false on all ranks, and one rank has printed the first difference from rank 0.
 */
#ifndef MW_CLI_RUN_ALIKE_H
#define MW_CLI_RUN_ALIKE_H

#include "cli/run/training.h"

/* When ranks have joined: compares what decides how the run proceeds. */
bool cli_run_alike_asked(struct cli_training *training, bool *alike, GError **error);
/* Once there is an answer that fits: compares model, shards and collectives.  Sets
 * training->decoder. */
bool cli_run_alike_planned(struct cli_training *training, bool *alike, GError **error);
/* Once the training is open, before it changes anything: compares course, steps, data and starting
 * weights. */
bool cli_run_alike_trained(struct cli_training *training, bool *alike, GError **error);

#endif
