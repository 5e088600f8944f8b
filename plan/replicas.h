/*
 * replicas.h - stages of a pipeline that have unlike numbers of replicas.  Replicas take
 * micro-batches in turn: of a stage with r of them, number i has i, i + r, i + 2 r and so on
 * (round robin; PipeDream, Narayanan et al., SOSP 2019, Sec. 3.2).  Their ranks are neighbours, and
 * stages follow each other.
 */
#ifndef MW_PLAN_REPLICAS_H
#define MW_PLAN_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

#define MW_REPLICATED_STAGES_MAX 64
#define MW_STAGE_REPLICAS_MAX 1024

struct mw_stage_replicas {
    uint16_t stages; /* 0: all stages have as many replicas */
    uint16_t of[MW_REPLICATED_STAGES_MAX];
};
/* Space for the text of any: "2,1,1". */
#define MW_STAGE_REPLICAS_TEXT_MAX (MW_REPLICATED_STAGES_MAX * 5)

/* The place of a rank: replica number `index` of so many of a stage. */
struct mw_replica {
    uint32_t stage, index, count;
};

/* Reads "2,1,1", two stages or more with 1 to MW_STAGE_REPLICAS_MAX each; false if it is not
 * that. */
bool mw_stage_replicas_read(const char *text, struct mw_stage_replicas *out);
void mw_stage_replicas_write(const struct mw_stage_replicas *it,
                             char text[MW_STAGE_REPLICAS_TEXT_MAX]);
/* Ranks of the stages from `stage` on. */
uint32_t mw_stage_replicas_from(const struct mw_stage_replicas *it, uint32_t stage);
/* The first rank of a stage. */
uint32_t mw_stage_replicas_first(const struct mw_stage_replicas *it, uint32_t stage);
/* Micro-batches of a step are a multiple of this: each replica of a stage has as many.  0: of more
 * than can be planned. */
int64_t mw_stage_replicas_grain(const struct mw_stage_replicas *it);
/* `rank` is below the sum. */
struct mw_replica mw_stage_replica(const struct mw_stage_replicas *it, uint32_t rank);

#endif
