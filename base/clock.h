/*
 * clock.h - the time that intervals are measured by: since the system's start, never back.  Safe in
 * handlers of signals.
 */
#ifndef MW_BASE_CLOCK_H
#define MW_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
mw_clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

#endif
