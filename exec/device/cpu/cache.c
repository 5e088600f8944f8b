#include "exec/device/cpu/cache.h"

#include <pthread.h>
#include <stdio.h>

#define INDICES 8
#define UNKNOWN_BYTES (INT64_C(32) << 20)

static struct {
    pthread_once_t once;
    int64_t bytes, assumed_bytes;
} last = {.once = PTHREAD_ONCE_INIT};

/* As the kernel tells it, for processors under a hypervisor name the caches of the whole host. */
static void
find_last(void)
{
    for (int index = 0; index < INDICES; index++) {
        char path[80];
        long long kibibytes;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fscanf(file, "%lldK", &kibibytes) == 1 && kibibytes * 1024 > last.bytes)
            last.bytes = kibibytes * 1024;
        fclose(file);
    }
    if (last.bytes == 0)
        last.bytes = UNKNOWN_BYTES;
}

int64_t
mw_cpu_last_cache_bytes(void)
{
    pthread_once(&last.once, find_last);
    return last.assumed_bytes > 0 ? last.assumed_bytes : last.bytes;
}

void
mw_cpu_last_cache_assume(int64_t bytes)
{
    last.assumed_bytes = bytes;
}

bool
mw_cpu_streams(const void *result, int64_t bytes)
{
    return ((uintptr_t)result & 63) == 0 && bytes > mw_cpu_last_cache_bytes();
}
