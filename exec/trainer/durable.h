/*
 * durable.h - reads what runs have made durable, outside of a run: the records of all ranks, and
 * the state that they name, checked before use.  Nothing in the directories is changed.
 */
#ifndef MW_EXEC_TRAINER_DURABLE_H
#define MW_EXEC_TRAINER_DURABLE_H

#include "exec/trainer/checkpoint.h"
#include "exec/trainer/trainer.h"

/* The fingerprint of a run: all that decides what a step computes (`base`), the type that it
 * computes in, and the places of the plan's chunks. */
uint64_t mw_durable_fingerprint(const struct mw_plan *plan, enum mw_dtype dtype, uint64_t base);

/* A number for the elements of the plan's tensors and their places in the state.  Each record has
 * it. */
uint64_t mw_durable_tensors(const struct mw_plan *plan);

/* A number for what all ranks of a run record alike at a step: options, and the place in the data.
 */
uint64_t mw_durable_course(const struct mw_commit_record *record);
#define MW_DURABLE_OTHER_RUN                                                                       \
    "was saved by another run than the files of rank 0, with other options or at another place "   \
    "in the data: put this rank's own files back: "

struct mw_durable_options {
    const char *const *directories; /* in the order of the drives; the first has the records */
    int directory_count;
    const struct mw_plan *plan; /* a checked plan: tensors, chunks and their homes; borrowed, like
                                 * decoder */
    const struct mw_decoder *decoder; /* of the whole model */
    /* Of a pipeline `plan` is that of the first stage; these are of the others, in their order. */
    const struct mw_plan *const *later;
    int later_count;
    int64_t slices;       /* of the model's tensors; 0 or 1: they are whole */
    int64_t replicas;     /* sharding groups, which have the same state each; 0 or 1: one */
    uint64_t fingerprint; /* `base` of the fingerprint */
    /* Where parameters that are not trained come from; NULL: the seed. */
    const struct mw_safetensors *weights;
    uint64_t seed;
    bool previous; /* use the step before the newest that all ranks hold */
    /* Whether the record matches what the caller knows of the run; may be NULL. */
    bool (*fits)(void *data, const char *record_path, const struct mw_commit_record *record,
                 GError **error);
    void *data;
    const struct mw_nvme_calls *calls; /* NULL: those of the system; must outlive it */
};

/* What a rank has of the model, and its place among those that have the same, divide its state and
 * train on other sequences: they are `stride` apart.  Its sharding group is the first or another.
 */
struct mw_durable_part {
    const struct mw_plan *plan;
    struct mw_decoder decoder;
    int rank, ranks, stride, replica;
};
/* Whether so many ranks can have that many slices, sharding groups and stages.  Needs only the
 * plans, decoder, slices and groups, as does the next one, which needs this to be true. */
bool mw_durable_divides(const struct mw_durable_options *run, int ranks);
struct mw_durable_part mw_durable_part(const struct mw_durable_options *run, int rank, int ranks);

/* "state of wte.weight to h.0.ln_1.weight": the content of an extent in the record of a rank, one
 * of `ranks`; NULL if the plan does not say.  Needs only the plans, decoder, slices and groups.
 * g_free it. */
char *mw_durable_names(const struct mw_durable_options *run, int rank, int ranks,
                       const struct mw_commit_extent *extent);

struct mw_durable;

/* Opens the newest step that all ranks hold.  No run can begin in the directories until it is
 * closed. Returns NULL with *error if a run is there, no step is whole, or a file is missing or of
 * another run. */
struct mw_durable *mw_durable_open(const struct mw_durable_options *options, GError **error);
void mw_durable_close(struct mw_durable *durable); /* NULL is allowed */

/* The step, from 0. */
int64_t mw_durable_step(const struct mw_durable *durable);

/* A line for the user if a rank's other record is torn or cannot be read, since it may have held a
 * newer step; else NULL.  Lives as long as *durable. */
const char *mw_durable_notice(const struct mw_durable *durable);

/* Writes the checkpoint that mw_checkpoint_save would have written after that step. */
bool mw_durable_export(struct mw_durable *durable, const struct mw_checkpoint_options *options,
                       GError **error);

#endif
