/*
 * commit.h - the durable record that makes a step a checkpoint.  It says which of the two extents
 * of each piece of state is current, with its checksum, and holds the few numbers that a run
 * continues from.
 *
 * A rank has one file, DIRECTORY/STEM.record, with two records that take turns: one is whole at any
 * time.  A record is a block of 4096 bytes and one entry of 32 bytes for each extent, rounded up to
 * blocks.  Its checksum covers all of it, so a torn record is recognised.
 *
 * A commit has this order: all writes of the step are complete; fdatasync of every drive; the other
 * record is written; fdatasync of the file.  The caller writes new state only to extents that the
 * last record does not call current and, with several ranks, only after all ranks' last records are
 * durable.
 *
 * A failed fdatasync is reported only once, and leaves pages in the cache that the drive does not
 * have.  So after a failure nothing more is written.  A resume believes only the drive: it reads
 * past the page cache, writes the record anew, syncs it and reads it back.
 */
#ifndef MW_EXEC_COMMIT_COMMIT_H
#define MW_EXEC_COMMIT_COMMIT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct mw_nvme;
struct mw_nvme_calls;

enum { MW_COMMIT_NAME_BYTES = 24, MW_COMMIT_FIELDS_MAX = 120 };
/* This many entries make a record of a gigabyte.  A run of a billion parameters has some
 * thousands. */
#define MW_COMMIT_EXTENTS_MAX ((int64_t)1 << 25)

/* One field of 64 bits: data cursor, random state, loss scale, or skipped updates. */
struct mw_commit_field {
    char name[MW_COMMIT_NAME_BYTES]; /* ends with 0 */
    uint64_t value;
};

/* The id tells what an extent holds: a chunk of state, or pending gradients of a delayed update. */
struct mw_commit_extent {
    int64_t id;
    int64_t offset_bytes, bytes; /* offset in the NVMe tier */
    uint64_t checksum;
    int which; /* 0 or 1: whether the piece's first or second extent is current */
};

struct mw_commit_record {
    int64_t step;
    struct mw_commit_field *fields;
    struct mw_commit_extent *extents;
    int field_count;
    int64_t extent_count;
};

struct mw_commit_options {
    const char *directory,
        *stem;            /* stem NULL: "memwall"; ranks that share a directory need one each */
    uint64_t fingerprint; /* of model and settings; a resume needs the same */
    int rank, ranks;
    int64_t extents_max;        /* at most MW_COMMIT_EXTENTS_MAX */
    const struct mw_nvme *nvme; /* its layout must be the same at a resume; NULL: none */
    bool resume; /* the file and a whole record must exist; else the file starts empty */
    const struct mw_nvme_calls *calls; /* NULL: those of the system; must outlive the commit */
};

struct mw_commit;

/* Returns NULL with *error if there is no file or no whole record to resume from (with the reason
 * for each), if model, rank or drive layout differ, or if another run uses the file.  Without
 * `resume`, the earlier content of the file is void, durably, before this returns. */
struct mw_commit *mw_commit_open(const struct mw_commit_options *options, GError **error);
/* Keeps the file.  NULL is allowed. */
void mw_commit_close(struct mw_commit *commit);

/* Size of one of the two records. */
int64_t mw_commit_record_bytes(int64_t extents);

/* Gives the steps that can be resumed, newest first, and returns their number.  In messages steps
 * count from 1, as in a run's output.  Several ranks resume the newest step that all of them
 * have. */
int mw_commit_steps(const struct mw_commit *commit, int64_t steps[2]);
/* The path of the file. */
const char *mw_commit_path(const struct mw_commit *commit);
/* A line for the user if a record was found torn, as a crash during a commit leaves it; else
 * NULL. */
const char *mw_commit_notice(const struct mw_commit *commit);

/* Reads the record of `step` from the drive, bypassing the page cache; changes nothing.
 * mw_commit_record_clear clears *record. */
bool mw_commit_resume(struct mw_commit *commit, int64_t step, struct mw_commit_record *record,
                      GError **error);
/* Writes the resumed record anew, makes it durable and reads it back from the drive.  Until then
 * nothing can be committed, and no extent may be overwritten. */
bool mw_commit_renew(struct mw_commit *commit, GError **error);
/* After that, makes a record newer than the resumed one void, durably, since its extents will be
 * overwritten. With several ranks, call it when all have renewed theirs. */
bool mw_commit_void_newer(struct mw_commit *commit, GError **error);
void mw_commit_record_clear(struct mw_commit_record *record);

/* Makes the step durable, in the order above; `nvme` may be NULL.  The step must be later than the
 * last. On false, the last committed step is still whole; the tier has failed too, and none of its
 * extents is used again. */
bool mw_commit_write(struct mw_commit *commit, struct mw_nvme *nvme,
                     const struct mw_commit_record *record, GError **error);

/* Content of a record's file as the drive has it, read past the page cache, for processes that are
 * not part of the run.  Nothing is locked or changed. */
struct mw_commit_found {
    bool holds;       /* it holds something that was committed, whole or damaged */
    int whole;        /* number of whole records */
    int64_t steps[2]; /* their steps, newest first */
    int rank, ranks;  /* of the run, if a record says so; else 0 */
};
bool mw_commit_look(int fd, const char *path, struct mw_commit_found *found, GError **error);

/* Cuts the name to fit. */
struct mw_commit_field mw_commit_field(const char *name, uint64_t value);
struct mw_commit_field mw_commit_field_real(const char *name, double value);
bool mw_commit_find(const struct mw_commit_record *record, const char *name, uint64_t *value);
bool mw_commit_find_real(const struct mw_commit_record *record, const char *name, double *value);

/* XXH3, 64 bits, of an extent's content, or of a text for the fingerprint. */
uint64_t mw_commit_checksum(const void *data, int64_t bytes);

/* Returns false with *error (which extent, where) if `data` is not what was committed. */
bool mw_commit_check(const struct mw_commit_extent *extent, const void *data, GError **error);

#endif
