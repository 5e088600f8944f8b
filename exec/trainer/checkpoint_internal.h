/* checkpoint_internal.h - declarations that the files of the checkpoint share. */
#ifndef MW_EXEC_TRAINER_CHECKPOINT_INTERNAL_H
#define MW_EXEC_TRAINER_CHECKPOINT_INTERNAL_H

#include "exec/trainer/checkpoint.h"
#include "exec/trainer/vectors.h"
#include "plan/optimizers.h"

#define MW_CHECKPOINT_MODEL "model.safetensors"
#define MW_CHECKPOINT_OPTIMIZER "optimizer.safetensors"
#define MW_CHECKPOINT_CONFIG "config.json"
/* As PEFT calls them: the adapters of a model that has some. */
#define MW_CHECKPOINT_ADAPTERS "adapter_model.safetensors"
#define MW_CHECKPOINT_ADAPTER_CONFIG "adapter_config.json"
#define MW_CHECKPOINT_MASTERS "fp32."
/* Metadata keys.  Fields have the form "NAME=VALUE NAME=VALUE", with values in hexadecimal. */
#define MW_CHECKPOINT_STEP "memwall.step"
#define MW_CHECKPOINT_FIELDS "memwall.fields"
/* Key in the optimizer's file: the digest of the weights that its state belongs to, 16 hexadecimal
 * digits.  Older versions do not write it. */
#define MW_CHECKPOINT_WEIGHTS "memwall.weights"
#define MW_CHECKPOINT_ADAPTED "memwall.adapters" /* the same of the adapters */

/* Prefixes of a state's name: fp32 parameters in the model's file, momentum, variance. */
extern const char *const mw_checkpoint_prefixes[MW_KEPT_COUNT];

/* --- checkpoint.c --- */
/* The content to write: that of a run, or that which a run has left on drives. */
struct mw_checkpoint_source {
    const struct mw_decoder *decoder;
    int optimizer; /* enum mw_optimizer_kind */
    int64_t step;
    const struct mw_commit_field *fields;
    int field_count;
    const struct mw_vectors *vectors; /* of rows and columns; NULL: none */
    /* Their numbers, for the first rank; to be freed.  NULL with *error. */
    float *(*vector_values)(void *data, GError **error);
    uint32_t rank;      /* number of this process among those that write together, */
    uint32_t data_rank; /* and among those that hold the same part of the model */
    bool (*visit)(void *data, mw_trainer_visit visit, void *visit_data, GError **error);
    bool (*sum)(void *data, double *value, GError **error); /* sums over the ranks, which all call
                                                             * it */
    void *data;
};
bool mw_checkpoint_write(const struct mw_checkpoint_source *source,
                         const struct mw_checkpoint_options *options, GError **error);

/* --- checkpoint_load.c --- */
/* Parses the record in the metadata's texts.  The caller clears it with mw_commit_record_clear in
 * any case.  Returns false with *error, which names `origin`. */
bool mw_checkpoint_parse(const char *step, const char *fields, const char *origin,
                         struct mw_commit_record *record, GError **error);

/* --- checkpoint_folder.c --- */
/* The part of mw_checkpoint_check that examines existing content. */
bool mw_checkpoint_folder_check(const char *path, GError **error);
/* The full path with links resolved, to be freed. */
char *mw_checkpoint_folder_place(const char *path);
/* Returns NULL if the content of PATH may be replaced.  Otherwise returns why not, in words that
 * follow PATH, to be g_freed; *advice says what would be accepted. */
char *mw_checkpoint_folder_keeps(const char *path, const char **advice);
/* Makes the folder that PATH is in, if it is gone. */
bool mw_checkpoint_folder_make_above(const char *path, GError **error);
/* Makes a new, empty folder beside PATH with an unpredictable name, PATH.part-NUMBER, to be
 * g_freed. No other process may use it until *lock is closed.  Returns NULL with *error.  Removes
 * what killed processes of this user have left beside it. */
char *mw_checkpoint_folder_begin(const char *path, uint64_t *number, int *lock, GError **error);
char *mw_checkpoint_folder_part(const char *path, uint64_t number); /* the folder's name; g_free
                                                                     * it */
/* Makes the folder PATH, durably, and removes an old one. */
bool mw_checkpoint_folder_commit(const char *path, const char *part, GError **error);
/* Makes the folder the first free name of mw_checkpoint_beside, durably, and returns the name, to
 * be g_freed.  Returns NULL with *error on failure. */
char *mw_checkpoint_folder_commit_beside(const char *path, const char *part, int64_t steps,
                                         GError **error);
/* Removes the checkpoint's files that are this user's, and the folder. */
void mw_checkpoint_folder_remove(const char *path);

/* Sets *error to "PATH: WHAT: " and errno's text, and returns false. */
bool mw_checkpoint_folder_fail(const char *path, const char *what, GError **error);
/* Also true for a link that names nothing. */
bool mw_checkpoint_folder_is_there(const char *path);
/* Whether a save of BASE writes to folders of this name. */
bool mw_checkpoint_folder_is_part(const char *name, const char *base);
/* Locks this user's folder until the descriptor is closed.  Returns -1 with errno, which is
 * EWOULDBLOCK if a save uses the folder. */
int mw_checkpoint_folder_lock(const char *path);
bool mw_checkpoint_folder_sync(const char *path, GError **error);
/* Returns false with errno, which is EEXIST if the name is taken. */
bool mw_checkpoint_folder_rename_to_new(const char *part, const char *path);

/* --- checkpoint_replace.c --- */
/* Makes PART, which is whole and durable, replace the checkpoint at PATH, durably. */
bool mw_checkpoint_replace(const char *path, const char *part, GError **error);
/* Whether PART is whole and PATH had been renamed to make way for it. */
bool mw_checkpoint_replace_awaits(const char *part);
/* Removes what killed saves have set aside.  PATH is a whole checkpoint; `replaced`: it has just
 * been replaced. */
void mw_checkpoint_replace_sweep(const char *path, bool replaced);

#endif
