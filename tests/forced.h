/* forced.h - tests under a forced instruction set (MEMWALL_ISA) that not every machine has. */
#ifndef MW_TESTS_FORCED_H
#define MW_TESTS_FORCED_H

#include <stdio.h>

#include "exec/device/cpu/kernels.h"

/* Whether nothing can be tested here, which is said in TAP. */
static inline bool
forced_elsewhere(void)
{
    if (mw_cpu_isa_refusal())
        printf("1..0 # SKIP %s\n", mw_cpu_isa_refusal());
    return mw_cpu_isa_refusal() != NULL;
}

#endif
