/*
 * steal.h - time that a hypervisor took from this machine's cores, as Linux counts it: the eighth
 * figure of the first line of /proc/stat (proc(5)), as a rule in ticks of a hundredth of a second.
 * Times shorter than a few ticks do not show.
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
/* Seconds stolen between the two, of all cores together; 0 where the system does not say. */
double mw_steal_s(const struct mw_steal *before, const struct mw_steal *after);
/* Whether so much stolen time disturbs a measurement: over a hundredth of the time of all cores. */
bool mw_steal_disturbs(double stolen_s, double elapsed_s, int cores);
/* For tests: another file; NULL: /proc/stat.  Borrowed. */
void mw_steal_set_path(const char *path);

#endif
