#include "tests/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if defined(_OPENMP)
#include <omp.h>
#endif

#define PIECE 4096 /* elements of a copy */

bool bench_by_cpu_time;

int
bench_team(void)
{
#if defined(_OPENMP)
    return omp_get_max_threads();
#else
    return 1;
#endif
}

double
bench_now_s(void)
{
    struct timespec t;

    clock_gettime(bench_by_cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec) / (bench_by_cpu_time ? bench_team() : 1);
}

void *
bench_buffer(int64_t bytes)
{
    size_t huge = (size_t)2 << 20, rounded = ((size_t)bytes + huge - 1) / huge * huge;
    void *p = aligned_alloc(huge, rounded);

    if (p == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", rounded);
        exit(1);
    }
    madvise(p, rounded, MADV_HUGEPAGE);
    return p;
}

double
bench_copy_s(float *to, const float *from, int64_t n)
{
    double start_s = bench_now_s();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = n - i < PIECE ? n - i : PIECE;
#if defined(__SSE2__)
        for (int64_t j = i; j + 4 <= i + count; j += 4)
            _mm_stream_ps(to + j, _mm_load_ps(from + j));
#else
        memcpy(to + i, from + i, (size_t)count * sizeof *to);
#endif
    }
    return bench_now_s() - start_s;
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct bench_spread
bench_spread_of(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (struct bench_spread){values[count / 4],
                                 (values[(count - 1) / 2] + values[count / 2]) / 2,
                                 values[count - 1 - count / 4]};
}

double
bench_median(double *values, int64_t count)
{
    return bench_spread_of(values, count).median;
}
