/*
 * collective_times.c - seconds of collectives by a profile, for rates/check_collectives.py.
 *
 * Each line of the input is "PROFILE OP BYTES RANKS RANKS_PER_NODE", OP one of all_gather,
 * reduce_scatter, all_reduce, all_to_all, broadcast and sendrecv; BYTES as nccl-tests counts them.
 * The answer to a line is its typical time in microseconds.  Ranks of a group fill their nodes.
 * Arguments change every profile: collective_times [GROUP.KEY=VALUE...].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/ring.h"

static struct mw_hardware
load(const char *name, char **assignments)
{
    GError *error = NULL;
    struct mw_profile *profile = mw_hwprofile_load(name, &error);

    for (; profile && *assignments; assignments++)
        if (!mw_profile_set(profile, *assignments, &error))
            break;
    if (error) {
        fprintf(stderr, "collective_times: %s\n", error->message);
        exit(2);
    }
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    mw_profile_free(profile);
    return hardware;
}

static double
seconds_of(const struct mw_ring *ring, const char *op, double bytes)
{
    if (!strcmp(op, "all_gather") || !strcmp(op, "reduce_scatter"))
        return mw_ring_s(ring, bytes);
    if (!strcmp(op, "all_reduce"))
        return mw_ring_all_reduce_s(ring, bytes);
    if (!strcmp(op, "all_to_all"))
        return mw_ring_all_to_all_s(ring, bytes);
    if (!strcmp(op, "broadcast"))
        return mw_ring_broadcast_s(ring, bytes);
    if (!strcmp(op, "sendrecv"))
        return mw_ring_send_s(ring, bytes);
    fprintf(stderr, "collective_times: no op %s\n", op);
    exit(2);
}

int
main(int argc, char **argv)
{
    char profile[128], op[32], last[128] = "";
    struct mw_hardware hardware = {0};
    double bytes, ranks, ranks_per_node;

    while (scanf("%127s %31s %lf %lf %lf", profile, op, &bytes, &ranks, &ranks_per_node) == 5) {
        if (strcmp(profile, last))
            hardware = load(profile, argv + 1);
        g_strlcpy(last, profile, sizeof last);
        const struct mw_ring ring = mw_ring_of(&hardware, ranks, ranks_per_node, 1);
        printf("%.6g\n", 1e6 * seconds_of(&ring, op, bytes));
    }
    return 0;
}
