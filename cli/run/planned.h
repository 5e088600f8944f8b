/* planned.h - a run of a plan that was read from a file: `memwall run --plan FILE`. */
#ifndef MW_CLI_RUN_PLANNED_H
#define MW_CLI_RUN_PLANNED_H

#include "cli/cli.h"
#include "cli/run/training.h"
#include "plan/decoder.h"

/* The model to train and its sequence length (`seq` may be NULL): the request's, or that of its
 * plan file. */
bool cli_run_decoder(const struct cli_request *request, struct mw_decoder *decoder, int64_t *seq,
                     GError **error);

/* The prediction for the request's plan file on its machine.  NULL with *error for a plan that
 * cannot be run. */
struct mw_answer *cli_run_plan_answer(const struct cli_request *request, GError **error);

/* A word that stands for the model of the plan in a file; no path, whatever the file's name is.
 * g_free it. */
char *cli_run_plan_model(const char *path);

/* In a plan with several programs, replaces the plan by the program of this rank. */
bool cli_run_take_program(struct cli_training *run, GError **error);

/* FLOPs of the model per rank and step: forward products, and twice that for backward (PaLM, arXiv
 * 2204.02311, App. B), however the plan computes them. */
double cli_run_flops(const struct mw_answer *answer);

#endif
