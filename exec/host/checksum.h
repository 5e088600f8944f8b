/*
 * checksum.h - XXH3 with 64 bits, by the vectors that the processor has: of pages on drives, of
 * extents and their records, of tensors in files.  The same number on every processor.
 */
#ifndef MW_EXEC_HOST_CHECKSUM_H
#define MW_EXEC_HOST_CHECKSUM_H

#include <stdint.h>

uint64_t mw_checksum(const void *data, int64_t bytes);

/* Of what comes in pieces, whatever their lengths. */
struct mw_checksum;
struct mw_checksum *mw_checksum_begin(void);
void mw_checksum_add(struct mw_checksum *sum, const void *data, int64_t bytes);
/* Frees it. */
uint64_t mw_checksum_end(struct mw_checksum *sum);

#endif
