#include "tests/cuda/device_memory.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/forbid.h"

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

void *
mw_test_device_reserve(int64_t bytes)
{
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

void
mw_test_device_release(void *memory, int64_t bytes)
{
    munmap(memory, (size_t)bytes);
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
    mw_forbid(memory, (size_t)bytes);
}

void
mw_test_device_allow(const void *memory, int64_t bytes)
{
    mw_allow(memory, (size_t)bytes);
}
