/* verify_internal.h - declarations that the files of mw_verify share; not for others. */
#ifndef MW_EXEC_TRAINER_VERIFY_INTERNAL_H
#define MW_EXEC_TRAINER_VERIFY_INTERNAL_H

#include "exec/commit/extents.h"
#include "exec/trainer/verify.h"

#define MW_VERIFY_RANKS_MAX 65536

/* One rank: its record, with a shared lock, and its data while that is read. */
struct mw_verify_rank {
    char *stem, *path; /* path: that of the record */
    int fd;
    struct mw_commit_slots slots;
    const struct mw_commit_identity *identity; /* of the last slot that has an identity; NULL if
                                                * neither has */
    struct mw_extents extents;
};

/* --- verify_data.c --- */
enum mw_verify_state { MW_VERIFY_WHOLE, MW_VERIFY_DAMAGED, MW_VERIFY_MISSING };

/* Unless the extent is whole, adds its ranges to `damage`.  If a file does not exist, all of its
 * part is missing. */
enum mw_verify_state mw_verify_extent(const struct mw_verify_options *options,
                                      const struct mw_verify_rank *rank,
                                      const struct mw_commit_extent *extent, GPtrArray *damage);
void mw_verify_damage_free(void *damage);

#endif
