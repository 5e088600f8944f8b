/*
 * safetensors_internal.h - shared by reading and writing; for exec/data/safetensors*.c alone.
 */
#ifndef MW_EXEC_DATA_SAFETENSORS_INTERNAL_H
#define MW_EXEC_DATA_SAFETENSORS_INTERNAL_H

#include "exec/data/safetensors.h"

#define MW_SAFETENSORS_LENGTH_BYTES 8 /* the header's length, before it */

/* Elements and bytes of tensor->shape; false where they do not fit int64. */
bool mw_safetensors_measure(struct mw_safetensor *tensor);
/* Whether elements [first, first + count) lie within the tensor. */
bool mw_safetensors_check_range(const struct mw_safetensor *tensor, const char *origin,
                                int64_t first, int64_t count, GError **error);

/* --- safetensors_sums.c --- */
#define MW_SAFETENSORS_SUM "memwall.xxh3." /* a key of the metadata, before the tensor's name */
char *mw_safetensors_sum_key(const struct mw_safetensor *tensor); /* g_free it, as the next */
char *mw_safetensors_sum_text(uint64_t sum);
/* The checksum of a tensor's bytes in the file. */
bool mw_safetensors_sum(int fd, const char *path, const struct mw_safetensor *tensor, uint64_t *sum,
                        GError **error);
/* A digest of names and checksums that does not depend on their order in the file. */
uint64_t mw_safetensors_digest_of(const struct mw_safetensor *const *tensors, size_t count);
bool mw_safetensors_take_sums(struct mw_safetensors_header *header, const char *origin,
                              GError **error);

/* --- safetensors.c --- */
int mw_safetensors_descriptor(const struct mw_safetensors *set, const struct mw_safetensor *tensor);

#endif
