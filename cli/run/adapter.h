/*
 * adapter.h - what a run takes from the adapters that it starts from (--adapter).
 */
#ifndef MW_CLI_RUN_ADAPTER_H
#define MW_CLI_RUN_ADAPTER_H

#include <glib.h>
#include <stdbool.h>

/* Sets --train and --lora-alpha from the folder's adapter_config.json where the command line leaves
 * them open, unless a plan fixes them, and keeps a line that says so (cli_run_options_say).  True
 * if there is no --adapter. */
bool cli_run_adapter_complete(bool planned, GError **error);
/* Whether --train asks for adapters. */
bool cli_run_adapter_trains(void);

#endif
