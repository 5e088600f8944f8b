/*
 * checkpoint.h - weights and optimizer state in safetensors files, free of placement and ranks.
 *
 * A checkpoint is a folder:
 *   model.safetensors      the parameters, by their names at Hugging Face
 *   optimizer.safetensors  "exp_avg.NAME" and "exp_avg_sq.NAME" where the optimizer keeps them, in
 *                          fp32 whatever they were in; "fp32.NAME" too where the parameters are
 *                          written in 16 bits
 *                          and of optimizers by rows and columns their vectors, by the prefixes of
 *                          plan/optimizers.c before the names
 *   config.json            if given
 *   adapter_model.safetensors, adapter_config.json
 *                          of a model with adapters: these, as PEFT reads them; not in the first
 * The metadata of both has the step and the fields of a commit record; that of the second a digest
 * of the first, so that files of two trainings are not taken for one.
 * Without the second it is weights for others.  PATH is at any time a whole checkpoint, the old one
 * or the new one: both are written as PATH.part-NUMBER and renamed.  A file system that does not
 * exchange two folders has none at PATH for an instant: mw_checkpoint_recover.
 */
#ifndef MW_EXEC_TRAINER_CHECKPOINT_H
#define MW_EXEC_TRAINER_CHECKPOINT_H

#include "exec/data/weights.h"
#include "exec/trainer/trainer.h"
#include "exec/trainer/vectors.h"

struct mw_checkpoint_options {
    const char *path; /* a folder that does not exist yet, is empty, or holds a checkpoint */
    enum mw_safetensors_dtype dtype; /* type of the parameters: F32 or BF16 */
    bool optimizer;                  /* write the optimizer's state, so that training can continue
                                      * from it */
    const char *config;              /* text of config.json; NULL: none */
    const char *adapter_config;      /* text of adapter_config.json; NULL: none */

    /* Called once everything is written.  Returns why the content of PATH, which may have changed
     * since, must not be replaced by a checkpoint of this many steps, to be g_freed; NULL if it
     * may.  If it must not be replaced, or if PATH holds files that no checkpoint has, it stays,
     * and the new checkpoint becomes the first free name of mw_checkpoint_beside.  A missing folder
     * above PATH is created.  If `keeps` is NULL, anything but a checkpoint is an error. */
    char *(*keeps)(const char *path, int64_t steps, void *data);
    void *data;
    struct mw_checkpoint_place *place; /* the first rank sets it; NULL: not needed */
};

/* Where the checkpoint was put, if not at PATH; both are NULL if it is at PATH.
 * mw_checkpoint_place_clear. */
struct mw_checkpoint_place {
    char *path;
    char *why; /* why the content of PATH stays, in words that follow PATH */
};
void mw_checkpoint_place_clear(struct mw_checkpoint_place *place);

/* Repairs a save that was killed at the moment when PATH did not exist.  Moves the new checkpoint,
 * which is whole, to PATH, or else the old one.  *said is a line about it, to be g_freed, or NULL.
 * Call it before examining PATH.  Returns false with *error, which names both, if the system
 * refuses. */
bool mw_checkpoint_recover(const char *path, char **said, GError **error);

/* Whether a checkpoint can be written there; ask before a long run.  A folder is made beside PATH,
 * and removed. */
bool mw_checkpoint_check(const char *path, GError **error);
/* Whether a checkpoint of the decoder, in fp32 and with AdamW's state, has room there, as far as
 * the file system and the limit on a file's size tell. */
bool mw_checkpoint_check_space(const char *path, const struct mw_decoder *decoder, GError **error);

/* Whether a file of this name is, or would be, part of a checkpoint in the folder that also has the
 * optimizer's state. */
bool mw_checkpoint_has_file(const char *folder, const char *name);

/* What is at PATH and would be replaced by a save. */
enum mw_checkpoint_found {
    MW_CHECKPOINT_NONE,
    MW_CHECKPOINT_FITS,       /* a checkpoint of a decoder like this one; *step is its last step,
                               * from 0 */
    MW_CHECKPOINT_OTHER,      /* a checkpoint of another decoder; *error says where they differ */
    MW_CHECKPOINT_UNREADABLE, /* files of a checkpoint are there; *error says what is wrong with
                               * them */
};
enum mw_checkpoint_found mw_checkpoint_look(const char *path, const struct mw_decoder *decoder,
                                            int64_t *step, GError **error);

/* A folder for the checkpoint beside PATH, with links resolved: PATH-stepSTEPS, and from number 2
 * on PATH-stepSTEPS-NUMBER.  g_free it. */
char *mw_checkpoint_beside(const char *path, int64_t steps, int number);

/* Call it between runs, in all ranks together; all must see one file system.  It leaves out
 * gradients of the last step that a delayed update has not yet used. */
bool mw_checkpoint_save(struct mw_trainer *trainer, const struct mw_checkpoint_options *options,
                        GError **error);

struct mw_checkpoint;

/* Returns NULL with *error if the checkpoint does not exist, has no optimizer state or another
 * model, if its two files are not of one save, or if fields are out of range. */
struct mw_checkpoint *mw_checkpoint_open(const char *path, const struct mw_decoder *decoder,
                                         GError **error);
void mw_checkpoint_close(struct mw_checkpoint *checkpoint); /* NULL is allowed */

/* As mw_safetensors_verify and mw_safetensors_has_sums, for all its files. */
bool mw_checkpoint_verify(const struct mw_checkpoint *checkpoint, size_t part, size_t parts,
                          GError **error);
bool mw_checkpoint_has_sums(const struct mw_checkpoint *checkpoint);
/* Whether its files say that they belong together; those of older versions do not. */
bool mw_checkpoint_is_bound(const struct mw_checkpoint *checkpoint);

/* As mw_safetensors_sample, for its files and its record. */
bool mw_checkpoint_sample(const struct mw_checkpoint *checkpoint, uint64_t *digest, GError **error);

/* The file that has the record, for messages. */
const char *mw_checkpoint_file(const struct mw_checkpoint *checkpoint);

/* The last step, and the fields; all are within their ranges. */
const struct mw_commit_record *mw_checkpoint_record(const struct mw_checkpoint *checkpoint);

/* The optimizer whose state it has. */
int mw_checkpoint_optimizer(const struct mw_checkpoint *checkpoint);

/* Reads elements of a part, as in exec/data/weights.h, of a state that its optimizer keeps (enum
 * mw_kept).  The decoder is the checkpoint's or a slice of it. */
bool mw_checkpoint_read(const struct mw_checkpoint *checkpoint, const struct mw_decoder *decoder,
                        int state, const struct mw_weights_part *part, int64_t first, int64_t count,
                        enum mw_dtype as, void *out, GError **error);
/* Reads the vectors of rows and columns that its optimizer keeps. */
bool mw_checkpoint_read_vectors(const struct mw_checkpoint *checkpoint,
                                const struct mw_vectors *vectors, float *values, GError **error);

#endif
