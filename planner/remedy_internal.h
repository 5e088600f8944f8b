/* remedy_internal.h - what the files of the remedy share. */
#ifndef MW_PLANNER_REMEDY_INTERNAL_H
#define MW_PLANNER_REMEDY_INTERNAL_H

#include "planner/planner.h"

struct mw_plea {
    const struct mw_request *request;
    const struct mw_settings *asked; /* with the strategy that was asked for, or auto */
    const struct mw_sizing *sizing;  /* the best that was found, which does not fit */
    const char *machine;             /* NULL: no other one is looked for */
};

bool mw_plea_fits_with(const struct mw_request *request, const struct mw_settings *settings,
                       enum mw_strategy strategy);
/* With the strategy of the settings; of auto with any. */
bool mw_plea_fits(const struct mw_plea *plea, const struct mw_settings *settings);

/* Sequences a GPU, at most as many as were asked for, with which the settings fit; 0: none do, or
 * no batch was asked for. */
double mw_plea_fewer_sequences(const struct mw_plea *plea, const struct mw_settings *settings);

/* Ways out, each a line that begins with the options to add, or NULL; g_free it. */

/* remedy_batch.c: the same global batch */
char *mw_remedy_accumulation(const struct mw_plea *plea);
char *mw_remedy_strategy_and_accumulation(const struct mw_plea *plea);

/* remedy_settings.c: free of charge */
char *mw_remedy_chunks(const struct mw_plea *plea); /* of the logits */
char *mw_remedy_tiles(const struct mw_plea *plea);
char *mw_remedy_usual_setting(const struct mw_plea *plea);
char *mw_remedy_smaller_batch(const struct mw_plea *plea);
char *mw_remedy_strategy(const struct mw_plea *plea);
char *mw_remedy_free_devices(const struct mw_plea *plea);
char *mw_remedy_several_settings(const struct mw_plea *plea);

/* remedy_machines.c: what can be had */
char *mw_remedy_gpus(const struct mw_plea *plea); /* those of the machine that were left out */
char *mw_remedy_nodes(const struct mw_plea *plea);
char *mw_remedy_nodes_and_strategy(const struct mw_plea *plea);
char *mw_remedy_machine(const struct mw_plea *plea);

/* remedy_memory.c: memory of the tiers */
char *mw_remedy_upgrade(const struct mw_plea *plea); /* host memory and drives */
char *mw_remedy_memory(const struct mw_plea *plea); /* never NULL */

#endif
