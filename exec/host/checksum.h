/*
 * checksum.h - XXH3 checksums of 64 bits: of pages on drives, of extents and their records, of
 * tensors in files.  They are computed with the processor's vector instructions, and are the same
 * on every processor.
 */
#ifndef MW_EXEC_HOST_CHECKSUM_H
#define MW_EXEC_HOST_CHECKSUM_H

#include <stdint.h>

uint64_t mw_checksum(const void *data, int64_t bytes);

/* Of data that comes in pieces of any length. */
struct mw_checksum;
struct mw_checksum *mw_checksum_begin(void);
void mw_checksum_add(struct mw_checksum *sum, const void *data, int64_t bytes);
/* Frees it. */
uint64_t mw_checksum_end(struct mw_checksum *sum);

#endif
