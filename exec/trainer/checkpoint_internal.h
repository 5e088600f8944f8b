/* checkpoint_internal.h - what the files of the checkpoint share. */
#ifndef MW_EXEC_TRAINER_CHECKPOINT_INTERNAL_H
#define MW_EXEC_TRAINER_CHECKPOINT_INTERNAL_H

#include "exec/trainer/checkpoint.h"

#define MW_CHECKPOINT_MODEL "model.safetensors"
#define MW_CHECKPOINT_OPTIMIZER "optimizer.safetensors"
#define MW_CHECKPOINT_CONFIG "config.json"
#define MW_CHECKPOINT_MASTERS "fp32."
/* In metadata; fields as "NAME=VALUE NAME=VALUE", values in hexadecimal. */
#define MW_CHECKPOINT_STEP "memwall.step"
#define MW_CHECKPOINT_FIELDS "memwall.fields"
/* Of the optimizer's file: the digest of the weights that its state goes with, 16 hexadecimal
 * digits.  Older versions do not say it. */
#define MW_CHECKPOINT_WEIGHTS "memwall.weights"

/* Before a state's name: fp32 parameters in the model's file, momentum, variance. */
extern const char *const mw_checkpoint_prefixes[3];

/* --- checkpoint.c --- */
/* The content to write: of a run, or of what it has left on drives. */
struct mw_checkpoint_source {
    const struct mw_decoder *decoder;
    int64_t step;
    const struct mw_commit_field *fields;
    int field_count;
    uint32_t rank; /* this process, of those that write together */
    bool (*visit)(void *data, mw_trainer_visit visit, void *visit_data, GError **error);
    bool (*sum)(void *data, double *value, GError **error); /* over the ranks; they meet */
    void *data;
};
bool mw_checkpoint_write(const struct mw_checkpoint_source *source,
                         const struct mw_checkpoint_options *options, GError **error);

/* --- checkpoint_load.c --- */
/* The record that the metadata's texts say, cleared by mw_commit_record_clear in any case; false
 * with *error of `origin`. */
bool mw_checkpoint_parse(const char *step, const char *fields, const char *origin,
                         struct mw_commit_record *record, GError **error);

/* --- checkpoint_folder.c --- */
/* The check of mw_checkpoint_check, for existing content. */
bool mw_checkpoint_folder_check(const char *path, GError **error);
/* The whole path, with links resolved; to be freed. */
char *mw_checkpoint_folder_place(const char *path);
/* NULL: the content of PATH may be replaced.  Else why not, in words that follow PATH; g_free it.
 * *advice is what would be accepted. */
char *mw_checkpoint_folder_keeps(const char *path, const char **advice);
/* The folder that PATH is in, where it is gone. */
bool mw_checkpoint_folder_make_above(const char *path, GError **error);
/* A new, empty folder beside PATH, whose name nobody can foretell: PATH.part-NUMBER; g_free it.
 * It is kept from others until *lock is closed.  NULL with *error.  What processes of this
 * user that were killed have left beside it goes. */
char *mw_checkpoint_folder_begin(const char *path, uint64_t *number, int *lock, GError **error);
char *mw_checkpoint_folder_part(const char *path, uint64_t number); /* its name; g_free it */
/* It becomes PATH, durably; an old one is removed. */
bool mw_checkpoint_folder_commit(const char *path, const char *part, GError **error);
/* It becomes the first of mw_checkpoint_beside that is free, durably: g_free it.  NULL: *error. */
char *mw_checkpoint_folder_commit_beside(const char *path, const char *part, int64_t steps,
                                         GError **error);
/* The files of a checkpoint, where they are this user's, and itself. */
void mw_checkpoint_folder_remove(const char *path);

/* "PATH: WHAT: " and errno's words; false. */
bool mw_checkpoint_folder_fail(const char *path, const char *what, GError **error);
/* Also a link that names nothing. */
bool mw_checkpoint_folder_is_there(const char *path);
/* Whether a name is one that a save of BASE writes to. */
bool mw_checkpoint_folder_is_part(const char *name, const char *base);
/* Of this user's folder, until the descriptor is closed; -1 with errno, EWOULDBLOCK where a save is
 * at it. */
int mw_checkpoint_folder_lock(const char *path);
bool mw_checkpoint_folder_sync(const char *path, GError **error);
/* False with errno; EEXIST: the name is taken. */
bool mw_checkpoint_folder_rename_to_new(const char *part, const char *path);

/* --- checkpoint_replace.c --- */
/* PART, which is whole and durable, becomes PATH, which is a checkpoint until then; durably. */
bool mw_checkpoint_replace(const char *path, const char *part, GError **error);
/* Whether PART is whole, and PATH had stepped aside for it. */
bool mw_checkpoint_replace_awaits(const char *part);
/* PATH is a whole checkpoint, and `replaced` by one just now: what kills have left aside goes. */
void mw_checkpoint_replace_sweep(const char *path, bool replaced);

#endif
