/* verify_internal.h - what the files of mw_verify share; not for others. */
#ifndef MW_EXEC_VERIFY_INTERNAL_H
#define MW_EXEC_VERIFY_INTERNAL_H

#include "exec/commit_internal.h"
#include "exec/nvme_internal.h"
#include "exec/verify.h"

#define MW_VERIFY_SLOT_BYTES_MAX ((int64_t)1 << 30)
#define MW_VERIFY_RANKS_MAX 65536

/* Of one rank: its record, with a shared lock, and its data while that is read. */
struct mw_verify_rank {
    char *stem;
    struct mw_commit_file file;
    enum mw_commit_state states[2];
    struct mw_commit_record records[2];
    struct mw_commit_identity identity;
    bool identified;

    struct mw_nvme_layout layout;
    int drives;
    struct {
        char *path, *missing; /* missing: why it cannot be read; or NULL */
        int fd;
    } data[MW_NVME_DRIVES_MAX];
};

/* --- verify_data.c --- */
/* A file that is not there is damage of all that it had. */
bool mw_verify_open_data(const struct mw_verify_options *options, struct mw_verify_rank *rank,
                         GError **error);
void mw_verify_close_data(struct mw_verify_rank *rank);
/* False: its ranges are added to `damage`. */
bool mw_verify_extent(const struct mw_verify_options *options, const struct mw_verify_rank *rank,
                      const struct mw_commit_extent *extent, GPtrArray *damage);
void mw_verify_damage_free(void *damage);

#endif
