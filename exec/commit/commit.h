/*
 * commit.h - the durable record that makes a step a checkpoint: which of the two extents of each
 * piece of state is the current one, with its checksum, and the few numbers that a run continues
 * from.
 *
 * A rank has one file, DIRECTORY/STEM.record, with two records that take turns: one is whole at any
 * time.  A record is a block of 4096 bytes and one entry of 32 bytes for each extent, rounded up to
 * blocks; its checksum covers all of it, so a torn one is known.
 *
 * The order of a commit: every write of the step is complete; fdatasync of every drive; the other
 * record is written; fdatasync of the file.  The caller writes new state to the extents that the
 * last record does not call current, and, with several ranks, not before all ranks' last records
 * are durable.
 *
 * A failed fdatasync is reported once, and leaves pages in the cache that the drive does not have.
 * So what has failed once writes no more, and a resume believes the drive alone: it reads past the
 * page cache, writes the record anew, syncs it and reads it back.
 */
#ifndef MW_EXEC_COMMIT_COMMIT_H
#define MW_EXEC_COMMIT_COMMIT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct mw_nvme;
struct mw_nvme_calls;

enum { MW_COMMIT_NAME_BYTES = 24, MW_COMMIT_FIELDS_MAX = 120 };
/* This many entries make a record of a gigabyte; a run of a billion parameters has some
 * thousands. */
#define MW_COMMIT_EXTENTS_MAX ((int64_t)1 << 25)

/* Data cursor, random state, loss scale, skipped updates: 64 bits each. */
struct mw_commit_field {
    char name[MW_COMMIT_NAME_BYTES]; /* ends with 0 */
    uint64_t value;
};

/* What an extent is (a chunk of state, pending gradients of a delayed update) is its id. */
struct mw_commit_extent {
    int64_t id;
    int64_t offset_bytes, bytes; /* of the NVMe tier */
    uint64_t checksum;
    int which; /* 0 or 1: the piece's first or second extent is current */
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
    uint64_t fingerprint; /* of model and settings: a resume needs the same */
    int rank, ranks;
    int64_t extents_max;        /* at most MW_COMMIT_EXTENTS_MAX */
    const struct mw_nvme *nvme; /* whose layout must be the same at a resume; NULL: none */
    bool resume; /* the file and a whole record must be there; else it starts empty */
    const struct mw_nvme_calls *calls; /* NULL: the system's; outlives the commit */
};

struct mw_commit;

/* NULL with *error: no file or no whole record to resume from (what is wrong with each), another
 * model, rank or drive layout, in use by another run.  Without `resume` what the file held is void
 * and durably so before this returns. */
struct mw_commit *mw_commit_open(const struct mw_commit_options *options, GError **error);
/* The file stays.  NULL is allowed. */
void mw_commit_close(struct mw_commit *commit);

/* Size of one of the two records. */
int64_t mw_commit_record_bytes(int64_t extents);

/* Steps that can be resumed, newest first; how many.  In messages they count from 1, as where a run
 * prints them.  With several ranks the newest that all have is the one. */
int mw_commit_steps(const struct mw_commit *commit, int64_t steps[2]);
/* Its file. */
const char *mw_commit_path(const struct mw_commit *commit);
/* A line for the user if a record was found torn, as a crash during a commit leaves it; or NULL. */
const char *mw_commit_notice(const struct mw_commit *commit);

/* Reads the record of `step` from the drive, past the page cache; changes nothing.  *record is
 * cleared by mw_commit_record_clear. */
bool mw_commit_resume(struct mw_commit *commit, int64_t step, struct mw_commit_record *record,
                      GError **error);
/* Writes the resumed record anew, makes it durable and reads it back from the drive.  Before that
 * nothing can be committed, and nobody overwrites an extent. */
bool mw_commit_renew(struct mw_commit *commit, GError **error);
/* Then a record newer than the resumed one is made void, durably: its extents will be overwritten.
 * With several ranks, once all have renewed theirs. */
bool mw_commit_void_newer(struct mw_commit *commit, GError **error);
void mw_commit_record_clear(struct mw_commit_record *record);

/* Makes the step durable, in the order above; `nvme` may be NULL.  The step is later than the last.
 * False: the last committed step is still whole; the tier has failed too, and no extent of it is
 * used again. */
bool mw_commit_write(struct mw_commit *commit, struct mw_nvme *nvme,
                     const struct mw_commit_record *record, GError **error);

/* What a record's file holds on its drive, past the page cache, for those who are not at the run:
 * nothing is locked or changed. */
struct mw_commit_found {
    bool holds;       /* something that was committed, whole or damaged */
    int whole;        /* records */
    int64_t steps[2]; /* theirs, newest first */
    int rank, ranks;  /* of the run, where a record says it; else 0 */
};
bool mw_commit_look(int fd, const char *path, struct mw_commit_found *found, GError **error);

/* The name is cut to fit. */
struct mw_commit_field mw_commit_field(const char *name, uint64_t value);
struct mw_commit_field mw_commit_field_real(const char *name, double value);
bool mw_commit_find(const struct mw_commit_record *record, const char *name, uint64_t *value);
bool mw_commit_find_real(const struct mw_commit_record *record, const char *name, double *value);

/* XXH3, 64 bits: of an extent's content, and of a text for the fingerprint. */
uint64_t mw_commit_checksum(const void *data, int64_t bytes);

/* False with *error (which extent, where) when `data` is not what was committed. */
bool mw_commit_check(const struct mw_commit_extent *extent, const void *data, GError **error);

#endif
