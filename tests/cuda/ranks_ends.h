/* ranks_ends.h - ranks on GPUs made of threads that must end, and say why. */
#ifndef MW_TESTS_CUDA_RANKS_ENDS_H
#define MW_TESTS_CUDA_RANKS_ENDS_H

#include "exec/ranks/ranks.h"

/* What one of two ranks of a case is to say before they end: both in one line. */
struct ranks_end {
    const char *name, *message, *also; /* also: or NULL */
};
extern const struct ranks_end ranks_ends[]; /* a NULL name behind the last */

/* Exit status of a rank of the named case; 2: there is none. */
int ranks_end(const char *name, const char *directory);

#endif
