#include "tests/cuda/device_memory.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#define ALIGNMENT 256

const char *
mw_test_device_name(void)
{
    return "cuda-emulated";
}

const char *
mw_test_device_missing(void)
{
    return NULL;
}

void *
mw_test_device_alloc(int64_t bytes)
{
    size_t rounded = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, rounded);

    if (!memory)
        g_error("no memory for %" G_GINT64_FORMAT " bytes", bytes);
    return memory;
}

void
mw_test_device_free(void *memory)
{
    free(memory);
}

void
mw_test_device_write(void *to, const void *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}

void
mw_test_device_read(void *to, const void *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}

void
mw_test_device_forbid(const void *memory, int64_t bytes)
{
    ASAN_POISON_MEMORY_REGION(memory, (size_t)bytes);
}

void
mw_test_device_allow(const void *memory, int64_t bytes)
{
    ASAN_UNPOISON_MEMORY_REGION(memory, (size_t)bytes);
}
