/* internal.h - what the files of the commit share; not for others. */
#ifndef MW_EXEC_COMMIT_INTERNAL_H
#define MW_EXEC_COMMIT_INTERNAL_H

#include <inttypes.h>
#include <sys/stat.h>

#include "exec/commit/commit.h"
#include "exec/nvme/calls.h"
#include "exec/nvme/nvme.h"

enum { MW_COMMIT_BLOCK_BYTES = MW_PAGE_BYTES, MW_COMMIT_SLOTS = 2 };

/* What a record says about the run that wrote it. */
struct mw_commit_identity {
    uint64_t fingerprint;
    int32_t rank, ranks, drives;
    int32_t commits; /* of the run, up to this one; 0: older versions did not count */
    int64_t stripe_bytes, capacity_bytes;
};

/* --- exec/commit/record.c: bytes and back --- */

enum mw_commit_state { MW_COMMIT_EMPTY, MW_COMMIT_WHOLE, MW_COMMIT_TORN, MW_COMMIT_UNREADABLE };

/* `image` has room for mw_commit_record_bytes(extent_count) and is zeroed. */
void mw_commit_encode(const struct mw_commit_record *record,
                      const struct mw_commit_identity *identity, char *image);
/* Whole only if the checksum is right; then *record is set.  *identity is set, and *identified
 * true, also for a torn one whose identity is readable: one of other settings may have another
 * size. */
enum mw_commit_state mw_commit_decode(const char *image, int64_t image_bytes,
                                      struct mw_commit_record *record,
                                      struct mw_commit_identity *identity, bool *identified);

/* Bytes of the record that this block begins, as it says; 0: none whose identity can be read. */
int64_t mw_commit_header_bytes(const char *block);

/* False with *error that names the extent. */
bool mw_commit_same_checksum(const struct mw_commit_extent *extent, uint64_t checksum,
                             GError **error);

/* --- commit.c --- */
const struct mw_commit_identity *mw_commit_identity(const struct mw_commit *commit);

/* --- exec/commit/file.c: the file of two slots --- */

struct mw_commit_file {
    char *path;
    int fd;
    int64_t slot_bytes;
    struct stat info;
    const struct mw_nvme_calls *calls;
};

bool mw_commit_file_open(struct mw_commit_file *file, const char *directory, const char *stem,
                         bool resume, GError **error);
/* Zeroed, of a slot; free(). */
char *mw_commit_image_new(int64_t bytes);
/* What the page cache has of the file is written out and let go of. */
bool mw_commit_file_forget(const struct mw_commit_file *file, GError **error);
/* Reads the slot whole, with O_DIRECT where the file system has it; elsewhere past the page cache
 * only if that has been let go of.  Short files give zeros.  `image` begins at a block's
 * alignment. */
bool mw_commit_file_read(const struct mw_commit_file *file, int slot, char *image, GError **error);
/* Writes and makes durable. */
bool mw_commit_file_write(const struct mw_commit_file *file, int slot, const char *image,
                          int64_t bytes, GError **error);
/* Whatever the file was before, it ends with its second slot. */
bool mw_commit_file_cut(const struct mw_commit_file *file, GError **error);
/* Makes the file's name durable. */
bool mw_commit_file_sync_directory(const struct mw_commit_file *file, GError **error);
void mw_commit_file_close(struct mw_commit_file *file);

/* --- exec/commit/slots.c: what the slots hold --- */

struct mw_commit_slot {
    enum mw_commit_state state;
    struct mw_commit_record record;     /* of a whole one */
    struct mw_commit_identity identity; /* where `identified` */
    bool identified;
    char *why; /* of one that is not readable, with the file's name */
};

/* `image` has room for a slot.  To be cleared; what is in `record` may be taken instead.  A slot
 * that the drive does not give back is a state like the others: the other slot may be whole. */
void mw_commit_slot_read(const struct mw_commit_file *file, int index, char *image,
                         struct mw_commit_slot *slot);
void mw_commit_slot_clear(struct mw_commit_slot *slot);

struct mw_commit_slots {
    int64_t file_bytes, slot_bytes; /* a file has two slots, unless it was cut or added to */
    struct mw_commit_slot at[MW_COMMIT_SLOTS];
};

/* The one way in which records are read: past the page cache, which has let go of the file.  What
 * the file is too short for counts as zeros.  To be cleared. */
void mw_commit_slots_load(const struct mw_commit_file *file, char *image,
                          struct mw_commit_slots *slots);
/* Of a file that the caller has open, and whose run need not be here: its slots are where their
 * headers stand, whatever the file's length.  calls NULL: the system's.  To be cleared in either
 * case. */
bool mw_commit_slots_read(int fd, const char *path, const struct mw_nvme_calls *calls,
                          struct mw_commit_slots *slots, GError **error);
void mw_commit_slots_clear(struct mw_commit_slots *slots);
/* The newest whole one of a step before `before`; NULL: there is none. */
const struct mw_commit_slot *mw_commit_slots_newest(const struct mw_commit_slots *slots,
                                                    int64_t before);
/* What there is to say where a step is taken of one record, whole, and the other one is this: a
 * line, to be freed, or NULL. */
char *mw_commit_slot_other(const char *path, const struct mw_commit_slot *whole,
                           const struct mw_commit_slot *other);
/* Returns false with *error: neither is whole, and what each of them is. */
bool mw_commit_slots_refuse(const struct mw_commit_slots *slots, const char *path, GError **error);
/* The whole record of `step`, or the newest (-1), of such a file. */
bool mw_commit_load(int fd, const char *path, int64_t step, struct mw_commit_record *record,
                    struct mw_commit_identity *identity, GError **error);

#endif
