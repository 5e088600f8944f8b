/* internal.h - what the files of the remedy share. */
#ifndef MW_PLANNER_REMEDY_INTERNAL_H
#define MW_PLANNER_REMEDY_INTERNAL_H

#include "planner/planner.h"

struct mw_unfit {
    const struct mw_request *request;
    const struct mw_settings *asked;   /* with the requested strategy, or auto */
    const struct mw_sizing *sizing;    /* the best that was found; it does not fit */
    const char *machine;               /* NULL: no other machine is looked for */
    const struct mw_remedy_here *here; /* NULL: what is lacking is not given as keys */
};

bool mw_remedy_fits_with(const struct mw_request *request, const struct mw_settings *settings,
                         enum mw_strategy strategy);
/* With the strategy of the settings; for auto with any. */
bool mw_remedy_fits(const struct mw_unfit *unfit, const struct mw_settings *settings);

/* The most sequences per GPU, up to those requested, with which the settings fit; 0: none fit, or
 * no batch was requested. */
double mw_remedy_fewer_sequences(const struct mw_unfit *unfit, const struct mw_settings *settings);
/* The settings with the smallest batch, if a batch was requested. */
struct mw_settings mw_remedy_least_batch(const struct mw_settings *settings);

/* --- planner/remedy/relaxation.c: changes of several settings at once --- */

struct mw_relaxation {
    enum mw_strategy strategy;
    double batch;      /* MW_AUTO: as requested */
    int64_t tp;        /* the same */
    unsigned usual;    /* a bit for each setting that goes back to its usual value */
    bool free_devices; /* the placements that were requested */
};

#define MW_USUAL_COUNT 11 /* bits of `usual` */

struct mw_relaxation mw_relaxation_none(const struct mw_unfit *unfit);
/* Opens strategy, placements and whatever takes memory as far as possible; false: none of these was
 * requested. */
bool mw_relaxation_of_all(const struct mw_unfit *unfit, struct mw_relaxation *changes);
struct mw_settings mw_relaxation_apply(const struct mw_settings *asked,
                                       const struct mw_relaxation *changes);
/* Keeps as few of the changes as make it fit, with fewer sequences if needed; false: they do not
 * make it fit.  An open strategy becomes the requested one, or another; of several the one that
 * offloads least. */
bool mw_relaxation_minimize(const struct mw_unfit *unfit, struct mw_relaxation *changes);
/* "strategy=zero3 batch=2.25 fits (142 USD an hour; batch 9 per group of 4 GPUs)": `between`, "" or
 * options and a space, stands before the batch; `price` may be NULL.  g_free it. */
/* What the software of one machine does to the memory of another. */
void mw_remedy_take_software(struct mw_hardware *hardware, const struct mw_hardware *from);
/* Appends "software=NAME " where another strategy or slicing would otherwise be of other software,
 * which takes other memory. */
void mw_remedy_keep_software(const struct mw_unfit *unfit, enum mw_strategy strategy, int64_t tp,
                             GString *text);
char *mw_relaxation_text(const struct mw_unfit *unfit, const struct mw_relaxation *changes,
                         const char *between, const char *price);
/* "batch 9 per group of 4 GPUs" for a batch that is not a whole number per GPU, else NULL; g_free
 * it. */
char *mw_batch_per_group(const struct mw_settings *settings, double batch);

/* Remedies, each a line that begins with the options to add, or NULL; g_free it. */

/* planner/remedy/batch.c: with the same global batch */
char *mw_remedy_accumulation(const struct mw_unfit *unfit);
char *mw_remedy_strategy_and_accumulation(const struct mw_unfit *unfit);
/* With another global batch: one micro-batch, whose gradients are not summed in fp32. */
char *mw_remedy_one_micro_batch(const struct mw_unfit *unfit);

/* planner/remedy/settings.c: free of charge */
char *mw_remedy_chunks(const struct mw_unfit *unfit);        /* of the logits */
char *mw_remedy_smaller_chunk(const struct mw_unfit *unfit); /* of the optimizer step */
char *mw_remedy_tiles(const struct mw_unfit *unfit);
char *mw_remedy_usual_setting(const struct mw_unfit *unfit);
char *mw_remedy_shared_slots(const struct mw_unfit *unfit);
char *mw_remedy_checkpoints(const struct mw_unfit *unfit); /* in another tier */
char *mw_remedy_smaller_batch(const struct mw_unfit *unfit);
char *mw_remedy_strategy(const struct mw_unfit *unfit);
char *mw_remedy_free_devices(const struct mw_unfit *unfit);
char *mw_remedy_several_settings(const struct mw_unfit *unfit);
char *mw_remedy_buffer_sets(const struct mw_unfit *unfit); /* of the optimizer step */
/* memwall's own executor, where other software takes host memory beside the plan. */
char *mw_remedy_software(const struct mw_unfit *unfit);

/* planner/remedy/slicing.c: tensors sliced over another number of GPUs, also free of charge */
char *mw_remedy_slicing(const struct mw_unfit *unfit);
char *mw_remedy_slicing_and_settings(const struct mw_unfit *unfit); /* slicing and other settings */

#define MW_SLICINGS_MAX 32 /* divisors of 1024 or less */

/* Whether machine and model allow this number of GPUs of one node, other than the requested one. */
bool mw_may_slice(const struct mw_unfit *unfit, int64_t tp);
/* All such numbers: larger ones before smaller ones, in each case the nearest first.  Returns how
 * many. */
int mw_slicings(const struct mw_unfit *unfit, int64_t tp[MW_SLICINGS_MAX]);

/* planner/remedy/machines.c: what can be bought or rented */
char *mw_remedy_gpus(const struct mw_unfit *unfit); /* GPUs of the machine that were left out */
char *mw_remedy_nodes(const struct mw_unfit *unfit);
char *mw_remedy_machine(const struct mw_unfit *unfit);

/* planner/remedy/nodes.c: numbers of nodes; 0: none. */

#define MW_NODES_MOST 4096

/* The first number from one to the other, both included, that machine, batch and slicing allow. */
int64_t mw_valid_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings,
                       int64_t from, int64_t to);
/* The fewest nodes with room, more than `low` and up to `high`. */
int64_t mw_fewest_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings,
                        int64_t low, int64_t high);
/* The fewest nodes with room, more than the requested number. */
int64_t mw_fewest_more_nodes(const struct mw_unfit *unfit, const struct mw_settings *settings);
/* The most nodes that can be had. */
int64_t mw_most_nodes(const struct mw_hardware *hardware);

/* planner/remedy/memory.c: more memory */
char *mw_remedy_upgrade(const struct mw_unfit *unfit); /* host memory and drives */
char *mw_remedy_upgrade_and_strategy(const struct mw_unfit *unfit);
/* The same where many times the host memory is needed. */
char *mw_remedy_rebuild(const struct mw_unfit *unfit);
char *mw_remedy_rebuild_and_strategy(const struct mw_unfit *unfit);
char *mw_remedy_memory(const struct mw_unfit *unfit); /* never NULL */

/* planner/remedy/lacking.c: what a sizing lacks on the requested machine */

/* "170 GiB more cpu memory per GPU, one more drive of that kind per node"; g_free it. */
char *mw_lacking_text(const struct mw_unfit *unfit, const struct mw_sizing *sizing);
/* Drives to add per node; 0: none, or the lack is given as free space. */
int64_t mw_lacking_drives(const struct mw_unfit *unfit, const struct mw_sizing *sizing);
/* Bytes of free space to add per node; 0: none, or the lack is given as drives. */
int64_t mw_lacking_free_space(const struct mw_unfit *unfit, const struct mw_sizing *sizing);
/* The machine with that much more, as the assignments appended to `flags` make it; NULL: no
 * assignments can.  The caller frees it. */
struct mw_profile *mw_lacking_added(const struct mw_unfit *unfit, const struct mw_sizing *sizing,
                                    GString *flags);

#endif
