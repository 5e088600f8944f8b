/*
 * forbid.h - host memory that nobody may touch, until it is allowed again: the address sanitizer
 * sees who does; without it nothing happens.
 */
#ifndef MW_TESTS_FORBID_H
#define MW_TESTS_FORBID_H

#include <stddef.h>

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

static inline void
mw_forbid(const void *memory, size_t bytes)
{
    ASAN_POISON_MEMORY_REGION(memory, bytes);
}

static inline void
mw_allow(const void *memory, size_t bytes)
{
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
}

#endif
