/*
 * extents.h - state that records name, as the drives have it: read without a run's tier, past the
 * page cache where the file system allows it, and held against its checksums.  Nothing in the
 * files is changed.
 *
 * For those who are not at a run (verify, export), and for a resume whose tier an error has
 * stopped.
 */
#ifndef MW_EXEC_COMMIT_EXTENTS_H
#define MW_EXEC_COMMIT_EXTENTS_H

#include "exec/commit/internal.h"
#include "exec/nvme/internal.h"

/* A rank's files, one a drive. */
struct mw_extents {
    struct mw_nvme_layout layout;
    int64_t capacity_bytes;
    const struct mw_nvme_calls *calls;
    int drives;
    struct {
        char *path, *missing; /* missing: why it cannot be read; or NULL */
        bool absent;          /* missing, for no file is there */
        char *resized;        /* has another length than a run gives it, and takes; or NULL */
        int fd;
    } data[MW_NVME_DRIVES_MAX];
    char *block;
};

/* `directories`: as many as the identity, which is of the record at this path, has drives.
 * calls NULL: the system's; outlives it.  False with *error, and nothing to be closed, where the
 * identity is none of a run; a file that cannot be opened is one that misses. */
bool mw_extents_open(struct mw_extents *extents, const char *const *directories, const char *stem,
                     const struct mw_commit_identity *identity, const char *record_path,
                     const struct mw_nvme_calls *calls, GError **error);
/* Of zeroes is allowed. */
void mw_extents_close(struct mw_extents *extents);

struct mw_extent_read {
    const char *why;   /* it could not be read; NULL: it was */
    int drive;         /* whose file that is of; -1: none, or of all */
    uint64_t checksum; /* of the data that was read */
};
/* `out` has room for all of it; or NULL. */
struct mw_extent_read mw_extents_read(const struct mw_extents *extents,
                                      const struct mw_commit_extent *extent, char *out);

/* False with *error, which names files, places and extent, where it is not what was committed. */
bool mw_extents_check(const struct mw_extents *extents, const struct mw_commit_extent *extent,
                      char *out, GError **error);

#endif
