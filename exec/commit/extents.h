/*
 * extents.h - reads the state that records name from the drives: without a run's tier, past the
 * page cache where the file system allows it, and checked against its checksums.  Nothing in the
 * files is changed.
 *
 * It serves processes that are not part of a run (verify, export), and a resume whose tier an error
 * has stopped.
 */
#ifndef MW_EXEC_COMMIT_EXTENTS_H
#define MW_EXEC_COMMIT_EXTENTS_H

#include "exec/commit/internal.h"
#include "exec/nvme/internal.h"

/* The files of a rank, one per drive. */
struct mw_extents {
    struct mw_nvme_layout layout;
    int64_t capacity_bytes;
    const struct mw_nvme_calls *calls;
    int drives;
    struct {
        char *path, *missing; /* missing: why the file cannot be read; NULL if it can */
        bool absent;          /* the file is missing because it does not exist */
        char *resized;        /* says that a run gives the file another length, which it requires;
                               * NULL if the length is right */
        int fd;
    } data[MW_NVME_DRIVES_MAX];
    char *block;
};

/* Opens the files of the record at this path, whose identity gives the number of `directories`.
 * calls NULL: those of the system; must outlive *extents.  Returns false with *error, and nothing
 * to be closed, if the identity is not that of a run.  A file that cannot be opened counts as
 * missing. */
bool mw_extents_open(struct mw_extents *extents, const char *const *directories, const char *stem,
                     const struct mw_commit_identity *identity, const char *record_path,
                     const struct mw_nvme_calls *calls, GError **error);
/* A zeroed struct is allowed. */
void mw_extents_close(struct mw_extents *extents);

struct mw_extent_read {
    const char *why;   /* why it could not be read; NULL if it was */
    int drive;         /* the drive whose file that is; -1: no drive, or all of them */
    uint64_t checksum; /* of the data that was read */
};
/* `out` has room for all of the extent, or is NULL. */
struct mw_extent_read mw_extents_read(const struct mw_extents *extents,
                                      const struct mw_commit_extent *extent, char *out);

/* Returns false with *error, which names files, places and extent, if the extent is not what was
 * committed. */
bool mw_extents_check(const struct mw_extents *extents, const struct mw_commit_extent *extent,
                      char *out, GError **error);

#endif
