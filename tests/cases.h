/*
 * cases.h - of many cases that differ in their figures alone, those that this build goes through:
 * all, or one in so many where each takes several times longer, under the sanitizers (-Dcases).
 * Standard error says so.
 */
#ifndef MW_TESTS_CASES_H
#define MW_TESTS_CASES_H

#include <stdio.h>

#include "config.h"

#define MW_CASES(all) MW_CASES_ONE_IN(4, all)
/* From a case of a list to the next. */
#define MW_CASES_STEP (MW_FEW_CASES ? 4 : 1)

#if MW_FEW_CASES
#define MW_CASES_ONE_IN(share, all) ((all) / (share))

static void __attribute__((constructor)) mw_cases_say(void)
{
    fputs("few of the cases that differ in their figures alone; -Dcases=all: all\n", stderr);
}
#else
#define MW_CASES_ONE_IN(share, all) (all)
#endif

#endif
