/* bench.h - what benchmarks of kernels share: a clock, memory, and the middle of what was measured.
 */
#ifndef MW_TESTS_BENCH_H
#define MW_TESTS_BENCH_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds of the team's processor time instead of the clock's: beside other programs. */
extern bool bench_by_cpu_time;

double bench_now_s(void);
int bench_team(void);

/* Huge pages where the system gives them, not yet touched; free().  Ends the program where there is
 * no memory. */
void *bench_buffer(int64_t bytes);

/* Seconds in which the team copies n floats past the caches, so that no line is read before it is
 * written: 8 bytes each. */
double bench_copy_s(float *to, const float *from, int64_t n);

struct bench_spread {
    double low, median, high; /* low and high are quartiles */
};

/* Sorts. */
struct bench_spread bench_spread_of(double *values, int64_t count);
double bench_median(double *values, int64_t count);

#endif
