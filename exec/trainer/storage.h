/*
 * storage.h - the memory of a run: an arena for each tier, in which every slot has the place that
 * its plan gives it, and moves from one slot to another.  All variants of a step share the arenas.
 */
#ifndef MW_EXEC_TRAINER_STORAGE_H
#define MW_EXEC_TRAINER_STORAGE_H

#include "exec/device/backend.h"
#include "exec/memory/memory.h"
#include "exec/nvme/nvme.h"
#include "plan/variants.h"

struct mw_storage {
    const struct mw_variants *variants; /* borrowed */
    const struct mw_plan *plan;         /* the variant whose slots are used */
    const struct mw_backend *backend;
    void *device; /* the backend's device */
    char *device_memory;
    struct mw_arena host;
    struct mw_nvme *nvme; /* NULL if no variant has slots there */
    struct mw_arena sums; /* the tier's checksums of pages */
    uint32_t *stands_for; /* [the largest slot_count]: the slot whose place it has now; committed
                           * state alternates between two */
};

/* Opens the backend and reserves as much host memory as the largest variant needs.  Slots are those
 * of the first variant until plan is set.  Returns false with *error and nothing open. */
bool mw_storage_open(struct mw_storage *storage, const struct mw_variants *variants,
                     const struct mw_backend *backend, const struct mw_backend_options *device,
                     GError **error);
/* Opens the drives if there are slots there.  Their reads are checked if `drives` says whose the
 * bytes are. */
bool mw_storage_open_drives(struct mw_storage *storage, const struct mw_nvme_options *drives,
                            GError **error);
void mw_storage_close(struct mw_storage *storage); /* a zeroed struct is allowed */

/* Makes the device reach an arena too.  Unpin it before it is released.  Unpinning an arena that is
 * not pinned does nothing. */
bool mw_storage_pin(const struct mw_storage *storage, struct mw_arena *arena, GError **error);
void mw_storage_unpin(const struct mw_storage *storage, struct mw_arena *arena);

/* Bytes reserved in a tier for the variants' slots: as much as the largest variant needs, plus only
 * the rounding to pages, and on drives to stripes. */
int64_t mw_storage_reserved_bytes(const struct mw_storage *storage, enum mw_tier tier);

/* Address of a byte of a slot in device or host memory. */
void *mw_storage_address(const struct mw_storage *storage, uint32_t slot, int64_t at_bytes);

struct mw_place {
    uint32_t slot;
    int64_t at_bytes;
};

/* One copy, between any two tiers, but not from drive to drive. */
struct mw_move {
    struct mw_place from, to;
    int64_t bytes;
};

/* Makes `count` moves; all that read or write drives are in flight at once.  Bytes on drives are
 * rounded up to whole pages, for which the plan's strides leave room. */
bool mw_storage_move(struct mw_storage *storage, const struct mw_move *moves, int64_t count,
                     GError **error);

/* Starts moves that all read or write drives.  `done` is called once, from any thread, when they
 * are done and the caller has let go.  It gets the first error, which it owns, or NULL. */
struct mw_transfers;
typedef void (*mw_transfers_done)(void *data, GError *error);
struct mw_transfers *mw_storage_begin_moves(struct mw_storage *storage, const struct mw_move *moves,
                                            int64_t count, mw_transfers_done done, void *data);
void mw_transfers_let_go(struct mw_transfers *transfers);

#endif
