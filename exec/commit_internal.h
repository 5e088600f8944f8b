/* commit_internal.h - what the files of the commit share; not for others. */
#ifndef MW_EXEC_COMMIT_INTERNAL_H
#define MW_EXEC_COMMIT_INTERNAL_H

#include <inttypes.h>
#include <sys/stat.h>

#include "exec/commit.h"
#include "exec/nvme.h"
#include "exec/nvme_calls.h"

enum { MW_COMMIT_BLOCK_BYTES = 4096 };

/* What a record says about the run that wrote it. */
struct mw_commit_identity {
    uint64_t fingerprint;
    int32_t rank, ranks, drives, unused;
    int64_t stripe_bytes, capacity_bytes;
};

/* --- commit_record.c: bytes and back --- */

enum mw_commit_state { MW_COMMIT_EMPTY, MW_COMMIT_WHOLE, MW_COMMIT_TORN };

/* `image` has room for mw_commit_record_bytes(extent_count) and is zeroed. */
void mw_commit_encode(const struct mw_commit_record *record,
                      const struct mw_commit_identity *identity, char *image);
/* Whole only if the checksum is right; then *record is set.  *identity is set, and *identified
 * true, also for a torn one whose identity is readable: one of other settings may have another
 * size. */
enum mw_commit_state mw_commit_decode(const char *image, int64_t image_bytes,
                                      struct mw_commit_record *record,
                                      struct mw_commit_identity *identity, bool *identified);

/* False with *error that names the extent. */
bool mw_commit_same_checksum(const struct mw_commit_extent *extent, uint64_t checksum,
                             GError **error);

/* --- commit_look.c: for those who are not at the run --- */

/* The newest whole record (step -1), or that of `step`. */
bool mw_commit_load(int fd, const char *path, int64_t step, struct mw_commit_record *record,
                    struct mw_commit_identity *identity, GError **error);

/* --- commit_file.c: the file of two slots --- */

struct mw_commit_file {
    char *path;
    int fd;
    int64_t slot_bytes;
    struct stat info;
    const struct mw_nvme_calls *calls;
};

bool mw_commit_file_open(struct mw_commit_file *file, const char *directory, const char *stem,
                         bool resume, GError **error);
/* What the page cache has of the file is written out and let go of. */
bool mw_commit_file_forget(const struct mw_commit_file *file, GError **error);
/* Reads the slot whole, with O_DIRECT where the file system has it; elsewhere past the page cache
 * only if that has been let go of.  Short files give zeros.  `image` begins at a block's
 * alignment. */
bool mw_commit_file_read(const struct mw_commit_file *file, int slot, char *image, GError **error);
/* Writes and makes durable. */
bool mw_commit_file_write(const struct mw_commit_file *file, int slot, const char *image,
                          int64_t bytes, GError **error);
/* Makes the file's name durable. */
bool mw_commit_file_settle(const struct mw_commit_file *file, GError **error);
void mw_commit_file_close(struct mw_commit_file *file);

#endif
