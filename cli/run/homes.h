/*
 * homes.h - what of a run's description its state can be read by: model, and where the plan
 * has put which elements.
 */
#ifndef MW_CLI_RUN_HOMES_H
#define MW_CLI_RUN_HOMES_H

#include "base/json_writer.h"
#include "cli/run/training.h"

struct cli_run_homes {
    struct mw_plan *plan; /* checked; no ops */
    struct mw_decoder decoder;
    uint64_t fingerprint;
    char *config; /* the text of config.json */
};

/* The keys "fingerprint", "decoder", "config" and "homes", into an object that is open. */
void cli_run_homes_write(struct mw_json_writer *json, const struct cli_training *training);
/* From the description in a directory.  False with *error: it is not there, lacks them, or does not
 * hold together. */
bool cli_run_homes_read(const char *directory, struct cli_run_homes *homes, GError **error);
void cli_run_homes_clear(struct cli_run_homes *homes);

#endif
