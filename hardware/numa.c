#include "hardware/numa.h"

#include <math.h>
#include <string.h>

/* Of more ranks than that a bound is taken. */
#define RANKS_MAX 64

/* row := row * (sum of x^j / j! for j <= most), up to x^ranks. */
static void
add_node(double *row, int64_t ranks, int64_t most)
{
    double next[RANKS_MAX + 1] = {0};
    double weight = 1;

    for (int64_t j = 0; j <= most; j++) {
        for (int64_t x = j; x <= ranks; x++)
            next[x] += row[x - j] * weight;
        weight /= (double)(j + 1);
    }
    memcpy(row, next, sizeof next);
}

/* The probability that no NUMA node has more than `most`: of the nodes^ranks ways to place the
 * ranks, those are ranks! times the coefficient of x^ranks in a product of exponential generating
 * functions, one of each NUMA node. */
static double
none_fuller(int64_t ranks, int64_t nodes, int64_t most)
{
    double row[RANKS_MAX + 1] = {1};
    double ways = 1;

    for (int64_t node = 0; node < nodes; node++)
        add_node(row, ranks, most);
    for (int64_t i = 1; i <= ranks; i++)
        ways *= (double)i / (double)nodes;
    return row[ranks] * ways;
}

double
mw_numa_fullest(int64_t ranks, int64_t nodes, bool bound)
{
    double mean = 0;
    double each = (double)ranks / (double)nodes;

    if (bound)
        return ceil(each);
    if (ranks > RANKS_MAX) /* the largest of as many normal variables as there are nodes */
        return fmin((double)ranks, each + sqrt(2 * each * log((double)nodes)));
    for (int64_t most = 0; most < ranks; most++)
        mean += 1 - none_fuller(ranks, nodes, most);
    return mean;
}

/* The fullest NUMA node moves what its ranks pinned there and its part of all the rest, at its part
 * of the memory's rate. */
double
mw_numa_update_params_per_s(const struct mw_hardware *hardware, int64_t ranks)
{
    double nodes = (double)hardware->host_numa_nodes, share = hardware->update_one_node_share;

    if (!(nodes > 1 && share > 0 && ranks > 0))
        return hardware->host_update_params_per_s;
    double fuller = mw_numa_fullest(ranks, hardware->host_numa_nodes, hardware->ranks_bound) *
                    nodes / (double)ranks;
    return hardware->host_update_params_per_s / (1 - share + share * fuller);
}
