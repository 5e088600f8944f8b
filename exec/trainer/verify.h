/*
 * verify.h - whether what a run has made durable is whole: its records, and every extent that they
 * name, of both steps and of all ranks whose files are here.  All is read as a resume reads it,
 * past the page cache, nothing is changed, and no run can use the files at the same time.  What a
 * resume refuses is not whole here: records' fields and the lengths of files count as well.
 *
 * A run that ended in the middle of a step has begun to write over the older of its two steps: that
 * one is not whole then, and needs not be.
 */
#ifndef MW_EXEC_TRAINER_VERIFY_H
#define MW_EXEC_TRAINER_VERIFY_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/commit/commit.h"

struct mw_verify_options {
    const char *const *directories; /* in the order of the run's drives */
    int directory_count;
    /* Names of the content of an extent of a rank's state, to be freed; or NULL.  May be NULL. */
    char *(*tensors)(void *data, int rank, int ranks, const struct mw_commit_extent *extent);
    /* The caller's own check of a record, after the trainer's.  May be NULL. */
    bool (*takes)(void *data, const struct mw_commit_record *record, GError **error);
    void (*progress)(void *data, int64_t done_bytes, int64_t all_bytes); /* may be NULL */
    void *data;
    int64_t noted_step; /* step known to be durable from other sources than the records, from 1; 0:
                         * unknown */
    int noted_ranks;    /* number of ranks that ran here, and so left their files here; 0:
                         * unknown */
    const struct mw_nvme_calls *calls; /* NULL: those of the system */
};

/* A range of a file that does not hold what was committed, and the extent that it belongs to. */
struct mw_verify_damage {
    int rank;
    char *file, *tensors; /* tensors: NULL if unknown */
    int64_t offset_bytes, bytes, extent;
    char *what;
    bool missing; /* the whole file cannot be opened */
};

struct mw_verify_step {
    int64_t step;
    int ranks;                                                /* number of ranks that have a whole
                                                               * record of it */
    int64_t extents, bytes, damaged_extents, missing_extents; /* missing: those whose file is
                                                               * missing */
    GPtrArray *damage;                                        /* struct mw_verify_damage * */
};

/* A file of state that does not exist, that may not be read, or that has another length. */
struct mw_verify_missing {
    char *file, *why;
    bool absent;  /* it does not exist; its drive may not be mounted */
    bool resized; /* it exists: damage in it is reported as well */
};

struct mw_verified {
    int ranks, ranks_here;          /* ranks of the run; ranks with a record in these directories */
    int ranks_ran;                  /* that ran here, as far as is known */
    struct mw_verify_step steps[3]; /* newest first; three if ranks differ */
    int step_count;
    int newest;         /* index of the step that a resume takes, which all ranks here have; -1:
                         * none */
    int unreadable;     /* number of records that the drive does not return; one may be of a newer
                         * step */
    int64_t lost_step;  /* a step that was durable, from 1, and is in no whole record; 0: none */
    GPtrArray *missing; /* struct mw_verify_missing *, each file once */
    GPtrArray *notes;   /* char *: further notes */
};

/* Returns false with *error if no run is there, a run is using it, or other directories belong to
 * it. Damage is a result.  The caller clears *verified in either case. */
bool mw_verify(const struct mw_verify_options *options, struct mw_verified *verified,
               GError **error);
void mw_verified_clear(struct mw_verified *verified);

bool mw_verify_is_whole(const struct mw_verified *verified, int step);
/* Whether a resume continues from the newest step: it is known to be the newest, it is whole, and
 * no file is missing. */
bool mw_verify_resumes(const struct mw_verified *verified);

#endif
