/*
 * safetensors_internal.h - what reading and writing share; for exec/safetensors*.c alone.
 */
#ifndef MW_EXEC_SAFETENSORS_INTERNAL_H
#define MW_EXEC_SAFETENSORS_INTERNAL_H

#include "exec/safetensors.h"

#define MW_SAFETENSORS_LENGTH_BYTES 8 /* the header's length, before it */

/* Elements and bytes of tensor->shape; false where they do not fit int64. */
bool mw_safetensors_measure(struct mw_safetensor *tensor);
/* [first, first + count) lies in the tensor. */
bool mw_safetensors_check_range(const struct mw_safetensor *tensor, const char *origin,
                                int64_t first, int64_t count, GError **error);

#endif
