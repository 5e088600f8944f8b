/*
 * request.h - what a run asks the planner: the question of its command line, for the ranks that
 * were started and the part of this machine that each rank has.
 */
#ifndef MW_CLI_RUN_REQUEST_H
#define MW_CLI_RUN_REQUEST_H

#include "cli/cli.h"
#include "cli/lane_limits.h"
#include "cli/run/training.h"
#include "exec/ranks/ranks.h"

/* A copy, whose strings are those of `request`. */
struct cli_request cli_run_request(const struct cli_request *request, const struct mw_ranks *ranks,
                                   const struct cli_limits *limits);

/* Called by the first rank.  The first says if the profile is of another device; the second, once
 * there is an answer, if its data type is another than requested, or slow on cores. */
void cli_run_request_tell_backend(const struct cli_training *training);
void cli_run_request_tell_dtype(const struct cli_training *training);

#endif
