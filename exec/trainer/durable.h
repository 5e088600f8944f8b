/*
 * durable.h - what runs have made durable, read where no run is: the records of all ranks and the
 * state that they name, checked before use.  Nothing in the directories is changed.
 */
#ifndef MW_EXEC_TRAINER_DURABLE_H
#define MW_EXEC_TRAINER_DURABLE_H

#include "exec/trainer/checkpoint.h"
#include "exec/trainer/trainer.h"

/* Of a run: all that decides what a step computes (`base`), the type that it is computed in, and
 * where the plan's chunks lie. */
uint64_t mw_durable_fingerprint(const struct mw_plan *plan, enum mw_dtype dtype, uint64_t base);

/* Which elements the plan's tensors have, and where of the state: a number that each record has. */
uint64_t mw_durable_tensors(const struct mw_plan *plan);

struct mw_durable_options {
    const char *const *directories; /* in the order of the drives; the first has the records */
    int directory_count;
    const struct mw_plan *plan; /* checked; tensors, chunks and their homes; borrowed, as decoder */
    const struct mw_decoder *decoder;
    uint64_t fingerprint;              /* the base */
    bool previous;                     /* the step before the newest that all ranks hold */
    /* Whether the record matches what the caller knows of the run; may be NULL. */
    bool (*fits)(void *data, const char *record_path, const struct mw_commit_record *record,
                 GError **error);
    void *data;
    const struct mw_nvme_calls *calls; /* NULL: the system's; outlives it */
};

/* "state of wte.weight to h.0.ln_1.weight": what an extent of a rank's record holds, of `ranks`;
 * NULL where the plan does not say.  Needs plan and decoder alone.  g_free it. */
char *mw_durable_names(const struct mw_durable_options *run, int rank, int ranks,
                       const struct mw_commit_extent *extent);

struct mw_durable;

/* The newest step that all ranks hold.  No run can begin in the directories before it is closed.
 * NULL with *error: a run is there, no step is whole, a file is missing or of another run. */
struct mw_durable *mw_durable_open(const struct mw_durable_options *options, GError **error);
void mw_durable_close(struct mw_durable *durable); /* NULL is allowed */

/* From 0. */
int64_t mw_durable_step(const struct mw_durable *durable);

/* A line for the user where a rank's other record is torn or cannot be read: a newer step may have
 * been in it.  NULL: there is nothing to say.  Lives as long as it. */
const char *mw_durable_notice(const struct mw_durable *durable);

/* The checkpoint that mw_checkpoint_save would have written after that step. */
bool mw_durable_export(struct mw_durable *durable, const struct mw_checkpoint_options *options,
                       GError **error);

#endif
