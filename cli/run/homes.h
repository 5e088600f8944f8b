/*
 * homes.h - the part of a run's description that is needed to read its state: the model, and where
 * the plan put which elements.
 */
#ifndef MW_CLI_RUN_HOMES_H
#define MW_CLI_RUN_HOMES_H

#include "base/json_writer.h"
#include "cli/run/training.h"

struct cli_run_homes {
    struct mw_plan *plan;   /* checked; no ops; of a pipeline's first stage, */
    struct mw_plan **later; /* and of its other stages */
    int later_count;
    int64_t slices;            /* of the model's tensors; 1: they are whole */
    int64_t replicas;          /* sharding groups, each of which has all state */
    struct mw_decoder decoder; /* of the whole model */
    uint64_t fingerprint;
    char *config;  /* the text of config.json */
    char *weights; /* where what is not trained was read; NULL: drawn from the seed */
    uint64_t seed;
};

/* The plan without its ops, lanes and channels. */
struct mw_plan *cli_run_homes_of(const struct mw_plan *plan);
/* Writes the keys "fingerprint", "decoder", "config" and "homes" into an open object. */
void cli_run_homes_write(struct mw_json_writer *json, const struct cli_training *training);
/* Reads them from the description in a directory.  False with *error: there is none, it lacks them,
 * or they contradict each other. */
bool cli_run_homes_read(const char *directory, struct cli_run_homes *homes, GError **error);
void cli_run_homes_clear(struct cli_run_homes *homes);

#endif
