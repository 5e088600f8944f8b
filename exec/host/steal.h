/*
 * steal.h - time that a hypervisor took from this machine's cores, as Linux counts it: the eighth
 * figure of the first line of /proc/stat (proc(5)), in ticks of a hundredth of a second, as a rule.
 * What is shorter than some ticks is not seen.
 */
#ifndef MW_EXEC_HOST_STEAL_H
#define MW_EXEC_HOST_STEAL_H

#include <stdbool.h>

struct mw_steal {
    bool told;      /* false: the system does not say */
    double seconds; /* of all cores together, since the start of the system */
    int cores;      /* that it counts */
};

void mw_steal_read(struct mw_steal *steal);
/* Seconds from one to the other, of all cores together; 0 where it is not told. */
double mw_steal_s(const struct mw_steal *before, const struct mw_steal *after);
/* Whether so much is more than a measurement bears: over a hundredth of the time of all cores. */
bool mw_steal_disturbs(double stolen_s, double elapsed_s, int cores);
/* For tests: another file; NULL: /proc/stat.  Borrowed. */
void mw_steal_set_path(const char *path);

#endif
