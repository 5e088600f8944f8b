/* pages.h - drives, records and slots are read and written in whole pages. */
#ifndef MW_EXEC_MEMORY_PAGES_H
#define MW_EXEC_MEMORY_PAGES_H

#include <stdint.h>

enum { MW_PAGE_BYTES = 4096 };

/* This many bytes, rounded up to whole pages; bytes >= 0. */
static inline int64_t
mw_in_pages(int64_t bytes)
{
    return (bytes + MW_PAGE_BYTES - 1) / MW_PAGE_BYTES * MW_PAGE_BYTES;
}

#endif
