/* internal.h - what the files of the remedy share. */
#ifndef MW_PLANNER_REMEDY_INTERNAL_H
#define MW_PLANNER_REMEDY_INTERNAL_H

#include "planner/planner.h"

struct mw_unfit {
    const struct mw_request *request;
    const struct mw_settings *asked;   /* with the strategy that was asked for, or auto */
    const struct mw_sizing *sizing;    /* the best that was found, which does not fit */
    const char *machine;               /* NULL: no other one is looked for */
    const struct mw_remedy_here *here; /* NULL: what is lacked is not said in keys */
};

bool mw_remedy_fits_with(const struct mw_request *request, const struct mw_settings *settings,
                         enum mw_strategy strategy);
/* With the strategy of the settings; of auto with any. */
bool mw_remedy_fits(const struct mw_unfit *unfit, const struct mw_settings *settings);

/* Sequences a GPU, at most as many as were asked for, with which the settings fit; 0: none do, or
 * no batch was asked for. */
double mw_remedy_fewer_sequences(const struct mw_unfit *unfit, const struct mw_settings *settings);
/* Of a batch that was asked for the least. */
struct mw_settings mw_remedy_least_batch(const struct mw_settings *settings);

/* --- planner/remedy/changes.c: changes of several settings at once --- */

struct mw_changes {
    enum mw_strategy strategy;
    double batch;      /* MW_AUTO: as asked */
    int64_t tp;        /* the same */
    unsigned usual;    /* a bit for each setting that then is what it usually is */
    bool free_devices; /* those that were asked for */
};

#define MW_USUAL_COUNT 10 /* bits of `usual` */

struct mw_changes mw_changes_none(const struct mw_unfit *unfit);
/* Strategy, devices and whatever takes memory, as open as they can be; false: nothing of these was
 * asked for. */
bool mw_changes_release(const struct mw_unfit *unfit, struct mw_changes *changes);
struct mw_settings mw_changes_apply(const struct mw_settings *asked,
                                    const struct mw_changes *changes);
/* As few of them as make it fit, with fewer sequences where it takes that; false: they do not.  A
 * strategy that was left open becomes the one that was asked for, or another one, of several the
 * one that offloads least. */
bool mw_changes_keep_needed(const struct mw_unfit *unfit, struct mw_changes *changes);
/* "strategy=zero3 batch=2.25 fits (142 USD an hour; batch 9 per group of 4 GPUs)": `between`, "" or
 * options and a space, stands before the batch; `price` may be NULL.  g_free it. */
char *mw_changes_text(const struct mw_unfit *unfit, const struct mw_changes *changes,
                      const char *between, const char *price);
/* "batch 9 per group of 4 GPUs", of one that is no whole number per GPU, else NULL; g_free it. */
char *mw_batch_per_group(const struct mw_settings *settings, double batch);

/* Ways out, each a line that begins with the options to add, or NULL; g_free it. */

/* planner/remedy/batch.c: the same global batch */
char *mw_remedy_accumulation(const struct mw_unfit *unfit);
char *mw_remedy_strategy_and_accumulation(const struct mw_unfit *unfit);
/* Not the same: one micro-batch, whose gradients are not summed in fp32. */
char *mw_remedy_one_micro_batch(const struct mw_unfit *unfit);

/* planner/remedy/settings.c: free of charge */
char *mw_remedy_chunks(const struct mw_unfit *unfit); /* of the logits */
char *mw_remedy_tiles(const struct mw_unfit *unfit);
char *mw_remedy_usual_setting(const struct mw_unfit *unfit);
char *mw_remedy_checkpoints(const struct mw_unfit *unfit); /* in another tier */
char *mw_remedy_smaller_batch(const struct mw_unfit *unfit);
char *mw_remedy_strategy(const struct mw_unfit *unfit);
char *mw_remedy_free_devices(const struct mw_unfit *unfit);
char *mw_remedy_several_settings(const struct mw_unfit *unfit);

/* planner/remedy/slicing.c: tensors sliced over other numbers of GPUs, free of charge too */
char *mw_remedy_slicing(const struct mw_unfit *unfit);
char *mw_remedy_slicing_and_settings(const struct mw_unfit *unfit); /* several of them */

#define MW_SLICINGS_MAX 32 /* divisors of 1024 or less */

/* Whether it is another number than the one asked for, of GPUs in one node, that machine and model
 * take. */
bool mw_may_slice(const struct mw_unfit *unfit, int64_t tp);
/* All such numbers: larger ones before smaller ones, of either the nearest first.  Returns how
 * many. */
int mw_slicings(const struct mw_unfit *unfit, int64_t tp[MW_SLICINGS_MAX]);

/* planner/remedy/machines.c: what can be had */
char *mw_remedy_gpus(const struct mw_unfit *unfit); /* those of the machine that were left out */
char *mw_remedy_nodes(const struct mw_unfit *unfit);
char *mw_remedy_machine(const struct mw_unfit *unfit);

/* planner/remedy/nodes.c: how many.  0: none. */

#define MW_NODES_MOST 4096

/* The first number from one to the other, both included, that machine, batch and slicing take. */
int64_t mw_valid_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings,
                       int64_t from, int64_t to);
/* The fewest nodes that have room, of more than `low` up to `high`. */
int64_t mw_fewest_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings,
                        int64_t low, int64_t high);
/* More than those asked for, the fewest that have room. */
int64_t mw_fewest_more_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings);
/* That can be had. */
int64_t mw_most_nodes(const struct mw_hardware *hardware);

/* planner/remedy/memory.c: memory of the tiers */
char *mw_remedy_upgrade(const struct mw_unfit *unfit); /* host memory and drives */
char *mw_remedy_upgrade_and_strategy(const struct mw_unfit *unfit);
/* The same where it is many times the host memory. */
char *mw_remedy_rebuild(const struct mw_unfit *unfit);
char *mw_remedy_rebuild_and_strategy(const struct mw_unfit *unfit);
char *mw_remedy_memory(const struct mw_unfit *unfit); /* never NULL */

/* planner/remedy/lacking.c: what a sizing lacks, on the machine that was asked for */

/* "170 GiB more cpu memory per GPU, one more drive of that kind per node"; g_free it. */
char *mw_lacking_text(const struct mw_unfit *unfit, const struct mw_sizing *sizing);
/* More for a node; 0: none, or it is said as free space. */
int64_t mw_lacking_drives(const struct mw_unfit *unfit, const struct mw_sizing *sizing);
/* More bytes for a node; 0: none, or it is said as drives. */
int64_t mw_lacking_free_space(const struct mw_unfit *unfit, const struct mw_sizing *sizing);
/* The machine with that much more, as the assignments make it that are appended to `flags`; NULL:
 * it cannot be made so.  The caller frees it. */
struct mw_hwprofile *mw_lacking_added(const struct mw_unfit *unfit, const struct mw_sizing *sizing,
                                      GString *flags);

#endif
