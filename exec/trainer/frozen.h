/*
 * frozen.h - parameters that a run leaves as they are: where they come from, and whether they are
 * still the same.
 */
#ifndef MW_EXEC_TRAINER_FROZEN_H
#define MW_EXEC_TRAINER_FROZEN_H

#include "exec/commit/commit.h"
#include "exec/data/safetensors.h"
#include "exec/data/weights.h"
#include "exec/trainer/checkpoint.h"
#include "plan/plan.h"

/* A number for the adapters of a model; whether a record has the same ones, or says nothing of
 * any. */
uint64_t mw_frozen_adapters(const struct mw_decoder *decoder);
bool mw_frozen_same_adapters(const struct mw_commit_record *record,
                             const struct mw_decoder *decoder);

/* Elements that are made, and added to the checksum, at a time. */
#define MW_FROZEN_PIECE_ELEMENTS ((int64_t)1 << 19)

/* Those of a rank.  All is borrowed. */
struct mw_frozen {
    const struct mw_plan *plan;
    const struct mw_decoder *decoder;
    const struct mw_checkpoint *checkpoint; /* where they come from; NULL: */
    const struct mw_safetensors *weights;   /* the same; NULL: the seed */
    uint64_t seed;
    uint32_t rank;
};

bool mw_frozen_is_there(const struct mw_plan *plan);

/* The elements of a part that a rank has at home. */
struct mw_range mw_frozen_params(const struct mw_tensor *tensor, uint32_t rank, int64_t tile);
bool mw_frozen_read(const struct mw_frozen *frozen, const struct mw_tensor *tensor, int64_t tile,
                    int64_t first, int64_t count, float *out, GError **error);

/* The checksum of all of them, in fp32 as they are read, part after part. */
bool mw_frozen_sum(const struct mw_frozen *frozen, uint64_t *sum, GError **error);
/* Whether the record, if it says anything of them, has this checksum.  *error names `weights`;
 * NULL: they were drawn. */
bool mw_frozen_check(const struct mw_commit_record *record, uint64_t sum,
                     const struct mw_safetensors *weights, GError **error);

#endif
