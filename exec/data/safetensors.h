/*
 * safetensors.h - reads and writes weights in Hugging Face's safetensors files, in parts.
 *
 * A file: the header's length (uint64, little-endian), the header (a JSON object: tensor name ->
 * dtype, shape, [begin, end) of its bytes after the header; "__metadata__" -> strings), the
 * tensors' bytes, row-major, little-endian.  A *set* is one file, or the files that a
 * model.safetensors.index.json names.
 *
 * The reader is strict: every byte after the header belongs to exactly one tensor, no name
 * comes twice, sizes agree with shapes.  Errors are one line: file, tensor, what is wrong, what
 * would be accepted.
 */
#ifndef MW_EXEC_DATA_SAFETENSORS_H
#define MW_EXEC_DATA_SAFETENSORS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

#define MW_SAFETENSORS_RANK_MAX 8

enum mw_safetensors_dtype {
    MW_SAFETENSORS_F32,
    MW_SAFETENSORS_F16,
    MW_SAFETENSORS_BF16, /* the three that mw_safetensors_read converts */
    MW_SAFETENSORS_F64,
    MW_SAFETENSORS_I64,
    MW_SAFETENSORS_I32,
    MW_SAFETENSORS_I16,
    MW_SAFETENSORS_I8,
    MW_SAFETENSORS_U64,
    MW_SAFETENSORS_U32,
    MW_SAFETENSORS_U16,
    MW_SAFETENSORS_U8,
    MW_SAFETENSORS_BOOL,
    MW_SAFETENSORS_F8_E5M2,
    MW_SAFETENSORS_F8_E4M3,
    MW_SAFETENSORS_DTYPE_COUNT
};

struct mw_safetensor {
    char *name;
    enum mw_safetensors_dtype dtype;
    int rank;
    int64_t shape[MW_SAFETENSORS_RANK_MAX];
    int64_t elements;
    int64_t offset_bytes; /* from the file's begin */
    int64_t size_bytes;
    int file;     /* number within its set */
    bool has_sum; /* as all of its file, or none */
    uint64_t sum; /* XXH3 of its bytes, as the metadata says */
};

const char *mw_safetensors_dtype_name(enum mw_safetensors_dtype dtype);
int64_t mw_safetensors_dtype_bytes(enum mw_safetensors_dtype dtype);
/* "[2, 3]"; g_free it. */
char *mw_safetensors_shape_text(const int64_t *shape, int rank);

/* --- one file's header ----------------------------------------------------------------------- */

struct mw_safetensors_header {
    struct mw_safetensor *tensors; /* in the order of their bytes */
    size_t tensor_count;
    GHashTable *metadata; /* char * -> char *; never NULL */
};

/* `bytes` holds the file's first `length` bytes, the whole header among them; the whole file has
 * `file_bytes`.  NULL with `error` set where the file is not in order. */
struct mw_safetensors_header *mw_safetensors_header_parse(const void *bytes, size_t length,
                                                          int64_t file_bytes, const char *origin,
                                                          GError **error);
void mw_safetensors_header_free(struct mw_safetensors_header *header); /* NULL is allowed */

/* --- reading --------------------------------------------------------------------------------- */

struct mw_safetensors;

/* `path`: a .safetensors file, a .json index beside its files, or a folder that holds
 * model.safetensors or model.safetensors.index.json. */
struct mw_safetensors *mw_safetensors_open(const char *path, GError **error);
void mw_safetensors_close(struct mw_safetensors *set); /* NULL is allowed */

const char *mw_safetensors_path(const struct mw_safetensors *set); /* of the set, for messages */
const char *mw_safetensors_file(const struct mw_safetensors *set,
                                const struct mw_safetensor *tensor);
size_t mw_safetensors_count(const struct mw_safetensors *set);
const struct mw_safetensor *mw_safetensors_at(const struct mw_safetensors *set, size_t index);
const struct mw_safetensor *mw_safetensors_find(const struct mw_safetensors *set, const char *name);
/* Metadata of the set's first file; NULL if the key is absent. */
const char *mw_safetensors_metadata(const struct mw_safetensors *set, const char *key);

/* Whether the file has a checksum for each tensor, as files written here have. */
bool mw_safetensors_has_sums(const struct mw_safetensors *set);
/* A digest of all names and checksums, which the set must have.  It does not depend on their order.
 */
uint64_t mw_safetensors_digest(const struct mw_safetensors *set);
/* The same if there are checksums; else a digest of the names and of the first bytes of each
 * tensor, which this reads.  It tells sets apart, but does not cover every byte. */
bool mw_safetensors_sample(const struct mw_safetensors *set, uint64_t *digest, GError **error);
/* Reads every `parts`-th tensor that has a checksum, from `part` on, and compares; the error names
 * file and tensor. */
bool mw_safetensors_verify(const struct mw_safetensors *set, size_t part, size_t parts,
                           GError **error);

/* Elements [first, first + count) of an F32, F16 or BF16 tensor, as MW_DTYPE_BF16, MW_DTYPE_FP16
 * (uint16_t) or MW_DTYPE_FP32 (float), rounded to nearest even.  Reads no other bytes of the file;
 * may be called from several threads. */
bool mw_safetensors_read(const struct mw_safetensors *set, const struct mw_safetensor *tensor,
                         int64_t first, int64_t count, enum mw_dtype as, void *out, GError **error);
/* The same elements as they are in the file, any dtype. */
bool mw_safetensors_read_raw(const struct mw_safetensors *set, const struct mw_safetensor *tensor,
                             int64_t first, int64_t count, void *out, GError **error);

/* --- writing --------------------------------------------------------------------------------- */

/*
 * declare every tensor, begin, write ranges in any order, commit.  Until the commit all is in
 * PATH.part; the commit makes it durable and renames it, so that PATH is always a whole file,
 * the old or the new.  It reads back what was written, and the metadata has the checksum of each
 * tensor: "memwall.xxh3.NAME", 16 hexadecimal digits.  Several ranks write one file: all declare
 * the same, one begins, the others attach after it, one commits after all others have synced.
 */
struct mw_safetensors_writer;

struct mw_safetensors_writer *mw_safetensors_writer_new(const char *path);
/* Without a commit before it, removes what `begin` made.  NULL is allowed. */
void mw_safetensors_writer_free(struct mw_safetensors_writer *writer);

/* Into __metadata__: before `begin`; or once more before the commit, a value of the same length. */
void mw_safetensors_describe(struct mw_safetensors_writer *writer, const char *key,
                             const char *value);
bool mw_safetensors_declare(struct mw_safetensors_writer *writer, const char *name,
                            enum mw_safetensors_dtype dtype, const int64_t *shape, int rank,
                            GError **error);
/* The length that the file would have.  Makes no file; only a free may follow. */
bool mw_safetensors_plan(struct mw_safetensors_writer *writer, int64_t *bytes, GError **error);
/* Makes the file at its full size: a file system that is too full says so here. */
bool mw_safetensors_begin(struct mw_safetensors_writer *writer, GError **error);
bool mw_safetensors_attach(struct mw_safetensors_writer *writer, GError **error);
/* `values` are in the tensor's own dtype. */
bool mw_safetensors_write(struct mw_safetensors_writer *writer, const char *name, int64_t first,
                          int64_t count, const void *values, GError **error);
bool mw_safetensors_sync(struct mw_safetensors_writer *writer, GError **error);
int64_t mw_safetensors_written_bytes(const struct mw_safetensors_writer *writer);
/* Fails unless this writer and the others (`written_bytes` is their sum) wrote every byte. */
bool mw_safetensors_commit(struct mw_safetensors_writer *writer, int64_t others_bytes,
                           GError **error);
/* After the commit: mw_safetensors_digest of the file that was written. */
uint64_t mw_safetensors_written_digest(const struct mw_safetensors_writer *writer);

#endif
