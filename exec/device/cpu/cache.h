/* cache.h - the processor's last cache, and which results go past it. */
#ifndef MW_EXEC_DEVICE_CPU_CACHE_H
#define MW_EXEC_DEVICE_CPU_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* Size of the largest cache that the first core reaches; 32 MiB where Linux does not say. */
int64_t mw_cpu_last_cache_bytes(void);

/* Whether a result of this many bytes, none of which was read before, is too large to stay in the
 * caches until it is read: written past the caches, its lines need not be read first.  False too if
 * `result` is not aligned to 64 bytes. */
bool mw_cpu_streams(const void *result, int64_t bytes);

/* For tests: pretends that the last cache has this size; 0: its real size.  Only while no kernel
 * runs. */
void mw_cpu_last_cache_assume(int64_t bytes);

#endif
