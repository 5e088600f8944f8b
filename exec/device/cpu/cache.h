/* cache.h - the processor's last cache, and which results go past it. */
#ifndef MW_EXEC_DEVICE_CPU_CACHE_H
#define MW_EXEC_DEVICE_CPU_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* Of the largest cache that the first core reaches; 32 MiB where the kernel does not tell. */
int64_t mw_cpu_last_cache_bytes(void);

/* A result of so many bytes, none of which was read before, would not stay in the caches until it
 * is read: written past them its lines need not be read first. false too where `result` is not
 * aligned to 64 bytes. */
bool mw_cpu_streams(const void *result, int64_t bytes);

/* For tests: as if the last cache had so many bytes; 0: what it has.  While no kernel runs. */
void mw_cpu_last_cache_assume(int64_t bytes);

#endif
