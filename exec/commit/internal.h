/* internal.h - declarations that the files of the commit share; not for others. */
#ifndef MW_EXEC_COMMIT_INTERNAL_H
#define MW_EXEC_COMMIT_INTERNAL_H

#include <inttypes.h>
#include <sys/stat.h>

#include "exec/commit/commit.h"
#include "exec/nvme/calls.h"
#include "exec/nvme/nvme.h"

enum { MW_COMMIT_BLOCK_BYTES = MW_PAGE_BYTES, MW_COMMIT_SLOTS = 2 };

/* The identity of the run that wrote a record. */
struct mw_commit_identity {
    uint64_t fingerprint;
    int32_t rank, ranks, drives;
    int32_t commits; /* number of commits of the run, this one included; 0: older versions did not
                      * count */
    int64_t stripe_bytes, capacity_bytes;
};

/* --- exec/commit/record.c: encodes and decodes records --- */

enum mw_commit_state { MW_COMMIT_EMPTY, MW_COMMIT_WHOLE, MW_COMMIT_TORN, MW_COMMIT_UNREADABLE };

/* `image` has room for mw_commit_record_bytes(extent_count) and is zeroed. */
void mw_commit_encode(const struct mw_commit_record *record,
                      const struct mw_commit_identity *identity, char *image);
/* Returns whole only if the checksum is right, and then sets *record.  *identity is set, and
 * *identified is true, also for a torn record whose identity is readable; a record of other
 * settings may have another size. */
enum mw_commit_state mw_commit_decode(const char *image, int64_t image_bytes,
                                      struct mw_commit_record *record,
                                      struct mw_commit_identity *identity, bool *identified);

/* Size of the record that this block begins, according to its header; 0 if no identity can be
 * read. */
int64_t mw_commit_header_bytes(const char *block);

/* Returns false with *error that names the extent. */
bool mw_commit_same_checksum(const struct mw_commit_extent *extent, uint64_t checksum,
                             GError **error);

/* --- commit.c --- */
const struct mw_commit_identity *mw_commit_identity(const struct mw_commit *commit);

/* --- exec/commit/file.c: the file with two slots --- */

struct mw_commit_file {
    char *path;
    int fd;
    int64_t slot_bytes;
    struct stat info;
    const struct mw_nvme_calls *calls;
};

bool mw_commit_file_open(struct mw_commit_file *file, const char *directory, const char *stem,
                         bool resume, GError **error);
/* Zeroed memory of a slot's size; free() it. */
char *mw_commit_image_new(int64_t bytes);
/* Writes out what the page cache has of the file, and drops it from the cache. */
bool mw_commit_file_forget(const struct mw_commit_file *file, GError **error);
/* Reads the whole slot, with O_DIRECT where the file system has it; elsewhere it bypasses the page
 * cache only if the file has been dropped from it.  A short file reads as zeros.  `image` begins at
 * a block's alignment. */
bool mw_commit_file_read(const struct mw_commit_file *file, int slot, char *image, GError **error);
/* Writes and makes durable. */
bool mw_commit_file_write(const struct mw_commit_file *file, int slot, const char *image,
                          int64_t bytes, GError **error);
/* Cuts the file after its second slot, whatever it was before. */
bool mw_commit_file_cut(const struct mw_commit_file *file, GError **error);
/* Makes the file's name durable. */
bool mw_commit_file_sync_directory(const struct mw_commit_file *file, GError **error);
void mw_commit_file_close(struct mw_commit_file *file);

/* --- exec/commit/slots.c: reads the slots --- */

struct mw_commit_slot {
    enum mw_commit_state state;
    struct mw_commit_record record;     /* of a whole slot */
    struct mw_commit_identity identity; /* valid if `identified` */
    bool identified;
    char *why; /* of a slot that is not readable; includes the file's name */
};

/* `image` has room for a slot.  The caller clears *slot, and may take `record` out of it first.  A
 * slot that the drive does not return is a state like the others: the other slot may be whole. */
void mw_commit_slot_read(const struct mw_commit_file *file, int index, char *image,
                         struct mw_commit_slot *slot);
void mw_commit_slot_clear(struct mw_commit_slot *slot);

struct mw_commit_slots {
    int64_t file_bytes, slot_bytes; /* a file has two slots, unless it was cut or extended */
    struct mw_commit_slot at[MW_COMMIT_SLOTS];
};

/* Records are always read this way: past the page cache, from which the file has been dropped.
 * What a short file lacks counts as zeros.  The caller clears *slots. */
void mw_commit_slots_load(const struct mw_commit_file *file, char *image,
                          struct mw_commit_slots *slots);
/* For a file that the caller has open, and whose run need not be here.  Slots are where their
 * headers stand, whatever the file's length.  calls NULL: those of the system.  The caller clears
 * *slots in either case. */
bool mw_commit_slots_read(int fd, const char *path, const struct mw_nvme_calls *calls,
                          struct mw_commit_slots *slots, GError **error);
void mw_commit_slots_clear(struct mw_commit_slots *slots);
/* The newest whole slot of a step before `before`, or NULL. */
const struct mw_commit_slot *mw_commit_slots_newest(const struct mw_commit_slots *slots,
                                                    int64_t before);
/* A line, to be freed, for the case that a step is taken from the whole slot and the other slot is
 * this one; NULL if there is nothing to say. */
char *mw_commit_slot_other(const char *path, const struct mw_commit_slot *whole,
                           const struct mw_commit_slot *other);
/* Returns false with *error, which says that neither slot is whole and what each of them is. */
bool mw_commit_slots_refuse(const struct mw_commit_slots *slots, const char *path, GError **error);
/* Loads the whole record of `step`, or the newest (-1), of such a file. */
bool mw_commit_load(int fd, const char *path, int64_t step, struct mw_commit_record *record,
                    struct mw_commit_identity *identity, GError **error);

#endif
